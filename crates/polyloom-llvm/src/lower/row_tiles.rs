//! Loops in which each thread goes along a row of its own.
//!
//! The elements that neighbouring threads access are then a row apart, and each is near the one that the same thread
//! accesses next. A group loads a tile, some elements of each lane's row, and transposes it in registers to a vector for
//! each iteration; what iterations store is transposed back. [`TiledLoop::of`] says which accesses of a loop can be part
//! of tiles, [`super::tiled_loop`] lowers them.
//!
//! A tile is read before the first of its iterations and written after the last. That is as good as in order if nothing
//! else in the loop touches the array's elements: what an iteration stored and a later one loads is taken from the tile.
//!
//! Design: `docs/design/cpu-strategies.md`.

use super::indices::WrappedIndex;
use polyloom_codegen::ArgFacts;
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::analysis::effects::CallEffects;
use polyloom_ir::analysis::uniformity::Uniformity;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{Function, Imm, Inst, Module, Op, Region, Scalar, Value, ValueDef};
use rustc_hash::{FxHashMap, FxHashSet};

/// Fewest iterations worth a tile, where their number is known.
const FEWEST_ITERATIONS: u64 = 6;
/// Lanes whose rows begin less than this many elements apart share cache lines.
const NEAR: i64 = 8;
/// Most iterations between a store and a load of what it stored.
const MOST_ITERATIONS_BACK: u32 = 4;

/// A loop whose accesses are lowered as tiles.
#[derive(Debug)]
pub(super) struct TiledLoop {
    /// True if it counts down by one, in place of up.
    pub(super) counts_down: bool,
    pub(super) walks: Vec<RowWalk>,
    pub(super) reloads: Vec<Reload>,
}

/// An access of a tiled loop, which is executed once in every iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowWalk {
    pub(super) inst: Inst,
    /// The array, a parameter.
    pub(super) array: Value,
    /// The index along the last axis, before one that is negative is made to count from the end.
    pub(super) index: Value,
    /// True if negative indices count from the end, so that the tile is one only if there are none.
    pub(super) counts_from_end: bool,
    /// True if each iteration's element is before the last one's.
    pub(super) goes_back: bool,
    pub(super) is_store: bool,
    /// The number of earlier iterations that reloads go back.
    pub(super) n_reloaded: u32,
}

/// A load of what the loop itself has stored, in every iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reload {
    /// The load as a walk of its own.
    pub(super) walk: RowWalk,
    /// The place of the store in the list of walks.
    pub(super) store: usize,
    /// The number of iterations between the store and the load.
    pub(super) iterations_ago: u32,
}

/// An access that may become part of a tile.
struct Candidate<'f> {
    walk: RowWalk,
    outer: &'f [Value],
    /// The index along the last axis, without its constant.
    row: AffineSum,
    offset: i64,
}

impl TiledLoop {
    /// Returns the accesses of a loop that can be part of tiles; `None` if there are none.
    pub(super) fn of(
        module: &Module,
        func: &Function,
        uniformity: &Uniformity,
        facts: &ArgFacts,
        inst: Inst,
    ) -> Option<TiledLoop> {
        let data = &func.insts[inst];
        let counts_down = match func.as_const(data.operands.get(2).copied()?)? as i32 {
            1 => false,
            -1 => true,
            _ => return None,
        };
        let body = data.regions[0];
        let counter = *func.regions[body].params.first()?;
        let ty = func.ty(counter).as_scalar().filter(|ty| ty.is_signed_int() && ty.bits() >= 32)?;
        let is_loop = data.op == Op::ForRange && data.imm != Imm::Parallel;
        if !is_loop || !uniformity.cond_is_uniform(inst) || !uniformity.shape(counter).is_uniform() {
            return None;
        }
        if let [Some(lo), Some(hi)] = [data.operands[0], data.operands[1]].map(|bound| func.as_const(bound)) {
            let number = |bits: u64| (bits << (64 - ty.bits())) as i64 >> (64 - ty.bits());
            if number(hi).abs_diff(number(lo)) < FEWEST_ITERATIONS {
                return None;
            }
        }
        let found = LoopAccesses::of(module, func, body)?;
        let context = WalkContext { func, uniformity, facts, counter, counts_down, inside: &found.inside };
        let mut tiled = TiledLoop { counts_down, walks: Vec::new(), reloads: Vec::new() };
        for &array in &found.arrays {
            context.add_walks(array, &found, &mut tiled);
        }
        (!tiled.walks.is_empty()).then_some(tiled)
    }
}

/// The accesses of a function's loops that can be part of tiles, each with whether it only loads what the loop stored.
pub(super) fn tiled_accesses(
    module: &Module,
    func: &Function,
    uniformity: &Uniformity,
    facts: &ArgFacts,
) -> FxHashMap<Inst, bool> {
    let mut found = FxHashMap::default();
    func.walk(func.body, &mut |inst, data| {
        let is_loop = data.op == Op::ForRange;
        let Some(tiled) = is_loop.then(|| TiledLoop::of(module, func, uniformity, facts, inst)).flatten() else {
            return;
        };
        found.extend(tiled.walks.iter().map(|walk| (walk.inst, false)));
        found.extend(tiled.reloads.iter().map(|reload| (reload.walk.inst, true)));
    });
    found
}

/// The accesses of arrays in a loop's body.
struct LoopAccesses {
    /// The array parameters, each once.
    arrays: Vec<Value>,
    /// All accesses of array parameters in order, and whether each iteration executes them.
    accesses: Vec<(Inst, bool)>,
    /// Values that the loop makes.
    inside: FxHashSet<Value>,
}

impl LoopAccesses {
    /// `None` if an iteration may leave the loop, or does to memory what is neither a load nor a store of a parameter's
    /// element.
    fn of(module: &Module, func: &Function, body: Region) -> Option<LoopAccesses> {
        let mut found = LoopAccesses { arrays: Vec::new(), accesses: Vec::new(), inside: FxHashSet::default() };
        let top: FxHashSet<Inst> = func.regions[body].insts.iter().copied().collect();
        let mut is_plain = true;
        found.inside.extend(&func.regions[body].params);
        func.walk(body, &mut |inst, data| {
            found.inside.extend(&data.results);
            data.regions.iter().for_each(|&region| found.inside.extend(&func.regions[region].params));
            match data.op {
                Op::ArrayLoad | Op::LoadReadonly | Op::ArrayStore => {
                    let array = data.operands[0];
                    is_plain &= func.param_index(array).is_some();
                    if !found.arrays.contains(&array) {
                        found.arrays.push(array);
                    }
                    found.accesses.push((inst, top.contains(&inst)));
                }
                Op::Break | Op::Continue | Op::Return | Op::Unreachable => is_plain = false,
                Op::Call => {
                    let Imm::Func(callee) = data.imm else { return is_plain = false };
                    is_plain &= CallEffects::of_function(module, callee) == OpEffect::Pure;
                }
                op => {
                    let is_write = matches!(op.info().effect, OpEffect::Write | OpEffect::ReadWrite);
                    is_plain &= !is_write;
                }
            }
        });
        is_plain.then_some(found)
    }
}

/// The loop, and what is known of its arrays and values.
struct WalkContext<'a> {
    func: &'a Function,
    uniformity: &'a Uniformity,
    facts: &'a ArgFacts,
    counter: Value,
    counts_down: bool,
    inside: &'a FxHashSet<Value>,
}

impl<'a> WalkContext<'a> {
    /// Adds the walks along an array's rows, if no two of them are of one element in an order that tiles would change.
    fn add_walks(&self, array: Value, found: &LoopAccesses, tiled: &mut TiledLoop) {
        let func = self.func;
        let of_array = || found.accesses.iter().filter(|&&(inst, _)| func.insts[inst].operands[0] == array);
        let candidates = of_array().map(|&(inst, always)| if always { self.candidate(inst) } else { None });
        let stores: Vec<Inst> =
            of_array().map(|&(inst, _)| inst).filter(|&inst| func.insts[inst].op == Op::ArrayStore).collect();
        let Some(&store) = stores.first() else {
            return tiled.walks.extend(candidates.flatten().map(|candidate| candidate.walk));
        };
        let Some(candidates) = candidates.collect::<Option<Vec<_>>>() else { return };
        let Some(at) = candidates.iter().position(|candidate| candidate.walk.inst == store) else { return };
        let stored = &candidates[at];
        let is_same_row = |other: &Candidate<'a>| {
            other.outer == stored.outer && other.row == stored.row && other.walk.goes_back == stored.walk.goes_back
        };
        if stores.len() > 1 || !candidates.iter().all(is_same_row) {
            return;
        }
        let place_of_store = tiled.walks.len();
        let (mut walks, mut reloads) = (vec![stored.walk], Vec::new());
        for (place, candidate) in candidates.iter().enumerate().filter(|&(place, _)| place != at) {
            let ahead = candidate.offset - stored.offset;
            let ago = if stored.walk.goes_back { ahead } else { -ahead };
            match u32::try_from(ago) {
                Ok(0) if place < at => walks.push(candidate.walk),
                Ok(iterations_ago @ 0..=MOST_ITERATIONS_BACK) => {
                    reloads.push(Reload { walk: candidate.walk, store: place_of_store, iterations_ago });
                }
                Ok(_) => return,
                Err(_) => walks.push(candidate.walk),
            }
        }
        walks[0].n_reloaded = reloads.iter().map(|reload| reload.iterations_ago).max().unwrap_or(0);
        tiled.walks.extend(walks);
        tiled.reloads.extend(reloads);
    }

    /// Returns an access that goes along a row from iteration to iteration, and is far from the neighbouring lanes'.
    fn candidate(&self, inst: Inst) -> Option<Candidate<'a>> {
        let func = self.func;
        let data = &func.insts[inst];
        let array = data.operands[0];
        let (elem, n_dims) = func.ty(array).as_array()?;
        let facts = self.facts.array(func.param_index(array)?);
        let indices = &data.operands[1..=usize::from(n_dims)];
        let (&last, outer) = indices.split_last()?;
        let is_element = indices.len() + 1 + usize::from(data.op == Op::ArrayStore) == data.operands.len();
        let is_known = facts.contiguous && facts.disjoint && matches!(elem.bytes(), 4 | 8);
        if !is_element || !is_known || outer.iter().any(|index| self.inside.contains(index)) {
            return None;
        }
        let (index, counts_from_end) = match WrappedIndex::of(func, last) {
            Some(wrapped) => (wrapped.plain, true),
            None => (last, false),
        };
        let apart = |value: Value| self.uniformity.shape(value).stride().is_none_or(|stride| stride.abs() >= NEAR);
        if !apart(index) && outer.iter().all(|&index| self.uniformity.shape(index).is_uniform()) {
            return None;
        }
        let mut row = AffineSum::of(func, index);
        let along = row.terms.iter().position(|&(term, _)| self.is_counter(term))?;
        let (_, factor) = row.terms.remove(along);
        let is_fixed = |&(term, _): &(AffineTerm, i64)| match term {
            AffineTerm::Coordinate(_) => true,
            AffineTerm::Value(value) => !self.inside.contains(&value),
        };
        if factor.abs() != 1 || !row.terms.iter().all(is_fixed) {
            return None;
        }
        let offset = std::mem::take(&mut row.offset);
        let is_store = data.op == Op::ArrayStore;
        let goes_back = (factor < 0) != self.counts_down;
        let walk = RowWalk { inst, array, index, counts_from_end, goes_back, is_store, n_reloaded: 0 };
        Some(Candidate { walk, outer, row, offset })
    }

    /// Returns true for the loop's counter, also in a wider type.
    fn is_counter(&self, term: AffineTerm) -> bool {
        let AffineTerm::Value(value) = term else { return false };
        if value == self.counter {
            return true;
        }
        let ValueDef::Result(inst, _) = self.func.values[value].def else { return false };
        let data = &self.func.insts[inst];
        let bits = |value: Value| self.func.ty(value).as_scalar().filter(|ty| ty.is_signed_int()).map(Scalar::bits);
        data.op == Op::Cast && data.operands[0] == self.counter && bits(value) >= bits(self.counter)
    }
}
