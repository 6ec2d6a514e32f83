//! Loops whose iterations run at the same time: those over the threads of a block.
//!
//! Iterations are the lanes of groups, as threads are of a launch's own groups: the body stands there twice, once for
//! full groups and once under a mask, and the copy for full groups may leave one to the other ([`super::BailOut`]).
//! Outside of such loops there is one lane.
//!
//! Design: `docs/design/cpu-strategies.md`.

use super::{BailOut, ExecMask, FunctionLowering, RegionFlow, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::Inst;

impl FunctionLowering<'_, '_> {
    /// Returns the number of lanes that a parallel loop has; `None` for other loops, and where one is best.
    pub(super) fn lanes_of_loop(&self, inst: Inst) -> Option<u32> {
        let lanes = self.parallel.iter().find(|(parallel, _)| *parallel == inst).map(|&(_, lanes)| lanes);
        lanes.filter(|&lanes| lanes > 1 && self.lanes == 1)
    }

    /// Lowers a parallel loop in groups of `lanes` iterations.
    pub(super) fn groups_of_iterations(&mut self, inst: Inst, bounds: &[ValueRep], lanes: u32) -> Result<RegionFlow> {
        let data = &self.func.insts[inst];
        let body = data.regions[0];
        let counter = self.func.regions[body].params[0];
        let (ir, wide) = (self.ir, self.ir.int(64));
        let (lo, hi) = (self.base(bounds[0])?, self.base(bounds[1])?);
        let ty = ir.type_of(lo);
        let is_signed = self.scalar_of(counter)?.is_signed_int();
        let in_64_bits = |value| if is_signed { ir.sext_to_64(value) } else { ir.int_cast(value, wide) };
        let (first, end) = (in_64_bits(lo), in_64_bits(hi));
        let n_lanes = ir.i64_const(lanes.into());

        let from = ir.current();
        let [head, full, tail, masked, latch, done] =
            [c"threads", c"full", c"tail", c"masked", c"next_threads", c"threads_done"].map(|name| ir.block(name));
        ir.br(head);
        ir.switch_to(head);
        let at = ir.phi(wide);
        ir.add_incoming(at, first, from);
        // Numbers of threads, which have 32 bits, are no more than 2^32 apart.
        let left = ir.sub(end, at);
        ir.cond_br(ir.icmp(SGE, left, n_lanes), full, tail);

        let narrow = |this: &mut Self| {
            let base = ir.int_cast(at, ty);
            this.wide.insert(base, at);
            this.values[counter] = Some(ValueRep::Affine { base, stride: 1 });
        };
        let outside = (self.exec, self.exec_slot, self.maybe_none, self.has_effects, self.bail_out.take());
        self.lanes = lanes;
        ir.switch_to(full);
        narrow(self);
        (self.exec, self.exec_slot, self.maybe_none, self.has_effects) = (ExecMask::Full, None, false, false);
        self.bail_out = Some(BailOut { target: masked, from: Vec::new() });
        self.iteration(body)?;
        let bails = self.bail_out.take().map(|bail_out| bail_out.from).unwrap_or_default();
        let after_full = ir.current();
        ir.br(latch);
        ir.switch_to(latch);
        let n_done = ir.phi(wide);
        ir.add_incoming(n_done, n_lanes, after_full);
        ir.add_incoming(at, ir.add(at, n_done), latch);
        ir.br(head);

        ir.switch_to(tail);
        ir.cond_br(ir.icmp(SGT, left, ir.i64_const(0)), masked, done);
        ir.switch_to(masked);
        let n_active = ir.phi(wide);
        ir.add_incoming(n_active, left, tail);
        for &from in &bails {
            ir.add_incoming(n_active, n_lanes, from);
        }
        let few = ir.int_cast(n_active, ir.int(32));
        let mask = ir.icmp(ULT, ir.iota(ir.int(32), lanes, 1), ir.splat(few, lanes));
        narrow(self);
        (self.exec, self.exec_slot, self.maybe_none) = (ExecMask::Mask(mask), None, false);
        self.iteration(body)?;
        if bails.is_empty() {
            ir.br(done);
        } else {
            ir.add_incoming(n_done, n_active, ir.current());
            ir.br(latch);
        }
        ir.switch_to(done);
        self.lanes = 1;
        let has_effects = self.may_have_effects(inst);
        (self.exec, self.exec_slot, self.maybe_none, self.has_effects, self.bail_out) = outside;
        self.has_effects |= has_effects;
        Ok(RegionFlow::Yields(Reps::new()))
    }

    /// Lowers the body of a parallel loop; the current block afterwards is where all paths through it meet.
    fn iteration(&mut self, body: polyloom_ir::Region) -> Result<()> {
        match self.region(body)? {
            RegionFlow::Yields(_) | RegionFlow::Dead => Ok(()),
            RegionFlow::Gone => {
                Err(CodegenError::new("internal error: the threads of a block do not come out of a loop"))
            }
        }
    }
}
