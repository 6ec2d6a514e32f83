//! What a launch counts when asked to.

use crate::decode::op::InstClass;

/// Counts of one launch.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Counters {
    /// Instructions, counted once a warp.
    pub warp_instructions: u64,
    /// Instructions, counted once a thread.
    pub thread_instructions: u64,
    /// Warps and threads of each class, in the order of `InstClass::ALL`; predicated-off threads are left out.
    pub classes: [(u64, u64); InstClass::ALL.len()],
    /// Branches that divided the lanes of a path.
    pub divergent_branches: u64,
    /// Loads and atomics of global memory, once a warp.
    pub global_loads: u64,
    /// Stores to global memory, once a warp.
    pub global_stores: u64,
    /// Sectors of 32 bytes that global accesses touch.
    pub global_sectors: u64,
    /// Bytes that global accesses use: of an access of a warp, each once.
    pub global_bytes: u64,
    /// Accesses of shared memory, once a warp.
    pub shared_accesses: u64,
    /// Passes over shared memory beyond those that no conflict of banks would need.
    pub shared_conflicts: u64,
    /// Number of blocks that fit a multiprocessor.
    pub occupancy: Option<crate::occupancy::Occupancy>,
}

impl Counters {
    #[inline]
    pub(crate) fn count(&mut self, class: InstClass, lanes: u32) {
        let (warps, threads) = &mut self.classes[class as usize];
        *warps += 1;
        *threads += u64::from(lanes.count_ones());
    }

    /// Adds another's counts.
    pub(crate) fn add(&mut self, other: &Counters) {
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        self.divergent_branches += other.divergent_branches;
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        self.global_sectors += other.global_sectors;
        self.global_bytes += other.global_bytes;
        self.shared_accesses += other.shared_accesses;
        self.shared_conflicts += other.shared_conflicts;
    }

    /// Bytes used over bytes moved, 1 at best, or `None` without global accesses.
    pub fn coalescing(&self) -> Option<f64> {
        (self.global_sectors > 0).then(|| self.global_bytes as f64 / (32 * self.global_sectors) as f64)
    }

    /// Returns what was counted for a class: once a warp, and once a thread.
    pub fn class(&self, class: InstClass) -> (u64, u64) {
        self.classes[class as usize]
    }
}
