//! PTX by LLVM, and NVIDIA's tools.

use super::{GpuForm, GpuTarget};
use crate::kernel::Kernel;
use crate::ptx_argument::name_parameters;
use polyloom_codegen::{CodeVariant, CodegenError, MachineForm};
use polyloom_ir::{Arch, FuncId, Module, PtxVersion, SourceMap};
use polyloom_runtime::cuda::{AssembleError, cubin};
pub(super) use polyloom_runtime::cuda::{NvrtcLibrary, PtxAssembler, PtxasProgram, set_package_folders};

pub(super) fn assemble(kernel: &Kernel, ptx: &str, arch: Arch) -> Result<Vec<u8>, AssembleError> {
    cubin(kernel.cache(), ptx, arch)
}

pub(super) fn emit<const N: usize>(
    (module, kernel): (&Module, FuncId),
    variant: &CodeVariant,
    target: &GpuTarget,
    version: PtxVersion,
    sources: Option<&SourceMap>,
    entry: &str,
    forms: [GpuForm; N],
) -> Result<[String; N], CodegenError> {
    let backend = polyloom_llvm::NvptxBackend::new(target.arch, version);
    let options = polyloom_llvm::GpuOptions { shape: target.shape, few_threads: target.dense, sources };
    let made = backend.emit(module, kernel, variant, options, entry, forms.map(emit_form))?;
    let texts = made.map(String::from_utf8);
    if texts.iter().any(Result::is_err) {
        return Err(CodegenError::new("internal error: LLVM wrote PTX that is no text"));
    }
    let mut texts = texts.map(Result::unwrap_or_default);
    let names = || module.functions[kernel].param_names.iter().map(|name| &**name);
    for (text, _) in texts.iter_mut().zip(forms).filter(|(_, form)| *form == GpuForm::Ptx) {
        *text = name_parameters(text, entry, names());
    }
    Ok(texts)
}

fn emit_form(form: GpuForm) -> polyloom_codegen::MachineForm {
    match form {
        GpuForm::LlvmIr => MachineForm::LlvmIr,
        GpuForm::LlvmIrOptimized => MachineForm::LlvmIrOptimized,
        GpuForm::Ptx => MachineForm::Asm,
    }
}
