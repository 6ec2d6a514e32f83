//! Launching a kernel on the CPU.
//!
//! The shortest way from [`launch`] to machine code matters as much as the longest launch: a small launch runs on the
//! calling thread with no allocation, no lock and no clock. Longer ones are cut into chunks, between which the launch
//! looks whether it should stop and whether better code has arrived.

use super::affinity::AffinityGuard;
use super::blocks::BlockRun;
use super::device::{Tier, TierPolicy};
use super::interpret::interpret;
use super::kernel::{CpuKernel, KernelInner};
use super::run::RunningLaunch;
use super::tiers;
use crate::args::ArgBlock;
use crate::error::LaunchError;
use crate::launch_grid::{checked_grid, grid_of};
use crate::launch_options::{LaunchOptions, LaunchStats};
use polyloom_codegen::CodegenError;
use polyloom_ir::MAX_DIMS;
use polyloom_ir::block_plan::BlockLaunch;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Launches estimated shorter than this run as one call on the calling thread.
const AT_ONCE_NS: f32 = 6_000.0;
/// One in so many small launches is timed.
const TIMED_EVERY: u64 = 64;

/// Launches estimated shorter than this need not be stopped, and keep nobody waiting.
const SHORT_NS: f32 = 5_000.0;

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
) -> Result<LaunchStats, LaunchError> {
    let started = options.timed.then(Instant::now);
    // SAFETY: passed on to the caller.
    let tier = unsafe { launch_code(&kernel.inner, shape, args, options)? };
    Ok(LaunchStats { tier, elapsed: started.map(|started| started.elapsed()), report: None })
}

/// Runs `kernel` as [`launch`] does; gives the tier of its code.
///
/// # Safety
///
/// As [`launch`].
#[inline]
unsafe fn launch_code(
    kernel: &Arc<KernelInner>,
    shape: &[u64],
    args: &ArgBlock,
    options: &LaunchOptions<'_>,
) -> Result<Option<Tier>, LaunchError> {
    let (grid, n_threads) = checked_grid(&kernel.params, shape, args)?;
    args.check_on_host(&kernel.params)?;
    if n_threads == 0 {
        return Ok(None);
    }
    let mut rank = shape.len() as u8;
    if kernel.needs_blocks {
        let function = &kernel.source.prepared.functions[kernel.source.prepared_kernel];
        grid_of(&function.metadata, &kernel.name, n_threads, options)?;
    }
    let _guard = restrict_affinity(kernel)?;
    let is_only_interpreted = kernel.device.policy() == TierPolicy::Always(Tier::Interpreter);
    if is_only_interpreted && options.tier.is_some_and(|tier| tier != Tier::Interpreter) {
        let error = CodegenError::new(
            "the device runs every kernel by the interpreter, and the launch names a tier: leave the tier out, or unset \
             POLYLOOM_TIER",
        );
        return Err(LaunchError::Compile { kernel: kernel.name.clone(), error });
    }
    let is_interpreted = is_only_interpreted || options.tier == Some(Tier::Interpreter);
    let blocks = if is_interpreted { None } else { blocks_of(kernel, grid, n_threads, rank, options) };
    if is_interpreted || (kernel.needs_blocks && blocks.is_none()) {
        // SAFETY: the caller vouches for the arguments, and `check_complete` for their number.
        unsafe { interpret(kernel, shape, args.words(), 0..n_threads, options)? };
        return Ok(Some(Tier::Interpreter));
    }
    let (mut grid, mut n_threads) = (grid, n_threads);
    if let Some(blocks) = &blocks {
        (rank, grid) = (1, blocks.grid());
        n_threads = grid[0];
    }
    let block = blocks.as_ref().map(|blocks| blocks.launch.grid.block);
    let variant = kernel.variant(rank, args, block, options.tier)?;
    let tier = variant.tier();
    let ns = n_threads as f32 * variant.ns_per_thread();
    let (n_before, is_hot) = variant.record(ns);
    if is_hot {
        tiers::promote(kernel, variant);
    }
    let run = RunningLaunch::new(kernel, variant, args.words(), grid, rank, n_threads, blocks);
    // Only a steady kernel runs at once, because it takes as long as it did last time; any other must leave room for
    // the launch to be stopped or shared. Now and then even a small launch is timed.
    // SAFETY: the caller vouches for the arguments, and `check_complete` for their number.
    unsafe {
        if ns < AT_ONCE_NS && kernel.cost.steady && !n_before.is_multiple_of(TIMED_EVERY) {
            run.run_at_once()?;
        } else {
            run.run_in_chunks(options, n_before == 0 || !kernel.cost.steady)?;
        }
    }
    Ok(Some(tier))
}

/// Says which code a launch with certain arguments runs, from one launch to the next. It is the business of one kernel.
#[derive(Debug)]
pub struct VariantChoice(AtomicUsize);

/// Says that no variant has been chosen.
const NOT_CHOSEN: usize = usize::MAX;

impl Default for VariantChoice {
    fn default() -> VariantChoice {
        VariantChoice(AtomicUsize::new(NOT_CHOSEN))
    }
}

impl Clone for VariantChoice {
    fn clone(&self) -> VariantChoice {
        VariantChoice(AtomicUsize::new(self.0.load(Ordering::Relaxed)))
    }
}

/// Runs a launch that is known to take at most a few microseconds: as one call on this thread, which nothing stops, of
/// code that is there and prints nothing. With a choice, the code is that of the launch before.
///
/// It gives nothing, and has done nothing, if that is not known; [`launch`] then runs it, or says what is wrong with
/// it.
///
/// # Safety
///
/// As [`launch`]. A choice has served launches of this kernel alone, of this rank and with these arguments.
#[inline]
pub unsafe fn launch_if_short(
    kernel: &CpuKernel,
    shape: &[u64],
    args: &ArgBlock,
    choice: Option<&VariantChoice>,
) -> Option<Result<(), LaunchError>> {
    let kernel = &kernel.inner;
    if !kernel.may_be_short {
        return None;
    }
    let (grid, n_threads) = checked_grid(&kernel.params, shape, args).ok()?;
    args.check_on_host(&kernel.params).ok()?;
    if n_threads == 0 {
        return Some(Ok(()));
    }
    let rank = shape.len() as u8;
    let variant = match choice.map(|choice| choice.0.load(Ordering::Relaxed)) {
        Some(slot) if slot != NOT_CHOSEN => kernel.variant_at(slot)?,
        _ => {
            let variant = kernel.known_variant(rank, args)?;
            if let Some(choice) = choice {
                choice.0.store(kernel.slot_of(variant)?, Ordering::Relaxed);
            }
            variant
        }
    };
    let ns = n_threads as f32 * variant.ns_per_thread();
    // One that is due to be timed is left to the other way, the first of all among them.
    if ns >= SHORT_NS || variant.n_launches().is_multiple_of(TIMED_EVERY) {
        return None;
    }
    let (_, is_hot) = variant.record(ns);
    if is_hot {
        tiers::promote(kernel, variant);
    }
    let run = RunningLaunch::new(kernel, variant, args.words(), grid, rank, n_threads, None);
    // SAFETY: the caller vouches for the arguments, and `check_complete` for their number.
    Some(unsafe { run.run_at_once() })
}

/// The calling thread confined to the kernel's cores, where it names some.
#[inline]
fn restrict_affinity(kernel: &KernelInner) -> Result<Option<AffinityGuard>, LaunchError> {
    if kernel.cores.is_empty() {
        return Ok(None);
    }
    AffinityGuard::to(&kernel.cores).map(Some).map_err(|error| LaunchError::Cores {
        kernel: kernel.name.clone(),
        cores: kernel.cores.to_vec(),
        error: error.to_string(),
    })
}

/// The blocks of a launch, if the kernel's threads are blocks.
#[inline]
fn blocks_of(
    kernel: &KernelInner,
    shape: [u64; MAX_DIMS],
    n_threads: u64,
    rank: u8,
    options: &LaunchOptions<'_>,
) -> Option<BlockRun> {
    let plan = kernel.source.blocks.as_ref()?;
    let function = kernel.source.prepared.functions.get(kernel.source.prepared_kernel)?;
    let grid = options.grid.unwrap_or_else(|| function.metadata.grid(n_threads));
    BlockRun::new(plan, function, BlockLaunch { grid, shape }, rank)
}

/// Runs by the interpreter, whatever the device's policy, one thread of a launch: the one with this row-major index.
/// None is run if the launch has fewer.
///
/// # Errors
///
/// [`LaunchError`].
///
/// # Safety
///
/// As [`launch`].
pub unsafe fn interpret_thread(
    kernel: &CpuKernel,
    shape: &[u64],
    args: &ArgBlock,
    thread: u64,
) -> Result<(), LaunchError> {
    let kernel = &kernel.inner;
    if kernel.needs_blocks {
        let message = "a thread of a block does not run alone".to_owned();
        return Err(LaunchError::Interpreter { kernel: kernel.name.clone(), message });
    }
    let (_, n_threads) = checked_grid(&kernel.params, shape, args)?;
    args.check_on_host(&kernel.params)?;
    let range = thread.min(n_threads)..thread.saturating_add(1).min(n_threads);
    // SAFETY: the caller vouches for the arguments, and `check_complete` for their number.
    unsafe { interpret(kernel, shape, args.words(), range, &LaunchOptions::default()) }
}
