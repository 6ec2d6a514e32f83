//! Kernels as C++ and CUDA C++ text.

use polyloom_codegen::cpp::{CppOptions as TextOptions, LibraryTexts, TextSemantics, TextTarget, emit};
use polyloom_codegen::{CodegenError, EmitRequest, Emitter, Form};
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
    let text = prepared.map_err(CodegenError::from_diagnostics)?;
    emit(&text.module, text.kernel, text.blocks.as_ref(), target, form, &HirSemantics)
}

/// Writes C++, or CUDA C++.
pub(crate) struct TextEmitter {
    /// The language that is written.
    pub(crate) target: TextTarget,
    /// Describes how the kernel is prepared.
    pub(crate) options: PipelineOptions,
}

impl Emitter for TextEmitter {
    fn forms(&self) -> &'static [Form] {
        match self.target {
            TextTarget::Cpp => &[Form::Cpp],
            TextTarget::Cuda => &[Form::Cuda],
        }
    }

    fn emit_forms(&self, request: &EmitRequest<'_>, forms: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError> {
        let emit = |form: &Form| {
            if !self.forms().contains(form) {
                return Err(CodegenError::new(format!("{form} is written by itself")));
            }
            let options = TextOptions { sources: request.sources, without_prelude: false };
            let text = write_text(request.module, request.kernel, &self.options, self.target, &options)?;
            Ok(text.into_bytes())
        };
        forms.iter().map(emit).collect()
    }
}
