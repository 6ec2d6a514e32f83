//! `alloca`: local memory that a function takes while it runs, each lane for itself, behind the frames of all functions.

use super::block::BlockState;
use super::grid::GridContext;
use super::registers::{LANES, lanes_of};
use super::warp::WarpRun;
use crate::decode::op::{DecodedInst, StackOp};
use crate::report::{Finding, FindingKind};

impl WarpRun {
    pub(super) fn stack_op(
        &mut self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        op: &StackOp,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let fail = |warp: &WarpRun, message: &str, lane: usize| {
            Err(warp.finding(context, block, inst, FindingKind::StackOverflow, message, 1 << lane))
        };
        let first = self.local_bytes - context.program.stack_bytes;
        match op {
            StackOp::Alloc { destination, size, align } => {
                let sizes = self.values(size);
                let mut starts = [0; LANES];
                for lane in lanes_of(lanes) {
                    let start = self.stack[lane].checked_next_multiple_of(*align).map(u64::from);
                    let end = start.and_then(|start| start.checked_add(sizes[lane]));
                    let (Some(start), Some(end)) = (start, end.filter(|end| *end <= self.local_bytes.into())) else {
                        let (size, most) = (sizes[lane], context.program.stack_bytes);
                        let message = format!("`alloca` of {size} bytes: a thread has {most} for all it takes");
                        return fail(self, &message, lane);
                    };
                    (starts[lane], self.stack[lane]) = (start, end as u32);
                }
                self.write(*destination, &starts, lanes);
            }
            StackOp::Save(destination) => self.write(*destination, &self.stack.map(u64::from), lanes),
            StackOp::Restore(source) => {
                let tops = self.values(source);
                for lane in lanes_of(lanes) {
                    if !(u64::from(first)..=self.stack[lane].into()).contains(&tops[lane]) {
                        return fail(self, "`stackrestore` of what `stacksave` has not given here", lane);
                    }
                    self.stack[lane] = tops[lane] as u32;
                }
            }
        }
        Ok(())
    }

    /// Lanes enter a frame, so that what they take in it is theirs until they leave.
    pub(super) fn keep_stack(&mut self, frame: u32, lanes: u32) {
        if self.stack_before.len() <= frame as usize {
            self.stack_before.resize(frame as usize + 1, [0; LANES]);
        }
        lanes_of(lanes).for_each(|lane| self.stack_before[frame as usize][lane] = self.stack[lane]);
    }

    /// Lanes leave a frame.
    pub(super) fn restore_stack(&mut self, frame: u32, lanes: u32) {
        lanes_of(lanes).for_each(|lane| self.stack[lane] = self.stack_before[frame as usize][lane]);
    }
}
