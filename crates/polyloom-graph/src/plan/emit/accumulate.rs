//! Reductions as HIR: what is carried from element to element, how lanes become one, and the result.
//!
//! The order is that of [`crate::reference`].

use super::BodyEmitter;
use crate::op::TensorOp;
use crate::plan::body::{BodyAddress, BodyReduction, TOTALS_THREADS};
use crate::plan::reduction::accumulator;
use crate::reference::N_LANES;
use polyloom_ir::{Expr, ExprBuilder, Op, Scalar};

/// Pairs of totals that are loaded before any of them is stored. No pair is stored where a later one lies, and a GPU's thread
/// would wait for each load by itself.
const PAIRS_AT_ONCE: i64 = 4;

/// A reduction whose state is carried through a loop.
#[derive(Clone, Copy)]
pub(super) struct Accumulator {
    op: TensorOp,
    /// The type of the elements as they are combined.
    dtype: Scalar,
}

impl Accumulator {
    pub(super) fn new(op: TensorOp, element: Scalar) -> Accumulator {
        Accumulator { op, dtype: accumulator(element) }
    }

    pub(super) fn dtype(self) -> Scalar {
        self.dtype
    }

    /// Returns true if the order of elements matters.
    pub(super) fn has_order(self) -> bool {
        matches!(self.op, TensorOp::Sum | TensorOp::Prod)
    }

    fn watches_nan(self) -> bool {
        matches!(self.op, TensorOp::Max | TensorOp::Min) && self.dtype.is_float()
    }

    fn is_index(self) -> bool {
        matches!(self.op, TensorOp::Argmax | TensorOp::Argmin)
    }

    /// Returns the state before any element.
    pub(super) fn initial<'g>(self, b: &'g ExprBuilder) -> Vec<Expr<'g>> {
        let number = |value: f64| match self.dtype {
            Scalar::Bool => boolean(b, value != 0.0),
            dtype if dtype.is_float() => b.float(dtype, value),
            dtype => b.int(dtype, value as i64),
        };
        match self.op {
            TensorOp::Prod => vec![number(1.0)],
            TensorOp::All => vec![boolean(b, true)],
            TensorOp::Any => vec![boolean(b, false)],
            TensorOp::Max | TensorOp::Min if self.dtype == Scalar::Bool => vec![boolean(b, self.op == TensorOp::Min)],
            TensorOp::Max | TensorOp::Min => {
                let worst = worst(b, self.dtype, self.op == TensorOp::Max);
                if self.watches_nan() { vec![worst, boolean(b, false)] } else { vec![worst] }
            }
            TensorOp::Argmax | TensorOp::Argmin => {
                let worst = worst(b, self.dtype, self.op == TensorOp::Argmax);
                vec![worst, b.int(Scalar::I64, -1)]
            }
            _ => vec![number(0.0)],
        }
    }

    /// Combines the state with an element, whose number in the row is `place`.
    pub(super) fn step<'g>(self, state: &[Expr<'g>], values: &[Expr<'g>], place: Expr<'g>) -> Vec<Expr<'g>> {
        let b = place.builder();
        let widen = |x: Expr<'g>| if x.scalar() == self.dtype { x } else { x.cast(self.dtype) };
        let x = widen(values[0]);
        match self.op {
            TensorOp::MatMul if self.dtype.is_float() => vec![x.fma(widen(values[1]), state[0])],
            TensorOp::MatMul if self.dtype == Scalar::Bool => vec![state[0] | (x & widen(values[1]))],
            TensorOp::MatMul => vec![state[0] + x * widen(values[1])],
            TensorOp::Max | TensorOp::Min if self.watches_nan() => {
                vec![self.pair(b, state[0], x), state[1] | x.ne(x)]
            }
            TensorOp::Argmax | TensorOp::Argmin => self.better(state, &[x, place.cast(Scalar::I64)]),
            _ => vec![self.pair(b, state[0], x)],
        }
    }

    fn pair<'g>(self, b: &'g ExprBuilder, x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
        let is_bool = self.dtype == Scalar::Bool;
        let op = match self.op {
            TensorOp::Prod => Op::Mul,
            TensorOp::All => Op::BitAnd,
            TensorOp::Any => Op::BitOr,
            TensorOp::Max if is_bool => Op::BitOr,
            TensorOp::Min if is_bool => Op::BitAnd,
            TensorOp::Max => Op::Max,
            TensorOp::Min => Op::Min,
            _ => Op::Add,
        };
        b.op(op, &[x, y])
    }

    /// Returns the better of two candidates, each a value and its place, -1 if there is none.
    fn better<'g>(self, first: &[Expr<'g>], second: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let ordered = |x: Expr<'g>| if x.scalar() == Scalar::Bool { x.cast(Scalar::U8) } else { x };
        let (x, y) = (ordered(first[0]), ordered(second[0]));
        let is_beyond = if self.op == TensorOp::Argmax { y.gt(x) } else { y.lt(x) };
        let (mut wins, mut ties) = (is_beyond, y.eq(x));
        if self.dtype.is_float() {
            let (x_is_nan, y_is_nan) = (x.ne(x), y.ne(y));
            wins = wins | (y_is_nan & !x_is_nan);
            ties = ties | (y_is_nan & x_is_nan);
        }
        let is_earlier = ties & second[1].lt(first[1]);
        let takes = second[1].ge(0) & (first[1].lt(0) | wins | is_earlier);
        vec![takes.select(second[0], first[0]), takes.select(second[1], first[1])]
    }

    /// Combines two states, of which the elements of the first come before.
    pub(super) fn merge<'g>(self, first: &[Expr<'g>], second: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let b = first[0].builder();
        if self.is_index() {
            return self.better(first, second);
        }
        let mut merged = vec![self.pair(b, first[0], second[0])];
        if self.watches_nan() {
            merged.push(first[1] | second[1]);
        }
        merged
    }

    /// Combines the states of the 32 threads of a block as a tree, through shared arrays numbered from `first` on. All threads
    /// get the result.
    pub(super) fn across_lanes<'g>(self, state: &[Expr<'g>], first: u32) -> Vec<Expr<'g>> {
        let b = state[0].builder();
        let array = |(id, x): (u32, &Expr<'g>)| b.shared_array(id, x.scalar(), N_LANES as u32);
        let arrays: Vec<Expr<'g>> = (first..).zip(state).map(array).collect();
        let at = |place: Expr<'g>| -> Vec<Expr<'g>> { arrays.iter().map(|array| array.load(&[place])).collect() };
        let keep = |place: Expr<'g>, state: &[Expr<'g>]| {
            arrays.iter().zip(state).for_each(|(array, &x)| array.store(&[place], x));
        };
        let lane = b.thread_idx(0);
        keep(lane, state);
        b.sync_threads();
        let mut distance = N_LANES as i64 / 2;
        while distance > 0 {
            b.if_then(lane.lt(distance), || keep(lane, &self.merge(&at(lane), &at(lane + distance))));
            b.sync_threads();
            distance /= 2;
        }
        at(b.int(Scalar::I32, 0))
    }

    /// Combines the states of the 32 lanes of a warp as the same tree, without shared memory. All lanes get the result.
    pub(super) fn across_warp<'g>(self, state: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let b = state[0].builder();
        let mut state = state.to_vec();
        let mut distance = N_LANES as u8 / 2;
        while distance > 0 {
            let other: Vec<Expr<'g>> = state.iter().map(|&x| b.shuffle_xor(x, distance)).collect();
            state = self.merge(&state, &other);
            distance /= 2;
        }
        state
    }

    /// Returns shared arrays, numbered from `first` on, of so many states like this one.
    pub(super) fn arrays<'g>(self, state: &[Expr<'g>], first: u32, n: u32) -> Vec<Expr<'g>> {
        let b = state[0].builder();
        (first..).zip(state).map(|(id, x)| b.shared_array(id, x.scalar(), n)).collect()
    }

    /// Returns the number of shared arrays that [`Accumulator::across_lanes`] takes.
    pub(super) fn n_arrays(self) -> u32 {
        if self.watches_nan() || self.is_index() { 2 } else { 1 }
    }

    /// Returns the result, of a type.
    pub(super) fn finish<'g>(self, state: &[Expr<'g>], dtype: Scalar) -> Expr<'g> {
        let value = match self.op {
            TensorOp::Argmax | TensorOp::Argmin => state[1],
            _ if self.watches_nan() => state[1].select(state[0].builder().float(self.dtype, f64::NAN), state[0]),
            _ => state[0],
        };
        if value.scalar() == dtype { value } else { value.cast(dtype) }
    }
}

fn boolean(b: &ExprBuilder, value: bool) -> Expr<'_> {
    b.int(Scalar::I32, i64::from(value)).ne(0)
}

/// Returns a number that is no larger than any other, or no smaller.
fn worst(b: &ExprBuilder, dtype: Scalar, is_least: bool) -> Expr<'_> {
    match dtype {
        Scalar::Bool => boolean(b, !is_least),
        _ if dtype.is_float() => b.float(dtype, if is_least { f64::NEG_INFINITY } else { f64::INFINITY }),
        _ if dtype.is_unsigned_int() => b.int(dtype, if is_least { 0 } else { -1 }),
        _ => {
            let least = i64::MIN >> (64 - dtype.bits());
            b.int(dtype, if is_least { least } else { !least })
        }
    }
}

impl<'g> BodyEmitter<'_, 'g> {
    pub(super) fn accumulator(&self, reduction: &BodyReduction) -> Accumulator {
        let element = self.body.expressions[reduction.values[0] as usize].dtype;
        Accumulator::new(reduction.op, element)
    }

    fn stored_accumulator(&self, op: TensorOp, address: &BodyAddress) -> Accumulator {
        Accumulator::new(op, self.body.params[address.array as usize].dtype)
    }

    /// Combines stored lanes as the tree of a block.
    pub(super) fn combine_lanes(&self, op: TensorOp, address: &BodyAddress, distance: Expr<'g>) -> Expr<'g> {
        let accumulator = self.stored_accumulator(op, address);
        let array = self.params[address.array as usize];
        let mut place = self.place(&address.place, &[]);
        let mut lanes = Vec::new();
        for _ in 0..N_LANES {
            let value = array.load(&[place]);
            lanes.push(accumulator.step(&accumulator.initial_of_merge(value), &[value], place));
            place = place + distance;
        }
        accumulator.finish(&accumulator.tree(lanes), self.body.params[address.array as usize].dtype)
    }

    /// Combines the stored totals of blocks pairwise: each thread some that follow each other, as many as a power of two,
    /// and all threads what those have become. All threads get the result.
    pub(super) fn combine_by_block(&self, op: TensorOp, address: &BodyAddress, n: Expr<'g>, index: u32) -> Expr<'g> {
        let b = self.b;
        let accumulator = self.stored_accumulator(op, address);
        let dtype = self.body.params[address.array as usize].dtype;
        let thread = self.widened(b.thread_idx(0));
        let one = b.int(self.place_type(), 1);
        let [width] =
            b.while_loop([one], |[width]| (width * i64::from(TOTALS_THREADS)).lt(n), |[width]| [width + width]);
        let first = thread * width;
        let n_own = (n - first).min(width);
        let shared = b.shared_array(index, dtype, TOTALS_THREADS);
        b.if_then(n_own.gt(0), || {
            let own = self.combine_pairs(op, address, self.place(&address.place, &[]) + first, n_own);
            shared.store(&[b.thread_idx(0)], own);
        });
        b.sync_threads();
        let n_left = b.op(Op::FloorDiv, &[n + (width - 1), width]);
        let state = |value: Expr<'g>| accumulator.step(&accumulator.initial(b), &[value], b.int(Scalar::I64, 0));
        b.while_loop(
            [n_left],
            |[n_left]| n_left.gt(1),
            |[n_left]| {
                let at = |place: Expr<'g>| shared.load(&[place.min(n_left - 1).cast(Scalar::I32)]);
                let pair = thread + thread;
                let (first, second) = (at(pair), at(pair + 1));
                let merged = accumulator.finish(&accumulator.merge(&state(first), &state(second)), dtype);
                let has_second = (pair + 1).lt(n_left);
                b.sync_threads();
                let half = (n_left + 1) >> 1;
                b.if_then(thread.lt(half), || {
                    shared.store(&[b.thread_idx(0)], has_second.select(merged, first));
                });
                b.sync_threads();
                [half]
            },
        );
        shared.load(&[b.int(Scalar::I32, 0)])
    }

    /// Combines stored totals of blocks from a place on pairwise, in their place.
    pub(super) fn combine_pairs(&self, op: TensorOp, address: &BodyAddress, first: Expr<'g>, n: Expr<'g>) -> Expr<'g> {
        let accumulator = self.stored_accumulator(op, address);
        let dtype = self.body.params[address.array as usize].dtype;
        let array = self.params[address.array as usize];
        let at = |index: Expr<'g>| first + index;
        let state = |value: Expr<'g>| {
            accumulator.step(&accumulator.initial_of_merge(value), &[value], value.builder().int(Scalar::I64, 0))
        };
        self.b.while_loop(
            [n],
            |[n]| n.gt(1),
            |[n]| {
                let half = n >> 1;
                let merged = |pair: Expr<'g>| {
                    let [a, b] = [at(pair + pair), at(pair + pair + 1)].map(|place| state(array.load(&[place])));
                    accumulator.finish(&accumulator.merge(&a, &b), dtype)
                };
                let whole = half - (half & (PAIRS_AT_ONCE - 1));
                self.b.for_range(0, whole, PAIRS_AT_ONCE, [], |first_pair, []| {
                    let pairs: Vec<_> = (0..PAIRS_AT_ONCE).map(|n| first_pair + n).collect();
                    let totals: Vec<_> = pairs.iter().map(|&pair| merged(pair)).collect();
                    pairs.iter().zip(totals).for_each(|(&pair, total)| array.store(&[at(pair)], total));
                    []
                });
                self.b.for_range(whole, half, 1, [], |pair, []| {
                    array.store(&[at(pair)], merged(pair));
                    []
                });
                let is_odd = (n & 1).ne(0);
                self.b.if_then(is_odd, || array.store(&[at(half)], array.load(&[at(n - 1)])));
                [n - half]
            },
        );
        array.load(&[first])
    }
}

impl Accumulator {
    /// Returns the state to which a single stored total is added so that it is kept as it is.
    fn initial_of_merge<'g>(self, value: Expr<'g>) -> Vec<Expr<'g>> {
        self.initial(value.builder())
    }

    /// Combines lanes as the tree of a block. There are at most 32.
    pub(super) fn tree<'g>(self, lanes: Vec<Vec<Expr<'g>>>) -> Vec<Expr<'g>> {
        let mut lanes = lanes;
        let mut distance = N_LANES / 2;
        while distance > 0 {
            for lane in 0..distance {
                if let Some(behind) = lanes.get(lane + distance) {
                    lanes[lane] = self.merge(&lanes[lane], &behind.clone());
                }
            }
            lanes.truncate(distance);
            distance /= 2;
        }
        lanes.swap_remove(0)
    }
}
