//! A cluster: blocks that run at once, see each other's shared memory, and meet at `barrier.cluster` (PTX ISA 9.0
//! §2.2.2, §9.7.13.4).

use crate::memory::region::MemoryRegion;
use crate::sanitize::cluster::ClusterChecks;
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
pub(super) struct ClusterBarrier {
    /// Those that have not exited.
    pub(super) alive: Vec<u32>,
    /// Those that arrived in the present phase.
    pub(super) arrived: Vec<u32>,
    /// Those that arrived, in this phase or the one before, and have not waited for that.
    pub(super) owing: Vec<u32>,
}

impl ClusterBarrier {
    /// Ends the phase if all lanes have come.
    pub(super) fn try_complete(&mut self) -> bool {
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
        checks: Option<ClusterChecks>,
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
        cluster.reset(checks, present, n_blocks);
        cluster
    }

    /// Begins anew, with the memory that it has.
    pub(crate) fn reset(&mut self, checks: Option<ClusterChecks>, present: &[u32], n_blocks: u32) {
        let barrier = self.barrier.get_mut().unwrap_or_else(PoisonError::into_inner);
        barrier.alive.clear();
        (0..n_blocks).for_each(|_| barrier.alive.extend(present));
        for lanes in [&mut barrier.arrived, &mut barrier.owing] {
            lanes.clear();
            lanes.resize(present.len() * n_blocks as usize, 0);
        }
        *self.completed.get_mut() = 0;
        *self.ended.get_mut() = 0;
        self.checks = checks.map(Mutex::new);
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

    /// Returns what the checks know of the cluster, if there are any.
    pub(crate) fn checks(&self) -> Option<MutexGuard<'_, ClusterChecks>> {
        Some(self.checks.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn barrier(&self) -> MutexGuard<'_, ClusterBarrier> {
        self.barrier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn complete(&self) {
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
