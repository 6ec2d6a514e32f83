//! Types as annotations spell them.
//!
//! `float`, `int` and `bool` are `float32`, `int32` and `bool`; arrays are `array(dtype=float, ndim=2)`,
//! `array2d(dtype=float)`, `array[float]` or `array2d[float]`; any of them may be a string, as `from __future__ import
//! annotations` makes of them.

use crate::constant;
use crate::dotted_path::dotted;
use crate::environment::{CapturedMeaning, NameEnvironment};
use crate::local_array::LocalArray;
use crate::members;
use crate::package_names::{PACKAGES, package_members};
use crate::param_type::{ParamType, ScalarSet, TypePattern};
use crate::structure::{StructType, ValueType};
use polyloom_ir::{Code, Composite, CompositeKind, MAX_DIMS, Scalar, Type};
use ruff_python_ast::{self as ast, Expr, Number};
use ruff_text_size::{Ranged, TextRange};
use smallvec::{SmallVec, smallvec};

/// Strings longer than this are not read as annotations.
const MAX_TEXT: usize = 500;

/// Describes what is wrong with an annotation.
#[derive(Clone)]
pub(crate) struct AnnotationError {
    pub(crate) code: Code,
    pub(crate) range: TextRange,
    pub(crate) message: String,
    pub(crate) help: String,
}

/// Reads annotations of one file.
pub(crate) struct AnnotationReader<'a> {
    /// The file's text: string annotations are parsed in place.
    pub(crate) text: &'a str,
    /// Holds what names mean.
    pub(crate) lookup: &'a dyn Fn(&[&str]) -> Option<CapturedMeaning>,
}

/// The element of an array type.
#[derive(Clone, Copy)]
enum ElementType {
    Scalar(Scalar),
    Composite(Composite),
    Struct(StructType),
    Generic(TypePattern),
}

/// The type that a text spells, as an annotation would in these surroundings; names of the package need no prefix.
///
/// # Errors
///
/// What is wrong with it, in words.
pub fn read_type(text: &str, environment: &dyn NameEnvironment) -> Result<ValueType, String> {
    let unreadable = || format!("`{text}` is not a type");
    let parsed = ruff_python_parser::parse_expression(text).map_err(|_| unreadable())?;
    let lookup = |path: &[&str]| {
        let own = || match *path {
            [name] => members::python_builtin(name).or_else(|| members::package_member(name)),
            ["types", name] => members::types_member(name),
            _ => None,
        };
        environment.lookup(path).or_else(own)
    };
    let reader = AnnotationReader { text, lookup: &lookup };
    match reader.read(parsed.expr()) {
        Ok(ParamType::Exact(ty)) => Ok(ty),
        Ok(_) => Err(unreadable()),
        Err(error) => Err(error.message),
    }
}

impl AnnotationReader<'_> {
    /// The types of a function's parameters, `missing` where there is no annotation; `None` if one is wrong.
    pub(crate) fn parameter_types(
        &self,
        def: &ast::StmtFunctionDef,
        missing: Option<ParamType>,
    ) -> Option<SmallVec<[ParamType; 4]>> {
        let annotations = def.parameters.iter_non_variadic_params().map(|p| p.parameter.annotation.as_deref());
        annotations.map(|annotation| annotation.map_or(missing, |a| self.read(a).ok())).collect()
    }

    /// The type of a parameter or variable.
    pub(crate) fn read(&self, expr: &Expr) -> Result<ParamType, AnnotationError> {
        let ty = self.read_type(expr)?;
        if let ParamType::Exact(exact) = ty
            && let Some((code, message, help)) = exact.why_no_parameter()
        {
            return Err(AnnotationError { code, range: expr.range(), message, help });
        }
        Ok(ty)
    }

    fn read_type(&self, expr: &Expr) -> Result<ParamType, AnnotationError> {
        match expr {
            Expr::StringLiteral(literal) => self.in_string(literal, |inner| self.read(inner)),
            Expr::Name(_) | Expr::Attribute(_) => self.named(expr),
            Expr::Call(call) => match self.captured(&call.func)? {
                CapturedMeaning::ArrayConstructor(ndim) => self.array_call(call, ndim),
                CapturedMeaning::IndexedArrayConstructor(ndim) => indexed(self.array_call(call, ndim)?, expr),
                CapturedMeaning::TypeConstructor(kind) => self.composite_call(call, kind),
                _ => Err(self.not_a_type(expr)),
            },
            Expr::BinOp(union) if union.op == ast::Operator::BitOr => Err(AnnotationError {
                code: Code::BadAnnotation,
                range: expr.range(),
                message: "Union type annotations are only supported at Python scope".to_owned(),
                help: format!("write one type, or one function for each: {}", self.types_help()),
            }),
            Expr::Subscript(subscript) if is_tuple(&subscript.value) => {
                let parts = elements(&subscript.slice).iter().filter(|part| !part.is_ellipsis_literal_expr());
                parts.map(|part| self.read(part)).collect::<Result<Vec<_>, _>>()?;
                Ok(ParamType::Tuple)
            }
            Expr::Subscript(subscript) => match self.captured(&subscript.value)? {
                CapturedMeaning::ArrayConstructor(ndim) => self.array_subscript(subscript, ndim),
                CapturedMeaning::IndexedArrayConstructor(ndim) => indexed(self.array_subscript(subscript, ndim)?, expr),
                CapturedMeaning::ReferenceConstructor => match self.read(&subscript.slice)? {
                    // A reference to an array is the array itself, since an array refers to its elements, whoever has
                    // it.
                    ParamType::Exact(ty) if ty.is_array() => Ok(ParamType::Exact(ty)),
                    ParamType::Exact(ty) => Ok(ParamType::Reference(ty)),
                    _ => Err(AnnotationError {
                        code: Code::BadAnnotation,
                        range: subscript.slice.range(),
                        message: "a reference is to one type".to_owned(),
                        help: "write `ref[float]`".to_owned(),
                    }),
                },
                // `Callable[[float], float]`
                CapturedMeaning::Annotation(ParamType::Function) => Ok(ParamType::Function),
                _ => Err(self.not_a_type(expr)),
            },
            _ => Err(self.not_a_type(expr)),
        }
    }

    /// The types of a function's results; `None` if the annotation leaves them to inference.
    pub(crate) fn read_results(&self, expr: &Expr) -> Result<Option<SmallVec<[ValueType; 2]>>, AnnotationError> {
        match expr {
            Expr::NoneLiteral(_) => return Ok(Some(SmallVec::new())),
            Expr::StringLiteral(literal) => return self.in_string(literal, |inner| self.read_results(inner)),
            Expr::Subscript(subscript) if is_tuple(&subscript.value) => {
                return self.read_tuple(elements(&subscript.slice));
            }
            Expr::Tuple(tuple) => return self.read_tuple(&tuple.elts),
            Expr::Name(_) | Expr::Attribute(_) if matches!(self.captured(expr), Ok(CapturedMeaning::Unsupported(of)) if &*of == "NoneType") =>
            {
                return Ok(Some(SmallVec::new()));
            }
            _ => {}
        }
        Ok(match self.read(expr)? {
            ParamType::Exact(ty) => Some(smallvec![ty]),
            _ => None,
        })
    }

    /// The array that `fixedarray(dtype=…, shape=…)` annotates a result with; `None` if it is no such annotation.
    pub(crate) fn read_fixed_array(&self, expr: &Expr) -> Option<LocalArray> {
        let call = expr.as_call_expr()?;
        let path = dotted(&call.func)?;
        let (&"fixedarray", owner) = path.split_last()? else { return None };
        if !matches!((self.lookup)(owner)?, CapturedMeaning::Module(module) if PACKAGES.contains(&&*module)) {
            return None;
        }
        let elem = match self.read(call.arguments.find_argument_value("dtype", 0)?).ok()? {
            ParamType::Exact(ValueType::Plain(ty @ (Type::Scalar(_) | Type::Composite(_)))) => ty,
            _ => return None,
        };
        let extents = elements(call.arguments.find_argument_value("shape", 1)?).iter();
        let shape = extents.map(|extent| match constant::evaluate(extent, self.lookup)? {
            CapturedMeaning::Int(n) => u16::try_from(n).ok().filter(|n| *n > 0),
            _ => None,
        });
        Some(LocalArray { elem, shape: shape.collect::<Option<_>>()? })
    }

    fn read_tuple(&self, elts: &[Expr]) -> Result<Option<SmallVec<[ValueType; 2]>>, AnnotationError> {
        let mut types = SmallVec::new();
        for elt in elts {
            match self.read(elt)? {
                ParamType::Exact(ty) => types.push(ty),
                _ => return Ok(None),
            }
        }
        Ok(Some(types))
    }

    fn in_string<T>(
        &self,
        literal: &ast::ExprStringLiteral,
        read: impl FnOnce(&Expr) -> Result<T, AnnotationError>,
    ) -> Result<T, AnnotationError> {
        let unreadable = || AnnotationError {
            code: Code::BadAnnotation,
            range: literal.range(),
            message: "this string is not an annotation".to_owned(),
            help: "write a type such as `\"float\"`".to_owned(),
        };
        let mut parts = literal.value.iter();
        let (Some(part), None) = (parts.next(), parts.next()) else { return Err(unreadable()) };
        if part.value.len() > MAX_TEXT || part.value.contains(['"', '\'', '\\']) {
            return Err(unreadable());
        }
        let parsed = ruff_python_parser::parse_string_annotation(self.text, part).map_err(|_| unreadable())?;
        read(parsed.expr())
    }

    fn captured(&self, expr: &Expr) -> Result<CapturedMeaning, AnnotationError> {
        let Some(path) = dotted(expr) else { return Err(self.not_a_type(expr)) };
        if let Some(captured) = (self.lookup)(&path) {
            return Ok(captured);
        }
        if let [name] = path[..]
            && let Some(captured) = members::python_builtin(name)
        {
            return Ok(captured);
        }
        if let [name @ ("str" | "list" | "dict" | "tuple" | "set" | "complex" | "object" | "bytes")] = path[..] {
            return Err(AnnotationError {
                code: Code::BadAnnotation,
                range: expr.range(),
                message: format!("`{name}` is not a type of kernels"),
                help: self.types_help(),
            });
        }
        if path.len() > 1 && path.last() == Some(&"ndarray") {
            return Err(self.no_elements(expr));
        }
        let name = path.join(".");
        let last = path.last().copied().unwrap_or_default();
        let near = polyloom_ir::diagnostic::near_names(last, package_members());
        let is_type = |n: &&str| Scalar::from_python_name(n).is_some() || n.starts_with("array") || is_composite(n);
        let is_python = |n: &&str| matches!(*n, "float" | "int" | "bool");
        let exact = [last].into_iter().find(|n| is_type(n) || is_python(n));
        let python = polyloom_ir::diagnostic::near_names(last, ["float", "int", "bool"]).into_iter().next();
        let types = exact.or(python.filter(|_| path.len() == 1)).or_else(|| near.into_iter().find(is_type));
        let of_package = match &path[..] {
            [_] => true,
            [owner @ .., _] => {
                matches!((self.lookup)(owner), Some(CapturedMeaning::Module(m)) if PACKAGES.contains(&&*m))
            }
            [] => false,
        };
        let types = types.filter(|_| of_package).or_else(|| (last == "ndarray").then_some("array"));
        Err(AnnotationError {
            code: if path.len() > 1 { Code::UnknownBuiltin } else { Code::UnknownName },
            range: expr.range(),
            message: format!("`{name}` is not defined"),
            help: match types {
                Some(near) if is_python(&near) => format!("did you mean `{near}`?"),
                Some("array") => format!("write `{}.array(dtype=float)`", self.package()),
                Some(near) => format!("did you mean `{}.{near}`?", self.package()),
                None => self.types_help(),
            },
        })
    }

    /// The name by which the file knows the package, as far as its names tell.
    fn package(&self) -> &'static str {
        let is_package = |name: &&str| matches!((self.lookup)(&[*name]), Some(CapturedMeaning::Module(module)) if PACKAGES.contains(&&*module));
        ["loom", "wp", "polyloom", "pl"].into_iter().find(is_package).unwrap_or("loom")
    }

    fn types_help(&self) -> String {
        let package = self.package();
        format!(
            "types are `float`, `int`, `bool`, `{package}.float64`, `{package}.vec3` and their like, and \
             `{package}.array(dtype=float)`"
        )
    }

    fn named(&self, expr: &Expr) -> Result<ParamType, AnnotationError> {
        match self.captured(expr)? {
            CapturedMeaning::Type(scalar) => Ok(ParamType::Exact(scalar.into())),
            CapturedMeaning::Composite(composite) => Ok(ParamType::Exact(Type::Composite(composite).into())),
            CapturedMeaning::Struct(of) => Ok(ParamType::Exact(ValueType::Struct(of))),
            CapturedMeaning::Annotation(ty) => Ok(ty),
            CapturedMeaning::Any => Ok(ParamType::ANY),
            CapturedMeaning::Text(text) => Err(AnnotationError {
                code: Code::BadAnnotation,
                range: expr.range(),
                message: format!("the string {text:?} is not an annotation"),
                help: self.types_help(),
            }),
            CapturedMeaning::ArrayConstructor(_) => Err(AnnotationError {
                code: Code::BadAnnotation,
                range: expr.range(),
                message: "an array type needs the type of its elements".to_owned(),
                help: format!("write `{}(dtype=float)`", dotted(expr).unwrap_or_default().join(".")),
            }),
            CapturedMeaning::Absent(sentence) => Err(AnnotationError {
                code: Code::UnknownBuiltin,
                range: expr.range(),
                message: sentence.to_string(),
                help: self.types_help(),
            }),
            _ if dotted(expr).is_some_and(|path| path.last() == Some(&"ndarray")) => Err(self.no_elements(expr)),
            other => Err(AnnotationError {
                code: Code::BadAnnotation,
                range: expr.range(),
                message: format!("{} is not a type", other.describe()),
                help: self.types_help(),
            }),
        }
    }

    /// Returns what is wrong with `np.ndarray`.
    fn no_elements(&self, expr: &Expr) -> AnnotationError {
        AnnotationError {
            code: Code::BadAnnotation,
            range: expr.range(),
            message: "NumPy's `ndarray` does not say what its elements are".to_owned(),
            help: format!("write `{}.array(dtype=float)`", self.package()),
        }
    }

    fn not_a_type(&self, expr: &Expr) -> AnnotationError {
        AnnotationError {
            code: Code::BadAnnotation,
            range: expr.range(),
            message: "this annotation is not a type".to_owned(),
            help: self.types_help(),
        }
    }

    fn array_call(&self, call: &ast::ExprCall, fixed: Option<u8>) -> Result<ParamType, AnnotationError> {
        let mut dtype = call.arguments.args.first();
        let mut ndim = call.arguments.args.get(1).filter(|_| fixed.is_none());
        let extra = call.arguments.args.get(if fixed.is_none() { 2 } else { 1 });
        let bad = |range: TextRange, message: String| AnnotationError {
            code: Code::BadAnnotation,
            range,
            message,
            help: "an array type is written `array(dtype=float)` or `array(dtype=float, ndim=2)`".to_owned(),
        };
        if let Some(extra) = extra {
            return Err(bad(extra.range(), "unexpected argument of an array type".to_owned()));
        }
        for keyword in &call.arguments.keywords {
            match keyword.arg.as_ref().map(|a| a.as_str()) {
                Some("dtype") if dtype.is_none() => dtype = Some(&keyword.value),
                Some("ndim") if ndim.is_none() && fixed.is_none() => ndim = Some(&keyword.value),
                Some(name) => return Err(bad(keyword.range(), format!("an array type has no argument `{name}`"))),
                None => return Err(bad(keyword.range(), "`**` in an array type".to_owned())),
            }
        }
        let Some(dtype) = dtype else {
            return Err(bad(call.range(), "an array type needs the type of its elements".to_owned()));
        };
        let ndim = match (fixed, ndim) {
            (Some(ndim), _) => ndim,
            (None, Some(expr)) => self.dimensions(expr)?,
            (None, None) => 1,
        };
        Ok(array_of(self.element(dtype)?, ndim))
    }

    /// `vector(length=5, dtype=float)` and its like.
    pub(crate) fn composite_call(
        &self,
        call: &ast::ExprCall,
        kind: CompositeKind,
    ) -> Result<ParamType, AnnotationError> {
        let name = kind.python_name();
        let (names, example): (&[&str], &str) = match kind {
            CompositeKind::Vector => (&["length", "dtype"], "length=5, dtype=float"),
            CompositeKind::Matrix => (&["shape", "dtype"], "shape=(2, 3), dtype=float"),
            CompositeKind::Quaternion | CompositeKind::Transform => (&["dtype"], "dtype=float"),
        };
        let bad = |range: TextRange, message: String| AnnotationError {
            code: Code::BadAnnotation,
            range,
            message,
            help: format!("this type is written `{name}({example})`"),
        };
        let argument = |name: &str| call.arguments.find_argument_value(name, names.iter().position(|n| *n == name)?);
        let mut unknown =
            call.arguments.keywords.iter().filter(|k| k.arg.as_ref().is_none_or(|a| !names.contains(&a.as_str())));
        if let Some(unknown) = unknown.next() {
            return Err(bad(unknown.range(), format!("`{name}` has no such argument")));
        }
        if let Some(extra) = call.arguments.args.get(names.len()) {
            return Err(bad(extra.range(), format!("unexpected argument of `{name}`")));
        }
        let Some(dtype) = argument("dtype") else {
            return Err(bad(call.range(), format!("`{name}` needs the type of its components, `dtype`")));
        };
        let elem = match self.read(dtype)? {
            ParamType::Exact(ValueType::Plain(Type::Scalar(elem))) => Ok(elem),
            ParamType::Generic(TypePattern::Any) => Err(ScalarSet::ALL),
            ParamType::Generic(TypePattern::Scalar(set)) => Err(set),
            _ => return Err(bad(dtype.range(), "the components of this type are no scalars".to_owned())),
        };
        let extents: &[Expr] = match (argument("length"), argument("shape")) {
            (Some(length), _) => std::slice::from_ref(length),
            (None, Some(shape)) => match shape {
                Expr::List(list) => &list.elts,
                other => elements(other),
            },
            (None, None) => &[],
        };
        // `None` is any extent.
        let mut shape: SmallVec<[Option<i128>; 2]> = SmallVec::new();
        for extent in extents {
            match constant::evaluate(extent, self.lookup) {
                Some(CapturedMeaning::Int(value)) => shape.push(Some(value)),
                Some(CapturedMeaning::Any) => shape.push(None),
                _ => return Err(bad(extent.range(), "this is not a constant integer".to_owned())),
            }
        }
        // Open parts do not matter to whether there are such types.
        let example: SmallVec<[i128; 2]> = shape.iter().map(|extent| extent.unwrap_or(1)).collect();
        let float = Scalar::F32;
        let composite = Composite::new(kind, elem.unwrap_or(float), &example);
        let composite = composite.map_err(|message| bad(call.range(), message))?;
        if elem.is_ok() && shape.iter().all(Option::is_some) {
            return Ok(ParamType::Exact(Type::Composite(composite).into()));
        }
        let elem = elem.map_or_else(|set| set, |elem| ScalarSet::of([elem]));
        let known = |axis: usize| shape.get(axis).copied().flatten().and_then(|extent| u16::try_from(extent).ok());
        Ok(ParamType::Generic(TypePattern::Composite { kind, elem, shape: [known(0), known(1)] }))
    }

    fn array_subscript(&self, subscript: &ast::ExprSubscript, fixed: Option<u8>) -> Result<ParamType, AnnotationError> {
        match (elements(&subscript.slice), fixed) {
            ([dtype], _) => Ok(array_of(self.element(dtype)?, fixed.unwrap_or(1))),
            ([dtype, ndim], None) => Ok(array_of(self.element(dtype)?, self.dimensions(ndim)?)),
            _ => Err(AnnotationError {
                code: Code::BadAnnotation,
                range: subscript.slice.range(),
                message: "an array type takes an element type and a number of dimensions".to_owned(),
                help: "write `array[float]` or `array[float, 2]`".to_owned(),
            }),
        }
    }

    fn element(&self, expr: &Expr) -> Result<ElementType, AnnotationError> {
        match self.read(expr)? {
            ParamType::Exact(ValueType::Plain(Type::Scalar(scalar))) => Ok(ElementType::Scalar(scalar)),
            ParamType::Exact(ValueType::Plain(Type::Composite(composite))) => Ok(ElementType::Composite(composite)),
            ParamType::Exact(ValueType::Struct(of)) => Ok(ElementType::Struct(of)),
            ParamType::Generic(pattern) => Ok(ElementType::Generic(pattern)),
            ParamType::Exact(
                ValueType::Plain(Type::Array { .. } | Type::CompositeArray { .. }) | ValueType::StructArray { .. },
            )
            | ParamType::GenericArray(..)
            | ParamType::GenericIndexedArray(..)
            | ParamType::Reference(_)
            | ParamType::Tuple
            | ParamType::Function => Err(AnnotationError {
                code: Code::BadAnnotation,
                range: expr.range(),
                message: "the elements of an array are scalars, vectors, matrices or structs".to_owned(),
                help: "use more dimensions: `array(dtype=float, ndim=2)`".to_owned(),
            }),
        }
    }

    fn dimensions(&self, expr: &Expr) -> Result<u8, AnnotationError> {
        let value = match expr {
            Expr::NumberLiteral(literal) => match &literal.value {
                Number::Int(value) => value.as_u8(),
                _ => None,
            },
            Expr::Name(_) | Expr::Attribute(_) => match self.captured(expr)? {
                CapturedMeaning::Int(value) => u8::try_from(value).ok(),
                _ => None,
            },
            Expr::Subscript(literal) => match &*literal.slice {
                // `Literal[2]`
                Expr::NumberLiteral(number) => match &number.value {
                    Number::Int(value) => value.as_u8(),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        value.filter(|n| (1..=MAX_DIMS as u8).contains(n)).ok_or_else(|| AnnotationError {
            code: Code::BadAnnotation,
            range: expr.range(),
            message: format!("an array has 1 to {MAX_DIMS} dimensions"),
            help: "write `ndim=` with a number: `array(dtype=float, ndim=2)`".to_owned(),
        })
    }
}

/// The type of indexed arrays, by that of the array.
fn indexed(array: ParamType, expr: &Expr) -> Result<ParamType, AnnotationError> {
    let made = match array {
        ParamType::Exact(ValueType::Plain(array)) => {
            let made = array.as_any_array().and_then(|(elem, ndim)| StructType::indexed_array(elem, ndim));
            made.map(|made| ParamType::Exact(ValueType::Struct(made)))
        }
        ParamType::GenericArray(pattern, ndim) => Some(ParamType::GenericIndexedArray(pattern, ndim)),
        _ => None,
    };
    made.ok_or_else(|| AnnotationError {
        code: Code::BadAnnotation,
        range: expr.range(),
        message: "an indexed array has elements of one scalar, vector or matrix type".to_owned(),
        help: "write `indexedarray(dtype=float)`".to_owned(),
    })
}

fn is_tuple(expr: &Expr) -> bool {
    dotted(expr).is_some_and(|path| matches!(path.last(), Some(&("tuple" | "Tuple"))))
}

fn is_composite(name: &str) -> bool {
    Composite::from_python_name(name).is_some()
}

fn array_of(elem: ElementType, ndim: u8) -> ParamType {
    match elem {
        ElementType::Scalar(elem) => ParamType::Exact(Type::array(elem, ndim).into()),
        ElementType::Composite(elem) => ParamType::Exact(Type::composite_array(elem, ndim).into()),
        ElementType::Struct(elem) => ParamType::Exact(ValueType::struct_array(elem, ndim)),
        ElementType::Generic(pattern) => ParamType::GenericArray(pattern, ndim),
    }
}

/// The expressions a subscript is given, with or without parentheses.
pub(crate) fn elements(slice: &Expr) -> &[Expr] {
    match slice {
        Expr::Tuple(tuple) => &tuple.elts,
        other => std::slice::from_ref(other),
    }
}
