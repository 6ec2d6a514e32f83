//! Reading special registers, and writing results of either width.

use super::block::BlockState;
use super::grid::{GridContext, PROCESSORS};
use super::registers::{LANES, put};
use super::warp::WarpRun;
use crate::decode::op::{DestRegister, SpecialRegister};
use crate::memory::window::RESERVED_SHARED;

impl WarpRun {
    /// Writes a register that may be narrower than 64 bits.
    pub(super) fn write(&mut self, destination: DestRegister, values: &[u64; LANES], mask: u32) {
        match destination {
            DestRegister::Word(slot, bits) => {
                let kept = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
                let words = values.map(|value| value as u32 & kept);
                put(&mut self.registers, Some(slot), &words, mask);
            }
            DestRegister::Double(slot) => put(&mut self.registers, Some(slot), values, mask),
            DestRegister::Sink => {}
        }
    }

    pub(super) fn special(
        &mut self,
        context: &GridContext<'_>,
        block: &BlockState,
        destination: DestRegister,
        which: SpecialRegister,
        mask: u32,
    ) {
        let launch = context.launch;
        let lanes = |f: fn(u32) -> u32| std::array::from_fn(|lane| u64::from(f(lane as u32)));
        let all = |value: u64| [value; LANES];
        let clock = self.executed + u64::from(self.running) + block.clock;
        let values = match which {
            SpecialRegister::ThreadIndex(axis) => self.threads[axis].map(u64::from),
            SpecialRegister::BlockSize(axis) => all(launch.block[axis].into()),
            SpecialRegister::BlockIndex(axis) => all(block.index[axis].into()),
            SpecialRegister::GridSize(axis) => all(launch.grid[axis].into()),
            SpecialRegister::Lane => lanes(|lane| lane),
            SpecialRegister::Warp => all(self.index.into()),
            SpecialRegister::WarpCount => all(context.warps.into()),
            SpecialRegister::Processor => all(block.linear % PROCESSORS),
            SpecialRegister::ProcessorCount => all(PROCESSORS),
            SpecialRegister::Clock => all(clock),
            SpecialRegister::ClockHigh => all(clock >> 32),
            SpecialRegister::Time => all(context.started.elapsed().as_nanos() as u64),
            SpecialRegister::TimeHigh => all(context.started.elapsed().as_nanos() as u64 >> 32),
            SpecialRegister::LanesEqual => lanes(|lane| 1 << lane),
            SpecialRegister::LanesLess => lanes(|lane| (1 << lane) - 1),
            SpecialRegister::LanesLessEqual => lanes(|lane| u32::MAX >> (31 - lane)),
            SpecialRegister::LanesGreater => lanes(|lane| !(u32::MAX >> (31 - lane))),
            SpecialRegister::LanesGreaterEqual => lanes(|lane| u32::MAX << lane),
            SpecialRegister::DynamicShared => all(launch.dynamic_shared_bytes.into()),
            SpecialRegister::TotalShared => all(context.program_shared_bytes().into()),
            SpecialRegister::AggregateShared => all((RESERVED_SHARED + context.program_shared_bytes()).into()),
            SpecialRegister::ReservedShared(offset) => all(offset.into()),
            SpecialRegister::WorkspaceLow => all(context.workspace & u64::from(u32::MAX)),
            SpecialRegister::WorkspaceHigh => all(context.workspace >> 32),
            SpecialRegister::ClusterIndex(axis) => all((block.index[axis] / context.cluster[axis]).into()),
            SpecialRegister::ClusterCount(axis) => all((launch.grid[axis] / context.cluster[axis]).into()),
            SpecialRegister::IndexInCluster(axis) => all((block.index[axis] % context.cluster[axis]).into()),
            SpecialRegister::ClusterSize(axis) => all(context.cluster[axis].into()),
            SpecialRegister::ClusterRank => all(block.rank.into()),
            SpecialRegister::ClusterBlocks => all(context.cluster_blocks.into()),
            SpecialRegister::Absent | SpecialRegister::Zero => all(0),
        };
        self.write(destination, &values, mask);
    }
}
