//! A compiled kernel.

use crate::kernel_code::KernelCode;
use crate::kernel_program::{KernelProgram, plain_params};
use polyloom_frontend::typed_ast::{TypedParam, TypedProgram};
use polyloom_frontend::{CompileError, CompiledKernel};
use polyloom_ir::text::attributes;
use polyloom_ir::{Arch, CompileTarget, Diagnostic, FuncId, Function, Module, SourceMap, Type};
use polyloom_passes::analysis::canonical::{canonical_hash, structure_hash};
use polyloom_passes::autodiff::{natural_rank, write_gradients};
use polyloom_passes::transform::in_double::in_double;
use polyloom_runtime::{CpuDevice, DeviceId, KernelParams};
use std::sync::Arc;

/// A kernel, ready to launch.
pub struct Kernel {
    pub(crate) program: KernelProgram,
    pub(crate) code: KernelCode,
    /// The device that runs it on the CPU.
    pub(crate) device: Arc<CpuDevice>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Kernel {
    /// Makes a kernel of what the front end has compiled: with its syntax tree, its warnings, and the gradients of functions
    /// that its source asks for, which are written here.
    ///
    /// # Errors
    ///
    /// If one of these gradients cannot be written.
    pub(crate) fn from_compiled(device: &Arc<CpuDevice>, compiled: CompiledKernel) -> Result<Kernel, CompileError> {
        let CompiledKernel { mut module, kernel: id, gradients, sources, warnings, typed } = compiled;
        if let Err(diagnostics) = write_gradients(&mut module, &gradients) {
            return Err(CompileError { diagnostics, sources });
        }
        let function = typed.functions.iter().find(|f| f.name == module.functions[id].name);
        let arguments: Box<[TypedParam]> =
            function.map_or_else(Box::default, |function| function.params.as_slice().into());
        Ok(Kernel::from_parts(device, module, id, sources, warnings, Some(Arc::new(typed)), arguments))
    }

    /// Makes a kernel of HIR that is valid and has no syntax tree: text that was read, a module that was built, or several
    /// kernels that became one. Its arguments are the parameters of its HIR.
    pub(crate) fn from_hir(device: &Arc<CpuDevice>, module: Module, id: FuncId, sources: SourceMap) -> Kernel {
        let arguments = plain_params(&module.functions[id]);
        Kernel::from_parts(device, module, id, sources, Vec::new(), None, arguments)
    }

    /// Makes a kernel of HIR that was transformed from this one's, with its device, sources and syntax tree and without its
    /// warnings, which have been shown. It takes these arguments; [`Kernel::derived`] makes one that takes the parameters
    /// of the HIR.
    pub(crate) fn derived_with(&self, module: Module, id: FuncId, arguments: Box<[TypedParam]>) -> Kernel {
        let (sources, typed) = (self.program.sources.clone(), self.program.typed.clone());
        Kernel::from_parts(&self.device, module, id, sources, Vec::new(), typed, arguments)
    }

    /// Makes a kernel of all that one is: what the other constructors end in.
    pub(crate) fn from_parts(
        device: &Arc<CpuDevice>,
        module: Module,
        id: FuncId,
        sources: SourceMap,
        warnings: Vec<Diagnostic>,
        typed: Option<Arc<TypedProgram>>,
        arguments: Box<[TypedParam]>,
    ) -> Kernel {
        let program = KernelProgram::new(module, id, sources, warnings, typed, arguments);
        Kernel { program, code: KernelCode::default(), device: device.clone() }
    }

    /// Waits until the code is there that is being compiled in the background, of this kernel and others of its device.
    pub fn wait_for_code(&self) {
        self.device.wait_for_background();
    }

    /// Its HIR as the front end made it, in the module of the functions it calls.
    pub fn module(&self) -> (&Module, FuncId) {
        (&self.program.module, self.program.id)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.function().name
    }

    /// A hash of its HIR as the front end made it, in which names and places do not count.
    pub fn hash(&self) -> [u8; 32] {
        canonical_hash(&self.program.module, self.program.id)
    }

    /// The same without the values of constants: kernels that differ in these alone have the same.
    pub fn structure_hash(&self) -> [u8; 32] {
        structure_hash(&self.program.module, self.program.id)
    }

    /// Its parameters as its source has them: what a launch is given.
    pub fn arguments(&self) -> &[TypedParam] {
        &self.program.arguments
    }

    /// Returns true if some argument is a struct or an array of structs: several parameters of its HIR.
    pub fn has_structs(&self) -> bool {
        self.program.has_structs
    }

    /// This kernel with `float64` in place of all other floats, with the parameters that its HIR has; none if an op of it
    /// has no such form.
    pub fn in_double(&self) -> Option<Kernel> {
        in_double(&self.program.module).map(|module| self.derived(module, self.program.id))
    }

    /// The types of its parameters as its HIR has them: of a struct, those of its leaves.
    pub fn types(&self) -> &[Type] {
        &self.program.types
    }

    /// The names of its parameters as its HIR has them: `s.x` for a leaf of the struct `s`.
    pub fn names(&self) -> &[Arc<str>] {
        &self.function().param_names
    }

    /// Returns what an [`ArgBlock`] is filled with: its parameters, where a vector, matrix or quaternion is one scalar
    /// for each component and an array of them an array of scalars with the dimensions of an element after its own.
    pub fn params(&self) -> &KernelParams {
        &self.program.params
    }

    /// True if it may write the array with this index among [`Kernel::params`], itself or by what it calls.
    #[inline]
    pub fn writes(&self, param: usize) -> bool {
        self.program.written.get(param).copied().unwrap_or(false)
    }

    /// Returns true if it may write the argument of this name, or an array that is a part of it.
    pub fn writes_argument(&self, argument: &str) -> bool {
        let is_part =
            |name: &str| name.strip_prefix(argument).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.params().names().iter().enumerate().any(|(param, name)| is_part(name) && self.writes(param))
    }

    /// Returns true if it is launched in blocks of threads: it has barriers, shared memory, warp operations or the
    /// like.
    pub fn needs_blocks(&self) -> bool {
        self.program.needs_blocks
    }

    /// Returns the number of threads a block has where a launch does not say it.
    pub fn block_size(&self) -> u64 {
        self.function().metadata.block().iter().map(|&extent| u64::from(extent)).product()
    }

    /// Its HIR as the front end made it, metadata and constraints included.
    pub fn function(&self) -> &Function {
        &self.program.module.functions[self.program.id]
    }

    /// Returns what was remarkable about its source.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.program.warnings
    }

    /// The files its spans point into.
    pub fn sources(&self) -> &SourceMap {
        &self.program.sources
    }

    /// `name(x: float32, y: array(dtype=float32, ndim=2))`.
    pub fn signature(&self) -> String {
        let function = self.function();
        let params = self.program.arguments.iter().map(|param| format!("{}: {}", param.name, param.ty.python_name()));
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
            CompileTarget::Heterogeneous => None,
        }
    }

    /// Returns true if its decorator says that each launch runs on whichever device is done first, unless the launch names one.
    pub fn is_heterogeneous(&self) -> bool {
        self.function().metadata.target == Some(CompileTarget::Heterogeneous)
    }

    /// The GPU architecture that its decorator names, for which its GPU code is made if nobody asks for another.
    pub fn arch(&self) -> Option<Arch> {
        match self.function().metadata.target.as_ref()? {
            CompileTarget::Cuda(name) => name.parse().ok(),
            CompileTarget::Cpu | CompileTarget::Sim(_) | CompileTarget::Heterogeneous => None,
        }
    }

    /// The rank of launch it is written for: how many coordinates of the thread it asks for, at least one.
    pub fn natural_rank(&self) -> u8 {
        let functions = self.program.module.functions.values().chain([self.function()]);
        functions.map(natural_rank).max().unwrap_or(1)
    }

    /// The cache of its device.
    #[cfg(feature = "_compute")]
    pub(crate) fn cache(&self) -> &polyloom_runtime::CodeCache {
        self.device.cache()
    }

    /// An error about this kernel's source.
    pub(crate) fn rejected(&self, diagnostics: Vec<Diagnostic>) -> CompileError {
        CompileError { diagnostics, sources: self.program.sources.clone() }
    }

    /// The syntax tree that it was lowered from; none if it was made of HIR.
    pub(crate) fn typed(&self) -> Option<&TypedProgram> {
        self.program.typed.as_deref()
    }

    /// The device that runs it on the CPU.
    pub(crate) fn cpu(&self) -> &CpuDevice {
        &self.device
    }
}
