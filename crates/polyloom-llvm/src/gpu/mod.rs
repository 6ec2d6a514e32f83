//! Code for GPUs: what targets share, and a folder for each.
//!
//! A target lowers HIR for one thread with [`crate::lower`] and writes around it what a thread does first. Another one,
//! such as AMD's, is another folder.

pub(crate) mod nvptx;

use polyloom_codegen::GridShape;

/// Describes what a kernel's code is made for besides the architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GpuOptions {
    /// Says how the threads of a launch come to their elements.
    pub shape: GridShape,
    /// True if launches have at most 2^27 threads, so that small multiples of their numbers do not wrap.
    pub few_threads: bool,
}
