//! Instructions of clusters: `barrier.cluster`, `mapa` and `getctarank` (PTX ISA 9.0).

use super::block::BlockState;
use super::grid::GridContext;
use super::warp::{LanePath, PathStep, PathWait, WarpRun};
use crate::decode::op::{ClusterOp, DecodedInst};
use crate::memory::window;
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::StateSpace;

impl BlockState {
    /// The number of a warp among those of all blocks of the cluster.
    fn warp_of_cluster(&self, warp: u32) -> usize {
        self.rank as usize * self.present().len() + warp as usize
    }

    /// Lanes of a warp exit.
    pub(super) fn exit_cluster(&self, warp: u32, lanes: u32) {
        self.cluster.exit(self.warp_of_cluster(warp), lanes);
        if self.alive_lanes().iter().all(|alive| *alive == 0) {
            self.cluster.end(self.rank);
        }
    }
}

impl WarpRun {
    pub(super) fn cluster(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        path: &mut LanePath,
        inst: &DecodedInst,
        op: &ClusterOp,
        lanes: u32,
    ) -> Result<PathStep, Box<Finding>> {
        match op {
            ClusterOp::Arrive { relaxed } => {
                let warp = block.warp_of_cluster(self.index);
                let mut barrier = block.cluster.barrier();
                let twice = barrier.owing[warp] & lanes;
                barrier.arrived[warp] |= lanes;
                barrier.owing[warp] |= lanes;
                let completes = barrier.try_complete();
                drop(barrier);
                if twice != 0 {
                    let message = "a thread arrives at the barrier of the cluster again before it has waited for it";
                    return Err(self.finding(context, block, inst, FindingKind::DivergentBarrier, message, twice));
                }
                if !relaxed {
                    block.observe_cluster_arrival(self.index, lanes);
                }
                if completes {
                    block.cluster.complete();
                }
                Ok(PathStep::Next)
            }
            ClusterOp::Wait => {
                let warp = block.warp_of_cluster(self.index);
                let mut barrier = block.cluster.barrier();
                let (strangers, early) = (lanes & !barrier.owing[warp], lanes & barrier.arrived[warp]);
                barrier.owing[warp] &= !lanes;
                drop(barrier);
                if strangers != 0 {
                    let message = "a thread waits for the barrier of the cluster, at which it has not arrived";
                    return Err(self.finding(context, block, inst, FindingKind::DivergentBarrier, message, strangers));
                }
                block.observe_cluster_wait(self.index, lanes & !early);
                if early == 0 {
                    return Ok(PathStep::Next);
                }
                let wait = PathWait::Cluster { completed: block.cluster.completed() };
                self.paths.push(LanePath { mask: early, wait, ..*path });
                self.split_off(path, early)
            }
            ClusterOp::MapAddress { destination, address, rank, is_generic } => {
                let ranks = *rank.get(&self.registers);
                let values = self.values(address);
                let mapped = std::array::from_fn(|lane| context.map_shared(values[lane], ranks[lane], *is_generic));
                self.write(*destination, &mapped, lanes);
                Ok(PathStep::Next)
            }
            ClusterOp::RankOf { destination, address } => {
                let ranks = self.values(address).map(|address| u64::from(block.rank_of(context, address)));
                self.write(*destination, &ranks, lanes);
                Ok(PathStep::Next)
            }
        }
    }
}

impl GridContext<'_> {
    /// An address in the shared memory of the block of that rank, for one in the own block's.
    pub(super) fn map_shared(&self, address: u64, rank: u32, is_generic: bool) -> u64 {
        if self.cluster_blocks == 1 && rank == 0 {
            return address;
        }
        let base = if is_generic { window::base(StateSpace::Shared) } else { 0 };
        base.wrapping_add(window::of_rank(address.wrapping_sub(base), rank))
    }
}

impl BlockState {
    /// Its number in the order of clusters, and within these of ranks.
    pub(crate) fn ordinal(&self, context: &GridContext<'_>) -> u64 {
        let along = |index: [u32; 3], extents: [u32; 3]| {
            let ([x, y, z], [nx, ny, _]) = (index.map(u64::from), extents.map(u64::from));
            x + nx * (y + ny * z)
        };
        let clusters = [0, 1, 2].map(|axis| context.launch.grid[axis] / context.cluster[axis]);
        let cluster = [0, 1, 2].map(|axis| self.index[axis] / context.cluster[axis]);
        along(cluster, clusters) * u64::from(context.cluster_blocks) + u64::from(self.rank)
    }

    /// The rank of the block in whose shared memory an address is, generic or not.
    fn rank_of(&self, context: &GridContext<'_>, address: u64) -> u32 {
        match window::rank(address) {
            Some(rank) if context.cluster_blocks > 1 => rank,
            _ => self.rank,
        }
    }
}
