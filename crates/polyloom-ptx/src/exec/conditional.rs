//! `cudaGraphSetConditional`: a kernel of a graph says whether the graph of a conditional node runs.
//!
//! The handle of a condition is the address of its value, four bytes of global memory that the driver has allocated.

use super::block::BlockState;
use super::grid::GridContext;
use super::registers::{LANES, lanes_of};
use super::warp::WarpRun;
use crate::decode::op::{CallOp, DecodedInst};
use crate::report::{Finding, FindingKind};

impl WarpRun {
    pub(super) fn set_conditional(
        &mut self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        call: &CallOp,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let argument = |index: usize| call.arguments.get(index).map_or([0; LANES], |place| self.argument(place));
        let (handles, values) = (argument(0), argument(1));
        for lane in lanes_of(lanes) {
            let (address, value) = (handles[lane], values[lane] as u32);
            if context.device.write(address, &value.to_le_bytes()).is_err() {
                let message = format!("0x{address:x} is the handle of no condition of a graph");
                let mut finding = self.finding(context, block, inst, FindingKind::OutOfBounds, &message, 1 << lane);
                finding.address = Some(address);
                return Err(finding);
            }
        }
        // A status other than zero is an error.
        self.set_result(call, &[0; LANES], lanes);
        Ok(())
    }
}
