//! What kernels print, and in which order.

use crate::fake::{kernel, source};
use polyloom_codegen::LaunchContext;
use polyloom_ir::{Builder, Function, FunctionKind, Imm, Op, Type};
use polyloom_runtime::{ArgBlock, CpuDevice, CpuKernel, KernelSource, LaunchOptions, PrintSink};
use polyloom_runtime::{Tier, TierPolicy, launch, set_print_sink};
use std::cell::RefCell;
use std::sync::{Arc, Once};

thread_local! {
    static PRINTED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps text apart by the thread that launched.
struct ByThread;

impl PrintSink for ByThread {
    fn write(&self, text: &str) {
        PRINTED.with_borrow_mut(|printed| printed.push_str(text));
    }
}

/// Returns what `kernel` prints when launched over `n` threads.
fn printed(kernel: &CpuKernel, n: u64) -> String {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| set_print_sink(Arc::new(ByThread)));
    PRINTED.take();
    // SAFETY: the kernel has no arguments.
    unsafe { launch(kernel, &[n], &ArgBlock::new(), &LaunchOptions::default()) }.unwrap();
    PRINTED.take()
}

/// `printf("thread %d\n", tid())`
fn printing_source() -> KernelSource {
    let mut kernel = Function::new("printing", FunctionKind::Kernel, [], &[]);
    let mut build = Builder::new(&mut kernel);
    let i = build.tid(0);
    build.inst(Op::Print, &[i], &[], Imm::Text("thread %d\n".into()));
    build.return_(&[]);
    source(kernel)
}

unsafe extern "C" fn printing(_: *const u8, context: *const LaunchContext, begin: u64, end: u64) {
    for thread in begin..end {
        // SAFETY: the context is the runtime's, and the print has one operand.
        unsafe { ((*context).print)(context, 0, &thread) }
    }
}

fn in_order(n: u64) -> String {
    (0..n).map(|i| format!("thread {i}\n")).collect()
}

#[test]
fn threads_print_in_the_order_of_a_sequential_run() {
    let (_, kernel) = kernel(printing, printing_source());
    for n in [1, 100, 20_000] {
        assert!(printed(&kernel, n) == in_order(n), "{n} threads");
    }
}

#[test]
fn the_interpreter_prints_the_same() {
    let backend = crate::fake::FakeBackend::new("fake", printing);
    let device = CpuDevice::new(backend, None).with_policy(TierPolicy::Always(Tier::Interpreter)).unwrap();
    let kernel = CpuKernel::new(Arc::new(device), printing_source());
    assert_eq!(kernel.params().types(), [] as [Type; 0]);
    assert_eq!(printed(&kernel, 1000), in_order(1000));
}
