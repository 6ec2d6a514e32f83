//! PTX by LLVM, and NVIDIA's tools.

use crate::emit_options::GpuTarget;
use crate::kernel::Kernel;
use crate::ptx_argument::name_parameters;
use polyloom_codegen::{CodegenError, EmitRequest, Emitter, Form};
use polyloom_ir::{Arch, PtxVersion};
use polyloom_llvm::{GpuOptions, NvptxBackend};
use polyloom_runtime::cuda::{AssembleError, cubin};
pub(super) use polyloom_runtime::cuda::{NvrtcLibrary, PtxAssembler, PtxasProgram, set_package_folders};

pub(super) fn assemble(kernel: &Kernel, ptx: &str, arch: Arch) -> Result<Vec<u8>, AssembleError> {
    cubin(kernel.cache(), ptx, arch)
}

pub(super) fn emitter(target: &GpuTarget, version: PtxVersion) -> Result<Box<dyn Emitter>, CodegenError> {
    let options = GpuOptions { shape: target.shape, few_threads: target.dense };
    Ok(Box::new(NamedPtx(NvptxBackend::new(target.arch, version, options))))
}

/// The NVPTX back end, whose PTX says what the entry's parameters are called in the source.
struct NamedPtx(NvptxBackend);

impl Emitter for NamedPtx {
    fn forms(&self) -> &'static [Form] {
        self.0.forms()
    }

    fn emit_forms(&self, request: &EmitRequest<'_>, forms: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError> {
        let mut made = self.0.emit_forms(request, forms)?;
        for (code, _) in made.iter_mut().zip(forms).filter(|&(_, &form)| form == Form::Ptx) {
            let text = String::from_utf8(std::mem::take(code));
            let text = text.map_err(|_| CodegenError::new("internal error: LLVM wrote PTX that is no text"))?;
            let names = request.module.functions[request.kernel].param_names.iter().map(|name| &**name);
            *code = name_parameters(&text, request.entry, names).into_bytes();
        }
        Ok(made)
    }
}
