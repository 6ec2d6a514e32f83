//! Holds where control flow that is being lowered leads: edges to where paths meet, and lanes that leave one by one.

use super::value_rep::{ExecMask, Reps};
use crate::ir::{BasicBlock, Val};
use polyloom_ir::Inst;
use smallvec::SmallVec;

/// A branch to a place where paths meet: the block it leaves from, without its terminator yet, what it hands over and
/// the lanes executing.
pub(crate) struct MergeEdge {
    pub(crate) block: BasicBlock,
    pub(crate) values: Reps,
    pub(crate) exec: ExecMask,
}

/// A loop or block being lowered: where `break` and `continue` lead.
pub(crate) struct ControlFrame {
    /// The owning instruction.
    pub(crate) inst: Inst,
    /// The lanes executing where it began. Lanes that reach an end together are these.
    pub(crate) entry: ExecMask,
    /// Branches to its end.
    pub(crate) exits: Vec<MergeEdge>,
    /// Branches to the next iteration.
    pub(crate) back: Vec<MergeEdge>,
    /// Says how lanes leave one by one; `None` if they all leave together.
    pub(crate) masked: Option<MaskedFrame>,
}

/// The slots through which lanes leave a loop or block one by one.
pub(crate) struct MaskedFrame {
    /// Lanes that have left by `break`.
    pub(crate) left: Val,
    /// The results of lanes that have left, where anything uses them.
    pub(crate) results: SmallVec<[Option<Val>; 2]>,
    /// Lanes waiting for the next iteration, if any `continue` leads there.
    pub(crate) parked: Option<Val>,
    /// Their carried values.
    pub(crate) next: SmallVec<[Val; 2]>,
    /// True if lanes have left under a mask. If not, the slots say nothing that the edges do not.
    pub(crate) used: bool,
}

/// Says where `return` leads.
#[derive(Default)]
pub(crate) struct ReturnTarget {
    /// Branches to the function's end.
    pub(crate) edges: Vec<MergeEdge>,
    /// Slots of the results, if lanes may return one by one.
    pub(crate) slots: Option<SmallVec<[Val; 2]>>,
}
