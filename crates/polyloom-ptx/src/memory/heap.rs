//! The heap that `malloc` and `free` of a module's kernels share: blocks of a part of global memory, which outlive
//! launches.

use super::addresses::AddressRuns;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that blocks may have together: CUDA's `cudaLimitMallocHeapSize`, unless a program sets another.
const LIMIT: u64 = 8 << 20;
/// Holds what blocks begin at multiples of, and what their sizes count as multiples of.
const BLOCK_ALIGN: u64 = 16;
/// Says how far blocks are kept apart, so that an access past the end of one is none of another.
const GAP: u64 = 64;

/// Says where blocks are, and who has which.
pub(crate) struct DeviceHeap {
    inner: Mutex<HeapState>,
}

struct HeapState {
    blocks: AddressRuns<u64>,
    in_use: u64,
}

/// Returns what a block counts as.
fn counted(n_bytes: u64) -> u64 {
    n_bytes.next_multiple_of(BLOCK_ALIGN).max(BLOCK_ALIGN)
}

/// Returns what a block is called.
fn named(start: u64, n_bytes: &u64) -> String {
    format!("the {n_bytes} bytes that `malloc` gave at 0x{start:x}")
}

impl DeviceHeap {
    /// Addresses that a heap needs: there is place for as many blocks as may be with the gaps between them, and enough
    /// besides for what was freed to stay out of use for a while.
    pub(super) const SPAN: u64 = 8 * LIMIT;

    /// An empty heap at this address.
    pub(super) fn new(start: u64) -> DeviceHeap {
        DeviceHeap {
            inner: Mutex::new(HeapState { blocks: AddressRuns::new(start..start + DeviceHeap::SPAN, GAP), in_use: 0 }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, HeapState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block's address; `None` if the heap is full.
    pub(crate) fn alloc(&self, n_bytes: u64) -> Option<u64> {
        let mut inner = self.inner();
        if n_bytes > LIMIT || inner.in_use + counted(n_bytes) > LIMIT {
            return None;
        }
        let start = inner.blocks.place(n_bytes, BLOCK_ALIGN)?;
        inner.in_use += counted(n_bytes);
        inner.blocks.put(start, n_bytes);
        Some(start)
    }

    /// Gives a block back. Whether one begins there.
    pub(crate) fn free(&self, address: u64) -> bool {
        let mut inner = self.inner();
        let freed = inner.blocks.remove(address);
        inner.in_use -= freed.map_or(0, counted);
        freed.is_some()
    }

    /// The lanes of `lanes` whose `size` bytes are not inside one block.
    pub(crate) fn outside(&self, addresses: &[u64], lanes: u32, size: u64) -> u32 {
        let inner = self.inner();
        let is_outside = |address: u64| {
            let block = inner.blocks.before(address);
            block.is_none_or(|(start, n_bytes)| address - start + size > *n_bytes)
        };
        let all = addresses.iter().enumerate();
        let wrong = all.filter(|(lane, address)| lanes >> lane & 1 != 0 && is_outside(**address));
        wrong.fold(0, |set, (lane, _)| set | 1 << lane)
    }

    /// In words, which byte of a block is at an address.
    pub(crate) fn describe_byte(&self, address: u64) -> String {
        let inner = self.inner();
        let block = inner.blocks.before(address).filter(|(start, n_bytes)| address - start < **n_bytes);
        let byte = block.map(|(start, n_bytes)| format!("byte {} of {}", address - start, named(start, n_bytes)));
        drop(inner);
        byte.unwrap_or_else(|| self.describe(address))
    }

    /// In words, where an address in it lies.
    pub(crate) fn describe(&self, address: u64) -> String {
        let place = self.inner().blocks.describe(address, named);
        place.unwrap_or_else(|| "in the heap of `malloc`, where nothing is".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_has_eight_mebibytes() {
        let heap = DeviceHeap::new(1 << 40);
        let blocks: Vec<u64> = std::iter::from_fn(|| heap.alloc(1)).collect();
        assert_eq!(blocks.len() as u64, LIMIT / BLOCK_ALIGN);
        assert!(blocks.iter().all(|block| block.is_multiple_of(BLOCK_ALIGN)));
        assert!(blocks.iter().all(|block| heap.free(*block)));
        assert!(!heap.free(blocks[0]));
        assert_eq!(heap.alloc(LIMIT + 1), None);
        let whole = heap.alloc(LIMIT).unwrap();
        assert_eq!(heap.alloc(0), None);
        assert_eq!(heap.outside(&[whole, whole + LIMIT - 4, whole + LIMIT - 3], 0b111, 4), 0b100);
        assert_eq!(heap.alloc(u64::MAX), None);
    }
}
