//! The costs of an op by itself: the memory that it reads and writes, and its arithmetic.

use super::{ShapeRule, TensorOp};
use crate::attribute::AttributeValue;
use crate::equation::Equation;
use crate::graph::TensorType;
use crate::shape::Dim;

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
    /// Each operand is read and the result is written once; two operations for each product, whose number follows from the
    /// shape rule.
    Contraction,
}

impl TensorOp {
    /// Returns the arithmetic operations for one element of the result of an elementwise op.
    pub fn flops_per_element(self) -> u64 {
        match self.info().cost {
            CostModel::PerResult(flops) | CostModel::PerOperand(flops) => flops,
            CostModel::Move | CostModel::Free | CostModel::Contraction => 0,
        }
    }

    /// Returns the costs of the op by itself; `None` if an extent is a symbol.
    ///
    /// The costs of a composite op are what a kernel of its own would take, not the sum of its parts.
    pub fn cost(
        self,
        operands: &[TensorType],
        attributes: &[AttributeValue],
        result: &TensorType,
    ) -> Option<TensorCost> {
        let bytes = |ty: &TensorType| Some(ty.shape.n_elements()?.saturating_mul(ty.dtype.bytes().into()));
        let read = operands.iter().try_fold(0u64, |sum, ty| Some(sum.saturating_add(bytes(ty)?)))?;
        let written = bytes(result)?;
        let n_results = result.shape.n_elements()?;
        let n_first = operands.first().map_or(Some(0), |ty| ty.shape.n_elements())?;
        let all = |flops| TensorCost { bytes_read: read, bytes_written: written, flops };
        Some(match self.info().cost {
            CostModel::PerResult(flops) => all(n_results.saturating_mul(flops)),
            CostModel::PerOperand(flops) => all(n_first.saturating_mul(flops)),
            CostModel::Move => TensorCost { bytes_read: written, bytes_written: written, flops: 0 },
            CostModel::Free => TensorCost::default(),
            CostModel::Contraction => {
                let n_products = n_results.saturating_mul(self.chain_length(operands, attributes, result)?);
                all(n_products.saturating_mul(2))
            }
        })
    }

    /// Returns the number of products that each element of a contraction is the sum of.
    fn chain_length(self, operands: &[TensorType], attributes: &[AttributeValue], result: &TensorType) -> Option<u64> {
        let product = |dims: &[Dim]| dims.iter().try_fold(1u64, |n, dim| n.checked_mul(dim.as_static()?));
        let dims = |index: usize| operands.get(index).map(|ty| &ty.shape.0[..]);
        let (first, second) = (dims(0)?, dims(1)?);
        let labelled = |lists: &[Vec<i64>], kept: &[i64]| {
            let mut summed: Vec<i64> = Vec::new();
            lists.iter().zip(operands).try_fold(1u64, |mut n, (labels, ty)| {
                for (label, dim) in labels.iter().zip(&ty.shape.0) {
                    if !kept.contains(label) && !summed.contains(label) {
                        summed.push(*label);
                        n = n.checked_mul(dim.as_static()?)?;
                    }
                }
                Some(n)
            })
        };
        match (self.info().shape_rule, attributes) {
            (
                ShapeRule::Contract,
                [AttributeValue::Ints(a), AttributeValue::Ints(b), AttributeValue::Ints(kept), ..],
            ) => labelled(&[a.clone(), b.clone()], kept),
            (ShapeRule::Einsum, [AttributeValue::Text(text), ..]) => {
                let equation = Equation::parse(text).ok()?;
                labelled(&equation.operands, &equation.result)
            }
            // A weight is `[outputs, channels of a group, window…]`.
            (ShapeRule::Convolution(_), _) => product(second.get(1..)?),
            // Each of a query's keys takes a score, of the width, and a share of each column.
            (ShapeRule::Attention, _) => {
                let width = first.last().map_or(Some(1), Dim::as_static)?;
                let columns = result.shape.0.last().map_or(Some(1), Dim::as_static)?;
                let keys = second.get(second.len().checked_sub(2)?)?.as_static()?;
                Some(keys.checked_mul(width.checked_add(columns)?)? / columns.max(1))
            }
            _ => first.last().map_or(Some(1), Dim::as_static),
        }
    }
}
