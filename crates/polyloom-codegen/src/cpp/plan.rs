//! What becomes of each value of a function in text: part of the expression that uses it, or a variable.
//!
//! A value without a name that is used once is written where it is used, if nothing that runs in between can change
//! it; constants and extents are, however often they are used. A value that no effect depends on is not written at
//! all. Everything else is a variable (`variables.rs`).

use super::layout::TextLayout;
use super::range::ValueIntervals;
use crate::LEAST_TABLE;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use polyloom_ir::op::{OpEffect, OpGroup, Signature};
use polyloom_ir::{CallEffects, Function, Imm, Inst, InstData, Op, Region, Type, Value, ValueDef};

/// Describes how the values of a function are written.
pub(super) struct ValuePlan {
    /// Values that something depends on.
    pub live: EntitySet<Value>,
    /// Values written where they are used.
    pub folded: EntitySet<Value>,
    n_uses: SecondaryMap<Value, u32>,
    /// The last instruction found to use a value.
    user: SecondaryMap<Value, PackedOption<Inst>>,
}

impl ValuePlan {
    pub(super) fn new(
        func: &Function,
        layout: &TextLayout,
        intervals: &ValueIntervals<'_>,
        calls: &CallEffects,
    ) -> ValuePlan {
        let mut live =
            EffectLiveness { func, layout, live: EntitySet::with_capacity(func.values.len()), pending: Vec::new() };
        live.roots(func.body, calls);
        live.run();
        let live = live.live;
        let mut plan = ValuePlan {
            live,
            folded: EntitySet::with_capacity(func.values.len()),
            n_uses: SecondaryMap::with_capacity(func.values.len()),
            user: SecondaryMap::with_capacity(func.values.len()),
        };
        func.walk(func.body, &mut |inst, data| {
            if !plan.is_written(inst, data, calls) {
                return;
            }
            for (index, &operand) in data.operands.iter().enumerate() {
                if !plan.hands_to_nothing(func, layout, inst, index) {
                    plan.n_uses[operand] += 1;
                    plan.user[operand] = inst.into();
                }
            }
        });
        let mut folding = UseFolding { func, layout, intervals, calls, writes: Vec::new(), plan: &mut plan };
        folding.count_writes();
        folding.region(func.body);
        plan
    }

    /// Returns true if an operand is handed to a result or a carried value that nothing depends on.
    fn hands_to_nothing(&self, func: &Function, layout: &TextLayout, inst: Inst, index: usize) -> bool {
        let data = &func.insts[inst];
        let (target, index) = match (data.op, &data.imm) {
            (Op::Break | Op::Continue, Imm::Target(target)) => (*target, index),
            (Op::Yield, _) => match layout.owner_of(inst) {
                Some(owner)
                    if func.insts[owner].op == Op::While
                        && layout.region(inst) == Some(func.insts[owner].regions[0]) =>
                {
                    return false;
                }
                Some(owner) => (owner, index),
                None => return false,
            },
            (Op::ForRange, _) if index >= 3 => (inst, index - 3),
            (Op::While, _) => (inst, index),
            _ => return false,
        };
        func.insts[target].results.get(index).is_some_and(|&result| !self.live.contains(result))
    }

    /// Returns true if an instruction leaves anything in the text.
    fn is_written(&self, _: Inst, data: &InstData, calls: &CallEffects) -> bool {
        let has_effect = !matches!(calls.of_inst(data), OpEffect::Pure | OpEffect::Read);
        has_effect || data.results.iter().any(|&result| self.live.contains(result))
    }

    /// Returns true if an instruction is written, and by itself.
    pub(super) fn is_statement(&self, inst: Inst, data: &InstData, calls: &CallEffects) -> bool {
        let folded = data.results.first().is_some_and(|&result| self.folded.contains(result));
        !folded && self.is_written(inst, data, calls)
    }

    /// Returns true if anything that is written uses a value.
    pub(super) fn is_used(&self, value: Value) -> bool {
        self.n_uses[value] > 0
    }

    /// The statement that an instruction is written in.
    pub(super) fn statement(&self, func: &Function, layout: &TextLayout, inst: Inst) -> Inst {
        let mut at = inst;
        loop {
            let folded = |inst: Inst| func.insts[inst].results.first().filter(|&&v| self.folded.contains(v)).copied();
            at = match (folded(at), layout.owner_of(at)) {
                (Some(value), _) => match self.user[value].expand() {
                    Some(user) => user,
                    None => return at,
                },
                // The branches of a conditional expression are written in what it is written in.
                (None, Some(owner)) if folded(owner).is_some() => owner,
                _ => return at,
            };
        }
    }
}

/// Returns true if an op takes a random state, which it changes, before anything else, and gives a value.
pub(super) fn draws(op: Op) -> bool {
    let info = op.info();
    let changes_first = |signature: &Signature| signature.params.first().is_some_and(|param| param.inout);
    info.group == OpGroup::Random && info.signatures.iter().all(changes_first)
}

/// Returns true if a value is a composite of constants that is written as a table where indices choose among them: one
/// with a name, or with many components.
pub(super) fn is_table(func: &Function, data: &InstData, value: Value) -> bool {
    data.op == Op::Construct
        && (data.operands.len() >= LEAST_TABLE || func.value_names[value].is_some())
        && func.ty(value).as_composite().is_some_and(|composite| !composite.elem().is_half())
        // Named constants rule it out, because each is a variable, which the table would leave unused.
        && data.operands.iter().all(|&c| func.as_const(c).is_some() && func.value_names[c].is_none())
}

/// Finds what effects depend on.
struct EffectLiveness<'f> {
    func: &'f Function,
    layout: &'f TextLayout,
    live: EntitySet<Value>,
    pending: Vec<Value>,
}

impl EffectLiveness<'_> {
    fn mark(&mut self, value: Value) {
        if self.live.insert(value) {
            self.pending.push(value);
        }
    }

    fn mark_all(&mut self, values: &[Value]) {
        for &value in values {
            self.mark(value);
        }
    }

    fn roots(&mut self, region: Region, calls: &CallEffects) {
        let func = self.func;
        func.walk(region, &mut |_, data| match data.op {
            Op::If => self.mark(data.operands[0]),
            Op::ForRange => self.mark_all(&data.operands[..3]),
            Op::Yield | Op::Break | Op::Continue => {}
            Op::While => {
                if let Some(last) = func.terminator(data.regions[0])
                    && func.insts[last].op == Op::Yield
                {
                    self.mark_all(&func.insts[last].operands);
                }
            }
            _ if matches!(calls.of_inst(data), OpEffect::Pure | OpEffect::Read) => {}
            _ => self.mark_all(&data.operands),
        });
    }

    fn run(&mut self) {
        while let Some(value) = self.pending.pop() {
            match self.func.values[value].def {
                ValueDef::Result(inst, index) => self.result(inst, index as usize),
                ValueDef::Param(region, index) => {
                    let Some(owner) = self.layout.owner(region) else { continue };
                    match self.func.insts[owner].op {
                        // The counter stands first.
                        Op::ForRange if index == 0 => {}
                        Op::ForRange => self.carried(owner, index as usize - 1),
                        _ => self.carried(owner, index as usize),
                    }
                }
            }
        }
    }

    fn result(&mut self, inst: Inst, index: usize) {
        let func = self.func;
        let data = &func.insts[inst];
        match data.op {
            Op::ForRange | Op::While => self.carried(inst, index),
            Op::If | Op::Block => self.jumps(inst, index),
            _ => {
                self.mark_all(&data.operands);
                if draws(data.op) {
                    // The state is a variable that the draw changes.
                    self.mark_all(&data.results[1..]);
                }
            }
        }
    }

    /// Marks what a loop carries at a place: initial value, parameters, result and what jumps hand on.
    fn carried(&mut self, inst: Inst, index: usize) {
        let func = self.func;
        let data = &func.insts[inst];
        let (skipped, counter) = if data.op == Op::ForRange { (3, 1) } else { (0, 0) };
        self.mark(data.operands[skipped + index]);
        self.mark(data.results[index]);
        for &region in &data.regions {
            self.mark(func.regions[region].params[counter + index]);
        }
        self.jumps(inst, index);
    }

    /// Marks what `yield`, `break` and `continue` hand to an instruction.
    fn jumps(&mut self, owner: Inst, index: usize) {
        let func = self.func;
        let data = &func.insts[owner];
        for (number, &region) in data.regions.iter().enumerate() {
            // The first region of a `while` yields its condition.
            if let Some(last) = func.terminator(region)
                && func.insts[last].op == Op::Yield
                && !(data.op == Op::While && number == 0)
            {
                self.mark(func.insts[last].operands[index]);
            }
            if data.op != Op::If {
                let mut found = Vec::new();
                func.walk(region, &mut |_, data| {
                    if matches!(data.op, Op::Break | Op::Continue) && data.imm == Imm::Target(owner) {
                        found.push(data.operands[index]);
                    }
                });
                self.mark_all(&found);
            }
        }
    }
}

/// Decides what is written where it is used, from the end of each region to its start, because when an instruction's
/// turn comes, it is known which statement its user is part of.
struct UseFolding<'a> {
    func: &'a Function,
    layout: &'a TextLayout,
    intervals: &'a ValueIntervals<'a>,
    calls: &'a CallEffects,
    /// For each place, how many writes of memory stand before it.
    writes: Vec<u32>,
    plan: &'a mut ValuePlan,
}

impl UseFolding<'_> {
    fn count_writes(&mut self) {
        let mut at = vec![false; self.layout.n_places() as usize + 1];
        self.func.walk(self.func.body, &mut |inst, data| {
            if matches!(self.calls.of_inst(data), OpEffect::Write | OpEffect::ReadWrite) {
                at[self.layout.start(inst) as usize] = true;
            }
        });
        let mut n = 0;
        self.writes = at
            .into_iter()
            .map(|writes| {
                n += u32::from(writes);
                n
            })
            .collect();
    }

    fn region(&mut self, region: Region) {
        let func = self.func;
        for &inst in func.regions[region].insts.iter().rev() {
            let data = &func.insts[inst];
            for &inner in &data.regions {
                self.region(inner);
            }
            if let [result] = data.results[..]
                && self.plan.live.contains(result)
                && self.folds(inst, data, result)
            {
                self.plan.folded.insert(result);
            }
        }
    }

    fn folds(&self, inst: Inst, data: &InstData, result: Value) -> bool {
        let func = self.func;
        if is_table(func, data, result) && self.is_chosen_from(result) {
            return true;
        }
        if func.value_names[result].is_some() {
            return false;
        }
        match data.op {
            Op::Const | Op::Dim | Op::BlockDim | Op::GridDim => return true,
            // Assignments to a component of a variable.
            Op::WithComponent | Op::WithComponentAt => return false,
            // A component of a variable.
            Op::Component => {
                let whole = data.operands[0];
                let is_variable = func.value_names[whole].is_some() || self.plan.n_uses[whole] > 1;
                if is_variable && !matches!(func.values[whole].def, ValueDef::Param(region, _) if region == func.body) {
                    return self.plan.n_uses[result] == 1 && self.is_used_in_place(inst, result, false);
                }
            }
            _ => {}
        }
        if self.plan.n_uses[result] != 1 {
            return false;
        }
        match self.calls.of_inst(data) {
            OpEffect::Pure => self.is_used_in_place(inst, result, false),
            OpEffect::Read => self.is_used_in_place(inst, result, true),
            OpEffect::Region if data.op == Op::If => match self.conditional(data) {
                Some(reads) => self.is_used_in_place(inst, result, reads),
                None => false,
            },
            _ => false,
        }
    }

    /// Returns true if indices choose among a value's components, and nothing else uses it.
    fn is_chosen_from(&self, value: Value) -> bool {
        let func = self.func;
        let chooses = |data: &InstData| data.op == Op::ComponentAt;
        if self.plan.n_uses[value] == 1 {
            return self.plan.user[value].expand().is_some_and(|user| chooses(&func.insts[user]));
        }
        let mut all = true;
        func.walk(func.body, &mut |_, data| all &= !data.operands.contains(&value) || chooses(data));
        all
    }

    /// Tells whether an `if` can be written as a conditional expression, and then whether it reads memory.
    fn conditional(&self, data: &InstData) -> Option<bool> {
        let mut reads = false;
        for &region in &data.regions {
            let (last, before) = self.func.regions[region].insts.split_last()?;
            if self.func.insts[*last].op != Op::Yield {
                return None;
            }
            for &inner in before {
                let data = &self.func.insts[inner];
                if self.plan.is_statement(inner, data, self.calls) {
                    return None;
                }
                self.func.walk(region, &mut |_, data| reads |= self.calls.of_inst(data) == OpEffect::Read);
            }
        }
        Some(reads)
    }

    /// Returns true if the one use of a value stands in the same region, where an expression can stand, with no write
    /// before it if the value depends on memory.
    fn is_used_in_place(&self, inst: Inst, result: Value, reads: bool) -> bool {
        let Some(user) = self.plan.user[result].expand() else { return false };
        if self.layout.region(user) != self.layout.region(inst) {
            return false;
        }
        let data = &self.func.insts[user];
        let takes_expression = match data.op {
            // The end of a range that C++ counts is no place for it, because that is looked at before each iteration.
            Op::ForRange => {
                !self.intervals.counts_plainly(data)
                    || data.operands[0] == result
                    || data.operands[3..].contains(&result)
            }
            _ => true,
        };
        if !takes_expression || matches!(self.func.ty(result), Type::Array { .. } | Type::CompositeArray { .. }) {
            return false;
        }
        if !reads {
            return true;
        }
        let statement = self.plan.statement(self.func, self.layout, user);
        let (from, to) = (self.layout.end(inst), self.layout.start(statement));
        // Effects of the statement itself come after its operands, so that these are known.
        self.layout.region(statement) == self.layout.region(inst)
            && self.writes[from as usize] == self.writes[(to - 1) as usize]
    }
}
