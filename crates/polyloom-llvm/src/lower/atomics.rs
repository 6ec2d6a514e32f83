//! Atomic updates of array elements.
//!
//! Lanes update in their order, one after the other, unless they all mean the same element: then the group's values
//! are combined first and the element is updated once, with the outcome of updating it in order. Floating-point sums
//! are combined in order too, so the bits are those of one thread after the other; but not those of backward kernels,
//! whose order nobody has written down: they are combined pair by pair, or over the whole launch ([`super::totals`]).

use super::memory::GroupAddress;
use super::{FunctionLowering, Result, ValueRep, cast};
use crate::ir::*;
use crate::target::{BLOCK_SCOPE, DEVICE_SCOPE};
use polyloom_codegen::CodegenError;
use polyloom_ir::function::{AtomicOrdering, MemoryScope};
use polyloom_ir::{AddressSpace, Imm, Inst, Op, Scalar};

/// The operands of one atomic.
#[derive(Clone, Copy)]
pub(super) struct AtomicUpdate {
    op: Op,
    pub(super) elem: Scalar,
    array: usize,
    /// The threads that see it as one, as LLVM names them.
    scope: &'static str,
}

impl FunctionLowering<'_, '_> {
    /// Lowers an atomic. `None` if nothing uses the old value. LLVM 22 drops the ordering of updates on GPUs, so that
    /// the update itself has none, and fences around it have.
    pub(crate) fn atomic(&mut self, inst: Inst) -> Result<Option<ValueRep>> {
        let widest = self.arith.processor.atomic_scope();
        let data = &self.func.insts[inst];
        let Imm::Memory(order) = data.imm else { return self.update_element(inst, widest) };
        let ir = self.ir;
        let scope = match order.scope {
            // No fence is needed, because a thread sees its own accesses in order.
            MemoryScope::Thread => return self.update_element(inst, widest),
            MemoryScope::Block if self.arith.processor.is_gpu => BLOCK_SCOPE,
            MemoryScope::Device if self.arith.processor.is_gpu => DEVICE_SCOPE,
            _ => "",
        };
        // Any scope does for shared memory, because only the threads of a block have it.
        let is_shared = self.func.ty(data.operands[0]).space() == Some(AddressSpace::Shared);
        let (before, after) = match order.ordering {
            AtomicOrdering::Relaxed => (None, None),
            AtomicOrdering::Acquire => (None, Some(FenceOrder::LLVMAtomicOrderingAcquire)),
            AtomicOrdering::Release => (Some(FenceOrder::LLVMAtomicOrderingRelease), None),
            AtomicOrdering::AcqRel => {
                (Some(FenceOrder::LLVMAtomicOrderingRelease), Some(FenceOrder::LLVMAtomicOrderingAcquire))
            }
            AtomicOrdering::SeqCst => (
                Some(FenceOrder::LLVMAtomicOrderingSequentiallyConsistent),
                Some(FenceOrder::LLVMAtomicOrderingAcquire),
            ),
        };
        if let Some(before) = before {
            ir.fence(before, scope);
        }
        let old = self.update_element(inst, if is_shared { widest } else { scope })?;
        if let Some(after) = after {
            ir.fence(after, scope);
        }
        Ok(old)
    }

    fn update_element(&mut self, inst: Inst, scope: &'static str) -> Result<Option<ValueRep>> {
        let func = self.func;
        let data = &func.insts[inst];
        self.has_effects = true;
        let ValueRep::Array(array) = self.rep(data.operands[0])? else { return Err(self.unsupported(inst)) };
        let elem = self.array_arg(array)?.elem;
        let n_values = if data.op == Op::AtomicCas { 2 } else { 1 };
        let (indices, values) = data.operands[1..].split_at(data.operands.len() - 1 - n_values);
        let values = self.reps(values)?;
        let reps = self.reps(indices)?;
        let used = data.results.first().is_some_and(|&result| self.used[result]);
        if self.add_to_total(inst, values[0])? {
            return Ok(None);
        }
        let update = AtomicUpdate { op: data.op, elem, array, scope };
        let address = self.address(array, indices, &reps)?;
        if let (GroupAddress::One(pointer), true) = (&address, self.lanes == 1) {
            let pointer = self.own_element(array, *pointer, self.ir.i64_const(0))?;
            let operands = [self.base(values[0])?, self.base(*values.last().unwrap_or(&values[0]))?];
            let old = self.update(update, pointer, operands)?;
            return Ok(used.then_some(ValueRep::Uniform(old)));
        }
        if let GroupAddress::One(pointer) = address
            && let Some(old) = self.update_together(update, pointer, values[0], used)?
        {
            return Ok(used.then_some(old));
        }
        self.update_in_turn(update, address, &values, used)
    }

    /// One atomic update of one element. `operands` are the value, or the two of `atomic_cas`.
    pub(super) fn update(&mut self, update: AtomicUpdate, pointer: Val, operands: [Val; 2]) -> Result<Val> {
        let ir = self.ir;
        let [value, new] = operands;
        let elem = update.elem;
        let bits = ir.int(elem.bytes() * 8);
        let signed = elem.is_signed_int();
        let direct = match update.op {
            Op::AtomicAdd | Op::AtomicSub if self.adds_in_memory(elem) => Some(RmwOp::LLVMAtomicRMWBinOpFAdd),
            Op::AtomicAdd if elem.is_int() => Some(RmwOp::LLVMAtomicRMWBinOpAdd),
            Op::AtomicSub if elem.is_int() => Some(RmwOp::LLVMAtomicRMWBinOpSub),
            Op::AtomicMin if signed => Some(RmwOp::LLVMAtomicRMWBinOpMin),
            Op::AtomicMax if signed => Some(RmwOp::LLVMAtomicRMWBinOpMax),
            Op::AtomicMin if elem.is_int() => Some(RmwOp::LLVMAtomicRMWBinOpUMin),
            Op::AtomicMax if elem.is_int() => Some(RmwOp::LLVMAtomicRMWBinOpUMax),
            Op::AtomicAnd => Some(RmwOp::LLVMAtomicRMWBinOpAnd),
            Op::AtomicOr => Some(RmwOp::LLVMAtomicRMWBinOpOr),
            Op::AtomicXor => Some(RmwOp::LLVMAtomicRMWBinOpXor),
            Op::AtomicInc if elem.is_unsigned_int() => Some(RmwOp::LLVMAtomicRMWBinOpUIncWrap),
            Op::AtomicDec if elem.is_unsigned_int() => Some(RmwOp::LLVMAtomicRMWBinOpUDecWrap),
            Op::AtomicExch => Some(RmwOp::LLVMAtomicRMWBinOpXchg),
            _ => None,
        };
        let direct = direct.filter(|_| !self.sees_alone(update.array));
        let back = |bits: Val| ir.bitcast(bits, ir.scalar(elem));
        if let Some(op) = direct {
            let is_float = op == RmwOp::LLVMAtomicRMWBinOpFAdd;
            let value = match is_float {
                // Subtracting is adding the negative.
                true if update.op == Op::AtomicSub => ir.fneg(value),
                true => value,
                false => ir.bitcast(value, bits),
            };
            // The loop is made below where PTX has no instruction for an atomic, because the one that LLVM 22 makes
            // begins with a plain load, which races.
            let is_gpu = self.arith.processor.is_gpu;
            let counts = matches!(op, RmwOp::LLVMAtomicRMWBinOpUIncWrap | RmwOp::LLVMAtomicRMWBinOpUDecWrap);
            let old = if is_gpu && (elem.bits() < 32 || counts && elem.bits() == 64) {
                None
            } else if is_gpu && update.scope != DEVICE_SCOPE {
                self.update_in_scope(update, op, pointer, value)
            } else {
                let old = ir.atomic_rmw(op, pointer, value, update.scope);
                self.tag(old, update.array)?;
                Some(old)
            };
            if let Some(old) = old {
                return Ok(if is_float { old } else { back(old) });
            }
        }
        if update.op == Op::AtomicCas {
            let (old, _) = self.compare_and_swap(update, pointer, ir.bitcast(value, bits), ir.bitcast(new, bits));
            return Ok(back(old));
        }
        self.exchange_until_done(update, pointer, |this, old| this.combine(update, old, value))
    }

    /// An update as PTX says it, since LLVM 22 takes every one but `cmpxchg` for one of the device's scope. `None` if
    /// PTX has no such instruction.
    fn update_in_scope(&self, update: AtomicUpdate, op: RmwOp, pointer: Val, value: Val) -> Option<Val> {
        let bits = update.elem.bits();
        let sign = if update.elem.is_signed_int() { 's' } else { 'u' };
        let value = if op == RmwOp::LLVMAtomicRMWBinOpSub { self.ir.neg(value) } else { value };
        let (name, class) = match op {
            RmwOp::LLVMAtomicRMWBinOpFAdd => ("add", 'f'),
            RmwOp::LLVMAtomicRMWBinOpAdd | RmwOp::LLVMAtomicRMWBinOpSub => ("add", 'u'),
            RmwOp::LLVMAtomicRMWBinOpMin | RmwOp::LLVMAtomicRMWBinOpUMin => ("min", sign),
            RmwOp::LLVMAtomicRMWBinOpMax | RmwOp::LLVMAtomicRMWBinOpUMax => ("max", sign),
            RmwOp::LLVMAtomicRMWBinOpAnd => ("and", 'b'),
            RmwOp::LLVMAtomicRMWBinOpOr => ("or", 'b'),
            RmwOp::LLVMAtomicRMWBinOpXor => ("xor", 'b'),
            RmwOp::LLVMAtomicRMWBinOpXchg => ("exch", 'b'),
            RmwOp::LLVMAtomicRMWBinOpUIncWrap if bits == 32 => ("inc", 'u'),
            RmwOp::LLVMAtomicRMWBinOpUDecWrap if bits == 32 => ("dec", 'u'),
            _ => return None,
        };
        let register = match (class, bits) {
            ('f', 32) => 'f',
            ('f', _) => 'd',
            (_, 32) => 'r',
            (_, 64) => 'l',
            _ => return None,
        };
        let scope = if update.scope == BLOCK_SCOPE { "cta" } else { "sys" };
        let text = format!("atom.relaxed.{scope}.{name}.{class}{bits} $0, [$1], $2;");
        let constraints = format!("={register},l,{register},~{{memory}}");
        Some(self.ir.inline_asm(self.ir.type_of(value), &text, &constraints, &[pointer, value]))
    }

    /// Returns true if the processor adds numbers of this type to memory by one instruction. In global memory, GPUs
    /// take subnormal `float32` operands and sums for zeros (PTX ISA 9.0 §9.7.13.5).
    fn adds_in_memory(&self, elem: Scalar) -> bool {
        self.arith.processor.is_gpu && matches!(elem, Scalar::F32 | Scalar::F64)
    }

    /// Replaces an element by a function of it, trying again when another thread was faster. Gives the old value.
    fn exchange_until_done(
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
    fn compare_and_swap(&self, update: AtomicUpdate, pointer: Val, expected: Val, new: Val) -> (Val, Val) {
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
    fn combine(&mut self, update: AtomicUpdate, old: Val, value: Val) -> Result<Val> {
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

    /// All lanes update one element: combines their values first where that gives the same as updating in turn.
    fn update_together(
        &mut self,
        update: AtomicUpdate,
        pointer: Val,
        value: ValueRep,
        used: bool,
    ) -> Result<Option<ValueRep>> {
        let ir = self.ir;
        let value = self.vector(value)?;
        let ty = ir.type_of(value);
        let mask = self.mask();
        let idle = |identity: Val| mask.map_or(value, |mask| ir.select(mask, value, identity));
        let elem = update.elem;
        if elem.is_int() {
            let (zero, ones) = (ir.zero(ty), ir.ones(ty));
            let half = 1u64 << (elem.bits() - 1);
            let (smallest, largest) = match elem.is_signed_int() {
                true => (ir.int_const(ty, half), ir.int_const(ty, half - 1)),
                false => (zero, ones),
            };
            let signed = elem.is_signed_int();
            let (name, identity) = match update.op {
                Op::AtomicAdd | Op::AtomicSub if used => {
                    return self.update_by_prefix(update, pointer, idle(zero)).map(Some);
                }
                _ if used => return Ok(None),
                Op::AtomicAdd | Op::AtomicSub => ("llvm.vector.reduce.add", zero),
                Op::AtomicAnd => ("llvm.vector.reduce.and", ones),
                Op::AtomicOr => ("llvm.vector.reduce.or", zero),
                Op::AtomicXor => ("llvm.vector.reduce.xor", zero),
                Op::AtomicMin if signed => ("llvm.vector.reduce.smin", largest),
                Op::AtomicMin => ("llvm.vector.reduce.umin", largest),
                Op::AtomicMax if signed => ("llvm.vector.reduce.smax", smallest),
                Op::AtomicMax => ("llvm.vector.reduce.umax", smallest),
                _ => return Ok(None),
            };
            let total = ir.unary_intrinsic(name, idle(identity));
            let old = self.update(update, pointer, [total, total])?;
            return Ok(Some(ValueRep::Uniform(old)));
        }
        if used || !matches!(elem, Scalar::F32 | Scalar::F64) {
            return Ok(None);
        }
        match update.op {
            Op::AtomicAdd | Op::AtomicSub => {
                let value = self.summand(update.op, value);
                if self.func.metadata.backward {
                    let total = ir.sum_in_any_order(value, ir.scalar(elem));
                    let sum = AtomicUpdate { op: Op::AtomicAdd, ..update };
                    return Ok(Some(ValueRep::Uniform(self.update(sum, pointer, [total; 2])?)));
                }
                let old = self.exchange_until_done(update, pointer, |_, old| {
                    Ok(ir.intrinsic("llvm.vector.reduce.fadd", &[ty], &[old, value]))
                })?;
                Ok(Some(ValueRep::Uniform(old)))
            }
            _ => Ok(None),
        }
    }

    /// Returns what a sum adds to an element, of which idle lanes are to change nothing: that is what -0.0 does, and
    /// subtracting is adding the negative.
    pub(super) fn summand(&mut self, op: Op, value: Val) -> Val {
        let ir = self.ir;
        let value = if op == Op::AtomicSub { ir.fneg(value) } else { value };
        let nothing = ir.float_const(ir.type_of(value), -0.0);
        match self.mask() {
            Some(mask) if self.lanes > 1 => ir.select(mask, value, nothing),
            _ => value,
        }
    }

    /// Adds to one element of an array.
    pub(super) fn add_to_element(&mut self, array: usize, pointer: Val, value: Val) -> Result<()> {
        let elem = self.array_arg(array)?.elem;
        let update = AtomicUpdate { op: Op::AtomicAdd, elem, array, scope: self.arith.processor.atomic_scope() };
        self.update(update, pointer, [value; 2]).map(|_| ())
    }

    /// An element of the copy of an array that the thread in a lane updates; of arrays without copies, itself.
    fn own_element(&self, array: usize, element: Val, lane: Val) -> Result<Val> {
        match (self.array_arg(array)?.copies, self.thread) {
            (Some(copies), Some(thread)) => Ok(copies.own(self.ir, element, self.ir.add(thread.linear, lane))),
            _ => Ok(element),
        }
    }

    /// True for arrays that no other thread of the processor updates meanwhile.
    fn sees_alone(&self, array: usize) -> bool {
        self.alone || self.array_arg(array).is_ok_and(|arg| arg.copies.is_some())
    }

    /// Integer sums whose intermediate values are asked for: every lane gets the old value and the sum of the lanes
    /// before it.
    fn update_by_prefix(&mut self, update: AtomicUpdate, pointer: Val, value: Val) -> Result<ValueRep> {
        let ir = self.ir;
        let mut sums = value;
        let mut distance = 1;
        while distance < self.lanes {
            sums = ir.add(sums, ir.shift_lanes(sums, distance));
            distance *= 2;
        }
        let total = ir.extract(sums, ir.i64_const(i64::from(self.lanes) - 1));
        let old = self.update(update, pointer, [total, total])?;
        let before = ir.sub(sums, value);
        let old = ir.splat(old, self.lanes);
        Ok(ValueRep::Vector(if update.op == Op::AtomicAdd { ir.add(old, before) } else { ir.sub(old, before) }))
    }

    /// Lane after lane.
    fn update_in_turn(
        &mut self,
        update: AtomicUpdate,
        address: GroupAddress,
        values: &[ValueRep],
        used: bool,
    ) -> Result<Option<ValueRep>> {
        if let (Some(copies), false) = (self.array_arg(update.array)?.copies, used) {
            self.update_copies(update, copies, address, values)?;
            return Ok(None);
        }
        let ir = self.ir;
        let elem = ir.scalar(update.elem);
        let lanes = ir.lanes(elem, self.lanes);
        let in_memory = self.memory_type(update.elem);
        let scattered = match address {
            GroupAddress::Scattered(scattered) => Some(self.on_stack(scattered.elements(ir, in_memory))),
            _ => None,
        };
        let mut stacks = [None; 2];
        for (slot, &rep) in stacks.iter_mut().zip(values) {
            let vector = self.vector(rep)?;
            *slot = Some(self.on_stack(vector));
        }
        let olds = used.then(|| self.slot(lanes));
        let mask = self.full_mask();
        self.for_each_lane(mask, |this, lane| {
            let pointer = match address {
                GroupAddress::One(pointer) => pointer,
                GroupAddress::Row(first) => ir.offset(in_memory, first, lane),
                GroupAddress::ReverseRow(first) => ir.offset(in_memory, first, ir.neg(lane)),
                GroupAddress::Interleaved(rows) => rows.element(ir, in_memory, lane),
                GroupAddress::Scattered(pointers) => match scattered {
                    Some(stack) => this.lane_on_stack(stack, ir.ptr(), lane),
                    None => ir.extract(pointers.elements(ir, in_memory), lane),
                },
            };
            let pointer = this.own_element(update.array, pointer, lane)?;
            let value = |stack: Option<Val>| stack.map(|stack| this.lane_on_stack(stack, elem, lane));
            let first =
                value(stacks[0]).ok_or_else(|| CodegenError::new("internal error: an atomic without a value"))?;
            let second = value(stacks[1]).unwrap_or(first);
            let old = this.update(update, pointer, [first, second])?;
            if let Some(olds) = olds {
                ir.set(ir.offset(elem, olds, lane), old);
            }
            Ok(())
        })?;
        Ok(olds.map(|olds| ValueRep::Vector(ir.get(lanes, olds))))
    }

    /// A vector in memory, where lanes are picked by number.
    pub(crate) fn on_stack(&self, vector: Val) -> Val {
        let slot = self.ir.alloca(self.ir.type_of(vector));
        self.ir.set(slot, vector);
        slot
    }

    /// One lane of a vector put there by [`FunctionLowering::on_stack`].
    pub(crate) fn lane_on_stack(&self, slot: Val, elem: Ty, lane: Val) -> Val {
        self.ir.get(elem, self.ir.offset(elem, slot, lane))
    }

    /// Emits a loop over the lanes set in a mask, in order.
    pub(crate) fn for_each_lane(&mut self, mask: Val, body: impl FnOnce(&mut Self, Val) -> Result<()>) -> Result<()> {
        let ir = self.ir;
        if self.lanes == 1 {
            return body(self, ir.i64_const(0));
        }
        let wide = ir.int(64);
        let bits = ir.int_cast(self.mask_bits(mask), wide);
        let (from, each, done) = (ir.current(), ir.block(c"lane"), ir.block(c"lanes_done"));
        ir.cond_br(ir.icmp(NE, bits, ir.zero(wide)), each, done);
        ir.switch_to(each);
        let left = ir.phi(wide);
        ir.add_incoming(left, bits, from);
        let lane = ir.intrinsic("llvm.cttz", &[wide], &[left, ir.bool_const(false)]);
        let lane = ir.and(lane, ir.i64_const(i64::from(self.lanes) - 1));
        body(self, lane)?;
        let rest = ir.and(left, ir.sub(left, ir.i64_const(1)));
        ir.add_incoming(left, rest, ir.current());
        ir.cond_br(ir.icmp(NE, rest, ir.zero(wide)), each, done);
        ir.switch_to(done);
        Ok(())
    }
}
