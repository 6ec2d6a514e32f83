//! One launch under way: cutting the grid into chunks, and what compiled code calls back.
//!
//! Chunks are claimed one by one by the calling thread, from the first threads on, and its helpers, from the last ones on,
//! each a share of what is left, so that threads of uneven length even out. Every chunk is timed: the pace of the launch
//! so far sets the length of the next chunk and, kept with the variant, the way the next launch goes about it.

use super::affinity::AffinityGuard;
use super::blocks::{BlockMemory, BlockRun};
use super::candidates::{CandidateTrial, MAX_TRIAL_CHUNK_NS};
use super::copies::HelperCopies;
use super::device::Tier;
use super::kernel::{KernelInner, VariantState};
use super::output::OrderedOutput;
use super::pool::Sleepers;
use super::thread_order::{TILE_ROWS, tiles};
use super::{pool, tiers};
use crate::device::{DeviceFailure, DeviceId};
use crate::error::{LaunchError, Trap};
use crate::launch_options::{ASK_EVERY, LaunchOptions};
use crate::print;
use polyloom_codegen::abi::{CallbackSite, SiteKind};
use polyloom_codegen::{KernelEntry, LaunchContext};
use polyloom_ir::{MAX_DIMS, Span};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Work that makes one more helper worth having, if it looks for work.
const NS_PER_HELPER: f32 = 5_000.0;
/// Work that is worth waking helpers for: waking one takes the caller about 3 microseconds.
const WAKING_NS: f32 = 10_000.0;
/// A chunk takes at least this long, so that claiming it costs little beside it.
const MIN_CHUNK_NS: f32 = 2_000.0;
/// A chunk takes at most this long, so that a cancelled launch stops promptly.
const MAX_CHUNK_NS: f32 = 1_000_000.0;
/// Length of a first chunk when the pace is a guess.
const PROBE_NS: f32 = 10_000.0;
/// Chunks are multiples of this many threads where there are enough, so that they are whole vectors and cache lines.
const GRAIN: u64 = 64;
/// The same for threads so long that a grain of them would make a launch slow to stop: the widest vector. Quick code
/// runs them one by one.
const GRAIN_OF_LONG_THREADS: u64 = 16;
/// Chunks that a participant's share of what is left is cut into.
const SHARES: u64 = 3;

/// A launch under way.
pub(crate) struct RunningLaunch<'a> {
    kernel: &'a Arc<KernelInner>,
    variant: &'a VariantState,
    words: &'a [u64],
    grid: [u64; MAX_DIMS],
    rank: u8,
    n_threads: u64,
    unclaimed: UnclaimedThreads,
    /// Threads of a row, if chunks run in tiles.
    tiled_row: Option<u64>,
    /// Nanoseconds a thread, as measured so far: the bits of an `f32`.
    pace: AtomicU32,
    stop: AtomicBool,
    trap: OnceLock<TrapRecord>,
    output: OrderedOutput,
    /// If the kernel's threads are blocks.
    blocks: Option<BlockRun>,
    /// Holds what helpers have added up in arrays of their own.
    copies: Mutex<Vec<HelperCopies>>,
    /// The candidate that all of the launch runs, or [`NO_CANDIDATE`].
    candidate: AtomicU8,
    /// Number of samples that the launch has given of it.
    n_samples: AtomicU32,
}

/// The threads that nobody has claimed.
struct UnclaimedThreads(Mutex<Range<u64>>);

impl UnclaimedThreads {
    fn lock(&self) -> MutexGuard<'_, Range<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn n_left(&self) -> u64 {
        let left = self.lock();
        left.end - left.start
    }

    /// Claims so many of the first threads, or all that are left.
    fn take_first(&self, size: u64) -> Range<u64> {
        let mut left = self.lock();
        let begin = left.start;
        left.start = left.end.min(begin.saturating_add(size));
        begin..left.start
    }

    /// Claims so many of the last threads, and fewer than a grain more so that chunks begin at multiples of it.
    fn take_last(&self, size: u64, grain: u64) -> Range<u64> {
        let mut left = self.lock();
        let end = left.end;
        let begin = end.saturating_sub(size);
        left.end = left.start.max(begin - begin % grain);
        left.end..end
    }
}

/// Says that chunks choose for themselves.
const NO_CANDIDATE: u8 = u8::MAX;

struct TrapRecord {
    site: u32,
    index: i64,
    extent: i64,
    thread: u64,
}

/// Describes what compiled code's callbacks find behind the launch context: one for each thread that takes part.
struct LaunchParticipant<'a> {
    run: &'a RunningLaunch<'a>,
    is_caller: bool,
    /// True if text can go out at once.
    prints_directly: Cell<bool>,
    text: RefCell<String>,
    /// If the kernel's threads are blocks: the memory of the one that runs.
    memory: Option<BlockMemory>,
    /// Copies of a helper that adds to copies of arrays.
    copies: Option<HelperCopies>,
}

impl<'a> RunningLaunch<'a> {
    /// A launch of `n_threads` threads. `words` is a complete block for the kernel.
    #[inline]
    pub(crate) fn new(
        kernel: &'a Arc<KernelInner>,
        variant: &'a VariantState,
        words: &'a [u64],
        grid: [u64; MAX_DIMS],
        rank: u8,
        n_threads: u64,
        blocks: Option<BlockRun>,
    ) -> RunningLaunch<'a> {
        RunningLaunch {
            kernel,
            variant,
            words,
            grid,
            rank,
            n_threads,
            unclaimed: UnclaimedThreads(Mutex::new(0..n_threads)),
            tiled_row: kernel.order.and_then(|order| order.row(words, &grid, rank)),
            pace: AtomicU32::new(variant.ns_per_thread().to_bits()),
            stop: AtomicBool::new(false),
            trap: OnceLock::new(),
            output: OrderedOutput::default(),
            blocks,
            copies: Mutex::default(),
            candidate: AtomicU8::new(NO_CANDIDATE),
            n_samples: AtomicU32::new(0),
        }
    }

    /// Runs all threads as one call on this thread.
    ///
    /// # Safety
    ///
    /// As [`super::launch::launch`].
    #[inline]
    pub(crate) unsafe fn run_at_once(&self) -> Result<(), LaunchError> {
        let participant = self.caller()?;
        participant.prints_directly.set(true);
        // SAFETY: the caller vouches for the arguments.
        unsafe { participant.execute(self.variant.entry(), 0, self.n_threads) };
        match self.trap.get() {
            None => Ok(()),
            Some(record) => Err(self.trap_error(record)),
        }
    }

    /// Runs all threads in chunks, with helpers if that pays. `measure_first`: the pace is not to be trusted, so that
    /// one thread alone shows first whether it is far off, and a short chunk then what it is.
    ///
    /// # Safety
    ///
    /// As [`super::launch::launch`].
    pub(crate) unsafe fn run_in_chunks(
        &self,
        options: &LaunchOptions<'_>,
        measure_first: bool,
    ) -> Result<(), LaunchError> {
        let caller = self.caller()?;
        self.choose_candidate();
        let mut watch = LaunchWatch::new(options);
        if measure_first {
            let known = self.pace();
            // SAFETY: the caller vouches for the arguments.
            let first = unsafe { caller.take_chunk(1) };
            watch.look(self);
            if let Some(first) = first.filter(|&ns| ns < PROBE_NS) {
                // In vector code one thread takes as long as many do, so that its time bounds the pace and does not
                // measure it.
                self.set_pace(known);
                let size = ((PROBE_NS / known) as u64).min((MAX_CHUNK_NS / first.max(1.0)) as u64);
                let grain = if self.blocks.is_some() { 1 } else { GRAIN };
                let size = size.max(1).next_multiple_of(grain).min(self.share(1));
                // This one is a thread shorter, so that later chunks begin at multiples of the grain again.
                // SAFETY: the caller vouches for the arguments.
                unsafe { caller.take_chunk(size - 1) };
                watch.look(self);
            }
        }
        let ns_left = self.n_left() as f32 * self.pace();
        let n_helpers = ((ns_left / NS_PER_HELPER) as usize).min(self.max_helpers(ns_left));
        let n_participants = n_helpers as u64 + 1;
        let cores = &self.kernel.cores;
        let help = || {
            // The caller is confined already, so that the system lets the helper be.
            let _guard = if cores.is_empty() { None } else { AffinityGuard::to(cores).ok() };
            // With no memory for one more, the others do it all.
            let Some(helper) = LaunchParticipant::new(self, false) else { return };
            while !self.output.is_full() {
                // SAFETY: the caller vouches for the arguments and waits for its helpers.
                if unsafe { helper.take_chunk(self.share(n_participants)) }.is_none() {
                    break;
                }
            }
            if let Some(copies) = helper.copies {
                self.copies.lock().unwrap_or_else(PoisonError::into_inner).push(copies);
            }
        };
        let sleepers = if ns_left < WAKING_NS { Sleepers::LetSleep } else { Sleepers::Wake };
        pool::with_helpers(n_helpers, sleepers, &help, || {
            // SAFETY: the caller vouches for the arguments.
            while unsafe { caller.take_chunk(self.share(n_participants)) }.is_some() {
                watch.look(self);
            }
        });
        if let Some(sums) = &self.kernel.plan.sums {
            for copies in std::mem::take(&mut *self.copies.lock().unwrap_or_else(PoisonError::into_inner)) {
                // SAFETY: the caller vouches for the arguments, and all helpers are done.
                unsafe { copies.add_to(sums, self.words) };
            }
        }
        self.variant.set_ns_per_thread(self.pace());
        self.finish(watch.cancelled)
    }

    /// Has all of the launch run one candidate, where candidates are measured and may give different bits.
    fn choose_candidate(&self) {
        let trial = if self.kernel.mixes_candidates { None } else { self.running_trial() };
        if let Some(trial) = trial.filter(|trial| trial.can_sample(self.n_threads, self.pace())) {
            self.candidate.store(trial.take_turn() as u8, Ordering::Relaxed);
        }
    }

    /// The trial that measures candidates of the variant now.
    #[inline]
    fn running_trial(&self) -> Option<&'a CandidateTrial> {
        self.variant.trial().filter(|trial| trial.is_running() && !self.kernel.device.is_deterministic())
    }

    /// The code that the next chunk runs, of so many threads, and the candidate that it is a sample of, if it is one.
    #[inline]
    fn code_of_chunk(&self, n_threads: u64) -> (KernelEntry, Option<(&'a CandidateTrial, usize)>) {
        match self.variant.trial() {
            None => (self.variant.entry(), None),
            Some(trial) => self.code_of_trial(trial, n_threads),
        }
    }

    fn code_of_trial(
        &self,
        trial: &'a CandidateTrial,
        n_threads: u64,
    ) -> (KernelEntry, Option<(&'a CandidateTrial, usize)>) {
        let sampling = self.running_trial().filter(|trial| trial.can_sample(n_threads, self.pace()));
        match self.candidate.load(Ordering::Relaxed) {
            NO_CANDIDATE => match sampling.filter(|_| self.kernel.mixes_candidates) {
                Some(trial) => {
                    let candidate = trial.take_turn();
                    (trial.entry(candidate), Some((trial, candidate)))
                }
                None => (self.variant.entry(), None),
            },
            candidate => {
                let candidate = usize::from(candidate);
                // Otherwise a long launch would cost much more than the measuring.
                if trial.is_rejected(candidate) {
                    return (self.variant.entry(), None);
                }
                let n_given = sampling.map(|_| self.n_samples.fetch_add(1, Ordering::Relaxed));
                let more = n_given.is_some_and(CandidateTrial::wants_more_of_launch);
                (trial.entry(candidate), sampling.filter(|_| more).map(|trial| (trial, candidate)))
            }
        }
    }

    /// The calling thread as one that takes part.
    #[inline]
    fn caller(&self) -> Result<LaunchParticipant<'_>, LaunchError> {
        LaunchParticipant::new(self, true).ok_or_else(|| self.out_of_memory())
    }

    #[cold]
    fn out_of_memory(&self) -> LaunchError {
        let n_bytes = self.blocks.as_ref().map_or(0, BlockRun::n_bytes);
        let failure = DeviceFailure::OutOfMemory { device: DeviceId::Cpu, n_bytes, holders: String::new() };
        LaunchError::Device { kernel: self.kernel.name.clone(), failure }
    }

    /// Most threads that may help with so much work.
    fn max_helpers(&self, ns: f32) -> usize {
        let by_memory = self.blocks.as_ref().map_or(usize::MAX, BlockRun::max_participants);
        let by_cores = if self.kernel.cores.is_empty() { usize::MAX } else { self.kernel.cores.len() };
        let most = pool::num_threads().min(by_memory).min(by_cores).saturating_sub(1);
        match &self.kernel.plan.sums {
            _ if !self.kernel.plan.alone => most,
            Some(sums) => most.min(sums.n_helpers(self.words, ns)),
            None => 0,
        }
    }

    fn finish(&self, cancelled: bool) -> Result<(), LaunchError> {
        if self.kernel.prints {
            print::write(&self.output.take_all());
        }
        match self.trap.get() {
            Some(record) => Err(self.trap_error(record)),
            None if cancelled => Err(LaunchError::Cancelled),
            None => Ok(()),
        }
    }

    #[cold]
    fn trap_error(&self, record: &TrapRecord) -> LaunchError {
        let nowhere = || CallbackSite { span: Span::NONE, kind: SiteKind::Assert("".into()) };
        let site = self.kernel.sites.sites.get(record.site as usize).cloned().unwrap_or_else(nowhere);
        let (shape, rank) = match &self.blocks {
            Some(blocks) => (&blocks.launch.shape, blocks.rank),
            None => (&self.grid, self.rank),
        };
        LaunchError::Trap(Box::new(Trap {
            kernel: self.kernel.name.clone(),
            index: Trap::index_at(&site, record.index),
            site,
            extent: record.extent,
            thread: Trap::coordinates(shape, rank.into(), record.thread),
        }))
    }

    fn n_left(&self) -> u64 {
        self.unclaimed.n_left()
    }

    fn pace(&self) -> f32 {
        f32::from_bits(self.pace.load(Ordering::Relaxed)).max(1e-3)
    }

    fn set_pace(&self, ns: f32) {
        self.pace.store(ns.to_bits(), Ordering::Relaxed);
    }

    /// Threads of the next chunk when so many take part: a share of what is left, neither too short nor too long,
    /// in whole rows of the grid if they are shorter than that.
    fn share(&self, n_participants: u64) -> u64 {
        let pace = self.pace();
        let longest = if self.running_trial().is_some() { MAX_TRIAL_CHUNK_NS } else { MAX_CHUNK_NS };
        let (shortest, longest) = ((MIN_CHUNK_NS / pace) as u64, (longest / pace) as u64);
        // Alone, a thread takes the longest chunk, because it has nobody to leave anything to.
        let share = if n_participants == 1 { longest } else { self.n_left() / (SHARES * n_participants) };
        let size = share.max(shortest).min(longest).max(1);
        let row = self.grid[usize::from(self.rank).clamp(1, MAX_DIMS) - 1];
        let tile_rows = self.tiled_row.map(|row| TILE_ROWS * row);
        let grain = match row * GRAIN.div_ceil(row) {
            _ if self.blocks.is_some() => 1,
            _ if let Some(rows) = tile_rows.filter(|&rows| rows <= size) => rows,
            rows if self.rank > 1 && rows <= size => rows,
            _ if longest < GRAIN && self.variant.tier() == Tier::Quick => 1,
            _ if longest < GRAIN => GRAIN_OF_LONG_THREADS,
            _ => GRAIN,
        };
        // Few long threads, so that each takes part in as few as it must for everyone to have some.
        let grain = grain.min(self.n_threads.div_ceil(n_participants));
        size.next_multiple_of(grain)
    }
}

impl<'a> LaunchParticipant<'a> {
    /// `None` if there is no memory for its blocks or copies.
    #[inline]
    fn new(run: &'a RunningLaunch<'a>, is_caller: bool) -> Option<LaunchParticipant<'a>> {
        let memory = match &run.blocks {
            Some(blocks) => Some(blocks.participant(run.words)?),
            None => None,
        };
        let copies = match &run.kernel.plan.sums {
            Some(sums) if !is_caller => Some(HelperCopies::new(sums, run.words)?),
            _ => None,
        };
        let (prints_directly, text) = (Cell::new(false), RefCell::default());
        Some(LaunchParticipant { run, is_caller, prints_directly, text, memory, copies })
    }

    /// Runs threads `begin..end` on this thread by code of the launch's variant.
    ///
    /// # Safety
    ///
    /// As [`super::launch::launch`].
    #[inline]
    unsafe fn execute(&self, entry: KernelEntry, begin: u64, end: u64) {
        let context = LaunchContext {
            shape: self.run.grid,
            trap: on_trap,
            print: on_print,
            data: std::ptr::from_ref(self).cast_mut().cast::<c_void>(),
        };
        let own = self.memory.as_ref().map(|memory| &memory.words).or(self.copies.as_ref().map(|copies| &copies.words));
        let words = own.map_or(self.run.words, |words| words);
        // SAFETY: the block is complete for this kernel, its code lives as long as the kernel, the context outlives
        // the call, and the range lies in the grid.
        unsafe { entry(words.as_ptr().cast(), &context, begin, end) }
    }

    /// Claims and runs the next `size` threads, at least one; gives how many nanoseconds each of them took, or nothing
    /// if there were none left to run.
    ///
    /// # Safety
    ///
    /// As [`super::launch::launch`].
    unsafe fn take_chunk(&self, size: u64) -> Option<f32> {
        let run = self.run;
        if run.stop.load(Ordering::Relaxed) {
            return None;
        }
        // Otherwise a chunk of no threads would be claimed for ever and have no pace.
        let size = size.max(1);
        // Helpers begin at the end, so that launches one after the other find most of their data in the caches of the same
        // cores. What is printed goes out in order.
        let grain = match run.tiled_row {
            Some(row) if row <= size => row,
            _ if run.blocks.is_some() || size < GRAIN => 1,
            _ => GRAIN,
        };
        let is_from_end = !self.is_caller && !run.kernel.prints;
        let Range { start: begin, end } =
            if is_from_end { run.unclaimed.take_last(size, grain) } else { run.unclaimed.take_first(size) };
        if begin == end {
            return None;
        }
        if run.kernel.prints {
            self.prints_directly.set(self.is_caller && run.output.is_next(begin));
        }
        let (entry, sampled) = run.code_of_chunk(end - begin);
        let start = Instant::now();
        match run.tiled_row {
            // SAFETY: the caller vouches for the arguments.
            None => unsafe { self.execute(entry, begin, end) },
            Some(row) => tiles(begin..end, row).for_each(|tile| {
                // SAFETY: the caller vouches for the arguments.
                unsafe { self.execute(entry, tile.start, tile.end) }
            }),
        }
        let measured = start.elapsed().as_nanos() as f32 / (end - begin) as f32;
        if let Some((trial, candidate)) = sampled
            && !run.stop.load(Ordering::Relaxed)
            && trial.record(candidate, measured)
        {
            run.kernel.end_trial(run.variant, trial);
        }
        // Others may do the same at the same time; any of the outcomes will do.
        run.set_pace(0.5 * (run.pace() + measured));
        if run.kernel.prints {
            run.output.submit(begin, end, self.text.take());
            if self.is_caller {
                print::write(&run.output.take_ready());
            }
        }
        Some(measured)
    }
}

/// Looks, between the chunks of the calling thread, whether to stop and whether better code is worth having.
struct LaunchWatch<'o> {
    options: &'o LaunchOptions<'o>,
    started: Instant,
    asked: Instant,
    cancelled: bool,
}

impl<'o> LaunchWatch<'o> {
    fn new(options: &'o LaunchOptions<'o>) -> LaunchWatch<'o> {
        let now = Instant::now();
        LaunchWatch { options, started: now, asked: now, cancelled: false }
    }

    fn look(&mut self, run: &RunningLaunch<'_>) {
        let now = Instant::now();
        let ask = now.duration_since(self.asked) >= ASK_EVERY;
        if ask {
            self.asked = now;
        }
        if self.options.is_cancelled(ask) {
            self.cancelled = true;
            run.stop.store(true, Ordering::Relaxed);
        }
        if now.duration_since(self.started).as_nanos() as u64 >= run.variant.hot_after_ns() {
            tiers::promote(run.kernel, run.variant);
        }
    }
}

unsafe extern "C" fn on_trap(context: *const LaunchContext, site: u32, index: i64, extent: i64, thread: u64) {
    // SAFETY: compiled code hands back the context it was given, whose data is a participant of the launch under way.
    let participant = unsafe { &*(*context).data.cast::<LaunchParticipant<'_>>() };
    let thread = match (&participant.run.blocks, &participant.memory) {
        (Some(blocks), Some(memory)) => thread * blocks.launch.grid.block_size() + memory.failed_thread(),
        _ => thread,
    };
    // The first one wins.
    let _ = participant.run.trap.set(TrapRecord { site, index, extent, thread });
    participant.run.stop.store(true, Ordering::Relaxed);
}

unsafe extern "C" fn on_print(context: *const LaunchContext, site: u32, values: *const u64) {
    // SAFETY: as in `on_trap`.
    let participant = unsafe { &*(*context).data.cast::<LaunchParticipant<'_>>() };
    let site = participant.run.kernel.sites.sites.get(site as usize);
    let Some(SiteKind::Print(format, types)) = site.map(|site| &site.kind) else { return };
    let values = match types.len() {
        0 => &[],
        // SAFETY: one slot an operand, as `PrintFn` says.
        n => unsafe { std::slice::from_raw_parts(values, n) },
    };
    let text = polyloom_ir::format::format(format, types, values);
    if participant.prints_directly.get() {
        print::write(&text);
    } else {
        participant.text.borrow_mut().push_str(&text);
    }
}
