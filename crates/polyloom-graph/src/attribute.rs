//! Attributes: the arguments of an op besides tensors, which are known when the graph is built.

use crate::shape::Shape;
use polyloom_ir::Scalar;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum AttributeValue {
    /// Nothing is given: all axes, or no limit, as the op's documentation says.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// Integers, one for each axis or pair.
    Ints(Vec<i64>),
    /// A word.
    Text(Arc<str>),
    /// An element type.
    Dtype(Scalar),
    /// A shape, whose extents may be symbols.
    Shape(Shape),
}

/// Holds the value of an attribute. Inference has checked its kind, so that what another kind gives does not matter.
impl AttributeValue {
    /// Returns the integers, or the one integer.
    pub(crate) fn ints(&self) -> Vec<i64> {
        match self {
            AttributeValue::Ints(values) => values.clone(),
            AttributeValue::Int(value) => vec![*value],
            _ => Vec::new(),
        }
    }

    /// Returns the integers as axes, which are not negative once they have been inferred.
    pub(crate) fn axes(&self) -> Vec<usize> {
        self.ints().into_iter().map(|axis| axis as usize).collect()
    }

    /// Returns the first integer.
    pub(crate) fn int(&self) -> i64 {
        self.ints().first().copied().unwrap_or(0)
    }

    /// Returns the number.
    pub(crate) fn float(&self) -> f64 {
        match self {
            AttributeValue::Float(value) => *value,
            other => other.int() as f64,
        }
    }

    pub(crate) fn flag(&self) -> bool {
        *self == AttributeValue::Bool(true)
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self, AttributeValue::Text(text) if &**text == word)
    }
}

/// Numbers are compared by their bits, because a graph with a NaN in an attribute is equal to itself.
impl PartialEq for AttributeValue {
    fn eq(&self, other: &AttributeValue) -> bool {
        match (self, other) {
            (AttributeValue::None, AttributeValue::None) => true,
            (AttributeValue::Bool(a), AttributeValue::Bool(b)) => a == b,
            (AttributeValue::Int(a), AttributeValue::Int(b)) => a == b,
            (AttributeValue::Float(a), AttributeValue::Float(b)) => a.to_bits() == b.to_bits(),
            (AttributeValue::Ints(a), AttributeValue::Ints(b)) => a == b,
            (AttributeValue::Text(a), AttributeValue::Text(b)) => a == b,
            (AttributeValue::Dtype(a), AttributeValue::Dtype(b)) => a == b,
            (AttributeValue::Shape(a), AttributeValue::Shape(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for AttributeValue {}

impl Hash for AttributeValue {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        std::mem::discriminant(self).hash(hasher);
        match self {
            AttributeValue::None => {}
            AttributeValue::Bool(value) => value.hash(hasher),
            AttributeValue::Int(value) => value.hash(hasher),
            AttributeValue::Float(value) => value.to_bits().hash(hasher),
            AttributeValue::Ints(values) => values.hash(hasher),
            AttributeValue::Text(word) => word.hash(hasher),
            AttributeValue::Dtype(dtype) => dtype.hash(hasher),
            AttributeValue::Shape(shape) => shape.hash(hasher),
        }
    }
}

impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeValue::None => f.write_str("none"),
            AttributeValue::Bool(value) => write!(f, "{value}"),
            AttributeValue::Int(value) => write!(f, "{value}"),
            // Debug writes the shortest digits that read back as the same number, and always a point or an exponent.
            AttributeValue::Float(value) => write!(f, "{value:?}"),
            AttributeValue::Ints(values) => {
                let values: Vec<String> = values.iter().map(i64::to_string).collect();
                write!(f, "({})", values.join(", "))
            }
            AttributeValue::Text(word) => write!(f, "\"{word}\""),
            AttributeValue::Dtype(dtype) => write!(f, "{dtype}"),
            AttributeValue::Shape(shape) => write!(f, "{shape}"),
        }
    }
}

macro_rules! from_value {
    ($($from:ty => |$value:ident| $result:expr;)*) => {
        $(impl From<$from> for AttributeValue {
            fn from($value: $from) -> AttributeValue {
                $result
            }
        })*
    };
}

from_value! {
    i32 => |value| AttributeValue::Int(value.into());
    bool => |value| AttributeValue::Bool(value);
    i64 => |value| AttributeValue::Int(value);
    f64 => |value| AttributeValue::Float(value);
    &[i64] => |values| AttributeValue::Ints(values.to_vec());
    Vec<i64> => |values| AttributeValue::Ints(values);
    &str => |word| AttributeValue::Text(word.into());
    Scalar => |dtype| AttributeValue::Dtype(dtype);
    Shape => |shape| AttributeValue::Shape(shape);
}

/// The attributes of one op, one for each that its table entry declares, in that order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Attributes(pub Vec<AttributeValue>);
