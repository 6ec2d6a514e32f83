//! A back end whose code is a Rust function, and the kernels it stands for.

use polyloom_codegen::{
    Backend, CodeObject, CodeVariant, CodegenError, EmitRequest, Emitter, Form, KernelEntry, LaunchContext, LoadedCode,
    SiteTable,
};
use polyloom_ir::function::CheckKind;
use polyloom_ir::{Builder, FuncId, Function, FunctionKind, Imm, Module, Op, Scalar, Type};
use polyloom_runtime::{
    ArgBlock, CpuDevice, CpuKernel, InterpretableHir, KernelParams, KernelSource, LaunchOptions, launch,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A back end that "compiles" every kernel to `entry`.
pub(crate) struct FakeBackend {
    pub(crate) name: &'static str,
    pub(crate) entry: KernelEntry,
    pub(crate) n_compiled: AtomicUsize,
    pub(crate) n_loaded: AtomicUsize,
    /// Kernels named `uncompilable` are not compiled.
    capable: bool,
    /// So many objects are refused.
    n_refused: AtomicUsize,
    /// Waited for before compiling, and set when code is loaded.
    gate: Option<(&'static AtomicBool, &'static AtomicBool)>,
    /// The code of a rival, of one lane, of what is chosen otherwise, which has eight.
    rival: Option<KernelEntry>,
}

impl FakeBackend {
    pub(crate) fn new(name: &'static str, entry: KernelEntry) -> Arc<FakeBackend> {
        Arc::new(FakeBackend::plain(name, entry))
    }

    /// One that can compile anything.
    pub(crate) fn capable(name: &'static str, entry: KernelEntry) -> Arc<FakeBackend> {
        Arc::new(FakeBackend { capable: true, ..FakeBackend::plain(name, entry) })
    }

    /// One that refuses to load the first `n` objects.
    pub(crate) fn refusing(name: &'static str, entry: KernelEntry, n: usize) -> Arc<FakeBackend> {
        Arc::new(FakeBackend { n_refused: AtomicUsize::new(n), ..FakeBackend::plain(name, entry) })
    }

    /// One that compiles only once `start` is set, and sets `loaded` when it has loaded code.
    pub(crate) fn gated(
        name: &'static str,
        entry: KernelEntry,
        start: &'static AtomicBool,
        loaded: &'static AtomicBool,
    ) -> Arc<FakeBackend> {
        Arc::new(FakeBackend { gate: Some((start, loaded)), ..FakeBackend::plain(name, entry) })
    }

    /// One that cannot tell which of two codes is faster.
    pub(crate) fn undecided(name: &'static str, entry: KernelEntry, rival: KernelEntry) -> Arc<FakeBackend> {
        Arc::new(FakeBackend { rival: Some(rival), ..FakeBackend::plain(name, entry) })
    }

    fn plain(name: &'static str, entry: KernelEntry) -> FakeBackend {
        FakeBackend {
            name,
            entry,
            n_compiled: AtomicUsize::new(0),
            n_loaded: AtomicUsize::new(0),
            capable: false,
            n_refused: AtomicUsize::new(0),
            gate: None,
            rival: None,
        }
    }
}

/// Waits for a flag, but not for ever.
pub(crate) fn wait_for(flag: &AtomicBool) {
    let waits = (0..20_000).take_while(|_| !flag.load(Ordering::SeqCst));
    waits.for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
}

struct FakeCode(KernelEntry);

impl LoadedCode for FakeCode {
    fn entry(&self) -> KernelEntry {
        self.0
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> String {
        "1".to_owned()
    }

    fn fingerprint(&self) -> String {
        format!("{} 1", self.name)
    }

    fn compile(&self, module: &Module, kernel: FuncId, variant: &CodeVariant) -> Result<CodeObject, CodegenError> {
        self.n_compiled.fetch_add(1, Ordering::SeqCst);
        if let Some((start, _)) = self.gate {
            wait_for(start);
        }
        let name = &module.functions[kernel].name;
        if &**name == "uncompilable" && !self.capable {
            return Err(CodegenError::new("no such luck"));
        }
        let mut bytes = name.as_bytes().repeat(100);
        bytes.extend(variant.lanes.map(|lanes| lanes as u8));
        Ok(CodeObject { bytes })
    }

    fn candidates(&self, _: &Module, _: FuncId, _: &CodeVariant) -> Vec<u32> {
        self.rival.map(|_| vec![8, 1]).unwrap_or_default()
    }

    fn load(&self, object: &CodeObject) -> Result<Arc<dyn LoadedCode>, CodegenError> {
        self.n_loaded.fetch_add(1, Ordering::SeqCst);
        let refused = self.n_refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if refused.is_ok() {
            return Err(CodegenError::new("not an object"));
        }
        if let Some((_, loaded)) = self.gate {
            loaded.store(true, Ordering::SeqCst);
        }
        let entry = self.rival.filter(|_| object.bytes.last() == Some(&1)).unwrap_or(self.entry);
        Ok(Arc::new(FakeCode(entry)))
    }
}

impl Emitter for FakeBackend {
    fn forms(&self) -> &'static [Form] {
        &[]
    }

    fn emit_forms(&self, _: &EmitRequest<'_>, _: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError> {
        Err(CodegenError::new("no text form"))
    }
}

const F32_1D: Type = Type::array(Scalar::F32, 1);

/// `y[i] += alpha * x[i]` with the bounds of `x` checked; machine code here fails the check by hand.
pub(crate) fn saxpy_source(name: &str) -> KernelSource {
    let params = [("x", F32_1D), ("y", F32_1D), ("alpha", Type::F32)];
    let mut kernel = Function::new(name, FunctionKind::Kernel, params, &[]);
    let (x, y, alpha) = (kernel.params()[0], kernel.params()[1], kernel.params()[2]);
    let mut build = Builder::new(&mut kernel);
    let i = build.op(Op::TidLinear, &[]);
    let extent = build.dim(x, 0);
    let inside = build.op(Op::Lt, &[i, extent]);
    let (index, wide) = (build.cast(i, Scalar::I64), build.cast(extent, Scalar::I64));
    let bounds = Imm::Check(CheckKind::Bounds { array: "x".into(), axis: 0, unsigned: false });
    build.inst(Op::Check, &[inside, index, wide], &[], bounds);
    let xi = build.op(Op::ArrayLoad, &[x, i]);
    let yi = build.op(Op::ArrayLoad, &[y, i]);
    let product = build.op(Op::Mul, &[alpha, xi]);
    let sum = build.op(Op::Add, &[yi, product]);
    build.inst(Op::ArrayStore, &[y, i, sum], &[], Imm::None);
    build.return_(&[]);
    source(kernel)
}

/// A kernel that says nothing of how long it takes: a loop as long as `x`.
pub(crate) fn loop_source(name: &str) -> KernelSource {
    let mut kernel =
        Function::new(name, FunctionKind::Kernel, [("x", F32_1D), ("y", F32_1D), ("alpha", Type::F32)], &[]);
    let x = kernel.params()[0];
    let mut build = Builder::new(&mut kernel);
    let (low, high, step) = (build.const_int(Scalar::I32, 0), build.dim(x, 0), build.const_int(Scalar::I32, 1));
    let (_, body) = build.begin_for_range([low, high, step], &[]);
    let outer = build.switch_to(body);
    build.yield_(&[]);
    build.switch_to(outer);
    build.return_(&[]);
    source(kernel)
}

/// A source whose verified and prepared modules are the same.
pub(crate) fn source(kernel: Function) -> KernelSource {
    let mut module = Module::new();
    let mut hash = [0; 32];
    hash.iter_mut().zip(kernel.name.bytes()).for_each(|(h, b)| *h = b);
    let params = KernelParams::of(&kernel);
    let id = module.functions.push(kernel);
    let module = Arc::new(module);
    KernelSource {
        interpretable: InterpretableHir::new({
            let module = module.clone();
            move || (module, id)
        }),
        prepared: module,
        prepared_kernel: id,
        hash,
        params,
        needs_blocks: false,
        blocks: None,
    }
}

/// Describes what compiled code would read of the block of [`saxpy_source`].
#[repr(C)]
pub(crate) struct SaxpyArgs {
    pub(crate) x: *const f32,
    pub(crate) x_extent: u64,
    pub(crate) x_stride: i64,
    pub(crate) y: *mut f32,
    pub(crate) y_extent: u64,
    pub(crate) y_stride: i64,
    pub(crate) alpha: u64,
}

/// Machine code of saxpy.
pub(crate) unsafe extern "C" fn saxpy(args: *const u8, _context: *const LaunchContext, begin: u64, end: u64) {
    // SAFETY: the runtime passes a complete block for the kernel.
    let args = unsafe { &*args.cast::<SaxpyArgs>() };
    let alpha = f32::from_bits(args.alpha as u32);
    for i in begin as isize..end as isize {
        // SAFETY: tests launch as many threads as the arrays have elements.
        unsafe {
            let x = *args.x.byte_offset(i * args.x_stride as isize);
            let y = args.y.byte_offset(i * args.y_stride as isize);
            *y += alpha * x;
        }
    }
}

/// Code whose thread 100 reports index 100 of extent 7 at the first site.
pub(crate) unsafe extern "C" fn trapping(_args: *const u8, context: *const LaunchContext, begin: u64, end: u64) {
    if (begin..end).contains(&100) {
        // SAFETY: the context is the runtime's.
        unsafe { ((*context).trap)(context, 0, 100, 7, 100) }
    }
}

/// A kernel on a device with one back end.
pub(crate) fn kernel(entry: KernelEntry, source: KernelSource) -> (Arc<FakeBackend>, CpuKernel) {
    let backend = FakeBackend::new("fake", entry);
    let device = Arc::new(CpuDevice::new(backend.clone(), None));
    (backend, CpuKernel::new(device, source))
}

/// Launches a saxpy kernel over `n` threads and checks every element.
pub(crate) fn run_saxpy(kernel: &CpuKernel, n: usize) {
    let mut x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32).collect();
    let mut y = vec![1.0f32; n];
    let mut args = ArgBlock::new();
    args.slice(kernel.params(), &mut x, &[n as u64]).unwrap();
    args.slice(kernel.params(), &mut y, &[n as u64]).unwrap();
    args.scalar(kernel.params(), Scalar::F32, 2f32.to_bits().into()).unwrap();
    // SAFETY: as many threads as elements.
    unsafe { launch(kernel, &[n as u64], &args, &LaunchOptions::default()) }.unwrap();
    let wrong = (0..n).find(|&i| y[i] != 1.0 + 2.0 * (i % 1000) as f32);
    assert_eq!(wrong, None, "element of {n} that is wrong");
}

/// The site numbers of a source's prepared kernel are what machine code here assumes.
#[test]
fn the_check_of_saxpy_is_site_0() {
    let source = saxpy_source("saxpy");
    let sites = SiteTable::of(&source.prepared.functions[source.prepared_kernel]);
    assert_eq!(sites.sites.len(), 1);
}
