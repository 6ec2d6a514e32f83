//! The NVPTX back end: HIR to PTX, the assembly language of NVIDIA's GPUs, through LLVM.
//!
//! A kernel is lowered for one thread by [`crate::lower`]; what a thread does first, [`entry`] writes around it:
//! finding out which thread of the launch it is. [`blocks`] is what the threads of a block do together,
//! [`tensor`] what the tensor core does for a warp, [`copies`] what memory does meanwhile, [`tables`] constant memory.
//! [`module`] is what only modules for GPUs have, [`report`] what takes the place of calls into the host, [`lines`]
//! says which line of source an instruction is for.
//!
//! LLVM ends the process when it is asked for what an architecture lacks: capabilities are checked on HIR, before this.
//!
//! Design: `docs/design/ptx-back-end.md`.

mod blocks;
mod copies;
mod entry;
mod lines;
mod module;
mod report;
mod tables;
mod tensor;

use crate::emit;
use crate::target::{HostProcessor, VectorizeMode};
pub(crate) use lines::LineTable;
use polyloom_codegen::{CodeVariant, CodegenError, GridShape, MachineForm};
use polyloom_ir::{Arch, FuncId, Module, PtxVersion, SourceMap};
pub(crate) use tables::ChoiceTables;

/// Generates PTX for one architecture.
#[derive(Clone, Debug)]
pub struct NvptxBackend {
    processor: HostProcessor,
}

/// Describes what a kernel's PTX is made for besides the architecture.
#[derive(Clone, Copy)]
pub struct GpuOptions<'a> {
    /// Says how the threads of a launch come to their elements.
    pub shape: GridShape,
    /// True if launches have at most 2^27 threads, so that small multiples of their numbers do not wrap.
    pub few_threads: bool,
    /// Files to name the lines of, in `.loc` directives.
    pub sources: Option<&'a SourceMap>,
}

impl NvptxBackend {
    /// For an architecture and a version of PTX, which must know the architecture and be one that LLVM 22 writes.
    pub fn new(arch: Arch, version: PtxVersion) -> NvptxBackend {
        let tenths = u32::from(version.major) * 10 + u32::from(version.minor);
        NvptxBackend { processor: HostProcessor::gpu(&arch.to_string(), tenths) }
    }

    /// A kernel as LLVM IR and, as `MachineForm::Asm`, as PTX, IR first. The entry is called `name`.
    ///
    /// # Errors
    ///
    /// When the kernel is beyond what the back end can do.
    pub fn emit<const N: usize>(
        &self,
        module: &Module,
        kernel: FuncId,
        variant: &CodeVariant,
        options: GpuOptions<'_>,
        name: &str,
        forms: [MachineForm; N],
    ) -> Result<[Vec<u8>; N], CodegenError> {
        if forms.contains(&MachineForm::Obj) {
            return Err(CodegenError::new("an object file is for the host; for a GPU there is PTX"));
        }
        emit::emit(&self.processor, name, forms, |ir| {
            entry::kernel(ir, &self.processor, module, kernel, variant, options, name)?;
            // Neighbouring loads and stores become wide ones where code is generated.
            Ok(VectorizeMode::default())
        })
    }
}
