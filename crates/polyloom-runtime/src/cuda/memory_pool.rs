//! Memory of a GPU that arrays have given back and later ones take.
//!
//! The driver maps memory when it is asked for and waits for the device when it is given back: on an H200, 0.3 ms for a
//! quarter of a gigabyte, in which a kernel reads and writes as much as the array holds. Sizes are rounded, so that arrays
//! of about one size take each other's memory.
//!
//! The pool itself knows no stream. What is taken from it may still be in use by work that has been queued before, which the
//! caller has to order: [`super::queue::CudaQueue`] uses it in the default stream alone.

use std::collections::{BTreeMap, HashMap};

/// Sizes are rounded to multiples of this.
const SMALL_STEP: usize = 512;
/// Sizes from this on are rounded to multiples of it: the driver maps memory in such pages.
const LARGE_STEP: usize = 2 << 20;

/// The allocations of a device that the pool has made.
#[derive(Default)]
pub(super) struct MemoryPool {
    /// The sizes of all its allocations, in use or not.
    sizes: HashMap<u64, usize>,
    /// The unused ones, by size.
    unused: BTreeMap<usize, Vec<u64>>,
    n_unused_bytes: usize,
    /// Most bytes that are kept unused.
    limit: usize,
}

impl MemoryPool {
    /// A pool that keeps at most so many bytes unused.
    pub(super) fn new(limit: usize) -> MemoryPool {
        MemoryPool { limit, ..MemoryPool::default() }
    }

    /// The size of an allocation for so many bytes.
    pub(super) fn rounded(n_bytes: usize) -> usize {
        let step = if n_bytes < LARGE_STEP / 2 { SMALL_STEP } else { LARGE_STEP };
        n_bytes.checked_next_multiple_of(step).unwrap_or(n_bytes)
    }

    /// Takes an unused allocation of this rounded size.
    pub(super) fn take(&mut self, size: usize) -> Option<u64> {
        let address = self.unused.get_mut(&size)?.pop()?;
        self.n_unused_bytes -= size;
        Some(address)
    }

    /// Notes an allocation that is in use now.
    pub(super) fn add(&mut self, address: u64, size: usize) {
        self.sizes.insert(address, size);
    }

    /// Takes an allocation back. Returns false, and forgets it, if it is none of the pool's or the pool is full: the
    /// driver gets it then.
    pub(super) fn put(&mut self, address: u64) -> bool {
        let Some(&size) = self.sizes.get(&address) else { return false };
        if self.n_unused_bytes + size > self.limit {
            self.sizes.remove(&address);
            return false;
        }
        self.n_unused_bytes += size;
        self.unused.entry(size).or_default().push(address);
        true
    }

    /// Forgets an allocation, if it is one of the pool's.
    pub(super) fn forget(&mut self, address: u64) {
        self.sizes.remove(&address);
    }

    /// Forgets all unused allocations, which the driver gets.
    pub(super) fn drain(&mut self) -> Vec<u64> {
        self.n_unused_bytes = 0;
        let unused: Vec<u64> = std::mem::take(&mut self.unused).into_values().flatten().collect();
        for address in &unused {
            self.sizes.remove(address);
        }
        unused
    }

    /// Bytes that are kept unused.
    pub(super) fn n_unused_bytes(&self) -> usize {
        self.n_unused_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_round_by_size() {
        let mut pool = MemoryPool::new(1 << 30);
        let size = MemoryPool::rounded(1000);
        assert_eq!((size, pool.take(size)), (1024, None));
        pool.add(0x1000, size);
        assert!(pool.put(0x1000));
        assert_eq!(pool.n_unused_bytes(), 1024);
        assert_eq!(pool.take(MemoryPool::rounded(1025)), None);
        assert_eq!(pool.take(MemoryPool::rounded(513)), Some(0x1000));
        assert_eq!((pool.take(size), pool.n_unused_bytes()), (None, 0));
        assert_eq!(MemoryPool::rounded((5 << 20) + 1), 6 << 20);
        assert_eq!(MemoryPool::rounded(usize::MAX), usize::MAX);
    }

    #[test]
    fn what_is_too_much_or_of_others_goes_to_the_driver() {
        let mut pool = MemoryPool::new(2048);
        for address in [0x1000, 0x2000, 0x3000] {
            pool.add(address, 1024);
        }
        assert!(pool.put(0x1000) && pool.put(0x2000));
        assert!(!pool.put(0x3000), "the pool is full");
        assert!(!pool.put(0x4000), "it is not the pool's");
        let mut given = pool.drain();
        given.sort_unstable();
        assert_eq!((given, pool.n_unused_bytes(), pool.take(1024)), (vec![0x1000, 0x2000], 0, None));
        assert!(!pool.put(0x1000), "it has been given back");
    }
}
