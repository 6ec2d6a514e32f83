//! How many threads a kernel runs at a time.

use super::calls::used_values;
use super::cost::ThreadCost;
use super::indices::WrappedIndex;
use super::row_tiles::tiled_accesses;
use crate::target::HostProcessor;
use polyloom_codegen::CodeVariant;
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::analysis::uniformity::{Uniformity, ValueShape};
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Function, Imm, Inst, Module, Op, OptLevel, Region, Scalar, Value, ValueDef};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// The number of threads that run at a time, and the estimate that decided it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupWidth {
    /// 1 where threads run one by one.
    pub(crate) lanes: u32,
    /// The estimate for a thread either way; `None` if nothing was to be chosen.
    pub(crate) cost: Option<ThreadCost>,
    /// The number of lanes that the estimate cannot tell from this one, because it is close to it.
    pub(crate) rival: Option<u32>,
}

/// The most lanes of a group: masks of lanes have as many bits.
const MOST_LANES: u32 = 64;

/// Estimates within this factor of each other leave the choice open: that is how far they have been from measurements.
const CLOSE: f32 = 2.0;

impl GroupWidth {
    /// Threads that run one by one, whatever that costs.
    pub(crate) const ONE: GroupWidth = GroupWidth::fixed(1);

    /// A width that nothing is left to choose of.
    pub(crate) const fn fixed(lanes: u32) -> GroupWidth {
        GroupWidth { lanes, cost: None, rival: None }
    }
}

/// The kernel, its variant and the processor that the width of groups is chosen for.
#[derive(Clone, Copy)]
pub(crate) struct WidthRequest<'a> {
    pub(crate) module: &'a Module,
    pub(crate) func: &'a Function,
    pub(crate) uniformity: &'a Uniformity,
    pub(crate) variant: &'a CodeVariant,
    pub(crate) processor: &'a HostProcessor,
}

impl WidthRequest<'_> {
    /// The number of lanes of a launch's threads: as many as fill a vector register with elements of the type most of
    /// the work is done in, twice as many where that hides latency, or one where vectors cannot pay: a kernel that
    /// prints in every thread, or whose threads share all their values, or that costs less so. One too where each
    /// thread does the work of a block of threads, and where the order of what it prints would show the group.
    pub(crate) fn of_launch(&self) -> GroupWidth {
        let WidthRequest { module, func, .. } = *self;
        if func.metadata.by_block
            || waits_for_others(func)
            || prints_always(func, func.body)
            || n_prints(module, func, func.body) > 1
        {
            return GroupWidth::ONE;
        }
        if let Ok(Some(lanes)) = func.metadata.hint("vector_width") {
            return GroupWidth::fixed(lanes);
        }
        if runs_one_by_one(func) {
            return GroupWidth::ONE;
        }
        let width = self.of_region(func.body, u32::MAX);
        // Whoever gives hints steers the choice, and an order that shows would show which candidate ran.
        let is_open = func.metadata.hints.is_empty() && !order_shows(module, func);
        GroupWidth { rival: width.rival.filter(|_| is_open), ..width }
    }

    /// The parallel loops, with the number of lanes that each has.
    pub(crate) fn of_parallel_loops(&self) -> Vec<(Inst, GroupWidth)> {
        let func = self.func;
        let mut found = Vec::new();
        if !func.metadata.by_block {
            return found;
        }
        // More lanes than a row of the block has would idle.
        let most = func.metadata.workgroup_size.map_or(u32::MAX, |[x, ..]| 1 << x.max(1).ilog2());
        let hint = func.metadata.hint("vector_width").unwrap_or_default();
        let hint = hint.or(runs_one_by_one(func).then_some(1));
        func.walk(func.body, &mut |inst, data| {
            if data.imm == Imm::Parallel {
                let hinted = hint.map(GroupWidth::fixed);
                found.push((inst, hinted.unwrap_or_else(|| self.of_region(data.regions[0], most))));
            }
        });
        found
    }

    /// The number of lanes for a region of code, at most so many.
    fn of_region(&self, region: Region, most: u32) -> GroupWidth {
        let WidthRequest { module, func, uniformity, variant, processor } = *self;
        let mut work = [0u32; 4];
        func.walk(region, &mut |_, data| {
            let scalars =
                data.results.iter().chain(&data.operands).filter(|&&v| uniformity.shape(v) == ValueShape::Varying);
            let widest = scalars.filter_map(|&v| func.ty(v).as_scalar()).map(Scalar::bytes).max();
            if let Some(bytes) = widest.filter(|_| !data.op.info().is_terminator()) {
                work[bytes.trailing_zeros().min(3) as usize] += 1;
            }
        });
        let [_, two, four, eight] = work;
        let total: u32 = work.iter().sum();
        if total == 0 {
            return GroupWidth::ONE;
        }
        // A value twice as wide takes two registers: that is fine for a few.
        let bytes = match () {
            () if eight * 3 > total => 8,
            () if four + eight > 0 => 4,
            () if two > 0 => 2,
            () => 1,
        };
        let lanes = (processor.vector_bytes / bytes).clamp(2, 32);
        let lanes = match most_lanes_of_tiles(module, func, uniformity, variant) {
            Some(most_of_tiles) => lanes.min(most_of_tiles),
            None if walks_columns(func, region, uniformity, processor) => (lanes * 4).min(MOST_LANES),
            None if hides_latency(module, func, region, uniformity, processor) => (lanes * 2).min(MOST_LANES),
            None => lanes,
        };
        let lanes = lanes_for_rows(func, region, uniformity, processor, (lanes, bytes, most)).min(most);
        let n_registers = (lanes * bytes) as f32 / processor.vector_bytes as f32;
        let cost = ThreadCost::of(module, func, region, uniformity, variant, (lanes, n_registers));
        let (lanes, rival) = if cost.alone < cost.in_group { (1, lanes) } else { (lanes, 1) };
        let is_close = cost.alone.max(cost.in_group) <= CLOSE * cost.alone.min(cost.in_group);
        GroupWidth { lanes, cost: Some(cost), rival: (is_close && lanes != rival).then_some(rival) }
    }
}

/// Returns true if the level asks for code as it is written, or short: groups have the body twice.
fn runs_one_by_one(func: &Function) -> bool {
    matches!(func.opt_level(), Some(OptLevel::O0 | OptLevel::Os))
}

/// Returns true if a thread may wait until another has updated something: in step, the other would wait for it.
fn waits_for_others(func: &Function) -> bool {
    let mut waits = false;
    func.walk(func.body, &mut |_, data| {
        for &region in data.regions.iter().filter(|_| data.op == Op::While) {
            func.walk(region, &mut |_, inner| waits |= inner.op.info().group == OpGroup::Atomic);
        }
    });
    waits
}

/// Returns true if the order of atomic updates shows in what a kernel computes: where floats are updated, and where what
/// was there before is used.
fn order_shows(module: &Module, func: &Function) -> bool {
    let used = used_values(func);
    let mut shows = false;
    func.walk(func.body, &mut |_, data| {
        let is_float = |&value: &Value| func.ty(value).as_scalar().is_some_and(Scalar::is_float);
        shows |= match (&data.imm, data.op.info().group) {
            (Imm::Func(callee), _) => module.functions.get(*callee).is_some_and(|callee| order_shows(module, callee)),
            (_, OpGroup::Atomic) => {
                data.operands.iter().any(is_float) || data.results.iter().any(|&result| used[result])
            }
            _ => false,
        };
    });
    shows
}

/// Returns true if every thread prints, or nearly.
fn prints_always(func: &Function, region: Region) -> bool {
    func.regions[region].insts.iter().any(|&inst| func.insts[inst].op == Op::Print)
}

/// Returns the number of times a thread may print: 2 stands for all above it. The threads of a group execute a `print`
/// one after the other, but not one `print` of each and then the next, as threads that run one after the other do.
fn n_prints(module: &Module, func: &Function, region: Region) -> u32 {
    let of = |&inst: &Inst| {
        let data = &func.insts[inst];
        let repeats = matches!(data.op, Op::ForRange | Op::While);
        let inner: u32 = data.regions.iter().map(|&region| n_prints(module, func, region)).sum();
        let called = match data.imm {
            Imm::Func(callee) => module.functions.get(callee).map_or(0, |callee| n_prints(module, callee, callee.body)),
            _ => u32::from(data.op == Op::Print),
        };
        inner * if repeats { 2 } else { 1 } + called
    };
    func.regions[region].insts.iter().map(of).sum::<u32>().min(2)
}

/// Most cache lines that a group may go along while it stores: rows a power of two apart share a set of the first cache.
const MOST_LINES: u32 = 16;

/// The most lanes worth having where threads go along rows in tiles ([`super::row_tiles`]); `None` if there are no tiles.
fn most_lanes_of_tiles(
    module: &Module,
    func: &Function,
    uniformity: &Uniformity,
    variant: &CodeVariant,
) -> Option<u32> {
    let tiled = tiled_accesses(module, func, uniformity, &variant.facts);
    if tiled.is_empty() {
        return None;
    }
    let stores = tiled.keys().any(|&inst| func.insts[inst].op == Op::ArrayStore);
    let arrays: FxHashSet<Value> = tiled.keys().map(|&inst| func.insts[inst].operands[0]).collect();
    let bytes = |&array: &Value| func.ty(array).as_array().map_or(4, |(elem, _)| elem.bytes());
    let n_lines = arrays.iter().map(|array| bytes(array).div_ceil(4)).sum::<u32>();
    Some(if stores { 1 << (MOST_LINES / n_lines).max(4).ilog2() } else { u32::MAX })
}

/// Fewest elements from one iteration to the next that make a walk down a column: less than those share cache lines.
const ROW_APART: i64 = 16;
/// Most instructions of a loop that waits for memory more than for what it computes.
const FEW_INSTRUCTIONS: usize = 16;

/// Returns true if all loops of some length go down columns and do little else: each iteration then touches some bytes
/// of another row, so that the more neighbours go together, the more of a row is fetched at a time. Rows that are a
/// power of two apart lose what they do not use of a cache line at once.
fn walks_columns(func: &Function, region: Region, uniformity: &Uniformity, processor: &HostProcessor) -> bool {
    let n_registers = if processor.vector_bytes == 64 { 32 } else { 16 };
    let (mut walks, mut others) = (false, false);
    func.walk(region, &mut |inst, data| match data.op {
        Op::ForRange => {
            let body = data.regions[0];
            let is_small = func.regions[body].insts.len() <= FEW_INSTRUCTIONS
                && func.regions[body].insts.iter().all(|&inner| {
                    let data = &func.insts[inner];
                    data.regions.is_empty() && !matches!(data.op.info().group, OpGroup::Math | OpGroup::Atomic)
                });
            let is_walk = uniformity.cond_is_uniform(inst)
                && is_small
                && 4 * live_through(func, uniformity, inst) + TEMPORARIES <= n_registers
                && func.regions[body].insts.iter().any(|&inner| goes_down(func, uniformity, body, inner));
            walks |= is_walk;
            others |= !is_walk;
        }
        Op::While => others = true,
        _ => {}
    });
    walks && !others
}

/// Returns true for an access of neighbouring elements that comes to another row in each iteration of a loop.
fn goes_down(func: &Function, uniformity: &Uniformity, body: Region, inst: Inst) -> bool {
    let data = &func.insts[inst];
    if !matches!(data.op, Op::ArrayLoad | Op::LoadReadonly | Op::ArrayStore) {
        return false;
    }
    let Some((_, n_dims)) = func.ty(data.operands[0]).as_array() else { return false };
    let plain = |&index: &Value| WrappedIndex::of(func, index).map_or(index, |wrapped| wrapped.plain);
    let indices: SmallVec<[Value; 4]> = data.operands[1..=usize::from(n_dims)].iter().map(plain).collect();
    let Some((&last, outer)) = indices.split_last() else { return false };
    let counter = func.regions[body].params[0];
    let is_counted = |value: Value| depends_on(func, body, value, counter);
    let is_row_apart = |&(term, factor): &(AffineTerm, i64)| match term {
        AffineTerm::Value(value) if value == counter => factor.abs() >= ROW_APART,
        AffineTerm::Value(value) => is_counted(value),
        AffineTerm::Coordinate(_) => false,
    };
    matches!(uniformity.shape(last), ValueShape::Affine { stride: 1 | -1, .. })
        && outer.iter().all(|&index| uniformity.shape(index).is_uniform())
        && (outer.iter().any(|&index| is_counted(index)) || AffineSum::of(func, last).terms.iter().any(is_row_apart))
}

/// Returns true if a value is computed from a loop's counter, in the loop's body.
fn depends_on(func: &Function, body: Region, value: Value, counter: Value) -> bool {
    match func.values[value].def {
        ValueDef::Param(..) => value == counter,
        ValueDef::Result(inst, _) => {
            func.regions[body].insts.contains(&inst)
                && func.insts[inst].operands.iter().any(|&operand| depends_on(func, body, operand, counter))
        }
    }
}

/// Returns true if two groups at a time run faster than one after the other: an iteration waits for the one before, so
/// that the units have nothing to do, and the values of both groups fit the registers.
fn hides_latency(
    module: &Module,
    func: &Function,
    region: Region,
    uniformity: &Uniformity,
    processor: &HostProcessor,
) -> bool {
    let registers = if processor.vector_bytes == 64 { 32 } else { 16 };
    let mut waits = false;
    let mut fits = true;
    func.walk(region, &mut |inst, data| {
        if matches!(data.op, Op::ForRange | Op::While) {
            let params = data.regions.iter().flat_map(|&region| &func.regions[region].params);
            waits |= params.into_iter().any(|&v| uniformity.shape(v) == ValueShape::Varying);
            fits &= 2 * (live_through(func, uniformity, inst) + TEMPORARIES) <= registers;
            fits &= data.regions.iter().all(|&region| calls_are_small(module, func, region));
        }
    });
    waits && fits
}

/// The lanes of a region of a block whose threads go along a row together, each taking every `most`-th element: groups
/// of fewer threads go along the row one after the other, and leave gaps that the next group comes back to. As many as
/// the registers have room for.
fn lanes_for_rows(
    func: &Function,
    region: Region,
    uniformity: &Uniformity,
    processor: &HostProcessor,
    (lanes, bytes, most): (u32, u32, u32),
) -> u32 {
    let n_registers = if processor.vector_bytes == 64 { 32 } else { 16 };
    let (mut goes_along_row, mut most_live) = (false, 0);
    func.walk(region, &mut |inst, data| {
        if data.op == Op::ForRange {
            goes_along_row |= func.as_const(data.operands[2]) == Some(most.into())
                && matches!(uniformity.shape(data.operands[0]), ValueShape::Affine { stride: 1, .. });
            most_live = most_live.max(live_through(func, uniformity, inst) + TEMPORARIES);
        }
    });
    let fits = |lanes: u32| most_live * (lanes * bytes).div_ceil(processor.vector_bytes) as usize <= n_registers;
    let mut wanted = lanes;
    while goes_along_row && wanted < most.min(MOST_LANES) && fits(2 * wanted) {
        wanted *= 2;
    }
    wanted
}

/// Registers an iteration needs for values of its own.
const TEMPORARIES: usize = 4;

/// Returns the number of varying values live through a loop: carried ones and those from outside that it uses.
fn live_through(func: &Function, uniformity: &Uniformity, inst: Inst) -> usize {
    let mut inside: FxHashSet<Value> = FxHashSet::default();
    let mut used: FxHashSet<Value> = FxHashSet::default();
    let mut carried = 0;
    for (index, &region) in func.insts[inst].regions.iter().enumerate() {
        let params = &func.regions[region].params;
        inside.extend(params);
        if index == 0 {
            carried = params.iter().filter(|&&v| uniformity.shape(v) == ValueShape::Varying).count();
        }
        func.walk(region, &mut |_, data| {
            inside.extend(&data.results);
            for &inner in &data.regions {
                inside.extend(&func.regions[inner].params);
            }
            used.extend(data.operands.iter().filter(|&&v| uniformity.shape(v) == ValueShape::Varying));
        });
    }
    carried + used.difference(&inside).count()
}

fn calls_are_small(module: &Module, func: &Function, region: Region) -> bool {
    const MOST: usize = 24;
    let mut small = true;
    func.walk(region, &mut |_, data| {
        if let (Op::Call, Imm::Func(callee)) = (data.op, &data.imm) {
            small &= module.functions.get(*callee).is_some_and(|callee| callee.insts.len() <= MOST);
        }
    });
    small
}
