//! The forms that a kernel's code can be had in, and what writes them.

use crate::backend::{CodeVariant, CodegenError};
use polyloom_ir::{FuncId, Module, SourceMap};
use std::fmt;

/// A form of a kernel's code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// The typed syntax tree.
    Ast,
    /// HIR as the front end made it.
    Hir,
    /// HIR as back ends for the CPU get it.
    HirPrepared,
    /// C++ that compiles by itself.
    Cpp,
    /// CUDA C++ that compiles by itself.
    Cuda,
    /// The choices made for code of the host, with their reasons, as text for people.
    Strategy,
    /// LLVM IR for the host, before optimisation.
    LlvmIr,
    /// LLVM IR for the host, after optimisation.
    LlvmIrOptimized,
    /// Assembly text of the host.
    Asm,
    /// A relocatable object file of the host.
    Obj,
    /// LLVM IR for a GPU, before optimisation.
    GpuLlvmIr,
    /// LLVM IR for a GPU, after optimisation.
    GpuLlvmIrOptimized,
    /// PTX, the assembly language of NVIDIA's GPUs.
    Ptx,
    /// PTX, assembled for GPUs of one architecture.
    Cubin,
}

impl Form {
    /// Every form.
    pub const ALL: [Form; 14] = [
        Form::Ast,
        Form::Hir,
        Form::HirPrepared,
        Form::Cpp,
        Form::Cuda,
        Form::Strategy,
        Form::LlvmIr,
        Form::LlvmIrOptimized,
        Form::Asm,
        Form::Obj,
        Form::GpuLlvmIr,
        Form::GpuLlvmIrOptimized,
        Form::Ptx,
        Form::Cubin,
    ];

    /// Returns true if the code is for GPUs.
    pub fn is_for_gpus(self) -> bool {
        matches!(self, Form::Cuda | Form::GpuLlvmIr | Form::GpuLlvmIrOptimized | Form::Ptx | Form::Cubin)
    }

    /// Returns true if it is text.
    pub fn is_text(self) -> bool {
        !matches!(self, Form::Obj | Form::Cubin)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Ast => "the syntax tree",
            Form::Hir => "HIR",
            Form::HirPrepared => "prepared HIR",
            Form::Cpp => "C++",
            Form::Cuda => "CUDA C++",
            Form::Strategy => "choices",
            Form::LlvmIr | Form::LlvmIrOptimized => "LLVM IR",
            Form::Asm => "assembly",
            Form::Obj => "an object file",
            Form::GpuLlvmIr | Form::GpuLlvmIrOptimized => "LLVM IR for a GPU",
            Form::Ptx => "PTX",
            Form::Cubin => "a cubin",
        })
    }
}

/// Names what is written.
#[derive(Clone, Copy)]
pub struct EmitRequest<'a> {
    /// The module, as the back end takes it.
    pub module: &'a Module,
    /// The kernel in it.
    pub kernel: FuncId,
    /// Describes what the code is specialised on.
    pub variant: &'a CodeVariant,
    /// The name of the entry, where the form has one that is not the kernel's.
    pub entry: &'a str,
    /// The sources whose lines are named in the code, if any are.
    pub sources: Option<&'a SourceMap>,
}

impl<'a> EmitRequest<'a> {
    /// Asks for a kernel whose entry has its name, and for no lines.
    pub fn new(module: &'a Module, kernel: FuncId, variant: &'a CodeVariant) -> EmitRequest<'a> {
        EmitRequest { module, kernel, variant, entry: &module.functions[kernel].name, sources: None }
    }
}

/// Writes kernels in forms that people read, or that other tools take.
pub trait Emitter {
    /// The forms that it writes.
    fn forms(&self) -> &'static [Form];

    /// Writes a kernel in several of its forms, in the order in which they are made of each other, so that they share
    /// the work.
    ///
    /// # Errors
    ///
    /// When it has no such form, or the kernel is beyond it.
    fn emit_forms(&self, request: &EmitRequest<'_>, forms: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError>;

    /// Writes a kernel in one form.
    ///
    /// # Errors
    ///
    /// As [`Emitter::emit_forms`].
    fn emit(&self, request: &EmitRequest<'_>, form: Form) -> Result<Vec<u8>, CodegenError> {
        let missing = || CodegenError::new(format!("internal error: a back end gives no {form}"));
        self.emit_forms(request, &[form])?.pop().ok_or_else(missing)
    }
}
