//! What calls back into the runtime: `assert`, `check` and `print`.

use super::{FunctionLowering, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::{CodegenError, LaunchContext};
use polyloom_ir::{Inst, Op};
use smallvec::SmallVec;

impl FunctionLowering<'_, '_> {
    fn site(&self, inst: Inst) -> Result<Val> {
        let number = self.sites.and_then(|sites| sites.number(inst));
        let number = number.ok_or_else(|| CodegenError::new("internal error: a check that has no number"))?;
        Ok(self.ir.int_const(self.ir.int(32), number.into()))
    }

    /// A function of the launch context, and the context.
    fn host_function(&self, offset: i32) -> Result<(Val, Val)> {
        let ir = self.ir;
        let thread = self.thread.ok_or_else(|| CodegenError::new("internal error: a function calls the host"))?;
        let slot = ir.offset(ir.int(8), thread.context, ir.i64_const(offset.into()));
        Ok((ir.load(ir.ptr(), slot, 8), thread.context))
    }

    /// `assert` and `check`: if the condition fails in any lane, reports the first such lane and leaves the kernel.
    pub(crate) fn check(&mut self, inst: Inst) -> Result<()> {
        let ir = self.ir;
        let data = &self.func.insts[inst];
        let cond = self.rep(data.operands[0])?;
        let values = self.reps(&data.operands[1..])?;
        let (any_fails, failing) = match cond {
            ValueRep::Uniform(cond) => (ir.not(cond), None),
            cond => {
                let fails = ir.not(self.vector(cond)?);
                let mask = self.mask();
                let failing = self.mask_and(mask, fails);
                (self.any(failing), Some(failing))
            }
        };
        let (fails, holds) = (ir.block(c"fails"), ir.block(c"holds"));
        ir.cond_br_unlikely(any_fails, fails, holds);
        ir.switch_to(fails);
        let lane = match failing {
            Some(failing) => self.first_lane(failing),
            None => self.first_executing(),
        };
        let mut reported: SmallVec<[Val; 2]> = SmallVec::new();
        for &rep in &values {
            reported.push(match rep {
                ValueRep::Uniform(value) => value,
                rep => ir.extract(self.vector(rep)?, lane),
            });
        }
        let zero = ir.i64_const(0);
        let [index, extent] = match (data.op, &reported[..]) {
            (Op::Check, &[index, extent]) => [index, extent],
            _ => [zero, zero],
        };
        let site = self.site(inst)?;
        let first = self.thread.map_or(zero, |thread| thread.linear);
        let thread = ir.add(first, lane);
        if self.arith.processor.is_gpu {
            self.report_to_host(site, index, extent, thread)?;
        } else {
            let (trap, context) = self.host_function(LaunchContext::TRAP_OFFSET)?;
            let (ptr, wide) = (ir.ptr(), ir.int(64));
            let params = [ptr, ir.int(32), wide, wide, wide];
            ir.call_pointer(trap, &params, &[context, site, index, extent, thread]);
        }
        ir.ret_void();
        ir.switch_to(holds);
        Ok(())
    }

    /// `print`: once for every lane executing, in order.
    pub(crate) fn print(&mut self, inst: Inst) -> Result<()> {
        if self.arith.processor.is_gpu {
            return self.print_on_gpu(inst);
        }
        let ir = self.ir;
        let func = self.func;
        let data = &func.insts[inst];
        self.has_effects = true;
        let site = self.site(inst)?;
        let (print, context) = self.host_function(LaunchContext::PRINT_OFFSET)?;
        let wide = ir.int(64);
        let block = ir.alloca(ir.array(wide, data.operands.len().max(1) as u32));
        let mut operands: SmallVec<[(Val, bool); 4]> = SmallVec::new();
        for &operand in &data.operands {
            let scalar = self.scalar_of(operand)?;
            let rep = self.rep(operand)?;
            let (value, in_lanes) = match rep {
                ValueRep::Uniform(value) => (value, false),
                rep => (self.vector(rep)?, true),
            };
            let lanes = ir.n_lanes(value);
            let bits = ir.bitcast(value, ir.lanes(ir.int(scalar.bits()), lanes));
            let bits = if scalar.bits() == 64 { bits } else { ir.zext(bits, ir.lanes(wide, lanes)) };
            operands.push(if in_lanes { (self.on_stack(bits), true) } else { (bits, false) });
        }
        let call = |this: &mut Self, lane: Val| {
            for (index, &(value, in_lanes)) in operands.iter().enumerate() {
                let value = if in_lanes { this.lane_on_stack(value, wide, lane) } else { value };
                ir.set(ir.offset(wide, block, ir.i64_const(index as i64)), value);
            }
            ir.call_pointer(print, &[ir.ptr(), ir.int(32), ir.ptr()], &[context, site, block]);
            Ok(())
        };
        let mask = self.full_mask();
        self.for_each_lane(mask, call)
    }
}
