//! Holds what has been made of a kernel so far: its HIR as back ends get it, code, derivatives and variants.

use crate::backward::DerivativeMemo;
use crate::device_code::DeviceKernels;
use crate::kernel::Kernel;
use crate::kernel_program::KernelProgram;
use polyloom_codegen::{ArgFacts, CodeVariant};
use polyloom_frontend::CompileError;
use polyloom_ir::{Code, Diagnostic, FloatMode, FuncId, Module};
use polyloom_passes::analysis::canonical::canonical_hash;
use polyloom_passes::analysis::launch_bounds::LaunchBounds;
use polyloom_passes::fusion::{FusionFacts, LaunchPart};
use polyloom_passes::pipeline;
use polyloom_passes::transform::blocks::split_blocks;
use polyloom_runtime::{CpuKernel, InterpretableHir, KernelSource, LaunchError, Tier, TierPolicy, without_fork};
use std::sync::{Arc, OnceLock};

/// What has been made of a kernel. Each part is made when somebody asks for it, because most kernels are asked for one
/// or two.
#[derive(Default)]
pub(crate) struct KernelCode {
    /// The kernel that the CPU runs.
    on_cpu: OnceLock<Result<CpuKernel, Vec<Diagnostic>>>,
    /// The kernel that code for the CPU is made of where the device only interprets.
    as_code: OnceLock<Result<CpuKernel, Vec<Diagnostic>>>,
    /// The HIR as back ends for GPUs get it.
    for_gpus: OnceLock<Result<(Module, FuncId), Vec<Diagnostic>>>,
    device_kernels: DeviceKernels,
    derivatives: DerivativeMemo,
    /// Holds what launches verify.
    launch_bounds: OnceLock<LaunchBounds>,
    /// Holds what decides whether its launches become one with others.
    fusion_facts: OnceLock<FusionFacts>,
    /// The kernel that runs parts of its launches, if there is one.
    part: OnceLock<Option<(Arc<Kernel>, LaunchPart)>>,
    /// The kernel that takes leaves in place of structs.
    flat: OnceLock<Arc<Kernel>>,
    /// The kernel in the mode `strict`.
    strict: OnceLock<Arc<Kernel>>,
    /// The kernel with checks.
    checked: OnceLock<Arc<Kernel>>,
}

impl Kernel {
    /// The kernel as the CPU runs it.
    #[inline]
    fn on_cpu(&self) -> Result<&CpuKernel, &[Diagnostic]> {
        let on_cpu = match self.code.on_cpu.get() {
            Some(on_cpu) => on_cpu,
            None => without_fork(|| self.code.on_cpu.get_or_init(|| self.prepare_for_cpu(self.is_only_interpreted()))),
        };
        on_cpu.as_ref().map_err(Vec::as_slice)
    }

    /// The kernel as back ends for the CPU get it, whether or not the device has one run its code.
    pub(crate) fn as_code(&self) -> Result<&CpuKernel, &[Diagnostic]> {
        if !self.is_only_interpreted() {
            return self.on_cpu();
        }
        let as_code = without_fork(|| self.code.as_code.get_or_init(|| self.prepare_for_cpu(false)));
        as_code.as_ref().map_err(Vec::as_slice)
    }

    /// The kernel as the CPU has it, for a launch.
    #[inline]
    pub(crate) fn launched(&self) -> Result<&CpuKernel, LaunchError> {
        match self.on_cpu() {
            Ok(kernel) => Ok(kernel),
            Err(diagnostics) => Err(self.not_compiled(self.rejected(diagnostics.to_vec()).into())),
        }
    }

    /// The kernel as the CPU has it, if it has been launched there.
    #[inline]
    pub(crate) fn launched_before(&self) -> Option<&CpuKernel> {
        self.code.on_cpu.get()?.as_ref().ok()
    }

    /// Returns true if the device runs no kernel's code.
    fn is_only_interpreted(&self) -> bool {
        self.device.policy() == TierPolicy::Always(Tier::Interpreter)
    }

    #[cold]
    fn prepare_for_cpu(&self, is_interpreted: bool) -> Result<CpuKernel, Vec<Diagnostic>> {
        let options = self.options();
        let (module, id) = (self.program.module.clone(), self.program.id);
        let interpretable = InterpretableHir::new(move || {
            let (verified, kernel) = pipeline::interpretable(&module, id, &options);
            (Arc::new(verified), kernel)
        });
        let (params, needs_blocks) = (self.program.params.clone(), self.program.needs_blocks);
        if is_interpreted {
            let (verified, prepared_kernel) = interpretable.get();
            let prepared = verified.clone();
            // The hash is zero, because only code is kept by its hash.
            let hash = [0; 32];
            let source =
                KernelSource { interpretable, prepared, prepared_kernel, hash, params, needs_blocks, blocks: None };
            return Ok(CpuKernel::new(self.device.clone(), source));
        }
        let (mut prepared, prepared_kernel) = pipeline::prepared(&self.program.module, self.program.id, &options)?;
        let blocks = if self.program.needs_blocks { split_blocks(&mut prepared, prepared_kernel) } else { None };
        self.check_code(&prepared, prepared_kernel)?;
        let source = KernelSource {
            interpretable,
            hash: canonical_hash(&prepared, prepared_kernel),
            prepared: Arc::new(prepared),
            prepared_kernel,
            params,
            needs_blocks,
            blocks,
        };
        Ok(CpuKernel::new(self.device.clone(), source))
    }

    /// Holds the machine code of prepared HIR against what the kernel promises of its calls. Cranelift's code calls functions
    /// of the kernel's own and the mathematics of [`polyloom_codegen::cranelift`], so that without LLVM promises of no calls
    /// at all are refused, and the others hold.
    fn check_code(&self, prepared: &Module, kernel: FuncId) -> Result<(), Vec<Diagnostic>> {
        let Some(backend) = self.device.backend(Tier::Optimized) else { return self.check_without_optimizer() };
        let launch_rank = if self.program.needs_blocks { 1 } else { self.natural_rank() };
        let variant = CodeVariant::new(launch_rank, ArgFacts::default());
        match backend.broken_promises(prepared, kernel, &variant) {
            Ok(broken) if !broken.is_empty() => Err(broken),
            // What LLVM cannot compile is told by whoever asks for the code.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn check_without_optimizer(&self) -> Result<(), Vec<Diagnostic>> {
        let function = self.function();
        let constraints = &function.constraints;
        let promises = [("critical_path", constraints.critical_path), ("inline_always", constraints.inline_always)];
        let Some((promise, _)) = promises.into_iter().find(|(_, holds)| *holds) else { return Ok(()) };
        let message = format!("`{promise}` holds of LLVM's code, which this build does not make");
        let error = Diagnostic::error(Code::BrokenPromise, function.span, message);
        Err(vec![error.help("build with the feature `llvm`, or leave the promise out")])
    }

    /// Its HIR as back ends for GPUs get it.
    ///
    /// # Errors
    ///
    /// When it grows beyond the compiler's limits.
    pub(crate) fn for_gpus(&self) -> Result<(&Module, FuncId), CompileError> {
        let options = pipeline::PipelineOptions { gpu: true, ..self.options() };
        let prepared = without_fork(|| {
            self.code.for_gpus.get_or_init(|| pipeline::prepared(&self.program.module, self.program.id, &options))
        });
        match prepared {
            Ok((module, kernel)) => Ok((module, *kernel)),
            Err(diagnostics) => Err(self.rejected(diagnostics.clone())),
        }
    }

    /// Returns how it is prepared for the CPU.
    pub(crate) fn options(&self) -> pipeline::PipelineOptions {
        pipeline::PipelineOptions { checked: self.function().metadata.check, gpu: false }
    }

    /// Prepares the kernel for the CPU now, which else the first launch there does.
    ///
    /// # Errors
    ///
    /// When the kernel grows beyond the compiler's limits.
    pub fn prepare(&self) -> Result<(), CompileError> {
        self.on_cpu().map(|_| ()).map_err(|diagnostics| self.rejected(diagnostics.to_vec()))
    }

    /// Makes machine code for launches of this rank now, so that the first launch need not.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Compile`].
    pub fn compile(&self, launch_rank: u8) -> Result<(), LaunchError> {
        self.launched()?.compile(launch_rank)
    }

    /// Returns true if the CPU runs it by the interpreter alone, since it is launched in blocks and could not be split
    /// at its barriers.
    pub fn is_interpreted(&self) -> bool {
        self.program.needs_blocks && self.as_code().is_ok_and(|kernel| kernel.source().blocks.is_none())
    }

    /// The kernel that runs parts of launches of this one; nothing if they cannot be run in parts.
    pub(crate) fn part(&self) -> Option<&(Arc<Kernel>, LaunchPart)> {
        let made = || {
            let part = LaunchPart::of(&self.program.module, self.program.id)?;
            Some((Arc::new(self.derived(part.module.clone(), part.kernel)), part))
        };
        self.code.part.get_or_init(made).as_ref()
    }

    /// This kernel with the parameters that its HIR has: in place of each struct, its leaves.
    pub fn flat(&self) -> &Arc<Kernel> {
        self.code.flat.get_or_init(|| Arc::new(self.derived((*self.program.module).clone(), self.program.id)))
    }

    /// This kernel in the mode `strict`, in which it finds the numbers that another kernel does, with the parameters that
    /// its HIR has; none if that is its mode.
    pub fn strict(&self) -> Option<&Arc<Kernel>> {
        (self.function().metadata.float_mode != FloatMode::Strict).then(|| {
            self.code.strict.get_or_init(|| {
                let mut module = (*self.program.module).clone();
                for function in module.functions.values_mut() {
                    function.metadata.float_mode = FloatMode::Strict;
                }
                Arc::new(self.derived(module, self.program.id))
            })
        })
    }

    /// This kernel with checks; none if it has them, or is not to have any.
    pub fn checked(&self) -> Option<&Arc<Kernel>> {
        let function = self.function();
        (!function.metadata.check && !function.constraints.unchecked).then(|| {
            self.code.checked.get_or_init(|| {
                let mut module = (*self.program.module).clone();
                module.functions[self.program.id].metadata.check = true;
                let Kernel { program, code, device } =
                    self.derived_with(module, self.program.id, self.program.arguments.clone());
                // Both have the same parameters, so that arguments that are kept for the one are for the other as well.
                let program = KernelProgram { params: self.program.params.clone(), ..program };
                Arc::new(Kernel { program, code, device })
            })
        })
    }

    pub(crate) fn device_kernels(&self) -> &DeviceKernels {
        &self.code.device_kernels
    }

    pub(crate) fn derivatives(&self) -> &crate::backward::DerivativeMemo {
        &self.code.derivatives
    }

    pub(crate) fn fusion_facts(&self) -> &FusionFacts {
        self.code.fusion_facts.get_or_init(|| FusionFacts::of(&self.program.module, self.program.id))
    }

    pub(crate) fn known_launch_bounds(&self) -> &OnceLock<LaunchBounds> {
        &self.code.launch_bounds
    }
}
