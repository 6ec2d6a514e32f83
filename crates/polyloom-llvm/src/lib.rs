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
//! * [`sequence`]: functions of a library that call its kernels one after the other.
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
mod sequence;
mod target;

pub use gpu::GpuOptions;
pub use gpu::nvptx::NvptxBackend;

use outside_calls::OutsideCall;
use polyloom_codegen::{
    Backend, CodeObject, CodeVariant, CodegenError, EmitRequest, Emitter, Form, LoadedCode, LoadedNative, NativeCpu,
    NativeLibrary, NativeRequest, NativeSequence, with_private_updates,
};
use polyloom_ir::{Diagnostic, ExecutionConstraints, FuncId, Module};
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

    /// Emits a function that calls kernels of its library one after the other, as an object file.
    ///
    /// # Errors
    ///
    /// When LLVM does not take the code.
    pub fn compile_sequence(&self, sequence: &NativeSequence<'_>) -> Result<Vec<u8>, CodegenError> {
        sequence::compile(&self.processor, sequence)
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
        emit::emit(&self.processor, entry, forms, None, |ir| {
            lower::lower_kernel(ir, &self.processor, module, kernel, variant, entry, None)
        })
    }

    /// Makes an object after a proof that its code calls nothing that these constraints rule out. `own` is a function that
    /// the code may call, because it is what the proof is of. `lower` numbers the places in the source.
    fn proved_object(
        &self,
        name: &str,
        constraints: &ExecutionConstraints,
        own: Option<&str>,
        lower: impl Fn(&ir::IrEmitter<'_>, &lower::SpanNumbers) -> Result<target::OptimizerMode, CodegenError>,
    ) -> Result<Vec<u8>, CodegenError> {
        let places = lower::SpanNumbers::default();
        let prove = |text: &str| {
            let calls = outside_calls::find_calls(text, &places);
            let is_own = |call: &OutsideCall| call.is_internal && own.is_some() && call.callee.as_deref() == own;
            let broken: Vec<Diagnostic> =
                calls.iter().filter(|call| !is_own(call)).filter_map(|call| call.diagnostic(constraints)).collect();
            if broken.is_empty() { Ok(()) } else { Err(CodegenError::from_diagnostics(broken)) }
        };
        let made = emit::emit(&self.processor, name, &[Form::Obj], Some(&prove), |ir| lower(ir, &places))?;
        Ok(made.into_iter().next().unwrap_or_default())
    }

    /// The calls that leave a kernel's machine code.
    fn outside_calls(&self, request: &EmitRequest<'_>) -> Result<Vec<OutsideCall>, CodegenError> {
        let EmitRequest { module, kernel, variant, entry, .. } = *request;
        let module = &*with_private_updates(module, kernel, variant);
        let places = lower::SpanNumbers::default();
        let made = emit::emit(&self.processor, entry, &[Form::Asm], None, |ir| {
            lower::lower_kernel(ir, &self.processor, module, kernel, variant, entry, Some(&places))
        })?;
        let text = String::from_utf8_lossy(made.first().map_or(&[], Vec::as_slice));
        Ok(outside_calls::find_calls(&text, &places))
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
        let Some(constraints) = outside_calls::promises_of_calls(&module.functions[kernel]) else {
            let request = EmitRequest { module, kernel, variant, entry: emit::ENTRY, sources: None };
            let made = self.emit_as(&request, &[Form::Obj])?;
            return Ok(emit::wrap(made.first().map_or(&[], Vec::as_slice)));
        };
        let module = &*with_private_updates(module, kernel, variant);
        let object = self.proved_object(emit::ENTRY, &constraints, None, |ir, places| {
            lower::lower_kernel(ir, &self.processor, module, kernel, variant, emit::ENTRY, Some(places))
        })?;
        Ok(emit::wrap(&object))
    }

    fn broken_promises(
        &self,
        module: &Module,
        kernel: FuncId,
        variant: &CodeVariant,
    ) -> Result<Vec<Diagnostic>, CodegenError> {
        let Some(constraints) = outside_calls::promises_of_calls(&module.functions[kernel]) else {
            return Ok(Vec::new());
        };
        let request = EmitRequest { module, kernel, variant, entry: emit::ENTRY, sources: None };
        let calls = self.outside_calls(&request)?;
        Ok(calls.iter().filter_map(|call| call.diagnostic(&constraints)).collect())
    }

    fn candidates(&self, module: &Module, kernel: FuncId, variant: &CodeVariant) -> Vec<u32> {
        let module = &*with_private_updates(module, kernel, variant);
        lower::Strategy::of(module, kernel, variant, &self.processor).candidates()
    }

    fn load(&self, object: &CodeObject) -> Result<Arc<dyn LoadedCode>, CodegenError> {
        Ok(Arc::new(jit::load(emit::unwrap(object)?, emit::ENTRY)?))
    }

    fn compile_native(&self, request: &NativeRequest<'_>) -> Result<Vec<u8>, CodegenError> {
        let name = &request.signature.name;
        let Some(constraints) = outside_calls::promises_of_calls(&request.module.functions[request.kernel]) else {
            let made = emit::emit(&self.processor, name, &[Form::Obj], None, |ir| {
                lower::lower_native(ir, &self.processor, request, None)
            })?;
            return Ok(made.into_iter().next().unwrap_or_default());
        };
        // The entry that takes a block of arguments calls the function.
        let own = request.has_block_entry.then_some(request.symbol);
        self.proved_object(name, &constraints, own, |ir, places| {
            lower::lower_native(ir, &self.processor, request, Some(places))
        })
    }

    fn load_native(&self, object: &[u8], name: &str) -> Result<Arc<dyn LoadedNative>, CodegenError> {
        Ok(Arc::new(jit::load_native(object, name, &format!("{name}.block"))?))
    }
}
