//! What a launch gives a kernel that runs a block of threads at a time, beside the arguments.
//!
//! On the CPU, a kernel of blocks becomes one whose threads are blocks (`split_blocks` of the passes). Its last
//! parameters are not the user's: they say how the launch is shaped, and give it the memory that a block needs, which
//! is the same for one block after another. [`BlockPlan`] says what they are; whoever launches the kernel makes them.

use crate::entity::FuncId;
use crate::launch_config::LaunchConfig;
use crate::types::{MAX_DIMS, Scalar, Type};
use smallvec::{SmallVec, smallvec};

/// The parameters that the launch makes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockPlan {
    /// Holds what the kernel's last parameters stand for, in order.
    pub params: Vec<BlockParam>,
    /// The extents of a block that the code is right for, if it is not for all.
    pub block: Option<[u32; 3]>,
    /// True if it is right only for launches whose threads are in a row: with no extent but the first above 1.
    pub in_a_row: bool,
    /// Functions that text of the kernel has a phrase for; none where it is split for code.
    pub phrases: Vec<(FuncId, TextPhrase)>,
}

/// Describes what a function that is made for text computes of its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextPhrase {
    /// A coordinate of the thread with a number in the launch. The parameters are the number as `i64`, the product of
    /// the launch's extents behind this axis, and its extent along it.
    ThreadIndex(u8),
    /// A coordinate of the block with a number in the grid. The parameters are the number and the grid's first two
    /// extents.
    BlockIndex(u8),
    /// An index counted from the start of its axis, of one that may be negative and the axis' extent.
    Wrap,
}

/// Describes what one of these parameters stands for. Those that are no memory are `i32`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockParam {
    /// The threads of the launch.
    Threads,
    /// Threads of a block along an axis.
    BlockExtent(u8),
    /// Blocks along an axis.
    GridExtent(u8),
    /// The extent of the launch along an axis.
    LaunchExtent(u8),
    /// The product of the extents of the launch along the axes behind this one.
    InnerThreads(u8),
    /// Bytes of dynamic shared memory.
    SharedBytes,
    /// Memory of the block's: an array of one dimension with an element for each thread.
    PerThread,
    /// Memory of the block's: a dense array of these extents.
    Fixed(SmallVec<[u32; 4]>),
    /// The dynamic shared memory, all of which such parameters have in common.
    Dynamic {
        /// True if an element begins at each byte, or at the multiples of its size.
        by_byte: bool,
        /// True if this is the only parameter of its kind.
        alone: bool,
    },
    /// Memory of one element, in which a thread whose check fails leaves its number in the block.
    FailedThread,
}

/// A launch of blocks.
#[derive(Clone, Copy, Debug)]
pub struct BlockLaunch {
    /// The blocks.
    pub grid: LaunchConfig,
    /// Extents of the launch, 1 past its rank. Their product is at most `i32::MAX`.
    pub shape: [u64; MAX_DIMS],
}

/// Memory that a block needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockMemory {
    /// Extents of the array that a parameter is.
    pub extents: SmallVec<[u64; 4]>,
    /// Its byte strides.
    pub strides: SmallVec<[i64; 4]>,
    /// Bytes, a multiple of 8. For dynamic shared memory, those of all such parameters.
    pub bytes: u64,
}

impl BlockLaunch {
    /// The threads of the launch.
    pub fn n_threads(&self) -> u64 {
        self.shape.iter().product()
    }
}

impl BlockParam {
    /// The value of a parameter that is no memory.
    pub fn scalar(&self, launch: &BlockLaunch) -> Option<u64> {
        let extent = |extents: &[u32; 3], axis: u8| u64::from(extents.get(usize::from(axis)).copied().unwrap_or(1));
        Some(match self {
            BlockParam::Threads => launch.n_threads(),
            BlockParam::BlockExtent(axis) => extent(&launch.grid.block, *axis),
            BlockParam::GridExtent(axis) => extent(&launch.grid.grid, *axis),
            BlockParam::LaunchExtent(axis) => launch.shape.get(usize::from(*axis)).copied().unwrap_or(1),
            BlockParam::InnerThreads(axis) => launch.shape.iter().skip(usize::from(*axis) + 1).product(),
            BlockParam::SharedBytes => launch.grid.shared_bytes.into(),
            _ => return None,
        })
    }

    /// The array of this element type that a parameter is, if it is one.
    pub fn memory(&self, elem: Scalar, launch: &BlockLaunch) -> Option<BlockMemory> {
        let size = u64::from(elem.bytes());
        let shared = u64::from(launch.grid.shared_bytes);
        let extents: SmallVec<[u64; 4]> = match self {
            BlockParam::PerThread => smallvec![launch.grid.block_size()],
            BlockParam::Fixed(extents) => extents.iter().map(|&extent| extent.into()).collect(),
            BlockParam::FailedThread => smallvec![1],
            BlockParam::Dynamic { by_byte: true, .. } => smallvec![shared],
            BlockParam::Dynamic { by_byte: false, .. } => smallvec![shared.div_ceil(size)],
            _ => return None,
        };
        let mut strides: SmallVec<[i64; 4]> = smallvec![0; extents.len()];
        let mut bytes = if matches!(self, BlockParam::Dynamic { by_byte: true, .. }) { 1 } else { size };
        for (stride, extent) in strides.iter_mut().zip(&extents).rev() {
            *stride = bytes as i64;
            bytes *= extent;
        }
        if matches!(self, BlockParam::Dynamic { .. }) {
            bytes = shared;
        }
        Some(BlockMemory { extents, strides, bytes: bytes.next_multiple_of(8) })
    }

    /// Returns true if it is memory that the launch also gives other parameters.
    pub fn is_dynamic(&self) -> bool {
        matches!(self, BlockParam::Dynamic { .. })
    }
}

impl BlockPlan {
    /// Returns how many of a kernel's parameters are the user's.
    pub fn n_arguments(&self, n_params: usize) -> usize {
        n_params.saturating_sub(self.params.len())
    }

    /// Returns true if the code is right for a launch.
    pub fn takes(&self, launch: &BlockLaunch) -> bool {
        let in_a_row = launch.shape[1..].iter().all(|&extent| extent == 1);
        self.block.is_none_or(|only| only == launch.grid.block) && (in_a_row || !self.in_a_row)
    }

    /// The parameters with the types they have, those of the user left out.
    pub fn with_types<'a>(&'a self, types: &'a [Type]) -> impl Iterator<Item = (&'a BlockParam, Type)> {
        self.params.iter().zip(types[self.n_arguments(types.len())..].iter().copied())
    }
}
