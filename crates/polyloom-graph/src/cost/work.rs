//! The work of one node: the bytes of its result and its operations, by the op table.

use crate::graph::{Graph, TensorDef, TensorId, TensorType};
use crate::op::{CostModel, TensorCost, TensorOp};
use polyloom_ir::Scalar;
use std::borrow::Cow;

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
    /// True if it is a product in which no element of the larger factor is used twice, so that memory bounds it.
    pub(crate) is_of_vectors: bool,
}

impl NodeWork {
    /// Returns the work of a value; `None` if an extent is a symbol. What is no op has none beyond its bytes.
    pub(crate) fn of(graph: &Graph, id: TensorId) -> Option<NodeWork> {
        let value = graph.value(id)?;
        let n_bytes = bytes_of(&value.ty)?;
        let dtype = value.ty.dtype;
        let mut work = NodeWork {
            op: None,
            cost: TensorCost::default(),
            flops: 0,
            product_flops: 0,
            n_bytes,
            dtype,
            is_of_vectors: false,
        };
        if let TensorDef::Op { op, operands, attributes } = &value.def {
            let types = operands.iter().map(|&operand| Some(graph.value(operand)?.ty.clone()));
            let types: Vec<TensorType> = types.collect::<Option<_>>()?;
            work.op = Some(*op);
            work.cost = op.cost(&types, &attributes.0, &value.ty)?;
            if op.info().cost == CostModel::Contraction {
                work.product_flops = work.cost.flops;
                let largest = types.iter().filter_map(|ty| ty.shape.n_elements()).max().unwrap_or(0);
                work.is_of_vectors = work.product_flops <= largest.saturating_mul(2);
            } else {
                work.flops = work.cost.flops;
            }
            // A comparison gives a `bool`, and computes with what it compares.
            work.dtype = types.iter().map(|ty| ty.dtype).chain([value.ty.dtype]).max_by_key(|dtype| dtype.bytes())?;
        }
        Some(work)
    }

    /// Returns the name under which a correction of it is kept: that of its op, for products with vectors a name of their own,
    /// because what they take beyond the rates has nothing to do with what products of matrices take.
    pub(crate) fn correction_name(&self) -> Option<Cow<'static, str>> {
        let name = self.op?.name();
        Some(if self.is_of_vectors { format!("{name} of vectors").into() } else { name.into() })
    }

    /// Returns the operations that corrections are for, or the bytes of the result of what has none.
    pub(crate) fn n_units(&self) -> u64 {
        [self.product_flops, self.flops, self.n_bytes].into_iter().find(|&n| n > 0).unwrap_or(0)
    }
}

/// The units of a node that a correction is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CorrectionUnits {
    /// The name under which the correction is kept.
    pub name: Cow<'static, str>,
    /// The number of operations, or of bytes of the result of an op that has none.
    pub n: u64,
    /// True if they are operations of products of matrices.
    pub is_product: bool,
}

/// Returns the units of a node; `None` if an extent is a symbol, or it is no op.
pub fn correction_units(graph: &Graph, node: TensorId) -> Option<CorrectionUnits> {
    let work = NodeWork::of(graph, node)?;
    let name = work.correction_name()?;
    Some(CorrectionUnits { name, n: work.n_units(), is_product: work.product_flops > 0 })
}

pub(crate) fn bytes_of(ty: &TensorType) -> Option<u64> {
    Some(ty.shape.n_elements()?.saturating_mul(ty.dtype.bytes().into()))
}
