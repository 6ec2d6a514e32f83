//! The NVPTX back end: HIR to PTX, the assembly language of NVIDIA's GPUs, through LLVM.
//!
//! A kernel is lowered for one thread by [`crate::lower`]; what a thread does first, [`entry`] writes around it:
//! finding out which thread of the launch it is. [`blocks`] is what the threads of a block do together,
//! [`tensor`] what the tensor core does for a warp, [`copies`] what memory does meanwhile. [`module`] is what only modules
//! for GPUs have, [`report`] what takes the place of calls into the host.
//!
//! LLVM ends the process when it is asked for what an architecture lacks: capabilities are checked on HIR, before this.
//!
//! Design: `docs/design/ptx-back-end.md`.

mod blocks;
mod copies;
mod entry;
mod module;
mod report;
mod tensor;

use super::GpuOptions;
use crate::emit;
use crate::target::{HostProcessor, OptimizerMode};
use polyloom_codegen::{CodegenError, EmitRequest, Emitter, Form};
use polyloom_ir::{Arch, PtxVersion};

/// Generates PTX for one architecture.
#[derive(Clone, Debug)]
pub struct NvptxBackend {
    processor: HostProcessor,
    options: GpuOptions,
}

impl NvptxBackend {
    /// For an architecture and a version of PTX, which must know the architecture and be one that LLVM 22 writes.
    pub fn new(arch: Arch, version: PtxVersion, options: GpuOptions) -> NvptxBackend {
        let tenths = u32::from(version.major) * 10 + u32::from(version.minor);
        NvptxBackend { processor: HostProcessor::gpu(&arch.to_string(), tenths), options }
    }
}

impl Emitter for NvptxBackend {
    fn forms(&self) -> &'static [Form] {
        &[Form::GpuLlvmIr, Form::GpuLlvmIrOptimized, Form::Ptx]
    }

    fn emit_forms(&self, request: &EmitRequest<'_>, forms: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError> {
        if let Some(form) = forms.iter().find(|form| !self.forms().contains(form)) {
            return Err(CodegenError::new(format!("there is no {form} for a GPU: there is PTX")));
        }
        emit::emit(&self.processor, request.entry, forms, None, |ir| {
            entry::kernel(ir, &self.processor, request, self.options)?;
            // Neighbouring loads and stores become wide ones where code is generated.
            Ok(OptimizerMode::default())
        })
    }
}
