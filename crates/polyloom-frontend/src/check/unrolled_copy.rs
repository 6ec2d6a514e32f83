//! The copies of a loop's body that unrolling makes.

use super::flow::FlowState;
use crate::typed_ast::LocalId;

/// A copy of the body of a loop that is unrolled.
pub(super) struct UnrolledCopy<'a> {
    /// Number of loops and how many branches are open around its statements.
    pub(super) n_loops: usize,
    pub(super) n_open: usize,
    /// The name of its counter, and the variable that this is outside.
    pub(super) counter: (&'a str, LocalId),
    /// Says how it ended early: whether the loop is left, and what was set then.
    pub(super) jump: Option<(bool, FlowState)>,
}
