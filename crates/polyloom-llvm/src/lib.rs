//! The LLVM back ends: machine code for the CPU, and PTX.
//!
//! For the CPU, kernels are compiled for groups of consecutive threads: the lanes of vector registers are the threads
//! along the innermost launch axis. HIR is structured, so it goes straight to vector IR, with masks where threads part
//! ways; LLVM's loop vectoriser has no part in it. What is the same for a whole group stays scalar.
//!
//! * [`target`]: the host, the pass pipeline, object code.
//! * [`ir`]: LLVM instructions, scalar or vector alike.
//! * [`lower`]: HIR to LLVM IR.
//! * [`emit`]: the forms a kernel can be had in.
//! * [`jit`]: object code to callable code.
//! * [`fatal`]: LLVM's fatal errors, as errors of one compilation.
//! * [`gpu`]: kernels for GPUs.
//!
//! Architecture invariant: every compilation has an LLVM context of its own, so any number may run at once, and
//! generated code needs no symbol of the process beyond what LLVM itself calls (`memcpy`, `fma` on old processors).

mod emit;
mod fatal;
mod gpu;
mod ir;
mod jit;
mod lower;
mod target;

pub use gpu::GpuOptions;
pub use gpu::nvptx::NvptxBackend;

use polyloom_codegen::{
    Backend, CodeObject, CodeVariant, CodegenError, EmitRequest, Emitter, Form, LoadedCode, with_private_updates,
};
use polyloom_ir::{FuncId, Module};
use std::sync::Arc;

/// CPU tier 1: code that takes milliseconds to make and runs as fast as the machine can.
#[derive(Clone, Debug)]
pub struct LlvmBackend {
    processor: Arc<target::HostProcessor>,
}

impl LlvmBackend {
    /// The back end for this machine.
    ///
    /// # Errors
    ///
    /// When LLVM has no code generator for it.
    pub fn new() -> Result<LlvmBackend, CodegenError> {
        Ok(LlvmBackend { processor: Arc::new(target::HostProcessor::host()?.clone()) })
    }

    /// The back end for all processors of an x86-64 level: `x86-64`, `x86-64-v2`, `x86-64-v3` or `x86-64-v4`.
    ///
    /// # Errors
    ///
    /// When the name is none of these or this is no x86-64 machine.
    pub fn for_cpu(name: &str) -> Result<LlvmBackend, CodegenError> {
        Ok(LlvmBackend { processor: Arc::new(target::HostProcessor::level(name)?) })
    }

    fn emit_as(&self, request: &EmitRequest<'_>, forms: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError> {
        let EmitRequest { module, kernel, variant, entry, .. } = *request;
        let module = &*with_private_updates(module, kernel, variant);
        if forms == [Form::Strategy] {
            let strategy = lower::Strategy::of(module, kernel, variant, &self.processor);
            return Ok(vec![strategy.explain(module, kernel, variant, &self.processor, request.sources).into_bytes()]);
        }
        emit::emit(&self.processor, entry, forms, |ir| {
            lower::lower_kernel(ir, &self.processor, module, kernel, variant, entry)
        })
    }
}

impl Emitter for LlvmBackend {
    fn forms(&self) -> &'static [Form] {
        &[Form::Strategy, Form::LlvmIr, Form::LlvmIrOptimized, Form::Asm, Form::Obj]
    }

    fn emit_forms(&self, request: &EmitRequest<'_>, forms: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError> {
        if let Some(form) = forms.iter().find(|form| !self.forms().contains(form)) {
            return Err(CodegenError::new(format!("LLVM gives no {form} for the host")));
        }
        self.emit_as(request, forms)
    }
}

impl Backend for LlvmBackend {
    fn name(&self) -> &'static str {
        "llvm"
    }

    fn description(&self) -> String {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        format!("{major}.{minor}.{patch}, {}", self.processor.cpu)
    }

    fn fingerprint(&self) -> String {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        let (cpu, features) = (&self.processor.cpu, &self.processor.features);
        format!("llvm {major}.{minor}.{patch} {} {cpu} {features}", env!("CARGO_PKG_VERSION"))
    }

    fn compile(&self, module: &Module, kernel: FuncId, variant: &CodeVariant) -> Result<CodeObject, CodegenError> {
        let request = EmitRequest { module, kernel, variant, entry: emit::ENTRY, sources: None };
        let made = self.emit_as(&request, &[Form::Obj])?;
        Ok(emit::wrap(made.first().map_or(&[], Vec::as_slice)))
    }

    fn candidates(&self, module: &Module, kernel: FuncId, variant: &CodeVariant) -> Vec<u32> {
        let module = &*with_private_updates(module, kernel, variant);
        lower::Strategy::of(module, kernel, variant, &self.processor).candidates()
    }

    fn load(&self, object: &CodeObject) -> Result<Arc<dyn LoadedCode>, CodegenError> {
        Ok(Arc::new(jit::load(emit::unwrap(object)?, emit::ENTRY)?))
    }
}
