//! Native functions under promises, run where a broken one ends the process: with an allocator that aborts, and with a
//! filter of the kernel's that kills whoever calls the system.
//!
//! The functions are those of `examples/order_execution`, in Python and in `.loom`. Each experiment runs in a child process.

#![cfg(target_os = "linux")]

use polyloom::{Kernel, NativeArray, NativeFunction, Session, SourceFile, SourceUnit, has_llvm, read_loom};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

thread_local! {
    /// True while this thread may not allocate.
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, which aborts where allocation is forbidden.
struct AbortingAllocator;

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for AbortingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if FORBIDDEN.get() {
            std::process::abort();
        }
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if FORBIDDEN.get() {
            std::process::abort();
        }
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: AbortingAllocator = AbortingAllocator;

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn malloc(size: usize) -> *mut c_void;
}

const PR_SET_SECCOMP: c_int = 22;
/// Allows `read`, `write`, `exit` and `sigreturn`; all else kills.
const SECCOMP_MODE_STRICT: c_long = 1;
#[cfg(target_arch = "x86_64")]
const SYS_EXIT: c_long = 60;
#[cfg(not(target_arch = "x86_64"))]
const SYS_EXIT: c_long = 93;
#[cfg(target_arch = "x86_64")]
const SYS_GETPPID: c_long = 110;
#[cfg(not(target_arch = "x86_64"))]
const SYS_GETPPID: c_long = 173;
const SIGABRT: c_int = 6;
const SIGKILL: c_int = 9;

/// Runs something in a child process that then ends with status 0, and gives the signal that ended it instead, or 0.
fn signal_of_child(work: impl FnOnce()) -> c_int {
    // SAFETY: the child has this thread alone, runs `work`, which takes no lock of other threads, and ends at once.
    unsafe {
        match fork() {
            0 => {
                work();
                syscall(SYS_EXIT, 0);
                unreachable!("the process has ended");
            }
            child => {
                assert!(child > 0, "the system makes no process");
                let mut status = 0;
                assert_eq!(waitpid(child, &raw mut status, 0), child);
                assert!(status & 0x7f != 0 || status >> 8 & 0xff == 0, "the child failed: {status:#x}");
                status & 0x7f
            }
        }
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/order_execution")
}

/// The four functions of an order's path, with their arrays.
struct OrderPath {
    risk: NativeFunction,
    signal: NativeFunction,
    order: NativeFunction,
    position: NativeFunction,
    longs: Vec<i64>,
    ints: Vec<i32>,
    floats: Vec<f32>,
}

type Array<T> = NativeArray<T, 1>;

fn array<T>(values: &mut [T]) -> Array<T> {
    NativeArray { data: values.as_mut_ptr(), shape: [values.len() as i64], strides: [size_of::<T>() as i64] }
}

impl OrderPath {
    fn of(unit: &Arc<SourceUnit>) -> OrderPath {
        let session = Session::new().expect("the session is set up");
        let native = |name: &str| {
            let kernel: Kernel = session.compile_file_kernel(unit, name).expect("the promises hold");
            let function = Arc::new(kernel).native_function().expect("LLVM compiles it");
            function.prepare();
            function
        };
        OrderPath {
            risk: native("check_risk"),
            signal: native("evaluate_signal"),
            order: native("submit_order"),
            position: native("update_position"),
            longs: vec![1_000_000; 1024],
            ints: vec![0; 256],
            floats: vec![0.25; 256],
        }
    }

    /// Calls each function many times.
    fn runner(&mut self) -> impl FnMut() + '_ {
        type Risk = unsafe extern "C" fn(i32, i32, i32, i32, *const Array<i64>, *const Array<i32>) -> i32;
        type Signal =
            unsafe extern "C" fn(*const Array<f32>, *const Array<f32>, *const Array<f32>, *const Array<f32>) -> i32;
        type Order = unsafe extern "C" fn(
            i32,
            i32,
            i32,
            *const Array<i32>,
            *const Array<i32>,
            *const NativeArray<i64, 2>,
            *const Array<i64>,
        ) -> i32;
        type Position = unsafe extern "C" fn(
            i32,
            i32,
            i32,
            *const Array<i32>,
            *const Array<i64>,
            *const Array<i64>,
            *const Array<i64>,
        ) -> i32;
        let risk: Risk = self.risk.typed().expect("the types are those of the source");
        let signal: Signal = self.signal.typed().expect("the types are those of the source");
        let order: Order = self.order.typed().expect("the types are those of the source");
        let position: Position = self.position.typed().expect("the types are those of the source");
        let (messages, longs) = self.longs.split_at_mut(512);
        let ring = NativeArray { data: messages.as_mut_ptr(), shape: [64, 8], strides: [64, 8] };
        let mut longs = longs.chunks_mut(32).map(array);
        let mut next_longs = move || longs.next().expect("there are sixteen");
        let [limits, state, costs, realised, exposure] = std::array::from_fn(|_| next_longs());
        let mut ints = self.ints.chunks_mut(32).map(array);
        let mut next_ints = move || ints.next().expect("there are eight");
        let [verdict, prices, sizes, positions] = std::array::from_fn(|_| next_ints());
        let mut floats = self.floats.chunks_mut(64).map(array);
        let mut next_floats = move || floats.next().expect("there are four");
        let [features, weights, means, found] = std::array::from_fn(|_| next_floats());
        move || {
            for n in 0..1000 {
                let side = 1 - 2 * (n % 2);
                // SAFETY: the arrays outlive the calls, and every index is within them.
                let statuses = unsafe {
                    [
                        risk(1000 + n, 10, side, 5, &raw const limits, &raw const verdict),
                        signal(&raw const features, &raw const weights, &raw const means, &raw const found),
                        order(
                            1000 + n % 7,
                            10,
                            1,
                            &raw const prices,
                            &raw const sizes,
                            &raw const ring,
                            &raw const state,
                        ),
                        position(
                            n % 32,
                            1000,
                            side * 10,
                            &raw const positions,
                            &raw const costs,
                            &raw const realised,
                            &raw const exposure,
                        ),
                    ]
                };
                if statuses != [0; 4] {
                    std::process::abort();
                }
            }
        }
    }
}

fn units() -> [Arc<SourceUnit>; 2] {
    let read = |name: &str| {
        let path = examples().join(name);
        (path.to_string_lossy().into_owned(), std::fs::read_to_string(&path).expect("the example is there"))
    };
    let (python, loom) = (read("orders.py"), read("orders.loom"));
    let python = SourceUnit::parse(SourceFile::new(&*python.0, python.1, 1)).expect("it is Python");
    [python, read_loom(&loom.0, &loom.1).expect("it is `.loom`")]
}

#[test]
fn functions_that_promise_not_to_allocate_run_with_an_allocator_that_aborts() {
    if !has_llvm() {
        println!("skipped: native functions need the feature `llvm`");
        return;
    }
    for unit in units() {
        let mut path = OrderPath::of(&unit);
        let mut run = path.runner();
        run();
        let ended = signal_of_child(|| {
            FORBIDDEN.set(true);
            run();
        });
        assert_eq!(ended, 0);
    }
    let ended = signal_of_child(|| {
        FORBIDDEN.set(true);
        std::hint::black_box(vec![1u8; 100]);
    });
    assert_eq!(ended, SIGABRT, "the allocator aborts whoever allocates");
}

#[test]
fn functions_that_promise_not_to_call_the_system_run_where_that_kills() {
    if !has_llvm() {
        println!("skipped: native functions need the feature `llvm`");
        return;
    }
    // SAFETY: the filter holds for the child alone, which ends by a call that it allows.
    let filter = || unsafe { assert_eq!(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), 0) };
    for unit in units() {
        let mut path = OrderPath::of(&unit);
        let mut run = path.runner();
        run();
        let ended = signal_of_child(|| {
            filter();
            run();
        });
        assert_eq!(ended, 0);
    }
    let ended = signal_of_child(|| {
        filter();
        // SAFETY: the call has no arguments.
        unsafe { syscall(SYS_GETPPID) };
    });
    assert_eq!(ended, SIGKILL, "the filter kills whoever calls the system");
    let ended = signal_of_child(|| {
        filter();
        // SAFETY: any size may be asked for. So much comes from the system itself.
        std::hint::black_box(unsafe { malloc(1 << 30) });
    });
    assert_eq!(ended, SIGKILL, "memory comes from the system in the end");
}
