//! `dce`: removes what nothing observable depends on.
//!
//! Optimistic, sparse liveness over structured HIR: an instruction is live if it has an effect, or if a live
//! instruction needs it. The values an `if` yields, a loop carries or a block hands out are live one by one (*slots*),
//! so a loop sheds the carried values it does not need. A loop without effects and without live results goes, whether
//! or not it would have ended.

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use polyloom_ir::op::OpEffect;
use polyloom_ir::{CallEffects, Function, Imm, Inst, Op, Region, Value, ValueDef};
use smallvec::SmallVec;
use std::ops::Range;

/// Removes dead instructions, loads included, and the dead results and carried values of live ones.
pub fn dce(func: &mut Function, calls: &CallEffects) {
    dce_private(func, calls, &[]);
}

/// Works like [`dce`], where nobody else looks at the `private` arrays, because what is stored in them is needed only
/// if something loads from them.
pub fn dce_private(func: &mut Function, calls: &CallEffects, private: &[Value]) {
    let mut liveness = LiveValues {
        func,
        calls,
        private,
        stores: Vec::new(),
        order: SecondaryMap::new(),
        n_ordered: 0,
        owners: SecondaryMap::with_capacity(func.regions.len()),
        parents: SecondaryMap::with_capacity(func.insts.len()),
        exits: Vec::new(),
        insts: EntitySet::with_capacity(func.insts.len()),
        values: EntitySet::with_capacity(func.values.len()),
        worklist: Vec::with_capacity(func.insts.len()),
    };
    liveness.roots(func.body, None);
    liveness.exits.sort_unstable();
    liveness.propagate();
    let LiveValues { insts, values, .. } = liveness;
    DeadCodeSweep { insts, values, slots: Vec::new() }.region(func, func.body);
}

struct LiveValues<'a> {
    func: &'a Function,
    calls: &'a CallEffects,
    private: &'a [Value],
    /// Stores in private arrays, and until when what they store may be read: to the end, or once more in the next
    /// round of the outermost loop that they are in, which begins and ends there.
    stores: Vec<(Inst, Range<u32>)>,
    /// The place where accesses of private arrays stand in the text.
    order: SecondaryMap<Inst, u32>,
    n_ordered: u32,
    /// The instruction that owns a region.
    owners: SecondaryMap<Region, PackedOption<Inst>>,
    /// The region an instruction stands in.
    parents: SecondaryMap<Inst, PackedOption<Region>>,
    /// Every target with a `break` or `continue` to it, in order.
    exits: Vec<(Inst, Inst)>,
    insts: EntitySet<Inst>,
    values: EntitySet<Value>,
    worklist: Vec<LiveWork>,
}

/// Something newly live whose needs are yet to be marked. Work is queued and never recursed into, so that no shape of
/// program exhausts the stack.
#[derive(Clone, Copy)]
enum LiveWork {
    /// An instruction.
    Inst(Inst),
    /// A result of an instruction that owns regions, and all that flows into it.
    Slot(Inst, usize),
}

impl LiveValues<'_> {
    /// `outermost` is where the stores begin that stand in the outermost loop around `region`.
    fn roots(&mut self, region: Region, outermost: Option<usize>) {
        let func = self.func;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            self.order[inst] = self.n_ordered;
            self.n_ordered += 1;
            let is_outermost = outermost.is_none() && matches!(data.op, Op::ForRange | Op::While);
            let first = if is_outermost { Some(self.stores.len()) } else { outermost };
            self.parents[inst] = region.into();
            if let Imm::Target(target) = data.imm {
                self.exits.push((target, inst));
            }
            for &inner in &data.regions {
                self.owners[inner] = inst.into();
                self.roots(inner, first);
            }
            if is_outermost {
                for (_, readable) in &mut self.stores[first.unwrap_or_default()..] {
                    *readable = self.order[inst]..self.n_ordered;
                }
            }
            match self.calls.of_inst(data) {
                OpEffect::Write if data.op == Op::ArrayStore && self.private.contains(&data.operands[0]) => {
                    self.stores.push((inst, self.order[inst]..self.order[inst]));
                }
                OpEffect::Write | OpEffect::ReadWrite => self.mark_inst(inst),
                OpEffect::Terminator if data.op == Op::Return => self.mark_inst(inst),
                OpEffect::Terminator | OpEffect::Pure | OpEffect::Read | OpEffect::Region => {}
            }
        }
    }

    fn propagate(&mut self) {
        while let Some(work) = self.worklist.pop() {
            let func = self.func;
            let inst = match work {
                LiveWork::Inst(inst) => inst,
                LiveWork::Slot(inst, slot) => {
                    self.mark_slot(inst, slot);
                    continue;
                }
            };
            let data = &func.insts[inst];
            if let Some(owner) = self.parents[inst].expand().and_then(|region| self.owners[region].expand()) {
                self.mark_inst(owner);
            }
            match data.op {
                // These operands are live or dead slot by slot.
                Op::Yield | Op::Break | Op::Continue | Op::While | Op::Block => {}
                Op::If => self.mark_value(data.operands[0]),
                Op::ForRange => self.mark_values(&data.operands[..3]),
                _ => self.mark_values(&data.operands),
            }
            if data.op.info().effect == OpEffect::Read && data.operands.iter().any(|value| self.private.contains(value))
            {
                let here = self.order[inst];
                for index in 0..self.stores.len() {
                    let (store, around) = &self.stores[index];
                    let is_before = self.order[*store] < here || around.contains(&here);
                    if is_before && data.operands.contains(&func.insts[*store].operands[0]) {
                        self.mark_inst(*store);
                    }
                }
            }
            if data.op == Op::While
                && let Some(cond) = func.terminator(data.regions[0])
                && func.insts[cond].op == Op::Yield
            {
                self.mark_values(&func.insts[cond].operands);
            }
            if !data.regions.is_empty() {
                // Everything that leaves a live loop or block is live, since it decides how often and how far that
                // runs.
                for index in self.exits_of(inst) {
                    self.mark_inst(self.exits[index].1);
                }
            }
        }
    }

    fn mark_inst(&mut self, inst: Inst) {
        if self.insts.insert(inst) {
            self.worklist.push(LiveWork::Inst(inst));
        }
    }

    fn mark_values(&mut self, values: &[Value]) {
        for &value in values {
            self.mark_value(value);
        }
    }

    fn mark_value(&mut self, value: Value) {
        if !self.values.insert(value) {
            return;
        }
        match self.func.values[value].def {
            ValueDef::Result(inst, index) => {
                self.mark_inst(inst);
                self.queue_slot(inst, index as usize);
            }
            ValueDef::Param(region, index) => {
                // The function's own parameters have no owner, and the counter of a `for_range` no slot.
                let Some(owner) = self.owners[region].expand() else { return };
                let first = usize::from(self.func.insts[owner].op == Op::ForRange);
                if let Some(slot) = (index as usize).checked_sub(first) {
                    self.queue_slot(owner, slot);
                }
            }
        }
    }

    fn queue_slot(&mut self, inst: Inst, slot: usize) {
        if !self.func.insts[inst].regions.is_empty() {
            self.worklist.push(LiveWork::Slot(inst, slot));
        }
    }

    /// Marks everything that flows into result `slot` of an instruction with regions, loop-carried values included.
    fn mark_slot(&mut self, inst: Inst, slot: usize) {
        let func = self.func;
        let data = &func.insts[inst];
        let n_fixed = if data.op == Op::ForRange { 3 } else { 0 };
        if matches!(data.op, Op::ForRange | Op::While) {
            self.mark_value(data.operands[n_fixed + slot]);
            // One representative tells the sweep that the slot is live, as result or as parameter.
            self.mark_value(data.results[slot]);
            for &region in &data.regions {
                let params = &func.regions[region].params;
                self.mark_value(params[params.len() - data.results.len() + slot]);
            }
        }
        for (index, &region) in data.regions.iter().enumerate() {
            if data.op == Op::While && index == 0 {
                continue;
            }
            if let Some(last) = func.terminator(region)
                && func.insts[last].op == Op::Yield
            {
                self.mark_value(func.insts[last].operands[slot]);
            }
        }
        for index in self.exits_of(inst) {
            self.mark_value(func.insts[self.exits[index].1].operands[slot]);
        }
    }

    /// Returns where in `exits` those of a loop or block stand.
    fn exits_of(&self, inst: Inst) -> Range<usize> {
        let first = self.exits.partition_point(|&(target, _)| target < inst);
        let n_exits = self.exits[first..].iter().take_while(|&&(target, _)| target == inst).count();
        first..first + n_exits
    }
}

struct DeadCodeSweep {
    insts: EntitySet<Inst>,
    values: EntitySet<Value>,
    /// Live slots of the enclosing loops and blocks that have dead ones.
    slots: Vec<(Inst, SmallVec<[bool; 8]>)>,
}

impl DeadCodeSweep {
    fn region(&mut self, func: &mut Function, region: Region) {
        let mut insts = std::mem::take(&mut func.regions[region].insts);
        insts.retain(|&inst| self.insts.contains(inst) || func.insts[inst].op.info().is_terminator());
        for &inst in &insts {
            match func.insts[inst].imm {
                Imm::Target(target) => {
                    if let Some((_, slots)) = self.slots.iter().find(|(inst, _)| *inst == target) {
                        retain_slots(&mut func.insts[inst].operands, 0, slots);
                    }
                }
                _ if !func.insts[inst].regions.is_empty() => self.inst(func, inst),
                _ => {}
            }
        }
        func.regions[region].insts = insts;
    }

    fn inst(&mut self, func: &mut Function, inst: Inst) {
        let data = &func.insts[inst];
        let op = data.op;
        let live: SmallVec<[bool; 8]> = data.results.iter().map(|&v| self.values.contains(v)).collect();
        let regions = data.regions.clone();
        if live.iter().all(|&live| live) {
            for &region in &regions {
                self.region(func, region);
            }
            return;
        }
        self.slots.push((inst, live));
        for &region in &regions {
            self.region(func, region);
        }
        let Some((_, slots)) = self.slots.pop() else { return };
        let is_loop = matches!(op, Op::ForRange | Op::While);
        for (index, &region) in regions.iter().enumerate() {
            if is_loop {
                let n_fixed = usize::from(op == Op::ForRange);
                retain_slots(&mut func.regions[region].params, n_fixed, &slots);
                for index in n_fixed..func.regions[region].params.len() {
                    let param = func.regions[region].params[index];
                    func.values[param].def = ValueDef::Param(region, index as u32);
                }
            }
            if op == Op::While && index == 0 {
                continue;
            }
            if let Some(last) = func.terminator(region)
                && func.insts[last].op == Op::Yield
            {
                retain_slots(&mut func.insts[last].operands, 0, &slots);
            }
        }
        let data = &mut func.insts[inst];
        if is_loop {
            retain_slots(&mut data.operands, if op == Op::ForRange { 3 } else { 0 }, &slots);
        }
        retain_slots(&mut data.results, 0, &slots);
        for index in 0..func.insts[inst].results.len() {
            let result = func.insts[inst].results[index];
            func.values[result].def = ValueDef::Result(inst, index as u32);
        }
    }
}

/// Keeps the first `n_fixed` values and those whose slot is live.
fn retain_slots<A: smallvec::Array<Item = Value>>(values: &mut SmallVec<A>, n_fixed: usize, slots: &[bool]) {
    let mut index = 0;
    values.retain(|_| {
        let keep = index < n_fixed || slots.get(index - n_fixed).copied().unwrap_or(true);
        index += 1;
        keep
    });
}
