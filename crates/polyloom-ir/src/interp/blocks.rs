//! Blocks of threads: who runs when, and what threads compute together.
//!
//! A thread runs until it waits at a collective op or has exited. Warp by warp, when all threads of a warp that have
//! not exited wait at the same op of the warp, its results are given and they go on; when all warps wait at the same op
//! of the block, that is done likewise. Verified HIR leaves nothing else to happen but threads that exit early, and
//! warps that wait at named barriers: these go on when as many threads as the barrier is of have come to it.
//!
//! Design: `docs/design/block-splitting.md`.

use super::InterpError;
use super::memory::{InterpMemory, SHARED};
use super::prepare::CollectiveOp;
use super::run::{CallStack, ThreadMachine, ThreadStop};
use crate::arch::WARP_SIZE;
use crate::fragment::{flat_operands, multiply};
use crate::function::NamedBarrier;
use crate::launch_config::LaunchConfig;
use crate::op::Op;
use crate::types::MAX_DIMS;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Most threads in a block, on any GPU.
const MAX_BLOCK_SIZE: u64 = crate::arch::MAX_BLOCK_SIZE as u64;

/// Most shared memory of a block: more than any GPU has.
const MAX_SHARED_BYTES: u64 = 1 << 28;

/// The block that is being run, and the thread in it.
#[derive(Debug)]
pub(super) struct RunningBlock {
    pub(super) shared: SharedMemory,
    /// The place where dynamic shared memory begins.
    pub(super) dynamic_base: i64,
    grid: LaunchConfig,
    /// Coordinates of the block in the grid, and of the thread in the block.
    block_idx: [u32; 3],
    thread_idx: [u32; 3],
    /// The thread's number in the block.
    thread: u32,
    shape: SmallVec<[u64; MAX_DIMS]>,
    n_threads: u64,
    /// Arrays that are not views of dynamic shared memory.
    n_arrays: usize,
}

impl Default for RunningBlock {
    fn default() -> RunningBlock {
        RunningBlock {
            shared: SharedMemory(Vec::new()),
            dynamic_base: 0,
            grid: LaunchConfig { grid: [1; 3], block: [1; 3], shared_bytes: 0 },
            block_idx: [0; 3],
            thread_idx: [0; 3],
            thread: 0,
            shape: SmallVec::new(),
            n_threads: 0,
            n_arrays: 0,
        }
    }
}

impl RunningBlock {
    /// `thread_idx` and its like.
    pub(super) fn index(&self, op: Op, axis: usize) -> u32 {
        match op {
            Op::ThreadIdx => self.thread_idx[axis],
            Op::BlockIdx => self.block_idx[axis],
            Op::BlockDim => self.grid.block[axis],
            Op::GridDim => self.grid.grid[axis],
            Op::LaneId => self.thread % WARP_SIZE,
            _ => self.thread / WARP_SIZE,
        }
    }
}

/// Shared memory, in the one buffer that it is.
#[derive(Debug)]
pub(super) struct SharedMemory(Vec<u8>);

impl SharedMemory {
    fn range(&self, buffer: u32, offset: i64, bytes: u32) -> Option<Range<usize>> {
        let start = usize::try_from(offset).ok().filter(|_| buffer == SHARED)?;
        let end = start.checked_add(bytes as usize)?;
        (end <= self.0.len() && bytes <= 8).then_some(start..end)
    }
}

impl InterpMemory for SharedMemory {
    fn load(&self, buffer: u32, offset: i64, bytes: u32) -> Option<u64> {
        let mut value = [0; 8];
        value[..bytes.min(8) as usize].copy_from_slice(&self.0[self.range(buffer, offset, bytes)?]);
        Some(u64::from_le_bytes(value))
    }

    fn store(&mut self, buffer: u32, offset: i64, bytes: u32, bits: u64) -> Option<()> {
        let range = self.range(buffer, offset, bytes)?;
        let value = &bits.to_le_bytes()[..range.len()];
        self.0[range].copy_from_slice(value);
        Some(())
    }

    fn update(&mut self, buffer: u32, offset: i64, bytes: u32, f: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
        let old = self.load(buffer, offset, bytes)?;
        self.store(buffer, offset, bytes, f(old))?;
        Some(old)
    }
}

/// A thread of the block.
struct BlockThread {
    calls: CallStack,
    stack: Vec<u64>,
    /// Holds what it waits for; `None` before it has started.
    stop: Option<ThreadStop>,
}

impl ThreadMachine<'_> {
    /// Goes to a grid whose threads are those of a launch of this shape.
    pub(super) fn enter_grid(&mut self, grid: &LaunchConfig, shape: &[u64], n_threads: u64) -> Result<(), InterpError> {
        let blocks = &self.interpreter.blocks;
        if !(1..=MAX_BLOCK_SIZE).contains(&grid.block_size()) {
            let message = format!("a block has 1 to {MAX_BLOCK_SIZE} threads, not {}", grid.block_size());
            return Err(InterpError::BadArguments(message));
        }
        let bytes = blocks.shared_bytes.saturating_add(grid.shared_bytes.into());
        if bytes > MAX_SHARED_BYTES {
            let message = format!("a block shares at most {MAX_SHARED_BYTES} bytes, not {bytes}");
            return Err(InterpError::BadArguments(message));
        }
        self.arrays.extend(blocks.shared.iter().map(|(_, array)| *array));
        // Dynamic shared memory follows what is static, at a multiple of 16 so that it is aligned for every element.
        let base = blocks.shared_bytes.next_multiple_of(16);
        self.block = RunningBlock {
            shared: SharedMemory(vec![0; (base + u64::from(grid.shared_bytes)) as usize]),
            dynamic_base: base as i64,
            grid: *grid,
            shape: shape.into(),
            n_threads,
            n_arrays: self.arrays.len(),
            ..RunningBlock::default()
        };
        Ok(())
    }

    /// Runs a block. Gives the stacks its threads are left with.
    pub(super) fn block(&mut self, block: u64, stack: &[u64]) -> Result<Vec<Vec<u64>>, InterpError> {
        self.block.shared.0.fill(0);
        self.arrays.truncate(self.block.n_arrays);
        self.block.block_idx = coordinates(block, self.block.grid.grid);
        let first = block * self.block.grid.block_size();
        let n_threads = self.block.n_threads.saturating_sub(first).min(self.block.grid.block_size());
        let thread = |_| BlockThread { calls: CallStack::default(), stack: stack.to_vec(), stop: None };
        let mut threads: Vec<BlockThread> = (0..n_threads).map(thread).collect();
        loop {
            for warp in 0..threads.len().div_ceil(WARP_SIZE as usize) {
                self.warp(first, warp, &mut threads)?;
            }
            if self.open_barrier(first, &mut threads)? {
                continue;
            }
            let Some(waiting) = self.waiting(first, &threads)? else {
                return Ok(threads.into_iter().map(|thread| thread.stack).collect());
            };
            self.synchronise(waiting, &mut threads);
        }
    }

    /// Runs a warp until its threads wait for other warps or have exited.
    fn warp(&mut self, first: u64, warp: usize, threads: &mut [BlockThread]) -> Result<(), InterpError> {
        let lanes = warp * WARP_SIZE as usize..threads.len().min((warp + 1) * WARP_SIZE as usize);
        loop {
            for number in lanes.clone() {
                let thread = &mut threads[number];
                if thread.stop.is_some() {
                    continue;
                }
                self.enter_thread(first, number);
                if thread.calls.is_new() {
                    self.thread()?;
                }
                thread.stop = Some(self.run(&mut thread.calls, &mut thread.stack)?);
            }
            let first_lane = first + lanes.start as u64;
            match self.waiting(first_lane, &threads[lanes.clone()])? {
                Some(stop) if self.collective(stop).is_some_and(CollectiveOp::is_of_warp) => {
                    self.synchronise(stop, &mut threads[lanes.clone()]);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Lets the warps go on that wait at a named barrier, if there is one that all have come to which it waits for.
    fn open_barrier(&self, first: u64, threads: &mut [BlockThread]) -> Result<bool, InterpError> {
        const WARP: usize = WARP_SIZE as usize;
        let mut waiting: Vec<(usize, ThreadStop, NamedBarrier)> = Vec::new();
        for (warp, lanes) in threads.chunks(WARP).enumerate() {
            let stop = lanes.iter().find_map(|thread| thread.stop.filter(|stop| *stop != ThreadStop::Done));
            if let Some((stop, collective)) = stop.and_then(|stop| Some((stop, self.collective(stop)?)))
                && let Some(barrier) = collective.barrier
            {
                waiting.push((warp, stop, barrier));
            }
        }
        let Some(&(first_warp, stop, _)) = waiting.first() else { return Ok(false) };
        for &(_, _, barrier) in &waiting {
            let come = || waiting.iter().filter(|(.., other)| *other == barrier);
            if come().count() * WARP < usize::from(barrier.count) {
                continue;
            }
            for &(warp, stop, _) in come().take(usize::from(barrier.count) / WARP) {
                let end = threads.len().min((warp + 1) * WARP);
                self.synchronise(stop, &mut threads[warp * WARP..end]);
            }
            return Ok(true);
        }
        // Warps that run wait at the block's barriers, or have exited, so that nobody else will come.
        let (Some(collective), ThreadStop::Waits { code, .. }) = (self.collective(stop), stop) else {
            return Ok(false);
        };
        let site = self.interpreter.codes[code as usize].site(collective.inst);
        let thread = first + (first_warp * WARP) as u64;
        Err(InterpError::Divergence { site, op: collective.op, thread })
    }

    fn enter_thread(&mut self, first: u64, number: usize) {
        let shape = std::mem::take(&mut self.block.shape);
        self.start(&shape, first + number as u64);
        self.block.shape = shape;
        self.block.thread = number as u32;
        self.block.thread_idx = coordinates(number as u64, self.block.grid.block);
    }

    fn collective(&self, stop: ThreadStop) -> Option<&CollectiveOp> {
        match stop {
            ThreadStop::Waits { code, index, .. } => {
                Some(&self.interpreter.codes[code as usize].collectives[index as usize])
            }
            ThreadStop::Done => None,
        }
    }

    /// Returns what all of these threads that have not exited wait at, if there are any. The first of them has this
    /// number.
    fn waiting(&self, first: u64, threads: &[BlockThread]) -> Result<Option<ThreadStop>, InterpError> {
        let mut waiting = None;
        for (number, thread) in threads.iter().enumerate() {
            let Some(stop @ ThreadStop::Waits { code, .. }) = thread.stop else { continue };
            let Some(collective) = self.collective(stop) else { continue };
            if *waiting.get_or_insert(stop) != stop {
                let site = self.interpreter.codes[code as usize].site(collective.inst);
                return Err(InterpError::Divergence { site, op: collective.op, thread: first + number as u64 });
            }
        }
        Ok(waiting)
    }

    /// Gives these threads the results of what they wait at, and lets them go on.
    fn synchronise(&self, stop: ThreadStop, threads: &mut [BlockThread]) {
        let (Some(collective), ThreadStop::Waits { base, .. }) = (self.collective(stop), stop) else { return };
        let slot = |slot: u32| (base + slot) as usize;
        let operands = |index: usize| -> Vec<Option<u64>> {
            let Some(&operand) = collective.operands.get(index) else { return Vec::new() };
            let value = |thread: &BlockThread| (thread.stop == Some(stop)).then(|| thread.stack[slot(operand)]);
            threads.iter().map(value).collect()
        };
        let results: Vec<SmallVec<[u64; 1]>> = match flat_operands(&collective.types) {
            Some((factor, n)) if collective.op == Op::Mma => {
                let all = |thread: &BlockThread| collective.operands.iter().map(|&o| thread.stack[slot(o)]).collect();
                let lanes: Vec<Option<Vec<u64>>> =
                    threads.iter().map(|thread| (thread.stop == Some(stop)).then(|| all(thread))).collect();
                multiply(factor, n, &lanes).into_iter().map(SmallVec::from_vec).collect()
            }
            _ => results(collective, &operands(0), &operands(1)).into_iter().map(|result| smallvec![result]).collect(),
        };
        for (number, thread) in threads.iter_mut().enumerate().filter(|(_, thread)| thread.stop == Some(stop)) {
            for (&to, &result) in collective.to.iter().zip(results.get(number).into_iter().flatten()) {
                thread.stack[slot(to)] = result;
            }
            thread.stop = None;
        }
    }
}

fn coordinates(number: u64, extents: [u32; 3]) -> [u32; 3] {
    let [x, y] = [extents[0], extents[1]].map(|extent| u64::from(extent.max(1)));
    [number % x, number / x % y, number / x / y].map(|coordinate| coordinate as u32)
}

/// Returns what each thread gets, of threads with these first and second operands; `None` for those that have exited.
fn results(collective: &CollectiveOp, values: &[Option<u64>], others: &[Option<u64>]) -> Vec<u64> {
    let live = || values.iter().flatten();
    let all = |result: u64| vec![result; values.len()];
    let mask = |holds: &dyn Fn(u64) -> bool| -> u64 {
        values.iter().enumerate().filter(|(_, value)| value.is_some_and(holds)).map(|(lane, _)| 1 << lane).sum()
    };
    match collective.op {
        Op::SyncThreadsAnd | Op::WarpAll => all(live().all(|&bits| bits != 0).into()),
        Op::SyncThreadsOr | Op::WarpAny => all(live().any(|&bits| bits != 0).into()),
        Op::SyncThreadsCount => all(live().filter(|bits| **bits != 0).count() as u64),
        Op::Ballot => all(mask(&|bits| bits != 0)),
        Op::MatchAny => values.iter().map(|value| value.map_or(0, |value| mask(&|other| other == value))).collect(),
        Op::MatchAll => match live().next() {
            Some(&first) if live().all(|&value| value == first) => all(mask(&|_| true)),
            _ => all(0),
        },
        Op::Shuffle | Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor => {
            let lane = |lane: usize| {
                let own = values[lane].unwrap_or(0);
                let source = source_lane(collective, lane, others.get(lane).copied().flatten().unwrap_or(0));
                values.get(source).copied().flatten().unwrap_or(own)
            };
            (0..values.len()).map(lane).collect()
        }
        _ => match collective.combine {
            Some(combine) => all(reduce(values, combine)),
            None => Vec::new(),
        },
    }
}

/// The lane that a lane's shuffle reads: PTX ISA 9.0 §9.7.9.6, with the clamp that CUDA's functions give it.
fn source_lane(collective: &CollectiveOp, lane: usize, operand: u64) -> usize {
    let (width, by) = (usize::from(collective.width), operand as usize % WARP_SIZE as usize);
    let first = lane / width * width;
    match collective.op {
        Op::Shuffle => first + by % width,
        Op::ShuffleUp => lane.checked_sub(by).filter(|source| *source >= first).unwrap_or(lane),
        Op::ShuffleDown => Some(lane + by).filter(|source| *source < first + width).unwrap_or(lane),
        _ => Some(lane ^ by).filter(|source| *source < first + width).unwrap_or(lane),
    }
}

/// Combines the values of a warp's lanes in the order of a tree.
fn reduce(values: &[Option<u64>], combine: fn(u64, u64) -> u64) -> u64 {
    let mut values = values.to_vec();
    for distance in [16, 8, 4, 2, 1] {
        for lane in 0..values.len().saturating_sub(distance) {
            values[lane] = match (values[lane], values[lane + distance]) {
                (Some(a), Some(b)) => Some(combine(a, b)),
                (a, b) => a.or(b),
            };
        }
    }
    values.first().copied().flatten().unwrap_or(0)
}
