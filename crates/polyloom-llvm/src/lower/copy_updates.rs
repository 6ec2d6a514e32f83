//! Updates of the copies of arrays by the lanes of a group.

use super::atomics::AtomicUpdate;
use super::memory::GroupAddress;
use super::private_copies::{N_COPIES, PrivateCopies};
use super::{FunctionLowering, Result, ValueRep};

impl FunctionLowering<'_, '_> {
    /// Updates the lanes' elements of copies, each of which one in [`N_COPIES`] lanes has. Lanes that are not executing
    /// update memory that nobody reads, so that nothing branches.
    pub(super) fn update_copies(
        &mut self,
        update: AtomicUpdate,
        copies: PrivateCopies,
        address: GroupAddress,
        values: &[ValueRep],
    ) -> Result<()> {
        let (ir, lanes) = (self.ir, self.lanes);
        let (elem, in_memory) = (ir.scalar(update.elem), self.memory_type(update.elem));
        let numbers = ir.and(ir.iota(ir.int(64), lanes, 1), ir.splat(ir.i64_const(N_COPIES as i64 - 1), lanes));
        let to_copies = ir.mul(numbers, ir.splat(copies.bytes_apart, lanes));
        let mut elements = ir.offset(ir.int(8), address.elements(ir, in_memory, lanes), to_copies);
        if let Some(mask) = self.mask() {
            let nowhere = ir.alloca(ir.array(elem, lanes));
            elements = ir.select(mask, elements, ir.offset(elem, nowhere, ir.iota(ir.int(64), lanes, 1)));
        }
        let value = self.vector(values[0])?;
        for lane in 0..lanes {
            let lane = ir.i64_const(lane.into());
            let value = ir.extract(value, lane);
            self.update(update, ir.extract(elements, lane), [value; 2])?;
        }
        Ok(())
    }
}
