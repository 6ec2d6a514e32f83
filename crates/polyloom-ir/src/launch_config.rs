//! The launch configuration.

/// The launch configuration: how the threads of a launch are grouped into blocks, and blocks into a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchConfig {
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block along each axis.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// Makes as many blocks of this shape, in a row, as so many threads need.
    pub fn of_threads(n_threads: u64, block: [u32; 3], shared_bytes: u32) -> LaunchConfig {
        let n_blocks = n_threads.div_ceil(threads_in(block).max(1));
        LaunchConfig { grid: [u32::try_from(n_blocks).unwrap_or(u32::MAX), 1, 1], block, shared_bytes }
    }

    /// Returns as many blocks of as many threads, all in a row.
    #[must_use]
    pub fn in_a_row(self) -> LaunchConfig {
        let row = |n: u64| [u32::try_from(n).unwrap_or(u32::MAX), 1, 1];
        LaunchConfig { grid: row(self.n_blocks()), block: row(self.block_size()), ..self }
    }

    /// Returns the number of blocks in the grid.
    pub fn n_blocks(&self) -> u64 {
        self.grid.iter().fold(1, |n, &extent| u64::saturating_mul(n, extent.into()))
    }

    /// Returns the number of threads in a block.
    pub fn block_size(&self) -> u64 {
        threads_in(self.block)
    }
}

fn threads_in(block: [u32; 3]) -> u64 {
    block.iter().fold(1, |n, &extent| u64::saturating_mul(n, extent.into()))
}
