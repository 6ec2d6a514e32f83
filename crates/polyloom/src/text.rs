//! Kernels as C++ and CUDA C++ text.

use polyloom_codegen::CodegenError;
use polyloom_codegen::cpp::{CppOptions as TextOptions, LibraryTexts, TextSemantics, TextTarget, emit};
use polyloom_ir::{FuncId, Function, Inst, Module, Op, Type};
use polyloom_passes::analysis::range::possibly_negative_indices;
use polyloom_passes::pipeline::PipelineOptions;
use polyloom_passes::text::{definition, for_text};
use std::sync::{Arc, LazyLock};

/// Describes what the passes know of HIR.
struct HirSemantics;

impl TextSemantics for HirSemantics {
    fn definition(&self, op: Op, types: &[Type]) -> Option<Arc<Module>> {
        definition(op, types)
    }

    fn negative_indices(&self, func: &Function) -> Vec<(Inst, u8)> {
        possibly_negative_indices(func).into_vec()
    }

    fn library_texts(&self) -> &LibraryTexts {
        static TEXTS: LazyLock<LibraryTexts> = LazyLock::new(LibraryTexts::default);
        &TEXTS
    }
}

/// Writes a kernel of verified HIR, as the front end made it, as text that compiles by itself.
///
/// # Errors
///
/// When the kernel is beyond the compiler's limits or has something that has no form in C++.
pub fn write_text(
    module: &Module,
    kernel: FuncId,
    options: &PipelineOptions,
    target: TextTarget,
    form: &TextOptions<'_>,
) -> Result<String, CodegenError> {
    let options = PipelineOptions { gpu: target == TextTarget::Cuda, ..*options };
    let prepared = for_text(module, kernel, &options);
    let text = prepared.map_err(|diagnostics| CodegenError::from_diagnostics(&diagnostics))?;
    emit(&text.module, text.kernel, text.blocks.as_ref(), target, form, &HirSemantics)
}
