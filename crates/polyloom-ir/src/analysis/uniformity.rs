//! Which values are the same in neighbouring threads, and where threads part ways.
//!
//! The vectoriser runs the threads of a row together, as lanes: it keeps uniform values in scalar registers, affine
//! ones as a scalar and a known stride, and masks only where control may diverge. The threads compared are those of
//! one *row* of the launch: they differ in the innermost coordinate alone. For a launch of rank 1 that is the whole
//! launch.
//!
//! Threads are thought to run in step. The facts are about the threads *active* at an instruction: those that reach it
//! in the same iterations of the loops around it. So a counter is uniform inside its loop even if threads leave the
//! loop at different times, and the loop's results are then varying.
//!
//! For barriers and warp operations, the threads of a block or of a warp are compared instead: see [`ThreadScope`].
//!
//! The analysis is optimistic: it walks the function until nothing changes, and a value only ever moves from uniform
//! or affine to varying. Where control diverges is tracked in *scopes*, numbered from the outside in. Each
//! instruction with regions opens two: the instruction itself and, inside, its regions (for a loop, one iteration).
//! At every point `since` is the outermost scope whose entering threads are all still active.

use super::interval::Interval;
use super::range;
use crate::entity::{FuncId, Inst, Region, Value};
use crate::function::{Function, Imm, Module};
use crate::op::{Op, OpEffect, OpGroup};
use crate::types::Scalar;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Describes how a value differs between the active threads of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueShape {
    /// The same in all of them.
    Uniform,
    /// An integer that grows by `stride` from each thread to the next, modulo 2 to the width of its type.
    ///
    /// It is made from thread indices by wrapping arithmetic alone, so the rule also gives a harmless value for
    /// threads that are not active.
    Affine {
        /// The difference, never 0, within the signed range of the type's width.
        stride: i64,
        /// True if the rule holds over the integers, that is, no thread's value wraps around. Without it, values that
        /// are known not to be negative in two active threads follow the rule over the integers only if the threads are
        /// less than half the range of the type apart by it.
        exact: bool,
    },
    /// Nothing is known.
    Varying,
}

impl ValueShape {
    /// Returns true if the value is the same in all active threads.
    pub fn is_uniform(self) -> bool {
        self == ValueShape::Uniform
    }

    /// The difference from thread to thread: 0 if uniform.
    pub fn stride(self) -> Option<i64> {
        match self {
            ValueShape::Uniform => Some(0),
            ValueShape::Affine { stride, .. } => Some(stride),
            ValueShape::Varying => None,
        }
    }

    fn is_exact(self) -> bool {
        matches!(self, ValueShape::Uniform | ValueShape::Affine { exact: true, .. })
    }

    /// The affine shape with this stride, wrapped to the type's width.
    fn affine(stride: i64, exact: bool, ty: Scalar) -> ValueShape {
        let unused = 64 - ty.bits();
        match stride << unused >> unused {
            0 => ValueShape::Uniform,
            wrapped => ValueShape::Affine { stride: wrapped, exact: exact && wrapped == stride },
        }
    }

    fn join(self, other: ValueShape) -> ValueShape {
        match (self.stride(), other.stride()) {
            (Some(0), Some(0)) => ValueShape::Uniform,
            (Some(a), Some(b)) if a == b => {
                ValueShape::Affine { stride: a, exact: self.is_exact() && other.is_exact() }
            }
            _ => ValueShape::Varying,
        }
    }
}

/// Says which threads are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ThreadScope {
    /// Those of a row of the launch: what the vectoriser runs together.
    #[default]
    Row,
    /// Those of a warp.
    Warp,
    /// Those of a block.
    Block,
    /// None: the iterations of each parallel loop are compared with each other, and outside of these loops there is
    /// nothing to compare.
    Iteration,
}

/// Describes what the analysis takes for granted.
#[derive(Clone, Copy)]
pub struct UniformityContext<'a> {
    /// The place where calls lead.
    pub module: &'a Module,
    /// Rank of the launch, at least 1. The innermost axis is the last.
    pub launch_rank: u8,
    /// Shapes of the parameters, in order. Parameters past the end are uniform, as those of a kernel are.
    pub params: &'a [ValueShape],
    /// True if the array parameter with this index shares no memory with arrays the function writes. Its elements then
    /// stay the same while the function runs, if the function does not write it either.
    pub disjoint: &'a dyn Fn(usize) -> bool,
    /// Says which threads are compared.
    pub threads: ThreadScope,
    /// The extents of a block, where they are known.
    pub block: Option<[u32; 3]>,
    /// True if what a shuffle gives a lane whose source is not there may count as what it gives others.
    pub whole_warps: bool,
}

impl<'a> UniformityContext<'a> {
    /// A kernel launched with this rank, its arrays possibly overlapping.
    pub fn new(module: &'a Module, launch_rank: u8) -> UniformityContext<'a> {
        UniformityContext {
            module,
            launch_rank,
            params: &[],
            disjoint: &|_| false,
            threads: ThreadScope::Row,
            block: None,
            whole_warps: true,
        }
    }
}

/// The result of the analysis of one function.
#[derive(Clone, Debug)]
pub struct Uniformity {
    shapes: SecondaryMap<Value, Option<ValueShape>>,
    divergent: SecondaryMap<Inst, bool>,
    splits: SecondaryMap<Inst, bool>,
    loses: SecondaryMap<Inst, bool>,
}

impl Uniformity {
    /// Analyses a verified function.
    pub fn of(func: &Function, context: &UniformityContext<'_>) -> Uniformity {
        let mut walk = UniformityWalk {
            func,
            context,
            written: func.written_arrays(),
            thread_invariant: FxHashMap::default(),
            ranges: SecondaryMap::new(),
            frames: Vec::new(),
            n_parallel: 0,
            result: Uniformity {
                shapes: SecondaryMap::new(),
                divergent: SecondaryMap::new(),
                splits: SecondaryMap::new(),
                loses: SecondaryMap::new(),
            },
            changed: true,
        };
        for (index, &param) in func.params().iter().enumerate() {
            walk.result.shapes[param] = Some(context.params.get(index).copied().unwrap_or(ValueShape::Uniform));
        }
        while std::mem::take(&mut walk.changed) {
            walk.region(func.body, 0, 0);
        }
        walk.result
    }

    /// Returns how the value differs between active threads.
    pub fn shape(&self, value: Value) -> ValueShape {
        self.shapes[value].unwrap_or(ValueShape::Varying)
    }

    /// Returns true if some threads that entered the function may be absent when the instruction is executed.
    pub fn is_divergent(&self, inst: Inst) -> bool {
        self.divergent[inst]
    }

    /// For an instruction with regions: whether the threads that enter it together stay together inside. The two sides
    /// of an `if` are then alternatives for all of them, a loop ends for all of them in the same iteration and in the
    /// same way, and a `block` is left by all of them at the same point.
    pub fn cond_is_uniform(&self, inst: Inst) -> bool {
        !self.splits[inst]
    }

    /// For an instruction with regions: whether some but not all of the threads that enter it may fail to come out at
    /// its end, because they leave for an outer loop, block or the function's end.
    pub fn loses_threads(&self, inst: Inst) -> bool {
        self.loses[inst]
    }
}

/// A way out of an instruction's region, or back to its start.
struct RegionExit {
    terminator: Inst,
    /// `since` at the terminator.
    since: u32,
    /// True if threads may take it in different iterations of a loop inside the target.
    at_different_times: bool,
}

/// An instruction with regions that the walk is inside of.
struct OpenInst {
    inst: Inst,
    /// The instruction's own scope; that of its regions is one more.
    scope: u32,
    exits: SmallVec<[RegionExit; 4]>,
    back_edges: SmallVec<[RegionExit; 2]>,
    loses: bool,
}

struct UniformityWalk<'a> {
    func: &'a Function,
    context: &'a UniformityContext<'a>,
    written: Vec<bool>,
    thread_invariant: FxHashMap<FuncId, bool>,
    ranges: SecondaryMap<Value, Option<Interval>>,
    frames: Vec<OpenInst>,
    /// Number of parallel loops around the instruction that is looked at.
    n_parallel: u32,
    result: Uniformity,
    changed: bool,
}

impl UniformityWalk<'_> {
    fn shape(&self, value: Value) -> ValueShape {
        self.result.shape(value)
    }

    fn scalar(&self, value: Value) -> Option<Scalar> {
        self.func.ty(value).as_scalar()
    }

    /// Joins a shape into what is known of a value.
    fn raise(&mut self, value: Value, shape: ValueShape) {
        let slot = &mut self.result.shapes[value];
        *slot = Some(slot.map_or(shape, |old| old.join(shape)));
    }

    /// Works like [`UniformityWalk::raise`], for loop parameters: uses before this point in the walk must be looked at
    /// again.
    fn raise_param(&mut self, value: Value, shape: ValueShape) {
        let old = self.result.shapes[value];
        self.raise(value, shape);
        self.changed |= old.is_some() && old != self.result.shapes[value];
    }

    fn region(&mut self, region: Region, scope: u32, mut since: u32) {
        for &inst in &self.func.regions[region].insts {
            self.result.divergent[inst] = since > 0;
            let info = self.func.insts[inst].op.info();
            if info.is_terminator() {
                self.terminator(inst, since);
            } else if info.effect == OpEffect::Region {
                self.owner(inst, scope + 1, since);
                if self.result.loses[inst] {
                    since = scope + 1;
                }
            } else {
                self.plain(inst);
            }
        }
    }

    fn owner(&mut self, inst: Inst, scope: u32, since: u32) {
        let func = self.func;
        let data = &func.insts[inst];
        let inner = scope + 1;
        let is_loop = matches!(data.op, Op::ForRange | Op::While);
        self.frames.push(OpenInst { inst, scope, exits: SmallVec::new(), back_edges: SmallVec::new(), loses: false });
        match data.op {
            Op::If => self.result.splits[inst] |= !self.shape(data.operands[0]).is_uniform(),
            Op::ForRange => {
                let (lo, hi, step) = (data.operands[0], data.operands[1], data.operands[2]);
                let (lo, hi, step) = (self.shape(lo), self.shape(hi), self.shape(step));
                let same_trip_count =
                    step.is_uniform() && lo.stride().is_some() && lo.join(hi) == lo && lo.is_exact() && hi.is_exact();
                self.result.splits[inst] |= !same_trip_count;
            }
            _ => {}
        }
        if is_loop {
            self.loop_entry(inst);
        }
        let inside = if self.result.splits[inst] && data.op != Op::Block { inner } else { since };
        self.n_parallel += u32::from(data.imm == Imm::Parallel);
        for &region in &data.regions {
            self.region(region, inner, inside);
        }
        self.n_parallel -= u32::from(data.imm == Imm::Parallel);
        let Some(frame) = self.frames.pop() else { return };
        // Exits do not split an `if`, because threads that leave it for elsewhere have not chosen another side than
        // those that stay.
        let splits = data.op != Op::If && (frame.loses || frame.exits.iter().any(|edge| edge.since > scope));
        if splits && !self.result.splits[inst] {
            self.result.splits[inst] = true;
            self.changed |= is_loop;
        }
        self.result.loses[inst] |= frame.loses;
        if is_loop {
            self.loop_exit(inst, &frame);
            return;
        }
        let together = match data.op {
            Op::If => !self.result.splits[inst],
            _ => frame.exits.iter().all(|edge| edge.since <= scope),
        };
        for (index, &result) in data.results.iter().enumerate() {
            let shape = self.merge(&frame.exits, index, together);
            self.raise(result, shape);
        }
    }

    fn loop_entry(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        if data.op == Op::ForRange {
            let [lo, hi, step] = [data.operands[0], data.operands[1], data.operands[2]];
            let counter = func.regions[data.regions[0]].params[0];
            // Between start and end nothing overflows, so that the counter is as exact as the start.
            let shape = match self.constant(step) {
                Some(1) if self.compares_iterations_of(inst) => ValueShape::Affine { stride: 1, exact: true },
                _ if self.compares_iterations_of(inst) || !self.shape(step).is_uniform() => ValueShape::Varying,
                _ => self.shape(lo),
            };
            self.raise_param(counter, shape);
            let (from, to) = (self.range(lo), self.range(hi));
            let step = self.range(step);
            let low = if step.low >= 0 { from.low } else { from.low.min(to.low) };
            let high = if step.high <= 0 { from.high } else { from.high.max(to.high) };
            self.ranges[counter] = Some(Interval::new(low, high));
        }
        let n_fixed = if data.op == Op::ForRange { 3 } else { 0 };
        let n_counters = usize::from(data.op == Op::ForRange);
        for (index, &init) in data.operands[n_fixed..].iter().enumerate() {
            for &region in &data.regions {
                let param = func.regions[region].params[n_counters + index];
                self.raise_param(param, self.shape(init));
            }
        }
    }

    /// True for a parallel loop whose iterations are what is compared.
    fn compares_iterations_of(&self, inst: Inst) -> bool {
        let is_parallel = self.func.insts[inst].imm == Imm::Parallel;
        is_parallel && self.context.threads == ThreadScope::Iteration && self.n_parallel == 0
    }

    fn loop_exit(&mut self, inst: Inst, frame: &OpenInst) {
        let func = self.func;
        let data = &func.insts[inst];
        let n_counters = usize::from(data.op == Op::ForRange);
        let together = frame.back_edges.iter().all(|edge| edge.since <= frame.scope + 1);
        for (index, &result) in data.results.iter().enumerate() {
            let next = self.merge(&frame.back_edges, index, together);
            for &region in &data.regions {
                let param = func.regions[region].params[n_counters + index];
                if !frame.back_edges.is_empty() {
                    self.raise_param(param, next);
                }
            }
            let carried = self.shape(func.regions[data.regions[0]].params[n_counters + index]);
            let shape = match self.result.splits[inst] {
                true => ValueShape::Varying,
                false if frame.exits.is_empty() => carried,
                false => carried.join(self.merge(&frame.exits, index, true)),
            };
            self.raise(result, shape);
        }
    }

    /// The shape of operand `index` where these edges meet, and whether all threads take the same one of them.
    fn merge(&self, edges: &[RegionExit], index: usize, together: bool) -> ValueShape {
        let value = |edge: &RegionExit| self.func.insts[edge.terminator].operands[index];
        let Some((first, rest)) = edges.split_first() else { return ValueShape::Uniform };
        let one_value = rest.iter().all(|edge| value(edge) == value(first));
        if edges.iter().any(|edge| edge.at_different_times) || !(one_value || together) {
            return ValueShape::Varying;
        }
        rest.iter().fold(self.shape(value(first)), |shape, edge| shape.join(self.shape(value(edge))))
    }

    fn terminator(&mut self, inst: Inst, since: u32) {
        let data = &self.func.insts[inst];
        let target = match (data.op, &data.imm) {
            (Op::Yield, _) => self.frames.last().map(|frame| frame.inst),
            (Op::Break | Op::Continue, Imm::Target(target)) => Some(*target),
            (Op::Unreachable, _) => return,
            _ => None,
        };
        let mut at_different_times = false;
        let (splits, shapes) = (&mut self.result.splits, &self.result.shapes);
        for frame in self.frames.iter_mut().rev() {
            let owner = &self.func.insts[frame.inst];
            let apart = since > frame.scope;
            if Some(frame.inst) == target {
                let edge = RegionExit { terminator: inst, since, at_different_times };
                let is_loop = matches!(owner.op, Op::ForRange | Op::While);
                if data.op == Op::Yield && owner.op == Op::While && is_condition(self.func, frame.inst, inst) {
                    let cond = data.operands[0];
                    if shapes[cond] != Some(ValueShape::Uniform) && !splits[frame.inst] {
                        splits[frame.inst] = true;
                        self.changed = true;
                    }
                } else if is_loop && data.op != Op::Break {
                    frame.back_edges.push(edge);
                } else {
                    frame.exits.push(edge);
                }
                return;
            }
            frame.loses |= apart;
            at_different_times |= apart && matches!(owner.op, Op::ForRange | Op::While);
        }
    }

    fn plain(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        if self.context.threads == ThreadScope::Iteration && self.n_parallel == 0 {
            for &result in &data.results {
                self.raise(result, ValueShape::Uniform);
            }
            return;
        }
        let [result] = data.results[..] else {
            let uniform = self.depends_only_on_operands(inst) && self.all_uniform(&data.operands);
            for &result in &data.results {
                self.raise(result, if uniform { ValueShape::Uniform } else { ValueShape::Varying });
            }
            return;
        };
        let range = self.result_range(inst);
        // A result whose unbounded arithmetic leaves its type may wrap.
        let fits = match (range, self.scalar(result)) {
            (Some(range), Some(ty)) if ty.is_int() => {
                let fits = Interval::full(ty).contains(range);
                self.ranges[result] = fits.then_some(range);
                fits
            }
            _ => false,
        };
        let shape = self.result_shape(inst, fits);
        self.raise(result, shape);
    }

    fn result_shape(&mut self, inst: Inst, fits: bool) -> ValueShape {
        let data = &self.func.insts[inst];
        let operand = |index: usize| self.shape(data.operands[index]);
        let constant = |index: usize| self.constant(data.operands[index]);
        if let Some(shape) = self.gpu_shape(data) {
            return shape;
        }
        let Some(ty) = data.results.first().and_then(|&result| self.scalar(result)) else { return ValueShape::Varying };
        let affine = |stride: Option<i64>, operands: &[ValueShape]| match stride {
            Some(stride) => ValueShape::affine(stride, fits && operands.iter().all(|shape| shape.is_exact()), ty),
            None => ValueShape::Varying,
        };
        match data.op {
            Op::Tid | Op::TidLinear if self.context.threads == ThreadScope::Iteration => ValueShape::Uniform,
            Op::Tid if self.context.threads != ThreadScope::Row => ValueShape::Varying,
            Op::Tid => match data.imm {
                Imm::Axis(axis) if axis + 1 == self.context.launch_rank => {
                    ValueShape::Affine { stride: 1, exact: true }
                }
                _ => ValueShape::Uniform,
            },
            Op::TidLinear => ValueShape::Affine { stride: 1, exact: true },
            Op::ArrayLoad | Op::LoadReadonly => match self.func.param_index(data.operands[0]) {
                Some(index) if !self.written[index] && (self.context.disjoint)(index) => {
                    if self.all_uniform(&data.operands[1..]) { ValueShape::Uniform } else { ValueShape::Varying }
                }
                _ => ValueShape::Varying,
            },
            _ if self.all_uniform(&data.operands) => {
                if self.depends_only_on_operands(inst) {
                    ValueShape::Uniform
                } else {
                    ValueShape::Varying
                }
            }
            Op::Select if operand(0).is_uniform() || data.operands[1] == data.operands[2] => {
                operand(1).join(operand(2))
            }
            _ if !ty.is_int() => ValueShape::Varying,
            Op::Add | Op::Sub => {
                let (a, b) = (operand(0), operand(1));
                let stride = a.stride().zip(b.stride()).and_then(|(a, b)| match data.op {
                    Op::Add => a.checked_add(b),
                    _ => a.checked_sub(b),
                });
                affine(stride, &[a, b])
            }
            Op::Mul => {
                let by = |shape: ValueShape, factor: Option<i128>| {
                    let factor = i64::try_from(factor?).ok()?;
                    Some(affine(shape.stride()?.checked_mul(factor), &[shape]))
                };
                by(operand(0), constant(1)).or_else(|| by(operand(1), constant(0))).unwrap_or(ValueShape::Varying)
            }
            Op::Lshift => {
                let stride = constant(1).and_then(|count| {
                    let count = u32::try_from(count).ok().filter(|count| *count < ty.bits())?;
                    operand(0).stride()?.checked_mul(1i64.checked_shl(count).filter(|factor| *factor > 0)?)
                });
                affine(stride, &[operand(0)])
            }
            Op::Neg | Op::Invert => affine(operand(0).stride().and_then(i64::checked_neg), &[operand(0)]),
            Op::Cast => {
                let Some(from) = self.scalar(data.operands[0]).filter(|from| from.is_int()) else {
                    return ValueShape::Varying;
                };
                // A value that may wrap is varying afterwards, because widening keeps differences only if none does.
                let shape = operand(0);
                if ty.bits() > from.bits() && !shape.is_exact() {
                    ValueShape::Varying
                } else {
                    affine(shape.stride(), &[shape])
                }
            }
            _ => ValueShape::Varying,
        }
    }

    fn all_uniform(&self, values: &[Value]) -> bool {
        values.iter().all(|&value| self.shape(value).is_uniform())
    }

    /// Returns true if equal operands mean equal results, in whatever thread.
    fn depends_only_on_operands(&mut self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        match (data.op, &data.imm) {
            (Op::Call, Imm::Func(callee)) => self.is_thread_invariant(*callee),
            _ => data.op.info().is_pure(),
        }
    }

    fn is_thread_invariant(&mut self, callee: FuncId) -> bool {
        if let Some(&known) = self.thread_invariant.get(&callee) {
            return known;
        }
        // The answer is false until it is known, so that the search ends in a function that calls itself, which is not
        // valid anyway.
        self.thread_invariant.insert(callee, false);
        let Some(func) = self.context.module.functions.get(callee) else { return false };
        let mut invariant = true;
        let mut callees = Vec::new();
        func.walk(func.body, &mut |_, data| match (data.op, &data.imm) {
            (Op::Call, Imm::Func(callee)) => callees.push(*callee),
            (Op::Tid | Op::TidLinear | Op::Call, _) => invariant = false,
            _ if data.op.info().group == OpGroup::Gpu => invariant = false,
            (Op::Assert | Op::Check | Op::Print, _) => {}
            _ => invariant &= matches!(data.op.info().effect, OpEffect::Pure | OpEffect::Region | OpEffect::Terminator),
        });
        let invariant = invariant && callees.into_iter().all(|callee| self.is_thread_invariant(callee));
        self.thread_invariant.insert(callee, invariant);
        invariant
    }

    /// The value of an integer constant.
    fn constant(&self, value: Value) -> Option<i128> {
        let ty = self.scalar(value).filter(|ty| ty.is_int())?;
        let bits = self.func.as_const(value)?;
        let unused = 64 - ty.bits();
        Some(if ty.is_signed_int() { ((bits << unused) as i64 >> unused).into() } else { bits.into() })
    }

    fn range(&self, value: Value) -> Interval {
        self.ranges[value]
            .unwrap_or_else(|| self.scalar(value).map_or(Interval::new(i128::MIN, i128::MAX), Interval::full))
    }

    /// Bounds of the result if it did not wrap.
    fn result_range(&self, inst: Inst) -> Option<Interval> {
        let data = &self.func.insts[inst];
        let result = *data.results.first()?;
        if !self.scalar(result)?.is_int() {
            return None;
        }
        let range = |index: usize| self.range(data.operands[index]);
        Some(match data.op {
            Op::Const => Interval::one(self.constant(result)?),
            Op::Dim => Interval::new(0, i32::MAX.into()),
            Op::Add => range(0).plus(range(1)),
            Op::Sub => range(0).minus(range(1)),
            Op::Mul => range(0).times(range(1)),
            Op::Lshift => {
                let count = self.constant(data.operands[1]).filter(|count| (0..64).contains(count))?;
                Interval::new(range(0).low << count, range(0).high << count)
            }
            Op::Neg => range(0).negated(),
            Op::Cast if self.scalar(data.operands[0])?.is_int() => range(0),
            _ => return range::of_coordinate(self.func, data),
        })
    }
}

/// Returns true if a `yield` ends the condition of a `while`.
fn is_condition(func: &Function, owner: Inst, terminator: Inst) -> bool {
    let condition = func.insts[owner].regions[0];
    func.regions[condition].insts.last() == Some(&terminator)
}

mod gpu;
#[cfg(test)]
mod tests;
