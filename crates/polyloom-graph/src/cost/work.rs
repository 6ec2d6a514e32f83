//! The work of one node: the bytes of its result and its operations, by the op table.

use crate::graph::{Graph, TensorDef, TensorId, TensorType};
use crate::op::{CostModel, TensorCost, TensorOp};
use polyloom_ir::Scalar;

/// The work of a node of known extents.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct NodeWork {
    /// The op, if it is one.
    pub(crate) op: Option<TensorOp>,
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
        let dtype = value.ty.dtype;
        let mut work = NodeWork { op: None, cost: TensorCost::default(), flops: 0, product_flops: 0, n_bytes, dtype };
        if let TensorDef::Op { op, operands, attributes } = &value.def {
            let types = operands.iter().map(|&operand| Some(graph.value(operand)?.ty.clone()));
            let types: Vec<TensorType> = types.collect::<Option<_>>()?;
            work.op = Some(*op);
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

    /// The operations that corrections are for, or the bytes of the result of what has none.
    pub(crate) fn n_units(&self) -> u64 {
        [self.product_flops, self.flops, self.n_bytes].into_iter().find(|&n| n > 0).unwrap_or(0)
    }
}

/// The units of a node that a correction is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CorrectionUnits {
    /// The number of operations, or of bytes of the result of an op that has none.
    pub n: u64,
    /// True if they are operations of products of matrices.
    pub is_product: bool,
}

/// Returns the units of a node; `None` if an extent is a symbol.
pub fn correction_units(graph: &Graph, node: TensorId) -> Option<CorrectionUnits> {
    let work = NodeWork::of(graph, node)?;
    Some(CorrectionUnits { n: work.n_units(), is_product: work.product_flops > 0 })
}

pub(crate) fn bytes_of(ty: &TensorType) -> Option<u64> {
    Some(ty.shape.n_elements()?.saturating_mul(ty.dtype.bytes().into()))
}
