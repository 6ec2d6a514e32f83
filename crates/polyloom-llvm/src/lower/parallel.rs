//! Loops whose iterations run at the same time: those over the threads of a block.
//!
//! Iterations are the lanes of groups, as threads are of a launch's own ([`super::group_loop`]). Outside of such loops
//! there is one lane.
//!
//! Design: `docs/design/cpu-strategies.md`.

use super::group_loop::GroupLoop;
use super::{ExecMask, FunctionLowering, RegionFlow, Reps, Result, ValueRep};
use crate::ir::Val;
use polyloom_codegen::CodegenError;
use polyloom_ir::Inst;

impl FunctionLowering<'_, '_> {
    /// Returns the number of lanes that a parallel loop has; `None` for other loops, and where one is best.
    pub(super) fn find_lanes_of_loop(&self, inst: Inst) -> Option<u32> {
        let lanes = self.parallel.iter().find(|(parallel, _)| *parallel == inst).map(|&(_, lanes)| lanes);
        lanes.filter(|&lanes| lanes > 1 && self.lanes == 1)
    }

    /// Lowers a parallel loop in groups of `lanes` iterations.
    pub(super) fn lower_iterations_in_groups(
        &mut self,
        inst: Inst,
        bounds: &[ValueRep],
        lanes: u32,
    ) -> Result<RegionFlow> {
        let data = &self.func.insts[inst];
        let body = data.regions[0];
        let counter = self.func.regions[body].params[0];
        let (ir, wide) = (self.ir, self.ir.int(64));
        let (lo, hi) = (self.base(bounds[0])?, self.base(bounds[1])?);
        let ty = ir.type_of(lo);
        let is_signed = self.scalar_of(counter)?.is_signed_int();
        let in_64_bits = |value| if is_signed { ir.sext_to_64(value) } else { ir.int_cast(value, wide) };
        let (first, end) = (in_64_bits(lo), in_64_bits(hi));
        let n = ir.as_int_const(ir.sub(end, first)).filter(|&n| n > 0);
        // A few iterations, as of the last steps of a tree, are one group of as many lanes.
        let few = n.and_then(|n| u32::try_from(n).ok()).filter(|&n| n < lanes && n.is_power_of_two());
        let lanes = few.unwrap_or(lanes);
        let n_groups = n.filter(|n| n % i64::from(lanes) == 0);
        let outside = (self.exec, self.exec_slot, self.maybe_none, self.has_effects, self.bail_out.take());
        self.lanes = lanes;
        let mut group = |at: Val, exec, bail_out| {
            let base = ir.int_cast(at, ty);
            self.wide.insert(base, at);
            self.values[counter] =
                Some(if lanes == 1 { ValueRep::Uniform(base) } else { ValueRep::Affine { base, stride: 1 } });
            (self.exec, self.exec_slot, self.maybe_none, self.has_effects) = (exec, None, false, false);
            self.bail_out = bail_out;
            self.iteration(body)?;
            Ok(self.bail_out.take().map(|bail_out| bail_out.from).unwrap_or_default())
        };
        match n_groups.map(|n| n / i64::from(lanes)) {
            Some(1) => drop(group(first, ExecMask::Full, None)?),
            Some(n) => {
                let mut result = Ok(Vec::new());
                ir.for_each(ir.i64_const(n), |index| {
                    let at = ir.add(first, ir.mul(index, ir.i64_const(lanes.into())));
                    result = group(at, ExecMask::Full, None);
                });
                result?;
            }
            // Numbers of threads, which have 32 bits, are no more than 2^32 apart.
            None => {
                let groups = GroupLoop::begin(ir, (lanes, lanes), first, None, end);
                let at = groups.first;
                groups.run(ir, |exec, bail_out| group(at, exec, bail_out))?;
            }
        }
        self.lanes = 1;
        let has_effects = self.may_have_effects(inst);
        (self.exec, self.exec_slot, self.maybe_none, self.has_effects, self.bail_out) = outside;
        self.has_effects |= has_effects;
        Ok(RegionFlow::Yields(Reps::new()))
    }

    /// Lowers the body of a parallel loop; the current block afterwards is where all paths through it meet.
    fn iteration(&mut self, body: polyloom_ir::Region) -> Result<()> {
        match self.lower_region(body)? {
            RegionFlow::Yields(_) | RegionFlow::Dead => Ok(()),
            RegionFlow::Gone => {
                Err(CodegenError::new("internal error: the threads of a block do not come out of a loop"))
            }
        }
    }
}
