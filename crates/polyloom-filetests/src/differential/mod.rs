//! Differential fuzzing: random kernels through every engine, compared bit for bit.
//!
//! [`generate`] makes a kernel from a seed, [`EngineSet::check`] runs it on the interpreter, Cranelift and, where the
//! build has it, LLVM, with arguments from the same seed, and compares every element of every array. [`shrink`] makes a
//! disagreement small enough to read. [`TextEngine`] does the same for C++ text, many kernels at a time, and
//! [`EngineSet::check_loom`] compares a kernel with its `.loom` text. Programs that once disagreed are kept under
//! `tests/filetests/differential` and run with the tests.

mod arrays;
mod blocks;
mod builtins;
mod compare;
mod composites;
mod expressions;
mod extents;
mod functions;
mod generate;
mod generics;
mod gradients;
mod indices;
mod loom;
mod names;
mod program;
mod random;
mod shrink;
mod statements;
mod structs;
mod text;

pub use compare::{Disagreement, EngineSet};
pub use extents::{ExtentComparison, ExtentFuzzer};
pub use generate::{generate, generate_smooth};
pub use gradients::GradientOutcome;
pub use loom::LoomComparison;
pub use program::{ArrayParam, ArrayUse, RandomProgram};
pub use shrink::shrink;
pub use text::TextEngine;
pub(crate) use text::{launch, written};
