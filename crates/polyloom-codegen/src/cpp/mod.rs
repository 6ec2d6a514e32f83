//! C++ and CUDA C++ text.
//!
//! Unlike the other back ends this one takes HIR as the front end made it: composites, calls and names are still
//! there, and the text is meant to be read. Control flow comes straight from HIR's regions; values become the source's
//! variables again (`variables.rs`) or parts of expressions (`plan.rs`, `expression.rs`). What ops compute that have no
//! operator in C++ is not written anew here: their definitions in HIR, which [`TextSemantics`] gives, become functions of
//! the text, so it computes the interpreter's bits. Only what a text uses is in its prelude (`prelude.rs`).
//!
//! A kernel's parameters are `launch_bounds`, by value, and then each of its own in order: a scalar of its C++ type, a
//! composite as its components, an array as a struct of base address, extents and byte strides. The C++ kernel also
//! takes the range of threads it runs; the CUDA kernel strides over the launch's threads by the size of the grid. Where
//! threads work together, the C++ kernel takes the range of blocks it runs, and how the launch is divided into them.
//!
//! Architecture invariant: nothing here changes HIR, and nothing depends on a compiler of C++ being at hand.
//!
//! Design: `docs/design/cpp-text.md`.

mod arithmetic;
mod blocks;
mod body;
mod control;
mod effects;
mod expression;
mod gpu;
mod layout;
mod library;
mod names;
mod plan;
mod prelude;
mod range;
mod results;
mod target;
mod tensor;
mod types;
mod unit;
mod variables;

pub use library::LibraryTexts;
pub use target::TextTarget;

use crate::backend::CodegenError;
use polyloom_ir::block_plan::BlockPlan;
use polyloom_ir::{FuncId, Function, Inst, Module, Op, SourceMap, Type};
use std::sync::Arc;

/// Describes what is known of HIR beyond its text: analyses and definitions of ops.
pub trait TextSemantics {
    /// A module whose first function defines an op for operands of these types, none of them a 16-bit float by itself:
    /// its parameters are the op's operands and its results the op's.
    fn definition(&self, op: Op, types: &[Type]) -> Option<Arc<Module>>;

    /// The indices of array accesses that may be negative: the access and the operand's number.
    fn negative_indices(&self, func: &Function) -> Vec<(Inst, u8)>;

    /// Returns where texts of these definitions are kept.
    fn library_texts(&self) -> &LibraryTexts;
}

/// Describes how a text is written.
#[derive(Clone, Copy, Default)]
pub struct CppOptions<'a> {
    /// Files whose lines stand as comments before what they became.
    pub sources: Option<&'a SourceMap>,
    /// True if to leave out all but the kernel and the functions it calls, to look at them.
    pub without_prelude: bool,
}

/// The name of a type in texts.
pub fn type_name(ty: Type) -> String {
    types::name(ty)
}

/// The name that a kernel's function has in the text.
pub fn kernel_name(kernel: &Function, target: TextTarget) -> String {
    match target {
        TextTarget::Cpp => crate::entry_name(kernel, "cpu"),
        TextTarget::Cuda => crate::entry_name(kernel, "cuda"),
    }
}

/// Writes a kernel of verified HIR as a text that compiles by itself. `blocks`: how it was split, if its threads are
/// blocks.
///
/// # Errors
///
/// When the kernel has something that has no form in C++.
pub fn emit(
    module: &Module,
    kernel: FuncId,
    blocks: Option<&BlockPlan>,
    target: TextTarget,
    options: &CppOptions<'_>,
    semantics: &dyn TextSemantics,
) -> Result<String, CodegenError> {
    unit::TextUnit::new(target, blocks, options, semantics).write(module, kernel)
}
