//! The spaces of reductions, and the choice of how threads share a row.

use super::expression::{ExpressionArena, ExpressionId, ExpressionKind};
use super::tile::{AttentionTile, MatrixTile, PipelinedTile, ProductTile};
use crate::layout::Layout;
use crate::op::TensorOp;
use crate::reference::{BLOCK_LENGTH, N_LANES};
use polyloom_ir::Scalar;

/// The longest row that one thread combines without a loop.
const MAX_UNROLLED: u64 = 32;
/// Rows from this length on are cut to pieces if there are few.
const MIN_SPLIT: u64 = 4 * BLOCK_LENGTH as u64;

/// The elements that reductions combine: rows along the inner axes, one for each place along the outer ones.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ReductionSpace {
    pub(super) outer: Vec<u64>,
    /// The axes of the result that the outer ones are.
    pub(super) outer_order: Vec<usize>,
    pub(super) inner: Vec<u64>,
    /// The axes of the operand in the order of the space.
    pub(super) order: Vec<usize>,
    pub(super) form: RowForm,
    pub(super) range: RowRange,
}

/// The ways in which threads share the rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum RowForm {
    /// A block of 32 threads has a row, each thread a lane.
    Block,
    /// A thread has a row, and combines its elements in a loop, in any order or the ascending one.
    Loop,
    /// A thread has a short row, without a loop.
    Unrolled,
    /// A block of threads has a tile of a product: rows along its length.
    Product(ProductTile),
    /// A block of threads has a tile of a product, which tensor cores compute.
    MatrixProduct(MatrixTile),
    /// A block of threads has a tile of a product, whose factors are copied as they lie in memory.
    PipelinedProduct(PipelinedTile),
    /// A block of 32 threads has some queries of attention.
    Attention(AttentionTile),
    /// A block of 32 threads has a block of 4,096 elements of a row.
    SplitBlock,
    /// A thread has a lane of a block of 4,096 elements of a row.
    SplitLane,
}

/// The part of a row that a thread, or a block of them, combines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum RowRange {
    /// All of it.
    Whole,
    /// The block that the last outer axis tells.
    Block,
    /// The lane of the block that the first two outer axes tell.
    Lane,
}

impl ReductionSpace {
    /// The space of a product of matrices, whose last inner axis is the one that is summed over.
    pub(super) fn of_product(
        outer: Vec<u64>,
        outer_order: Vec<usize>,
        inner: Vec<u64>,
        form: RowForm,
    ) -> ReductionSpace {
        let order = (0..outer.len() + inner.len()).collect();
        ReductionSpace { outer, outer_order, inner, order, form, range: RowRange::Whole }
    }

    /// The space of attention: queries, and along the inner axes blocks of keys, the width of a key, the keys of a block, all
    /// keys, and the width of a value, which the result has too.
    pub(super) fn of_attention(outer: Vec<u64>, inner: Vec<u64>, tile: AttentionTile) -> ReductionSpace {
        let order = (0..outer.len() + inner.len()).collect();
        let outer_order = (0..outer.len()).collect();
        ReductionSpace { outer, outer_order, inner, order, form: RowForm::Attention(tile), range: RowRange::Whole }
    }

    /// The extents of the result, in its own order of axes.
    pub(super) fn result_extents(&self) -> Vec<u64> {
        let mut extents = vec![1; self.outer.len()];
        for (&axis, &extent) in self.outer_order.iter().zip(&self.outer) {
            extents[axis] = extent;
        }
        extents
    }

    /// Says where the result is stored, over the axes of the space.
    pub(super) fn result_layout(&self) -> Layout {
        if let (RowForm::Attention(_), Some(&width)) = (self.form, self.inner.last()) {
            let mut layout = Layout::dense(&[&self.outer[..], &[width]].concat());
            layout.strides.splice(self.outer.len()..self.outer.len(), vec![0; self.inner.len() - 1]);
            layout.extents = [&self.outer[..], &self.inner[..]].concat();
            return layout;
        }
        let result = self.result_extents();
        let dense = Layout::dense(&result);
        // Strides along axes of extent 1 are those of a reshaped value.
        let dense = dense.reshaped(&result).unwrap_or(dense);
        dense.permuted(&self.outer_order).repeated(&self.inner)
    }
}

impl RowForm {
    pub(super) fn range(self) -> RowRange {
        match self {
            RowForm::SplitBlock => RowRange::Block,
            RowForm::SplitLane => RowRange::Lane,
            _ => RowRange::Whole,
        }
    }

    /// Returns true if a kernel has one such reduction alone, whose results no thread has as a whole row's.
    pub(super) fn is_alone(self) -> bool {
        matches!(
            self,
            RowForm::Product(_) | RowForm::MatrixProduct(_) | RowForm::PipelinedProduct(_) | RowForm::Attention(_)
        )
    }

    /// Returns the extents of the parts of rows that are combined by themselves; none if whole rows are.
    pub(super) fn partial_extents(self, outer: &[u64], inner: &[u64]) -> Vec<u64> {
        let n_blocks = inner.iter().product::<u64>().div_ceil(BLOCK_LENGTH as u64);
        match self.range() {
            RowRange::Whole => Vec::new(),
            RowRange::Block => [outer, &[n_blocks]].concat(),
            RowRange::Lane => [&[n_blocks, N_LANES as u64], outer].concat(),
        }
    }
}

/// Returns the scalar type that numbers of a type are combined in.
pub(super) fn accumulator(dtype: Scalar) -> Scalar {
    if dtype.is_half() { Scalar::F32 } else { dtype }
}

/// Returns true if a reduction gives the same in every order.
pub(super) fn is_order_free(op: TensorOp) -> bool {
    !matches!(op, TensorOp::Sum | TensorOp::Prod | TensorOp::MatMul)
}

/// Chooses how threads share the rows of a reduction, by which elements are neighbours in memory.
pub(super) fn choose_form(
    arena: &ExpressionArena,
    op: TensorOp,
    operands: &[ExpressionId],
    outer: &[u64],
    inner: &[u64],
    n_workers: u64,
) -> RowForm {
    let n_rows: u64 = outer.iter().product();
    let length: u64 = inner.iter().product();
    let is_column = has_neighbours_outside(arena, operands, outer, inner);
    let is_index = matches!(op, TensorOp::Argmax | TensorOp::Argmin);
    if length <= MAX_UNROLLED {
        return RowForm::Unrolled;
    }
    if is_column {
        let has_many = n_rows >= 1024 * n_workers;
        return if is_index || (is_order_free(op) && has_many) { RowForm::Loop } else { RowForm::SplitLane };
    }
    if n_rows < 4 * n_workers && length >= MIN_SPLIT && !is_index { RowForm::SplitBlock } else { RowForm::Block }
}

/// Returns true if neighbours in memory are mostly elements of different rows.
fn has_neighbours_outside(arena: &ExpressionArena, operands: &[ExpressionId], outer: &[u64], inner: &[u64]) -> bool {
    let last = |extents: &[u64], first: usize| extents.iter().rposition(|&extent| extent > 1).map(|axis| first + axis);
    let (Some(outer_axis), Some(inner_axis)) = (last(outer, 0), last(inner, outer.len())) else { return false };
    let (mut n_outside, mut n_inside) = (0u32, 0u32);
    arena.visit(operands, |id| {
        if let ExpressionKind::Load(_, layout) = &arena.get(id).kind {
            let bytes = arena.dtype(id).bytes();
            n_outside += if layout.strides[outer_axis].abs() == 1 { bytes } else { 0 };
            n_inside += if layout.strides[inner_axis].abs() == 1 { bytes } else { 0 };
        }
    });
    n_outside > n_inside
}
