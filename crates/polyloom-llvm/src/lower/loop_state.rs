//! Says what the parts of a loop's lowering share: its counter, its carried values, and the lanes that are in it.

use super::control_frame::ControlFrame;
use super::values::CarriedKind;
use super::{ExecMask, FunctionLowering, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{Imm, Inst, Op, Scalar, Value};
use smallvec::SmallVec;

/// Describes how a `for_range` counts.
pub(super) struct LoopCounter {
    pub(super) param: Value,
    pub(super) kind: CarriedKind,
    /// The counter itself, in the representation `kind`.
    pub(super) phi: Val,
    pub(super) step: Val,
    /// The number of iterations, and how many are done; without it, `phi` is compared with `bound`.
    pub(super) trips: Option<(Val, Val)>,
    pub(super) bound: Val,
    pub(super) ty: Scalar,
    pub(super) counts_down: bool,
}

/// The phis of a loop-carried value.
pub(super) struct CarriedPhis {
    pub(super) param: Value,
    pub(super) kind: CarriedKind,
    pub(super) phi: Val,
}

impl CarriedPhis {
    /// The carried values at the loop's head.
    pub(super) fn reps(carried: &[CarriedPhis]) -> Reps {
        carried.iter().map(|carried| FunctionLowering::rep_of(carried.phi, carried.kind)).collect()
    }
}

/// Describes what all parts of a loop's lowering share.
pub(super) struct LoopState {
    pub(super) inst: Inst,
    pub(super) header: BasicBlock,
    pub(super) carried: SmallVec<[CarriedPhis; 4]>,
    /// The lanes executing before the loop, and their mask.
    pub(super) before: ExecMask,
    pub(super) mask: Option<Val>,
    /// The slot of the lanes that have finished, where some may be lost to outer targets.
    pub(super) finished: Option<Val>,
    pub(super) counter: Option<LoopCounter>,
}

impl LoopState {
    /// The carried values at the loop's head.
    pub(super) fn values(&self) -> Reps {
        CarriedPhis::reps(&self.carried)
    }
}

impl FunctionLowering<'_, '_> {
    /// Gets ready to lower a loop: the lanes executing, and for masked loops that lose lanes to outer targets the slot
    /// of those that finish.
    pub(super) fn enter_loop(&mut self, inst: Inst, masked: bool) -> (ExecMask, Option<Val>, Option<Val>) {
        // An effect in the body comes before whatever the next iteration tests.
        self.has_effects |= self.may_have_effects(inst);
        let (before, mask) = (self.exec, self.mask());
        if !masked {
            return (before, mask, None);
        }
        let loses = self.may_lose(inst);
        let all = self.full_mask();
        self.execute(all);
        let finished = loses.then(|| self.slot(self.mask_type()));
        (before, mask, finished)
    }

    /// Returns true if lanes that enter a loop together may part in it: they leave it at different times, or some take
    /// a `continue` that others do not.
    pub(super) fn needs_masks(&self, inst: Inst) -> bool {
        if self.splits(inst) || (self.exec != ExecMask::Full && self.leaves_by_mask(inst)) {
            return true;
        }
        let (mut parts_inside, mut divergent_continue) = (false, false);
        for &region in &self.func.insts[inst].regions {
            self.func.walk(region, &mut |inner, data| {
                parts_inside |= !data.regions.is_empty() && (self.splits(inner) || self.loses_threads(inner));
                let continues = data.op == Op::Continue && data.imm == Imm::Target(inst);
                divergent_continue |= continues && self.is_divergent(inner);
            });
        }
        divergent_continue && (parts_inside || !self.is_divergent(inst))
    }

    pub(super) fn may_have_effects(&self, inst: Inst) -> bool {
        let mut found = false;
        for &region in &self.func.insts[inst].regions {
            self.func.walk(region, &mut |_, data| {
                found |= matches!(data.op.info().effect, OpEffect::Write | OpEffect::ReadWrite) && data.op != Op::Call;
            });
        }
        found
    }

    pub(super) fn frame(&mut self, inst: Inst, masked: bool) -> Result<ControlFrame> {
        let mut has_continue = false;
        for &region in &self.func.insts[inst].regions {
            self.func.walk(region, &mut |_, data| {
                has_continue |= data.op == Op::Continue && data.imm == Imm::Target(inst);
            });
        }
        let masked = if masked { Some(self.masked_frame(inst, has_continue)?) } else { None };
        Ok(ControlFrame { inst, entry: self.exec, exits: Vec::new(), back: Vec::new(), masked })
    }

    pub(super) fn coerce_all(&mut self, params: &[Value], inits: &[ValueRep]) -> Result<SmallVec<[Val; 4]>> {
        params.iter().zip(inits).map(|(&param, &rep)| self.coerce(rep, self.kind(param))).collect()
    }

    pub(super) fn carried_phis(
        &mut self,
        params: &[Value],
        inits: &[Val],
        from: BasicBlock,
    ) -> Result<SmallVec<[CarriedPhis; 4]>> {
        let mut carried = SmallVec::new();
        for (&param, &init) in params.iter().zip(inits) {
            let kind = self.kind(param);
            let phi = self.ir.phi(self.kind_type(param, kind)?);
            self.ir.add_incoming(phi, init, from);
            carried.push(CarriedPhis { param, kind, phi });
        }
        Ok(carried)
    }

    pub(super) fn define(&mut self, carried: &[CarriedPhis]) {
        for carried in carried {
            self.values[carried.param] = Some(FunctionLowering::rep_of(carried.phi, carried.kind));
        }
    }

    /// The number of iterations, as an unsigned number of the counter's width. It always fits, because the largest is
    /// the number of values less one.
    pub(super) fn trip_count(
        &mut self,
        lo: Val,
        hi: Val,
        step: Val,
        ty: Scalar,
        step_const: Option<u64>,
    ) -> Result<Val> {
        let ir = self.ir;
        let llvm = ir.type_of(lo);
        let (zero, one) = (ir.zero(llvm), ir.int_const(llvm, 1));
        let unsigned = match ty.bits() {
            8 => Scalar::U8,
            16 => Scalar::U16,
            32 => Scalar::U32,
            _ => Scalar::U64,
        };
        let less = if ty.is_signed_int() { SLT } else { ULT };
        let up = match (ty.is_signed_int(), step_const) {
            (false, _) => ir.icmp(NE, step, zero),
            (true, _) => ir.icmp(SGT, step, zero),
        };
        let (distance, runs, magnitude) = if ty.is_signed_int() {
            let distance = ir.select(up, ir.sub(hi, lo), ir.sub(lo, hi));
            let runs = ir.select(up, ir.icmp(less, lo, hi), ir.icmp(less, hi, lo));
            (distance, ir.and(runs, ir.icmp(NE, step, zero)), ir.select(up, step, ir.neg(step)))
        } else {
            (ir.sub(hi, lo), ir.and(up, ir.icmp(less, lo, hi)), step)
        };
        let last = ir.sub(distance, one);
        let quotient = self.arith.emit(Op::Div, unsigned, unsigned, &[last, magnitude]);
        let quotient = quotient.ok_or_else(|| CodegenError::new("internal error: no integer division"))?;
        Ok(ir.select(runs, ir.add(quotient, one), zero))
    }
}
