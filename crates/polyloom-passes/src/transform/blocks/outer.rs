//! What stays outside of the loops over threads: control flow around barriers and warp operations, and what is computed
//! once for all threads.
//!
//! A list of instructions is walked for the threads of the block or, in the loop over warps, for those of a warp. What
//! these threads need not execute together is gathered ([`ThreadItem`]) until something comes that they must; then the loop
//! over threads is made that does it.
//!
//! A thread that leaves a `block`, an iteration or the kernel early, while code for others or for itself is still to
//! come in other loops over threads, is marked with the number of the place where it is back. It does nothing until
//! then. No barrier and no warp operation comes meanwhile: the verifier rejects what some threads would miss.

use super::facts::ThreadLevel;
use super::thread_loops::{ThreadItem, ThreadLoop};
use super::{BlockSplitter, EmitScope, JoinedResults, OuterFrame};
use polyloom_ir::{Imm, Inst, Op, Region, Type, Value, ValueDef};
use smallvec::SmallVec;

/// Describes how an instruction is treated.
enum InstTreatment {
    /// It is computed once for all threads.
    Once,
    /// Each thread executes it by itself.
    Each,
    /// They execute it together.
    Together,
    /// It owns regions in which they do so.
    Around,
    /// It leaves nothing.
    Nothing,
}

impl BlockSplitter<'_> {
    /// A region outside of the loops over threads. `is_last`: whether nothing of the kernel follows.
    pub(super) fn region(&mut self, around: &EmitScope, region: Region, is_last: bool) {
        let func = self.func;
        let Some((&last, insts)) = func.regions[region].insts.split_last() else { return };
        let counts = self.own_counter.take();
        let mut items: Vec<ThreadItem> =
            counts.into_iter().chain(insts.iter().map(|&inst| ThreadItem::Inst(inst))).collect();
        let data = &func.insts[last];
        let target = match (data.op, &data.imm) {
            (Op::Yield, _) => self.frames.len().checked_sub(1),
            (_, Imm::Target(target)) => self.frames.iter().position(|frame| frame.old == *target),
            _ => None,
        };
        let is_condition = data.op == Op::Yield
            && target.is_some_and(|frame| {
                let owner = &func.insts[self.frames[frame].old];
                owner.op == Op::While && owner.regions[0] == region
            });
        let mut outer_operands: Vec<Value> = Vec::new();
        if is_condition {
            outer_operands.extend(&data.operands);
        } else if let Some(frame) = target {
            let mut moves = Vec::new();
            for (index, (&operand, joined)) in data.operands.iter().zip(&self.frames[frame].joined).enumerate() {
                match joined {
                    JoinedResults::Home(home) => moves.push((operand, *home, Some((last, index as u32)))),
                    JoinedResults::Outer => outer_operands.push(operand),
                    JoinedResults::Unused => {}
                }
            }
            if !moves.is_empty() {
                items.push(ThreadItem::Move(moves));
            }
        }
        // Out of the loop over warps, whose other iterations go on.
        let leaves_warp = around.level == ThreadLevel::Warp
            && (data.op == Op::Return || target.is_some_and(|frame| self.frames[frame].level == ThreadLevel::Block));
        if leaves_warp && data.op == Op::Return {
            if !is_last {
                items.push(ThreadItem::Away(self.away_to((None, false))));
            }
        } else if leaves_warp && let Imm::Target(target) = data.imm {
            items.push(ThreadItem::Away(self.away_to((Some(target), data.op == Op::Continue))));
        }
        self.items(around, items, is_last);
        self.emit.span = data.span;
        if self.is_at_dead_end() {
            self.emit.inst(Op::Unreachable, &[], &[], Imm::None);
            return;
        }
        if leaves_warp {
            // This is given up, because one warp's way out has no place for values that all threads of the block have
            // in common.
            if !outer_operands.is_empty() {
                self.give_up("a warp leaves a loop with a value that all threads of the block have in common");
            }
            if let Some((_, warps)) = around.warp {
                self.emit.inst(Op::Continue, &[], &[], Imm::Target(warps));
            }
            return;
        }
        match (data.op, target) {
            (Op::Unreachable, _) => self.unreached_end(around, region),
            (Op::Yield, Some(frame)) => {
                if !is_condition && matches!(func.insts[self.frames[frame].old].op, Op::ForRange | Op::While) {
                    self.back_at(around, (Some(self.frames[frame].old), true));
                }
                let values = self.outer_values(around, &outer_operands);
                self.emit.yield_(&values);
            }
            (Op::Break | Op::Continue, Some(frame)) => {
                let values = self.outer_values(around, &outer_operands);
                let new = self.frames[frame].new;
                self.emit.inst(data.op, &values, &[], Imm::Target(new));
            }
            _ => {
                self.emit.inst(Op::Return, &[], &[], Imm::None);
            }
        }
    }

    /// The end of a region that no thread reaches. If all have left one by one, the code reaches it all the same.
    fn unreached_end(&mut self, around: &EmitScope, region: Region) {
        if self.away.is_empty() || region == self.func.body {
            let op = if region == self.func.body { Op::Return } else { Op::Unreachable };
            self.emit.inst(op, &[], &[], Imm::None);
            return;
        }
        let Some(frame) = self.frames.last() else { return };
        let (old, new) = (frame.old, frame.new);
        if matches!(self.func.insts[old].op, Op::ForRange | Op::While) {
            self.back_at(around, (Some(old), true));
        }
        let types: SmallVec<[Type; 4]> =
            self.emit.func.insts[new].results.iter().map(|&result| self.emit.func.ty(result)).collect();
        let zeros: SmallVec<[Value; 4]> =
            types.iter().filter_map(|ty| ty.as_scalar()).map(|ty| self.emit.constant(ty, 0)).collect();
        self.emit.yield_(&zeros);
    }

    /// Instructions and the like one after another.
    pub(super) fn items(&mut self, around: &EmitScope, items: Vec<ThreadItem>, is_last: bool) {
        let classes: Vec<bool> = items.iter().map(|item| self.holds_together(around.level, item)).collect();
        let mut pending = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let rest_together = classes[index + 1..].contains(&true);
            let ThreadItem::Inst(inst) = *item else {
                pending.push(item.clone());
                continue;
            };
            match self.class(around.level, inst, rest_together) {
                InstTreatment::Nothing => {}
                InstTreatment::Each => pending.push(item.clone()),
                InstTreatment::Once => self.once(around, inst, &mut pending),
                InstTreatment::Together => self.together(around, inst, &mut pending),
                InstTreatment::Around => {
                    let is_last = is_last && index + 1 == items.len();
                    self.around(around, inst, &mut pending, is_last);
                }
            }
        }
        self.flush(around, &mut pending, is_last);
    }

    pub(super) fn holds_together(&self, level: ThreadLevel, item: &ThreadItem) -> bool {
        matches!(item, ThreadItem::Inst(inst) if self.facts.needs(*inst) >= level.convergence())
    }

    fn class(&self, level: ThreadLevel, inst: Inst, rest_together: bool) -> InstTreatment {
        let data = &self.func.insts[inst];
        if !data.regions.is_empty() {
            if self.facts.needs(inst) >= level.convergence() {
                return InstTreatment::Around;
            }
            let within = rest_together || self.frames.iter().any(|frame| frame.level == level);
            let together = |&jump: &Inst| !self.facts.is_divergent(level, jump);
            return match within && self.facts.jumps_out_of(inst).iter().any(together) {
                true => InstTreatment::Around,
                false => InstTreatment::Each,
            };
        }
        if data.op.info().convergence == level.convergence() {
            return InstTreatment::Together;
        }
        if matches!(data.op, Op::Const | Op::SharedArray) {
            return InstTreatment::Nothing;
        }
        let once = data.op.info().is_pure()
            && data.op != Op::DynamicShared
            && data
                .results
                .iter()
                .all(|&result| self.facts.is_uniform(level, result) && !self.is_remade_outside(result))
            && data.operands.iter().all(|&operand| self.is_outside(operand));
        if once { InstTreatment::Once } else { InstTreatment::Each }
    }

    /// Returns true if a value that all threads of the block have in common is made again where it is used.
    fn is_remade_outside(&self, value: Value) -> bool {
        self.facts.is_remade(value) && self.facts.is_uniform(ThreadLevel::Block, value)
    }

    /// Returns true if a value is there outside of the loops over threads.
    fn is_outside(&self, value: Value) -> bool {
        if let Some(view) = self.facts.views.get(&value) {
            return view.extents.iter().all(|&extent| self.is_outside(extent));
        }
        let can_be_made = || match self.func.values[value].def {
            ValueDef::Result(inst, _) if self.is_remade_outside(value) => {
                self.func.insts[inst].operands.iter().all(|&operand| self.is_outside(operand))
            }
            _ => false,
        };
        self.func.as_const(value).is_some()
            || self.func.ty(value).as_scalar().is_none()
            || self.outer[value].is_some()
            || can_be_made()
    }

    /// An instruction that is computed once for all threads.
    fn once(&mut self, around: &EmitScope, inst: Inst, pending: &mut Vec<ThreadItem>) {
        let mut first = self.first_of(around);
        self.emit.span = self.func.insts[inst].span;
        self.plain(&mut first, inst);
        for &result in &self.func.insts[inst].results {
            if let Some(&new) = first.values.get(&result) {
                self.set_outer(around.level, result, new);
                self.keep_beyond_warp(around, result, pending);
            }
        }
    }

    /// Keeps a value that the loop over warps has outside of those over lanes, if it is wanted outside of that, too.
    pub(super) fn keep_beyond_warp(&mut self, around: &EmitScope, value: Value, pending: &mut Vec<ThreadItem>) {
        if around.level == ThreadLevel::Block || self.facts.is_remade(value) || !self.escapes_block(value) {
            return;
        }
        if self.facts.is_uniform(ThreadLevel::Block, value) {
            let home = self.cell(value);
            self.block_cells.push(value);
            let mut first = self.first_of(around);
            let new = self.value(&mut first, value);
            self.store_home(home, &first, new);
            return;
        }
        let home = self.varying_home(value, true);
        pending.push(ThreadItem::Move(vec![(value, home, None)]));
    }

    /// Makes the loop over threads that does what is pending.
    pub(super) fn flush(&mut self, around: &EmitScope, pending: &mut Vec<ThreadItem>, is_last: bool) {
        if pending.is_empty() {
            return;
        }
        let items = std::mem::take(pending);
        let in_warps = items.iter().any(|item| self.holds_together(ThreadLevel::Warp, item));
        if around.level == ThreadLevel::Warp || !in_warps {
            self.thread_chunk(around, &items, is_last);
            return;
        }
        self.n_chunks += 1;
        self.current = ThreadLoop { block: self.n_chunks, warp: 0 };
        self.mark(&items);
        self.warps(|this, warp| this.items(warp, items, is_last));
        for value in std::mem::take(&mut self.of_warp) {
            self.outer[value] = None.into();
        }
        let first = self.first_of(around);
        for value in std::mem::take(&mut self.block_cells) {
            let Some(home) = self.homes[value] else { continue };
            let loaded = self.load_home(home, &first);
            self.set_outer(ThreadLevel::Block, value, loaded);
        }
    }

    /// Returns what values are that all threads have in common.
    fn outer_values(&mut self, around: &EmitScope, values: &[Value]) -> SmallVec<[Value; 4]> {
        let mut first = self.first_of(around);
        for &value in values {
            if self.func.as_const(value).is_none() && !self.facts.is_uniform(around.level, value) {
                self.give_up("threads of one block or warp may go on differently around a barrier");
            }
        }
        self.all_values(&mut first, values)
    }

    /// An instruction whose regions hold barriers or warp operations.
    fn around(&mut self, around: &EmitScope, inst: Inst, pending: &mut Vec<ThreadItem>, is_last: bool) {
        let func = self.func;
        let data = &func.insts[inst];
        let level = around.level;
        if data.op != Op::Block && !self.facts.stays_together(level, inst) {
            self.emit.span = data.span;
            self.give_up("threads of one block or warp may part around a barrier");
            return;
        }
        let is_loop = matches!(data.op, Op::ForRange | Op::While);
        let joined = self.joined(level, inst);
        let n_fixed = match data.op {
            Op::ForRange => 3,
            Op::If => 1,
            _ => 0,
        };
        // The initial values of a loop go where each iteration finds them.
        let mut carried = Vec::new();
        if is_loop {
            let mut moves = Vec::new();
            for (index, joined) in joined.iter().enumerate() {
                let init = data.operands[n_fixed + index];
                match joined {
                    JoinedResults::Home(home) => moves.push((init, *home, Some((inst, (n_fixed + index) as u32)))),
                    JoinedResults::Outer => carried.push(init),
                    JoinedResults::Unused => {}
                }
            }
            if !moves.is_empty() {
                pending.push(ThreadItem::Move(moves));
            }
        }
        self.flush(around, pending, false);
        self.emit.span = data.span;
        // Threads that begin elsewhere but go round as often count along with the first of them.
        let own_counter = data.op == Op::ForRange && !self.facts.is_uniform(level, data.operands[0]);
        let fixed = if own_counter {
            let mut first = self.first_of(around);
            self.all_values(&mut first, &data.operands[..n_fixed])
        } else {
            self.outer_values(around, &data.operands[..n_fixed])
        };
        let carried = self.outer_values(around, &carried);
        let operands: SmallVec<[Value; 8]> = fixed.iter().chain(&carried).copied().collect();
        let is_outer = |joined: &JoinedResults| matches!(joined, JoinedResults::Outer);
        let results = data.results.iter().zip(&joined).filter(|(_, joined)| is_outer(joined));
        let types: SmallVec<[Type; 4]> = results.map(|(&result, _)| func.ty(result)).collect();
        let new = self.emit.inst(data.op, &operands, &types, Imm::None);
        self.frames.push(OuterFrame { old: inst, new, level, joined: joined.clone() });
        for &region in &data.regions {
            let begin = own_counter.then(|| (data.operands[0], fixed[0]));
            self.inner_region(around, new, region, &joined, begin, is_last && !is_loop);
        }
        self.frames.pop();
        let mut made = self.emit.func.insts[new].results.clone().into_iter();
        for (&result, joined) in data.results.iter().zip(&joined) {
            match joined {
                JoinedResults::Outer => {
                    if let Some(new) = made.next() {
                        self.set_outer(level, result, new);
                        self.keep_beyond_warp(around, result, pending);
                    }
                }
                JoinedResults::Home(home) => self.homes[result] = Some(*home),
                JoinedResults::Unused => {}
            }
        }
        self.back_at(around, (Some(inst), false));
    }

    /// A region of an instruction that is being made. `begin`: where a loop begins that begins elsewhere for each
    /// thread, and where it does for the first.
    fn inner_region(
        &mut self,
        around: &EmitScope,
        new: Inst,
        region: Region,
        joined: &[JoinedResults],
        begin: Option<(Value, Value)>,
        is_last: bool,
    ) {
        let func = self.func;
        let params = &func.regions[region].params;
        let n_counters = params.len().saturating_sub(joined.len());
        let is_outer =
            |index: usize| index < n_counters || matches!(joined.get(index - n_counters), Some(JoinedResults::Outer));
        let outer: Vec<Value> =
            params.iter().enumerate().filter(|(index, _)| is_outer(*index)).map(|(_, &param)| param).collect();
        let types: SmallVec<[Type; 4]> = outer.iter().map(|&param| func.ty(param)).collect();
        let inner = self.emit.new_region(&types);
        self.emit.func.insts[new].regions.push(inner);
        for (index, &param) in outer.iter().enumerate().skip(usize::from(begin.is_some())) {
            let made = self.emit.func.regions[inner].params[index];
            self.set_outer(around.level, param, made);
        }
        for (index, &param) in params.iter().enumerate().skip(n_counters) {
            if let Some(JoinedResults::Home(home)) = joined.get(index - n_counters) {
                self.homes[param] = Some(*home);
            }
        }
        let outside = self.emit.enter(inner);
        if let Some((begin, first)) = begin {
            let passed = self.emit.func.regions[inner].params[0];
            let passed = self.emit.op(Op::Sub, &[passed, first]);
            let counter = params[0];
            let of_block = around.level == ThreadLevel::Block || self.escapes_block(counter);
            self.varying_home(counter, of_block);
            self.own_counter = Some(ThreadItem::Count { counter, begin, passed });
        }
        self.region(around, region, is_last);
        self.emit.region = outside;
    }

    /// Returns where the results of an instruction with regions are, and what it carries if it is a loop.
    fn joined(&mut self, level: ThreadLevel, inst: Inst) -> SmallVec<[JoinedResults; 4]> {
        let func = self.func;
        let data = &func.insts[inst];
        let is_loop = matches!(data.op, Op::ForRange | Op::While);
        // Threads that come one by one leave their values in memory.
        let mut one_by_one = false;
        for &region in &data.regions {
            func.walk(region, &mut |inner, data| {
                one_by_one |= data.imm == Imm::Target(inst) && self.facts.is_divergent(level, inner);
            });
        }
        let mut all = SmallVec::new();
        for (index, &result) in data.results.iter().enumerate() {
            let mut values: SmallVec<[Value; 4]> = SmallVec::from_slice(&[result]);
            if is_loop {
                for &region in &data.regions {
                    let params = &func.regions[region].params;
                    values.push(params[params.len() - data.results.len() + index]);
                }
            }
            let used = values.iter().any(|&value| !self.facts.users(value).is_empty());
            let uniform = values.iter().all(|&value| self.facts.is_uniform(level, value));
            all.push(match () {
                () if !used => JoinedResults::Unused,
                () if uniform && !one_by_one => JoinedResults::Outer,
                () => JoinedResults::Home(
                    self.varying_home(result, level == ThreadLevel::Block || self.escapes_block(result)),
                ),
            });
        }
        all
    }

    /// The number of a place that a thread is on its way to from now on.
    pub(super) fn away_to(&mut self, place: (Option<Inst>, bool)) -> u32 {
        let next = self.exits.len() as u32 + 1;
        let number = *self.exits.entry(place).or_insert(next);
        if !self.away.contains(&number) {
            self.away.push(number);
        }
        number
    }

    /// Threads on their way to this place are back.
    fn back_at(&mut self, around: &EmitScope, place: (Option<Inst>, bool)) {
        let Some(number) = self.exits.get(&place).copied().filter(|number| self.away.contains(number)) else { return };
        self.away.retain(|other| *other != number);
        let state_array = self.away_state();
        self.threads(around, false, None, &[], |this, at, _| {
            let state = this.emit.load(state_array, &[at.thread]);
            let number = this.emit.int(number);
            let arrives = this.emit.compare(Op::Eq, state, number);
            let here = this.emit.int(0);
            let next = this.emit.select(arrives, here, state);
            this.emit.store(state_array, &[at.thread], next);
            SmallVec::new()
        });
    }
}
