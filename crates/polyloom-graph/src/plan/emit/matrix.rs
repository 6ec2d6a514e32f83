//! Bodies of products by tensor cores: a block of threads has a tile of the result, and each of its warps a square of it.
//!
//! The factors go through shared memory, a slice of the chain at a time: what comes before the product is computed when they
//! are put there. The next slice is loaded while the tensor cores work on this one. Sums are in registers, and go to shared memory a
//! fragment at a time, from which neighbouring threads store neighbouring elements, with whatever is computed of them.
//!
//! Rows and columns beyond the result are its last ones again, which nobody stores; beyond the end of the chain are zeros.

use super::{BodyEmitter, Element};
use crate::plan::body::{BodyExpressionKind, BodyPass, BodyStride};
use crate::plan::tile::{MatrixTile, WARP_EDGE};
use polyloom_ir::fragment::{FragmentAccess, MatrixRole, accumulator};
use polyloom_ir::{Expr, Op, Scalar};
use std::cell::RefCell;

/// The bytes between rows of shared memory that keep fragments from the same banks.
const GAP_BYTES: u32 = 16;
/// The rows and columns of a fragment.
const FRAGMENT: u32 = 16;
/// The fragments below each other, and side by side, that a warp has.
const N_FRAGMENTS: u32 = WARP_EDGE as u32 / FRAGMENT;
const BY_ROWS: FragmentAccess = FragmentAccess { by_columns: false, n: FRAGMENT as u8 };
const BY_COLUMNS: FragmentAccess = FragmentAccess { by_columns: true, n: FRAGMENT as u8 };

/// A factor on its way through shared memory, which has a row for each row of the left factor or column of the right one.
struct StagedFactor<'g> {
    value: u32,
    is_left: bool,
    shared: Expr<'g>,
    /// True if neighbouring threads load neighbours along the chain.
    is_along_chain: bool,
}

/// The block's place in the product.
struct BlockPlace<'g> {
    batch: Vec<Expr<'g>>,
    /// The first row and column, and the numbers of all.
    first: [Expr<'g>; 2],
    extents: [Expr<'g>; 2],
    /// The axes that are summed over, and the product of their extents.
    sums: Vec<Expr<'g>>,
    length: Expr<'g>,
    /// The thread's number in the block.
    thread: Expr<'g>,
}

impl<'g> BodyEmitter<'_, 'g> {
    pub(super) fn matrix_product(&self, tile: MatrixTile) {
        let b = self.b;
        let Some((reduction, _)) = self.product() else { return };
        let ([left, right], Some(sum_type)) = (&reduction.values[..], accumulator(tile.factor)) else { return };
        let extents: Vec<Expr<'g>> = self.body.outer.iter().map(|&axis| self.extent(axis)).collect();
        let [batch @ .., n_rows, n_columns] = &extents[..] else { return };
        let edge = tile.edge() as i64;
        let count = |n: Expr<'g>| b.op(Op::FloorDiv, &[n + (edge - 1), self.integer(edge)]);
        let coordinates = [batch, &[count(*n_rows), count(*n_columns)]].concat();
        let mut coordinates = self.split_by(self.widened(b.block_idx(0)), &coordinates);
        let first = coordinates.split_off(batch.len());
        let sums: Vec<Expr<'g>> = self.body.inner.iter().map(|&n| self.extent(n)).collect();
        let length = sums.iter().copied().reduce(|n, extent| n * extent).unwrap_or_else(|| self.integer(1));
        let place = BlockPlace {
            batch: coordinates,
            first: [first[0] * edge, first[1] * edge],
            extents: [*n_rows, *n_columns],
            sums,
            length,
            thread: b.thread_idx(0),
        };
        let pitch = tile.slice() + GAP_BYTES / tile.factor.bytes();
        let staged = |value: u32, is_left: bool| StagedFactor {
            value,
            is_left,
            shared: b.shared_matrix(u32::from(!is_left), tile.factor, [edge as u32, pitch]),
            is_along_chain: self.is_dense_along_chain(value),
        };
        let factors = [staged(*left, true), staged(*right, false)];
        let parts = self.sums_of_tile(tile, sum_type, &factors, &place);
        self.finish_matrices(tile, sum_type, &parts, &place);
    }

    /// Returns true if neighbours along the last axis that is summed over are neighbours in memory.
    fn is_dense_along_chain(&self, value: u32) -> bool {
        let expression = &self.body.expressions[value as usize];
        match &expression.kind {
            BodyExpressionKind::Load(address) => {
                !self.body.inner.is_empty() && address.place.strides.last() == Some(&BodyStride::One)
            }
            BodyExpressionKind::Apply(_, operands) => {
                operands.iter().any(|&operand| self.is_dense_along_chain(operand))
            }
            _ => false,
        }
    }

    /// Returns the sums of the warp's fragments, in row-major order.
    fn sums_of_tile(
        &self,
        tile: MatrixTile,
        sum_type: Scalar,
        factors: &[StagedFactor<'g>; 2],
        place: &BlockPlace<'g>,
    ) -> Vec<Expr<'g>> {
        let b = self.b;
        let warp = place.thread >> 5;
        let warps = b.int(Scalar::I32, tile.warps.into());
        let origins = [Op::FloorDiv, Op::Mod].map(|op| b.op(op, &[warp, warps]) * WARP_EDGE as i64);
        let zero = if sum_type.is_float() { b.float(sum_type, 0.0) } else { b.int(sum_type, 0) };
        let zeros = b.vector(&[zero; 8]);
        let n_sums = (N_FRAGMENTS * N_FRAGMENTS) as usize;
        let load = |first: Expr<'g>| -> Vec<Expr<'g>> {
            factors.iter().flat_map(|factor| self.slice_of(tile, factor, place, first)).collect()
        };
        let mut states = vec![zeros; n_sums];
        states.extend(load(self.integer(0)));
        let end = place.length;
        let states = b.for_range_many(0, end, i64::from(tile.slice()), &states, |first, states| {
            let (sums, slices) = states.split_at(n_sums);
            let mut sums = sums.to_vec();
            // All have read the slice before.
            b.sync_threads();
            let (of_left, of_right) = slices.split_at(slices.len() / 2);
            for (factor, slice) in factors.iter().zip([of_left, of_right]) {
                self.put_slice(tile, factor, place, slice);
            }
            b.sync_threads();
            let next = load(first + i64::from(tile.slice()));
            for k in (0..tile.slice()).step_by(FRAGMENT as usize) {
                let k = b.int(Scalar::I32, k.into());
                let along = |origin: Expr<'g>, index: u32| origin + i64::from(index * FRAGMENT);
                let left: Vec<Expr<'g>> = (0..N_FRAGMENTS)
                    .map(|row| b.load_fragment(MatrixRole::A, factors[0].shared, [along(origins[0], row), k], BY_ROWS))
                    .collect();
                for column in 0..N_FRAGMENTS {
                    let origin = [k, along(origins[1], column)];
                    let right = b.load_fragment(MatrixRole::B, factors[1].shared, origin, BY_COLUMNS);
                    for (row, &left) in left.iter().enumerate() {
                        let sum = &mut sums[row * N_FRAGMENTS as usize + column as usize];
                        *sum = b.op(Op::Mma, &[left, right, *sum]);
                    }
                }
            }
            sums.extend(next);
            sums
        });
        states[..n_sums].to_vec()
    }

    /// Returns the row, or column, of a tile and the place in the slice of an element that a thread puts into shared memory.
    fn staged_place(&self, tile: MatrixTile, factor: &StagedFactor<'g>, thread: Expr<'g>, index: u32) -> [Expr<'g>; 2] {
        let number = thread + i64::from(index * tile.n_threads());
        let width = if factor.is_along_chain { i64::from(tile.slice()) } else { tile.edge() as i64 };
        let (far, near) = (number >> i64::from(width.ilog2()), number & (width - 1));
        if factor.is_along_chain { [far, near] } else { [near, far] }
    }

    fn n_staged(tile: MatrixTile) -> u32 {
        tile.edge() as u32 * tile.slice() / tile.n_threads()
    }

    /// Computes the thread's elements of a slice of a factor.
    fn slice_of(
        &self,
        tile: MatrixTile,
        factor: &StagedFactor<'g>,
        place: &BlockPlace<'g>,
        first: Expr<'g>,
    ) -> Vec<Expr<'g>> {
        let (b, axis) = (self.b, usize::from(!factor.is_left));
        let zero = if tile.factor.is_float() { b.float(tile.factor, 0.0) } else { b.int(tile.factor, 0) };
        let element = |index: u32| {
            let [row, along] = self.staged_place(tile, factor, place.thread, index).map(|place| self.widened(place));
            let row = (place.first[axis] + row).min(place.extents[axis] - 1);
            let along = first + along;
            let inner = self.split_by(along.min(place.length - 1), &place.sums);
            let mut outer = [&place.batch[..], &[self.integer(0), self.integer(0)]].concat();
            outer[place.batch.len() + axis] = row;
            let emitter = BodyEmitter { outer, ..BodyEmitter::new(self.body, b, self.params) };
            let element = Element { inner, values: RefCell::new(vec![None; self.body.expressions.len()]) };
            along.lt(place.length).select(emitter.value(factor.value, &element), zero)
        };
        (0..Self::n_staged(tile)).map(element).collect()
    }

    fn put_slice(&self, tile: MatrixTile, factor: &StagedFactor<'g>, place: &BlockPlace<'g>, slice: &[Expr<'g>]) {
        for (index, &value) in (0..).zip(slice) {
            factor.shared.store(&self.staged_place(tile, factor, place.thread, index), value);
        }
    }

    /// Stores what is stored of a tile, given the sums of the warp's fragments.
    fn finish_matrices(&self, tile: MatrixTile, sum_type: Scalar, parts: &[Expr<'g>], place: &BlockPlace<'g>) {
        let b = self.b;
        let Some((reduction, _)) = self.product() else { return };
        let n_warps = u32::from(tile.warps).pow(2);
        let shared = b.shared_matrix(2, sum_type, [n_warps * FRAGMENT, FRAGMENT]);
        let (warp, lane) = (place.thread >> 5, place.thread & 31);
        let warps = b.int(Scalar::I32, tile.warps.into());
        let origins = [Op::FloorDiv, Op::Mod].map(|op| b.op(op, &[warp, warps]) * WARP_EDGE as i64);
        let own = warp * i64::from(FRAGMENT);
        for (index, &part) in (0..).zip(parts) {
            let corner = [index / N_FRAGMENTS, index % N_FRAGMENTS].map(|number| i64::from(number * FRAGMENT));
            let column = lane & i64::from(FRAGMENT - 1);
            b.store_fragment(shared, [own, b.int(Scalar::I32, 0)], part, BY_ROWS);
            b.sync_threads();
            b.for_range(0, b.int(Scalar::I32, i64::from(FRAGMENT / 2)), 1, [], |pair, []| {
                let row = pair * 2 + (lane >> i64::from(FRAGMENT.ilog2()));
                let at = |axis: usize, inside: Expr<'g>| {
                    place.first[axis] + self.widened(origins[axis] + corner[axis] + inside)
                };
                let (result_row, result_column) = (at(0, row), at(1, column));
                let is_inside = result_row.lt(place.extents[0]) & result_column.lt(place.extents[1]);
                b.if_then(is_inside, || {
                    let sum = shared.load(&[own + row, column]);
                    let sum = if sum.scalar() == reduction.dtype { sum } else { sum.cast(reduction.dtype) };
                    let outer = [&place.batch[..], &[result_row, result_column]].concat();
                    let emitter = BodyEmitter { outer, ..BodyEmitter::new(self.body, b, self.params) };
                    let total = |pass: &BodyPass| pass.reductions.iter().map(|_| sum).collect::<Vec<_>>();
                    *emitter.totals.borrow_mut() = self.body.passes.iter().map(total).collect();
                    let stores = self.body.passes.iter().flat_map(|pass| &pass.row_stores);
                    stores.for_each(|store| emitter.store_of_row(store));
                });
                []
            });
            b.sync_threads();
        }
    }
}
