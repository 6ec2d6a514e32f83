//! How vectors, matrices, quaternions and transforms are made.

use super::call::{Argument, argument_types};
use super::composite::{Held, component, construct};
use super::function::Checker;
use super::operator::is_composite;
use crate::environment::{Captured, Constructor};
use crate::number::Number;
use crate::typed_ast::{ComponentIndex, Expr, ExprType};
use polyloom_ir::{Code, Composite, CompositeKind, MAX_COMPONENTS, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

/// The shape and the type of elements that a call names by keywords.
#[derive(Default)]
struct Named {
    dtype: Option<Scalar>,
    /// Of a vector, one extent.
    shape: Option<SmallVec<[u16; 2]>>,
}

impl<'a> Checker<'_, '_, 'a> {
    /// `vec3(x, y, z)`, `vec3(x)`, `vec3()`, and of parts: `quat(vec3, w)`, `transform(vec3, quat)`.
    pub(super) fn construction(
        &mut self,
        composite: Composite,
        call: &'a ast::ExprCall,
        path: &[&'a str],
        span: Span,
    ) -> Expr {
        let says_again = call.arguments.keywords.iter().any(|keyword| {
            keyword.arg.as_ref().is_some_and(|name| matches!(name.as_str(), "shape" | "length" | "dtype"))
        });
        if says_again && !self.is_said_again(composite, call, path, span) {
            return Expr::error(span);
        }
        match self.arguments_without(call, &["shape", "length", "dtype"]) {
            Some(arguments) => self.construction_of(composite, arguments, path, span),
            None => Expr::error(span),
        }
    }

    /// Returns true if what the keywords say of a type that a name has already is so: `mat32(m, shape=(3, 2))`.
    fn is_said_again(&mut self, composite: Composite, call: &'a ast::ExprCall, path: &[&'a str], span: Span) -> bool {
        let (name, constructor) = (path.join("."), Constructor::of(composite.kind()));
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
        arguments: Vec<Argument<'a>>,
        path: &[&'a str],
        span: Span,
    ) -> Expr {
        let (elem, n) = (composite.elem(), composite.n_components());
        let name = path.join(".");
        let given = argument_types(&arguments);
        let parts: &[&str] = if matches!(composite, Composite::Transform { .. }) { &["p", "q"] } else { &[] };
        let is_named = arguments.iter().enumerate().any(|(place, argument)| match argument.name {
            Some(name) => parts.get(place) != Some(&name),
            None => false,
        });
        let mut components: Vec<Expr> = Vec::with_capacity(n);
        let mut held = Held::default();
        let mut fits = !is_named;
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
                    let value = self.hold(value, &mut held);
                    for index in 0..part.n_components() as u16 {
                        let of = component(value.clone(), part, ComponentIndex::Is(index), value.span);
                        components.push(self.convert(of, elem, value.span));
                    }
                }
                Some(_) => fits = false,
                None => return Expr::error(span),
            }
        }
        match components.len() {
            0 => components = (0..n).map(|_| Expr::constant(0, elem, span)).collect(),
            3 if matches!(composite, Composite::Transform { .. }) && has_parts => {
                // A translation alone turns nothing.
                components.extend([0, 0, 0].map(|zero| Expr::constant(zero, elem, span)));
                components.push(Expr::constant(Number::Int(1).convert(elem), elem, span));
            }
            1 if n > 1 && !matches!(composite, Composite::Quaternion { .. }) => {
                let value = self.hold(components.remove(0), &mut held);
                components = vec![value; n];
            }
            given if given != n => fits = false,
            _ => {}
        }
        if components.iter().any(Expr::is_error) {
            return Expr::error(span);
        }
        if !fits {
            let message = format!("`{name}` is not made of ({given})");
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
        constructor: Constructor,
        call: &'a ast::ExprCall,
        path: &[&'a str],
        span: Span,
    ) -> Expr {
        let name = path.join(".");
        if let Constructor::Quaternion | Constructor::Transformation = constructor {
            return self.rotation(constructor, call, path, span);
        }
        let Some(named) = self.named(constructor, call, &name) else {
            for arg in &call.arguments.args {
                self.expr(arg);
            }
            return Expr::error(span);
        };
        let mut named = named;
        let mut values: Vec<Expr> = Vec::with_capacity(call.arguments.args.len());
        for arg in &call.arguments.args {
            match self.meaning(arg) {
                Some(Captured::Type(scalar)) if named.dtype.is_none() && constructor.has_dtype() => {
                    named.dtype = Some(scalar);
                }
                _ => values.extend(self.positional(arg)),
            }
        }
        if values.iter().any(Expr::is_error) {
            return Expr::error(span);
        }
        match constructor {
            Constructor::Rows | Constructor::Columns => self.of_vectors(constructor, values, &name, span),
            Constructor::Identity => self.identity(&named, &values, &name, span),
            Constructor::QuatIdentity => {
                let elem = named.dtype.unwrap_or(Scalar::F32);
                match self.composite(CompositeKind::Quaternion, elem, &[], span) {
                    Some(composite) => self.fixed(composite, &[0, 0, 0, 1], &values, &name, span),
                    None => Expr::error(span),
                }
            }
            Constructor::TransformIdentity => {
                let elem = named.dtype.unwrap_or(Scalar::F32);
                match self.composite(CompositeKind::Transform, elem, &[], span) {
                    Some(composite) => self.fixed(composite, &[0, 0, 0, 0, 0, 0, 1], &values, &name, span),
                    None => Expr::error(span),
                }
            }
            Constructor::Vector | Constructor::Matrix => {
                let kind =
                    if constructor == Constructor::Vector { CompositeKind::Vector } else { CompositeKind::Matrix };
                // A value of the same kind gives its components.
                if let [value] = &values[..]
                    && let Some(Type::Composite(given)) = value.ty.as_value()
                    && given.kind() == kind
                    && named.shape.as_ref().is_none_or(|shape| *shape == given.shape())
                {
                    let composite = given.with_elem(named.dtype.unwrap_or(given.elem()));
                    let argument = Argument { name: None, value: value.clone() };
                    return self.construction_of(composite, vec![argument], path, span);
                }
                self.of_numbers(constructor, &named, values, &name, span)
            }
            Constructor::Quaternion | Constructor::Transformation => Expr::error(span),
        }
    }

    /// `quaternion(x, y, z, w, dtype=)`, `transformation(p, q, dtype=)`: their elements are what the arguments are of,
    /// or what `dtype` says.
    fn rotation(&mut self, constructor: Constructor, call: &'a ast::ExprCall, path: &[&'a str], span: Span) -> Expr {
        let mut dtype = None;
        let mut arguments = Vec::new();
        for arg in &call.arguments.args {
            arguments.extend(self.positional(arg).into_iter().map(|value| Argument { name: None, value }));
        }
        for keyword in &call.arguments.keywords {
            match keyword.arg.as_ref().map(|arg| arg.as_str()) {
                Some("dtype") => match self.meaning(&keyword.value) {
                    Some(Captured::Type(scalar)) => dtype = Some(scalar),
                    _ => {
                        let message = format!("`dtype` of `{}` is a scalar type", path.join("."));
                        return self.reject(Code::TypeMismatch, span, message, "write a type such as `float`");
                    }
                },
                name => arguments.push(Argument { name, value: self.expr(&keyword.value) }),
            }
        }
        if arguments.iter().any(|argument| argument.value.is_error()) {
            return Expr::error(span);
        }
        let elem = |ty: Type| ty.as_scalar().or_else(|| Some(ty.as_composite()?.elem()));
        let given = arguments.iter().find_map(|argument| elem(argument.value.ty.as_value()?));
        let kind = match constructor {
            Constructor::Quaternion => CompositeKind::Quaternion,
            _ => CompositeKind::Transform,
        };
        match self.composite(kind, dtype.or(given).unwrap_or(Scalar::F32), &[], span) {
            Some(composite) => self.construction_of(composite, arguments, path, span),
            None => Expr::error(span),
        }
    }

    /// Returns what the keywords of a call say; `None` if one of them is rejected.
    fn named(&mut self, constructor: Constructor, call: &'a ast::ExprCall, name: &str) -> Option<Named> {
        let takes: &[&str] = match constructor {
            Constructor::Vector => &["length", "dtype"],
            Constructor::Matrix => &["shape", "dtype"],
            Constructor::Identity => &["n", "dtype"],
            Constructor::QuatIdentity | Constructor::TransformIdentity => &["dtype"],
            Constructor::Rows | Constructor::Columns | Constructor::Quaternion | Constructor::Transformation => &[],
        };
        let mut named = Named::default();
        for keyword in &call.arguments.keywords {
            let span = self.span(keyword);
            match keyword.arg.as_ref().map(|arg| arg.as_str()).filter(|arg| takes.contains(arg)) {
                Some("dtype") => {
                    let Some(Captured::Type(scalar)) = self.meaning(&keyword.value) else {
                        let message = format!("`dtype` of `{name}` is a scalar type");
                        self.reject(Code::TypeMismatch, span, message, "write a type such as `float` or `int`");
                        return None;
                    };
                    named.dtype = Some(scalar);
                }
                Some(_) => {
                    let extents = crate::annotation::elements(&keyword.value);
                    let extents: Vec<Expr> = extents.iter().map(|extent| self.expr(extent)).collect();
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
    fn extents(&mut self, extents: &[Expr], span: Span) -> Option<SmallVec<[u16; 2]>> {
        let known = extents.iter().map(|extent| match extent.number() {
            Some(Number::Int(n)) if (1..=MAX_COMPONENTS as i128).contains(&n) => Some(n as u16),
            _ => None,
        });
        let known: Option<SmallVec<[u16; 2]>> = known.collect();
        if known.is_none() && !extents.iter().any(Expr::is_error) {
            let help = format!("write numbers from 1 to {MAX_COMPONENTS}");
            self.reject(Code::Unsupported, span, "the extents of a vector or matrix are constants", help);
        }
        known
    }

    /// `matrix_from_rows(a, b, …)`, `matrix_from_cols(a, b, …)`.
    fn of_vectors(&mut self, constructor: Constructor, vectors: Vec<Expr>, name: &str, span: Span) -> Expr {
        let as_vector = |vector: &Expr| match vector.ty.as_value() {
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
        let mut held = Held::default();
        let vectors: Vec<Expr> = vectors.into_iter().map(|vector| self.hold(vector, &mut held)).collect();
        let of = |vector: usize, place: usize| {
            component(vectors[vector].clone(), part, ComponentIndex::Is(place as u16), span)
        };
        let len = usize::from(len);
        let (rows, cols) = if constructor == Constructor::Rows { (n, len) } else { (len, n) };
        let Some(matrix) = self.composite(CompositeKind::Matrix, elem, &[rows, cols], span) else {
            return Expr::error(span);
        };
        let components = (0..rows * cols).map(|place| match constructor {
            Constructor::Rows => of(place / cols, place % cols),
            _ => of(place % cols, place / cols),
        });
        held.around(construct(matrix, components.collect(), span))
    }

    /// `identity(n, dtype)`.
    fn identity(&mut self, named: &Named, values: &[Expr], name: &str, span: Span) -> Expr {
        let extents = match (&named.shape, values) {
            (Some(shape), []) => Some(shape.clone()),
            (None, [n]) => self.extents(std::slice::from_ref(n), span),
            _ => {
                let help = format!("write `{name}(n=3, dtype=float)`");
                self.reject(Code::NoOverload, span, format!("`{name}` takes the number of rows"), help);
                None
            }
        };
        let Some(extents) = extents else { return Expr::error(span) };
        let [n] = extents[..] else {
            let help = format!("write `{name}(n=3, dtype=float)`");
            return self.reject(Code::NoOverload, span, format!("`{name}` takes one number, that of its rows"), help);
        };
        let n = usize::from(n);
        let elem = named.dtype.unwrap_or(Scalar::F32);
        let Some(matrix) = self.composite(CompositeKind::Matrix, elem, &[n, n], span) else {
            return Expr::error(span);
        };
        let diagonal: Vec<i64> = (0..n * n).map(|place| (place % (n + 1) == 0).into()).collect();
        self.fixed(matrix, &diagonal, &[], name, span)
    }

    /// A composite of known numbers, which takes no values.
    fn fixed(&mut self, composite: Composite, numbers: &[i64], values: &[Expr], name: &str, span: Span) -> Expr {
        if let Some(value) = values.first() {
            let help = format!("write `{name}()`, or `{name}(dtype=float)`");
            return self.reject(Code::NoOverload, value.span, format!("`{name}` takes no values"), help);
        }
        let elem = composite.elem();
        let component = |&n: &i64| Expr::constant(Number::Int(n.into()).convert(elem), elem, span);
        construct(composite, numbers.iter().map(component).collect(), span)
    }

    /// `vector(x, y, length=2)`, `matrix(a, b, c, d, shape=(2, 2))`.
    fn of_numbers(
        &mut self,
        constructor: Constructor,
        named: &Named,
        values: Vec<Expr>,
        name: &str,
        span: Span,
    ) -> Expr {
        let typed = values.iter().find_map(|value| value.ty.as_value().and_then(Type::as_scalar));
        let float = values.iter().any(|value| matches!(value.untyped(), Some(Number::Float(_))));
        let default = if float || values.is_empty() { Scalar::F32 } else { Scalar::I32 };
        let elem = named.dtype.or(typed).unwrap_or(default);
        let shape: Option<SmallVec<[usize; 2]>> = match (constructor, named.shape.as_deref()) {
            (Constructor::Vector, Some(&[len])) => Some(smallvec![len.into()]),
            (Constructor::Vector, None) if values.len() > 1 => Some(smallvec![values.len()]),
            (Constructor::Matrix, Some(&[rows, cols])) => Some(smallvec![rows.into(), cols.into()]),
            _ => None,
        };
        let kind = if constructor == Constructor::Vector { CompositeKind::Vector } else { CompositeKind::Matrix };
        let Some(shape) = shape else {
            let help = match constructor {
                Constructor::Vector => format!("write `{name}(length=3, dtype=float)`, or two values or more"),
                _ => format!("write `{name}(…, shape=(2, 2), dtype=float)`"),
            };
            return self.reject(Code::NoOverload, span, format!("`{name}` does not say how large it is"), help);
        };
        let Some(composite) = self.composite(kind, elem, &shape, span) else { return Expr::error(span) };
        let n = composite.n_components();
        let n_given = values.len();
        let values: Vec<Expr> = values
            .into_iter()
            .map(|value| match value.untyped() {
                Some(number) if number.adapts_to(elem) => self.adapt(value, elem.into()),
                _ => self.expect_value(value, elem.into(), Code::TypeMismatch, "the component"),
            })
            .collect();
        if values.iter().any(|value| value.is_error() || value.ty != ExprType::scalar(elem)) {
            return Expr::error(span);
        }
        let mut held = Held::default();
        let components = match <[Expr; 1]>::try_from(values) {
            Ok([value]) if n > 1 => vec![self.hold(value, &mut held); n],
            Ok([value]) => vec![value],
            Err(values) if values.is_empty() => (0..n).map(|_| Expr::constant(0, elem, span)).collect(),
            Err(values) => values,
        };
        if components.len() != n {
            let message = format!("{} has {n} components, and {n_given} are given", composite.python_name());
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
