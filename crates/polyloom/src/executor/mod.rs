//! The executor: a recipe compiled to a static plan of launches, calls of libraries and copies, and run.
//!
//! ```text
//! Recipe ── verify ──► VerifiedRecipe ── ExecutablePath::compile ──► ExecutablePath ── bind ──► BoundPath ──► run
//!                                              │
//!                  groups that are planned: FusedPlan (fusion);   other groups: kernels of an ArrayLibrary
//! ```
//!
//! An [`ExecutablePath`] is for known extents and layouts of the inputs; it is shared and does not change. What a run needs is decided
//! when it is compiled: which memory each value is in, for how long, and the order of steps. A [`BoundPath`] is one caller's, and keeps
//! launches bound. NumPy and PyTorch are behind the trait [`ArrayLibrary`], so that nothing here knows Python.
//!
//! Planned groups run on the CPU, on the simulator and on CUDA's first device; values are copied by the queues of devices. PyTorch copies
//! its tensors to its GPU and back. Tensors there are not taken as Polyloom's arrays there, nor the other way round: such a path is refused.
//!
//! Design: `docs/design/executor.md`.

mod calls;
mod compile;
mod elements;
mod host_arrays;
mod library;
mod measure;
mod run;

pub(crate) use calls::{CallArg, CallMemory, PathCall, PathCalls};
pub(crate) use compile::{ArenaBlock, place_blocks};
pub use compile::{ExecutablePath, OutputPlace};
#[cfg(feature = "planner")]
pub(crate) use elements::write_elements;
pub use host_arrays::{HostArray, HostArrays, NodeKernel};
pub use library::{ArrayLibrary, CallOperand, HostView, LibraryCall};
pub use measure::{MeasuredPathRun, OutputExpectation};
pub use run::BoundPath;

use crate::fusion::FusionError;
use polyloom_graph::{GraphError, RecipeError};
use std::fmt::Display;

/// The reason why a path cannot be compiled or run. `E` is the error of libraries.
#[derive(Debug, thiserror::Error)]
pub enum PathError<E: Display> {
    /// The recipe cannot run.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The program cannot be specialised, or a group is no graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A group that is planned fails.
    #[error(transparent)]
    Fusion(#[from] FusionError),
    /// A kernel of a library fails, or there is none.
    #[error("{0}")]
    Library(E),
    /// Something in the recipe is not supported here.
    #[error("{0}")]
    Unsupported(String),
}
