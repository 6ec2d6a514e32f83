//! Facts about the function definitions of a file.

use std::sync::Arc;

/// Describes what a decorator makes of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FunctionRole {
    /// `@loom.kernel`: launched over a grid of threads.
    Kernel,
    /// `@loom.func`: called from kernels and functions.
    Func,
    /// `@loom.func_grad(f)`: carries derivatives through `f`.
    Gradient,
    /// `@loom.func_replay(f)`: runs in place of `f` on the way to its derivative.
    Replay,
}

/// One function definition of a file.
#[derive(Clone, Debug)]
pub struct FunctionInfo {
    /// Its name.
    pub name: Arc<str>,
    /// Holds what its decorators make of it; `None` for plain Python functions.
    pub role: Option<FunctionRole>,
    /// Says which of its decorators says so.
    pub(crate) decorator: Option<usize>,
    /// The name of the function that it belongs to of one that a derivative is made of.
    pub of: Option<Arc<str>>,
    /// The names that the adjoints of its parameters have in its text, if it carries derivatives.
    pub adjoints: Vec<Arc<str>>,
    /// Byte offset of the definition.
    pub start: u32,
    /// Line of the first decorator, or of `def` where there is none: Python's `co_firstlineno`.
    pub first_line: u32,
    /// Line of the `def` keyword.
    pub def_line: u32,
    /// Byte offsets of the definitions around it, outermost first; empty at module level.
    pub enclosing: Vec<u32>,
    /// True if its name means the function in its own body, as it does everywhere but in a class.
    pub sees_itself: bool,
}
