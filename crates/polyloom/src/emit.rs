//! The forms in which a kernel's code can be looked at, and what writes each.

use crate::emit_options::{EmitError, EmitOptions, GpuTarget};
use crate::gpu::gpu_emitter;
use crate::kernel::Kernel;
use crate::text::TextEmitter;
use polyloom_codegen::cpp::TextTarget;
use polyloom_codegen::{ArgFacts, CodeVariant, CodegenError, EmitRequest, Emitter, Form};
use polyloom_ir::{Arch, check_archs, loop_bounds, timed_promise};
use polyloom_runtime::{CpuKernel, Tier, VariantInfo, without_fork};
use std::fmt::Write;

/// Returns true if one call of a back end gives both forms. Those that no back end makes are made one by one.
fn is_made_with(a: Form, b: Form) -> bool {
    let is_host = |form| matches!(form, Form::LlvmIr | Form::LlvmIrOptimized | Form::Asm | Form::Obj);
    let is_gpu = |form| matches!(form, Form::GpuLlvmIr | Form::GpuLlvmIrOptimized | Form::Ptx);
    (is_host(a) && is_host(b)) || (is_gpu(a) && is_gpu(b))
}

impl Kernel {
    /// The kernel's code in a form, for launches of [`Kernel::natural_rank`]. LLVM IR and assembly of the host are what
    /// runs where arrays are dense and do not overlap, which for kernels that stay hot is what launches have measured to
    /// be faster; an object file takes any arrays.
    ///
    /// # Errors
    ///
    /// When this build does not make the form, or the kernel has none.
    pub fn emit(&self, form: Form, options: &EmitOptions) -> Result<Vec<u8>, EmitError> {
        let missing = || CodegenError::new(format!("internal error: nothing gives {form}"));
        Ok(self.emit_forms(&[form], options)?.pop().ok_or_else(missing)?)
    }

    /// The kernel's code in a form that is text.
    ///
    /// # Errors
    ///
    /// As [`Kernel::emit`], and if the form is no text.
    pub fn emit_text(&self, form: Form, options: &EmitOptions) -> Result<String, EmitError> {
        let text = String::from_utf8(self.emit(form, options)?);
        Ok(text.map_err(|_| CodegenError::new(format!("{form} is no text")))?)
    }

    /// The kernel's code in several forms, one item for each, in their order. Neighbours that one back end makes share the
    /// work if they are in the order in which they are made of each other.
    ///
    /// # Errors
    ///
    /// As [`Kernel::emit`] for the first of the forms that there is no code in.
    pub fn emit_forms(&self, forms: &[Form], options: &EmitOptions) -> Result<Vec<Vec<u8>>, EmitError> {
        let mut made = Vec::with_capacity(forms.len());
        for of_one in forms.chunk_by(|&a, &b| is_made_with(a, b)) {
            let items = self.emit_by_one(of_one, options)?;
            if items.len() != of_one.len() {
                let (n, first) = (of_one.len(), of_one[0]);
                let message = format!("internal error: {} items for {n} forms from {first} on", items.len());
                return Err(CodegenError::new(message).into());
            }
            made.extend(items);
        }
        Ok(made)
    }

    /// The kernel's code in forms that are made together.
    fn emit_by_one(&self, forms: &[Form], options: &EmitOptions) -> Result<Vec<Vec<u8>>, EmitError> {
        let Some(&first) = forms.first() else { return Ok(Vec::new()) };
        match first {
            Form::Ast => {
                let missing = || CodegenError::new("a kernel made of HIR has no syntax tree: ask for its HIR");
                Ok(vec![self.typed().ok_or_else(missing)?.to_string().into_bytes()])
            }
            Form::Hir => Ok(vec![self.module().0.to_string().into_bytes()]),
            Form::HirPrepared => {
                let source = self.as_code().map_err(CodegenError::from_diagnostics)?.source();
                Ok(vec![source.prepared.to_string().into_bytes()])
            }
            Form::Cpp => self.emit_source(TextTarget::Cpp, forms, options),
            Form::Cuda => {
                let (module, id) = self.module();
                let beyond = check_archs(module, id);
                if !beyond.is_empty() {
                    return Err(self.rejected(beyond).into());
                }
                self.check_parameters()?;
                self.emit_source(TextTarget::Cuda, forms, options)
            }
            Form::Strategy | Form::LlvmIr | Form::LlvmIrOptimized | Form::Asm | Form::Obj => {
                Ok(self.emit_for_host(forms, options.tier)?)
            }
            Form::GpuLlvmIr | Form::GpuLlvmIrOptimized | Form::Ptx => {
                let target = self.gpu_target(options);
                let mut facts = if target.dense { self.params().dense_facts() } else { ArgFacts::default() };
                // Arrays count as aligned, because memory that is allocated on a GPU begins at a multiple of 256.
                facts.arrays.iter_mut().for_each(|array| array.aligned = true);
                let variant = CodeVariant::new(self.natural_rank(), facts);
                self.emit_for_gpu(&variant, &target, forms)
            }
            Form::Cubin => Ok(vec![self.cubin(&self.gpu_target(options))?]),
        }
    }

    /// What code for GPUs is made for.
    fn gpu_target(&self, options: &EmitOptions) -> GpuTarget {
        options.gpu.unwrap_or_else(|| GpuTarget::new(self.arch().unwrap_or(Arch::DEFAULT)))
    }

    fn emit_source(
        &self,
        target: TextTarget,
        forms: &[Form],
        options: &EmitOptions,
    ) -> Result<Vec<Vec<u8>>, EmitError> {
        let (module, kernel) = self.module();
        let variant = CodeVariant::new(self.natural_rank(), ArgFacts::default());
        let sources = options.comments.then(|| self.sources());
        let request = EmitRequest { module, kernel, variant: &variant, entry: self.name(), sources };
        Ok(TextEmitter { target, options: self.options() }.emit_forms(&request, forms)?)
    }

    fn emit_for_host(&self, forms: &[Form], tier: Option<Tier>) -> Result<Vec<Vec<u8>>, CodegenError> {
        let on_cpu = self.as_code().map_err(CodegenError::from_diagnostics)?;
        let source = on_cpu.source();
        if self.is_interpreted() {
            let message = "the interpreter runs this kernel on the CPU: ask for its HIR or for GPU code";
            return Err(CodegenError::new(message));
        }
        let device = self.cpu();
        let is_code = |form: &Form| matches!(form, Form::Asm | Form::Obj);
        let backend = match tier {
            Some(tier) => device.backend(tier),
            // A kernel too long to be optimised while it runs is too long here as well, since LLVM IR is LLVM's alone.
            None if on_cpu.is_long() && forms.iter().all(is_code) => device.backend(Tier::Quick),
            None => device.backend(Tier::Optimized),
        };
        let backend = backend.or_else(|| device.backend(Tier::Quick).filter(|_| tier.is_none()));
        let missing = "this build has no such back end: LLVM needs the feature `llvm`";
        let Some(backend) = backend else { return Err(CodegenError::new(missing)) };
        let facts = if forms == [Form::Obj] { ArgFacts::default() } else { on_cpu.dense_facts() };
        // The launch of a kernel of blocks has one axis, because its threads are the blocks, in a row.
        let launch_rank = if self.needs_blocks() { 1 } else { self.natural_rank() };
        // What launches have measured decides what runs, and so what is shown; the estimate is explained as it is.
        let is_shown =
            tier != Some(Tier::Quick) && forms.iter().all(|&form| form != Form::Strategy && form != Form::Obj);
        let lanes = is_shown.then(|| on_cpu.measured_lanes(launch_rank, &facts)).flatten();
        let variant = CodeVariant::new(launch_rank, facts).with_lanes(lanes);
        let (module, kernel) = (&source.prepared, source.prepared_kernel);
        let entry = &module.functions[kernel].name;
        let sources = (forms == [Form::Strategy]).then(|| self.sources());
        let request = EmitRequest { module, kernel, variant: &variant, entry, sources };
        let mut made = without_fork(|| backend.emit_forms(&request, forms))?;
        if let [Form::Strategy] = forms
            && let Some(text) = made.first_mut()
        {
            text.extend_from_slice(self.describe_loop_bounds().as_bytes());
            text.extend_from_slice(describe_measurements(on_cpu, launch_rank).as_bytes());
            text.extend_from_slice(describe_failures(&on_cpu.variants()).as_bytes());
        }
        Ok(made)
    }

    /// Says in words how often the loops of a kernel run that promises to end in time; empty for others.
    pub(crate) fn describe_loop_bounds(&self) -> String {
        let mut text = String::new();
        let (module, id) = self.module();
        if timed_promise(&self.function().constraints).is_none() {
            return text;
        }
        for bound in loop_bounds(module, id) {
            let place = self.sources().locate(module.functions[bound.function].insts[bound.inst].span);
            let line = place.map_or_else(|| "a loop".to_owned(), |(_, at)| format!("the loop in line {}", at.line));
            let most = bound.most.as_deref().unwrap_or("any number of");
            // Formatting into a string does not fail.
            let _ = writeln!(text, "{line} runs at most {most} times");
        }
        text
    }

    /// The kernel's code for a GPU, specialised on a variant.
    pub(crate) fn emit_for_gpu(
        &self,
        variant: &CodeVariant,
        target: &GpuTarget,
        forms: &[Form],
    ) -> Result<Vec<Vec<u8>>, EmitError> {
        let version = self.ptx_version(target)?;
        self.check_arch(target.arch)?;
        let (module, kernel) = self.for_gpus()?;
        let (entry, sources) = (self.gpu_entry(), target.lines.then(|| self.sources()));
        let request = EmitRequest { module, kernel, variant, entry: &entry, sources };
        Ok(without_fork(|| gpu_emitter(target, version)?.emit_forms(&request, forms))?)
    }
}

/// Says in words what has been measured of the ways to run a kernel's threads.
fn describe_measurements(kernel: &CpuKernel, launch_rank: u8) -> String {
    let mut text = String::new();
    for measured in kernel.measured_candidates(launch_rank) {
        // Formatting into a string does not fail.
        let _ = writeln!(text, "measured by launches whose arrays {}:", describe_arrays(&measured.facts));
        for candidate in &measured.candidates {
            let way = match candidate.lanes {
                1 => "one by one".to_owned(),
                lanes => format!("in groups of {lanes}"),
            };
            let _ = match candidate.ns_per_thread {
                Some(ns) => write!(text, "  {way}: {ns:.3} ns a thread, median of {} samples", candidate.n_samples),
                None => write!(text, "  {way}: no samples yet"),
            };
            text.push_str(if candidate.is_used { " (used)\n" } else { "\n" });
        }
        if measured.candidates.iter().all(|candidate| !candidate.is_used) {
            text.push_str("  not decided yet\n");
        }
    }
    text
}

/// Says in words how the arrays of a variant's launches lie.
fn describe_arrays(facts: &ArgFacts) -> &'static str {
    let arrays = || facts.arrays.iter();
    match () {
        // Parameters that are no arrays have the facts of none.
        () if arrays().any(|array| array.aligned) => "are dense and aligned",
        () if arrays().any(|array| array.contiguous) => "are dense",
        () => "lie anyhow",
    }
}

/// Says in words which variants go on with the code they had, because a back end failed to recompile them.
fn describe_failures(variants: &[VariantInfo]) -> String {
    let mut text = String::new();
    for variant in variants {
        let Some(error) = &variant.error else { continue };
        let kept = match variant.tier {
            Tier::Optimized => "have one way to run, because the other could not be compiled",
            Tier::Quick | Tier::Interpreter => "keep quick code, because optimised code could not be compiled",
        };
        // LLVM's messages may have several lines. Formatting into a string does not fail.
        let message = error.message.replace('\n', "\n  ");
        let _ = writeln!(text, "launches whose arrays {} {kept}:\n  {message}", describe_arrays(&variant.facts));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_codegen::ArrayFacts;

    fn variant(tier: Tier, contiguous: bool, error: Option<&str>) -> VariantInfo {
        VariantInfo {
            launch_rank: 1,
            facts: ArgFacts { arrays: vec![ArrayFacts { contiguous, ..Default::default() }], ..Default::default() },
            tier,
            launches: 1,
            ns_per_thread: 1.0,
            candidates: Vec::new(),
            error: error.map(CodegenError::new),
        }
    }

    #[test]
    fn variants_that_could_not_be_recompiled_say_why() {
        let variants = [
            variant(Tier::Optimized, false, None),
            variant(Tier::Quick, true, Some("LLVM cannot compile this kernel: Cannot select\nIn function: k")),
            variant(Tier::Optimized, false, Some("too long")),
        ];
        let expect = "launches whose arrays are dense keep quick code, because optimised code could not be compiled:
  LLVM cannot compile this kernel: Cannot select
  In function: k
launches whose arrays lie anyhow have one way to run, because the other could not be compiled:
  too long
";
        assert_eq!(describe_failures(&variants), expect);
        assert_eq!(describe_failures(&variants[..1]), "");
    }
}
