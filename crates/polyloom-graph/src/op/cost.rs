//! The costs of an op by itself: the memory that it reads and writes, and its arithmetic.

use super::TensorOp;
use crate::graph::TensorType;

/// The bytes and floating-point operations of one op.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TensorCost {
    /// The bytes read.
    pub bytes_read: u64,
    /// The bytes written.
    pub bytes_written: u64,
    /// The arithmetic operations. A function such as `exp` counts as many as its polynomial takes, about.
    pub flops: u64,
}

/// The way in which the costs of an op follow from its types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CostModel {
    /// Each operand is read and the result is written once; so many operations for each element of the result.
    PerResult(u64),
    /// Each operand is read and the result is written once; so many operations for each element of the first operand.
    PerOperand(u64),
    /// As `PerResult(0)`, but only as many bytes are read as written.
    Move,
    /// Nothing: the memory is that of the operand.
    Free,
    /// Two operations for each product.
    Contraction,
}

impl CostModel {
    /// Returns the costs of an op on operands of these types; `None` if an extent is a symbol.
    ///
    /// The costs of a composite op are what a kernel of its own would take, not the sum of its parts.
    pub fn cost(self, operands: &[TensorType], result: &TensorType) -> Option<TensorCost> {
        let bytes = |ty: &TensorType| Some(ty.shape.n_elements()?.saturating_mul(ty.dtype.bytes().into()));
        let read = operands.iter().try_fold(0u64, |sum, ty| Some(sum.saturating_add(bytes(ty)?)))?;
        let written = bytes(result)?;
        let n_results = result.shape.n_elements()?;
        let first = operands.first();
        let n_first = first.map_or(Some(0), |ty| ty.shape.n_elements())?;
        let all = |flops| TensorCost { bytes_read: read, bytes_written: written, flops };
        Some(match self {
            CostModel::PerResult(flops) => all(n_results.saturating_mul(flops)),
            CostModel::PerOperand(flops) => all(n_first.saturating_mul(flops)),
            CostModel::Move => TensorCost { bytes_read: written, bytes_written: written, flops: 0 },
            CostModel::Free => TensorCost::default(),
            CostModel::Contraction => {
                let length = first.and_then(|ty| ty.shape.0.last()).map_or(Some(1), |dim| dim.as_static())?;
                all(n_results.saturating_mul(length).saturating_mul(2))
            }
        })
    }
}

impl TensorOp {
    /// Returns the arithmetic operations for one element of the result of an elementwise op.
    pub fn flops_per_element(self) -> u64 {
        match self.info().cost {
            CostModel::PerResult(flops) | CostModel::PerOperand(flops) => flops,
            CostModel::Move | CostModel::Free | CostModel::Contraction => 0,
        }
    }

    /// Returns what computing the op by itself costs; `None` if an extent is a symbol.
    pub fn cost(self, operands: &[TensorType], result: &TensorType) -> Option<TensorCost> {
        self.info().cost.cost(operands, result)
    }
}
