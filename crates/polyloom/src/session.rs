//! What compilations share: the device they run on and the defaults they start from.

use crate::backward::BackwardKernel;
use crate::call::BuiltinCalls;
use crate::fusion::FusedKernelCache;
use crate::kernel::Kernel;
use polyloom_codegen::Backend;
use polyloom_codegen::cranelift::CraneliftBackend;
use polyloom_frontend::{
    CompileError, FileEnvironment, FrontendOptions as Defaults, FunctionHandle, SourceUnit, ValueType,
    compile_kernel_for, no_such_kernel, result_types,
};
use polyloom_ir::{
    Code, Diagnostic, FuncId, Function, FunctionKind, Module, Severity, SourceMap, Span, check_rules, verify_module,
};
use polyloom_runtime::{CpuDevice, DeviceError, without_fork};
use smallvec::SmallVec;
use std::sync::{Arc, PoisonError, RwLock};

/// Why a session cannot be set up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SessionError {
    /// A back end does not work on this machine.
    #[error("the {name} back end does not work here: {reason}")]
    Backend {
        /// Which.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// The device is configured wrongly.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// An environment variable has a value without meaning.
    #[error("{name} is `{value}`; it may be 0 or 1")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
}

/// A compiler with its device.
pub struct Session {
    device: Arc<CpuDevice>,
    defaults: RwLock<Defaults>,
    calls: BuiltinCalls,
    fused_kernels: FusedKernelCache,
}

/// Returns true if this build has the LLVM back end.
pub const fn has_llvm() -> bool {
    cfg!(feature = "_llvm")
}

#[cfg(feature = "_llvm")]
fn optimizer() -> Result<Option<Arc<dyn Backend>>, SessionError> {
    match polyloom_llvm::LlvmBackend::new() {
        Ok(backend) => Ok(Some(Arc::new(backend))),
        Err(error) => Err(SessionError::Backend { name: "LLVM", reason: error.to_string() }),
    }
}

#[cfg(not(feature = "_llvm"))]
fn optimizer() -> Result<Option<Arc<dyn Backend>>, SessionError> {
    Ok(None)
}

fn flag(name: &'static str) -> Result<bool, SessionError> {
    match std::env::var(name).as_deref() {
        Err(_) | Ok("" | "0") => Ok(false),
        Ok("1") => Ok(true),
        Ok(value) => Err(SessionError::Variable { name, value: value.to_owned() }),
    }
}

/// Finds what is wrong with a module that no front end has checked.
fn invalidities(module: &Module) -> Vec<Diagnostic> {
    // The rules are not checked then, because they are about modules that are valid HIR.
    if let Err(diagnostics) = verify_module(module) {
        return diagnostics;
    }
    check_rules(module)
}

impl Session {
    /// A session on this machine's CPU, configured by the `POLYLOOM_…` environment variables.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn new() -> Result<Session, SessionError> {
        Session::on(Session::default_device()?)
    }

    /// This machine's CPU with all the back ends of the build, configured by the environment.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn default_device() -> Result<CpuDevice, SessionError> {
        let (quick, optimizer) = without_fork(|| (CraneliftBackend::new(), optimizer()));
        let quick = quick.map_err(|error| SessionError::Backend { name: "Cranelift", reason: error.to_string() })?;
        let optimizer = optimizer?;
        let quick = if optimizer.is_some() { quick.followed_by_another() } else { quick };
        Ok(CpuDevice::from_env(Arc::new(quick), optimizer)?)
    }

    /// This machine's CPU for kernels that are launched a few times and not again: code is made fast rather than fast
    /// code, and kept while the process runs.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn passing_device() -> Result<CpuDevice, SessionError> {
        let quick = without_fork(|| CraneliftBackend::new().and_then(CraneliftBackend::hasty));
        let quick = quick.map_err(|error| SessionError::Backend { name: "Cranelift", reason: error.to_string() })?;
        Ok(CpuDevice::new(Arc::new(quick), None))
    }

    /// A session on a device of the caller's making.
    ///
    /// # Errors
    ///
    /// [`SessionError::Variable`].
    pub fn on(device: CpuDevice) -> Result<Session, SessionError> {
        if flag("POLYLOOM_DETERMINISTIC")? {
            device.set_deterministic(true);
        }
        let defaults = Defaults { check: flag("POLYLOOM_CHECK")?, ..Defaults::default() };
        Ok(Session {
            device: Arc::new(device),
            defaults: RwLock::new(defaults),
            calls: BuiltinCalls::default(),
            fused_kernels: FusedKernelCache::default(),
        })
    }

    /// The device.
    pub fn device(&self) -> &Arc<CpuDevice> {
        &self.device
    }

    pub(crate) fn calls(&self) -> &BuiltinCalls {
        &self.calls
    }

    pub(crate) fn fused_kernels(&self) -> &FusedKernelCache {
        &self.fused_kernels
    }

    /// The defaults now.
    pub fn defaults(&self) -> Defaults {
        *self.defaults.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the defaults of kernels compiled from now on.
    pub fn set_defaults(&self, defaults: Defaults) {
        *self.defaults.write().unwrap_or_else(PoisonError::into_inner) = defaults;
    }

    /// Compiles a kernel as far as HIR: machine code is made by the first launch, or by [`Kernel::compile`].
    ///
    /// # Errors
    ///
    /// All that is wrong with the kernel and the functions it calls.
    pub fn compile(&self, kernel: &FunctionHandle, defaults: Defaults) -> Result<Kernel, CompileError> {
        self.compile_for(kernel, &[], defaults)
    }

    /// Compiles a generic kernel for parameters of these types, which its annotations take.
    ///
    /// # Errors
    ///
    /// As [`Session::compile`].
    pub fn compile_for(
        &self,
        kernel: &FunctionHandle,
        types: &[ValueType],
        defaults: Defaults,
    ) -> Result<Kernel, CompileError> {
        Kernel::from_compiled(&self.device, compile_kernel_for(kernel, types, &defaults)?)
    }

    /// Makes a kernel of HIR: text that [`parse_module`](polyloom_ir::parse_module) has read, or a module that was built.
    /// It is checked if checks are a default of the session; its float mode is what its metadata says.
    ///
    /// # Errors
    ///
    /// All that is wrong with the module, also if `kernel` is none of its kernels.
    pub fn compile_module(
        &self,
        mut module: Module,
        kernel: FuncId,
        sources: SourceMap,
    ) -> Result<Kernel, CompileError> {
        let diagnostics = match module.functions.get(kernel).map(|function| function.kind) {
            None => vec![Diagnostic::error(Code::NoKernel, Span::NONE, "the module has no function of this number")],
            Some(FunctionKind::Func) => {
                let Function { name, span, .. } = &module.functions[kernel];
                let message = format!("`{name}` is a function, not a kernel");
                vec![Diagnostic::error(Code::NoKernel, *span, message)]
            }
            Some(FunctionKind::Kernel) => invalidities(&module),
        };
        if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return Err(CompileError { diagnostics, sources });
        }
        let function = &mut module.functions[kernel];
        function.metadata.check |= self.defaults().check && !function.constraints.unchecked;
        Ok(Kernel::from_hir(&self.device, module, kernel, sources))
    }

    /// The types of what a function returns, if the types of all its parameters are known.
    ///
    /// # Errors
    ///
    /// All that is wrong with the function and those it calls.
    pub fn result_types(
        &self,
        function: &FunctionHandle,
        defaults: Defaults,
    ) -> Result<SmallVec<[ValueType; 2]>, CompileError> {
        result_types(function, &defaults)
    }

    /// Compiles a kernel of a file by name, its other names resolved by the rest of the file.
    ///
    /// # Errors
    ///
    /// As [`Session::compile`], and if the file has no such kernel.
    pub fn compile_file_kernel(&self, unit: &Arc<SourceUnit>, name: &str) -> Result<Kernel, CompileError> {
        let named = |&index: &usize| unit.functions().get(index).is_some_and(|f| &*f.name == name);
        // The last one is taken, because a later definition replaces an earlier one in Python.
        let Some(function) = unit.kernels().filter(named).last() else {
            return Err(no_such_kernel(unit, Some(name)));
        };
        self.compile_file_function(unit, function)
    }

    /// Compiles the kernel with this index among the functions of a file.
    ///
    /// # Errors
    ///
    /// As [`Session::compile`].
    pub fn compile_file_function(&self, unit: &Arc<SourceUnit>, function: usize) -> Result<Kernel, CompileError> {
        self.compile(&FileEnvironment::new(unit).function(function), self.defaults())
    }
}

impl Kernel {
    /// This kernel on the device of another session, with checks if these are a default there.
    pub fn on(&self, session: &Session) -> Kernel {
        let (sources, typed) = (self.program.sources.clone(), self.program.typed.clone());
        let mut module = (*self.program.module).clone();
        module.functions[self.program.id].metadata.check |= session.defaults().check;
        Kernel::from_parts(
            session.device(),
            module,
            self.program.id,
            sources,
            Vec::new(),
            typed,
            self.program.arguments.clone(),
        )
    }
}

impl BackwardKernel {
    /// The backward kernel on the device of another session.
    pub fn on(&self, session: &Session) -> BackwardKernel {
        self.with_kernels(|kernel| kernel.on(session))
    }
}
