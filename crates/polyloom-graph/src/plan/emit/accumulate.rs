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
///
/// The extremum of floats is worked out by comparing integers, which takes one instruction of the next to wait for. The bits
/// of floats, as they are, are in the order of the floats where these are positive, and in the opposite order where they are
/// negative. So the state is the greatest and the least of the bits as signed integers and the greatest as unsigned ones,
/// which tell the extremum, and whether there was a NaN. Lanes are combined, and places of extrema found, by *keys*: integers in the order of
/// the floats, of which NaN's goes before all others.
#[derive(Clone, Copy)]
pub(super) struct Accumulator {
    op: TensorOp,
    /// The type of the elements as they are combined.
    dtype: Scalar,
    /// The type that elements are counted in.
    place_type: Scalar,
    /// True if the result is asked for after each element.
    is_scan: bool,
}

impl Accumulator {
    pub(super) fn new(op: TensorOp, element: Scalar) -> Accumulator {
        Accumulator { op, dtype: accumulator(element), place_type: Scalar::I64, is_scan: false }
    }

    /// The reduction whose result after each element a scan stores.
    pub(super) fn of_scan(op: TensorOp, element: Scalar) -> Accumulator {
        Accumulator { is_scan: true, ..Accumulator::new(op, element) }
    }

    /// Counts elements in this type.
    fn with_places(self, place_type: Scalar) -> Accumulator {
        Accumulator { place_type, ..self }
    }

    pub(super) fn dtype(self) -> Scalar {
        self.dtype
    }

    /// Returns true if the order of elements matters.
    pub(super) fn has_order(self) -> bool {
        matches!(self.op, TensorOp::Sum | TensorOp::Prod)
    }

    /// Returns true if the state is what the bits of floats are between.
    fn has_bits(self) -> bool {
        self.is_extremum() && !self.is_scan && self.dtype.is_float()
    }

    /// Returns true if the state has the key of a float.
    fn has_keys(self) -> bool {
        (self.is_index() || self.is_extremum() && self.is_scan) && self.dtype.is_float()
    }

    fn is_extremum(self) -> bool {
        matches!(self.op, TensorOp::Max | TensorOp::Min)
    }

    fn is_index(self) -> bool {
        matches!(self.op, TensorOp::Argmax | TensorOp::Argmin)
    }

    fn looks_for_most(self) -> bool {
        matches!(self.op, TensorOp::Max | TensorOp::Argmax)
    }

    fn key_type(self) -> Scalar {
        if self.dtype.bits() == 64 { Scalar::I64 } else { Scalar::I32 }
    }

    fn unsigned_key_type(self) -> Scalar {
        if self.dtype.bits() == 64 { Scalar::U64 } else { Scalar::U32 }
    }

    /// The state of a float alone.
    fn bits<'g>(self, x: Expr<'g>) -> Vec<Expr<'g>> {
        let bits = x.bitcast(self.key_type());
        vec![bits, bits, x.bitcast(self.unsigned_key_type())]
    }

    /// The key of the extremum of such a state.
    fn key_of_bits<'g>(self, state: &[Expr<'g>]) -> Expr<'g> {
        let [greatest, least, most] = state else { return state[0] };
        let b = greatest.builder();
        let signed = most.bitcast(self.key_type());
        let extremum = match self.looks_for_most() {
            true => greatest.ge(0).select(*greatest, *least),
            false => least.lt(0).select(signed, *least),
        };
        let infinity = b.float(self.dtype, f64::INFINITY).bitcast(self.key_type());
        let negative = b.float(self.dtype, f64::NEG_INFINITY).bitcast(self.key_type());
        // Of negative integers, the order as unsigned ones is that as signed ones.
        let is_nan = greatest.gt(infinity) | (signed.lt(0) & signed.gt(negative));
        is_nan.select(self.first_key(b), self.key_of_number(extremum))
    }

    fn key_of_number<'g>(self, bits: Expr<'g>) -> Expr<'g> {
        bits ^ (self.sign(bits) & self.magnitude_bits(bits.builder()))
    }

    /// -1 for what is negative, otherwise 0.
    fn sign<'g>(self, bits: Expr<'g>) -> Expr<'g> {
        bits >> i64::from(self.dtype.bits() - 1)
    }

    /// The key that no other goes before: NaN's.
    fn first_key<'g>(self, b: &'g ExprBuilder) -> Expr<'g> {
        worst(b, self.key_type(), !self.looks_for_most())
    }

    /// The key of a float. The zeros have the same one where the place of an extremum is looked for.
    fn key<'g>(self, x: Expr<'g>) -> Expr<'g> {
        let bits = x.bitcast(self.key_type());
        let key = self.key_of_number(bits);
        let key = if self.is_index() { key - self.sign(bits) } else { key };
        x.ne(x).select(self.first_key(x.builder()), key)
    }

    /// The float that an extremum's key stands for.
    fn float_of<'g>(self, key: Expr<'g>) -> Expr<'g> {
        let b = key.builder();
        let float = self.key_of_number(key).bitcast(self.dtype);
        key.eq(self.first_key(b)).select(b.float(self.dtype, f64::NAN), float)
    }

    /// All bits but the sign's.
    fn magnitude_bits(self, b: &ExprBuilder) -> Expr<'_> {
        worst(b, self.key_type(), false)
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
            TensorOp::Max | TensorOp::Min if self.has_bits() => self.bits(worst(b, self.dtype, self.looks_for_most())),
            TensorOp::Max | TensorOp::Min if self.has_keys() => {
                vec![self.key(worst(b, self.dtype, self.looks_for_most()))]
            }
            TensorOp::Max | TensorOp::Min => vec![worst(b, self.dtype, self.looks_for_most())],
            TensorOp::Argmax | TensorOp::Argmin => {
                let dtype = if self.has_keys() { self.key_type() } else { self.dtype };
                vec![worst(b, dtype, self.looks_for_most()), b.int(self.place_type, -1)]
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
            TensorOp::Argmax | TensorOp::Argmin => {
                let x = if self.has_keys() { self.key(x) } else { x };
                let place = if place.scalar() == self.place_type { place } else { place.cast(self.place_type) };
                self.first_or_better(state, &[x, place])
            }
            _ if self.has_bits() => self.merge(state, &self.bits(x)),
            _ if self.has_keys() => vec![self.pair(b, state[0], self.key(x))],
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

    /// Returns true where the second is better than the first.
    fn is_better<'g>(self, first: Expr<'g>, second: Expr<'g>) -> Expr<'g> {
        let ordered = |x: Expr<'g>| if x.scalar() == Scalar::Bool { x.cast(Scalar::U8) } else { x };
        let (first, second) = (ordered(first), ordered(second));
        if self.looks_for_most() { second.gt(first) } else { second.lt(first) }
    }

    /// Returns the better of two candidates, each a value and its place, where the second comes after the first.
    fn first_or_better<'g>(self, first: &[Expr<'g>], second: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let is_better = self.is_better(first[0], second[0]);
        // No key of a float is that of no element yet.
        let takes = if self.has_keys() { is_better } else { first[1].lt(0) | is_better };
        vec![takes.select(second[0], first[0]), takes.select(second[1], first[1])]
    }

    /// Returns the better of two candidates, each a value and its place, -1 if there is none.
    fn better<'g>(self, first: &[Expr<'g>], second: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let ties = !(self.is_better(first[0], second[0]) | self.is_better(second[0], first[0]));
        let is_earlier = ties & second[1].lt(first[1]);
        let wins = self.is_better(first[0], second[0]) | is_earlier;
        let takes = second[1].ge(0) & (first[1].lt(0) | wins);
        vec![takes.select(second[0], first[0]), takes.select(second[1], first[1])]
    }

    /// Combines two states, of which the elements of the first come before.
    pub(super) fn merge<'g>(self, first: &[Expr<'g>], second: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let b = first[0].builder();
        if self.is_index() {
            return self.better(first, second);
        }
        if let ([greatest, least, most], [other_greatest, other_least, other_most]) = (first, second) {
            return vec![greatest.max(*other_greatest), least.min(*other_least), most.max(*other_most)];
        }
        vec![self.pair(b, first[0], second[0])]
    }

    /// Combines the states of the 32 threads of a block as a tree, through shared arrays numbered from `first` on. All threads
    /// get the result.
    pub(super) fn across_lanes<'g>(self, state: &[Expr<'g>], first: u32) -> Vec<Expr<'g>> {
        if self.has_bits() {
            let b = state[0].builder();
            let pair = |x: &[Expr<'g>], y: &[Expr<'g>]| vec![self.pair(b, x[0], y[0])];
            return self.bits(self.float_of(across_block(&[self.key_of_bits(state)], first, pair)[0]));
        }
        across_block(state, first, |x, y| self.merge(x, y))
    }

    /// Combines the states of the 32 lanes of a warp as the same tree, without shared memory. All lanes get the result.
    pub(super) fn across_warp<'g>(self, state: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let b = state[0].builder();
        let mut state = if self.has_bits() { vec![self.key_of_bits(state)] } else { state.to_vec() };
        let mut distance = N_LANES as u8 / 2;
        while distance > 0 {
            let other: Vec<Expr<'g>> = state.iter().map(|&x| b.shuffle_xor(x, distance)).collect();
            state = self.merge(&state, &other);
            distance /= 2;
        }
        if self.has_bits() { self.bits(self.float_of(state[0])) } else { state }
    }

    /// Returns shared arrays, numbered from `first` on, of so many states like this one.
    pub(super) fn arrays<'g>(self, state: &[Expr<'g>], first: u32, n: u32) -> Vec<Expr<'g>> {
        let b = state[0].builder();
        (first..).zip(state).map(|(id, x)| b.shared_array(id, x.scalar(), n)).collect()
    }

    /// Returns the number of shared arrays that [`Accumulator::across_lanes`] takes.
    pub(super) fn n_arrays(self) -> u32 {
        if self.is_index() {
            2
        } else if self.has_bits() {
            3
        } else {
            1
        }
    }

    /// Returns the result, of a type.
    pub(super) fn finish<'g>(self, state: &[Expr<'g>], dtype: Scalar) -> Expr<'g> {
        let value = match self.op {
            TensorOp::Argmax | TensorOp::Argmin => state[1],
            _ if self.has_bits() => self.float_of(self.key_of_bits(state)),
            _ if self.has_keys() => self.float_of(state[0]),
            _ => state[0],
        };
        if value.scalar() == dtype { value } else { value.cast(dtype) }
    }
}

/// Combines the states of the 32 threads of a block as a tree, through shared arrays numbered from `first` on.
fn across_block<'g>(
    state: &[Expr<'g>],
    first: u32,
    merge: impl Fn(&[Expr<'g>], &[Expr<'g>]) -> Vec<Expr<'g>>,
) -> Vec<Expr<'g>> {
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
        b.if_then(lane.lt(distance), || keep(lane, &merge(&at(lane), &at(lane + distance))));
        b.sync_threads();
        distance /= 2;
    }
    at(b.int(Scalar::I32, 0))
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
        Accumulator::new(reduction.op, element).with_places(self.place_type())
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
