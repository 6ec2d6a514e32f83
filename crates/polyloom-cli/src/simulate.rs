//! Runs on the simulator: their options.

use crate::CommandFailure;
use polyloom::ptx::Sanitizers;
use polyloom::{Arch, LaunchConfig, SimOptions, num_threads};

#[derive(clap::Args, Default)]
#[group(skip)]
pub(crate) struct SimulateArguments {
    /// Checks on sim:0, with commas between: races, uninitialised, barriers, async, or all; bounds and alignment are on
    /// without being named. no-NAME switches one off, none all
    #[arg(long, value_name = "CHECK,…")]
    sanitize: Option<Sanitizers>,
    /// Count instructions, memory transactions and the like on sim:0, and print a table
    #[arg(long)]
    pub(crate) counters: bool,
    /// Blocks of the grid: X, X,Y or X,Y,Z
    #[arg(long, value_name = "X,Y,Z", value_parser = three)]
    grid: Option<AxisExtents>,
    /// Threads of a block: X, X,Y or X,Y,Z
    #[arg(long, value_name = "X,Y,Z", value_parser = three)]
    block: Option<AxisExtents>,
    /// Dynamic shared memory of a block, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared: u32,
    /// Launch cooperatively on sim:0: all blocks at once, for kernels that synchronise the grid
    #[arg(long)]
    cooperative: bool,
    /// The GPU architecture that sim:0 has
    #[arg(long, value_name = "sm_NN")]
    arch: Option<Arch>,
}

/// Extents along three axes.
#[derive(Clone, Copy)]
pub(crate) struct AxisExtents(pub(crate) [u32; 3]);

fn three(text: &str) -> Result<AxisExtents, String> {
    let given: Option<Vec<u32>> = text.split([',', 'x']).map(|part| part.trim().parse().ok()).collect();
    let given = given.filter(|given| (1..=3).contains(&given.len()) && !given.contains(&0));
    let given = given.ok_or("write one to three positive integers: 4, or 4,2,1")?;
    let mut all = [1; 3];
    all[..given.len()].copy_from_slice(&given);
    Ok(AxisExtents(all))
}

impl SimulateArguments {
    /// The architecture to simulate.
    pub(crate) fn arch(&self) -> Arch {
        self.arch.unwrap_or(Arch::DEFAULT)
    }

    /// The grid of a launch: as given, or enough blocks for so many threads. Blocks are `default_block` unless given.
    ///
    /// # Errors
    ///
    /// When nothing says how many there are, or two things do.
    pub(crate) fn grid(&self, n_threads: Option<u64>, default_block: [u32; 3]) -> Result<LaunchConfig, CommandFailure> {
        let block = self.block.map_or(default_block, |extents| extents.0);
        match (self.grid, n_threads) {
            (Some(_), Some(_)) => {
                Err(CommandFailure::Usage("a launch is over --dim, or over --grid, not both".to_owned()))
            }
            (Some(grid), None) => Ok(LaunchConfig { grid: grid.0, block, shared_bytes: self.shared }),
            (None, Some(n_threads)) => Ok(LaunchConfig::of_threads(n_threads, block, self.shared)),
            (None, None) => {
                Err(CommandFailure::Usage("--dim or --grid is missing: how many threads, or blocks".to_owned()))
            }
        }
    }

    /// Whether anything is asked for that only the simulator has.
    pub(crate) fn needs_simulator(&self) -> bool {
        self.sanitize.is_some() || self.counters || self.cooperative
    }

    pub(crate) fn options(&self) -> SimOptions {
        let sanitize = self.sanitize.unwrap_or_default();
        let (counters, cooperative) = (self.counters, self.cooperative);
        SimOptions { sanitize, counters, arch: self.arch, n_threads: num_threads(), cooperative }
    }
}
