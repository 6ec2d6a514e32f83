//! The work of one node: the bytes of its result and its operations, by the op table.

use crate::graph::{Graph, TensorDef, TensorId, TensorType};
use crate::op::{CostModel, TensorCost};
use polyloom_ir::Scalar;

/// The work of a node of known extents.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct NodeWork {
    /// Its bytes and operations as a kernel of its own.
    pub(crate) cost: TensorCost,
    /// The elementwise operations.
    pub(crate) flops: u64,
    /// The operations of products of matrices.
    pub(crate) product_flops: u64,
    /// The bytes of the result.
    pub(crate) n_bytes: u64,
    /// The type that is computed with.
    pub(crate) dtype: Scalar,
}

impl NodeWork {
    /// Returns the work of a value; `None` if an extent is a symbol. What is no op has none beyond its bytes.
    pub(crate) fn of(graph: &Graph, id: TensorId) -> Option<NodeWork> {
        let value = graph.value(id)?;
        let n_bytes = bytes_of(&value.ty)?;
        let mut work =
            NodeWork { cost: TensorCost::default(), flops: 0, product_flops: 0, n_bytes, dtype: value.ty.dtype };
        if let TensorDef::Op { op, operands, attributes } = &value.def {
            let types = operands.iter().map(|&operand| Some(graph.value(operand)?.ty.clone()));
            let types: Vec<TensorType> = types.collect::<Option<_>>()?;
            work.cost = op.cost(&types, &attributes.0, &value.ty)?;
            if op.info().cost == CostModel::Contraction {
                work.product_flops = work.cost.flops;
            } else {
                work.flops = work.cost.flops;
            }
            // A comparison gives a `bool`, and computes with what it compares.
            work.dtype = types.iter().map(|ty| ty.dtype).chain([value.ty.dtype]).max_by_key(|dtype| dtype.bytes())?;
        }
        Some(work)
    }
}

pub(crate) fn bytes_of(ty: &TensorType) -> Option<u64> {
    Some(ty.shape.n_elements()?.saturating_mul(ty.dtype.bytes().into()))
}
