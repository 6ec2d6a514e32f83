//! Native functions: kernels and functions of values as plain C functions, to be called rather than launched.
//!
//! A launch picks a variant, splits its threads over cores and may be cancelled. A native function does none of that: it
//! runs on the calling thread, takes no lock and looks at no clock, so that it suits code that cannot wait. The ABI is
//! [`polyloom_codegen::native`]; `docs/design/native-functions.md` has the reasons.

use crate::emit_options::EmitError;
use crate::kernel::Kernel;
use crate::launch::TrapReport;
use crate::native_pointer::NativePointer;
use polyloom_codegen::abi::SiteKind;
use polyloom_codegen::{
    ArgFacts, ArgLayout, Backend, CallbackSite, CodeVariant, CodegenError, EmitRequest, Form, LoadedNative,
    NativeBlockEntry, NativeBlocks, NativeParam, NativeRequest, NativeReturn, NativeSignature, SiteTable,
};
use polyloom_frontend::CompileError;
use polyloom_ir::block_plan::BlockParam;
use polyloom_ir::function::CheckKind;
use polyloom_ir::span::Position;
use polyloom_ir::{FuncId, MAX_DIMS, Module, SourceMap, Type};
use polyloom_runtime::block_facts;
use polyloom_runtime::latency::{allowed_cores, current_core};
use polyloom_runtime::{ArgBlock, KernelParams, LaunchError, LaunchOptions, Tier, without_fork};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

/// A kernel or a function of values as a C function, compiled by LLVM for this machine.
///
/// ```
/// # if !polyloom::has_llvm() { return Ok(()); }
/// use polyloom::{Session, SourceFile, SourceUnit};
///
/// let text = "
/// import polyloom as loom
///
/// @loom.func
/// def notional(price: float, quantity: loom.int32) -> float:
///     return price * float(quantity)
/// ";
/// let session = Session::new()?;
/// let unit = SourceUnit::parse(SourceFile::new("orders.py", text, 1))?;
/// let function = session.file_function(&unit, "notional")?;
/// // SAFETY: the types are those of the source, and the function reads no memory.
/// let notional = function.typed::<unsafe extern "C" fn(f32, i32) -> f32>()?;
/// assert_eq!(unsafe { notional(2.5, 4) }, 10.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NativeFunction {
    code: Arc<dyn LoadedNative>,
    /// The entry of `code` that takes a block of arguments.
    block_entry: NativeBlockEntry,
    /// True if it is given arrays, whose accesses are verified before a call.
    has_arrays: bool,
    parts: NativeParts,
    /// The kernel, for its parameters, the bounds of its accesses and its source.
    kernel: Arc<Kernel>,
}

thread_local! {
    /// The cores that this thread was last found to be confined to, when a function asked for some.
    static CONFINED_TO: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

impl std::fmt::Debug for NativeFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeFunction").field("name", &self.parts.signature.name).finish_non_exhaustive()
    }
}

/// What back ends take to make a native function: the kernel's prepared HIR, its signature and facts.
pub(crate) struct NativeParts {
    module: Arc<Module>,
    kernel: FuncId,
    pub(crate) signature: NativeSignature,
    dense: ArgFacts,
    general: ArgFacts,
    blocks: Option<NativeBlocks>,
    /// The checks whose numbers a status has.
    pub(crate) sites: Vec<CallbackSite>,
    /// What the kernel's spans point into.
    sources: SourceMap,
}

impl NativeParts {
    /// Prepares a kernel, whose last parameters are the arrays of `results`.
    ///
    /// # Errors
    ///
    /// When the kernel cannot be a native function.
    pub(crate) fn of(kernel: &Kernel, name: &str, results: &[Type]) -> Result<NativeParts, EmitError> {
        let source = kernel.as_code().map_err(|diagnostics| kernel.rejected(diagnostics.to_vec()))?.source();
        let (module, id) = (source.prepared.clone(), source.prepared_kernel);
        let params = native_params(kernel, kernel.types().len() - results.len());
        let function = &module.functions[id];
        let launch_rank = kernel.natural_rank();
        let blocks = source.blocks.as_ref().and_then(|plan| NativeBlocks::of(plan, function, launch_rank));
        let signature = NativeSignature::of(function, name, launch_rank, params, results.to_vec(), blocks.as_ref())
            .map_err(|refused| kernel.rejected(vec![*refused]))?;
        let [mut dense, mut general] = [kernel.params().dense_facts(), kernel.params().general_facts()];
        for facts in [&mut dense, &mut general] {
            for index in 0..results.len() {
                let of_result = &mut facts.arrays[signature.result_slot(index)];
                of_result.contiguous = true;
                of_result.offsets_fit_i32 = true;
                of_result.extents[0] = Some(1);
                // Nobody else has the address of what is returned as a value.
                of_result.disjoint = matches!(signature.returns, NativeReturn::Value(_));
            }
        }
        if let (Some(plan), Some(blocks)) = (&source.blocks, &blocks) {
            for facts in [&mut dense, &mut general] {
                let first = facts.arrays.len();
                facts.arrays.extend(block_facts(plan));
                facts.scalars.extend((first..).zip(&plan.params).filter_map(|(param, of_block)| match of_block {
                    BlockParam::BlockExtent(axis) => Some((param, blocks.grid.block[usize::from(*axis)])),
                    _ => None,
                }));
            }
        }
        let sites = SiteTable::of(&module.functions[id]).sites;
        let sources = kernel.sources().clone();
        Ok(NativeParts { module, kernel: id, signature, dense, general, blocks, sites, sources })
    }

    /// Compiles the function into an object file, with a symbol of its own.
    ///
    /// # Errors
    ///
    /// When the code breaks a promise of the kernel, or is beyond the back end.
    pub(crate) fn compile(
        &self,
        backend: &dyn Backend,
        symbol: &str,
        has_block_entry: bool,
    ) -> Result<Vec<u8>, EmitError> {
        let request = self.request_as(symbol, has_block_entry);
        without_fork(|| backend.compile_native(&request)).map_err(|error| match error.diagnostics.is_empty() {
            true => error.into(),
            false => CompileError { diagnostics: error.diagnostics, sources: self.sources.clone() }.into(),
        })
    }

    /// The request for code with this symbol.
    fn request_as<'a>(&'a self, symbol: &'a str, has_block_entry: bool) -> NativeRequest<'a> {
        NativeRequest {
            module: &self.module,
            kernel: self.kernel,
            signature: &self.signature,
            symbol,
            dense: &self.dense,
            general: &self.general,
            blocks: self.blocks.as_ref(),
            has_block_entry,
        }
    }
}

/// Why a native function did not do all of its work.
#[derive(Debug, thiserror::Error)]
pub enum NativeCallError {
    /// The arguments do not fit, or an access would have been outside of an array. Nothing has run.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Another number of extents than the launch has axes. Nothing has run.
    #[error("`{name}` takes {wanted} extents, not {given}")]
    Extents {
        /// The function.
        name: Arc<str>,
        /// The number it takes.
        wanted: u8,
        /// The number given.
        given: usize,
    },
    /// The memory given as the workspace is less than [`NativeFunction::workspace_size`]. Nothing has run.
    #[error("`{name}` needs a workspace of {wanted} bytes, and {given} are given")]
    Workspace {
        /// The function.
        name: Arc<str>,
        /// The bytes it needs.
        wanted: usize,
        /// The bytes given.
        given: usize,
    },
    /// The thread may run on other cores than the kernel's decorator says. Nothing has run.
    #[error("`{name}` runs on cores {wanted:?} (`cpu_affinity`), and this thread may run on {allowed:?}")]
    Cores {
        /// The function.
        name: Arc<str>,
        /// The cores of the decorator.
        wanted: Vec<u32>,
        /// Those that the thread may run on; empty if the system does not tell.
        allowed: Vec<u32>,
    },
    /// A check or an assertion failed. Some of the threads have run.
    #[error("{}", .0.message)]
    Check(Box<TrapReport>),
    /// The code and its checks disagree.
    #[error("internal error: `{name}` returned {status}, which names no check")]
    Status {
        /// The function.
        name: Arc<str>,
        /// The status.
        status: i32,
    },
}

fn missing_backend() -> CodegenError {
    CodegenError::new("native functions are made by LLVM: this build needs the feature `llvm`")
}

/// True if a thread that may run on some cores runs on these alone.
fn is_confined(allowed: &[u32], wanted: &[u32]) -> bool {
    !allowed.is_empty() && allowed.iter().all(|core| wanted.contains(core))
}

/// A check of a native function in words. Which index failed, in which thread, the status does not say.
pub(crate) fn describe_site(kernel: &Kernel, site: &CallbackSite) -> TrapReport {
    let located = kernel.sources().locate(site.span);
    let (file, position) = located.unwrap_or(("<unknown>", Position { line: 0, column: 0 }));
    let what = match &site.kind {
        SiteKind::Check(CheckKind::Bounds { array, axis, .. }) if array.is_empty() => {
            format!("an index is out of bounds for axis {axis}")
        }
        SiteKind::Check(CheckKind::Bounds { array, axis, .. }) => {
            format!("an index is out of bounds for axis {axis} of `{array}`")
        }
        SiteKind::Check(CheckKind::Division) => "integer division by zero".to_owned(),
        SiteKind::Assert(message) if message.is_empty() => "assertion failed".to_owned(),
        SiteKind::Assert(message) => format!("assertion failed: {message:?}"),
        SiteKind::Print(..) => "failed to print".to_owned(),
    };
    let message = format!("{what} in `{}` ({file}:{}:{})", kernel.name(), position.line, position.column);
    TrapReport { message, file: file.to_owned(), position, bounds: None, thread: Vec::new() }
}

/// The first `n` parameters of a kernel as its HIR has them.
fn native_params(kernel: &Kernel, n: usize) -> Vec<NativeParam> {
    let mut slot = 0;
    let params = kernel.names().iter().zip(kernel.types()).take(n);
    params
        .map(|(name, &ty)| {
            let is_written = ty.as_any_array().is_some() && kernel.writes(slot);
            slot += ty.as_composite().map_or(1, |composite| composite.n_components());
            NativeParam { name: name.clone(), ty, is_written }
        })
        .collect()
}

impl Kernel {
    /// The kernel as a native function, compiled now.
    ///
    /// [`Kernel::function`] is the kernel's HIR, so this has another name here than in Python.
    ///
    /// # Errors
    ///
    /// When this build has no LLVM, the kernel is launched in blocks or prints, or LLVM cannot compile it.
    pub fn native_function(self: &Arc<Self>) -> Result<NativeFunction, EmitError> {
        NativeFunction::new(self.clone(), self.name(), &[])
    }
}

impl NativeFunction {
    /// Compiles a kernel whose last parameters are the arrays of `results`.
    pub(crate) fn new(kernel: Arc<Kernel>, name: &str, results: &[Type]) -> Result<NativeFunction, EmitError> {
        let parts = NativeParts::of(&kernel, name, results)?;
        let backend = kernel.cpu().backend(Tier::Optimized).ok_or_else(missing_backend)?;
        let object = parts.compile(&**backend, &parts.signature.name, true)?;
        let code = without_fork(|| backend.load_native(&object, &parts.signature.name))?;
        let has_arrays = parts.signature.params.iter().any(|param| param.ty.as_any_array().is_some());
        Ok(NativeFunction { block_entry: code.block_entry(), code, has_arrays, parts, kernel })
    }

    /// The bytes of memory that each call needs and its caller owns, which may lie anywhere: shared memory and what crosses
    /// barriers, of a kernel that runs in blocks of threads. 0 for other functions, which need no more than their stack.
    pub fn workspace_size(&self) -> usize {
        self.parts.signature.workspace_bytes as usize
    }

    /// Its ABI.
    pub fn signature(&self) -> &NativeSignature {
        &self.parts.signature
    }

    /// Says how a call runs, as [`Form::Strategy`] says it of launches: a kernel that does not ask for its thread is launched in
    /// groups of threads, and called as one.
    ///
    /// # Errors
    ///
    /// As [`Kernel::emit`].
    pub fn explain(&self) -> Result<String, EmitError> {
        let NativeParts { module, kernel, signature, dense, blocks, .. } = &self.parts;
        let rank = if blocks.is_some() { 1 } else { signature.launch_rank.max(1) };
        let is_single = signature.launch_rank == 0;
        let variant = CodeVariant::new(rank, dense.clone()).with_lanes(is_single.then_some(1));
        let sources = Some(self.kernel.sources());
        let request = EmitRequest { module, kernel: *kernel, variant: &variant, entry: &signature.name, sources };
        let backend = self.kernel.cpu().backend(Tier::Optimized).ok_or_else(missing_backend)?;
        let made = without_fork(|| backend.emit_forms(&request, &[Form::Strategy]))?;
        let mut text = if is_single { "a call runs one thread\n".to_owned() } else { String::new() };
        made.iter().for_each(|made| text.push_str(&String::from_utf8_lossy(made)));
        text.push_str(&self.kernel.describe_loop_bounds());
        Ok(text)
    }

    /// The kernel that it is made of. Of a function of values, its last parameters are arrays for the results.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// The C function. It may be called as long as `self` is there.
    pub fn as_ptr(&self) -> *const c_void {
        self.code.function()
    }

    /// The entry that takes a block of arguments, for callers that measure it. It may be called as long as `self` is there.
    pub fn block_entry(&self) -> NativeBlockEntry {
        self.block_entry
    }

    /// The C function as a Rust function pointer, such as
    /// `unsafe extern "C" fn(i64, *const NativeArray<f32, 1>) -> i32`.
    ///
    /// # Errors
    ///
    /// When its parameters or its result are of other types.
    pub fn typed<F: NativePointer>(&self) -> Result<F, CodegenError> {
        F::check(&self.parts.signature)?;
        // SAFETY: the signature is that of the function, and `F` is a function pointer.
        Ok(unsafe { std::mem::transmute_copy::<*const c_void, F>(&self.code.function()) })
    }

    /// Touches the code, and runs it over a launch without threads where it has extents, so that the first call finds
    /// code and stack in memory. Nothing of the kernel runs.
    pub fn prepare(&self) {
        let entry = self.code.function().cast::<u8>();
        // SAFETY: code is readable, and a function has at least one byte.
        std::hint::black_box(unsafe { entry.read_volatile() });
        if self.parts.signature.launch_rank == 0 {
            return;
        }
        let layout = ArgLayout::of(&self.parts.module.functions[self.parts.kernel]);
        // A workspace that nothing reads is at address 0.
        let block = vec![0u64; layout.size as usize / 8];
        // SAFETY: the block has the layout that the entry reads, with empty arrays, and without threads nothing is
        // accessed.
        unsafe { (self.block_entry)(block.as_ptr().cast(), [0i64; MAX_DIMS].as_ptr()) };
    }

    /// Refuses a thread that may run on other cores than those of the kernel's `cpu_affinity`: a function runs where it is
    /// called.
    ///
    /// # Errors
    ///
    /// [`NativeCallError::Cores`].
    pub fn check_cores(&self) -> Result<(), NativeCallError> {
        let wanted = &self.kernel.function().constraints.cpu_affinity;
        if wanted.is_empty() {
            return Ok(());
        }
        let allowed = allowed_cores();
        if is_confined(&allowed, wanted) {
            CONFINED_TO.set(allowed);
            return Ok(());
        }
        let (name, wanted) = (self.parts.signature.name.clone(), wanted.clone());
        Err(NativeCallError::Cores { name, wanted, allowed })
    }

    /// Returns false if this thread runs on another core than those of the kernel's `cpu_affinity`, or has not been found to
    /// be confined to them: then [`NativeFunction::check_cores`] says more. The system is not called.
    #[inline]
    fn is_on_its_cores(&self) -> bool {
        let wanted = &self.kernel.function().constraints.cpu_affinity;
        wanted.is_empty() || {
            let is_there = current_core().is_some_and(|core| wanted.contains(&core));
            is_there && CONFINED_TO.with_borrow(|cores| is_confined(cores, wanted))
        }
    }

    /// Calls the function with arguments in a block that has been filled for [`Kernel::params`]; results are stored in the
    /// arrays that the block has for them. `extents` are those of the launch, as many as the signature says.
    ///
    /// # Errors
    ///
    /// [`NativeCallError`]. After a failed check some of the threads have run.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`].
    #[inline]
    pub unsafe fn call(&self, extents: &[i64], args: &ArgBlock) -> Result<(), NativeCallError> {
        // SAFETY: passed on to the caller.
        unsafe { self.call_with(extents, args, &mut []) }
    }

    /// The same with a workspace, of at least [`NativeFunction::workspace_size`] bytes.
    ///
    /// # Errors
    ///
    /// As [`NativeFunction::call`].
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`].
    #[inline]
    pub unsafe fn call_with(
        &self,
        extents: &[i64],
        args: &ArgBlock,
        workspace: &mut [u8],
    ) -> Result<(), NativeCallError> {
        let signature = &self.parts.signature;
        if !self.is_on_its_cores() {
            self.check_cores()?;
        }
        args.check_complete(self.kernel.params()).map_err(LaunchError::from)?;
        if extents.len() != usize::from(signature.launch_rank) {
            let (name, wanted, given) = (signature.name.clone(), signature.launch_rank, extents.len());
            return Err(NativeCallError::Extents { name, wanted, given });
        }
        let mut shape = [1; MAX_DIMS];
        for (of_launch, &extent) in shape.iter_mut().zip(extents) {
            *of_launch = u64::try_from(extent).unwrap_or(0);
        }
        if shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent)).is_none_or(|n| n > i32::MAX as u64) {
            return Err(LaunchError::TooManyThreads { shape: shape[..extents.len()].to_vec() }.into());
        }
        self.kernel.verify_accesses(&shape[..extents.len().max(1)], args, &LaunchOptions::default())?;
        // SAFETY: the block is complete, and the caller vouches for the arrays.
        unsafe { self.call_words(extents, &self.words(args, workspace)?) }
    }

    /// The words of a complete block of arguments with the address of a workspace after them, where the function has one:
    /// what [`NativeFunction::block_entry`] takes, as long as the workspace is there.
    ///
    /// # Errors
    ///
    /// [`NativeCallError::Workspace`].
    #[inline]
    pub fn words<'a>(&self, args: &'a ArgBlock, workspace: &mut [u8]) -> Result<Cow<'a, [u64]>, NativeCallError> {
        let (wanted, given) = (self.workspace_size(), workspace.len());
        if wanted == 0 {
            return Ok(Cow::Borrowed(args.words()));
        }
        if given < wanted {
            return Err(NativeCallError::Workspace { name: self.parts.signature.name.clone(), wanted, given });
        }
        Ok(Cow::Owned([args.words(), &[workspace.as_mut_ptr() as u64]].concat()))
    }

    /// Calls the function with the words of a block and looks at nothing, the cores of `cpu_affinity` included.
    ///
    /// # Errors
    ///
    /// [`NativeCallError::Check`].
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`]; the words are those of [`NativeFunction::words`], and there are as many extents as the
    /// signature says, whose product an `i32` holds.
    #[inline]
    pub unsafe fn call_words(&self, extents: &[i64], words: &[u64]) -> Result<(), NativeCallError> {
        // SAFETY: passed on to the caller.
        let status = unsafe { (self.block_entry)(words.as_ptr().cast(), extents.as_ptr()) };
        if status == 0 { Ok(()) } else { Err(self.failure(status)) }
    }

    /// Calls a function whose threads have no coordinates with the words of a complete block of arguments, and gives its
    /// status; `None` if an access would be outside of an array, the function has extents, or the thread may be on other
    /// cores than the kernel's: then nothing has run.
    ///
    /// # Safety
    ///
    /// The words are those of a block that [`NativeFunction::call`] could be given, for arguments of these types.
    #[inline]
    pub unsafe fn try_words(&self, words: &[u64]) -> Option<i32> {
        if self.parts.signature.launch_rank != 0
            || !self.is_on_its_cores()
            || self.has_arrays && !self.kernel.stays_inside(&[1], words)
        {
            return None;
        }
        // SAFETY: the caller vouches for the block, and a function without extents reads none.
        Some(unsafe { (self.block_entry)(words.as_ptr().cast(), std::ptr::null()) })
    }

    /// The check that a status names, in words; none if it names none.
    pub fn site(&self, status: i32) -> Option<TrapReport> {
        let site = self.parts.sites.get(usize::try_from(status.checked_sub(1)?).ok()?)?;
        Some(describe_site(&self.kernel, site))
    }

    /// The error that a status other than 0 is.
    #[cold]
    pub fn failure(&self, status: i32) -> NativeCallError {
        match self.site(status) {
            Some(report) => NativeCallError::Check(Box::new(report)),
            None => NativeCallError::Status { name: self.parts.signature.name.clone(), status },
        }
    }

    /// The parameters that [`NativeFunction::call`] takes arguments for.
    pub fn params(&self) -> &KernelParams {
        self.kernel.params()
    }
}
