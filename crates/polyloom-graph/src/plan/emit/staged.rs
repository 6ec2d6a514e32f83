//! Rows that wait in shared memory: the threads of a block go over them side by side, and a warp adds up what has an order.

use super::accumulate::Accumulator;
use super::rows::States;
use super::{BodyEmitter, Element, StagedPlace};
use crate::plan::body::{BodyAddress, BodyPass};
use crate::plan::staged::StagedRows;
use crate::reference::{BLOCK_LENGTH, N_LANES};
use polyloom_ir::function::{CacheUse, SharedCopy};
use polyloom_ir::{Expr, Op, Scalar};

/// The bytes that a thread copies at once.
const CHUNK_BYTES: u32 = 16;
/// The bytes of a copy in the background, at least.
const LEAST_COPY_BYTES: u32 = 4;

impl<'g> BodyEmitter<'_, 'g> {
    pub(super) fn staged_rows(&self, rows: StagedRows) {
        let b = self.b;
        let starts = rows.slot_starts(&self.body.slots.dtypes);
        let extents = [u32::from(rows.rows), rows.capacity];
        let slots = self.body.slots.dtypes.iter().zip(starts);
        let slots = slots.map(|(&dtype, first)| b.dynamic_matrix(first, dtype, extents)).collect();
        let n_rows = self.body.outer.iter().map(|&axis| self.extent(axis)).reduce(|n, extent| n * extent);
        let n_rows = n_rows.unwrap_or_else(|| self.integer(1));
        let thread = b.thread_idx(0);
        let block = self.widened(b.block_idx(0));
        let (row, member, number) = match rows.rows {
            1 => (b.int(Scalar::I32, 0), thread, block),
            n => {
                let warp = b.op(Op::WarpId, &[]);
                (warp, thread & (N_LANES as i64 - 1), block * i64::from(n) + self.widened(warp))
            }
        };
        let place = StagedPlace { slots, row, member: self.widened(member), is_own: number.lt(n_rows) };
        let outer = self.split(number.min(n_rows - 1), &self.body.outer);
        let emitter = BodyEmitter { outer, staged: Some(place), ..BodyEmitter::new(self.body, b, self.params) };
        for (address, slot) in &self.body.slots.inputs {
            emitter.copy_row(rows, address, usize::from(*slot));
        }
        b.async_commit();
        b.async_wait(0);
        b.sync_threads();
        emitter.rows();
    }

    /// Begins to copy the row to its slot, 16 bytes at once where it begins at a multiple of them.
    fn copy_row(&self, rows: StagedRows, address: &BodyAddress, slot: usize) {
        let (b, Some(staged)) = (self.b, &self.staged) else { return };
        let dtype = self.body.slots.dtypes[slot];
        let n_members = i64::from(rows.warps) * N_LANES as i64;
        let shared = staged.slots[slot];
        let array = self.params[address.array as usize];
        let length = self.row_length();
        let chunk = i64::from(CHUNK_BYTES / dtype.bytes());
        let first = self.place(&address.place, &[self.integer(0)]);
        let at = |element: Expr<'g>| [staged.row, element.cast(Scalar::I32)];
        let copy = |first_element: Expr<'g>, end: Expr<'g>, count: i64| {
            let copied = SharedCopy {
                count: count as u8,
                cache: if count == chunk { CacheUse::L2 } else { CacheUse::All },
                is_in_step: true,
            };
            let start = first_element + staged.member * count;
            b.for_range(start, end, self.integer(n_members * count), [], |element, []| {
                match count == chunk || dtype.bytes() >= LEAST_COPY_BYTES {
                    true => b.async_copy((shared, &at(element)[..]), (array, &[first + element][..]), copied),
                    false => shared.store(&at(element), array.load(&[first + element])),
                }
                []
            });
        };
        let is_in_step = (first & (chunk - 1)).eq(0);
        let whole = is_in_step.select(length - (length & (chunk - 1)), self.integer(0));
        copy(self.integer(0), whole, chunk);
        copy(whole, length, 1);
    }

    pub(super) fn slot(&self, slot: u16, element: &Element<'g>) -> Expr<'g> {
        match (&self.staged, element.inner.first()) {
            (Some(staged), Some(number)) => {
                staged.slots[usize::from(slot)].load(&[staged.row, number.cast(Scalar::I32)])
            }
            _ => self.integer(0),
        }
    }

    pub(super) fn keep(&self, slot: u16, element: &Element<'g>, value: Expr<'g>) {
        if let (Some(staged), Some(number)) = (&self.staged, element.inner.first()) {
            staged.slots[usize::from(slot)].store(&[staged.row, number.cast(Scalar::I32)], value);
        }
    }

    /// Goes over a row: the threads of all warps side by side, and then one warp over each block of elements that are
    /// combined in order.
    pub(super) fn staged_pass(
        &self,
        rows: StagedRows,
        pass: &BodyPass,
        accumulators: &[Accumulator],
        member: Expr<'g>,
        first_arrays: &[u32],
    ) -> States<'g> {
        let b = self.b;
        let n_lanes = N_LANES as i64;
        let length = self.row_length();
        let initial = |accumulators: &[Accumulator]| -> States<'g> {
            accumulators.iter().map(|accumulator| accumulator.initial(b)).collect()
        };
        if rows.warps == 1 {
            let range = (member, length, self.integer(n_lanes));
            let states = self.loop_over(pass, accumulators, range, initial(accumulators));
            return accumulators
                .iter()
                .zip(&states)
                .map(|(accumulator, state)| accumulator.across_warp(state))
                .collect();
        }
        let is_ordered = |accumulator: &Accumulator| accumulator.has_order() && accumulator.dtype().is_float();
        let part = |ordered: bool| -> (BodyPass, Vec<Accumulator>) {
            let reductions = pass.reductions.iter().zip(accumulators);
            let (reductions, accumulators) = reductions
                .filter(|(_, accumulator)| is_ordered(accumulator) == ordered)
                .map(|(reduction, &accumulator)| (reduction.clone(), accumulator))
                .unzip();
            (BodyPass { reductions, ..BodyPass::default() }, accumulators)
        };
        let ((side_by_side, free), (in_order, ordered)) = (part(false), part(true));
        let side_by_side =
            BodyPass { element_stores: pass.element_stores.clone(), kept: pass.kept.clone(), ..side_by_side };
        let arrays_of = |ordered: bool| -> Vec<u32> {
            let arrays = accumulators.iter().zip(first_arrays);
            arrays.filter(|(accumulator, _)| is_ordered(accumulator) == ordered).map(|(_, &first)| first).collect()
        };
        let (free_arrays, ordered_arrays) = (arrays_of(false), arrays_of(true));
        let (warp, lane) = (b.op(Op::WarpId, &[]), b.thread_idx(0) & (n_lanes - 1));
        let mut states = initial(&free);
        if !free.is_empty() || !side_by_side.element_stores.is_empty() || !side_by_side.kept.is_empty() {
            let n_members = i64::from(rows.warps) * n_lanes;
            states = self.loop_over(&side_by_side, &free, (member, length, self.integer(n_members)), states);
        }
        for ((accumulator, state), &first) in free.iter().zip(&states).zip(&free_arrays) {
            let state = accumulator.across_warp(state);
            let arrays = accumulator.arrays(&state, first, rows.warps.into());
            b.if_then(lane.eq(0), || arrays.iter().zip(&state).for_each(|(array, &x)| array.store(&[warp], x)));
        }
        if !side_by_side.kept.is_empty() || !free.is_empty() {
            b.sync_threads();
        }
        let block = self.integer(BLOCK_LENGTH as i64);
        let n_blocks = b.op(Op::FloorDiv, &[length + (BLOCK_LENGTH as i64 - 1), block]);
        if !ordered.is_empty() {
            let step = self.integer(rows.warps.into());
            b.for_range(self.widened(warp), n_blocks, step, [], |number, []| {
                let first = number * block;
                let end = (first + block).min(length);
                let range = (first + self.widened(lane), end, self.integer(n_lanes));
                let states = self.loop_over(&in_order, &ordered, range, initial(&ordered));
                for ((accumulator, state), &array) in ordered.iter().zip(&states).zip(&ordered_arrays) {
                    let total = accumulator.across_warp(state);
                    let arrays = accumulator.arrays(&total, array, rows.n_blocks());
                    b.if_then(lane.eq(0), || arrays[0].store(&[number.cast(Scalar::I32)], total[0]));
                }
                []
            });
            b.sync_threads();
        }
        let combined = accumulators.iter().zip(first_arrays).map(|(accumulator, &first)| {
            let like = accumulator.initial(b);
            if is_ordered(accumulator) {
                let arrays = accumulator.arrays(&like, first, rows.n_blocks());
                return vec![self.combine_blocks(*accumulator, arrays[0], rows.n_blocks(), n_blocks)];
            }
            let arrays = accumulator.arrays(&like, first, rows.warps.into());
            let of_warp = |warp: u8| -> Vec<Expr<'g>> {
                arrays.iter().map(|array| array.load(&[b.int(Scalar::I32, warp.into())])).collect()
            };
            let states = (0..rows.warps).map(of_warp);
            states.reduce(|first, second| accumulator.merge(&first, &second)).unwrap_or(like)
        });
        combined.collect()
    }

    /// Combines the totals of blocks pairwise: neighbours become one, and a last one without a neighbour stays.
    fn combine_blocks(&self, accumulator: Accumulator, totals: Expr<'g>, most: u32, n_blocks: Expr<'g>) -> Expr<'g> {
        let b = self.b;
        let mut left = n_blocks.cast(Scalar::I32);
        let load = |number: u32| totals.load(&[b.int(Scalar::I32, number.into()).min(left - 1)]);
        let mut level: Vec<Expr<'g>> = (0..most).map(load).collect();
        while level.len() > 1 {
            let pairs = level.chunks(2).zip(0i64..).map(|(pair, number)| match pair {
                &[first, second] => {
                    let merged = accumulator.merge(&[first], &[second])[0];
                    left.gt(2 * number + 1).select(merged, first)
                }
                pair => pair[0],
            });
            level = pairs.collect();
            left = (left + 1) >> 1;
        }
        level[0]
    }
}
