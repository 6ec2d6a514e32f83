//! A cluster: blocks that run at once, see each other's shared memory, and meet at `barrier.cluster` (PTX ISA 9.0
//! §2.2.2, §9.7.13.4).

use super::block::BlockState;
use super::grid::GridContext;
use super::warp::{LanePath, PathStep, PathWait, WarpRun};
use crate::decode::op::{ClusterOp, DecodedInst};
use crate::memory::region::MemoryRegion;
use crate::memory::window;
use crate::report::{Finding, FindingKind};
use crate::sanitize::ClusterChecks;
use crate::syntax::ast::StateSpace;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most blocks of a cluster, where a kernel takes more than the eight that every GPU has.
pub(super) const MAX_CLUSTER_BLOCKS: u32 = 16;

/// Describes what the blocks of a cluster share. The number of a block in it is its rank.
pub(crate) struct Cluster {
    /// The shared memory of each block; empty if there is one block alone, which has its own.
    shared: Vec<Arc<MemoryRegion>>,
    barrier: Mutex<ClusterBarrier>,
    /// Phases of the barrier that are over.
    completed: AtomicU64,
    /// A bit for each block whose threads have all exited.
    ended: AtomicU32,
    checks: Option<Mutex<ClusterChecks>>,
}

/// Lanes of each warp, of all blocks one after the other.
#[derive(Default)]
struct ClusterBarrier {
    /// Those that have not exited.
    alive: Vec<u32>,
    /// Those that arrived in the present phase.
    arrived: Vec<u32>,
    /// Those that arrived, in this phase or the one before, and have not waited for that.
    owing: Vec<u32>,
}

impl ClusterBarrier {
    /// Ends the phase if all lanes have come.
    fn try_complete(&mut self) -> bool {
        let is_complete = self.arrived.iter().any(|lanes| *lanes != 0)
            && self.arrived.iter().zip(&self.alive).all(|(arrived, alive)| arrived & alive == *alive);
        if is_complete {
            self.arrived.fill(0);
        }
        is_complete
    }
}

impl Cluster {
    /// The cluster of blocks whose warps have these lanes.
    pub(crate) fn new(
        context: &GridContext<'_>,
        shared: Vec<Arc<MemoryRegion>>,
        present: &[u32],
        n_blocks: u32,
    ) -> Cluster {
        let mut cluster = Cluster {
            shared,
            barrier: Mutex::default(),
            completed: AtomicU64::new(0),
            ended: AtomicU32::new(0),
            checks: None,
        };
        cluster.reset(context, present, n_blocks);
        cluster
    }

    /// Begins anew, with the memory that it has.
    pub(crate) fn reset(&mut self, context: &GridContext<'_>, present: &[u32], n_blocks: u32) {
        let barrier = self.barrier.get_mut().unwrap_or_else(PoisonError::into_inner);
        barrier.alive.clear();
        (0..n_blocks).for_each(|_| barrier.alive.extend(present));
        for lanes in [&mut barrier.arrived, &mut barrier.owing] {
            lanes.clear();
            lanes.resize(present.len() * n_blocks as usize, 0);
        }
        *self.completed.get_mut() = 0;
        *self.ended.get_mut() = 0;
        self.checks = context.new_cluster_checks().map(Mutex::new);
    }

    /// The shared memory of another block than the one that asks.
    pub(crate) fn shared(&self, rank: u32) -> &MemoryRegion {
        &self.shared[rank as usize]
    }

    /// True if all threads of a block have exited, so that its shared memory is nobody's.
    pub(crate) fn has_ended(&self, rank: u32) -> bool {
        self.ended.load(Relaxed) >> rank & 1 != 0
    }

    /// Notes that all threads of a block have exited.
    pub(crate) fn end(&self, rank: u32) {
        self.ended.fetch_or(1 << rank, Relaxed);
    }

    /// Phases of the barrier that are over.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Relaxed)
    }

    /// What the checks know of the cluster, if there are any.
    pub(crate) fn checks(&self) -> Option<MutexGuard<'_, ClusterChecks>> {
        Some(self.checks.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn barrier(&self) -> MutexGuard<'_, ClusterBarrier> {
        self.barrier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self) {
        self.completed.fetch_add(1, Relaxed);
        if let Some(mut checks) = self.checks() {
            checks.barrier_completes();
        }
    }

    /// Lanes of a warp exit, which may be what the barrier waited for.
    pub(crate) fn exit(&self, warp: usize, lanes: u32) {
        let mut barrier = self.barrier();
        barrier.alive[warp] &= !lanes;
        if barrier.try_complete() {
            self.complete();
        }
    }
}

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
