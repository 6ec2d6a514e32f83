//! Reductions: whole rows, or parts of them that are combined afterwards.

use super::{StoredKind, TranslatedValue, Translator};
use crate::layout::Layout;
use crate::op::TensorOp;
use crate::plan::expression::{CombineOrder, ExpressionId, ExpressionKind, ViewMap};
use crate::plan::reduction::{ReductionSpace, RowRange, accumulator, choose_form};
use crate::reference::{BLOCK_LENGTH, N_LANES};
use polyloom_ir::Scalar;

impl Translator<'_> {
    pub(super) fn reduce(
        &mut self,
        op: TensorOp,
        operand: &TranslatedValue,
        axes: &[i64],
        extents: &[u64],
        dtype: Scalar,
    ) -> ExpressionId {
        let (inner, outer): (Vec<usize>, Vec<usize>) =
            (0..operand.extents.len()).partition(|&axis| axes.contains(&(axis as i64)));
        let order = [&outer[..], &inner[..]].concat();
        let of = |axes: &[usize]| -> Vec<u64> { axes.iter().map(|&axis| operand.extents[axis]).collect() };
        let (outer, inner) = (of(&outer), of(&inner));
        let rows = self.viewed(operand.expression, &operand.extents, &ViewMap::Permute(order.clone()));
        let form = choose_form(&self.arena, op, &[rows], &outer, &inner, self.options.n_workers.into());
        let partials = form.partial_extents(&outer, &inner);
        let stored = if partials.is_empty() {
            let outer_order = (0..outer.len()).collect();
            let space =
                ReductionSpace { outer: outer.clone(), outer_order, inner, order, form, range: RowRange::Whole };
            self.store_once(dtype, &outer, StoredKind::Reduction { op, operands: vec![rows], space })
        } else {
            self.reduce_in_parts(
                op,
                rows,
                ReductionSpace {
                    outer: outer.clone(),
                    outer_order: (0..outer.len()).collect(),
                    inner,
                    order,
                    form,
                    range: form.range(),
                },
                dtype,
            )
        };
        self.load(stored, Layout { extents: extents.to_vec(), ..kept_layout(&outer, extents) })
    }

    /// Stores the totals of blocks, or of their lanes, and combines those.
    fn reduce_in_parts(&mut self, op: TensorOp, rows: ExpressionId, space: ReductionSpace, dtype: Scalar) -> u32 {
        let n: u64 = space.inner.iter().product();
        let n_blocks = n.div_ceil(BLOCK_LENGTH as u64);
        let outer = space.outer.clone();
        let accumulator = accumulator(dtype);
        let parts = space.form.partial_extents(&outer, &space.inner);
        // The parts of a row are new axes, along which its elements are the same.
        let n_new = parts.len() - outer.len();
        let all = [&parts[..], &space.inner[..]].concat();
        let operand = if space.range == RowRange::Block {
            // The block is the last axis of the outer ones.
            let widened = [&outer[..], &space.inner[..], &parts[outer.len()..]].concat();
            let repeated = self.viewed(
                rows,
                &[&outer[..], &space.inner[..]].concat(),
                &ViewMap::Repeat(parts[outer.len()..].to_vec()),
            );
            let n_outer = outer.len();
            let n_inner = space.inner.len();
            let axes = (0..n_outer).chain(n_outer + n_inner..widened.len()).chain(n_outer..n_outer + n_inner).collect();
            self.viewed(repeated, &widened, &ViewMap::Permute(axes))
        } else {
            self.viewed(rows, &all[n_new..], &ViewMap::Broadcast(all.clone()))
        };
        let range = space.range;
        let parts_space = ReductionSpace { outer: parts.clone(), outer_order: (0..parts.len()).collect(), ..space };
        let partials = self.store_once(
            accumulator,
            &parts,
            StoredKind::Reduction { op, operands: vec![operand], space: parts_space },
        );
        let n_outer: u64 = outer.iter().product();
        let mut totals = partials;
        if range == RowRange::Lane {
            // From [block, lane, outer…] to [outer…, block].
            let dense = Layout::dense(&parts);
            let axes: Vec<usize> = (2..parts.len()).chain([0]).collect();
            let layout = dense.permuted(&axes);
            let extents = layout.extents.clone();
            let combined = ExpressionKind::Combined {
                op,
                order: CombineOrder::Lanes,
                source: partials,
                layout,
                n: N_LANES as u64,
                distance: n_outer as i64,
            };
            let combined = self.arena.intern(combined, accumulator);
            if n_blocks == 1 {
                let flat = self.viewed(combined, &extents, &ViewMap::Reshape(outer.clone()));
                let converted = self.converted(flat, dtype);
                return self.store_once(dtype, &outer, StoredKind::Elementwise(converted));
            }
            totals = self.store_once(accumulator, &extents, StoredKind::Elementwise(combined));
        }
        let first: Vec<i64> = Layout::dense(&outer).strides.iter().map(|stride| stride * n_blocks as i64).collect();
        let combined = ExpressionKind::Combined {
            op,
            order: CombineOrder::Pairs,
            source: totals,
            layout: Layout { extents: outer.clone(), strides: first, offset: 0 },
            n: n_blocks,
            distance: 1,
        };
        let combined = self.arena.intern(combined, accumulator);
        let converted = self.converted(combined, dtype);
        self.store_once(dtype, &outer, StoredKind::Elementwise(converted))
    }
}

/// Returns the layout of a dense value without the axes of extent 1 that a result keeps.
pub(super) fn kept_layout(outer: &[u64], extents: &[u64]) -> Layout {
    let dense = Layout::dense(outer);
    dense.reshaped(extents).unwrap_or(dense)
}
