//! Reading special registers, and writing results of either width.

use super::block::BlockState;
use super::grid::Context;
use super::registers::{LANES, put};
use super::warp::Warp;
use crate::decode::op::{Destination, Special};
use crate::memory::window::RESERVED_SHARED;

/// Multiprocessors that blocks are said to run on.
pub(super) const PROCESSORS: u64 = 16;

impl Warp {
    /// Writes a register that may be narrower than 64 bits.
    pub(super) fn write(&mut self, destination: Destination, values: &[u64; LANES], mask: u32) {
        match destination {
            Destination::Word(slot, bits) => {
                let kept = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
                let words = values.map(|value| value as u32 & kept);
                put(&mut self.registers, Some(slot), &words, mask);
            }
            Destination::Double(slot) => put(&mut self.registers, Some(slot), values, mask),
            Destination::Sink => {}
        }
    }

    pub(super) fn special(
        &mut self,
        context: &Context<'_>,
        block: &BlockState,
        destination: Destination,
        which: Special,
        mask: u32,
    ) {
        let launch = context.launch;
        let lanes = |f: fn(u32) -> u32| std::array::from_fn(|lane| u64::from(f(lane as u32)));
        let all = |value: u64| [value; LANES];
        let clock = self.executed + u64::from(self.running) + block.clock;
        let values = match which {
            Special::ThreadIndex(axis) => self.threads[axis].map(u64::from),
            Special::BlockSize(axis) => all(launch.block[axis].into()),
            Special::BlockIndex(axis) => all(block.index[axis].into()),
            Special::GridSize(axis) => all(launch.grid[axis].into()),
            Special::Lane => lanes(|lane| lane),
            Special::Warp => all(self.index.into()),
            Special::WarpCount => all(context.warps.into()),
            Special::Processor => all(block.linear % PROCESSORS),
            Special::ProcessorCount => all(PROCESSORS),
            Special::Clock => all(clock),
            Special::ClockHigh => all(clock >> 32),
            Special::Time => all(context.started.elapsed().as_nanos() as u64),
            Special::TimeHigh => all(context.started.elapsed().as_nanos() as u64 >> 32),
            Special::LanesEqual => lanes(|lane| 1 << lane),
            Special::LanesLess => lanes(|lane| (1 << lane) - 1),
            Special::LanesLessEqual => lanes(|lane| u32::MAX >> (31 - lane)),
            Special::LanesGreater => lanes(|lane| !(u32::MAX >> (31 - lane))),
            Special::LanesGreaterEqual => lanes(|lane| u32::MAX << lane),
            Special::DynamicShared => all(launch.dynamic_shared_bytes.into()),
            Special::TotalShared => all(context.program_shared_bytes().into()),
            Special::AggregateShared => all((RESERVED_SHARED + context.program_shared_bytes()).into()),
            Special::ReservedShared(offset) => all(offset.into()),
            Special::WorkspaceLow => all(context.workspace & u64::from(u32::MAX)),
            Special::WorkspaceHigh => all(context.workspace >> 32),
            Special::Absent | Special::Zero => all(0),
            Special::One => all(1),
        };
        self.write(destination, &values, mask);
    }
}
