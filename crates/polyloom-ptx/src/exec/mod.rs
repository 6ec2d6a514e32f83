//! Running decoded kernels: warps of 32 lanes, blocks, and the grid over the host's threads.

pub(crate) mod access;
pub(crate) mod block;
mod bulk;
mod call;
mod cluster;
mod cluster_ops;
mod conditional;
mod grid;
mod heap;
pub(crate) mod lane_access;
mod matrix;
pub(crate) mod mbarrier;
mod print;
pub(crate) mod registers;
mod special;
mod stack;
mod surface;
mod tensor;
mod texture;
pub(crate) mod warp;
mod warpgroup;

pub(crate) use block::BlockState;
pub(crate) use grid::{GridContext, run, runs_on};
