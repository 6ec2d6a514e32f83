//! Launching a kernel on the CPU.
//!
//! The shortest way from [`launch`] to machine code matters as much as the longest launch: a small launch runs on the
//! calling thread with no allocation, no lock and no clock. Longer ones are cut into chunks, between which the launch
//! looks whether it should stop and whether better code has arrived.

use super::device::{Tier, TierPolicy};
use super::kernel::{CpuKernel, KernelInner, VariantState};
use crate::args::ArgBlock;
use crate::error::{LaunchError, Trap};
use crate::print;
use polyloom_codegen::LaunchContext;
use polyloom_codegen::abi::{Site, SiteKind};
use polyloom_ir::{MAX_DIMS, Span};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Launches estimated shorter than this run as one call on the calling thread.
const INLINE_NS: f32 = 8_000.0;
/// How long a chunk should take.
const CHUNK_NS: f32 = 500_000.0;
/// Chunks begin at multiples of this many threads.
const GRAIN: u64 = 64;

/// How a launch is run.
#[derive(Clone, Copy, Default)]
pub struct LaunchOptions<'a> {
    /// Stops the launch soon after it becomes true.
    pub cancel: Option<&'a AtomicBool>,
    /// Asked now and then by the calling thread; the launch stops soon after it returns true.
    pub interrupted: Option<&'a dyn Fn() -> bool>,
}

/// Runs `kernel` over a grid of threads and returns when all of them have run.
///
/// A grid with an extent of 0 runs nothing. Threads run in any order and at the same time.
///
/// # Errors
///
/// [`LaunchError`]. After a trap or a cancellation some of the threads have run.
///
/// # Safety
///
/// Every element of every array argument must be valid to read, and to write where the kernel writes, until the launch
/// returns, and must not be accessed meanwhile except by launches. A kernel compiled without checks must not be
/// given indices outside its arrays.
#[inline]
pub unsafe fn launch(
    kernel: &CpuKernel,
    shape: &[u64],
    args: &ArgBlock,
    options: &LaunchOptions<'_>,
) -> Result<(), LaunchError> {
    let kernel = &*kernel.inner;
    if shape.is_empty() || shape.len() > MAX_DIMS {
        return Err(LaunchError::Rank { rank: shape.len() });
    }
    args.check_complete(&kernel.params)?;
    let mut grid = [1; MAX_DIMS];
    grid[..shape.len()].copy_from_slice(shape);
    let Some(total) = n_threads(&grid) else { return Err(LaunchError::TooManyThreads { shape: shape.to_vec() }) };
    if total == 0 {
        return Ok(());
    }
    if kernel.device.policy() == TierPolicy::Always(Tier::Interpreter) {
        let message = "the interpreter tier is not in this build".to_owned();
        return Err(LaunchError::Interpreter { kernel: kernel.name.clone(), message });
    }
    let rank = shape.len() as u8;
    let variant = kernel.variant(rank, args.words())?;
    let run = Run {
        kernel,
        variant,
        words: args.words(),
        grid,
        rank,
        total,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        trap: OnceLock::new(),
    };
    let ns = total as f32 * variant.ns_per_thread();
    let n_launches = variant.record(ns);
    // SAFETY: the caller vouches for the arguments, and `check_complete` for their number.
    unsafe {
        if ns < INLINE_NS && !n_launches.is_multiple_of(64) {
            run.run_range(0, total);
        } else {
            run.run_chunks(options)?;
        }
    }
    run.finish()
}

/// How many threads a grid has, if `int32` can count them.
#[inline]
fn n_threads(grid: &[u64; MAX_DIMS]) -> Option<u64> {
    let product = grid.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent));
    match product {
        Some(total) if total <= i32::MAX as u64 => Some(total),
        // The product of the others may overflow beside an extent of 0.
        _ if grid.contains(&0) => Some(0),
        _ => None,
    }
}

struct TrapRecord {
    site: u32,
    index: i64,
    extent: i64,
    thread: u64,
}

/// A launch under way.
struct Run<'a> {
    kernel: &'a KernelInner,
    variant: &'a VariantState,
    words: &'a [u64],
    grid: [u64; MAX_DIMS],
    rank: u8,
    total: u64,
    /// First thread that nobody has claimed.
    next: AtomicU64,
    stop: AtomicBool,
    trap: OnceLock<TrapRecord>,
}

impl Run<'_> {
    /// Runs threads `begin..end` on this thread.
    ///
    /// # Safety
    ///
    /// As [`launch`].
    #[inline]
    unsafe fn run_range(&self, begin: u64, end: u64) {
        let context = LaunchContext {
            shape: self.grid,
            trap: on_trap,
            print: on_print,
            data: std::ptr::from_ref(self).cast_mut().cast::<c_void>(),
        };
        let entry = self.variant.entry();
        // SAFETY: the block is complete for this kernel, the context outlives the call, and the range lies in the grid.
        unsafe { entry(self.words.as_ptr().cast(), &context, begin, end) }
    }

    unsafe fn run_chunks(&self, options: &LaunchOptions<'_>) -> Result<(), LaunchError> {
        let mut pace = self.variant.ns_per_thread();
        loop {
            let size = ((CHUNK_NS / pace) as u64).max(1).next_multiple_of(GRAIN);
            let begin = self.next.fetch_add(size, Ordering::Relaxed);
            if begin >= self.total || self.stop.load(Ordering::Relaxed) {
                break;
            }
            let end = (begin + size).min(self.total);
            let start = Instant::now();
            // SAFETY: the caller vouches for the arguments.
            unsafe { self.run_range(begin, end) };
            let measured = start.elapsed().as_nanos() as f32 / (end - begin) as f32;
            pace = (0.5 * (pace + measured)).max(1e-3);
            let flagged = options.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed));
            if flagged || options.interrupted.is_some_and(|ask| ask()) {
                return Err(LaunchError::Cancelled);
            }
        }
        self.variant.set_ns_per_thread(pace);
        Ok(())
    }

    #[inline]
    fn finish(&self) -> Result<(), LaunchError> {
        match self.trap.get() {
            None => Ok(()),
            Some(record) => Err(self.trap_error(record)),
        }
    }

    #[cold]
    fn trap_error(&self, record: &TrapRecord) -> LaunchError {
        let nowhere = || Site { span: Span::NONE, kind: SiteKind::Assert("".into()) };
        LaunchError::Trap(Box::new(Trap {
            kernel: self.kernel.name.clone(),
            site: self.kernel.sites.sites.get(record.site as usize).cloned().unwrap_or_else(nowhere),
            index: record.index,
            extent: record.extent,
            thread: Trap::coordinates(&self.grid, self.rank.into(), record.thread),
        }))
    }
}

unsafe extern "C" fn on_trap(context: *const LaunchContext, site: u32, index: i64, extent: i64, thread: u64) {
    // SAFETY: compiled code hands back the context it was given, whose data is the `Run` of the launch under way.
    let run = unsafe { &*(*context).data.cast::<Run<'_>>() };
    // The first one wins.
    let _ = run.trap.set(TrapRecord { site, index, extent, thread });
    run.stop.store(true, Ordering::Relaxed);
}

unsafe extern "C" fn on_print(context: *const LaunchContext, site: u32, values: *const u64) {
    // SAFETY: as in `on_trap`.
    let run = unsafe { &*(*context).data.cast::<Run<'_>>() };
    let Some(SiteKind::Print(format, types)) = run.kernel.sites.sites.get(site as usize).map(|site| &site.kind) else {
        return;
    };
    // SAFETY: one slot an operand, as `PrintFn` says.
    let values = unsafe { std::slice::from_raw_parts(values, types.len()) };
    print::write(&print::format(format, types, values));
}
