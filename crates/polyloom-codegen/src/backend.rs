//! What a back end is.

use crate::abi::KernelEntry;
use crate::form::Emitter;
use crate::native::{LoadedNative, NativeRequest};
use polyloom_ir::{Diagnostic, FuncId, MAX_AXES, Module, Span};
use std::sync::Arc;

/// Facts about one array argument that hold for every launch of a variant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ArrayFacts {
    /// Byte strides are those of a dense row-major array.
    pub contiguous: bool,
    /// The base address is a multiple of 64.
    pub aligned: bool,
    /// If the kernel writes it, it overlaps no other argument, and no two of its elements overlap; if not, it overlaps
    /// no argument that the kernel writes.
    pub disjoint: bool,
    /// Every byte offset from the base, through any in-range index, fits a signed 32-bit integer.
    pub offsets_fit_i32: bool,
    /// Extents worth building into the code: small ones.
    pub extents: [Option<u32>; MAX_AXES],
}

/// Facts about the arguments, one entry per parameter (scalars have the default). Empty means nothing is known.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ArgFacts {
    /// Indexed by parameter.
    pub arrays: Vec<ArrayFacts>,
    /// Integers worth building into the code, by parameter: the extents of a block.
    pub scalars: Vec<(usize, u32)>,
    /// True if no two threads of the processor share what the kernel updates, so that updates need no exclusive access.
    pub alone: bool,
}

impl ArgFacts {
    /// Returns the scalar parameter with this index, if it is known.
    pub fn scalar(&self, index: usize) -> Option<u32> {
        self.scalars.iter().find(|(param, _)| *param == index).map(|&(_, value)| value)
    }

    /// Returns what is known of parameter `index`.
    pub fn array(&self, index: usize) -> ArrayFacts {
        self.arrays.get(index).copied().unwrap_or_default()
    }
}

/// One of the ways to compile a kernel. Whether checks are in, and the float mode, are properties of the HIR, not of
/// the variant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CodeVariant {
    /// Rank of the launch, 1 to [`MAX_DIMS`](polyloom_ir::MAX_DIMS): how many of [`crate::LaunchContext::shape`]'s extents may differ from 1.
    pub launch_rank: u8,
    /// Holds what holds of the arguments.
    pub facts: ArgFacts,
    /// The number of threads that run at a time, a power of two up to 64; unless given, the back end chooses. Back ends
    /// that run threads one by one do not read it, nor do kernels whose threads are blocks have lanes.
    pub lanes: Option<u32>,
}

impl CodeVariant {
    /// A variant whose lanes the back end chooses.
    pub fn new(launch_rank: u8, facts: ArgFacts) -> CodeVariant {
        CodeVariant { launch_rank, facts, lanes: None }
    }

    /// The variant with another number of lanes.
    #[must_use]
    pub fn with_lanes(self, lanes: Option<u32>) -> CodeVariant {
        CodeVariant { lanes, ..self }
    }
}

/// Compiled code as bytes: position independent, cacheable, and understood by the back end that made it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeObject {
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Code in executable memory. Dropping it frees the code: whoever calls `entry` keeps it alive.
pub trait LoadedCode: Send + Sync {
    /// The kernel's entry.
    fn entry(&self) -> KernelEntry;
}

/// Why a back end could not compile. Verified HIR never causes a panic; it may cause this.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct CodegenError {
    /// Holds what is wrong, in the user's terms.
    pub message: String,
    /// Where, if it is about a place in the source.
    pub span: Span,
    /// The same as errors of the source, if it is the source that is to change.
    pub diagnostics: Vec<Diagnostic>,
}

impl CodegenError {
    /// An error about no place in particular.
    pub fn new(message: impl Into<String>) -> CodegenError {
        CodegenError::at(Span::NONE, message)
    }

    /// An error about a place in the source.
    pub fn at(span: Span, message: impl Into<String>) -> CodegenError {
        CodegenError { message: message.into(), span, diagnostics: Vec::new() }
    }

    /// The error that a kernel breaks its promises or is beyond the compiler's limits, as the passes say it.
    pub fn from_diagnostics(diagnostics: impl Into<Vec<Diagnostic>>) -> CodegenError {
        let diagnostics = diagnostics.into();
        match diagnostics.first() {
            Some(first) => CodegenError { message: first.message.clone(), span: first.span, diagnostics },
            None => CodegenError::new("the kernel is beyond the compiler's limits"),
        }
    }
}

/// Turns kernels into machine code of the host, and [writes](Emitter) it.
///
/// The kernel's HIR has been through the pipeline of `polyloom-passes`: user functions are inlined, library ops are
/// calls to pure functions of scalars in the same module, and 16-bit float arithmetic is gone.
pub trait Backend: Emitter + Send + Sync {
    /// `cranelift` or `llvm`.
    fn name(&self) -> &'static str;

    /// Its version and the machine it compiles for, in a few words for people.
    fn description(&self) -> String;

    /// Everything besides HIR and variant that the object depends on (version, CPU, options), for cache keys.
    fn fingerprint(&self) -> String;

    /// Compiles one kernel.
    ///
    /// # Errors
    ///
    /// When the kernel is beyond what the back end can do.
    fn compile(&self, module: &Module, kernel: FuncId, variant: &CodeVariant) -> Result<CodeObject, CodegenError>;

    /// The numbers of lanes between which an estimate cannot decide, so that only measuring can: first the one that is
    /// chosen where the variant gives none. Empty if there is nothing to measure, because every candidate costs a
    /// compilation.
    fn candidates(&self, _module: &Module, _kernel: FuncId, _variant: &CodeVariant) -> Vec<u32> {
        Vec::new()
    }

    /// Returns what a kernel's machine code calls although its decorator rules that out, each with its place in the
    /// source. Empty if nothing of the kind is promised, and of back ends whose code calls nothing.
    ///
    /// # Errors
    ///
    /// As [`Backend::compile`].
    fn broken_promises(
        &self,
        _module: &Module,
        _kernel: FuncId,
        _variant: &CodeVariant,
    ) -> Result<Vec<Diagnostic>, CodegenError> {
        Ok(Vec::new())
    }

    /// Makes an object of this back end callable.
    ///
    /// # Errors
    ///
    /// When the bytes are no such object, or memory cannot be had.
    fn load(&self, object: &CodeObject) -> Result<Arc<dyn LoadedCode>, CodegenError>;

    /// Compiles a kernel as a native function, into an object file.
    ///
    /// # Errors
    ///
    /// When the back end makes none, or the kernel is beyond what it can do.
    fn compile_native(&self, _request: &NativeRequest<'_>) -> Result<Vec<u8>, CodegenError> {
        Err(CodegenError::new(format!("the back end {} makes no native functions", self.name())))
    }

    /// Makes an object file of [`Backend::compile_native`] callable. It has the entry that takes a block of arguments.
    ///
    /// # Errors
    ///
    /// When the bytes are no such object, or memory cannot be had.
    fn load_native(&self, _object: &[u8], _name: &str) -> Result<Arc<dyn LoadedNative>, CodegenError> {
        Err(CodegenError::new(format!("the back end {} makes no native functions", self.name())))
    }
}
