//! Atomic updates by a group: of one element that all lanes mean, or of each lane's element in turn.

use super::atomics::AtomicUpdate;
use super::memory::GroupAddress;
use super::{FunctionLowering, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::{Op, Scalar};

impl FunctionLowering<'_, '_> {
    /// All lanes update one element: combines their values first where that gives the same as updating in turn.
    pub(super) fn update_together(
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
    pub(super) fn own_element(&self, array: usize, element: Val, lane: Val) -> Result<Val> {
        match (self.array_arg(array)?.copies, self.thread) {
            (Some(copies), Some(thread)) => Ok(copies.own(self.ir, element, self.ir.add(thread.linear, lane))),
            _ => Ok(element),
        }
    }

    /// True for arrays that no other thread of the processor updates meanwhile.
    pub(super) fn sees_alone(&self, array: usize) -> bool {
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
    pub(super) fn update_in_turn(
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
