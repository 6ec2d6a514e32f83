//! This module holds what the checks know of a cluster.

use super::copies::PendingCopies;
use super::order::{Board, MBarrierTime};
use super::race::ShadowMemory;
use crate::memory::window::RESERVED_SHARED;
use rustc_hash::FxHashMap;

/// Describes what the checks know of the shared memory of a cluster. Addresses name the blocks that they are of.
#[derive(Default)]
pub(crate) struct ClusterChecks {
    /// A bit for each byte of each block's shared memory that was written.
    pub(super) written: Vec<Vec<u8>>,
    pub(super) shadow: ShadowMemory,
    pub(super) board: Board,
    pub(super) copies: PendingCopies,
    pub(super) mbarriers: FxHashMap<u64, MBarrierTime>,
    /// The barrier of the cluster, whose phases order threads as those of mbarriers do.
    pub(super) barrier: MBarrierTime,
}

impl ClusterChecks {
    pub(crate) fn new(shared_bytes: u32, n_blocks: u32) -> Self {
        let mut written = vec![0; (shared_bytes as usize).div_ceil(8)];
        // The system's own words count as written, because they are zero at first.
        written.iter_mut().take(RESERVED_SHARED as usize / 8).for_each(|bits| *bits = 0xff);
        ClusterChecks { written: vec![written; n_blocks as usize], ..ClusterChecks::default() }
    }

    /// All threads have come to the barrier of the cluster.
    pub(crate) fn barrier_completes(&mut self) {
        self.barrier.complete();
    }
}
