//! A pool of memory for results and temporaries on the host.
//!
//! A page that the system has just given costs more to touch than most kernels cost to run, so that memory is kept when
//! it is no longer used, and given to the next buffer of its size. Sizes are rounded up to classes, four to each power
//! of two. What was used last is given out first, because it is in the caches.
//!
//! Idle memory is at most a quarter of the machine's. It goes back to the system when that is exceeded, when the machine
//! runs out of memory, and when [`BufferPool::release`] is called.

use crate::fork::{PerProcess, generation};
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The bytes of the smallest class, a page.
const LEAST_BYTES: u64 = 1 << LEAST_BITS;
const LEAST_BITS: u32 = 12;
/// The classes up to 2^46 bytes.
const N_CLASSES: usize = 4 * 34 + 1;
/// The alignment of a buffer: a cache line, which is also what vectors need.
const ALIGNMENT: usize = 64;
/// Buffers of at least so many bytes are aligned to it, so that the system can use large pages.
const LARGE_PAGE: u64 = 2 << 20;
/// With less idle memory than this, nobody asks how much the machine has left.
const UNWATCHED_BYTES: u64 = 64 << 20;
/// The machine runs out of memory when less than one part in so many is available.
const LEAST_AVAILABLE: u64 = 16;
/// Milliseconds after which the machine is asked again.
const WATCH_EVERY_MS: u64 = 500;

/// Figures of a pool, in bytes unless they are counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferPoolReport {
    /// The most that may be idle.
    pub limit: u64,
    /// Memory that waits for a buffer.
    pub idle: u64,
    /// Memory of live buffers.
    pub used: u64,
    /// The most that live buffers have had at a time.
    pub peak: u64,
    /// The number of buffers for which the system gave memory.
    pub n_allocated: u64,
    /// The number of buffers in memory that was idle.
    pub n_reused: u64,
}

/// Idle blocks by class, and figures.
#[derive(Debug)]
pub struct BufferPool {
    classes: [Mutex<Vec<usize>>; N_CLASSES],
    started: Instant,
    /// That of the process that the pool is of.
    generation: u32,
    limit: u64,
    idle: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
    n_allocated: AtomicU64,
    n_reused: AtomicU64,
    watched_at: AtomicU64,
}

/// Memory of a pool, which goes back there when this is dropped. Its contents are whatever was there before.
#[derive(Debug)]
pub struct PoolBuffer {
    address: NonNull<u8>,
    class: u32,
    pool: &'static BufferPool,
}

// SAFETY: a buffer owns its memory alone; the pool is shared by locks and atomics.
unsafe impl Send for PoolBuffer {}
// SAFETY: as above; nothing is reached through a shared buffer but its address.
unsafe impl Sync for PoolBuffer {}

/// The process's pool. A forked child has its own, because another thread may have held a lock of its parent's.
pub fn buffer_pool() -> &'static BufferPool {
    static POOL: PerProcess<BufferPool> = PerProcess::new();
    POOL.get()
}

impl Default for BufferPool {
    fn default() -> BufferPool {
        BufferPool {
            classes: std::array::from_fn(|_| Mutex::default()),
            started: Instant::now(),
            generation: generation(),
            limit: machine_bytes() / 4,
            idle: AtomicU64::default(),
            used: AtomicU64::default(),
            peak: AtomicU64::default(),
            n_allocated: AtomicU64::default(),
            n_reused: AtomicU64::default(),
            watched_at: AtomicU64::default(),
        }
    }
}

/// Returns the class of buffers of so many bytes: the smallest that holds them.
fn class_of(n_bytes: u64) -> usize {
    let Some(last) = n_bytes.max(LEAST_BYTES).checked_sub(1) else { return 0 };
    // The three highest bits of the last byte's offset: a power of two and a quarter of it.
    let exponent = 63 - last.leading_zeros();
    let quarter = (last >> (exponent - 2)) & 3;
    if exponent < LEAST_BITS { 0 } else { (4 * (exponent - LEAST_BITS)) as usize + quarter as usize + 1 }
}

/// Returns the bytes of a class.
const fn class_bytes(class: usize) -> u64 {
    (4 + class as u64 % 4) << (LEAST_BITS - 2 + class as u32 / 4)
}

fn layout_of(class: usize) -> Option<Layout> {
    let n_bytes = class_bytes(class);
    let alignment = if n_bytes >= LARGE_PAGE { LARGE_PAGE as usize } else { ALIGNMENT };
    Layout::from_size_align(usize::try_from(n_bytes).ok()?, alignment).ok()
}

impl BufferPool {
    /// Gives memory for so many bytes, aligned to 64; none if there is none.
    pub fn take(&'static self, n_bytes: u64) -> Option<PoolBuffer> {
        let class = class_of(n_bytes);
        let idle = self.idle_blocks(class)?.pop();
        let bytes = class_bytes(class);
        let address = match idle {
            Some(address) => {
                self.idle.fetch_sub(bytes, Ordering::Relaxed);
                self.n_reused.fetch_add(1, Ordering::Relaxed);
                NonNull::new(address as *mut u8)?
            }
            None => {
                let address = allocate(class).or_else(|| {
                    self.release();
                    allocate(class)
                })?;
                self.n_allocated.fetch_add(1, Ordering::Relaxed);
                address
            }
        };
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(used, Ordering::Relaxed);
        }
        Some(PoolBuffer { address, class: class as u32, pool: self })
    }

    /// Gives all idle memory back to the system.
    pub fn release(&self) {
        self.release_until(0);
    }

    /// Returns the figures now.
    pub fn report(&self) -> BufferPoolReport {
        let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        BufferPoolReport {
            limit: self.limit,
            idle: of(&self.idle),
            used: of(&self.used),
            peak: of(&self.peak),
            n_allocated: of(&self.n_allocated),
            n_reused: of(&self.n_reused),
        }
    }

    fn idle_blocks(&self, class: usize) -> Option<MutexGuard<'_, Vec<usize>>> {
        self.classes.get(class).map(|blocks| blocks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives memory back to the system, the largest blocks first, until no more than so many bytes are idle.
    fn release_until(&self, most: u64) {
        for class in (0..N_CLASSES).rev() {
            while self.idle.load(Ordering::Relaxed) > most {
                let Some(address) = self.idle_blocks(class).and_then(|mut blocks| blocks.pop()) else { break };
                self.idle.fetch_sub(class_bytes(class), Ordering::Relaxed);
                free(class, address);
            }
        }
    }

    fn give_back(&self, class: usize, address: NonNull<u8>) {
        let bytes = class_bytes(class);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        // In a forked child nobody may wait for the locks of its parent's pool.
        if bytes > self.limit || self.generation != generation() {
            return free(class, address.as_ptr() as usize);
        }
        let idle = self.idle.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(mut blocks) = self.idle_blocks(class) {
            blocks.push(address.as_ptr() as usize);
        }
        if idle > self.limit {
            self.release_until(self.limit);
        } else if idle > UNWATCHED_BYTES && self.is_machine_out_of_memory() {
            self.release();
        }
    }

    /// Asks the machine now and then.
    fn is_machine_out_of_memory(&self) -> bool {
        let now = self.started.elapsed().as_millis() as u64;
        let before = self.watched_at.load(Ordering::Relaxed);
        if now < before + WATCH_EVERY_MS {
            return false;
        }
        self.watched_at.store(now, Ordering::Relaxed);
        available_bytes().is_some_and(|available| available < 4 * self.limit / LEAST_AVAILABLE)
    }
}

impl PoolBuffer {
    /// The address of the first byte.
    #[inline]
    pub fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// The bytes that are there, at least as many as were asked for.
    pub fn n_bytes(&self) -> u64 {
        class_bytes(self.class as usize)
    }
}

impl Drop for PoolBuffer {
    fn drop(&mut self) {
        self.pool.give_back(self.class as usize, self.address);
    }
}

fn allocate(class: usize) -> Option<NonNull<u8>> {
    let layout = layout_of(class)?;
    // SAFETY: a class has at least one page.
    let address = NonNull::new(unsafe { alloc(layout) })?;
    #[cfg(target_os = "linux")]
    if layout.align() as u64 == LARGE_PAGE {
        // The answer does not matter, because it is a hint.
        // SAFETY: the memory is this function's, and its contents stay what they are.
        unsafe { libc::madvise(address.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    Some(address)
}

fn free(class: usize, address: usize) {
    let (Some(layout), Some(address)) = (layout_of(class), NonNull::new(address as *mut u8)) else { return };
    // SAFETY: `allocate` made it for this class, and nobody has it any more.
    unsafe { dealloc(address.as_ptr(), layout) };
}

/// Returns the memory of the machine in bytes; 4 GiB if it does not tell.
fn machine_bytes() -> u64 {
    #[cfg(unix)]
    {
        // SAFETY: these have no requirements.
        let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        if let (Ok(pages @ 1..), Ok(size @ 1..)) = (u64::try_from(pages), u64::try_from(size)) {
            return pages.saturating_mul(size);
        }
    }
    4 << 30
}

/// Returns the memory that the machine has left, if it tells.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(limit: u64) -> &'static BufferPool {
        Box::leak(Box::new(BufferPool { limit, ..BufferPool::default() }))
    }

    #[test]
    fn a_class_holds_its_bytes_and_wastes_at_most_a_quarter() {
        for n_bytes in (1..70_000).chain([1 << 20, (1 << 20) + 1, (5 << 20) - 1, 3 << 30, (1 << 45) + 7]) {
            let bytes = class_bytes(class_of(n_bytes));
            assert!(bytes >= n_bytes, "{n_bytes}");
            assert!(bytes <= LEAST_BYTES || bytes - n_bytes <= n_bytes / 4, "{n_bytes} in {bytes}");
        }
    }

    #[test]
    fn memory_is_used_again_the_last_first() {
        let pool = pool(1 << 30);
        let (a, b) = (pool.take(5000).unwrap(), pool.take(5000).unwrap());
        let (first, second) = (a.address(), b.address());
        drop(a);
        drop(b);
        assert_eq!(pool.take(4097).unwrap().address(), second);
        let (c, d) = (pool.take(5100).unwrap(), pool.take(5100).unwrap());
        assert_eq!([c.address(), d.address()], [second, first]);
        let report = pool.report();
        assert_eq!((report.n_allocated, report.n_reused, report.idle), (2, 3, 0));
        assert_eq!(report.used, report.peak);
    }

    #[test]
    fn idle_memory_keeps_to_the_limit_and_is_released() {
        let pool = pool(100_000);
        let buffers: Vec<PoolBuffer> = (0..20).map(|_| pool.take(10_000).unwrap()).collect();
        assert!(pool.report().used >= 200_000);
        drop(buffers);
        assert!((1..=100_000).contains(&pool.report().idle));
        drop(pool.take(1 << 20));
        assert!(pool.report().idle <= 100_000);
        pool.release();
        assert_eq!((pool.report().idle, pool.report().used), (0, 0));
    }

    #[test]
    fn buffers_are_aligned_and_may_be_written() {
        for n_bytes in [0, 1, 4096, 3 << 20] {
            let buffer = pool(1 << 30).take(n_bytes).unwrap();
            assert!((buffer.address() as usize).is_multiple_of(ALIGNMENT));
            // SAFETY: the buffer has that many bytes, and is this test's.
            unsafe { std::ptr::write_bytes(buffer.address(), 1, buffer.n_bytes() as usize) };
        }
    }
}
