//! Memory of a GPU, and of the host for it: which allocations live, which streams use them, and what arrays have given back
//! and later ones take.
//!
//! The driver maps memory when it is asked for and waits for the device when it is given back: on an H200, 0.3 ms for a
//! quarter of a gigabyte, in which a kernel reads and writes as much as the array holds. Sizes are rounded to classes, so
//! that arrays of about one size take each other's memory.
//!
//! An allocation remembers the streams that use it, also while it is unused, so that whoever uses it next is in order after
//! them: nobody is waited for when memory is given back. The pool itself knows no driver, and streams by their order alone.

use crate::device::{DeviceMemoryLimits, DeviceMemoryReport};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The least size. Addresses of the driver's allocations are multiples of it.
const LEAST_BYTES: usize = 512;
/// Sizes from half of this on are rounded to multiples of it: the driver maps memory in such pages.
const LARGE_STEP: usize = 2 << 20;
/// A block is used for an allocation that leaves at most one part in so many of it unused, beyond rounding.
const MOST_WASTE: usize = 8;
/// Most bytes of pinned memory of the host that are kept unused.
const MOST_PINNED_IDLE: usize = 256 << 20;
/// Most allocations of other libraries that are remembered.
const MOST_FOREIGN: usize = 4096;
/// The number of allocations that a report names.
const N_LARGEST: usize = 8;

/// Says of streams which are in order without an event between them.
pub(super) trait StreamOrder: Clone {
    /// Returns true if it is the same stream.
    fn is(&self, other: &Self) -> bool;
    /// Returns true if work that is put into this one now comes after all that is in the other one.
    fn follows(&self, other: &Self) -> bool;
}

/// Where memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemoryKind {
    /// The device's, by way of the pool.
    Device,
    /// The host's, pinned, by way of the pool.
    Pinned,
    /// Managed memory, which goes back to the driver.
    Managed,
    /// The host's, which somebody has allocated and registered.
    Registered,
    /// Another library's.
    Foreign,
}

/// The streams that use an allocation.
#[derive(Clone, Debug)]
pub(super) struct UseHistory<S> {
    /// The stream that wrote it last.
    writer: Option<S>,
    /// The streams that have read it since, each of which has waited for the writer.
    readers: SmallVec<[S; 2]>,
}

impl<S> Default for UseHistory<S> {
    fn default() -> UseHistory<S> {
        UseHistory { writer: None, readers: SmallVec::new() }
    }
}

impl<S: StreamOrder> UseHistory<S> {
    /// The history of memory that a stream has written.
    pub(super) fn written_by(stream: S) -> UseHistory<S> {
        UseHistory { writer: Some(stream), readers: SmallVec::new() }
    }

    /// All streams in it.
    pub(super) fn streams(&self) -> impl Iterator<Item = &S> {
        self.writer.iter().chain(&self.readers)
    }

    /// The stream that wrote the memory last.
    pub(super) fn writer(&self) -> Option<&S> {
        self.writer.as_ref()
    }

    /// Notes a use by a stream. Gives the streams that it has to wait for before.
    fn begin(&mut self, stream: &S, is_written: bool) -> SmallVec<[S; 2]> {
        let has_waited = self.readers.iter().any(|reader| reader.is(stream));
        let mut before = SmallVec::new();
        if !has_waited {
            before.extend(self.writer.iter().filter(|writer| !stream.follows(writer)).cloned());
        }
        if is_written {
            before.extend(self.readers.iter().filter(|reader| !stream.follows(reader)).cloned());
            *self = UseHistory::written_by(stream.clone());
        } else if !has_waited && !self.writer.as_ref().is_some_and(|writer| writer.is(stream)) {
            self.readers.push(stream.clone());
        }
        before
    }
}

/// A live allocation.
#[derive(Debug)]
struct Allocation<S> {
    kind: MemoryKind,
    /// The bytes that it takes.
    size: usize,
    /// The bytes that somebody asked for.
    n_bytes: usize,
    history: UseHistory<S>,
    /// The number of graphs that use it.
    n_graphs: u32,
    /// True if its owner has given it back, and a graph keeps it.
    is_freed: bool,
}

/// An allocation that nobody has.
#[derive(Debug)]
pub(super) struct UnusedBlock<S> {
    pub(super) address: u64,
    pub(super) kind: MemoryKind,
    pub(super) history: UseHistory<S>,
}

/// Describes what becomes of an allocation that is given back.
pub(super) enum Released<S> {
    /// It is kept, or was none.
    Kept,
    /// The driver gets it, after what streams do with it.
    ToDriver(UnusedBlock<S>),
}

/// The unused blocks of a kind, by size.
type UnusedBlocks<S> = BTreeMap<usize, Vec<UnusedBlock<S>>>;

/// The allocations of a device.
pub(super) struct MemoryPool<S> {
    live: BTreeMap<u64, Allocation<S>>,
    unused: UnusedBlocks<S>,
    unused_pinned: UnusedBlocks<S>,
    n_foreign: usize,
    n_used_bytes: usize,
    n_unused_bytes: usize,
    n_pinned_bytes: usize,
    n_unused_pinned_bytes: usize,
    most_reserved: usize,
    release_threshold: usize,
    used_high: usize,
    reserved_high: usize,
    n_allocated: u64,
    n_reused: u64,
    n_flushed: u64,
}

impl<S: StreamOrder> MemoryPool<S> {
    /// A pool that keeps at most so many bytes unused.
    pub(super) fn new(release_threshold: usize) -> MemoryPool<S> {
        MemoryPool {
            live: BTreeMap::new(),
            unused: BTreeMap::new(),
            unused_pinned: BTreeMap::new(),
            n_foreign: 0,
            n_used_bytes: 0,
            n_unused_bytes: 0,
            n_pinned_bytes: 0,
            n_unused_pinned_bytes: 0,
            most_reserved: usize::MAX,
            release_threshold,
            used_high: 0,
            reserved_high: 0,
            n_allocated: 0,
            n_reused: 0,
            n_flushed: 0,
        }
    }

    /// The size of an allocation for so many bytes: four classes to each power of two, and whole pages of large ones.
    pub(super) fn rounded(n_bytes: usize) -> usize {
        if n_bytes >= LARGE_STEP / 2 {
            return n_bytes.checked_next_multiple_of(LARGE_STEP).unwrap_or(n_bytes);
        }
        let n_bytes = n_bytes.max(LEAST_BYTES);
        let step = (n_bytes.next_power_of_two() / 8).max(LEAST_BYTES);
        n_bytes.next_multiple_of(step)
    }

    /// Returns true if the limit leaves room for so many bytes, whatever is unused.
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.n_used_bytes.saturating_add(size) <= self.most_reserved
    }

    /// Returns how many bytes have to go to the driver before it may give so many.
    pub(super) fn excess(&self, size: usize) -> usize {
        (self.n_used_bytes + self.n_unused_bytes).saturating_add(size).saturating_sub(self.most_reserved)
    }

    /// Takes an unused block for an allocation of this rounded size whose history is usable: the one that was used last, of
    /// the smallest size.
    pub(super) fn take(
        &mut self,
        kind: MemoryKind,
        (size, n_bytes): (usize, usize),
        mut is_usable: impl FnMut(&UseHistory<S>) -> bool,
    ) -> Option<u64> {
        let (blocks, idle) = match kind {
            MemoryKind::Pinned => (&mut self.unused_pinned, &mut self.n_unused_pinned_bytes),
            _ => (&mut self.unused, &mut self.n_unused_bytes),
        };
        let mut sizes = blocks.range_mut(size..=size.saturating_add(size / MOST_WASTE));
        let (size, block) = sizes.find_map(|(&size, blocks)| {
            let at = blocks.iter().rposition(|block| is_usable(&block.history))?;
            Some((size, blocks.remove(at)))
        })?;
        if blocks.get(&size).is_some_and(Vec::is_empty) {
            blocks.remove(&size);
        }
        *idle -= size;
        self.n_reused += 1;
        self.note(kind, block.address, (size, n_bytes), block.history);
        Some(block.address)
    }

    /// Notes an allocation that the driver has given.
    pub(super) fn add(
        &mut self,
        kind: MemoryKind,
        address: u64,
        (size, n_bytes): (usize, usize),
        history: UseHistory<S>,
    ) {
        self.n_allocated += 1;
        // What another library had there is gone.
        let end = address + size as u64;
        let foreign = self.live.range(..end).rev().take_while(|(at, other)| **at + other.size as u64 > address);
        let foreign: SmallVec<[u64; 2]> = foreign.map(|(at, _)| *at).collect();
        for at in foreign {
            if self.live.remove(&at).is_some_and(|other| other.kind == MemoryKind::Foreign) {
                self.n_foreign -= 1;
            }
        }
        self.note(kind, address, (size, n_bytes), history);
    }

    fn note(&mut self, kind: MemoryKind, address: u64, (size, n_bytes): (usize, usize), history: UseHistory<S>) {
        self.live.insert(address, Allocation { kind, size, n_bytes, history, n_graphs: 0, is_freed: false });
        match kind {
            MemoryKind::Pinned => self.n_pinned_bytes += size,
            MemoryKind::Device | MemoryKind::Managed => {
                self.n_used_bytes += size;
                self.used_high = self.used_high.max(self.n_used_bytes);
                self.reserved_high = self.reserved_high.max(self.n_used_bytes + self.n_unused_bytes);
            }
            MemoryKind::Registered | MemoryKind::Foreign => {}
        }
    }

    /// Takes an allocation back. While `keeps_all`, nothing goes to the driver.
    pub(super) fn put(&mut self, address: u64, keeps_all: bool) -> Released<S> {
        let Some(allocation) = self.live.get_mut(&address) else { return Released::Kept };
        if allocation.n_graphs > 0 {
            allocation.is_freed = true;
            return Released::Kept;
        }
        let Some(Allocation { kind, size, history, .. }) = self.live.remove(&address) else { return Released::Kept };
        let block = UnusedBlock { address, kind, history };
        match kind {
            MemoryKind::Device => {
                self.n_used_bytes -= size;
                if !keeps_all && self.n_unused_bytes + size > self.release_threshold {
                    return Released::ToDriver(block);
                }
                self.n_unused_bytes += size;
                self.unused.entry(size).or_default().push(block);
                Released::Kept
            }
            MemoryKind::Pinned => {
                self.n_pinned_bytes -= size;
                if !keeps_all && self.n_unused_pinned_bytes + size > MOST_PINNED_IDLE {
                    return Released::ToDriver(block);
                }
                self.n_unused_pinned_bytes += size;
                self.unused_pinned.entry(size).or_default().push(block);
                Released::Kept
            }
            MemoryKind::Managed => {
                self.n_used_bytes -= size;
                Released::ToDriver(block)
            }
            MemoryKind::Registered => Released::ToDriver(block),
            MemoryKind::Foreign => {
                self.n_foreign -= 1;
                Released::Kept
            }
        }
    }

    /// Notes that a stream uses the memory at an address. Gives the streams that it has to wait for before; nothing if
    /// nobody knows the memory.
    pub(super) fn begin_use(&mut self, address: u64, stream: &S, is_written: bool) -> Option<SmallVec<[S; 2]>> {
        let base = self.base_of(address)?;
        self.live.get_mut(&base).map(|allocation| allocation.history.begin(stream, is_written))
    }

    /// The first address of the allocation that an address is in.
    pub(super) fn base_of(&self, address: u64) -> Option<u64> {
        let (&base, allocation) = self.live.range(..=address).next_back()?;
        (address < base + allocation.size as u64).then_some(base)
    }

    /// The stream that wrote the memory at an address last.
    pub(super) fn writer_of(&self, address: u64) -> Option<&S> {
        self.live.get(&self.base_of(address)?)?.history.writer()
    }

    /// The streams that use an allocation.
    pub(super) fn streams_of(&self, base: u64) -> impl Iterator<Item = &S> {
        self.live.get(&base).into_iter().flat_map(|allocation| allocation.history.streams())
    }

    /// Remembers memory of another library.
    pub(super) fn add_foreign(&mut self, address: u64, size: usize) {
        if self.n_foreign >= MOST_FOREIGN {
            self.live.retain(|_, allocation| allocation.kind != MemoryKind::Foreign || allocation.n_graphs > 0);
            self.n_foreign = 0;
        }
        let allocation = Allocation {
            kind: MemoryKind::Foreign,
            size,
            n_bytes: size,
            history: UseHistory::default(),
            n_graphs: 0,
            is_freed: false,
        };
        if self.live.insert(address, allocation).is_none() {
            self.n_foreign += 1;
        }
    }

    /// Keeps the allocation at an address, or one of its graphs less.
    pub(super) fn keep_for_graph(&mut self, base: u64) {
        if let Some(allocation) = self.live.get_mut(&base) {
            allocation.n_graphs += 1;
        }
    }

    /// Ends what [`MemoryPool::keep_for_graph`] began.
    pub(super) fn drop_graph(&mut self, base: u64) -> Released<S> {
        let Some(allocation) = self.live.get_mut(&base) else { return Released::Kept };
        allocation.n_graphs = allocation.n_graphs.saturating_sub(1);
        match allocation.n_graphs == 0 && allocation.is_freed {
            true => self.put(base, false),
            false => Released::Kept,
        }
    }

    /// Takes out unused memory, the largest blocks first, until at most so many bytes are unused.
    pub(super) fn drain(&mut self, most_kept: usize) -> Vec<UnusedBlock<S>> {
        let mut drained = Vec::new();
        while self.n_unused_bytes > most_kept {
            let Some(mut entry) = self.unused.last_entry() else { break };
            let size = *entry.key();
            match entry.get_mut().pop() {
                Some(block) => {
                    self.n_unused_bytes -= size;
                    drained.push(block);
                }
                None => drop(entry.remove()),
            }
        }
        if most_kept == 0 {
            self.n_unused_pinned_bytes = 0;
            drained.extend(std::mem::take(&mut self.unused_pinned).into_values().flatten());
        }
        drained
    }

    /// Notes that idle memory goes to the driver because it had no more.
    pub(super) fn note_flush(&mut self) {
        self.n_flushed += 1;
    }

    /// Bytes that are kept unused.
    pub(super) fn n_unused_bytes(&self) -> usize {
        self.n_unused_bytes
    }

    /// Changes the limits; those that are absent stay.
    pub(super) fn set_limits(&mut self, limits: DeviceMemoryLimits) {
        let as_size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        if let Some(bytes) = limits.most_reserved {
            self.most_reserved = as_size(bytes);
        }
        if let Some(bytes) = limits.release_threshold {
            self.release_threshold = as_size(bytes);
        }
    }

    /// Returns the most that is kept unused.
    pub(super) fn release_threshold(&self) -> usize {
        self.release_threshold
    }

    /// Returns the figures now.
    pub(super) fn report(&self) -> DeviceMemoryReport {
        let own = self.live.values().filter(|each| matches!(each.kind, MemoryKind::Device | MemoryKind::Managed));
        let mut largest: Vec<u64> = own.map(|allocation| allocation.n_bytes as u64).collect();
        let n_live = largest.len() as u64;
        largest.sort_unstable_by(|a, b| b.cmp(a));
        largest.truncate(N_LARGEST);
        DeviceMemoryReport {
            most_reserved: self.most_reserved as u64,
            release_threshold: self.release_threshold as u64,
            used: self.n_used_bytes as u64,
            used_high: self.used_high as u64,
            idle: self.n_unused_bytes as u64,
            reserved_high: self.reserved_high as u64,
            n_allocated: self.n_allocated,
            n_reused: self.n_reused,
            n_flushed: self.n_flushed,
            n_live,
            largest,
            has_driver_pool: false,
            pinned: (self.n_pinned_bytes + self.n_unused_pinned_bytes) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stream 0 is a default stream, which is in order with those below 10.
    impl StreamOrder for u32 {
        fn is(&self, other: &u32) -> bool {
            self == other
        }

        fn follows(&self, other: &u32) -> bool {
            self == other || (*self == 0 && *other < 10) || (*other == 0 && *self < 10)
        }
    }

    const DEVICE: MemoryKind = MemoryKind::Device;

    fn pool(release_threshold: usize) -> MemoryPool<u32> {
        MemoryPool::new(release_threshold)
    }

    fn is_kept(released: Released<u32>) -> bool {
        matches!(released, Released::Kept)
    }

    /// Takes a block that any stream may use.
    fn take(pool: &mut MemoryPool<u32>, n_bytes: usize) -> Option<u64> {
        pool.take(DEVICE, (MemoryPool::<u32>::rounded(n_bytes), n_bytes), |_| true)
    }

    #[test]
    fn a_class_holds_its_bytes_and_wastes_at_most_a_quarter() {
        for n_bytes in (1..3000).chain([(1 << 20) - 1, 1 << 20, (5 << 20) + 1, (1 << 30) + 1]) {
            let size = MemoryPool::<u32>::rounded(n_bytes);
            assert!(size >= n_bytes && size.is_multiple_of(512), "{n_bytes} in {size}");
            assert!(size - n_bytes <= (n_bytes / 4).max(512) || size == 2 << 20, "{n_bytes} in {size}");
        }
        assert_eq!(MemoryPool::<u32>::rounded((5 << 20) + 1), 6 << 20);
        assert_eq!(MemoryPool::<u32>::rounded(usize::MAX), usize::MAX);
    }

    #[test]
    fn memory_goes_round_by_size() {
        let mut pool = pool(1 << 30);
        assert_eq!(take(&mut pool, 1000), None);
        pool.add(DEVICE, 0x1000, (1024, 1000), UseHistory::default());
        assert!(is_kept(pool.put(0x1000, false)));
        assert_eq!((pool.n_unused_bytes(), pool.report().used), (1024, 0));
        assert_eq!(take(&mut pool, 1025), None);
        assert_eq!(take(&mut pool, 513), Some(0x1000));
        assert_eq!((take(&mut pool, 1000), pool.n_unused_bytes()), (None, 0));
        // A block that is a little larger will do.
        pool.add(DEVICE, 0x10_0000, (34 << 20, 34 << 20), UseHistory::default());
        assert!(is_kept(pool.put(0x10_0000, false)));
        assert_eq!((take(&mut pool, 20 << 20), take(&mut pool, 32 << 20)), (None, Some(0x10_0000)));
        let report = pool.report();
        assert_eq!((report.n_allocated, report.n_reused, report.n_live), (2, 2, 2));
        assert_eq!((report.largest, report.used_high), (vec![32 << 20, 513], (34 << 20) + 1024));
    }

    #[test]
    fn what_is_too_much_or_of_others_goes_to_the_driver() {
        let mut pool = pool(2048);
        for address in [0x1000, 0x2000, 0x3000] {
            pool.add(DEVICE, address, (1024, 1024), UseHistory::default());
        }
        assert!(is_kept(pool.put(0x1000, false)) && is_kept(pool.put(0x2000, false)));
        assert!(!is_kept(pool.put(0x3000, false)), "the pool is full");
        assert!(is_kept(pool.put(0x4000, false)), "it is not the pool's");
        let given: Vec<u64> = pool.drain(1024).iter().map(|block| block.address).collect();
        assert_eq!((given, pool.n_unused_bytes()), (vec![0x2000], 1024));
        assert_eq!((pool.drain(0).len(), pool.n_unused_bytes(), take(&mut pool, 1024)), (1, 0, None));
    }

    #[test]
    fn a_stream_waits_for_the_writer_and_to_write_for_the_readers() {
        let mut pool = pool(0);
        pool.add(DEVICE, 0x1000, (1024, 1024), UseHistory::default());
        let mut use_by = |stream: u32, is_written: bool| pool.begin_use(0x1200, &stream, is_written).unwrap().to_vec();
        assert_eq!(use_by(1, true), []);
        assert_eq!(use_by(1, false), [], "a stream is in order with itself");
        assert_eq!(use_by(2, false), [1]);
        assert_eq!(use_by(2, false), [], "it has waited");
        assert_eq!(use_by(0, false), [], "the default stream is in order with all that block");
        assert_eq!(use_by(11, false), [1]);
        assert_eq!(use_by(3, true), [1, 2, 11], "and 0 without an event");
        assert_eq!(use_by(2, true), [3]);
        assert_eq!(pool.begin_use(0x1400, &1, false), None, "nobody knows that memory");
    }

    #[test]
    fn who_takes_memory_waits_for_those_who_used_it() {
        let mut pool = pool(1 << 20);
        pool.add(DEVICE, 0x1000, (1024, 1024), UseHistory::default());
        assert_eq!(pool.begin_use(0x1000, &1, true).unwrap().to_vec(), []);
        assert!(is_kept(pool.put(0x1000, false)));
        let of_stream =
            |stream: u32| move |history: &UseHistory<u32>| history.streams().all(|other| stream.follows(other));
        assert_eq!(pool.take(DEVICE, (1024, 1024), of_stream(2)), None, "stream 1 may be using it");
        assert_eq!(pool.take(DEVICE, (1024, 1024), of_stream(0)), Some(0x1000));
        assert_eq!(pool.begin_use(0x1000, &2, true).unwrap().to_vec(), [1]);
    }

    #[test]
    fn a_graph_keeps_what_it_uses() {
        let mut pool = pool(0);
        pool.add(DEVICE, 0x1000, (1024, 1024), UseHistory::default());
        pool.keep_for_graph(0x1000);
        pool.keep_for_graph(0x1000);
        assert!(is_kept(pool.put(0x1000, false)) && is_kept(pool.drop_graph(0x1000)));
        assert_eq!(pool.base_of(0x1001), Some(0x1000));
        assert!(!is_kept(pool.drop_graph(0x1000)), "the last graph gives it back");
        assert_eq!(pool.base_of(0x1001), None);
    }

    #[test]
    fn memory_of_other_libraries_is_replaced_by_what_comes_there() {
        let mut pool = pool(0);
        pool.add_foreign(0x1000, 0x1000);
        pool.add_foreign(0x4000, 0x1000);
        assert_eq!(pool.begin_use(0x1800, &1, true).unwrap().to_vec(), []);
        assert_eq!(pool.begin_use(0x1000, &2, false).unwrap().to_vec(), [1]);
        pool.add(DEVICE, 0x1800, (1024, 1024), UseHistory::default());
        assert_eq!(
            (pool.base_of(0x1000), pool.base_of(0x1801), pool.base_of(0x4001)),
            (None, Some(0x1800), Some(0x4000))
        );
        assert_eq!(pool.report().n_live, 1);
    }

    #[test]
    fn pinned_memory_is_taken_when_it_is_no_longer_used() {
        let mut pool = pool(0);
        pool.add(MemoryKind::Pinned, 0x1000, (1024, 1000), UseHistory::default());
        pool.begin_use(0x1000, &1, true);
        assert!(is_kept(pool.put(0x1000, false)));
        assert_eq!(take(&mut pool, 1000), None, "it is no memory of the device");
        assert_eq!(pool.take(MemoryKind::Pinned, (1024, 1000), |history| history.writer().is_none()), None);
        assert_eq!(pool.take(MemoryKind::Pinned, (1024, 1000), |_| true), Some(0x1000));
        assert_eq!((pool.report().pinned, pool.report().used), (1024, 0));
    }

    /// Sizes that change all the time, as of batches: what is idle serves most of them.
    #[test]
    fn sizes_that_vary_find_idle_memory() {
        let mut pool = pool(usize::MAX);
        let (mut next, mut seed) = (0x10_0000u64, 1u64);
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let n_bytes = (seed >> 40) as usize % (900 << 10) + 1;
            let size = MemoryPool::<u32>::rounded(n_bytes);
            let address = take(&mut pool, n_bytes).unwrap_or_else(|| {
                next += 0x10_0000;
                pool.add(DEVICE, next, (size, n_bytes), UseHistory::default());
                next
            });
            assert!(is_kept(pool.put(address, false)));
        }
        let report = pool.report();
        assert!(report.n_allocated < 50 && report.idle < 16 << 20, "{report:?}");
    }
}
