//! Loops over fewer threads: where all that threads do is behind a condition on their number, as in `if t < half`, the
//! loop is over those for which it holds.

use super::thread_loops::{LoopGuard, ThreadItem};
use super::{BlockSplitter, EmitScope, ThreadLevel};
use polyloom_ir::{Imm, Inst, Op, Scalar, Type, Value, ValueDef};

impl BlockSplitter<'_> {
    /// The condition on their number that threads do these things behind, if there is one.
    pub(super) fn narrowed(&self, around: &EmitScope, items: &[ThreadItem]) -> Option<LoopGuard> {
        let mut narrow = None;
        for item in items {
            let ThreadItem::Inst(inst) = *item else { return None };
            let data = &self.func.insts[inst];
            if data.regions.is_empty() {
                // An instruction leaves nothing here if it is made again where it is used, or used here alone.
                let is_pure = data.op.info().is_pure();
                let leaves = |&result: &Value| !self.facts.is_remade(result) && (!is_pure || self.escapes(result));
                let leaves_nothing = !data.results.iter().any(leaves);
                if !leaves_nothing || data.results.is_empty() {
                    return None;
                }
            } else if narrow.is_none() {
                narrow = Some(self.condition(around, inst)?);
            } else {
                return None;
            }
        }
        narrow
    }

    fn condition(&self, around: &EmitScope, branch: Inst) -> Option<LoopGuard> {
        let func = self.func;
        let data = &func.insts[branch];
        let does_nothing_else = data.op == Op::If
            && data.results.is_empty()
            && func.regions[data.regions[1]].insts.len() == 1
            && func.terminator(data.regions[1]).is_some_and(|last| func.insts[last].op == Op::Yield);
        let cond = *data.operands.first()?;
        let ValueDef::Result(inst, _) = func.values[cond].def else { return None };
        let data = &func.insts[inst];
        let &[a, b] = &data.operands[..] else { return None };
        if !does_nothing_else || func.ty(a) != Type::I32 {
            return None;
        }
        let compares = matches!(data.op, Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq);
        let (op, limit) = match () {
            () if !compares => return None,
            () if self.is_number(around, a) => (data.op, b),
            () if self.is_number(around, b) => (data.op.exchanged()?, a),
            () => return None,
        };
        let is_fit = self.facts.is_uniform(around.level, limit) && self.is_at_hand(limit);
        is_fit.then_some(LoopGuard { branch, cond, op, limit })
    }

    /// Returns true if a value is there before the loop over threads begins.
    fn is_at_hand(&self, value: Value) -> bool {
        self.func.as_const(value).is_some() || self.outer[value].is_some() || self.homes[value].is_some()
    }

    /// Returns true if a value is what the innermost loop counts.
    fn is_number(&self, around: &EmitScope, value: Value) -> bool {
        let ValueDef::Result(inst, _) = self.func.values[value].def else { return false };
        let data = &self.func.insts[inst];
        match around.level {
            ThreadLevel::Block => data.op == Op::ThreadIdx && data.imm == Imm::Axis(0),
            ThreadLevel::Warp => data.op == Op::LaneId,
        }
    }

    /// Returns where the innermost loop begins and ends, if it is one up to `end` without the condition.
    pub(super) fn narrow(&mut self, around: &EmitScope, narrow: LoopGuard, end: Value) -> (Value, Value) {
        let mut first = self.first_of(around);
        let limit = self.value(&mut first, narrow.limit);
        let (zero, one) = (self.emit.int(0), self.emit.int(1));
        // One more than the limit is wanted of limits below the end alone, where it does not overflow.
        let last = self.emit.op(Op::Sub, &[end, one]);
        let within = self.emit.op(Op::Min, &[limit, last]);
        let behind = self.emit.op(Op::Add, &[within, one]);
        let from_limit = self.emit.op(Op::Max, &[limit, zero]);
        match narrow.op {
            Op::Lt => (zero, self.emit.op(Op::Min, &[limit, end])),
            Op::Le => (zero, behind),
            Op::Ge => (from_limit, end),
            Op::Gt => {
                let minus_one = self.emit.constant(Scalar::I32, u32::MAX.into());
                let within = self.emit.op(Op::Max, &[within, minus_one]);
                (self.emit.op(Op::Add, &[within, one]), end)
            }
            _ => (from_limit, behind),
        }
    }
}
