//! Hashes of graphs, so that what has been made of one is found again. Equal graphs have equal hashes.

use crate::attribute::AttributeValue;
use crate::graph::{Graph, TensorDef};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

impl Graph {
    /// Returns a hash of the values and outputs. It is the same in one process alone.
    pub fn structure_hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        for value in &self.values {
            value.ty.hash(&mut hasher);
            match &value.def {
                TensorDef::Input(name) => (0, name).hash(&mut hasher),
                TensorDef::Constant(bits) => (1, bits).hash(&mut hasher),
                TensorDef::Number(index) => (2, index).hash(&mut hasher),
                TensorDef::Op { op, operands, attributes } => {
                    (3, op, operands).hash(&mut hasher);
                    attributes.0.iter().for_each(|attribute| hash_attribute(attribute, &mut hasher));
                }
            }
        }
        self.outputs.hash(&mut hasher);
        hasher.finish()
    }
}

fn hash_attribute(attribute: &AttributeValue, hasher: &mut FxHasher) {
    std::mem::discriminant(attribute).hash(hasher);
    match attribute {
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
