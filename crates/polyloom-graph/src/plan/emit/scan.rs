//! Scans, and sums by indices: a thread goes along its row, in the order of [`crate::reference`].

use super::accumulate::Accumulator;
use super::{BodyEmitter, Element};
use crate::op::TensorOp;
use crate::plan::body::{BodyAddress, BodyExpressionKind, BodyReduction, BodyStore, SCAN_THREADS};
use crate::plan::reduction::accumulator;
use crate::reference::{BLOCK_LENGTH, N_LANES};
use polyloom_ir::{Expr, Op, Scalar};

/// The columns of the squares that rows are scanned in: a block of elements has some whole ones.
const TILE_WIDTH: u32 = 64;
/// The columns that a lane loads at once.
const WALK_WIDTH: u32 = 16;
/// The operations of an element up to which a thread loads all of its elements of a square at once.
const MAX_OPS_AT_ONCE: usize = 6;

/// Returns the reduction that a running extremum is of.
fn extremum_of(op: TensorOp) -> Option<TensorOp> {
    match op {
        TensorOp::Cummax => Some(TensorOp::Max),
        TensorOp::Cummin => Some(TensorOp::Min),
        _ => None,
    }
}

impl<'g> BodyEmitter<'_, 'g> {
    pub(super) fn scan(&self) {
        for reduction in self.body.passes.iter().flat_map(|pass| &pass.reductions) {
            let Some(address) = &reduction.scanned else { continue };
            match reduction.op {
                TensorOp::Cumsum => self.scan_blocks(reduction, address, Op::Add),
                TensorOp::Cumprod => self.scan_blocks(reduction, address, Op::Mul),
                TensorOp::Cummax => self.scan_extremum(reduction, address, TensorOp::Max),
                TensorOp::Cummin => self.scan_extremum(reduction, address, TensorOp::Min),
                _ => self.recurrence(reduction, address),
            }
        }
        for store in self.body.passes.iter().flat_map(|pass| &pass.element_stores) {
            self.b.for_range(0, self.row_length(), 1, [], |place, []| {
                self.add_by_index(store, &self.element(place));
                []
            });
        }
    }

    /// Carries a chain from block to block, each of which has one of its own.
    fn scan_blocks(&self, reduction: &BodyReduction, address: &BodyAddress, op: Op) {
        let b = self.b;
        let int = |value: i64| b.int(self.place_type(), value);
        let (length, block) = (self.row_length(), int(BLOCK_LENGTH as i64));
        let n_blocks = b.op(Op::FloorDiv, &[length + int(BLOCK_LENGTH as i64 - 1), block]);
        let dtype = self.scanned_type(reduction);
        let zero = if dtype.is_float() { b.float(dtype, 0.0) } else { b.int(dtype, 0) };
        let combine = |has_first: Expr<'g>, first: Expr<'g>, second: Expr<'g>| {
            has_first.select(b.op(op, &[first, second]), second)
        };
        b.for_range(0, n_blocks, 1, [zero], |number, [carry]| {
            let has_carry = number.gt(0);
            let first = number * block;
            let end = (first + block).min(length);
            let [chain] = b.for_range(first, end, 1, [zero], |place, [chain]| {
                let element = self.element(place);
                let value = self.scanned_value(reduction, 0, &element);
                let chain = combine(place.gt(first), chain, value);
                self.store_scanned(reduction, address, &element, combine(has_carry, carry, chain));
                [chain]
            });
            [combine(has_carry, carry, chain)]
        });
    }

    /// Scans 32 rows: all threads compute a square of elements, whose rows one warp goes along, and store what it finds.
    pub(super) fn scan_tiles(&self) {
        let b = self.b;
        let Some(reduction) = self.body.passes.iter().flat_map(|pass| &pass.reductions).next() else { return };
        let Some(address) = &reduction.scanned else { return };
        let (n_lanes, width) = (N_LANES as i64, i64::from(TILE_WIDTH));
        let n_rows = self.body.outer.iter().map(|&axis| self.extent(axis)).reduce(|n, extent| n * extent);
        let n_rows = n_rows.unwrap_or_else(|| self.integer(1));
        let dtype = self.scanned_type(reduction);
        // A column of the square is in 32 banks.
        let tile = b.shared_matrix(0, dtype, [N_LANES as u32, TILE_WIDTH + 1]);
        let thread = b.thread_idx(0);
        let (warp, lane) = (b.op(Op::WarpId, &[]), thread & (n_lanes - 1));
        let first_row = self.widened(b.block_idx(0)) * n_lanes;
        let length = self.row_length();
        let n_warps = SCAN_THREADS / N_LANES as u32;
        // The elements of a thread, by the row and column of the square.
        let own: Vec<[Expr<'g>; 2]> = (0..N_LANES as u32 / n_warps)
            .flat_map(|row| (0..TILE_WIDTH / N_LANES as u32).map(move |part| (row, part)))
            .map(|(row, part)| [warp + i64::from(row * n_warps), lane + i64::from(part) * n_lanes])
            .collect();
        let n_ops = self.body.expressions.iter();
        let n_ops = n_ops.filter(|each| matches!(each.kind, BodyExpressionKind::Apply(..))).count();
        let at_once = if n_ops <= MAX_OPS_AT_ONCE { own.len() } else { own.len() / 4 };
        let state = self.scan_state(reduction);
        b.for_range_many(self.integer(0), length, self.integer(width), &state, |first, state| {
            let elements = own.iter().map(|&[row, column]| {
                let place = [first_row + self.widened(row), first + self.widened(column)];
                (row, column, place)
            });
            let elements: Vec<_> = elements.collect();
            let of_row = |row: Expr<'g>| {
                let outer = self.split(row.min(n_rows - 1), &self.body.outer);
                BodyEmitter { outer, ..BodyEmitter::new(self.body, b, self.params) }
            };
            for some in elements.chunks(at_once) {
                // Beyond the end are the last elements again, which nobody stores.
                let values: Vec<Expr<'g>> = some
                    .iter()
                    .map(|(_, _, [row, place])| {
                        let emitter = of_row(*row);
                        emitter.scanned_value(reduction, 0, &emitter.element((*place).min(length - 1)))
                    })
                    .collect();
                some.iter().zip(values).for_each(|((row, column, _), value)| tile.store(&[*row, *column], value));
            }
            b.sync_threads();
            let next = self.scan_square(reduction, tile, (warp, lane), first, state);
            b.sync_threads();
            for (row, column, [whole_row, place]) in &elements {
                let is_within = whole_row.lt(n_rows) & place.lt(length);
                b.if_then(is_within, || {
                    let emitter = of_row(*whole_row);
                    let value = tile.load(&[*row, *column]);
                    emitter.store_scanned(reduction, address, &emitter.element(*place), value);
                });
            }
            // The next square takes its place.
            b.sync_threads();
            next
        });
    }

    /// Returns the state of a scan before any element: the chain of the block, and the carry into it.
    fn scan_state(&self, reduction: &BodyReduction) -> Vec<Expr<'g>> {
        let dtype = self.scanned_type(reduction);
        let zero = || if dtype.is_float() { self.b.float(dtype, 0.0) } else { self.b.int(dtype, 0) };
        match extremum_of(reduction.op) {
            Some(op) => Accumulator::of_scan(op, dtype).initial(self.b),
            None => vec![zero(), zero()],
        }
    }

    /// Goes along the rows of a square from the element with a number on, in each lane of the first warp.
    fn scan_square(
        &self,
        reduction: &BodyReduction,
        tile: Expr<'g>,
        (warp, lane): (Expr<'g>, Expr<'g>),
        first: Expr<'g>,
        state: &[Expr<'g>],
    ) -> Vec<Expr<'g>> {
        let b = self.b;
        let dtype = self.scanned_type(reduction);
        let extremum = extremum_of(reduction.op).map(|op| Accumulator::of_scan(op, dtype));
        let op = if reduction.op == TensorOp::Cumprod { Op::Mul } else { Op::Add };
        let is_first_of_block = (first & (BLOCK_LENGTH as i64 - 1)).eq(0);
        let has_carry = first.ge(BLOCK_LENGTH as i64);
        let walk = |state: &[Expr<'g>]| -> Vec<Expr<'g>> {
            let mut state = state.to_vec();
            if extremum.is_none() {
                // The chain of the block before is at its end.
                let has_two = first.gt(BLOCK_LENGTH as i64);
                let carry = has_two.select(b.op(op, &[state[1], state[0]]), state[0]);
                state[1] = is_first_of_block.select(carry, state[1]);
            }
            let n = self.integer(i64::from(TILE_WIDTH)).cast(Scalar::I32);
            b.for_range_many(0, n, i64::from(WALK_WIDTH), &state, |column, state| {
                let mut state = state.to_vec();
                let places: Vec<Expr<'g>> = (0..i64::from(WALK_WIDTH)).map(|number| column + number).collect();
                let values: Vec<Expr<'g>> = places.iter().map(|&place| tile.load(&[lane, place])).collect();
                let mut results = Vec::new();
                for (number, &value) in values.iter().enumerate() {
                    if let Some(extremum) = extremum {
                        state = extremum.step(&state, &[value], first);
                        results.push(extremum.finish(&state, dtype));
                        continue;
                    }
                    let next = b.op(op, &[state[0], value]);
                    let starts = is_first_of_block & column.eq(0);
                    state[0] = if number == 0 { starts.select(value, next) } else { next };
                    results.push(has_carry.select(b.op(op, &[state[1], state[0]]), state[0]));
                }
                places.iter().zip(results).for_each(|(&place, result)| tile.store(&[lane, place], result));
                state
            })
        };
        match *state {
            [first] => b.branch(warp.eq(0), || [walk(&[first])[0]], || [first]).to_vec(),
            [first, second] => {
                let walked = || {
                    let walked = walk(&[first, second]);
                    [walked[0], walked[1]]
                };
                b.branch(warp.eq(0), walked, || [first, second]).to_vec()
            }
            _ => state.to_vec(),
        }
    }

    fn scan_extremum(&self, reduction: &BodyReduction, address: &BodyAddress, op: TensorOp) {
        let accumulator = Accumulator::of_scan(op, self.scanned_type(reduction));
        let initial = accumulator.initial(self.b);
        self.b.for_range_many(0, self.row_length(), 1, &initial, |place, state| {
            let element = self.element(place);
            let state = accumulator.step(state, &[self.scanned_value(reduction, 0, &element)], place);
            self.store_scanned(reduction, address, &element, accumulator.finish(&state, reduction.dtype));
            state
        });
    }

    fn recurrence(&self, reduction: &BodyReduction, address: &BodyAddress) {
        let dtype = self.scanned_type(reduction);
        let zero = if dtype.is_float() { self.b.float(dtype, 0.0) } else { self.b.int(dtype, 0) };
        self.b.for_range(0, self.row_length(), 1, [zero], |place, [state]| {
            let element = self.element(place);
            let [factor, summand] = [0, 1].map(|operand| self.scanned_value(reduction, operand, &element));
            let next = if dtype.is_float() { factor.fma(state, summand) } else { factor * state + summand };
            let state = place.gt(0).select(next, summand);
            self.store_scanned(reduction, address, &element, state);
            [state]
        });
    }

    /// Returns the type that a scan is computed in.
    fn scanned_type(&self, reduction: &BodyReduction) -> Scalar {
        accumulator(self.body.expressions[reduction.values[0] as usize].dtype)
    }

    fn scanned_value(&self, reduction: &BodyReduction, operand: usize, element: &Element<'g>) -> Expr<'g> {
        let (value, dtype) = (self.value(reduction.values[operand], element), self.scanned_type(reduction));
        if value.scalar() == dtype { value } else { value.cast(dtype) }
    }

    fn store_scanned(&self, reduction: &BodyReduction, address: &BodyAddress, element: &Element<'g>, value: Expr<'g>) {
        let value = if value.scalar() == reduction.dtype { value } else { value.cast(reduction.dtype) };
        self.store(address, &element.inner, value);
    }

    /// Adds a value to the element that an index tells, if there is one.
    fn add_by_index(&self, store: &BodyStore, element: &Element<'g>) {
        let Some((index, n, stride)) = store.target else { return };
        let [n, stride] = [n, stride].map(|param| self.params[param as usize]);
        let index = self.counted(self.value(index, element), n);
        let value = self.value(store.value, element);
        let is_within = index.ge(0) & index.lt(n.cast(Scalar::I64));
        self.b.if_then(is_within, || {
            let place = self.place(&store.address.place, &element.inner) + self.widened(index) * stride;
            let array = self.params[store.address.array as usize];
            let old = array.load(&[place]);
            let sum = self.apply(TensorOp::Add, &[old, value], old.scalar());
            array.store(&[place], sum);
        });
    }
}
