//! The threads of a launch: how many there are along each axis, and in what blocks they run.

use crate::args::{ArgBlock, KernelParams};
use crate::error::LaunchError;
use crate::launch_options::LaunchOptions;
use polyloom_ir::{KernelMetadata, LaunchConfig, MAX_DIMS};
use std::sync::Arc;

/// The extents of a launch on all axes and the number of its threads, if it can be run with these arguments.
#[inline]
pub(crate) fn checked_grid(
    params: &KernelParams,
    shape: &[u64],
    args: &ArgBlock,
) -> Result<([u64; MAX_DIMS], u64), LaunchError> {
    if shape.is_empty() || shape.len() > MAX_DIMS {
        return Err(LaunchError::Rank { rank: shape.len() });
    }
    args.check_complete(params)?;
    let mut grid = [1; MAX_DIMS];
    grid[..shape.len()].copy_from_slice(shape);
    match n_threads(&grid) {
        Some(n_threads) => Ok((grid, n_threads)),
        None => Err(LaunchError::TooManyThreads { shape: shape.to_vec() }),
    }
}

/// Returns the number of threads a grid has, if `int32` can count them.
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

/// The blocks of a launch of so many threads, as it says or else as the kernel does.
///
/// # Errors
///
/// When the kernel is made for others.
pub(crate) fn grid_of(
    metadata: &KernelMetadata,
    kernel: &Arc<str>,
    n_threads: u64,
    options: &LaunchOptions<'_>,
) -> Result<LaunchConfig, LaunchError> {
    let grid = options.grid.unwrap_or_else(|| metadata.grid(n_threads));
    match metadata.workgroup_size.filter(|only| *only != grid.block) {
        Some(only) => Err(LaunchError::Block { kernel: kernel.clone(), only, given: grid.block }),
        None => Ok(grid),
    }
}
