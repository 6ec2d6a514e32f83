//! `malloc` and `free` of kernels: each lane has its own block.

use super::block::BlockState;
use super::grid::GridContext;
use super::registers::{LANES, lanes_of};
use super::warp::WarpRun;
use crate::decode::op::{CallOp, DecodedInst};
use crate::report::{Finding, FindingKind};

impl WarpRun {
    pub(super) fn alloc(&mut self, context: &GridContext<'_>, block: &mut BlockState, call: &CallOp, lanes: u32) {
        let sizes = call.arguments.first().map_or([0; LANES], |place| self.argument(place));
        let mut addresses = [0; LANES];
        // Without memory for a heap it is a full one.
        if let Some(allocation) = context.heap.map(|index| &context.memory[index])
            && let Some(heap) = &allocation.heap
        {
            for lane in lanes_of(lanes) {
                let Some(address) = heap.alloc(sizes[lane]) else { continue };
                allocation.clear_written((address - allocation.address) as usize, sizes[lane] as usize);
                block.observe_alloc(context, address, sizes[lane]);
                addresses[lane] = address;
            }
        }
        self.set_result(call, &addresses, lanes);
    }

    pub(super) fn free(
        &self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        call: &CallOp,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let addresses = call.arguments.first().map_or([0; LANES], |place| self.argument(place));
        for lane in lanes_of(lanes).filter(|lane| addresses[*lane] != 0) {
            let address = addresses[lane];
            let heap = context.allocation(address, &mut 0).and_then(|index| context.memory[index].heap.as_ref());
            if !heap.is_some_and(|heap| heap.free(address)) && context.launch.sanitize.bounds {
                let place = context.device.describe(address, context.launch.names);
                let message = format!("0x{address:x} is no block of `malloc`: it is {place}");
                let mut finding = self.finding(context, block, inst, FindingKind::InvalidFree, &message, 1 << lane);
                finding.address = Some(address);
                return Err(finding);
            }
        }
        Ok(())
    }
}
