//! The code of a loop over threads: what each of them does between two barriers.

use super::thread_loops::{ThreadItem, ThreadLoop};
use super::{BlockSplitter, EmitScope, JoinedResults, ThreadContext, ThreadLevel};
use cranelift_entity::EntitySet;
use polyloom_ir::{Imm, Inst, Op, Region, Scalar, Type, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

impl BlockSplitter<'_> {
    /// Makes the loop over the threads that do these things, and what of them is wanted outside of it.
    pub(super) fn thread_chunk(&mut self, around: &EmitScope, items: &[ThreadItem], is_last: bool) {
        self.n_chunks += 1;
        self.current = match around.level {
            ThreadLevel::Block => ThreadLoop { block: self.n_chunks, warp: self.n_chunks },
            ThreadLevel::Warp => ThreadLoop { block: self.current.block, warp: self.n_chunks },
        };
        self.mark(items);
        let (outside, at_once) = self.values_from_outside(items);
        let leaves = items.iter().any(|item| match item {
            ThreadItem::Inst(inst) => !self.facts.jumps_out_of(*inst).is_empty(),
            _ => false,
        });
        let may_be_away = !self.away.is_empty();
        let votes: Vec<Inst> = items
            .iter()
            .filter_map(|item| if let ThreadItem::Vote(inst) = item { Some(*inst) } else { None })
            .collect();
        if !votes.is_empty() && (leaves || may_be_away) {
            self.give_up("a thread may leave before the others vote");
        }
        let carried: SmallVec<[Value; 4]> = votes.iter().map(|&inst| self.before_vote(inst)).collect();
        let mut cells = Vec::new();
        let narrow = if votes.is_empty() && self.text.is_none() { self.narrowed(around, items) } else { None };
        // The counter of a narrower loop is a coordinate, whether or not the condition is made again here.
        let coordinates = narrow.is_some()
            || outside.iter().any(|&value| self.facts.is_of_coordinates(value))
            || self.asks_for_coordinates(items);
        let results = self.threads(around, coordinates, narrow, &carried, |this, at, carried| {
            at.is_last = is_last;
            let body = (leaves || may_be_away).then(|| this.begin_body(at, may_be_away)).flatten();
            at.keeps = this.text.is_some();
            for value in at_once {
                let here = this.value(at, value);
                at.values.insert(value, here);
            }
            at.keeps = false;
            let mut next = SmallVec::new();
            for item in items {
                if let (Some(narrow), ThreadItem::Inst(inst)) = (narrow, item)
                    && narrow.branch == *inst
                {
                    let holds = this.emit.constant(Scalar::Bool, 1);
                    at.values.insert(narrow.cond, holds);
                }
                this.item(around, at, item, carried, &mut next, &mut cells);
            }
            if let Some(outside) = body {
                this.end_region(&[]);
                this.emit.region = outside;
            }
            next
        });
        for (&inst, &result) in votes.iter().zip(&results) {
            self.set_outer(around.level, self.func.insts[inst].results[0], result);
        }
        let first = self.first_of(around);
        for value in cells {
            let Some(home) = self.homes[value] else { continue };
            let loaded = self.load_home(home, &first);
            self.set_outer(around.level, value, loaded);
            if around.level == ThreadLevel::Warp && self.escapes_block(value) {
                self.block_cells.push(value);
            }
        }
    }

    /// Notes which loop instructions, and operands read elsewhere than their instruction stands, are in.
    pub(super) fn mark(&mut self, items: &[ThreadItem]) {
        let chunk = self.current;
        for item in items {
            match item {
                ThreadItem::Inst(inst) => {
                    self.chunks[*inst] = chunk;
                    for &region in &self.func.insts[*inst].regions {
                        self.func.walk(region, &mut |inner, _| self.chunks[inner] = chunk);
                    }
                }
                ThreadItem::Receive(inst) => self.chunks[*inst] = chunk,
                ThreadItem::Give(inst) | ThreadItem::Vote(inst) => {
                    for index in 0..self.n_given(*inst) {
                        self.use_chunks.insert((*inst, index), chunk);
                    }
                }
                ThreadItem::Move(moves) => {
                    for (_, _, used) in moves {
                        self.use_chunks.extend(used.map(|used| (used, chunk)));
                    }
                }
                ThreadItem::Away(_) | ThreadItem::Count { .. } => {}
            }
        }
    }

    /// Values that items use and do not define, constants and arrays left out; and those of them to begin with.
    fn values_from_outside(&self, items: &[ThreadItem]) -> (Vec<Value>, Vec<Value>) {
        let func = self.func;
        let mut inside = EntitySet::new();
        let mut used = Vec::new();
        let mut seen = FxHashSet::default();
        for item in items {
            match item {
                ThreadItem::Inst(inst) => {
                    let mut visit = |inner: Inst| {
                        let data = &func.insts[inner];
                        inside.extend(data.results.iter().copied());
                        data.regions.iter().for_each(|&r| inside.extend(func.regions[r].params.iter().copied()));
                        used.extend(data.operands.iter().copied());
                        for view in data.operands.iter().filter_map(|operand| self.facts.views.get(operand)) {
                            used.extend([view.offset].iter().chain(&view.extents).copied());
                        }
                    };
                    visit(*inst);
                    for &region in &func.insts[*inst].regions {
                        func.walk(region, &mut |inner, _| visit(inner));
                    }
                }
                ThreadItem::Receive(inst) => {
                    let first = self.n_given(*inst) as usize;
                    used.extend(func.insts[*inst].operands[first..].iter().copied());
                    inside.extend(func.insts[*inst].results.iter().copied());
                }
                ThreadItem::Give(inst) | ThreadItem::Vote(inst) => {
                    used.extend(func.insts[*inst].operands[..self.n_given(*inst) as usize].iter().copied());
                }
                ThreadItem::Move(moves) => used.extend(moves.iter().map(|(value, ..)| *value)),
                ThreadItem::Count { counter, begin, .. } => {
                    inside.extend([*counter]);
                    used.push(*begin);
                }
                ThreadItem::Away(_) => {}
            }
        }
        // Text has what is used once where it is used.
        let mut n_uses: FxHashMap<Value, u32> = FxHashMap::default();
        if self.text.is_some() {
            used.iter().for_each(|&value| self.count_uses(value, &mut n_uses));
        }
        used.retain(|&value| {
            let is_scalar = func.ty(value).as_scalar().is_some();
            is_scalar && !inside.contains(value) && func.as_const(value).is_none() && seen.insert(value)
        });
        let at_once = used.iter().copied().filter(|value| n_uses.get(value) != Some(&1)).collect();
        (used, at_once)
    }

    /// Counts a use of a value, and those of what it is made of where it is made again for the first time.
    fn count_uses(&self, value: Value, n_uses: &mut FxHashMap<Value, u32>) {
        let n = n_uses.entry(value).or_default();
        *n += 1;
        if *n == 1
            && self.facts.is_remade(value)
            && let polyloom_ir::ValueDef::Result(inst, _) = self.func.values[value].def
        {
            for &operand in &self.func.insts[inst].operands {
                self.count_uses(operand, n_uses);
            }
        }
    }

    fn asks_for_coordinates(&self, items: &[ThreadItem]) -> bool {
        let mut asks = false;
        for item in items {
            if let ThreadItem::Inst(inst) = item {
                asks |= self.func.insts[*inst].op == Op::ThreadIdx;
                for &region in &self.func.insts[*inst].regions {
                    self.func.walk(region, &mut |_, data| asks |= data.op == Op::ThreadIdx);
                }
            }
        }
        asks
    }

    /// Begins what a thread may leave early, and does if it is away already. Gives where that is within, if it is a
    /// block: text goes on with the next thread.
    fn begin_body(&mut self, at: &mut ThreadContext, may_be_away: bool) -> Option<Region> {
        let (exit, outside) = match at.this.filter(|_| self.text.is_some()) {
            Some(this) => ((Op::Continue, this), None),
            None => {
                let inst = self.emit.inst(Op::Block, &[], &[], Imm::None);
                let body = self.emit.new_region(&[]);
                self.emit.func.insts[inst].regions.push(body);
                ((Op::Break, inst), Some(self.emit.enter(body)))
            }
        };
        at.exit = Some(exit);
        if may_be_away {
            let state = self.away_state();
            let state = self.emit.load(state, &[at.thread]);
            let here = self.emit.int(0);
            let is_away = self.emit.compare(Op::Ne, state, here);
            self.emit.leave_if(is_away, |emit| {
                emit.inst(exit.0, &[], &[], Imm::Target(exit.1));
            });
        }
        outside
    }

    fn item(
        &mut self,
        around: &EmitScope,
        at: &mut ThreadContext,
        item: &ThreadItem,
        carried: &[Value],
        next: &mut SmallVec<[Value; 4]>,
        cells: &mut Vec<Value>,
    ) {
        match item {
            ThreadItem::Inst(inst) => {
                self.inst(at, *inst);
                self.keep_results(around, at, *inst, cells);
            }
            ThreadItem::Receive(inst) => {
                self.emit.span = self.func.insts[*inst].span;
                self.receive(around, at, *inst);
                self.keep_results(around, at, *inst, cells);
            }
            ThreadItem::Give(inst) => {
                self.emit.span = self.func.insts[*inst].span;
                self.give(at, *inst);
            }
            ThreadItem::Vote(inst) => {
                self.emit.span = self.func.insts[*inst].span;
                let voted = self.vote(at, *inst, carried[next.len()]);
                next.push(voted);
            }
            ThreadItem::Move(moves) => {
                let values: Vec<Value> = moves.iter().map(|(value, ..)| self.value(at, *value)).collect();
                for ((_, home, _), value) in moves.iter().zip(values) {
                    self.store_home(*home, at, value);
                }
            }
            ThreadItem::Count { counter, begin, passed } => {
                let begin = self.value(at, *begin);
                let value = self.emit.op(Op::Add, &[begin, *passed]);
                at.values.insert(*counter, value);
                self.name(*counter, value);
                if let Some(home) = self.homes[*counter] {
                    self.store_home(home, at, value);
                }
            }
            ThreadItem::Away(to) => {
                let state = self.away_state();
                let to = self.emit.int(*to);
                self.emit.store(state, &[at.thread], to);
            }
        }
    }

    /// Keeps the results of an instruction that are wanted outside of the loop.
    fn keep_results(&mut self, around: &EmitScope, at: &mut ThreadContext, inst: Inst, cells: &mut Vec<Value>) {
        if self.is_at_dead_end() {
            return;
        }
        for &result in &self.func.insts[inst].results {
            if self.func.ty(result).as_scalar().is_none() || self.facts.is_remade(result) || !self.escapes(result) {
                continue;
            }
            let of_block = self.escapes_block(result);
            let level = if of_block { ThreadLevel::Block } else { around.level };
            let home = if self.facts.is_uniform(level, result) {
                cells.push(result);
                self.cell(result)
            } else {
                self.varying_home(result, of_block)
            };
            let value = self.value(at, result);
            self.store_home(home, at, value);
        }
    }

    fn used_in(&self, used: super::Use) -> ThreadLoop {
        self.use_chunks.get(&used).copied().unwrap_or(self.chunks[used.0])
    }

    /// Returns true if a value is wanted outside of the loop over threads that is being made.
    pub(super) fn escapes(&self, value: Value) -> bool {
        self.facts.users(value).iter().any(|&used| self.used_in(used) != self.current)
    }

    /// Returns true if a value is wanted outside of the loop over warps that is being made or, if there is none, of
    /// that over threads.
    pub(super) fn escapes_block(&self, value: Value) -> bool {
        self.facts.users(value).iter().any(|&used| self.used_in(used).block != self.current.block)
    }

    /// Returns what a value of the kernel is in a thread.
    pub(super) fn value(&mut self, at: &mut ThreadContext, value: Value) -> Value {
        if let Some(&known) = at.values.get(&value) {
            return known;
        }
        if let Some(bits) = self.func.as_const(value) {
            let ty = self.facts.scalar(value).unwrap_or(Scalar::I32);
            return self.emit.constant(ty, bits);
        }
        if let Some(known) = self.outer[value].expand() {
            return known;
        }
        if self.facts.is_remade(value)
            && let polyloom_ir::ValueDef::Result(inst, _) = self.func.values[value].def
        {
            let made = self.remake(at, inst, value);
            if at.keeps {
                at.values.insert(value, made);
            }
            return made;
        }
        match self.homes[value] {
            Some(home) => self.load_home(home, at),
            None => {
                // The kernel is given up, since a value without a place means that something was overlooked, and no
                // code is better than wrong code.
                self.give_up("a value is missing where it is used");
                let ty = self.facts.scalar(value).unwrap_or(Scalar::I32);
                self.emit.constant(ty, 0)
            }
        }
    }

    pub(super) fn all_values(&mut self, at: &mut ThreadContext, values: &[Value]) -> SmallVec<[Value; 4]> {
        values.iter().map(|&value| self.value(at, value)).collect()
    }

    /// An instruction of the kernel, with all in its regions.
    pub(super) fn inst(&mut self, at: &mut ThreadContext, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        self.emit.span = data.span;
        if data.regions.is_empty() {
            self.plain(at, inst);
            return;
        }
        let operands = self.all_values(at, &data.operands);
        let types: SmallVec<[Type; 4]> = data.results.iter().map(|&result| func.ty(result)).collect();
        let made = self.emit.inst(data.op, &operands, &types, data.imm.clone());
        at.targets.insert(inst, made);
        for &region in &data.regions {
            let params: SmallVec<[Type; 4]> = func.regions[region].params.iter().map(|&param| func.ty(param)).collect();
            let inner = self.emit.new_region(&params);
            self.emit.func.insts[made].regions.push(inner);
            for (index, &param) in func.regions[region].params.iter().enumerate() {
                let new = self.emit.func.regions[inner].params[index];
                at.values.insert(param, new);
                self.name(param, new);
            }
            let outside = self.emit.enter(inner);
            for &inner in &func.regions[region].insts {
                self.inst(at, inner);
            }
            self.emit.region = outside;
        }
        for (index, &result) in data.results.iter().enumerate() {
            let new = self.emit.func.insts[made].results[index];
            at.values.insert(result, new);
            self.name(result, new);
        }
    }

    /// A `break`, `continue` or `return` of a thread out of the loop over threads.
    pub(super) fn leave(&mut self, at: &mut ThreadContext, inst: Inst) {
        let data = &self.func.insts[inst];
        let Some((exit, from)) = at.exit else {
            self.give_up("a thread leaves where it cannot");
            return;
        };
        let place = match (data.op, &data.imm) {
            (Op::Break | Op::Continue, Imm::Target(target)) => {
                let frame = self.frames.iter().find(|frame| frame.old == *target);
                let Some(joined) = frame.map(|frame| frame.joined.clone()) else {
                    self.give_up("a thread leaves where it cannot");
                    return;
                };
                let values = self.all_values(at, &data.operands);
                for (joined, value) in joined.into_iter().zip(values) {
                    match joined {
                        JoinedResults::Home(home) => self.store_home(home, at, value),
                        JoinedResults::Unused => {}
                        JoinedResults::Outer => {
                            self.give_up("a thread leaves a loop with a value that all have in common")
                        }
                    }
                }
                (Some(*target), data.op == Op::Continue)
            }
            _ => (None, false),
        };
        if place.0.is_some() || !at.is_last {
            let number = self.away_to(place);
            let state = self.away_state();
            let number = self.emit.int(number);
            self.emit.store(state, &[at.thread], number);
        }
        self.emit.inst(exit, &[], &[], Imm::Target(from));
    }
}
