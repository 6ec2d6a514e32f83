//! The types parameters are annotated with: one type, or a set of them that makes the function generic.

use crate::structure::ValueType;
use polyloom_ir::{AddressSpace, Composite, CompositeKind, Scalar, Type};
use std::fmt;

/// The type a parameter is annotated with. A function with a parameter that is not [`ParamType::Exact`] is generic, so
/// that it is compiled for the types it is called with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ParamType {
    /// This type.
    Exact(ValueType),
    /// A variable of this type, which the function may change.
    Reference(ValueType),
    /// Any type that fits the pattern.
    Generic(TypePattern),
    /// An array of this many dimensions whose elements fit the pattern.
    GenericArray(TypePattern, u8),
    /// An indexed array of this many dimensions whose elements fit the pattern.
    GenericIndexedArray(TypePattern, u8),
    /// A tuple of whatever types.
    Tuple,
    /// A function.
    Function,
}

/// A set of types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TypePattern {
    /// Every type.
    Any,
    /// These scalars.
    Scalar(ScalarSet),
    /// Composites of this kind.
    Composite {
        /// Which.
        kind: CompositeKind,
        /// Holds what their components may be.
        elem: ScalarSet,
        /// A vector's length, a matrix's rows and columns; `None` for any.
        shape: [Option<u16>; 2],
    },
}

/// A set of scalar types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScalarSet(u16);

impl ScalarSet {
    /// All of them, as `Any` for the elements of a vector says.
    pub const ALL: ScalarSet = ScalarSet(u16::MAX);

    /// These.
    pub fn of(scalars: impl IntoIterator<Item = Scalar>) -> ScalarSet {
        ScalarSet(scalars.into_iter().fold(0, |set, scalar| set | 1 << scalar as u16))
    }

    /// Floating-point numbers.
    pub fn floats() -> ScalarSet {
        ScalarSet::of(Scalar::ALL.iter().copied().filter(|scalar| scalar.is_float()))
    }

    /// Integers.
    pub fn integers() -> ScalarSet {
        ScalarSet::of(Scalar::ALL.iter().copied().filter(|scalar| scalar.is_int()))
    }

    /// Numbers: all but `bool`.
    pub fn numbers() -> ScalarSet {
        ScalarSet::of(Scalar::ALL.iter().copied().filter(|scalar| *scalar != Scalar::Bool))
    }

    fn is_within(self, other: ScalarSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns true if it has this one.
    pub fn contains(self, scalar: Scalar) -> bool {
        self.0 & 1 << scalar as u16 != 0
    }
}

impl fmt::Display for ScalarSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ScalarSet::ALL => f.write_str("Any"),
            set if set == ScalarSet::floats() => f.write_str("Float"),
            set if set == ScalarSet::integers() => f.write_str("Int"),
            set if set == ScalarSet::numbers() => f.write_str("Scalar"),
            set => {
                let names = Scalar::ALL.iter().filter(|scalar| set.contains(**scalar)).map(|s| s.python_name());
                f.write_str(&names.collect::<Vec<_>>().join(" | "))
            }
        }
    }
}

impl TypePattern {
    /// Returns true if it has this type.
    pub fn contains(self, ty: Type) -> bool {
        match self {
            TypePattern::Any => true,
            TypePattern::Scalar(set) => ty.as_scalar().is_some_and(|scalar| set.contains(scalar)),
            TypePattern::Composite { .. } => {
                ty.as_composite().is_some_and(|composite| self.contains_composite(composite))
            }
        }
    }

    fn contains_composite(self, composite: Composite) -> bool {
        let TypePattern::Composite { kind, elem, shape } = self else { return self == TypePattern::Any };
        let extents = composite.shape();
        composite.kind() == kind
            && elem.contains(composite.elem())
            && shape.iter().zip(&extents).all(|(wanted, extent)| wanted.is_none_or(|wanted| wanted == *extent))
    }

    /// Returns true if it has none but types of the other.
    fn is_within(self, other: TypePattern) -> bool {
        match (self, other) {
            (_, TypePattern::Any) => true,
            (TypePattern::Scalar(set), TypePattern::Scalar(of)) => set.is_within(of),
            (
                TypePattern::Composite { kind, elem, shape },
                TypePattern::Composite { kind: of, elem: elems, shape: shapes },
            ) => {
                let fits = |(own, wanted): (&Option<u16>, &Option<u16>)| wanted.is_none() || own == wanted;
                kind == of && elem.is_within(elems) && shape.iter().zip(&shapes).all(fits)
            }
            _ => false,
        }
    }

    /// Returns the number of axes the components of its types take in an array; none if that is not known.
    pub fn n_inner_axes(self) -> usize {
        match self {
            TypePattern::Composite { kind: CompositeKind::Matrix, .. } => 2,
            TypePattern::Composite { .. } => 1,
            TypePattern::Any | TypePattern::Scalar(_) => 0,
        }
    }
}

impl fmt::Display for TypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extent = |extent: Option<u16>| extent.map_or_else(|| "Any".to_owned(), |n| n.to_string());
        match *self {
            TypePattern::Any => f.write_str("Any"),
            TypePattern::Scalar(set) => set.fmt(f),
            TypePattern::Composite { kind, elem, shape: [first, second] } => {
                let name = kind.python_name();
                match kind {
                    CompositeKind::Vector => write!(f, "{name}(length={}, dtype={elem})", extent(first)),
                    CompositeKind::Matrix => {
                        write!(f, "{name}(shape=({}, {}), dtype={elem})", extent(first), extent(second))
                    }
                    CompositeKind::Quaternion | CompositeKind::Transform => write!(f, "{name}(dtype={elem})"),
                }
            }
        }
    }
}

impl ParamType {
    /// Any type.
    pub const ANY: ParamType = ParamType::Generic(TypePattern::Any);

    /// Returns true if it leaves the type to the call.
    pub fn is_generic(self) -> bool {
        !matches!(self, ParamType::Exact(_) | ParamType::Reference(_))
    }

    /// Returns true if it takes nothing but what the other takes.
    pub(crate) fn is_within(self, other: ParamType) -> bool {
        match (self, other) {
            (_, ParamType::ANY) => true,
            (ParamType::Exact(ty), _) => other.takes(ty),
            (ParamType::Generic(own), ParamType::Generic(pattern)) => own.is_within(pattern),
            (ParamType::GenericArray(own, n), ParamType::GenericArray(pattern, ndim))
            | (ParamType::GenericIndexedArray(own, n), ParamType::GenericIndexedArray(pattern, ndim)) => {
                n == ndim && own.is_within(pattern)
            }
            _ => self == other,
        }
    }

    /// Returns true if a value of this type may be given.
    pub fn takes(self, ty: impl Into<ValueType>) -> bool {
        let ty = ty.into();
        match self {
            // The place of its memory does not matter, because an annotation says nothing of where an array's memory
            // is.
            ParamType::Exact(own) | ParamType::Reference(own) => own == ty.in_space(AddressSpace::Global),
            ParamType::Generic(pattern) => match ty {
                ValueType::Plain(ty) => pattern.contains(ty),
                ValueType::Struct(_) | ValueType::StructArray { .. } => pattern == TypePattern::Any,
            },
            ParamType::GenericArray(pattern, ndim) => match ty {
                ValueType::Plain(ty) => ty.as_any_array().is_some_and(|(elem, n)| n == ndim && pattern.contains(elem)),
                ValueType::Struct(_) => false,
                ValueType::StructArray { ndim: n, .. } => n == ndim && pattern == TypePattern::Any,
            },
            ParamType::GenericIndexedArray(pattern, ndim) => match ty {
                ValueType::Struct(of) => {
                    of.as_indexed_array().is_some_and(|(elem, n)| n == ndim && pattern.contains(elem))
                }
                ValueType::Plain(_) | ValueType::StructArray { .. } => false,
            },
            ParamType::Tuple | ParamType::Function => false,
        }
    }
}

impl fmt::Display for ParamType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamType::Exact(ty) => f.write_str(&ty.python_name()),
            ParamType::Reference(ty) => write!(f, "ref[{}]", ty.python_name()),
            ParamType::Generic(pattern) => pattern.fmt(f),
            ParamType::GenericArray(pattern, 1) => write!(f, "array(dtype={pattern})"),
            ParamType::GenericArray(pattern, ndim) => write!(f, "array(dtype={pattern}, ndim={ndim})"),
            ParamType::GenericIndexedArray(pattern, 1) => write!(f, "indexedarray(dtype={pattern})"),
            ParamType::GenericIndexedArray(pattern, ndim) => write!(f, "indexedarray(dtype={pattern}, ndim={ndim})"),
            ParamType::Tuple => f.write_str("tuple"),
            ParamType::Function => f.write_str("Callable"),
        }
    }
}
