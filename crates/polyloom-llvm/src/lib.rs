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
//! * [`dispatch`]: which of a library's functions run on a processor.
//! * [`jit`]: object code to callable code.
//! * [`outside_calls`]: the proof that code calls nothing that its promises rule out.
//! * [`fatal`]: LLVM's fatal errors, as errors of one compilation.
//! * [`gpu`]: kernels for GPUs.
//!
//! Architecture invariant: every compilation has an LLVM context of its own, so any number may run at once, and
//! generated code needs no symbol of the process beyond what LLVM itself calls (`memcpy`, `fma` on old processors).

mod dispatch;
mod emit;
mod fatal;
mod gpu;
mod ir;
mod jit;
mod lower;
mod outside_calls;
mod target;

pub use gpu::GpuOptions;
pub use gpu::nvptx::NvptxBackend;

use outside_calls::OutsideCall;
use polyloom_codegen::{
    Backend, CodeObject, CodeVariant, CodegenError, EmitRequest, Emitter, Form, LoadedCode, LoadedNative, NativeCpu,
    NativeLibrary, NativeRequest, SiteTable, with_private_updates,
};
use polyloom_ir::{Diagnostic, FuncId, Module};
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

    /// The back end for a kind of processor of a platform, by LLVM's name of that (`aarch64-unknown-linux-gnu`), or of this
    /// machine's. What it makes for another platform cannot be loaded.
    ///
    /// # Errors
    ///
    /// When the platform has no such processors, or this build of LLVM no code generator for it.
    pub fn for_processors(triple: Option<&str>, cpu: NativeCpu) -> Result<LlvmBackend, CodegenError> {
        Ok(LlvmBackend { processor: Arc::new(target::HostProcessor::kind(triple, cpu)?) })
    }

    /// LLVM's name of the platform that code is for.
    pub fn triple(&self) -> String {
        let host = || inkwell::targets::TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned();
        self.processor.triple.clone().unwrap_or_else(host)
    }

    /// Emits what a library has beside its functions, as an object file: how they are chosen when it is loaded, and the texts
    /// of their checks.
    ///
    /// # Errors
    ///
    /// When LLVM does not take the code, or there are several kinds of processors and the platform has one.
    pub fn compile_library(&self, library: &NativeLibrary<'_>) -> Result<Vec<u8>, CodegenError> {
        dispatch::compile(&self.processor, library)
    }

    fn emit_as(&self, request: &EmitRequest<'_>, forms: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError> {
        let EmitRequest { module, kernel, variant, entry, .. } = *request;
        let module = &*with_private_updates(module, kernel, variant);
        if forms == [Form::Strategy] {
            let strategy = lower::Strategy::of(module, kernel, variant, &self.processor);
            let mut text = strategy.explain(module, kernel, variant, &self.processor, request.sources);
            if outside_calls::rules_out_calls(&module.functions[kernel].constraints) {
                text.push_str(&outside_calls::describe(&self.outside_calls(request)?));
            }
            return Ok(vec![text.into_bytes()]);
        }
        emit::emit(&self.processor, entry, forms, |ir| {
            lower::lower_kernel(ir, &self.processor, module, kernel, variant, entry, None)
        })
    }

    /// The calls that leave a kernel's machine code.
    fn outside_calls(&self, request: &EmitRequest<'_>) -> Result<Vec<OutsideCall>, CodegenError> {
        let EmitRequest { module, kernel, variant, entry, .. } = *request;
        let module = &*with_private_updates(module, kernel, variant);
        let places = lower::SpanNumbers::default();
        let made = emit::emit(&self.processor, entry, &[Form::Asm], |ir| {
            lower::lower_kernel(ir, &self.processor, module, kernel, variant, entry, Some(&places))
        })?;
        let text = String::from_utf8_lossy(made.first().map_or(&[], Vec::as_slice));
        Ok(outside_calls::find_calls(&text, &places))
    }

    /// Holds the machine code of a native function against what its kernel promises of calls: the processor may be another
    /// one than this machine's, and the code for all arrays stands beside that for dense ones.
    fn check_native(&self, request: &NativeRequest<'_>) -> Result<(), CodegenError> {
        let func = &request.module.functions[request.kernel];
        if !SiteTable::of(func).sites.is_empty() || !outside_calls::rules_out_calls(&func.constraints) {
            return Ok(());
        }
        // The entry that takes a block of arguments calls the function.
        let request = NativeRequest { has_block_entry: false, ..*request };
        let made = emit::emit(&self.processor, &request.signature.name, &[Form::Asm], |ir| {
            lower::lower_native(ir, &self.processor, &request)
        })?;
        let text = String::from_utf8_lossy(made.first().map_or(&[], Vec::as_slice));
        let calls = outside_calls::find_calls(&text, &lower::SpanNumbers::default());
        let broken: Vec<Diagnostic> = calls.iter().filter_map(|call| call.diagnostic(&func.constraints)).collect();
        match broken.is_empty() {
            true => Ok(()),
            false => Err(CodegenError { span: func.span, ..CodegenError::from_diagnostics(&broken) }),
        }
    }

    /// Writes a native function in forms of the host, in the order of their making.
    ///
    /// # Errors
    ///
    /// As [`Backend::compile_native`].
    pub fn emit_native(&self, request: &NativeRequest<'_>, forms: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError> {
        if forms.contains(&Form::Obj) {
            self.check_native(request)?;
        }
        emit::emit(&self.processor, &request.signature.name, forms, |ir| {
            lower::lower_native(ir, &self.processor, request)
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
        let broken = self.broken_promises(module, kernel, variant)?;
        if !broken.is_empty() {
            return Err(CodegenError::from_diagnostics(&broken));
        }
        let made = self.emit_as(&request, &[Form::Obj])?;
        Ok(emit::wrap(made.first().map_or(&[], Vec::as_slice)))
    }

    fn broken_promises(
        &self,
        module: &Module,
        kernel: FuncId,
        variant: &CodeVariant,
    ) -> Result<Vec<Diagnostic>, CodegenError> {
        let func = &module.functions[kernel];
        // Code that checks reports what fails, which whoever turns checks on for a while asks for.
        if !SiteTable::of(func).sites.is_empty() || !outside_calls::rules_out_calls(&func.constraints) {
            return Ok(Vec::new());
        }
        let request = EmitRequest { module, kernel, variant, entry: emit::ENTRY, sources: None };
        let calls = self.outside_calls(&request)?;
        Ok(calls.iter().filter_map(|call| call.diagnostic(&func.constraints)).collect())
    }

    fn candidates(&self, module: &Module, kernel: FuncId, variant: &CodeVariant) -> Vec<u32> {
        let module = &*with_private_updates(module, kernel, variant);
        lower::Strategy::of(module, kernel, variant, &self.processor).candidates()
    }

    fn load(&self, object: &CodeObject) -> Result<Arc<dyn LoadedCode>, CodegenError> {
        Ok(Arc::new(jit::load(emit::unwrap(object)?, emit::ENTRY)?))
    }

    fn compile_native(&self, request: &NativeRequest<'_>) -> Result<Vec<u8>, CodegenError> {
        Ok(self.emit_native(request, &[Form::Obj])?.pop().unwrap_or_default())
    }

    fn load_native(&self, object: &[u8], name: &str) -> Result<Arc<dyn LoadedNative>, CodegenError> {
        Ok(Arc::new(jit::load_native(object, name, &format!("{name}.block"))?))
    }
}
