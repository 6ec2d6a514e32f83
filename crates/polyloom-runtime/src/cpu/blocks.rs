//! Launches of kernels that run a block of threads at a time: what the launch gives them beside the arguments.
//!
//! Each thread of the pool that takes part has memory of its own for the block that it runs, the same for one block
//! after another, and a copy of the argument block that ends in where this memory is.

use polyloom_codegen::ArrayFacts;
use polyloom_ir::block_plan::{BlockLaunch, BlockParam, BlockPlan};
use polyloom_ir::{Function, MAX_AXES, MAX_DIMS, Scalar, Type};
use std::cell::RefCell;

/// Most threads in a block, on any GPU.
const MAX_BLOCK_SIZE: u64 = polyloom_ir::arch::MAX_BLOCK_SIZE as u64;
/// Most memory of a block; the interpreter runs kernels whose blocks need more.
const MAX_BLOCK_BYTES: u64 = 1 << 28;
/// Most memory of all blocks that run at once; no more of them run than fit.
const MAX_LAUNCH_BYTES: u64 = 1 << 30;
/// Most memory that a thread keeps for the next launch.
const MAX_SPARE_BYTES: usize = 1 << 24;

/// A cache line of a block's memory.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([u64; 8]);

const LINE_BYTES: u64 = size_of::<CacheLine>() as u64;

thread_local! {
    /// The memory that this thread's last launch of blocks used.
    static SPARE: RefCell<Vec<CacheLine>> = const { RefCell::new(Vec::new()) };
}

/// Describes what a launch of blocks gives each thread that takes part.
#[derive(Clone, Debug)]
pub(crate) struct BlockRun {
    pub(crate) launch: BlockLaunch,
    /// Rank of the launch.
    pub(crate) rank: u8,
    /// The words behind the arguments, where addresses count from the beginning of the memory.
    words: Vec<u64>,
    /// Says which of them are addresses.
    addresses: Vec<usize>,
    n_lines: usize,
    /// The place where in the memory a thread whose check fails leaves its number.
    failed: Option<u64>,
}

impl BlockRun {
    /// Returns what a kernel is given that has these parameters at its end; `None` if its code is not for such a
    /// launch.
    pub(crate) fn new(plan: &BlockPlan, kernel: &Function, launch: BlockLaunch, rank: u8) -> Option<BlockRun> {
        let grid = &launch.grid;
        let fits = (1..=MAX_BLOCK_SIZE).contains(&grid.block_size())
            && u64::from(grid.shared_bytes) <= MAX_BLOCK_BYTES
            && grid.n_blocks() <= i32::MAX as u64
            && plan.takes(&launch);
        if !fits {
            return None;
        }
        let mut run = BlockRun { launch, rank, words: Vec::new(), addresses: Vec::new(), n_lines: 0, failed: None };
        let mut bytes = 0u64;
        let mut dynamic = None;
        let types: Vec<Type> = kernel.params().iter().map(|&param| kernel.ty(param)).collect();
        for (param, ty) in plan.with_types(&types) {
            let elem = ty.as_array().map_or(Scalar::I32, |(elem, _)| elem);
            let Some(memory) = param.memory(elem, &run.launch) else {
                run.words.push(param.scalar(&run.launch).unwrap_or(0));
                continue;
            };
            let mut next = || {
                let address = bytes;
                bytes = bytes.saturating_add(memory.bytes).saturating_add(LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
                address
            };
            let address = if param.is_dynamic() { *dynamic.get_or_insert_with(next) } else { next() };
            if *param == BlockParam::FailedThread {
                run.failed = Some(address);
            }
            run.addresses.push(run.words.len());
            run.words.push(address);
            run.words.extend(&memory.extents);
            run.words.extend(memory.strides.iter().map(|&stride| stride as u64));
        }
        run.n_lines = usize::try_from(bytes / LINE_BYTES).ok().filter(|_| bytes <= MAX_BLOCK_BYTES)?;
        Some(run)
    }

    /// Most threads that may take part.
    pub(crate) fn max_participants(&self) -> usize {
        (MAX_LAUNCH_BYTES / self.n_bytes().max(1) as u64) as usize
    }

    /// The memory that each of them needs.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_lines * size_of::<CacheLine>()
    }

    /// The memory of a thread that takes part, and its arguments; `None` if there is not as much.
    pub(crate) fn participant(&self, arguments: &[u64]) -> Option<BlockMemory> {
        let mut lines = SPARE.with(|spare| spare.take());
        if lines.len() < self.n_lines {
            lines.try_reserve_exact(self.n_lines - lines.len()).ok()?;
            lines.resize(self.n_lines, CacheLine([0; 8]));
        }
        let base = lines.as_mut_ptr() as u64;
        let mut words = Vec::with_capacity(arguments.len() + self.words.len());
        words.extend_from_slice(arguments);
        words.extend_from_slice(&self.words);
        for &address in &self.addresses {
            words[arguments.len() + address] += base;
        }
        Some(BlockMemory { lines, words, failed: self.failed })
    }

    /// The extents over which a kernel's threads are blocks.
    pub(crate) fn grid(&self) -> [u64; MAX_DIMS] {
        let mut grid = [1; MAX_DIMS];
        grid[0] = self.launch.grid.n_blocks();
        grid
    }
}

/// The memory of one block after another, and the arguments that lead to it.
pub(crate) struct BlockMemory {
    lines: Vec<CacheLine>,
    pub(crate) words: Vec<u64>,
    failed: Option<u64>,
}

impl BlockMemory {
    /// The number in its block of the thread whose check has failed.
    pub(crate) fn failed_thread(&self) -> u64 {
        let Some(at) = self.failed else { return 0 };
        let line = self.lines.as_ptr().wrapping_byte_add(at as usize);
        // SAFETY: the address is one in `lines`, aligned for an `i32`. Only this thread writes there, by the code that
        // has just called back; the pointer that it used comes from the same vector.
        let number = unsafe { line.cast::<i32>().read_volatile() };
        u64::try_from(number).unwrap_or(0)
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        if lines.len() * size_of::<CacheLine>() <= MAX_SPARE_BYTES {
            // A thread that ends has no spare memory any more.
            let _ = SPARE.try_with(|spare| spare.swap(&RefCell::new(std::mem::take(&mut lines))));
        }
    }
}

/// Returns what holds of the parameters that launches of blocks make, in order.
pub fn facts(plan: &BlockPlan) -> Vec<ArrayFacts> {
    plan.params.iter().map(fact).collect()
}

fn fact(param: &BlockParam) -> ArrayFacts {
    let memory = ArrayFacts {
        contiguous: true,
        aligned: true,
        disjoint: true,
        offsets_fit_i32: true,
        extents: [None; MAX_AXES],
    };
    match param {
        BlockParam::PerThread => memory,
        BlockParam::FailedThread => ArrayFacts { extents: first(&[1]), ..memory },
        BlockParam::Fixed(extents) => ArrayFacts { extents: first(extents), ..memory },
        BlockParam::Dynamic { by_byte, alone } => ArrayFacts { contiguous: !by_byte, disjoint: *alone, ..memory },
        _ => ArrayFacts::default(),
    }
}

fn first(extents: &[u32]) -> [Option<u32>; MAX_AXES] {
    let mut all = [None; MAX_AXES];
    all.iter_mut().zip(extents).for_each(|(all, &extent)| *all = Some(extent));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::LaunchConfig;

    fn run(n_lines: usize) -> BlockRun {
        let grid = LaunchConfig { grid: [1; 3], block: [1; 3], shared_bytes: 0 };
        let launch = BlockLaunch { grid, shape: [1; MAX_DIMS] };
        BlockRun { launch, rank: 1, words: Vec::new(), addresses: Vec::new(), n_lines, failed: None }
    }

    #[test]
    fn blocks_that_need_much_memory_are_fewer_at_a_time() {
        let with = |bytes: u64| run((bytes / LINE_BYTES) as usize).max_participants();
        assert_eq!(with(MAX_BLOCK_BYTES), 4);
        assert_eq!(with(1 << 16), 1 << 14);
        assert!(with(0) > 1 << 20);
    }

    #[test]
    fn memory_that_there_is_not_is_no_panic() {
        assert!(run(usize::MAX / LINE_BYTES as usize).participant(&[]).is_none());
        assert!(run(1).participant(&[7]).is_some_and(|memory| memory.words == [7] && memory.lines.len() == 1));
    }
}
