//! The signatures of the table: `(x: tensor, axes: axes = none, keepdims: bool = false)`.
//!
//! Tensors come first: `tensor`, `tensor?`, which may be absent, and `tensor*`, one or more. Attributes have a kind and,
//! unless they are required, a default.

use crate::attribute::AttributeValue;
use polyloom_ir::Scalar;

/// The number of tensors that a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TensorArity {
    /// One.
    One,
    /// One or none. All parameters after it are optional too, and absent if it is.
    Optional,
    /// One or more.
    Many,
}

/// A parameter that takes tensors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorParameter {
    /// Its name.
    pub name: &'static str,
    /// The number of tensors.
    pub arity: TensorArity,
}

/// The kind of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AttributeKind {
    /// `true` or `false`.
    Bool,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// Integers.
    Ints,
    /// One axis; a negative one counts from the end.
    Axis,
    /// One axis or none, which means all.
    OptionalAxis,
    /// Axes or none, which means all.
    Axes,
    /// A word.
    Text,
    /// An element type.
    Dtype,
    /// A shape.
    Shape,
}

impl AttributeKind {
    fn parse(text: &str) -> Option<AttributeKind> {
        Some(match text {
            "bool" => AttributeKind::Bool,
            "int" => AttributeKind::Int,
            "float" => AttributeKind::Float,
            "ints" => AttributeKind::Ints,
            "axis" => AttributeKind::Axis,
            "axis?" => AttributeKind::OptionalAxis,
            "axes" => AttributeKind::Axes,
            "text" => AttributeKind::Text,
            "dtype" => AttributeKind::Dtype,
            "shape" => AttributeKind::Shape,
            _ => return None,
        })
    }

    /// Returns what the kind is called in error messages.
    pub fn describe(self) -> &'static str {
        match self {
            AttributeKind::Bool => "true or false",
            AttributeKind::Int => "an integer",
            AttributeKind::Float => "a number",
            AttributeKind::Ints => "a list of integers",
            AttributeKind::Axis => "an axis",
            AttributeKind::OptionalAxis => "an axis or none",
            AttributeKind::Axes => "a list of axes or none",
            AttributeKind::Text => "a word",
            AttributeKind::Dtype => "an element type",
            AttributeKind::Shape => "a shape",
        }
    }
}

/// A parameter that takes a value known when the graph is built.
#[derive(Clone, PartialEq, Debug)]
pub struct AttributeParameter {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: AttributeKind,
    /// Its value unless it is given; `None` if it must be given.
    pub default: Option<AttributeValue>,
}

/// The parameters of an op.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorSignature {
    /// The text in the table.
    pub text: &'static str,
    /// The tensors.
    pub tensors: Vec<TensorParameter>,
    /// The attributes.
    pub attributes: Vec<AttributeParameter>,
}

impl TensorSignature {
    /// Reads a signature of the table. A test reads them all, so that a mistake in one is found there.
    pub(super) fn parse(text: &'static str) -> TensorSignature {
        TensorSignature::try_parse(text).unwrap_or_else(|| panic!("the signature `{text}` of the table"))
    }

    fn try_parse(text: &'static str) -> Option<TensorSignature> {
        let mut signature = TensorSignature { text, tensors: Vec::new(), attributes: Vec::new() };
        let inner = text.strip_prefix('(')?.strip_suffix(')')?;
        for parameter in inner.split(", ").filter(|parameter| !parameter.is_empty()) {
            let (name, rest) = parameter.split_once(": ")?;
            let arity = match rest {
                "tensor" => Some(TensorArity::One),
                "tensor?" => Some(TensorArity::Optional),
                "tensor*" => Some(TensorArity::Many),
                _ => None,
            };
            if let Some(arity) = arity {
                signature.tensors.push(TensorParameter { name, arity });
                continue;
            }
            let (kind, default) = rest.split_once(" = ").map_or((rest, None), |(kind, value)| (kind, Some(value)));
            let kind = AttributeKind::parse(kind)?;
            let default = match default {
                Some(value) => Some(parse_default(kind, value)?),
                None => None,
            };
            signature.attributes.push(AttributeParameter { name, kind, default });
        }
        Some(signature)
    }

    /// Returns the number of tensors that must be there at least, and at most.
    pub fn tensor_counts(&self) -> (usize, usize) {
        let least = self.tensors.iter().filter(|tensor| tensor.arity != TensorArity::Optional).count();
        let has_many = self.tensors.iter().any(|tensor| tensor.arity == TensorArity::Many);
        (least, if has_many { usize::MAX } else { self.tensors.len() })
    }

    /// Returns the name of the tensor at a place among the operands.
    pub fn tensor_name(&self, index: usize) -> String {
        match (self.tensors.get(index), self.tensors.last()) {
            (_, Some(last)) if last.arity == TensorArity::Many && index + 1 >= self.tensors.len() => {
                format!("{}[{}]", last.name, index + 1 - self.tensors.len())
            }
            (Some(tensor), _) => tensor.name.to_owned(),
            (None, _) => format!("operand {index}"),
        }
    }

    /// Returns the place of an attribute.
    pub fn attribute_index(&self, name: &str) -> Option<usize> {
        self.attributes.iter().position(|attribute| attribute.name == name)
    }
}

fn parse_default(kind: AttributeKind, text: &str) -> Option<AttributeValue> {
    Some(match kind {
        _ if text == "none" => AttributeValue::None,
        AttributeKind::Bool => AttributeValue::Bool(text.parse().ok()?),
        AttributeKind::Int | AttributeKind::Axis => AttributeValue::Int(text.parse().ok()?),
        AttributeKind::Float => AttributeValue::Float(text.parse().ok()?),
        AttributeKind::Text => AttributeValue::Text(text.into()),
        AttributeKind::Dtype => AttributeValue::Dtype(Scalar::from_name(text)?),
        _ => return None,
    })
}
