//! What a launch can verify of a kernel's indices before anything runs.
//!
//! Most indices are sums of multiples of the thread's coordinates, of what loops count, and of numbers that are the same
//! for all threads. Over all threads of a launch such a sum lies between two numbers, which a few additions give; where
//! these are within the array's extent, no thread is outside. Conditions that compare one coordinate with a number, such
//! as `if i < n`, leave out the threads of which they do not hold (`plan.rs`).
//!
//! A launch is refused for a thread that was computed to be outside: its conditions and its index are evaluated as the
//! kernel would, integers that wrap included (`witness.rs`). So no launch is refused wrongly by what the sums leave out.
//! The converse is not promised: where an index wraps on the way, a launch may go on.
//!
//! Design: `docs/design/launch-bounds.md`.

mod expression;
mod plan;
mod walk;
mod witness;

use cranelift_entity::PrimaryMap;
use expression::{CountedLoop, ExprData, LaunchExpr};
use plan::{BoundsPlanner, PathPlan, UniformStep};
use polyloom_ir::{FuncId, MAX_DIMS, Module, Span};
use smallvec::SmallVec;
use walk::{BoundsWalk, KernelAccess};

/// Says where the words of a launch's arguments hold what a kernel is given.
pub trait ArgumentWords {
    /// The word of a scalar parameter of the scalarised kernel.
    fn scalar(&self, param: u32) -> usize;
    /// The word of an array parameter's extent along an axis.
    fn extent(&self, param: u32, axis: u8) -> usize;
}

/// Describes what the launches of a kernel verify.
#[derive(Debug)]
pub struct LaunchBounds {
    expressions: PrimaryMap<LaunchExpr, ExprData>,
    loops: Vec<CountedLoop>,
    accesses: Vec<KernelAccess>,
    steps: Vec<UniformStep>,
    paths: Vec<PathPlan>,
    indices: Vec<LaunchIndex>,
}

/// An index of an access, and whether launches verify it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchIndex {
    /// The array, by its number among the parameters of the scalarised kernel; none if it is in shared memory.
    pub param: Option<u32>,
    /// The axis.
    pub axis: u8,
    /// The access.
    pub span: Span,
    /// Why launches do not verify it; nothing if they do.
    pub unverified: Option<UnverifiedReason>,
}

/// Why launches do not verify an index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnverifiedReason {
    /// It is no sum of multiples of coordinates and of numbers that are the same for all threads.
    Index,
    /// Whether a thread comes to the access depends on more than a comparison of a coordinate with such a number.
    Condition,
    /// A loop around it does not run as often in all threads.
    LoopBounds,
    /// The array is in shared memory.
    Shared,
    /// The access is of several elements at once.
    Several,
    /// Nothing comes there.
    Unreachable,
    /// The kernel has more than is looked at.
    TooLarge,
}

impl UnverifiedReason {
    /// The reason as a clause.
    pub fn text(self) -> &'static str {
        match self {
            UnverifiedReason::Index => "the index is not a sum of multiples of coordinates, counters and scalars",
            UnverifiedReason::Condition => "a condition decides which threads come here",
            UnverifiedReason::LoopBounds => "the loop does not run as often in all threads",
            UnverifiedReason::Shared => "the array is in shared memory",
            UnverifiedReason::Several => "several elements are accessed at once",
            UnverifiedReason::Unreachable => "no thread comes here",
            UnverifiedReason::TooLarge => "the kernel has more accesses than a launch looks at",
        }
    }
}

/// A thread that would access an array outside its extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutsideThread {
    /// The array, by its number among the parameters of the scalarised kernel.
    pub param: u32,
    /// The axis.
    pub axis: u8,
    /// The index.
    pub index: i128,
    /// The extent.
    pub extent: u64,
    /// All indices of the access, where they are known.
    pub indices: SmallVec<[Option<i128>; 4]>,
    /// The thread's coordinates.
    pub thread: [u64; MAX_DIMS],
    /// The access.
    pub span: Span,
}

impl LaunchBounds {
    /// Finds what launches of a kernel can verify.
    pub fn of(module: &Module, kernel: FuncId, words: &dyn ArgumentWords) -> LaunchBounds {
        let BoundsWalk { expressions, accesses, .. } = BoundsWalk::of(module, kernel, words);
        let mut planner = BoundsPlanner::new(expressions);
        let mut indices = Vec::new();
        for (number, access) in accesses.iter().enumerate() {
            for axis in 0..access.indices.len() as u8 {
                let unverified = planner.add(number as u32, access, axis).err();
                indices.push(LaunchIndex { param: access.param, axis, span: access.span, unverified });
            }
        }
        let BoundsPlanner { expressions, steps, paths, .. } = planner;
        LaunchBounds { expressions: expressions.data, loops: expressions.loops, accesses, steps, paths, indices }
    }

    /// The indices of the kernel's accesses, in the order of its source.
    pub fn indices(&self) -> &[LaunchIndex] {
        &self.indices
    }

    /// The first thread, in row-major order, of those that are seen to access an array outside its extents. Extents of
    /// the launch that it does not have are 1.
    #[inline]
    pub fn find_outside(&self, dim: &[u64; MAX_DIMS], words: &[u64]) -> Option<OutsideThread> {
        if self.paths.is_empty() || self.is_inside(dim, words) {
            return None;
        }
        self.find_witness(dim, words)
    }
}

#[cfg(test)]
mod tests;
