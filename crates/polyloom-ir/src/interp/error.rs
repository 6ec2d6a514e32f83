//! Says how an interpreted program can fail, and where.

use crate::entity::{FuncId, Inst};
use crate::op::Op;
use crate::span::Span;
use crate::types::Type;

/// Says how deeply calls may nest.
pub const MAX_CALL_DEPTH: usize = 128;

/// Says where in the program something went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrapSite {
    /// The function; `None` for one of the math library.
    pub func: Option<FuncId>,
    /// The instruction in it.
    pub inst: Inst,
    /// The source it stands for.
    pub span: Span,
}

/// A failed `check` or `assert`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterpTrap {
    /// The instruction. It says what was checked.
    pub site: TrapSite,
    /// `check`: the index operand; `CheckKind::index` says what it stands for.
    pub index: i64,
    /// `check`: the extent.
    pub extent: i64,
    /// The thread, counted in row-major order.
    pub thread: u64,
}

/// Why a program ended before its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InterpError {
    /// A `check` or `assert` failed.
    #[error("a check failed in thread {}", .0.thread)]
    Trap(InterpTrap),
    /// An array access outside its array.
    #[error("index {index} is outside axis {axis} of extent {extent} in thread {thread}")]
    OutOfBounds {
        /// The access.
        site: TrapSite,
        /// Says which of its indices.
        axis: u8,
        /// The index, before a negative one wrapped.
        index: i128,
        /// The axis's extent.
        extent: i64,
        /// The thread, counted in row-major order.
        thread: u64,
    },
    /// An element of an array argument that its buffer does not hold.
    #[error("the buffer ends before an element of the array in thread {thread}")]
    OutsideBuffer {
        /// The access.
        site: TrapSite,
        /// The thread, counted in row-major order.
        thread: u64,
    },
    /// The step limit was reached.
    #[error("the step limit was reached in thread {thread}")]
    StepLimit {
        /// The thread, counted in row-major order.
        thread: u64,
    },
    /// An `unreachable` was reached.
    #[error("`unreachable` was reached in thread {thread}")]
    Unreachable {
        /// The instruction.
        site: TrapSite,
        /// The thread, counted in row-major order.
        thread: u64,
    },
    /// Threads that should execute an op together cannot, because some wait for it and others for something else.
    #[error("threads wait for each other at `{}` and elsewhere, thread {thread} among them", op.name())]
    Divergence {
        /// Holds what one of them waits at.
        site: TrapSite,
        /// The op there.
        op: Op,
        /// That thread, counted in row-major order.
        thread: u64,
    },
    /// An op without a definition for these operands.
    #[error("`{}` is not defined for operands {types:?}", op.name())]
    NoDefinition {
        /// The op.
        op: Op,
        /// Its operand types.
        types: Vec<Type>,
    },
    /// Functions that call each other in a circle, or too deeply.
    #[error("function calls are recursive, or nested more than {MAX_CALL_DEPTH} deep")]
    CallDepth,
    /// Arguments that do not fit the function.
    #[error("arguments do not fit: {0}")]
    BadArguments(String),
}
