//! Atomic updates of array elements.
//!
//! Lanes update in their order, one after the other, unless they all mean the same element: then the group's values
//! are combined first and the element is updated once, with the outcome of updating it in order. Floating-point sums
//! are combined in order too, so the bits are those of one thread after the other; but not those of backward kernels,
//! whose order nobody has written down: they are combined pair by pair, or over the whole launch ([`super::totals`]).

use super::memory::GroupAddress;
use super::{FunctionLowering, Result, ValueRep};
use crate::ir::*;
use crate::target::{BLOCK_SCOPE, DEVICE_SCOPE};
use polyloom_ir::function::{AtomicOrdering, MemoryScope};
use polyloom_ir::{AddressSpace, Imm, Inst, Op, Scalar};

/// The operands of one atomic.
#[derive(Clone, Copy)]
pub(super) struct AtomicUpdate {
    pub(super) op: Op,
    pub(super) elem: Scalar,
    pub(super) array: usize,
    /// The threads that see it as one, as LLVM names them.
    pub(super) scope: &'static str,
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
}
