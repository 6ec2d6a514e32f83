//! How vectors, matrices, quaternions and transforms are made.

use super::call::{CallArgument, argument_types};
use super::component_expr::{component, construct};
use super::function::FunctionChecker;
use super::operator::is_composite;
use super::temporaries::Temporaries;
use crate::builtin_function::CompositeConstructor;
use crate::environment::CapturedMeaning;
use crate::number::PythonNumber;
use crate::typed_ast::{ComponentIndex, ExprType, TypedExpr};
use polyloom_ir::{Code, Composite, CompositeKind, MAX_COMPONENTS, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

/// The shape and the type of elements that a call names by keywords.
#[derive(Default)]
struct NamedShape {
    dtype: Option<Scalar>,
    /// The extents; one for a vector.
    shape: Option<SmallVec<[u16; 2]>>,
}

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// `vec3(x, y, z)`, `vec3(x)`, `vec3()`, and of parts: `quat(vec3, w)`, `transform(vec3, quat)`.
    pub(super) fn construction(
        &mut self,
        composite: Composite,
        call: &'a ast::ExprCall,
        path: &[&'a str],
        span: Span,
    ) -> TypedExpr {
        let says_again = call.arguments.keywords.iter().any(|keyword| {
            keyword.arg.as_ref().is_some_and(|name| matches!(name.as_str(), "shape" | "length" | "dtype"))
        });
        if says_again && !self.is_said_again(composite, call, path, span) {
            return TypedExpr::error(span);
        }
        match self.arguments_without(call, &["shape", "length", "dtype"]) {
            Some(arguments) => self.construction_of(composite, arguments, path, span),
            None => TypedExpr::error(span),
        }
    }

    /// Returns true if what the keywords say of a type that a name has already is so: `mat32(m, shape=(3, 2))`.
    fn is_said_again(&mut self, composite: Composite, call: &'a ast::ExprCall, path: &[&'a str], span: Span) -> bool {
        let (name, constructor) = (path.join("."), CompositeConstructor::of(composite.kind()));
        let Some(named) = self.named(constructor, call, &name) else { return false };
        let is_shape = named.shape.as_ref().is_none_or(|shape| *shape == composite.shape());
        if is_shape && named.dtype.is_none_or(|dtype| dtype == composite.elem()) {
            return true;
        }
        let message = format!("`{name}` is the type {}, and nothing else", composite.python_name());
        self.reject(Code::NoOverload, span, message, "leave its shape and type out, or make another type");
        false
    }

    fn construction_of(
        &mut self,
        composite: Composite,
        arguments: Vec<CallArgument<'a>>,
        path: &[&'a str],
        span: Span,
    ) -> TypedExpr {
        let (elem, n) = (composite.elem(), composite.n_components());
        let name = path.join(".");
        let given = argument_types(&arguments);
        let parts: &[&str] = if matches!(composite, Composite::Transform { .. }) { &["p", "q"] } else { &[] };
        let is_named = arguments.iter().enumerate().any(|(place, argument)| match argument.name {
            Some(name) => parts.get(place) != Some(&name),
            None => false,
        });
        let mut components: Vec<TypedExpr> = Vec::with_capacity(n);
        let mut held = Temporaries::default();
        let mut fits = !is_named;
        // How many values there are, if they are all scalars; and the composite that stands alone.
        let mut n_values = (!is_named).then_some(arguments.len());
        let mut copied = None;
        let mut has_other_scalars = false;
        let is_alone = arguments.len() == 1;
        // Parts are evaluated before what is made of them, and so must be whatever stands before a part.
        let has_parts = arguments.iter().any(|argument| is_composite(&argument.value));
        for argument in arguments {
            let value = argument.value;
            if value.untyped().is_some_and(|number| number.adapts_to(elem)) {
                components.push(self.adapt(value, elem.into()));
                continue;
            }
            let value = self.settle(value);
            match value.ty.as_value() {
                Some(Type::Scalar(scalar)) if scalar == elem && has_parts => {
                    components.push(self.hold(value, &mut held));
                }
                Some(Type::Scalar(scalar)) if scalar == elem => components.push(value),
                Some(Type::Composite(part)) if may_be_part(part, composite, components.len()) => {
                    n_values = None;
                    copied = Some(part).filter(|_| is_alone);
                    let value = self.hold(value, &mut held);
                    for index in 0..part.n_components() as u16 {
                        let of = component(value.clone(), part, ComponentIndex::Is(index), value.span);
                        components.push(self.convert(of, elem, value.span));
                    }
                }
                Some(ty) => {
                    fits = false;
                    has_other_scalars |= ty.as_scalar().is_some();
                    if ty.as_scalar().is_none() {
                        n_values = None;
                        copied = ty.as_composite().filter(|_| is_alone);
                    }
                }
                None => return TypedExpr::error(span),
            }
        }
        match components.len() {
            0 => components = (0..n).map(|_| TypedExpr::constant(0, elem, span)).collect(),
            3 if matches!(composite, Composite::Transform { .. }) && has_parts => {
                // A translation alone turns nothing.
                components.extend([0, 0, 0].map(|zero| TypedExpr::constant(zero, elem, span)));
                components.push(TypedExpr::constant(PythonNumber::Int(1).convert(elem), elem, span));
            }
            1 if n > 1 && !matches!(composite, Composite::Quaternion { .. }) => {
                let value = self.hold(components.remove(0), &mut held);
                components = vec![value; n];
            }
            given if given != n => fits = false,
            _ => {}
        }
        if components.iter().any(TypedExpr::is_error) {
            return TypedExpr::error(span);
        }
        if !fits {
            let what = ConstructedShape(composite);
            let message = match n_values {
                Some(1) if has_other_scalars => {
                    format!(
                        "the value used to fill this {} is expected to be of the type `{}`",
                        what.kind(),
                        elem.python_name()
                    )
                }
                Some(_) if has_other_scalars => format!(
                    "all values used to initialize this {} are expected to be of the type `{}`",
                    what.kind(),
                    elem.python_name()
                ),
                Some(n) if matches!(composite, Composite::Transform { .. }) => {
                    format!(
                        "incompatible number of values given ({n}) when constructing a transform; expected 0, 1, or 7"
                    )
                }
                Some(n) => format!("incompatible number of values given ({n}) when constructing a {what}"),
                None => match copied.filter(|part| ConstructedShape(*part).kind() == what.kind()) {
                    Some(part) if part.shape() != composite.shape() => {
                        format!("incompatible {what} given when copy constructing a {}", ConstructedShape(part))
                    }
                    _ => format!("`{name}` is not made of ({given})"),
                },
            };
            let help = match composite {
                Composite::Matrix { .. } if given.contains("vec") => {
                    "make a matrix of vectors with `matrix_from_rows` or `matrix_from_cols`".to_owned()
                }
                _ => format!("write its {n} components, each a {}", elem.python_name()),
            };
            return self.reject(Code::NoOverload, span, message, help);
        }
        held.around(construct(composite, components, span))
    }

    /// A call of a constructor that is no type.
    pub(super) fn constructor(
        &mut self,
        constructor: CompositeConstructor,
        call: &'a ast::ExprCall,
        path: &[&'a str],
        span: Span,
    ) -> TypedExpr {
        let name = path.join(".");
        if let CompositeConstructor::Quaternion | CompositeConstructor::Transformation = constructor {
            return self.rotation(constructor, call, path, span);
        }
        let Some(named) = self.named(constructor, call, &name) else {
            for arg in &call.arguments.args {
                self.expr(arg);
            }
            return TypedExpr::error(span);
        };
        let mut named = named;
        let mut values: Vec<TypedExpr> = Vec::with_capacity(call.arguments.args.len());
        for arg in &call.arguments.args {
            match self.meaning(arg) {
                Some(CapturedMeaning::Type(scalar)) if named.dtype.is_none() && constructor.has_dtype() => {
                    named.dtype = Some(scalar);
                }
                _ => values.extend(self.positional(arg)),
            }
        }
        if values.iter().any(TypedExpr::is_error) {
            return TypedExpr::error(span);
        }
        match constructor {
            CompositeConstructor::Rows | CompositeConstructor::Columns => {
                self.of_vectors(constructor, values, &name, span)
            }
            CompositeConstructor::Identity => self.identity(&named, &values, &name, span),
            CompositeConstructor::QuatIdentity => {
                let elem = named.dtype.unwrap_or(Scalar::F32);
                match self.composite(CompositeKind::Quaternion, elem, &[], span) {
                    Some(composite) => self.fixed(composite, &[0, 0, 0, 1], &values, &name, span),
                    None => TypedExpr::error(span),
                }
            }
            CompositeConstructor::TransformIdentity => {
                let elem = named.dtype.unwrap_or(Scalar::F32);
                match self.composite(CompositeKind::Transform, elem, &[], span) {
                    Some(composite) => self.fixed(composite, &[0, 0, 0, 0, 0, 0, 1], &values, &name, span),
                    None => TypedExpr::error(span),
                }
            }
            CompositeConstructor::Vector | CompositeConstructor::Matrix => {
                let kind = if constructor == CompositeConstructor::Vector {
                    CompositeKind::Vector
                } else {
                    CompositeKind::Matrix
                };
                // A value of the same kind gives its components.
                if let [value] = &values[..]
                    && let Some(Type::Composite(given)) = value.ty.as_value()
                    && given.kind() == kind
                    && named.shape.as_ref().is_none_or(|shape| *shape == given.shape())
                {
                    let composite = given.with_elem(named.dtype.unwrap_or(given.elem()));
                    let argument = CallArgument { name: None, value: value.clone() };
                    return self.construction_of(composite, vec![argument], path, span);
                }
                self.of_numbers(constructor, &named, values, &name, span)
            }
            CompositeConstructor::Quaternion | CompositeConstructor::Transformation => TypedExpr::error(span),
        }
    }

    /// `quaternion(x, y, z, w, dtype=)`, `transformation(p, q, dtype=)`: their elements are what the arguments are of,
    /// or what `dtype` says.
    fn rotation(
        &mut self,
        constructor: CompositeConstructor,
        call: &'a ast::ExprCall,
        path: &[&'a str],
        span: Span,
    ) -> TypedExpr {
        let mut dtype = None;
        let mut arguments = Vec::new();
        for arg in &call.arguments.args {
            arguments.extend(self.positional(arg).into_iter().map(|value| CallArgument { name: None, value }));
        }
        for keyword in &call.arguments.keywords {
            match keyword.arg.as_ref().map(|arg| arg.as_str()) {
                Some("dtype") => match self.meaning(&keyword.value) {
                    Some(CapturedMeaning::Type(scalar)) => dtype = Some(scalar),
                    _ => {
                        let message = format!("`dtype` of `{}` is a scalar type", path.join("."));
                        return self.reject(Code::TypeMismatch, span, message, "write a type such as `float`");
                    }
                },
                name => arguments.push(CallArgument { name, value: self.expr(&keyword.value) }),
            }
        }
        if arguments.iter().any(|argument| argument.value.is_error()) {
            return TypedExpr::error(span);
        }
        let elem = |ty: Type| ty.as_scalar().or_else(|| Some(ty.as_composite()?.elem()));
        let given = arguments.iter().find_map(|argument| elem(argument.value.ty.as_value()?));
        let kind = match constructor {
            CompositeConstructor::Quaternion => CompositeKind::Quaternion,
            _ => CompositeKind::Transform,
        };
        match self.composite(kind, dtype.or(given).unwrap_or(Scalar::F32), &[], span) {
            Some(composite) => self.construction_of(composite, arguments, path, span),
            None => TypedExpr::error(span),
        }
    }

    /// Returns what the keywords of a call say; `None` if one of them is rejected.
    fn named(&mut self, constructor: CompositeConstructor, call: &'a ast::ExprCall, name: &str) -> Option<NamedShape> {
        let takes: &[&str] = match constructor {
            CompositeConstructor::Vector => &["length", "dtype"],
            CompositeConstructor::Matrix => &["shape", "dtype"],
            CompositeConstructor::Identity => &["n", "dtype"],
            CompositeConstructor::QuatIdentity | CompositeConstructor::TransformIdentity => &["dtype"],
            CompositeConstructor::Rows
            | CompositeConstructor::Columns
            | CompositeConstructor::Quaternion
            | CompositeConstructor::Transformation => &[],
        };
        let mut named = NamedShape::default();
        for keyword in &call.arguments.keywords {
            let span = self.span(keyword);
            match keyword.arg.as_ref().map(|arg| arg.as_str()).filter(|arg| takes.contains(arg)) {
                Some("dtype") => {
                    let Some(CapturedMeaning::Type(scalar)) = self.meaning(&keyword.value) else {
                        let message = format!("`dtype` of `{name}` is a scalar type");
                        self.reject(Code::TypeMismatch, span, message, "write a type such as `float` or `int`");
                        return None;
                    };
                    named.dtype = Some(scalar);
                }
                Some(_) => {
                    let extents = crate::annotation::elements(&keyword.value);
                    let extents: Vec<TypedExpr> = extents.iter().map(|extent| self.expr(extent)).collect();
                    let n_values = call.arguments.args.len();
                    if let (CompositeConstructor::Vector, 2.., [extent]) = (constructor, n_values, &extents[..])
                        && let Some(PythonNumber::Int(length)) = extent.number()
                        && length > MAX_COMPONENTS as i128
                    {
                        let message = format!(
                            "incompatible number of values given ({n_values}) when constructing a vector of length {length}"
                        );
                        let help =
                            format!("write one value for each component, of which there are up to {MAX_COMPONENTS}");
                        self.reject(Code::NoOverload, span, message, help);
                        return None;
                    }
                    named.shape = Some(self.extents(&extents, span)?);
                }
                None => {
                    let known = takes.iter().map(|arg| format!("`{arg}=`")).collect::<Vec<_>>().join(" and ");
                    let help =
                        if takes.is_empty() { "it takes vectors".to_owned() } else { format!("it knows {known}") };
                    self.reject(Code::NoOverload, span, format!("`{name}` does not take this by name"), help);
                    return None;
                }
            }
        }
        Some(named)
    }

    /// Extents that are constants.
    fn extents(&mut self, extents: &[TypedExpr], span: Span) -> Option<SmallVec<[u16; 2]>> {
        let known = extents.iter().map(|extent| match extent.number() {
            Some(PythonNumber::Int(n)) if (1..=MAX_COMPONENTS as i128).contains(&n) => Some(n as u16),
            _ => None,
        });
        let known: Option<SmallVec<[u16; 2]>> = known.collect();
        if known.is_none() && !extents.iter().any(TypedExpr::is_error) {
            let help = format!("write numbers from 1 to {MAX_COMPONENTS}");
            self.reject(Code::Unsupported, span, "the extents of a vector or matrix are constants", help);
        }
        known
    }

    /// `matrix_from_rows(a, b, …)`, `matrix_from_cols(a, b, …)`.
    fn of_vectors(
        &mut self,
        constructor: CompositeConstructor,
        vectors: Vec<TypedExpr>,
        name: &str,
        span: Span,
    ) -> TypedExpr {
        let as_vector = |vector: &TypedExpr| match vector.ty.as_value() {
            Some(Type::Composite(Composite::Vector { elem, len })) => Some((elem, len)),
            _ => None,
        };
        let first = vectors.first().and_then(as_vector);
        let n = vectors.len();
        let Some((elem, len)) = first.filter(|_| vectors.iter().all(|v| as_vector(v) == first) && n <= 255) else {
            let help = "write vectors of one length and one type: `a, b, c`";
            return self.reject(Code::NoOverload, span, format!("`{name}` makes a matrix of vectors"), help);
        };
        let part = Composite::Vector { elem, len };
        let mut held = Temporaries::default();
        let vectors: Vec<TypedExpr> = vectors.into_iter().map(|vector| self.hold(vector, &mut held)).collect();
        let of = |vector: usize, place: usize| {
            component(vectors[vector].clone(), part, ComponentIndex::Is(place as u16), span)
        };
        let len = usize::from(len);
        let (rows, cols) = if constructor == CompositeConstructor::Rows { (n, len) } else { (len, n) };
        let Some(matrix) = self.composite(CompositeKind::Matrix, elem, &[rows, cols], span) else {
            return TypedExpr::error(span);
        };
        let components = (0..rows * cols).map(|place| match constructor {
            CompositeConstructor::Rows => of(place / cols, place % cols),
            _ => of(place % cols, place / cols),
        });
        held.around(construct(matrix, components.collect(), span))
    }

    /// `identity(n, dtype)`.
    fn identity(&mut self, named: &NamedShape, values: &[TypedExpr], name: &str, span: Span) -> TypedExpr {
        let extents = match (&named.shape, values) {
            (Some(shape), []) => Some(shape.clone()),
            (None, [n]) => self.extents(std::slice::from_ref(n), span),
            _ => {
                let help = format!("write `{name}(n=3, dtype=float)`");
                self.reject(Code::NoOverload, span, format!("`{name}` takes the number of rows"), help);
                None
            }
        };
        let Some(extents) = extents else { return TypedExpr::error(span) };
        let [n] = extents[..] else {
            let help = format!("write `{name}(n=3, dtype=float)`");
            return self.reject(Code::NoOverload, span, format!("`{name}` takes one number, that of its rows"), help);
        };
        let n = usize::from(n);
        let elem = named.dtype.unwrap_or(Scalar::F32);
        let Some(matrix) = self.composite(CompositeKind::Matrix, elem, &[n, n], span) else {
            return TypedExpr::error(span);
        };
        let diagonal: Vec<i64> = (0..n * n).map(|place| (place % (n + 1) == 0).into()).collect();
        self.fixed(matrix, &diagonal, &[], name, span)
    }

    /// A composite of known numbers, which takes no values.
    fn fixed(
        &mut self,
        composite: Composite,
        numbers: &[i64],
        values: &[TypedExpr],
        name: &str,
        span: Span,
    ) -> TypedExpr {
        if let Some(value) = values.first() {
            let help = format!("write `{name}()`, or `{name}(dtype=float)`");
            return self.reject(Code::NoOverload, value.span, format!("`{name}` takes no values"), help);
        }
        let elem = composite.elem();
        let component = |&n: &i64| TypedExpr::constant(PythonNumber::Int(n.into()).convert(elem), elem, span);
        construct(composite, numbers.iter().map(component).collect(), span)
    }

    /// `vector(x, y, length=2)`, `matrix(a, b, c, d, shape=(2, 2))`.
    fn of_numbers(
        &mut self,
        constructor: CompositeConstructor,
        named: &NamedShape,
        values: Vec<TypedExpr>,
        name: &str,
        span: Span,
    ) -> TypedExpr {
        let typed = values.iter().find_map(|value| value.ty.as_value().and_then(Type::as_scalar));
        let float = values.iter().any(|value| matches!(value.untyped(), Some(PythonNumber::Float(_))));
        let default = if float || values.is_empty() { Scalar::F32 } else { Scalar::I32 };
        let elem = named.dtype.or(typed).unwrap_or(default);
        let shape: Option<SmallVec<[usize; 2]>> = match (constructor, named.shape.as_deref()) {
            (CompositeConstructor::Vector, Some(&[len])) => Some(smallvec![len.into()]),
            (CompositeConstructor::Vector, None) if values.len() > 1 => Some(smallvec![values.len()]),
            (CompositeConstructor::Matrix, Some(&[rows, cols])) => Some(smallvec![rows.into(), cols.into()]),
            _ => None,
        };
        let kind =
            if constructor == CompositeConstructor::Vector { CompositeKind::Vector } else { CompositeKind::Matrix };
        let Some(shape) = shape else {
            let help = match constructor {
                CompositeConstructor::Vector => format!("write `{name}(length=3, dtype=float)`, or two values or more"),
                _ => format!("write `{name}(…, shape=(2, 2), dtype=float)`"),
            };
            let message = match (constructor, values.is_empty()) {
                (CompositeConstructor::Vector, true) => {
                    "the `length` argument must be specified when zero-initializing a vector"
                }
                (CompositeConstructor::Vector, false) => {
                    "the `length` argument must be specified when filling a vector"
                }
                (_, true) => "the `shape` argument must be specified when zero-initializing a matrix",
                (_, false) => "the `shape` argument must be specified when initializing a matrix by value",
            };
            return self.reject(Code::NoOverload, span, message, help);
        };
        let Some(composite) = self.composite(kind, elem, &shape, span) else { return TypedExpr::error(span) };
        let n = composite.n_components();
        let n_given = values.len();
        if let [value] = &values[..]
            && let Some(Type::Composite(part)) = value.ty.as_value()
            && ConstructedShape(part).kind() == ConstructedShape(composite).kind()
        {
            let (what, of) = (ConstructedShape(composite), ConstructedShape(part));
            let message = format!("incompatible {what} given when copy constructing a {of}");
            return self.reject(
                Code::NoOverload,
                span,
                message,
                "write its components, or the shape of what is copied",
            );
        }
        if let [value] = &values[..]
            && let Some(Type::Scalar(scalar)) = value.ty.as_value()
            && scalar != elem
        {
            let kind = ConstructedShape(composite).kind();
            let message =
                format!("the value used to fill this {kind} is expected to be of the type `{}`", elem.python_name());
            let help = self.conversion_help(value, elem);
            return self.reject(Code::TypeMismatch, value.span, message, help);
        }
        let values: Vec<TypedExpr> = values
            .into_iter()
            .map(|value| match value.untyped() {
                Some(number) if number.adapts_to(elem) => self.adapt(value, elem.into()),
                _ => self.expect_value(value, elem.into(), Code::TypeMismatch, "the component"),
            })
            .collect();
        if values.iter().any(|value| value.is_error() || value.ty != ExprType::scalar(elem)) {
            return TypedExpr::error(span);
        }
        let mut held = Temporaries::default();
        let components = match <[TypedExpr; 1]>::try_from(values) {
            Ok([value]) if n > 1 => vec![self.hold(value, &mut held); n],
            Ok([value]) => vec![value],
            Err(values) if values.is_empty() => (0..n).map(|_| TypedExpr::constant(0, elem, span)).collect(),
            Err(values) => values,
        };
        if components.len() != n {
            let what = ConstructedShape(composite);
            let message = format!("incompatible number of values given ({n_given}) when constructing a {what}");
            return self.reject(Code::NoOverload, span, message, "write one value for each component, or one for all");
        }
        held.around(construct(composite, components, span))
    }

    /// The composite of this kind, unless there is none.
    fn composite(&mut self, kind: CompositeKind, elem: Scalar, shape: &[usize], span: Span) -> Option<Composite> {
        let shape: SmallVec<[i128; 2]> = shape.iter().map(|&extent| extent as i128).collect();
        match Composite::new(kind, elem, &shape) {
            Ok(composite) => Some(composite),
            Err(message) => {
                self.reject(Code::Unsupported, span, message, "write another shape or another `dtype`");
                None
            }
        }
    }
}

/// Returns true if a composite is made of parts such as this one, after as many components: of the same kind but
/// another element, or of smaller vectors; a transform of a vector and a quaternion.
fn may_be_part(part: Composite, whole: Composite, n_before: usize) -> bool {
    if part.with_elem(whole.elem()) == whole {
        return true;
    }
    let fits = match whole {
        Composite::Matrix { .. } => false,
        Composite::Transform { elem } if n_before == 0 => part == Composite::Vector { elem, len: 3 },
        Composite::Transform { elem } => n_before == 3 && part == Composite::Quaternion { elem },
        Composite::Vector { .. } | Composite::Quaternion { .. } => matches!(part, Composite::Vector { .. }),
    };
    fits && part.elem() == whole.elem()
}

/// What a constructor makes, as messages have it: `vector of length 3`, `matrix of shape (2, 2)`.
struct ConstructedShape(Composite);

impl ConstructedShape {
    fn kind(&self) -> &'static str {
        match self.0 {
            Composite::Vector { .. } => "vector",
            Composite::Matrix { .. } => "matrix",
            Composite::Quaternion { .. } => "quaternion",
            Composite::Transform { .. } => "transform",
        }
    }
}

impl std::fmt::Display for ConstructedShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shape = self.0.shape();
        match (self.0, &shape[..]) {
            (Composite::Vector { .. }, [len]) => write!(f, "vector of length {len}"),
            (Composite::Matrix { .. }, [rows, cols]) => write!(f, "matrix of shape ({rows}, {cols})"),
            _ => f.write_str(self.kind()),
        }
    }
}
