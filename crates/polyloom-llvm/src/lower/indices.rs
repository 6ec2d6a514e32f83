//! Indices: quotients and remainders by what the lanes share, `(i + 1) % n` and `i // n`, and places counted from the
//! end.
//!
//! Mostly a quotient is the same in all lanes of a group, and then the remainder grows by a constant from lane to
//! lane, so that elements at such indices are neighbours. The copy of the body for full groups takes that for granted
//! where it is so, and leaves groups in which it is not to the other copy ([`super::BailOut`]).

use super::{ExecMask, FunctionLowering, Result, ValueRep};
use crate::ir::*;
use cranelift_entity::SecondaryMap;
use polyloom_ir::{FloatMode, Function, Inst, Op, Scalar, Value, ValueDef};

/// Groups in a row that have one quotient, at least, where it is worth taking for granted.
const SHORTEST_RUN: u64 = 4;

/// The values from which indices of arrays are computed by integer arithmetic.
pub(crate) fn index_values(func: &Function) -> SecondaryMap<Value, bool> {
    let mut found = SecondaryMap::new();
    let mut pending: Vec<Value> = Vec::new();
    func.walk(func.body, &mut |_, data| {
        if matches!(data.op, Op::ArrayLoad | Op::ArrayStore | Op::LoadReadonly) {
            let n_dims = func.ty(data.operands[0]).as_array().map_or(0, |(_, n_dims)| usize::from(n_dims));
            pending.extend(&data.operands[1..=n_dims]);
        }
    });
    while let Some(value) = pending.pop() {
        if std::mem::replace(&mut found[value], true) {
            continue;
        }
        if let ValueDef::Result(inst, _) = func.values[value].def {
            let data = &func.insts[inst];
            if matches!(data.op, Op::Add | Op::Sub | Op::Mul | Op::Cast | Op::Select | Op::Div | Op::Mod) {
                pending.extend(&data.operands);
            }
        }
    }
    found
}

/// An index that counts from the end of its axis where it is negative: `where(i < 0, i + n, i)`.
pub(super) struct WrappedIndex {
    /// The index as it was, `i`.
    pub(super) plain: Value,
    /// The extent of the axis, `n`.
    pub(super) extent: Value,
}

impl WrappedIndex {
    /// Finds the parts of such an index; `None` for other values.
    pub(super) fn of(func: &Function, index: Value) -> Option<WrappedIndex> {
        let computed = |value: Value| match func.values[value].def {
            ValueDef::Result(inst, _) => Some(&func.insts[inst]),
            ValueDef::Param(..) => None,
        };
        let select = computed(index).filter(|data| data.op == Op::Select)?;
        let &[cond, from_end, plain] = &select.operands[..] else { return None };
        let (test, sum) = (computed(cond)?, computed(from_end)?);
        let tests_sign = test.op == Op::Lt && test.operands[0] == plain && func.as_const(test.operands[1]) == Some(0);
        let is_wrapped = tests_sign && sum.op == Op::Add && sum.operands[0] == plain;
        is_wrapped.then(|| WrappedIndex { plain, extent: sum.operands[1] })
    }
}

impl FunctionLowering<'_, '_> {
    /// A quotient or remainder of an index by a shared value, where all lanes have one quotient. `None` where this
    /// cannot be had, and the lanes divide each for itself.
    pub(super) fn share_quotient(&mut self, inst: Inst) -> Result<Option<ValueRep>> {
        let data = &self.func.insts[inst];
        let is_division =
            matches!(data.op, Op::Div | Op::Mod) && data.results.first().is_some_and(|&v| self.indexes[v]);
        if !is_division || self.lanes == 1 || self.exec != ExecMask::Full || self.has_effects || self.bail_out.is_none()
        {
            return Ok(None);
        }
        let (ValueRep::Affine { base, stride }, ValueRep::Uniform(by)) =
            (self.rep(data.operands[0])?, self.rep(data.operands[1])?)
        else {
            return Ok(None);
        };
        let ty = self.scalar_of(data.operands[0])?;
        // By a small number most groups have several quotients, and would begin again under masks.
        let span = u64::from(self.lanes) * stride.unsigned_abs();
        if self.func.as_const(data.operands[1]).is_some_and(|by| by < SHORTEST_RUN * span) {
            return Ok(None);
        }
        // Lanes that are so far apart do not share a quotient often.
        if !matches!(ty, Scalar::I32 | Scalar::I64) || !(-2..=2).contains(&stride) {
            return Ok(None);
        }
        let ir = self.ir;
        let llvm = ir.type_of(base);
        let (zero, distance) = (ir.zero(llvm), (i64::from(self.lanes) - 1) * stride);
        let quotient = match self.by_invariants[inst] && !ir.is_const(by) {
            true => Some(self.arith.divide_by(base, &self.arith.compute_reciprocal(by, ty), ty)),
            false => self.arith.emit(Op::Div, ty, ty, &[base, by]),
        };
        let Some(quotient) = quotient else { return Ok(None) };
        let remainder = ir.sub(base, ir.mul(quotient, by));
        // Neither negative nor past the divisor at either end of the group, counted from the first lane's quotient, so
        // that it is every lane's. All numbers compared are so small that none wraps.
        let last = ir.add(remainder, ir.int_const(llvm, distance as u64));
        let (low, high) = if stride >= 0 { (remainder, last) } else { (last, remainder) };
        let room = ir.int_const(llvm, (1 << (ty.bits() - 1)) - 1 - distance.unsigned_abs());
        let mut shared = ir.and(ir.icmp(SGE, base, zero), ir.icmp(SLE, base, room));
        shared = ir.and(shared, ir.icmp(SGE, low, zero));
        shared = ir.and(shared, ir.icmp(SLT, high, by));
        let (same, differ) = (ir.block(c"one_quotient"), ir.block(c"many_quotients"));
        ir.cond_br_unlikely(ir.not(shared), differ, same);
        ir.switch_to(differ);
        if let Some(bail_out) = &mut self.bail_out {
            bail_out.from.push(differ);
            ir.br(bail_out.target);
        }
        ir.switch_to(same);
        Ok(Some(match data.op {
            Op::Div => ValueRep::Uniform(quotient),
            _ => ValueRep::Affine { base: remainder, stride },
        }))
    }

    /// The choice `where(i < 0, i + n, i)` as a branch that is predicted, where one thread waits for it in a loop whose
    /// iterations the processor overlaps. `None` for other choices.
    pub(super) fn wrap_index_by_branch(&mut self, inst: Inst) -> Result<Option<ValueRep>> {
        let func = self.func;
        let data = &func.insts[inst];
        let is_alone = self.lanes == 1 && !self.arith.processor.is_gpu && !self.frames.is_empty();
        let Some(WrappedIndex { plain, extent }) =
            data.results.first().and_then(|&index| WrappedIndex::of(func, index))
        else {
            return Ok(None);
        };
        let is_signed = func.ty(plain).as_scalar().is_some_and(Scalar::is_signed_int);
        let is_vectorised = func.metadata.float_mode != FloatMode::Strict
            || self.frames.last().is_some_and(|frame| self.runs_iterations_as_lanes(frame.inst));
        if !is_alone || !is_signed || is_vectorised || self.not_negative.contains(&plain) {
            return Ok(None);
        }
        let ir = self.ir;
        let (plain, extent) = (self.rep(plain)?, self.rep(extent)?);
        let (plain, extent) = (self.base(plain)?, self.base(extent)?);
        // In 64 bits, as addresses are, so that what is loaded is extended there and then.
        let (narrow, wide_plain, extent) = (ir.type_of(plain), self.widen(plain), self.widen(extent));
        let (from, counts, meet) = (ir.current(), ir.block(c"from_end"), ir.block(c"index"));
        ir.cond_br_unlikely(ir.icmp(SLT, wide_plain, ir.i64_const(0)), counts, meet);
        ir.switch_to(counts);
        let behind = ir.add(wide_plain, extent);
        ir.br(meet);
        ir.switch_to(meet);
        let wide_index = ir.phi(ir.int(64));
        ir.add_incoming(wide_index, wide_plain, from);
        ir.add_incoming(wide_index, behind, counts);
        let index = ir.int_cast(wide_index, narrow);
        self.wide.insert(index, wide_index);
        Ok(Some(ValueRep::Uniform(index)))
    }

    /// True if `value < bound` is known not to hold, because `bound` is zero.
    pub(super) fn is_known_not_negative(&self, value: Value, bound: Value) -> bool {
        self.not_negative.contains(&value) && self.func.as_const(bound) == Some(0)
    }
}
