//! Bodies of products whose factors are copied to shared memory as they lie in memory: a slice of the chain is worked with
//! while the next ones are on their way.
//!
//! A stage of shared memory holds a slice of each factor. Threads copy 16 bytes at once, which do not go through registers,
//! and wait once a slice: for the oldest stage, and for each other, because the stage that they fill next is the one that all
//! have just left. Sums are in registers from the first slice to the last, and are stored from there with whatever is
//! computed of them.
//!
//! Rows and columns beyond the result are its last ones again, which nobody stores. Chains have whole slices.

use super::BodyEmitter;
use crate::plan::body::{BodyAddress, BodyExpressionKind, BodyPass, BodyStride};
use crate::plan::tile::{PipelinedTile, ProductEngine};
use polyloom_ir::fragment::{self, FragmentAccess, MatrixRole, accumulator};
use polyloom_ir::function::{CacheUse, SharedCopy};
use polyloom_ir::{Expr, Op, Scalar};

/// The rows, columns and elements of the chain of a fragment.
const FRAGMENT: u32 = 16;
/// The sums of a fragment that a lane has.
const N_FRAGMENT_SUMS: usize = 8;
/// The blocks below each other that run beside each other, so that they share both factors in the cache.
const BAND: i64 = 8;
/// The threads below each other, and side by side, that add up chains.
const THREAD_EDGE: u32 = 16;

/// A factor on its way through shared memory.
struct StreamedFactor<'b, 'g> {
    /// 0 for the left factor, 1 for the right one.
    index: usize,
    address: &'b BodyAddress,
    shared: Expr<'g>,
    is_along_chain: bool,
}

/// The block's place in the product, and the thread's in the block.
struct PipelinePlace<'g> {
    batch: Vec<Expr<'g>>,
    /// The first row and column, and the numbers of all.
    first: [Expr<'g>; 2],
    extents: [Expr<'g>; 2],
    length: Expr<'g>,
    thread: Expr<'g>,
}

/// The elements that a thread copies at once of each slice: from an element of the first slice on, to a row of shared memory
/// and a place along it.
struct CopiedChunk<'g> {
    factor: usize,
    source: Expr<'g>,
    far: Expr<'g>,
    near: Expr<'g>,
}

/// A sum with its row and column in the tile, which are those of the thread's first sum and constants.
struct TileSum<'g> {
    first: [Expr<'g>; 2],
    from_first: [i64; 2],
    sum: Expr<'g>,
}

impl<'b, 'g> BodyEmitter<'b, 'g> {
    pub(super) fn pipelined_product(&self, tile: PipelinedTile) {
        let Some((reduction, chain)) = self.product() else { return };
        let &[left, right] = &reduction.values[..] else { return };
        let (Some(left), Some(right)) = (self.copied(0, left, tile), self.copied(1, right, tile)) else { return };
        let Some(place) = self.tile_place(tile) else { return };
        let factors = [left, right];
        let sums = match tile.engine {
            ProductEngine::TensorCore => self.sums_by_tensor_cores(tile, &factors, &place),
            ProductEngine::Chain => self.sums_by_chains(tile, &factors, &place),
        };
        let finish = |sum: Expr<'g>| if sum.scalar() == reduction.dtype { sum } else { sum.cast(reduction.dtype) };
        debug_assert!(tile.engine == ProductEngine::TensorCore || chain.dtype() == tile.factor);
        let sums: Vec<TileSum<'g>> = sums.into_iter().map(|sum| TileSum { sum: finish(sum.sum), ..sum }).collect();
        self.store_sums(tile, &sums, &place);
    }

    fn copied(&self, index: usize, value: u32, tile: PipelinedTile) -> Option<StreamedFactor<'b, 'g>> {
        let BodyExpressionKind::Load(address) = &self.body.expressions[value as usize].kind else { return None };
        let first_byte = if index == 0 { 0 } else { tile.shared_ends()[0] };
        let shared = self.b.dynamic_matrix(first_byte, tile.factor, tile.shared_extents(index));
        Some(StreamedFactor { index, address, shared, is_along_chain: tile.is_along_chain[index] })
    }

    /// Finds the block's tile. Blocks that run at the same time have tiles of a few rows of tiles, so that they load
    /// what their neighbours have loaded.
    fn tile_place(&self, tile: PipelinedTile) -> Option<PipelinePlace<'g>> {
        let b = self.b;
        let extents: Vec<Expr<'g>> = self.body.outer.iter().map(|&axis| self.extent(axis)).collect();
        let [batch @ .., n_rows, n_columns] = &extents[..] else { return None };
        let edge = i64::from(tile.edge);
        let divide = |n: Expr<'g>, by: Expr<'g>| b.op(Op::FloorDiv, &[n, by]);
        let count = |n: Expr<'g>| divide(n + (edge - 1), self.integer(edge));
        let (n_tall, n_wide) = (count(*n_rows), count(*n_columns));
        let mut number = self.widened(b.block_idx(0));
        let mut coordinates = Vec::new();
        if !batch.is_empty() {
            let n_blocks = n_tall * n_wide;
            coordinates = self.split_by(divide(number, n_blocks), batch);
            number = number % n_blocks;
        }
        let n_of_band = n_wide * BAND;
        let (first, inside) = (divide(number, n_of_band) * BAND, number % n_of_band);
        let height = (n_tall - first).min(self.integer(BAND));
        let place = [first + inside % height, divide(inside, height)];
        Some(PipelinePlace {
            batch: coordinates,
            first: place.map(|tile| tile * edge),
            extents: [*n_rows, *n_columns],
            length: self.body.inner.first().map(|&axis| self.extent(axis))?,
            thread: b.thread_idx(0),
        })
    }

    /// Finds what the thread copies of each slice.
    fn copied_chunks(
        &self,
        tile: PipelinedTile,
        factors: &[StreamedFactor<'b, 'g>; 2],
        place: &PipelinePlace<'g>,
    ) -> Vec<CopiedChunk<'g>> {
        let chunk = tile.chunk();
        let mut chunks = Vec::new();
        for factor in factors {
            let [n_rows, width] = tile.stage_extents(factor.index);
            let n_of_row = width / chunk;
            // Threads go over some whole rows at once, so that what one copies differs by constants in shared memory.
            let near = (place.thread & i64::from(n_of_row - 1)) * i64::from(chunk);
            let first_far = place.thread >> i64::from(n_of_row.ilog2());
            for index in 0..n_rows * n_of_row / tile.n_threads() {
                let far = first_far + i64::from(index * (tile.n_threads() / n_of_row));
                let [own, along] = if factor.is_along_chain { [far, near] } else { [near, far] };
                let n_at_once = if factor.is_along_chain { 1 } else { chunk };
                let last = place.extents[factor.index] - i64::from(n_at_once);
                let own = (place.first[factor.index] + self.widened(own)).min(last);
                let mut outer = [&place.batch[..], &[self.integer(0), self.integer(0)]].concat();
                outer[place.batch.len() + factor.index] = own;
                let emitter = BodyEmitter { outer, ..BodyEmitter::new(self.body, self.b, self.params) };
                let source = emitter.place(&factor.address.place, &[self.widened(along)]);
                chunks.push(CopiedChunk { factor: factor.index, source, far, near });
            }
        }
        chunks
    }

    /// Begins to copy the thread's chunks of the slices from an element of the chain on to a stage.
    fn copy_slices(
        &self,
        tile: PipelinedTile,
        factors: &[StreamedFactor<'b, 'g>; 2],
        chunks: &[CopiedChunk<'g>],
        stage: Expr<'g>,
        first: Expr<'g>,
    ) {
        let from_first = [0, 1].map(|index: usize| match factors[index].address.place.strides.last() {
            Some(BodyStride::Param(param)) => first * self.params[*param as usize],
            Some(BodyStride::Zero) => self.integer(0),
            _ => first,
        });
        for chunk in chunks {
            let factor = &factors[chunk.factor];
            let first_row = stage * i64::from(tile.stage_extents(chunk.factor)[0]);
            let target = [first_row + chunk.far, chunk.near];
            let source = chunk.source + from_first[chunk.factor];
            let copy = SharedCopy { count: tile.chunk() as u8, cache: CacheUse::L2, is_in_step: true };
            let array = self.params[factor.address.array as usize];
            self.b.async_copy((factor.shared, &target[..]), (array, &[source][..]), copy);
        }
    }

    /// Goes along the chain, with `step` adding the products of a stage to the sums. It is given what begins to copy the
    /// next slice, and calls that once.
    fn pipeline(
        &self,
        tile: PipelinedTile,
        factors: &[StreamedFactor<'b, 'g>; 2],
        place: &PipelinePlace<'g>,
        sums: &[Expr<'g>],
        step: impl Fn(Expr<'g>, &[Expr<'g>], &dyn Fn()) -> Vec<Expr<'g>>,
    ) -> Vec<Expr<'g>> {
        let b = self.b;
        let (n_stages, slice) = (i64::from(PipelinedTile::N_STAGES), i64::from(tile.slice()));
        let n_slices = b.op(Op::FloorDiv, &[place.length, self.integer(slice)]);
        let stage_of = |number: Expr<'g>| (number & (n_stages - 1)).cast(Scalar::I32);
        let chunks = self.copied_chunks(tile, factors, place);
        let begin = |number: Expr<'g>| {
            b.if_then(number.lt(n_slices), || {
                self.copy_slices(tile, factors, &chunks, stage_of(number), number * slice);
            });
            b.async_commit();
        };
        (0..n_stages - 1).for_each(|number| begin(self.integer(number)));
        b.for_range_many(0, n_slices, 1, sums, |number, sums| {
            // The slice has come, and all threads have left the stage of the one before it.
            b.async_wait(PipelinedTile::N_STAGES as u8 - 2);
            b.sync_threads();
            step(stage_of(number), sums, &|| begin(number + (n_stages - 1)))
        })
    }

    /// Returns the sums of the lane's fragments. Each of four warps has a quarter of the tile.
    fn sums_by_tensor_cores(
        &self,
        tile: PipelinedTile,
        factors: &[StreamedFactor<'b, 'g>; 2],
        place: &PipelinePlace<'g>,
    ) -> Vec<TileSum<'g>> {
        let b = self.b;
        let Some(sum_type) = accumulator(tile.factor) else { return Vec::new() };
        let edge = u32::from(tile.edge) / 2;
        let n_fragments = edge / FRAGMENT;
        let warp = place.thread >> 5;
        let origins = [warp >> 1, warp & 1].map(|half| half * i64::from(edge));
        let zero = if sum_type.is_float() { b.float(sum_type, 0.0) } else { b.int(sum_type, 0) };
        let zeros = vec![b.vector(&[zero; N_FRAGMENT_SUMS]); (n_fragments * n_fragments) as usize];
        let load = |factor: &StreamedFactor<'b, 'g>, stage: Expr<'g>, number: u32, k: u32| {
            let n_rows = tile.stage_extents(factor.index)[0];
            let first = stage * i64::from(n_rows);
            // Constants are added last, so that addresses differ by them.
            let [own, along] = match factor.is_along_chain {
                true => [first + origins[factor.index], b.int(Scalar::I32, k.into())],
                false => [origins[factor.index], first + i64::from(k)],
            };
            let own = own + i64::from(number * FRAGMENT);
            // Shared memory has rows of the left factor and columns of the right one, or else elements of the chain.
            let by_columns = factor.is_along_chain == (factor.index == 1);
            let access = FragmentAccess { by_columns, n: FRAGMENT as u8 };
            match factor.index {
                0 => b.load_fragment(MatrixRole::A, factor.shared, [own, along], access),
                _ => b.load_fragment(MatrixRole::B, factor.shared, [along, own], access),
            }
        };
        let sums = self.pipeline(tile, factors, place, &zeros, |stage, sums, copy_next| {
            let mut sums = sums.to_vec();
            for k in (0..tile.slice()).step_by(FRAGMENT as usize) {
                let [left, right] = [0, 1].map(|factor: usize| -> Vec<Expr<'g>> {
                    (0..n_fragments).map(|number| load(&factors[factor], stage, number, k)).collect()
                });
                if k == 0 {
                    // The first fragments are on their way while the threads begin their copies.
                    copy_next();
                }
                for (column, &right) in (0..n_fragments).zip(&right) {
                    for (row, &left) in (0..n_fragments).zip(&left) {
                        let sum = &mut sums[(row * n_fragments + column) as usize];
                        *sum = b.op(Op::Mma, &[left, right, *sum]);
                    }
                }
            }
            sums
        });
        let lane = place.thread & 31;
        let first = [origins[0] + (lane >> 2), origins[1] + (lane & 3) * 2];
        let mut all = Vec::new();
        for (number, sum) in (0..).zip(sums) {
            for element in 0..N_FRAGMENT_SUMS {
                let of_lane = fragment::place(MatrixRole::C, tile.factor, element);
                let at = |number: u32, offset: u8| i64::from(number * FRAGMENT + u32::from(offset));
                let rows = at(number / n_fragments, of_lane.row.offset);
                let columns = at(number % n_fragments, of_lane.column.offset);
                all.push(TileSum { first, from_first: [rows, columns], sum: sum.component(element as u16) });
            }
        }
        all
    }

    /// Returns the sums of the thread's rows and columns, each of them the ascending chain of fused multiply-adds.
    fn sums_by_chains(
        &self,
        tile: PipelinedTile,
        factors: &[StreamedFactor<'b, 'g>; 2],
        place: &PipelinePlace<'g>,
    ) -> Vec<TileSum<'g>> {
        let b = self.b;
        let Some((_, chain)) = self.product() else { return Vec::new() };
        let n_own = u32::from(tile.edge) / THREAD_EDGE;
        // A warp has four by eight threads, so that what several of them load is loaded once.
        let (warp, lane) = (place.thread >> 5, place.thread & 31);
        let thread = [(warp >> 1) * 4 + (lane >> 3), (warp & 1) * 8 + (lane & 7)];
        // Neighbours in shared memory are one thread's, as many as it loads at once.
        let n_near = |factor: &StreamedFactor<'b, 'g>| if factor.is_along_chain { 1 } else { tile.chunk().min(n_own) };
        let first_own = |factor: &StreamedFactor<'b, 'g>| thread[factor.index] * i64::from(n_near(factor));
        let from_first = |factor: &StreamedFactor<'b, 'g>, number: u32| {
            let near = n_near(factor);
            i64::from(number / near * near * THREAD_EDGE + number % near)
        };
        let load = |factor: &StreamedFactor<'b, 'g>, stage: Expr<'g>, number: u32, k: u32| {
            let first = stage * i64::from(tile.stage_extents(factor.index)[0]);
            let (own, more) = (first_own(factor), from_first(factor, number));
            let at = match factor.is_along_chain {
                true => [first + own + more, b.int(Scalar::I32, k.into())],
                false => [first + i64::from(k), own + more],
            };
            factor.shared.load(&at)
        };
        let zeros: Vec<Expr<'g>> = (0..n_own * n_own).flat_map(|_| chain.initial(b)).collect();
        let sums = self.pipeline(tile, factors, place, &zeros, |stage, sums, copy_next| {
            copy_next();
            let mut sums = sums.to_vec();
            for k in 0..tile.slice() {
                let [left, right]: [Vec<Expr<'g>>; 2] = [&factors[0], &factors[1]]
                    .map(|factor| (0..n_own).map(|number| load(factor, stage, number, k)).collect());
                for (sum, number) in sums.iter_mut().zip(0..) {
                    let factors = [left[number / n_own as usize], right[number % n_own as usize]];
                    *sum = chain.step(&[*sum], &factors, *sum)[0];
                }
            }
            sums
        });
        let of_sum = |(number, sum): (u32, Expr<'g>)| TileSum {
            first: [first_own(&factors[0]), first_own(&factors[1])],
            from_first: [from_first(&factors[0], number / n_own), from_first(&factors[1], number % n_own)],
            sum,
        };
        (0..).zip(sums).map(of_sum).collect()
    }

    /// Stores what is stored of a tile. Of whole tiles nothing is compared.
    fn store_sums(&self, tile: PipelinedTile, sums: &[TileSum<'g>], place: &PipelinePlace<'g>) {
        let b = self.b;
        let edge = i64::from(tile.edge);
        let is_within = |axis: usize| (place.first[axis] + edge).le(place.extents[axis]);
        let store = |sum: &TileSum<'g>, is_checked: bool| {
            let [row, column] =
                [0, 1].map(|axis: usize| place.first[axis] + self.widened(sum.first[axis]) + sum.from_first[axis]);
            let store = || {
                let outer = [&place.batch[..], &[row, column]].concat();
                let emitter = BodyEmitter { outer, ..BodyEmitter::new(self.body, b, self.params) };
                let total = |pass: &BodyPass| pass.reductions.iter().map(|_| sum.sum).collect::<Vec<_>>();
                *emitter.totals.borrow_mut() = self.body.passes.iter().map(total).collect();
                let stores = self.body.passes.iter().flat_map(|pass| &pass.row_stores);
                stores.for_each(|store| emitter.store_of_row(store));
            };
            match is_checked {
                true => b.if_then(row.lt(place.extents[0]) & column.lt(place.extents[1]), store),
                false => store(),
            }
        };
        let all = |is_checked: bool| {
            sums.iter().for_each(|sum| store(sum, is_checked));
            []
        };
        let [] = b.branch(is_within(0) & is_within(1), || all(false), || all(true));
    }
}
