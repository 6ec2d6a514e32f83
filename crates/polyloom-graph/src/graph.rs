//! The tensor graph: values in SSA form, each defined once, before its uses.

use crate::attribute::Attributes;
use crate::op::TensorOp;
use crate::shape::Shape;
use polyloom_ir::Scalar;
use rustc_hash::FxBuildHasher;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A value of a graph: its index in [`Graph::values`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TensorId(pub u32);

impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// The element type and the shape of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// The element type.
    pub dtype: Scalar,
    /// The shape.
    pub shape: Shape,
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// The definition of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TensorDef {
    /// An argument of the graph.
    Input(Arc<str>),
    /// A scalar, by its bits, zero-extended.
    Constant(u64),
    /// A Python number that is given at each run, by its place among them. It has the type that the op beside it gives it.
    Number(u32),
    /// The result of an op.
    Op {
        /// The op.
        op: TensorOp,
        /// Its tensors, in the order of the table entry. Trailing optional ones may be absent.
        operands: Vec<TensorId>,
        /// Its attributes in canonical form: axes are ascending and not negative, shapes have no `-1`.
        attributes: Attributes,
    },
}

/// A value with its type and its definition.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorValue {
    /// The type.
    pub ty: TensorType,
    /// The definition.
    pub def: TensorDef,
}

impl TensorValue {
    /// Returns the operands of an op; nothing else has any.
    pub fn operands(&self) -> &[TensorId] {
        match &self.def {
            TensorDef::Op { operands, .. } => operands,
            _ => &[],
        }
    }
}

/// A pure function of tensors. [`crate::GraphBuilder`] makes one; [`crate::verify()`] lists its invariants.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Graph {
    /// The values, each after its operands.
    pub values: Vec<TensorValue>,
    /// The results.
    pub outputs: Vec<TensorId>,
}

impl Graph {
    /// Returns a value, if the graph has it.
    pub fn value(&self, id: TensorId) -> Option<&TensorValue> {
        self.values.get(id.0 as usize)
    }

    /// Returns the value whose memory a chain of views shows; the value itself if it is no view. Programs make chains of any
    /// length.
    pub fn viewed_value(&self, mut id: TensorId) -> TensorId {
        while let Some(TensorDef::Op { op, operands, .. }) = self.value(id).map(|value| &value.def)
            && op.info().is_view()
            && let Some(&operand) = operands.first()
        {
            id = operand;
        }
        id
    }

    /// Returns the values with their names.
    pub fn iter(&self) -> impl Iterator<Item = (TensorId, &TensorValue)> {
        self.values.iter().enumerate().map(|(index, value)| (TensorId(index as u32), value))
    }

    /// Returns the inputs in order: name and type.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        self.values.iter().filter_map(|value| match &value.def {
            TensorDef::Input(name) => Some((&**name, &value.ty)),
            _ => None,
        })
    }

    /// Returns a hash by which what has been made of a graph is found again. It is the same in one process alone; names count.
    pub fn structure_hash(&self) -> u64 {
        FxBuildHasher.hash_one(self)
    }
}
