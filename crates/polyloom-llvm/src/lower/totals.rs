//! Sums that all threads of a backward kernel add to one element.
//!
//! The adjoint of a scalar, and of an element at a constant index, is a sum over the whole launch. Each range of
//! threads adds up its part in registers, lane by lane, and adds that to memory once, at its end. It may: the sums of
//! backward kernels have no promised order.

use super::entry::BodyUnit;
use super::{CompiledCallees, ExecMask, FunctionLowering, GroupThread, Result, ValueRep};
use crate::ir::*;
use cranelift_entity::SecondaryMap;
use polyloom_codegen::CodegenError;
use polyloom_ir::{Function, Imm, Inst, Op, Scalar, Value};
use smallvec::SmallVec;

/// An update of one element by every thread, and the stack slot of what the threads so far have added.
pub(crate) struct UpdateTotal {
    inst: Inst,
    slot: Val,
}

impl BodyUnit<'_, '_> {
    /// The updates that are summed up, with sums of nothing.
    pub(crate) fn totals(&self) -> Vec<UpdateTotal> {
        // The threads of a block have lanes in some loops only, and a sum has one place.
        if !self.func.metadata.backward || self.func.metadata.by_block {
            return Vec::new();
        }
        let mut found = Vec::new();
        self.func.walk(self.func.body, &mut |inst, data| {
            if is_sum(self.func, self.used, inst)
                && self.is_only_added_to(data.operands[0])
                && data.operands[1..data.operands.len() - 1].iter().all(|&index| self.func.as_const(index).is_some())
            {
                found.push(inst);
            }
        });
        let total = |inst: Inst| {
            let value = self.func.insts[inst].operands.last().copied();
            let elem = value.and_then(|value| self.func.ty(value).as_scalar()).unwrap_or(Scalar::F32);
            let ty = self.ir.lanes(self.ir.scalar(elem), self.lanes);
            let slot = self.ir.alloca(ty);
            self.ir.set(slot, self.ir.float_const(ty, -0.0));
            UpdateTotal { inst, slot }
        };
        found.into_iter().map(total).collect()
    }

    /// Returns true if all that is done with an array, under whatever name, is to add to its elements.
    fn is_only_added_to(&self, array: Value) -> bool {
        let Some(arg) = self.func.param_index(array).and_then(|index| self.arrays[index].as_ref()) else {
            return false;
        };
        let mut only = arg.facts.disjoint;
        self.func.walk(self.func.body, &mut |inst, data| {
            let touches = data.operands.contains(&array) && data.op != Op::Dim;
            only &= !touches || is_sum(self.func, self.used, inst);
        });
        only
    }

    /// Adds the sums to their elements.
    pub(crate) fn add_totals(&self, callees: &mut CompiledCallees, thread: GroupThread) -> Result<()> {
        let mut lower = self.lower(callees, thread, ExecMask::Full, None);
        self.totals.iter().try_for_each(|total| lower.add_total(total))
    }
}

/// Returns true if an instruction adds to an element of an array, or subtracts from one, and nobody asks what was
/// there.
fn is_sum(func: &Function, used: &SecondaryMap<Value, bool>, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let elem = data.results.first().and_then(|&result| func.ty(result).as_scalar());
    matches!(data.op, Op::AtomicAdd | Op::AtomicSub)
        && matches!(data.imm, Imm::None)
        && matches!(elem, Some(Scalar::F32 | Scalar::F64))
        && !data.results.iter().any(|&result| used[result])
}

impl FunctionLowering<'_, '_> {
    /// Adds to the sum of an update that is summed up.
    pub(super) fn add_to_total(&mut self, inst: Inst, value: ValueRep) -> Result<bool> {
        let Some(slot) = self.totals.iter().find(|total| total.inst == inst).map(|total| total.slot) else {
            return Ok(false);
        };
        let value = if self.lanes == 1 { self.base(value)? } else { self.vector(value)? };
        let value = self.summand(self.func.insts[inst].op, value);
        let sum = self.ir.get(self.ir.type_of(value), slot);
        self.ir.set(slot, self.ir.fadd(sum, value));
        Ok(true)
    }

    fn add_total(&mut self, total: &UpdateTotal) -> Result<()> {
        let ir = self.ir;
        let data = &self.func.insts[total.inst];
        let array = self.array(data.operands[0])?;
        let arg = self.array_arg(array)?;
        let elem = arg.elem;
        let ty = ir.lanes(ir.scalar(elem), self.lanes);
        let sum = ir.get(ty, total.slot);
        let sum = if self.lanes == 1 { sum } else { ir.sum_in_any_order(sum, ir.scalar(elem)) };
        let (mut pointer, mut is_there) = (arg.pointer, ir.bool_const(true));
        let indices: SmallVec<[Value; 4]> = data.operands[1..data.operands.len() - 1].into();
        for (axis, &index) in indices.iter().enumerate() {
            let index = self.small_constant(index).ok_or_else(|| CodegenError::new("internal error: no constant"))?;
            let index = ir.i64_const(index);
            is_there = ir.and(is_there, ir.icmp(ULT, index, arg.extents[axis]));
            pointer = ir.offset(ir.int(8), pointer, ir.mul(index, arg.strides[axis]));
        }
        // The bounds are tested, because the element need not be there if no thread has come to the update.
        let (add, added) = (ir.block(c"add_total"), ir.block(c"added_total"));
        ir.cond_br(is_there, add, added);
        ir.switch_to(add);
        self.add_to_element(array, pointer, sum)?;
        ir.br(added);
        ir.switch_to(added);
        Ok(())
    }
}
