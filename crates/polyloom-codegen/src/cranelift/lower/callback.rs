//! What calls back into the host: failed checks and printing.

use super::{CraneliftLowering, INVARIANT, Lowered};
use crate::abi::{LaunchContext, SiteTable};
use cranelift_codegen::ir::{
    self, AbiParam, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind, types,
};
use polyloom_ir::{Inst, InstData, Op};

impl CraneliftLowering<'_> {
    /// The number of the site at `inst`.
    fn site(&mut self, inst: Inst, data: &InstData) -> Lowered<ir::Value> {
        let func = self.func;
        let number = match &mut self.frame {
            Some(frame) => frame.sites.get_or_insert_with(|| SiteTable::of(func)).number(inst),
            None => return self.error(data.span, "only kernels call back into the host"),
        };
        match number {
            Some(number) => Ok(self.int(types::I32, number.into())),
            None => self.error(data.span, format!("`{}` does not say what it is about", data.op.name())),
        }
    }

    /// Calls a function of the launch context, which is always the first argument.
    fn call_host(&mut self, offset: i32, params: &[ir::Type], args: &[ir::Value]) -> Lowered<()> {
        let Some(frame) = &self.frame else {
            return self.error(self.func.span, "only kernels call back into the host");
        };
        let context = frame.context;
        let mut signature = Signature::new(self.builder.func.signature.call_conv);
        signature.params.push(AbiParam::new(types::I64));
        signature.params.extend(params.iter().copied().map(AbiParam::new));
        let signature = self.builder.import_signature(signature);
        let function = self.builder.ins().load(types::I64, INVARIANT, context, offset);
        let mut all = smallvec::SmallVec::<[ir::Value; 6]>::from_slice(&[context]);
        all.extend_from_slice(args);
        self.builder.ins().call_indirect(signature, function, &all);
        Ok(())
    }

    /// `assert` and `check`: where the condition fails, reports and leaves the kernel.
    pub(super) fn check(&mut self, inst: Inst, data: &InstData) -> Lowered<()> {
        let cond = self.operand(data, 0)?;
        let cond = self.value(cond)?;
        let (passed, failed) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(failed);
        self.branch_away(cond, passed, failed, &[]);
        self.builder.switch_to_block(failed);
        let site = self.site(inst, data)?;
        let (index, extent) = if data.op == Op::Check {
            let (index, extent) = (self.operand(data, 1)?, self.operand(data, 2)?);
            (self.value(index)?, self.value(extent)?)
        } else {
            let zero = self.int(types::I64, 0);
            (zero, zero)
        };
        let thread = self.linear_thread(data.span)?;
        let params = [types::I32, types::I64, types::I64, types::I64];
        self.call_host(LaunchContext::TRAP_OFFSET, &params, &[site, index, extent, thread])?;
        self.builder.ins().return_(&[]);
        self.builder.switch_to_block(passed);
        Ok(())
    }

    /// `print`: one slot per operand on the stack.
    pub(super) fn print(&mut self, inst: Inst, data: &InstData) -> Lowered<()> {
        let size = 8 * data.operands.len().max(1) as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
        let slot = self.builder.create_sized_stack_slot(slot);
        let values = self.builder.ins().stack_addr(types::I64, slot, 0);
        for (index, &operand) in data.operands.iter().enumerate() {
            let ty = self.scalar(operand)?;
            let value = self.value(operand)?;
            let bits = self.bits_as_i64(value, ty);
            self.builder.ins().store(MemFlagsData::trusted(), bits, values, 8 * index as i32);
        }
        let site = self.site(inst, data)?;
        self.call_host(LaunchContext::PRINT_OFFSET, &[types::I32, types::I64], &[site, values])
    }
}
