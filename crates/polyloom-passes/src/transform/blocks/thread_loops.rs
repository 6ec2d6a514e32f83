//! Loops over threads: which there are, what each thread does in one, the memory that values are kept in between them,
//! and the condition that all of one is behind.

use super::facts::Use;
use polyloom_ir::{Inst, Op, Value};

/// Says which loop over threads an instruction is in: by number, that of the block, and within it that of a warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ThreadLoop {
    pub(super) block: u32,
    pub(super) warp: u32,
}

/// Something that each thread does.
#[derive(Clone, Debug)]
pub(super) enum ThreadItem {
    /// An instruction of the kernel, with all in its regions.
    Inst(Inst),
    /// Values go to memory, all at once: each with the use of it that this is.
    Move(Vec<(Value, SpillSlot, Option<Use>)>),
    /// Puts its operands where the other lanes find them.
    Give(Inst),
    /// Takes its results from there.
    Receive(Inst),
    /// Adds its part to the result of a vote.
    Vote(Inst),
    /// Goes to this place.
    Away(u32),
    /// Its counter of a loop that begins elsewhere for each thread: so much more than where it began.
    Count { counter: Value, begin: Value, passed: Value },
}

/// The memory that a value is kept in: an array of one dimension.
#[derive(Clone, Copy, Debug)]
pub(super) enum SpillSlot {
    /// Of one element, for a value that all threads have in common.
    Cell(Value),
    /// With an element for each lane of the warp that runs.
    PerLane(Value),
    /// With an element for each thread of the block.
    PerThread(Value),
}

/// A condition that all a loop does is behind.
#[derive(Clone, Copy)]
pub(super) struct LoopGuard {
    /// The branch.
    pub(super) branch: Inst,
    pub(super) cond: Value,
    /// Says how the number along axis 0 of the block, or of the lane, compares with the limit.
    pub(super) op: Op,
    pub(super) limit: Value,
}
