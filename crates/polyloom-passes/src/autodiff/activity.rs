//! What derivatives flow through: values that depend on active parameters, and how arrays are accessed.

use super::guards;
use super::request::DerivativeRequest;
use super::rules::derivative;
use crate::analysis::range::{Index, possibly_negative_indices};
use cranelift_entity::EntitySet;
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::analysis::interval::Interval;
use polyloom_ir::analysis::range;
use polyloom_ir::op::{Derivative, OpEffect};
use polyloom_ir::{Function, Imm, Inst, InstData, Op, Region, Type, Value, ValueDef};
use smallvec::SmallVec;
use std::collections::HashMap;

/// The values that depend on an active parameter, so that a derivative with respect to them may matter.
pub(super) fn active_values(func: &Function, is_active: &[bool]) -> EntitySet<Value> {
    let mut active = EntitySet::with_capacity(func.values.len());
    for (&param, _) in func.params().iter().zip(is_active).filter(|(_, active)| **active) {
        active.insert(param);
    }
    // This goes on until nothing is new, because loops feed their results back to their beginning.
    while visit(func, func.body, &mut active) {}
    active
}

/// Adds the active values of a region; gives whether there were any new ones.
fn visit(func: &Function, region: Region, active: &mut EntitySet<Value>) -> bool {
    let mut grows = false;
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        match data.op {
            Op::If | Op::ForRange | Op::While | Op::Block => {
                let n_bounds = if data.op == Op::ForRange { 3 } else { 0 };
                for (slot, &result) in data.results.iter().enumerate() {
                    let mut flows_in: SmallVec<[Value; 4]> = SmallVec::new();
                    let carries = matches!(data.op, Op::ForRange | Op::While);
                    if carries {
                        flows_in.push(data.operands[n_bounds + slot]);
                    }
                    // Early exits have brought it there.
                    flows_in.push(result);
                    let ends = data.regions.iter().skip(usize::from(data.op == Op::While));
                    for &inner in ends {
                        let last = func.terminator(inner).map(|last| &func.insts[last]);
                        flows_in.extend(last.filter(|last| last.op == Op::Yield).map(|last| last.operands[slot]));
                    }
                    if flows_in.iter().any(|&value| active.contains(value)) {
                        grows |= active.insert(result);
                        if carries {
                            for &inner in &data.regions {
                                let params = &func.regions[inner].params;
                                grows |= active.insert(params[params.len() - data.results.len() + slot]);
                            }
                        }
                    }
                }
                for &inner in &data.regions {
                    grows |= visit(func, inner, active);
                }
            }
            Op::Break | Op::Continue => {
                let Imm::Target(target) = data.imm else { continue };
                for (&value, &result) in data.operands.iter().zip(&func.insts[target].results) {
                    grows |= active.contains(value) && active.insert(result);
                }
            }
            _ => {
                let types: SmallVec<[Type; 4]> = data.operands.iter().map(|&operand| func.ty(operand)).collect();
                let flows = data.op == Op::Call || !matches!(derivative(data.op, &types), Derivative::Zero);
                if flows && data.operands.iter().any(|&operand| active.contains(operand)) {
                    for &result in &data.results {
                        if func.ty(result).is_float() {
                            grows |= active.insert(result);
                        }
                    }
                }
            }
        }
    }
    grows
}

/// An array parameter of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArrayParam {
    /// The parameter of the backward kernel that holds its adjoint, if it is active.
    pub(super) adjoint: Option<Value>,
    /// True if the kernel stores to it as well as loads from it.
    pub(super) is_replayed: bool,
    /// True if no two threads touch the adjoint of one element.
    pub(super) is_private: bool,
    /// True if the kernel does nothing with it but to raise elements by `atomic_max`, and to lower others by
    /// `atomic_min`.
    pub(super) is_extremum: bool,
}

/// Returns how the kernel accesses each of its parameters.
pub(super) fn arrays(func: &Function, request: &DerivativeRequest) -> Vec<ArrayParam> {
    let is_own = own_elements(func, request);
    let mut loaded = vec![false; is_own.len()];
    let mut stored = vec![false; is_own.len()];
    func.walk(func.body, &mut |_, data| {
        for param in data.operands.iter().filter_map(|&operand| func.param_index(operand)) {
            loaded[param] |= data.op.info().effect == OpEffect::Read;
        }
        if let Some(param) = data.operands.first().and_then(|&array| func.param_index(array)) {
            stored[param] |= data.op == Op::ArrayStore;
        }
    });
    let is_extremum = extrema(func);
    let of = |param: usize| ArrayParam {
        adjoint: None,
        is_replayed: loaded[param] && stored[param],
        is_private: is_own[param],
        is_extremum: is_extremum[param],
    };
    (0..is_own.len()).map(of).collect()
}

/// For each parameter, whether the kernel uses `atomic_min` and `atomic_max` on elements of the array, and does nothing
/// else with these, nor the one where it does the other.
pub(super) fn extrema(func: &Function) -> Vec<bool> {
    let mut accesses: Vec<SmallVec<[Inst; 4]>> = vec![SmallVec::new(); func.params().len()];
    func.walk(func.body, &mut |inst, data| {
        let Some(param) = data.operands.first().and_then(|&array| func.param_index(array)) else { return };
        if data.op != Op::Dim {
            accesses[param].push(inst);
        }
    });
    let negative = negative_indices(func);
    let op = |inst: Inst| func.insts[inst].op;
    let is_update = |inst: Inst| matches!(op(inst), Op::AtomicMin | Op::AtomicMax);
    let are_apart = |one: Inst, other: Inst| {
        op(one) == op(other)
            || !is_update(one) && !is_update(other)
            || are_other_elements(func, &negative, [one, other])
    };
    let is_extremum = |accesses: SmallVec<[Inst; 4]>| {
        let mut numbered = accesses.iter().enumerate();
        accesses.iter().any(|&inst| is_update(inst))
            && numbered.all(|(at, &one)| accesses[..at].iter().all(|&other| are_apart(one, other)))
    };
    accesses.into_iter().map(is_extremum).collect()
}

/// Returns where the indices of the element that an instruction loads or updates are among its operands.
fn indices(data: &InstData) -> Option<std::ops::Range<usize>> {
    match data.op {
        Op::ArrayLoad | Op::LoadReadonly => Some(1..data.operands.len()),
        Op::AtomicAdd | Op::AtomicSub | Op::AtomicMin | Op::AtomicMax => Some(1..data.operands.len() - 1),
        _ => None,
    }
}

/// Returns true if two loads or updates of an array are of different elements or components, whichever threads do them:
/// an index of the one is no multiple of the power of two in all factors away from that of the other.
pub(super) fn are_other_elements(func: &Function, negative: &[Index], accesses: [Inst; 2]) -> bool {
    let [one, other] = accesses.map(|inst| &func.insts[inst]);
    let (Some(in_one), Some(in_other)) = (indices(one), indices(other)) else { return false };
    // The indices of the whole count of a component and a whole.
    (1..in_one.end.min(in_other.end)).any(|operand| {
        let indices = [one, other].map(|data| AffineSum::of(func, data.operands[operand]));
        let counts = |inst: Inst| negative.contains(&(inst, operand as u8));
        if let [Some(a), Some(b)] = [indices[0].as_const(), indices[1].as_const()] {
            return a != b && (a < 0) == (b < 0);
        }
        let factors = indices.iter().flat_map(|index| index.terms.iter().map(|&(_, factor)| factor));
        // The factor is a power of two, because indices are sums modulo 2^32 or 2^64, which keep their remainders by
        // powers of two alone.
        let factor = 1i64 << factors.fold(0, |all, factor| all | factor).trailing_zeros();
        (indices[0].offset - indices[1].offset) % factor != 0 && !accesses.into_iter().any(counts)
    })
}

/// Describes how an index follows from the thread's coordinate along an axis of the launch, in every access of an
/// array.
#[derive(Clone)]
pub(super) struct IndexPlace {
    /// Says which index of the array it is: the operand of an access.
    pub(super) index: usize,
    pub(super) axis: u8,
    /// Holds what the coordinate is multiplied by.
    pub(super) factor: i64,
    /// Holds what is added and the same in all threads at all times.
    pub(super) same: SmallVec<[(AffineTerm, i64); 2]>,
    /// The least and the greatest of the numbers that are added beside it.
    pub(super) low: i64,
    pub(super) high: i64,
}

impl IndexPlace {
    /// Returns true if threads with different coordinates along the axis have different indices.
    fn is_apart(&self) -> bool {
        self.high - self.low < self.factor.abs()
    }
}

pub(super) type Places = SmallVec<[IndexPlace; 4]>;

/// Greatest factor of a coordinate, and greatest distance from it, for which nothing overflows in launches that are not
/// [long](DerivativeRequest::is_long).
const MAX_STRIDE: i64 = 64;
const MAX_DISTANCE: i64 = 1 << 30;

/// For each parameter, whether each thread has elements of the array of its own, and accesses no others.
pub(super) fn own_elements(func: &Function, request: &DerivativeRequest) -> Vec<bool> {
    own_places(func, request).iter().map(Option::is_some).collect()
}

/// For each parameter, which indices tell the elements that a thread accesses from those of others, if each has its
/// own. It has where, for each axis of the launch, the same index of every access is the coordinate along it: times a
/// factor, plus what is the same in all threads, plus numbers of which the greatest is less than the factor beyond the
/// least.
pub(super) fn own_places(func: &Function, request: &DerivativeRequest) -> Vec<Option<Places>> {
    let mut own: Vec<Option<Places>> = vec![None; func.params().len()];
    let (counters, negative) = (counters(func), negative_indices(func));
    func.walk(func.body, &mut |inst, data| {
        if data.op == Op::Call {
            // Its gradient may add to any elements.
            let params = data.operands.iter().filter_map(|&operand| func.param_index(operand));
            params.for_each(|param| own[param] = Some(Places::new()));
            return;
        }
        let Some(param) = data.operands.first().and_then(|&array| func.param_index(array)) else { return };
        let n_values = match data.op {
            Op::ArrayLoad | Op::LoadReadonly => 0,
            Op::Dim => return,
            _ => 1,
        };
        let end = data.operands.len().saturating_sub(n_values).max(1);
        let place = |operand: usize| {
            let place = place(func, data.operands[operand], &counters, request)
                .map(|place| IndexPlace { index: operand, ..place });
            place.filter(|place| !(negative.contains(&(inst, operand as u8)) && may_be_below(place)))
        };
        let here: Places = (1..end).filter_map(place).collect();
        own[param] = Some(match own[param].take() {
            None => here,
            Some(before) => before.into_iter().filter_map(|place| with(place, &here)).collect(),
        });
    });
    let rank = natural_rank(func).max(request.rank);
    let covers = |places: &Places| (0..rank).all(|axis| places.iter().any(|place| place.axis == axis));
    let is_apart = |param: usize| !request.coinciding.get(param).copied().unwrap_or(false);
    let apart = |(param, places): (usize, Option<Places>)| {
        let mut places = places.filter(|_| is_apart(param))?;
        places.retain(|place| place.is_apart());
        covers(&places).then_some(places)
    };
    own.into_iter().enumerate().map(apart).collect()
}

/// The indices that may be negative. That of `x[n - 1 - i]` may be without a condition such as `i < n`, because in a
/// launch of more threads than `n`, the one with the index -1 comes to the last element, where the first thread may be
/// as well.
pub(super) fn negative_indices(func: &Function) -> SmallVec<[Index; 8]> {
    let mut negative = possibly_negative_indices(func);
    let mut operands: HashMap<Inst, SmallVec<[u8; 2]>> = HashMap::new();
    for &(inst, operand) in &negative {
        operands.entry(inst).or_default().push(operand);
    }
    if !negative.is_empty() {
        guards::walk(func, &mut |inst, reach| {
            if let Some(operands) = operands.get_mut(&inst) {
                let index = |operand: u8| func.insts[inst].operands[usize::from(operand)];
                operands.retain(|operand| !reach.keeps_from_negative(func, index(*operand)));
            }
        });
        negative.retain(|(inst, operand)| operands.get(inst).is_some_and(|left| left.contains(operand)));
    }
    negative
}

/// Returns how an index follows from a coordinate, if that is all that differs between threads.
fn place(func: &Function, value: Value, counters: &[Counter], request: &DerivativeRequest) -> Option<IndexPlace> {
    let (axis, factor, rest) = AffineSum::of(func, value).along_one_axis()?;
    let mut place = IndexPlace { index: 0, axis, factor, same: SmallVec::new(), low: rest.offset, high: rest.offset };
    for (term, factor) in rest.terms {
        let AffineTerm::Value(value) = term else { return None };
        if let Some(&(_, first, last)) = counters.iter().find(|&&(counter, _, _)| counter == value) {
            let ends = [first.checked_mul(factor)?, last.checked_mul(factor)?];
            place.low = place.low.checked_add(ends[0].min(ends[1]))?;
            place.high = place.high.checked_add(ends[0].max(ends[1]))?;
        } else if is_uniform(func, value) {
            place.same.push((term, factor));
        } else {
            return None;
        }
    }
    let is_near = |number: i64| (-MAX_DISTANCE..=MAX_DISTANCE).contains(&number);
    let is_known = factor == 1 || factor.abs() <= MAX_STRIDE && !request.is_long;
    (is_known && is_near(place.low) && is_near(place.high)).then_some(place)
}

/// Returns true if an index may count from the end of its axis, if it may be negative at all: what a coordinate is
/// added to overflows in launches alone that are too long for an array.
fn may_be_below(place: &IndexPlace) -> bool {
    place.factor < 0 || place.low < 0 || !place.same.is_empty()
}

/// Returns true if an index that may overflow in launches alone that are too long for an array is else never negative.
pub(super) fn is_never_negative(
    func: &Function,
    index: Value,
    counters: &[Counter],
    request: &DerivativeRequest,
) -> bool {
    place(func, index, counters, request).is_some_and(|place| !may_be_below(&place))
}

/// The place of one access and of others as one, if there is such.
fn with(place: IndexPlace, others: &[IndexPlace]) -> Option<IndexPlace> {
    let is_alike = |other: &&IndexPlace| {
        (other.index, other.axis, other.factor, &other.same) == (place.index, place.axis, place.factor, &place.same)
    };
    let other = others.iter().find(is_alike)?;
    let (low, high) = (place.low.min(other.low), place.high.max(other.high));
    Some(IndexPlace { low, high, ..place })
}

/// A counter, with the least and the greatest of what it counts.
pub(super) type Counter = (Value, i64, i64);

/// The counters of loops with constant bounds.
pub(super) fn counters(func: &Function) -> Vec<Counter> {
    let mut counters = Vec::new();
    func.walk(func.body, &mut |_, data| {
        if data.op == Op::ForRange
            && let [Some(first), Some(end), Some(step)] =
                [0, 1, 2].map(|at| AffineSum::of(func, data.operands[at]).as_const())
        {
            let constant = |number: i64| Interval::one(number.into());
            let Interval { low, high } = range::of_counter(constant(first), constant(end), constant(step));
            let counter = func.regions[data.regions[0]].params[0];
            if let (true, Ok(low), Ok(high)) = (low <= high, i64::try_from(low), i64::try_from(high)) {
                counters.push((counter, low, high));
            }
        }
    });
    counters
}

/// Returns true if a value is the same in all threads at all times.
fn is_uniform(func: &Function, value: Value) -> bool {
    let is_extent =
        |inst: Inst| func.insts[inst].op == Op::Dim && func.param_index(func.insts[inst].operands[0]).is_some();
    func.param_index(value).is_some() || matches!(func.values[value].def, ValueDef::Result(inst, _) if is_extent(inst))
}

/// The stores that are to another element in every thread: for each axis of the launch, an index is the thread's
/// coordinate times a factor plus what is the same in all threads, and counts from the end of its axis in none.
pub(super) fn stores_apart(func: &Function, request: &DerivativeRequest) -> EntitySet<Inst> {
    let rank = natural_rank(func).max(request.rank);
    let mut apart = EntitySet::new();
    let negative = negative_indices(func);
    func.walk(func.body, &mut |inst, data| {
        if data.op != Op::ArrayStore {
            return;
        }
        let along = |axis: u8| {
            (1..data.operands.len() - 1).any(|operand| {
                place(func, data.operands[operand], &[], request).is_some_and(|place| {
                    place.axis == axis && !(negative.contains(&(inst, operand as u8)) && may_be_below(&place))
                })
            })
        };
        if (0..rank).all(along) {
            apart.insert(inst);
        }
    });
    apart
}

/// Returns true if an index, of those that may be `negative`, may count from the end of its axis, if it is a constant
/// from a coordinate.
pub(super) fn counts_from_end(func: &Function, negative: &[Index], (access, operand): Index) -> bool {
    let index = AffineSum::of(func, func.insts[access].operands[usize::from(operand)]);
    let is_below = |(axis, _, _): (u8, i64, AffineSum)| index.distance(axis).is_none_or(|distance| distance < 0);
    negative.contains(&(access, operand)) && index.along_one_axis().is_none_or(is_below)
}

/// Returns the number of coordinates the kernel asks for.
pub fn natural_rank(func: &Function) -> u8 {
    let mut rank = 1;
    func.walk(func.body, &mut |_, data| {
        if let (Op::Tid, &Imm::Axis(axis)) = (data.op, &data.imm) {
            rank = rank.max(axis + 1);
        }
    });
    rank
}
