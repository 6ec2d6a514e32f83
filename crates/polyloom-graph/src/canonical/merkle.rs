//! Merkle hashes: that of a term is of its definition and the hashes of its operands.
//!
//! Everything is written in bytes of fixed width or with its length before it, so that no two terms are written alike.

use super::definition::{Definition, DefinitionId, DefinitionTable};
use super::term::TermHead;
use super::types::TypeTable;
use crate::attribute::AttributeValue;
use crate::graph::TensorType;
use crate::shape::{Dim, Shape};
use std::fmt;

/// The version of the op set and of the canonical form. It is part of every hash: a change to what an op computes, or to how
/// graphs are brought into canonical form, raises it, so that hashes kept from before are not found again.
pub const OP_SET_VERSION: u32 = 1;

/// The hash of a canonical form: 256 bits, the same in every process and on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphHash(pub [u8; 32]);

impl GraphHash {
    /// Returns the first bytes as a number, by which hashes are ordered unless these are equal.
    pub(super) fn prefix(&self) -> u64 {
        self.0.iter().take(8).fold(0, |prefix, &byte| prefix << 8 | u64::from(byte))
    }
}

impl fmt::Display for GraphHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for GraphHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A hasher of the terms of one store, whose buffer serves all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct MerkleHasher {
    bytes: Vec<u8>,
    /// The bytes of the store's definitions, one after the other, and where each ends.
    definition_bytes: Vec<u8>,
    definition_ends: Vec<usize>,
}

impl MerkleHasher {
    pub(super) fn hash_term<'h>(
        &mut self,
        definition: DefinitionId,
        definitions: &DefinitionTable,
        types: &TypeTable,
        operands: impl ExactSizeIterator<Item = &'h GraphHash>,
    ) -> GraphHash {
        while self.definition_ends.len() <= definition.index() {
            self.bytes.clear();
            self.write_definition(definitions.at(self.definition_ends.len()), types);
            self.definition_bytes.extend_from_slice(&self.bytes);
            self.definition_ends.push(self.definition_bytes.len());
        }
        let start = definition.index().checked_sub(1).map_or(0, |before| self.definition_ends[before]);
        self.bytes.clear();
        self.bytes.extend_from_slice(&self.definition_bytes[start..self.definition_ends[definition.index()]]);
        self.bytes.extend_from_slice(&(operands.len() as u32).to_le_bytes());
        operands.for_each(|operand| self.bytes.extend_from_slice(&operand.0));
        self.finish()
    }

    pub(super) fn hash_graph<'h>(
        &mut self,
        tag: u8,
        inputs: &[TensorType],
        outputs: impl ExactSizeIterator<Item = &'h GraphHash>,
    ) -> GraphHash {
        self.bytes.clear();
        self.write_text("polyloom graph");
        self.bytes.extend(OP_SET_VERSION.to_le_bytes());
        self.write_tagged(tag, inputs.len() as u64);
        inputs.iter().for_each(|input| self.write_type(input));
        self.bytes.extend((outputs.len() as u32).to_le_bytes());
        outputs.for_each(|output| self.bytes.extend_from_slice(&output.0));
        self.finish()
    }

    fn finish(&self) -> GraphHash {
        GraphHash(*blake3::hash(&self.bytes).as_bytes())
    }

    fn write_tagged(&mut self, tag: u8, value: u64) {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn write_text(&mut self, text: &str) {
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn write_definition(&mut self, definition: &Definition, types: &TypeTable) {
        match &definition.head {
            TermHead::Input(place) => self.write_tagged(0, u64::from(*place)),
            TermHead::Constant(bits) => self.write_tagged(1, *bits),
            TermHead::Real(bits) => self.write_tagged(2, *bits),
            TermHead::Number(place) => self.write_tagged(3, u64::from(*place)),
            TermHead::Op(op, attributes) => {
                self.write_tagged(4, attributes.0.len() as u64);
                self.write_text(op.name());
                attributes.0.iter().for_each(|attribute| self.write_attribute(attribute));
            }
        }
        self.write_type(types.get(definition.ty));
    }

    fn write_type(&mut self, ty: &TensorType) {
        self.write_text(ty.dtype.name());
        self.write_shape(&ty.shape);
    }

    fn write_shape(&mut self, shape: &Shape) {
        self.bytes.push(shape.rank() as u8);
        for dim in &shape.0 {
            match dim {
                Dim::Static(extent) => self.write_tagged(0, *extent),
                Dim::Symbol(name) => {
                    self.bytes.push(1);
                    self.write_text(name);
                }
            }
        }
    }

    fn write_attribute(&mut self, attribute: &AttributeValue) {
        match attribute {
            AttributeValue::None => self.bytes.push(0),
            AttributeValue::Bool(value) => self.write_tagged(1, u64::from(*value)),
            AttributeValue::Int(value) => self.write_tagged(2, *value as u64),
            AttributeValue::Float(value) => self.write_tagged(3, value.to_bits()),
            AttributeValue::Ints(values) => {
                self.write_tagged(4, values.len() as u64);
                values.iter().for_each(|value| self.bytes.extend(value.to_le_bytes()));
            }
            AttributeValue::Text(word) => {
                self.bytes.push(5);
                self.write_text(word);
            }
            AttributeValue::Dtype(dtype) => {
                self.bytes.push(6);
                self.write_text(dtype.name());
            }
            AttributeValue::Shape(shape) => {
                self.bytes.push(7);
                self.write_shape(shape);
            }
        }
    }
}
