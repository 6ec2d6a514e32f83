//! Elements that are replaced by a function of them, where the processor has no instruction for it: compare and exchange
//! until no other thread was faster.

use super::atomics::AtomicUpdate;
use super::{FunctionLowering, Result, cast};
use crate::ir::*;
use crate::target::{BLOCK_SCOPE, DEVICE_SCOPE};
use polyloom_codegen::CodegenError;
use polyloom_ir::{Op, Scalar};

impl FunctionLowering<'_, '_> {
    /// Replaces an element by a function of it, trying again when another thread was faster. Gives the old value.
    pub(super) fn exchange_until_done(
        &mut self,
        update: AtomicUpdate,
        pointer: Val,
        new: impl FnOnce(&mut Self, Val) -> Result<Val>,
    ) -> Result<Val> {
        let ir = self.ir;
        let bits = ir.int(update.elem.bytes() * 8);
        let first = ir.load(bits, pointer, update.elem.bytes());
        if self.sees_alone(update.array) {
            self.tag(first, update.array)?;
            let old = ir.bitcast(first, ir.scalar(update.elem));
            let new = new(self, old)?;
            let store = ir.store(ir.bitcast(new, bits), pointer, update.elem.bytes());
            self.tag(store, update.array)?;
            return Ok(old);
        }
        ir.set_atomic(first, update.scope);
        let (from, again, done) = (ir.current(), ir.block(c"exchange"), ir.block(c"exchanged"));
        ir.br(again);
        ir.switch_to(again);
        let expected = ir.phi(bits);
        ir.add_incoming(expected, first, from);
        let new = new(self, ir.bitcast(expected, ir.scalar(update.elem)))?;
        let new = ir.bitcast(new, bits);
        let (seen, stored) = self.compare_and_swap(update, pointer, expected, new);
        ir.add_incoming(expected, seen, ir.current());
        ir.cond_br(stored, done, again);
        ir.switch_to(done);
        Ok(ir.bitcast(expected, ir.scalar(update.elem)))
    }

    /// Puts `new` in place of `expected`: gives what was there, and whether it was that.
    pub(super) fn compare_and_swap(&self, update: AtomicUpdate, pointer: Val, expected: Val, new: Val) -> (Val, Val) {
        let ir = self.ir;
        // Around elements of 8 and 16 bits LLVM 22 reads the word of a GPU by a plain load, which races.
        if !self.arith.processor.is_gpu || update.elem.bytes() > 2 {
            return ir.cmpxchg(pointer, expected, new, update.scope);
        }
        if update.elem.bytes() == 2 {
            let seen = self.swap_16_bits(update.scope, pointer, expected, new);
            return (seen, ir.icmp(EQ, seen, expected));
        }
        let [byte, pair, address] = [8, 16, 64].map(|bits| ir.int(bits));
        let odd = ir.and(ir.ptr_to_int(pointer, address), ir.int_const(address, 1));
        let pointer = ir.offset(byte, pointer, ir.neg(odd));
        let shift = ir.int_cast(ir.shl(odd, ir.int_const(address, 3)), pair);
        let place = |value| ir.shl(ir.int_cast(value, pair), shift);
        let others = ir.xor(ir.shl(ir.int_const(pair, 0xff), shift), ir.ones(pair));
        // Puts zeros in place of zeros: reads both bytes at once.
        let first = ir.and(self.swap_16_bits(update.scope, pointer, ir.zero(pair), ir.zero(pair)), others);
        let (from, again, done) = (ir.current(), ir.block(c"swap"), ir.block(c"swapped"));
        ir.br(again);
        ir.switch_to(again);
        let beside = ir.phi(pair);
        ir.add_incoming(beside, first, from);
        let (old, changed) = (ir.or(place(expected), beside), ir.or(place(new), beside));
        let both = self.swap_16_bits(update.scope, pointer, old, changed);
        let (seen, seen_beside) = (ir.int_cast(ir.lshr(both, shift), byte), ir.and(both, others));
        let is_expected = ir.icmp(EQ, seen, expected);
        ir.add_incoming(beside, seen_beside, ir.current());
        ir.cond_br(ir.and(is_expected, ir.icmp(NE, seen_beside, beside)), again, done);
        ir.switch_to(done);
        (seen, is_expected)
    }

    /// A GPU's exchange of 16 bits, if they are the expected ones: what was there.
    fn swap_16_bits(&self, scope: &str, pointer: Val, expected: Val, new: Val) -> Val {
        let scope = match scope {
            BLOCK_SCOPE => "cta",
            DEVICE_SCOPE => "gpu",
            _ => "sys",
        };
        let space = match self.ir.space_of(pointer) {
            1 => ".global",
            3 => ".shared",
            _ => "",
        };
        let text = format!("atom.relaxed.{scope}{space}.cas.b16 $0, [$1], $2, $3;");
        self.ir.inline_asm(self.ir.int(16), &text, "=h,l,h,h,~{memory}", &[pointer, expected, new])
    }

    /// Returns what an element becomes.
    pub(super) fn combine(&mut self, update: AtomicUpdate, old: Val, value: Val) -> Result<Val> {
        if matches!(update.op, Op::AtomicInc | Op::AtomicDec) {
            return self.count(update, old, value);
        }
        if update.op == Op::AtomicExch {
            return Ok(value);
        }
        let Some(op) = update.op.combination() else {
            return Err(CodegenError::new(format!("internal error: no code for `{}`", update.op.name())));
        };
        let elem = update.elem;
        let wide = if elem.is_half() { Scalar::F32 } else { elem };
        let (a, b) = (cast::cast(&self.arith, old, elem, wide), cast::cast(&self.arith, value, elem, wide));
        let result = self.arith.emit(op, wide, wide, &[a, b]);
        let result = result.ok_or_else(|| CodegenError::new("internal error: no arithmetic for an atomic"))?;
        Ok(cast::cast(&self.arith, result, wide, elem))
    }

    /// Returns what `atomic_inc` and `atomic_dec` store.
    fn count(&mut self, update: AtomicUpdate, old: Val, limit: Val) -> Result<Val> {
        let ir = self.ir;
        let (ty, elem) = (ir.type_of(old), update.elem);
        let (zero, one) = (ir.zero(ty), ir.int_const(ty, 1));
        let less = |a, b| self.arith.emit(Op::Lt, elem, Scalar::Bool, &[a, b]);
        let missing = || CodegenError::new("internal error: no comparison for an atomic");
        if update.op == Op::AtomicInc {
            let counts = less(old, limit).ok_or_else(missing)?;
            return Ok(ir.select(counts, ir.add(old, one), zero));
        }
        let is_above = less(limit, old).ok_or_else(missing)?;
        let starts_again = ir.or(ir.icmp(EQ, old, zero), is_above);
        Ok(ir.select(starts_again, limit, ir.sub(old, one)))
    }
}
