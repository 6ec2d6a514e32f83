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
//! * [`nvptx`]: kernels for NVIDIA's GPUs.
//!
//! Architecture invariant: every compilation has an LLVM context of its own, so any number may run at once, and
//! generated code needs no symbol of the process beyond what LLVM itself calls (`memcpy`, `fma` on old processors).

mod emit;
mod ir;
mod jit;
mod lower;
mod nvptx;
mod target;

pub use nvptx::{GpuOptions, NvptxBackend};

use polyloom_codegen::{Backend, CodeObject, CodeVariant, CodegenError, LoadedCode, MachineForm, with_private_updates};
use polyloom_ir::{FuncId, Module};
use std::sync::Arc;

/// CPU tier 1: code that takes milliseconds to make and runs as fast as the machine can.
#[derive(Clone, Debug)]
pub struct LlvmBackend {
    processor: Arc<target::HostProcessor>,
    lanes: Option<u32>,
}

impl LlvmBackend {
    /// The back end for this machine.
    ///
    /// # Errors
    ///
    /// When LLVM has no code generator for it.
    pub fn new() -> Result<LlvmBackend, CodegenError> {
        Ok(LlvmBackend { processor: Arc::new(target::HostProcessor::host()?.clone()), lanes: None })
    }

    /// The back end for all processors of an x86-64 level: `x86-64`, `x86-64-v2`, `x86-64-v3` or `x86-64-v4`.
    ///
    /// # Errors
    ///
    /// When the name is none of these or this is no x86-64 machine.
    pub fn for_cpu(name: &str) -> Result<LlvmBackend, CodegenError> {
        Ok(LlvmBackend { processor: Arc::new(target::HostProcessor::level(name)?), lanes: None })
    }

    /// Runs this many threads at a time, a power of two up to 64, instead of choosing for each kernel. For tests and
    /// measurements.
    #[must_use]
    pub fn with_lanes(mut self, lanes: u32) -> LlvmBackend {
        self.lanes = Some(lanes.clamp(1, 64).next_power_of_two());
        self
    }

    fn emit_as(
        &self,
        module: &Module,
        kernel: FuncId,
        variant: &CodeVariant,
        form: MachineForm,
        entry: &str,
    ) -> Result<Vec<u8>, CodegenError> {
        let module = &*with_private_updates(module, kernel, variant);
        let [made] = emit::emit(&self.processor, entry, [form], |ir| {
            lower::kernel(ir, &self.processor, self.lanes, module, kernel, variant, entry)
        })?;
        Ok(made)
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
        let lanes = self.lanes.map(|lanes| format!(" {lanes} lanes")).unwrap_or_default();
        let (cpu, features) = (&self.processor.cpu, &self.processor.features);
        format!("llvm {major}.{minor}.{patch} {} {cpu} {features}{lanes}", env!("CARGO_PKG_VERSION"))
    }

    fn compile(&self, module: &Module, kernel: FuncId, variant: &CodeVariant) -> Result<CodeObject, CodegenError> {
        Ok(emit::wrap(&self.emit_as(module, kernel, variant, MachineForm::Obj, emit::ENTRY)?))
    }

    fn load(&self, object: &CodeObject) -> Result<Arc<dyn LoadedCode>, CodegenError> {
        Ok(Arc::new(jit::load(emit::unwrap(object)?, emit::ENTRY)?))
    }

    fn emit(
        &self,
        module: &Module,
        kernel: FuncId,
        variant: &CodeVariant,
        form: MachineForm,
    ) -> Result<Vec<u8>, CodegenError> {
        self.emit_as(module, kernel, variant, form, &module.functions[kernel].name)
    }
}
