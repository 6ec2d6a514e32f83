//! A compiled kernel.

use crate::device_code::DeviceKernels;
use crate::session::Session;
use polyloom_frontend::typed_ast::{TypedParam, TypedProgram};
use polyloom_frontend::{CompileError, CompiledKernel, ValueType};
use polyloom_ir::function::CheckKind;
use polyloom_ir::span::Position;
use polyloom_ir::text::attributes;
use polyloom_ir::{
    Arch, ArrayWrites, CompileTarget, Composite, Diagnostic, FloatMode, FuncId, Function, Module, SourceMap, Type,
};
use polyloom_passes::analysis::canonical::{canonical_hash, structure_hash};
use polyloom_passes::analysis::launch_bounds::LaunchBounds;
use polyloom_passes::autodiff::{natural_rank, write_gradients};
use polyloom_passes::pipeline;
use polyloom_passes::transform::blocks::split_blocks;
use polyloom_passes::transform::in_double::in_double;
use polyloom_passes::transform::scalarise;
use polyloom_runtime::{
    ArgBlock, CpuDevice, CpuKernel, DeviceId, InterpretableHir, KernelParams, KernelSource, LaunchError, LaunchOptions,
    LaunchStats, Tier, TierPolicy, Trap, VariantChoice, interpret_thread, launch, launch_if_short, without_fork,
};
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

/// A kernel, ready to launch.
pub struct Kernel {
    module: Arc<Module>,
    id: FuncId,
    /// The syntax tree it was lowered from; absent if it was made of HIR.
    typed: Option<Arc<TypedProgram>>,
    device: Arc<CpuDevice>,
    params: KernelParams,
    /// Holds what the CPU runs, once something asks, because most of those who want code for another target never do.
    on_cpu: OnceLock<Result<CpuKernel, Vec<Diagnostic>>>,
    /// Holds what code for the CPU is made of where the device only interprets, once somebody wants to look at it.
    as_code: OnceLock<Result<CpuKernel, Vec<Diagnostic>>>,
    needs_blocks: bool,
    /// True for each of `params` that is an array that may be written: a fact of the HIR, since what a back end makes
    /// of it may not exist for every device.
    written: Box<[bool]>,
    sources: SourceMap,
    warnings: Vec<Diagnostic>,
    types: Box<[Type]>,
    arguments: Box<[TypedParam]>,
    has_structs: bool,
    /// Its HIR as back ends for GPUs get it, once one asks.
    for_gpus: OnceLock<Result<(Module, FuncId), Vec<Diagnostic>>>,
    device_kernels: DeviceKernels,
    derivatives: crate::backward::DerivativeMemo,
    /// Holds what its launches verify, once one is to.
    launch_bounds: OnceLock<LaunchBounds>,
    /// The kernel that takes leaves in place of structs, once somebody asks.
    flat: OnceLock<Arc<Kernel>>,
    /// The kernel in the mode `strict`, once somebody asks.
    strict: OnceLock<Arc<Kernel>>,
    /// The same with checks.
    checked: OnceLock<Arc<Kernel>>,
}

/// A failed check in the user's terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrapReport {
    /// One sentence with all there is to say.
    pub message: String,
    /// The source file.
    pub file: String,
    /// The failing expression.
    pub position: Position,
    /// Index and extent, where an access was out of bounds.
    pub bounds: Option<(i128, i64)>,
    /// Coordinates of the thread.
    pub thread: Vec<u64>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Kernel {
    pub(crate) fn new(device: &Arc<CpuDevice>, compiled: CompiledKernel) -> Result<Kernel, CompileError> {
        let CompiledKernel { mut module, kernel: id, gradients, sources, warnings, typed } = compiled;
        if let Err(diagnostics) = write_gradients(&mut module, &gradients) {
            return Err(CompileError { diagnostics, sources });
        }
        let function = typed.functions.iter().find(|f| f.name == module.functions[id].name);
        let arguments: Box<[TypedParam]> =
            function.map_or_else(Box::default, |function| function.params.as_slice().into());
        Ok(Kernel::with(device, module, id, sources, warnings, Some(Arc::new(typed)), arguments))
    }

    /// Makes a kernel of HIR that is valid.
    pub(crate) fn from_hir(device: &Arc<CpuDevice>, module: Module, id: FuncId, sources: SourceMap) -> Kernel {
        let arguments = plain_params(&module.functions[id]);
        Kernel::with(device, module, id, sources, Vec::new(), None, arguments)
    }

    /// A kernel of HIR that is valid, on this one's device.
    pub(crate) fn of_hir(&self, module: Module, id: FuncId, sources: SourceMap) -> Kernel {
        Kernel::from_hir(&self.device, module, id, sources)
    }

    /// A kernel that was made of this one, with parameters of its own.
    pub(crate) fn beside(&self, module: Module, id: FuncId, arguments: Box<[TypedParam]>) -> Kernel {
        let (sources, typed) = (self.sources.clone(), self.typed.clone());
        Kernel::with(&self.device, module, id, sources, Vec::new(), typed, arguments)
    }

    fn with(
        device: &Arc<CpuDevice>,
        module: Module,
        id: FuncId,
        sources: SourceMap,
        warnings: Vec<Diagnostic>,
        typed: Option<Arc<TypedProgram>>,
        arguments: Box<[TypedParam]>,
    ) -> Kernel {
        let types = module.functions[id].params().iter().map(|&param| module.functions[id].ty(param)).collect();
        let has_structs = arguments.iter().any(|param| param.ty.as_plain().is_none());
        let params =
            KernelParams::new(scalarise::params(&module.functions[id]), scalarise::elements(&module.functions[id]));
        let reads_size = module.functions.values().any(|function| function.metadata.reads_size);
        Kernel {
            params: if reads_size { params.with_int32_sizes() } else { params },
            needs_blocks: module.functions.values().any(Function::needs_blocks),
            written: written_params(&module, id),
            module: Arc::new(module),
            id,
            typed,
            device: device.clone(),
            on_cpu: OnceLock::new(),
            as_code: OnceLock::new(),
            sources,
            warnings,
            types,
            arguments,
            has_structs,
            for_gpus: OnceLock::new(),
            device_kernels: DeviceKernels::default(),
            derivatives: Default::default(),
            launch_bounds: OnceLock::new(),
            flat: OnceLock::new(),
            strict: OnceLock::new(),
            checked: OnceLock::new(),
        }
    }

    /// Its HIR as the front end made it, in the module of the functions it calls.
    pub fn module(&self) -> (&Module, FuncId) {
        (&self.module, self.id)
    }

    pub(crate) fn derivatives(&self) -> &crate::backward::DerivativeMemo {
        &self.derivatives
    }

    pub(crate) fn known_launch_bounds(&self) -> &OnceLock<LaunchBounds> {
        &self.launch_bounds
    }

    /// The kernel as the CPU runs it.
    #[inline]
    fn on_cpu(&self) -> Result<&CpuKernel, &[Diagnostic]> {
        let on_cpu = match self.on_cpu.get() {
            Some(on_cpu) => on_cpu,
            None => without_fork(|| self.on_cpu.get_or_init(|| self.prepare_for_cpu(self.is_only_interpreted()))),
        };
        on_cpu.as_ref().map_err(Vec::as_slice)
    }

    /// The kernel as back ends for the CPU get it, whether or not the device has one run its code.
    pub(crate) fn as_code(&self) -> Result<&CpuKernel, &[Diagnostic]> {
        if !self.is_only_interpreted() {
            return self.on_cpu();
        }
        let as_code = without_fork(|| self.as_code.get_or_init(|| self.prepare_for_cpu(false)));
        as_code.as_ref().map_err(Vec::as_slice)
    }

    /// Returns true if the device runs no kernel's code.
    fn is_only_interpreted(&self) -> bool {
        self.device.policy() == TierPolicy::Always(Tier::Interpreter)
    }

    /// The kernel as the CPU has it, for a launch.
    #[inline]
    fn launched(&self) -> Result<&CpuKernel, LaunchError> {
        match self.on_cpu() {
            Ok(kernel) => Ok(kernel),
            Err(diagnostics) => Err(self.not_compiled(self.rejected(diagnostics.to_vec()).into())),
        }
    }

    #[cold]
    fn prepare_for_cpu(&self, is_interpreted: bool) -> Result<CpuKernel, Vec<Diagnostic>> {
        let options = self.options();
        let (module, id) = (self.module.clone(), self.id);
        let interpretable = InterpretableHir::new(move || {
            let (verified, kernel) = pipeline::interpretable(&module, id, &options);
            (Arc::new(verified), kernel)
        });
        let (params, needs_blocks) = (self.params.clone(), self.needs_blocks);
        if is_interpreted {
            let (verified, prepared_kernel) = interpretable.get();
            let prepared = verified.clone();
            // The hash is zero, because only code is kept by its hash.
            let hash = [0; 32];
            let source =
                KernelSource { interpretable, prepared, prepared_kernel, hash, params, needs_blocks, blocks: None };
            return Ok(CpuKernel::new(self.device.clone(), source));
        }
        let (mut prepared, prepared_kernel) = pipeline::prepared(&self.module, self.id, &options)?;
        let blocks = if self.needs_blocks { split_blocks(&mut prepared, prepared_kernel) } else { None };
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

    /// Returns how it is prepared for the CPU.
    pub(crate) fn options(&self) -> pipeline::PipelineOptions {
        pipeline::PipelineOptions { checked: self.function().metadata.check, gpu: false }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.function().name
    }

    /// A hash of its HIR as the front end made it, in which names and places do not count.
    pub fn hash(&self) -> [u8; 32] {
        canonical_hash(&self.module, self.id)
    }

    /// The same without the values of constants: kernels that differ in these alone have the same.
    pub fn structure_hash(&self) -> [u8; 32] {
        structure_hash(&self.module, self.id)
    }

    /// Its parameters as its source has them: what a launch is given.
    pub fn arguments(&self) -> &[TypedParam] {
        &self.arguments
    }

    /// Returns true if some argument is a struct or an array of structs: several parameters of its HIR.
    pub fn has_structs(&self) -> bool {
        self.has_structs
    }

    /// This kernel with the parameters that its HIR has: in place of each struct, its leaves.
    pub fn flat(&self) -> &Arc<Kernel> {
        self.flat.get_or_init(|| Arc::new(self.derived((*self.module).clone(), self.id)))
    }

    /// This kernel in the mode `strict`, in which it finds the numbers that another kernel does, with the parameters that
    /// its HIR has; none if that is its mode.
    pub fn strict(&self) -> Option<&Arc<Kernel>> {
        (self.function().metadata.float_mode != FloatMode::Strict).then(|| {
            self.strict.get_or_init(|| {
                let mut module = (*self.module).clone();
                for function in module.functions.values_mut() {
                    function.metadata.float_mode = FloatMode::Strict;
                }
                Arc::new(self.derived(module, self.id))
            })
        })
    }

    /// This kernel with checks; none if it has them, or is not to have any.
    pub fn checked(&self) -> Option<&Arc<Kernel>> {
        let function = self.function();
        (!function.metadata.check && !function.constraints.unchecked).then(|| {
            self.checked.get_or_init(|| {
                let mut module = (*self.module).clone();
                module.functions[self.id].metadata.check = true;
                let checked = self.beside(module, self.id, self.arguments.clone());
                // Both have the same parameters, so that arguments that are kept for the one are for the other as well.
                Arc::new(Kernel { params: self.params.clone(), ..checked })
            })
        })
    }

    /// This kernel with `float64` in place of all other floats, with the parameters that its HIR has; none if an op of it
    /// has no such form.
    pub fn in_double(&self) -> Option<Kernel> {
        in_double(&self.module).map(|module| self.derived(module, self.id))
    }

    /// This kernel on the device of another session, with checks if these are a default there.
    pub fn on(&self, session: &Session) -> Kernel {
        let (sources, typed) = (self.sources.clone(), self.typed.clone());
        let mut module = (*self.module).clone();
        module.functions[self.id].metadata.check |= session.defaults().check;
        Kernel::with(session.device(), module, self.id, sources, Vec::new(), typed, self.arguments.clone())
    }

    /// The types of its parameters as its HIR has them: of a struct, those of its leaves.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// The names of its parameters as its HIR has them: `s.x` for a leaf of the struct `s`.
    pub fn names(&self) -> &[Arc<str>] {
        &self.function().param_names
    }

    /// Returns what an [`ArgBlock`] is filled with: its parameters, where a vector, matrix or quaternion is one scalar
    /// for each component and an array of them an array of scalars with the dimensions of an element after its own.
    pub fn params(&self) -> &KernelParams {
        &self.params
    }

    /// True if it may write the array with this index among [`Kernel::params`], itself or by what it calls.
    #[inline]
    pub fn writes(&self, param: usize) -> bool {
        self.written.get(param).copied().unwrap_or(false)
    }

    /// Returns true if it is launched in blocks of threads: it has barriers, shared memory, warp operations or the
    /// like.
    pub fn needs_blocks(&self) -> bool {
        self.needs_blocks
    }

    /// Returns the number of threads a block has where a launch does not say it.
    pub fn block_size(&self) -> u64 {
        self.function().metadata.block().iter().map(|&extent| u64::from(extent)).product()
    }

    /// Returns true if the CPU runs it by the interpreter alone, since it is launched in blocks and could not be split
    /// at its barriers.
    pub fn is_interpreted(&self) -> bool {
        self.needs_blocks && self.as_code().is_ok_and(|kernel| kernel.source().blocks.is_none())
    }

    /// Its HIR as the front end made it, metadata and constraints included.
    pub fn function(&self) -> &Function {
        &self.module.functions[self.id]
    }

    /// Returns what was remarkable about its source.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The files its spans point into.
    pub fn sources(&self) -> &SourceMap {
        &self.sources
    }

    /// `name(x: float32, y: array(dtype=float32, ndim=2))`.
    pub fn signature(&self) -> String {
        let function = self.function();
        let params = self.arguments.iter().map(|param| format!("{}: {}", param.name, param.ty.python_name()));
        format!("{}({})", function.name, params.collect::<Vec<_>>().join(", "))
    }

    /// Its metadata and execution constraints that differ from the default, as HIR text spells them.
    pub fn metadata(&self) -> Vec<String> {
        attributes(&self.function().metadata, &self.function().constraints)
    }

    /// The device that its decorator names, on which it is launched if the launch names none.
    pub fn device(&self) -> Option<DeviceId> {
        match self.function().metadata.target.as_ref()? {
            CompileTarget::Cpu => Some(DeviceId::Cpu),
            CompileTarget::Cuda(name) | CompileTarget::Sim(name) => DeviceId::from_name(name),
        }
    }

    /// The GPU architecture that its decorator names, for which its GPU code is made if nobody asks for another.
    pub fn arch(&self) -> Option<Arch> {
        match self.function().metadata.target.as_ref()? {
            CompileTarget::Cuda(name) => name.parse().ok(),
            CompileTarget::Cpu | CompileTarget::Sim(_) => None,
        }
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

    /// The rank of launch it is written for: how many coordinates of the thread it asks for, at least one.
    pub fn natural_rank(&self) -> u8 {
        let functions = self.module.functions.values().chain([self.function()]);
        functions.map(natural_rank).max().unwrap_or(1)
    }

    /// Runs the kernel over a grid of threads and returns when all have run.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]. After a failed check or a cancellation some of the threads have run.
    ///
    /// # Safety
    ///
    /// As [`polyloom_runtime::launch`]: array arguments must stay valid and untouched until it returns, and indices
    /// in bounds unless the kernel is checked.
    #[inline]
    pub unsafe fn launch(
        &self,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError> {
        self.verify_accesses(shape, args, options)?;
        // SAFETY: passed on to the caller.
        unsafe { launch(self.launched()?, shape, args, options) }
    }

    /// Runs the kernel on the CPU if that is known to take a few microseconds at most, as one call on this thread, and
    /// is known to be right: [`polyloom_runtime::launch_if_short`]. Gives nothing where [`Kernel::launch`] has to look.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`].
    #[inline]
    pub unsafe fn launch_if_short(
        &self,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Option<Result<(), LaunchError>> {
        let kernel = self.launched_before()?;
        self.verify_accesses(shape, args, options).ok()?;
        // SAFETY: passed on to the caller.
        unsafe { launch_if_short(kernel, shape, args, None) }
    }

    /// Works like [`Kernel::launch_if_short`] for a launch that has been found right before, in the code that the choice
    /// names.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`]. The choice has served launches of this kernel alone, of this rank and with these arrays.
    #[inline]
    pub unsafe fn launch_verified_if_short(
        &self,
        shape: &[u64],
        args: &ArgBlock,
        choice: &VariantChoice,
    ) -> Option<Result<(), LaunchError>> {
        // SAFETY: passed on to the caller.
        unsafe { launch_if_short(self.launched_before()?, shape, args, Some(choice)) }
    }

    /// The kernel as the CPU has it, if it has been launched there.
    #[inline]
    pub(crate) fn launched_before(&self) -> Option<&CpuKernel> {
        self.on_cpu.get()?.as_ref().ok()
    }

    /// Runs one thread of a launch by itself, by the interpreter: what it does when no other thread runs. `thread` is
    /// its row-major index.
    ///
    /// # Errors
    ///
    /// [`LaunchError`].
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`].
    pub unsafe fn interpret_thread(&self, shape: &[u64], args: &ArgBlock, thread: u64) -> Result<(), LaunchError> {
        // SAFETY: passed on to the caller.
        unsafe { interpret_thread(self.launched()?, shape, args, thread) }
    }

    pub(crate) fn device_kernels(&self) -> &DeviceKernels {
        &self.device_kernels
    }

    /// Its HIR as back ends for GPUs get it.
    ///
    /// # Errors
    ///
    /// When it grows beyond the compiler's limits.
    pub(crate) fn for_gpus(&self) -> Result<(&Module, FuncId), CompileError> {
        let options = pipeline::PipelineOptions { gpu: true, ..self.options() };
        let prepared =
            without_fork(|| self.for_gpus.get_or_init(|| pipeline::prepared(&self.module, self.id, &options)));
        match prepared {
            Ok((module, kernel)) => Ok((module, *kernel)),
            Err(diagnostics) => Err(self.rejected(diagnostics.clone())),
        }
    }

    /// The cache of its device.
    #[cfg(feature = "_compute")]
    pub(crate) fn cache(&self) -> &polyloom_runtime::CodeCache {
        self.device.cache()
    }

    /// An error about this kernel's source.
    pub(crate) fn rejected(&self, diagnostics: Vec<Diagnostic>) -> CompileError {
        CompileError { diagnostics, sources: self.sources.clone() }
    }

    /// The syntax tree that it was lowered from; none if it was made of HIR.
    pub(crate) fn typed(&self) -> Option<&TypedProgram> {
        self.typed.as_deref()
    }

    /// The device that runs it on the CPU.
    pub(crate) fn cpu(&self) -> &CpuDevice {
        &self.device
    }

    /// A failed check of this kernel, located in its source.
    pub fn explain(&self, trap: &Trap) -> TrapReport {
        let located = self.sources.locate(trap.site.span);
        let (file, position) = located.unwrap_or(("<unknown>", Position { line: 0, column: 0 }));
        let mut message = trap.to_string();
        let _ = write!(message, " ({file}:{}:{})", position.line, position.column);
        let bounds = match &trap.site.kind {
            polyloom_codegen::abi::SiteKind::Check(CheckKind::Bounds { .. }) => Some((trap.index, trap.extent)),
            _ => None,
        };
        TrapReport { message, file: file.to_owned(), position, bounds, thread: trap.thread.clone() }
    }
}

/// Returns the parameters of a function as its HIR has them.
pub(crate) fn plain_params(function: &Function) -> Box<[TypedParam]> {
    let params = function.param_names.iter().zip(function.params());
    params.map(|(name, &param)| TypedParam { name: name.clone(), ty: ValueType::Plain(function.ty(param)) }).collect()
}

/// Returns true for each parameter of the scalarised kernel that is an array the kernel may write.
fn written_params(module: &Module, kernel: FuncId) -> Box<[bool]> {
    let (writes, function) = (ArrayWrites::of(module, kernel), &module.functions[kernel]);
    let params = function.params().iter().zip(writes.of_function(kernel));
    let scalarised = params.flat_map(|(&param, &is_written)| {
        let n_components = function.ty(param).as_composite().map_or(1, Composite::n_components);
        std::iter::repeat_n(is_written, n_components)
    });
    scalarised.collect()
}
