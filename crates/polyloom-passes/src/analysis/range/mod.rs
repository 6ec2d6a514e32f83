//! Which values integers can have, and which indices can be negative.
//!
//! One forward walk over structured HIR gives every integer value an interval. Conditions refine it: inside
//! `if i > 0` the interval of `i` starts at 1, and after `if i == 0: return` as well; a value computed from `i` before
//! the branch is looked at again where it is used. Loop-carried values are first assumed never to fall below their
//! initial value; where an iteration does not keep that, the assumption is dropped and the walk repeated.
//!
//! What is taken for granted: what [`polyloom_ir::analysis::range`] says of coordinates, extents in 0 … 2^31 - 1, and that an array
//! that is accessed has an element (in checked mode that is checked, without the access would be undefined).

use crate::analysis::exits::completes;
use cranelift_entity::{EntitySet, SecondaryMap};
use polyloom_ir::analysis::interval::{self, Interval};
use polyloom_ir::analysis::range;
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Function, Imm, Inst, Op, Region, Scalar, Value, ValueDef};
use smallvec::SmallVec;

/// Number of times the walk may be repeated before all assumptions about loops are dropped.
const MAX_ROUNDS: usize = 4;
/// Says how far back a value's computation is looked at again.
const MAX_DEPTH: u32 = 5;

/// An index operand: the access and the operand's number.
pub type Index = (Inst, u8);

/// The indices of array accesses that may be negative, in the order of [`Function::walk`].
pub fn possibly_negative_indices(func: &Function) -> SmallVec<[Index; 8]> {
    let signed_index = |&v: &Value| func.ty(v).as_scalar().is_some_and(Scalar::is_signed_int);
    let any = func.insts.values().any(|data| {
        (matches!(data.op.info().group, OpGroup::Array | OpGroup::Atomic) || data.op == Op::AsyncCopy)
            && data.operands.iter().skip(1).any(signed_index)
    });
    if !any || func.metadata.indices_from_start {
        return SmallVec::new();
    }
    let mut ranges = ValueRanges {
        func,
        ranges: SecondaryMap::with_default(UNKNOWN),
        undo: Vec::new(),
        targets: Vec::new(),
        unassumed: EntitySet::new(),
        failed: false,
        assume_loops: true,
        access: None,
        found: SmallVec::new(),
    };
    ranges.ranges.resize(func.values.len());
    for round in 0..=MAX_ROUNDS {
        ranges.failed = false;
        ranges.assume_loops = round < MAX_ROUNDS;
        ranges.found.clear();
        ranges.undo.clear();
        ranges.targets.clear();
        for &param in func.params() {
            ranges.ranges[param] = ranges.full(param);
        }
        ranges.region(func.body, &[]);
        if !ranges.failed {
            break;
        }
    }
    ranges.found
}

/// An element, or a component of one, that an instruction accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessedElement {
    /// The array.
    pub array: Value,
    /// The number of the operand that is the first index.
    pub first: u8,
    /// Number of indices there are.
    pub n_indices: u8,
    /// Number of elements that are accessed, from this one on along the last axis.
    pub count: u8,
}

/// The elements that an instruction accesses: one, or the two that `async_copy` begins with.
pub fn accessed(func: &Function, inst: Inst) -> SmallVec<[AccessedElement; 2]> {
    let data = &func.insts[inst];
    if let (Op::AsyncCopy, Imm::Copy(copy)) = (data.op, &data.imm) {
        let is_array = |&place: &usize| func.ty(data.operands[place]).as_any_array().is_some();
        let places: SmallVec<[usize; 2]> = (0..data.operands.len()).filter(is_array).collect();
        let ends = places.iter().copied().skip(1).chain([data.operands.len()]);
        let element = |(&place, end): (&usize, usize)| AccessedElement {
            array: data.operands[place],
            first: place as u8 + 1,
            n_indices: (end - place) as u8 - 1,
            count: copy.count,
        };
        return places.iter().zip(ends).map(element).collect();
    }
    if !matches!(data.op.info().group, OpGroup::Array | OpGroup::Atomic) {
        return SmallVec::new();
    }
    let n_values = match data.op {
        Op::ArrayLoad | Op::LoadReadonly => 0,
        Op::AtomicCas => 2,
        _ => 1,
    };
    let array = data.operands.first().copied().filter(|&array| func.ty(array).as_any_array().is_some());
    let n_indices = data.operands.len().checked_sub(1 + n_values);
    let element = array.zip(n_indices);
    element.map(|(array, n)| AccessedElement { array, first: 1, n_indices: n as u8, count: 1 }).into_iter().collect()
}

/// The interval of values that are no integers. Nothing is concluded from it.
const UNKNOWN: Interval = Interval::new(i128::MIN / 4, i128::MAX / 4);

struct ValueRanges<'f> {
    func: &'f Function,
    ranges: SecondaryMap<Value, Interval>,
    /// Intervals to restore when the region ends in which they were refined.
    undo: Vec<(Value, Interval)>,
    /// The loops and blocks around, with what reaches their results by `yield`, `continue` and `break`.
    targets: Vec<RangeTarget>,
    /// Loop parameters that may fall below their initial value.
    unassumed: EntitySet<Value>,
    /// True if an assumption did not hold.
    failed: bool,
    assume_loops: bool,
    /// The array and axis whose index is being looked at: it has an element.
    access: Option<(Value, u8)>,
    found: SmallVec<[Index; 8]>,
}

struct RangeTarget {
    inst: Inst,
    /// The parameters that the next iteration's values go to, and the least value assumed of each.
    params: SmallVec<[(Value, Option<i128>); 4]>,
    joined: Joined,
}

/// The intervals of values that meet, `None` while none has come.
type Joined = SmallVec<[Option<Interval>; 4]>;

fn join(joined: &mut Joined, index: usize, interval: Interval) {
    if let Some(slot) = joined.get_mut(index) {
        *slot = Some(slot.map_or(interval, |all| all.union(interval)));
    }
}

impl ValueRanges<'_> {
    fn full(&self, value: Value) -> Interval {
        match self.func.ty(value).as_scalar() {
            Some(scalar) if !scalar.is_float() => Interval::full(scalar),
            _ => UNKNOWN,
        }
    }

    fn restore(&mut self, mark: usize) {
        while self.undo.len() > mark {
            if let Some((value, interval)) = self.undo.pop() {
                self.ranges[value] = interval;
            }
        }
    }

    // ---- the walk ----------------------------------------------------------------------------------------------

    /// Walks a region, and gives to `yielded` what its `yield` hands on. The caller restores refinements.
    fn region(&mut self, region: Region, yielded_to: &[Value]) -> Joined {
        let func = self.func;
        let mut yielded: Joined = SmallVec::from_elem(None, yielded_to.len());
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            match data.op {
                Op::If => self.if_(inst),
                Op::ForRange => self.for_range(inst),
                Op::While => self.while_(inst),
                Op::Block => self.block(inst),
                Op::Yield => {
                    for index in 0..yielded.len() {
                        yielded[index] = Some(self.look(data.operands[index], MAX_DEPTH));
                    }
                }
                Op::Break | Op::Continue => self.exit(inst),
                Op::Check | Op::Assert => self.assume(data.operands[0], true, MAX_DEPTH),
                _ => {
                    for element in accessed(func, inst) {
                        self.access(inst, element);
                    }
                    for &result in &data.results {
                        self.ranges[result] = self.full(result);
                    }
                    if let [result] = data.results[..] {
                        self.ranges[result] = self.compute(inst, result, 1);
                    }
                }
            }
        }
        yielded
    }

    fn access(&mut self, inst: Inst, element: AccessedElement) {
        for axis in 0..element.n_indices {
            let operand = element.first + axis;
            let index = self.func.insts[inst].operands[operand as usize];
            if !self.func.ty(index).as_scalar().is_some_and(Scalar::is_signed_int) {
                continue;
            }
            self.access = Some((element.array, axis));
            if self.ranges[index].low < 0 && self.look(index, MAX_DEPTH).low < 0 {
                self.found.push((inst, operand));
            }
            self.access = None;
        }
    }

    fn set_results(&mut self, inst: Inst, joined: &Joined) {
        for (index, &result) in self.func.insts[inst].results.iter().enumerate() {
            // A result that nothing reaches is one that is never used.
            let interval = joined.get(index).copied().flatten().unwrap_or_else(|| self.full(result));
            self.ranges[result] = interval;
        }
    }

    fn if_(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let cond = data.operands[0];
        let mark = self.undo.len();
        let mut joined: Joined = SmallVec::from_elem(None, data.results.len());
        for (index, &region) in data.regions.iter().enumerate() {
            self.assume(cond, index == 0, MAX_DEPTH);
            let yielded = self.region(region, &data.results);
            self.restore(mark);
            for (index, interval) in yielded.into_iter().enumerate() {
                if let Some(interval) = interval {
                    join(&mut joined, index, interval);
                }
            }
        }
        self.set_results(inst, &joined);
        // The code behind is reached from one side alone, so that it knows what that side knows of the condition.
        match [completes(func, data.regions[0]), completes(func, data.regions[1])] {
            [true, false] => self.assume(cond, true, MAX_DEPTH),
            [false, true] => self.assume(cond, false, MAX_DEPTH),
            _ => {}
        }
    }

    fn block(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let mark = self.undo.len();
        self.targets.push(RangeTarget {
            inst,
            params: SmallVec::new(),
            joined: SmallVec::from_elem(None, data.results.len()),
        });
        let yielded = self.region(data.regions[0], &data.results);
        self.restore(mark);
        let Some(target) = self.targets.pop() else { return };
        let mut joined = target.joined;
        for (index, interval) in yielded.into_iter().enumerate() {
            if let Some(interval) = interval {
                join(&mut joined, index, interval);
            }
        }
        self.set_results(inst, &joined);
    }

    /// Sets what is assumed of a loop's carried parameters and opens it as a target.
    fn open_loop(&mut self, inst: Inst, params: &[Value], inits: &[Value]) {
        let mut target = RangeTarget { inst, params: SmallVec::new(), joined: SmallVec::from_elem(None, params.len()) };
        for (&param, &init) in params.iter().zip(inits) {
            let full = self.full(param);
            let is_signed = self.func.ty(param).as_scalar().is_some_and(Scalar::is_signed_int);
            let low = self.look(init, MAX_DEPTH).low;
            let assumed = is_signed && self.assume_loops && low > full.low && !self.unassumed.contains(param);
            self.ranges[param] = if assumed { Interval::new(low, full.high) } else { full };
            target.params.push((param, assumed.then_some(low)));
        }
        self.targets.push(target);
    }

    /// Checks the assumptions against the values that an iteration hands to the next.
    fn next_iteration(&mut self, target_idx: usize, values: &[Value]) {
        for (index, &value) in values.iter().enumerate() {
            let interval = self.look(value, MAX_DEPTH);
            self.hand_on(target_idx, index, interval);
        }
    }

    fn hand_on(&mut self, target_idx: usize, index: usize, interval: Interval) {
        let target = &mut self.targets[target_idx];
        if let Some(&(param, Some(low))) = target.params.get(index)
            && interval.low < low
        {
            self.unassumed.insert(param);
            self.failed = true;
        }
        join(&mut target.joined, index, interval);
    }

    fn exit(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let Imm::Target(target) = data.imm else { return };
        let Some(target_idx) = self.targets.iter().position(|open| open.inst == target) else { return };
        if data.op == Op::Continue {
            self.next_iteration(target_idx, &data.operands);
        } else {
            for (index, &value) in data.operands.iter().enumerate() {
                let interval = self.look(value, MAX_DEPTH);
                join(&mut self.targets[target_idx].joined, index, interval);
            }
        }
    }

    fn for_range(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let region = data.regions[0];
        let [low, high, step] = [0, 1, 2].map(|index| self.look(data.operands[index], MAX_DEPTH));
        let params = &func.regions[region].params;
        let counted = range::of_counter(low, high, step);
        let full = self.full(params[0]);
        // An empty interval means that the body never runs.
        self.ranges[params[0]] = match counted.low <= counted.high {
            true => full.intersection(counted).unwrap_or(full),
            false => full,
        };
        self.open_loop(inst, &params[1..], &data.operands[3..]);
        let target_idx = self.targets.len() - 1;
        let mark = self.undo.len();
        let yielded = self.region(region, &params[1..]);
        self.restore(mark);
        for (index, interval) in yielded.into_iter().enumerate() {
            if let Some(interval) = interval {
                self.hand_on(target_idx, index, interval);
            }
        }
        let Some(target) = self.targets.pop() else { return };
        let mut joined = target.joined;
        for (index, &init) in data.operands[3..].iter().enumerate() {
            join(&mut joined, index, self.look(init, MAX_DEPTH));
        }
        self.set_results(inst, &joined);
    }

    fn while_(&mut self, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let [condition, body] = [data.regions[0], data.regions[1]];
        let params = &func.regions[condition].params;
        self.open_loop(inst, params, &data.operands);
        let target_idx = self.targets.len() - 1;
        let mark = self.undo.len();
        self.region(condition, &[]);
        let last = func.terminator(condition).filter(|&last| func.insts[last].op == Op::Yield);
        let mut results: Joined = SmallVec::from_elem(None, data.results.len());
        if let Some(cond) = last.and_then(|last| func.insts[last].operands.first().copied()) {
            let after_condition = self.undo.len();
            self.assume(cond, false, MAX_DEPTH);
            for (index, &param) in params.iter().enumerate() {
                join(&mut results, index, self.ranges[param]);
            }
            self.restore(after_condition);
            self.assume(cond, true, MAX_DEPTH);
        }
        let body_params = &func.regions[body].params;
        for (&param, &body_param) in params.iter().zip(body_params) {
            self.ranges[body_param] = self.ranges[param];
        }
        let yielded = self.region(body, body_params);
        self.restore(mark);
        for (index, interval) in yielded.into_iter().enumerate() {
            if let Some(interval) = interval {
                self.hand_on(target_idx, index, interval);
            }
        }
        let Some(target) = self.targets.pop() else { return };
        for (index, interval) in target.joined.into_iter().enumerate() {
            if let Some(interval) = interval {
                join(&mut results, index, interval);
            }
        }
        self.set_results(inst, &results);
    }

    // ---- intervals of values -----------------------------------------------------------------------------------

    /// The interval of a value at the point the walk has reached, looking again at how it was computed.
    fn look(&mut self, value: Value, depth: u32) -> Interval {
        let known = self.ranges[value];
        let ValueDef::Result(inst, 0) = self.func.values[value].def else { return known };
        if depth == 0 || known.single().is_some() || !self.func.insts[inst].regions.is_empty() {
            return known;
        }
        let computed = self.compute(inst, value, depth);
        known.intersection(computed).unwrap_or(known)
    }

    fn operand(&mut self, value: Value, depth: u32) -> Interval {
        if depth <= 1 { self.ranges[value] } else { self.look(value, depth - 1) }
    }

    /// An extent of a static shared array.
    fn shared_extent(&self, array: Value, axis: u8) -> Option<i128> {
        let ValueDef::Result(inst, _) = self.func.values[array].def else { return None };
        let Imm::Shared(array) = &self.func.insts[inst].imm else { return None };
        array.extents.get(usize::from(axis)).map(|&extent| extent.into())
    }

    /// The interval of an instruction's one result from those of its operands.
    fn compute(&mut self, inst: Inst, result: Value, depth: u32) -> Interval {
        let func = self.func;
        let data = &func.insts[inst];
        let full = self.full(result);
        let Some(to) = func.ty(result).as_scalar().filter(|scalar| !scalar.is_float()) else { return full };
        match (data.op, &data.imm) {
            (Op::Const, &Imm::Bits(bits)) => {
                let shift = 128 - to.bits();
                let value = if to.is_signed_int() { (i128::from(bits) << shift) >> shift } else { i128::from(bits) };
                return Interval::new(value, value);
            }
            (Op::Dim, &Imm::Axis(axis)) if let Some(extent) = self.shared_extent(data.operands[0], axis) => {
                return Interval::new(extent, extent);
            }
            (Op::Dim, &Imm::Axis(axis)) => {
                let has_element = self.access == Some((data.operands[0], axis));
                return Interval::new(i128::from(has_element), i128::from(i32::MAX));
            }
            (Op::Select, _) => return self.select(data.operands[0], data.operands[1], data.operands[2], depth),
            _ => {}
        }
        if let Some(known) = range::of_coordinate(func, data) {
            return known;
        }
        if !data.op.info().is_pure() {
            return full;
        }
        let Some(from) = data.operands.first().and_then(|&v| func.ty(v).as_scalar()) else { return full };
        match data.operands[..] {
            [x] if !from.is_float() => interval::unary(data.op, self.operand(x, depth), from, to),
            [a, b] if from == to || (to == Scalar::Bool && !from.is_float()) => {
                let (a, b) = (self.operand(a, depth), self.operand(b, depth));
                interval::binary(data.op, a, b, from)
            }
            _ => full,
        }
    }

    /// Each operand of a selection counts where it is selected.
    fn select(&mut self, cond: Value, a: Value, b: Value, depth: u32) -> Interval {
        let mark = self.undo.len();
        // Looking at the condition's operands may lead to another selection, since without a step down here, a chain of
        // n selections would be looked at 2^n times.
        let cond_depth = (depth - 1).min(2);
        self.assume(cond, true, cond_depth);
        let a = self.operand(a, depth);
        self.restore(mark);
        self.assume(cond, false, cond_depth);
        let b = self.operand(b, depth);
        self.restore(mark);
        a.union(b)
    }

    // ---- what conditions say -----------------------------------------------------------------------------------

    /// Takes it as known that `cond` is `truth`.
    fn assume(&mut self, cond: Value, truth: bool, depth: u32) {
        let func = self.func;
        let ValueDef::Result(inst, index) = func.values[cond].def else { return };
        if depth == 0 {
            return;
        }
        let data = &func.insts[inst];
        match (data.op, &data.operands[..]) {
            (Op::Not, &[x]) => self.assume(x, !truth, depth - 1),
            (Op::BitAnd, &[a, b]) if truth => {
                self.assume(a, true, depth - 1);
                self.assume(b, true, depth - 1);
            }
            (Op::BitOr, &[a, b]) if !truth => {
                self.assume(a, false, depth - 1);
                self.assume(b, false, depth - 1);
            }
            (Op::If, &[branch]) => {
                // `a and b` is an `if` that yields `false` from one side: if it is true, the other side was taken.
                let yielded = |side: usize| {
                    let last = func.terminator(data.regions[side])?;
                    let is_yield = func.insts[last].op == Op::Yield;
                    is_yield.then(|| func.insts[last].operands.get(index as usize).copied()).flatten()
                };
                for side in [0, 1] {
                    let (Some(this), Some(other)) = (yielded(side), yielded(1 - side)) else { return };
                    if func.as_const(other) == Some(u64::from(!truth)) {
                        self.assume(branch, side == 0, depth - 1);
                        self.assume(this, truth, depth - 1);
                    }
                }
            }
            (op, &[a, b]) => {
                if let Some(op) = if truth { Some(op) } else { op.inverse(false) } {
                    self.compare(op, a, b, depth);
                }
            }
            _ => {}
        }
    }

    fn compare(&mut self, op: Op, a: Value, b: Value, depth: u32) {
        let is_integer = self.func.ty(a).as_scalar().is_some_and(Scalar::is_int);
        if !is_integer {
            return;
        }
        let (x, y) = (self.look(a, depth), self.look(b, depth));
        let (below, above) = (i128::MIN / 4, i128::MAX / 4);
        let (new_x, new_y) = match op {
            Op::Lt => (Interval::new(below, y.high - 1), Interval::new(x.low + 1, above)),
            Op::Le => (Interval::new(below, y.high), Interval::new(x.low, above)),
            Op::Gt => (Interval::new(y.low + 1, above), Interval::new(below, x.high - 1)),
            Op::Ge => (Interval::new(y.low, above), Interval::new(below, x.high)),
            Op::Eq => (y, x),
            Op::Ne => (without(x, y), without(y, x)),
            _ => return,
        };
        self.refine(a, new_x, depth);
        self.refine(b, new_y, depth);
    }

    /// Takes it as known that `value` lies in `interval`, and what follows for the values it was computed from.
    fn refine(&mut self, value: Value, interval: Interval, depth: u32) {
        let known = self.ranges[value];
        // Nothing in both, so that this place is never reached, and anything may be said about it.
        let Some(new) = known.intersection(interval) else { return };
        if new != known {
            self.undo.push((value, known));
            self.ranges[value] = new;
        }
        let func = self.func;
        let ValueDef::Result(inst, 0) = func.values[value].def else { return };
        if depth == 0 {
            return;
        }
        let data = &func.insts[inst];
        match (data.op, &data.operands[..]) {
            (Op::Add | Op::Sub, &[x, c]) => {
                // `x + c` without overflow: the interval shifts back.
                let (Some(c), full) = (self.ranges[c].single(), self.full(value)) else { return };
                let c = if data.op == Op::Add { c } else { -c };
                let x_range = self.ranges[x];
                if full.contains(Interval::new(x_range.low + c, x_range.high + c)) {
                    self.refine(x, Interval::new(new.low - c, new.high - c), depth - 1);
                }
            }
            (Op::Cast | Op::Bitcast, &[x]) => {
                let Some(from) = func.ty(x).as_scalar().filter(|scalar| scalar.is_int()) else { return };
                // The conversion keeps every value here, or keeps the bits where these are a number that both types
                // have.
                let same_width = func.ty(value).as_scalar().is_some_and(|to| to.bits() == from.bits());
                let in_both = same_width && new.low >= 0 && Interval::full(from).contains(new);
                if in_both || self.full(value).contains(self.ranges[x]) {
                    self.refine(x, new, depth - 1);
                }
            }
            (Op::Min, &[a, b]) => {
                for operand in [a, b] {
                    self.refine(operand, Interval::new(new.low, i128::MAX / 4), depth - 1);
                }
            }
            (Op::Max, &[a, b]) => {
                for operand in [a, b] {
                    self.refine(operand, Interval::new(i128::MIN / 4, new.high), depth - 1);
                }
            }
            _ => {}
        }
    }
}

/// `x` without the one value of `y`, where that is at an end.
fn without(x: Interval, y: Interval) -> Interval {
    match y.single() {
        Some(value) if value == x.low => Interval::new(x.low + 1, x.high),
        Some(value) if value == x.high => Interval::new(x.low, x.high - 1),
        _ => x,
    }
}
