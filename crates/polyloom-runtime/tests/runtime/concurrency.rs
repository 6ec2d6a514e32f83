//! Launches from many threads and from forked processes.

use crate::fake::{FakeBackend, kernel, loop_source, run_saxpy, saxpy, saxpy_source};
use polyloom_codegen::LaunchContext;
use polyloom_runtime::{ArgBlock, CpuDevice, CpuKernel, LaunchError, LaunchOptions, launch, set_num_threads};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn threads_may_launch_one_kernel_at_once() {
    let (backend, kernel) = kernel(saxpy, saxpy_source("saxpy"));
    std::thread::scope(|scope| {
        for size in [10, 1_000, 100_000, 300_000] {
            let kernel = &kernel;
            scope.spawn(move || (0..20).for_each(|_| run_saxpy(kernel, size)));
        }
    });
    let (n_compiled, n_variants) = (backend.n_compiled.load(Ordering::SeqCst), kernel.variants().len());
    assert!((1..=1 + n_variants).contains(&n_compiled), "once for all, and once for each variant that is hot");
}

#[test]
fn more_threads_than_cores_do_the_same_work() {
    let (_, kernel) = kernel(saxpy, saxpy_source("saxpy"));
    for n_threads in [1, 2, 3, 16, 0] {
        set_num_threads(n_threads);
        run_saxpy(&kernel, 500_000);
    }
}

static N_RUN: AtomicU64 = AtomicU64::new(0);

/// Traps in every thread that is a multiple of a million, and counts the threads.
unsafe extern "C" fn trapping_often(_: *const u8, context: *const LaunchContext, begin: u64, end: u64) {
    N_RUN.fetch_add(end - begin, Ordering::Relaxed);
    let thread = begin.next_multiple_of(1_000_000);
    if thread < end {
        // SAFETY: the context is the runtime's.
        unsafe { ((*context).trap)(context, 0, thread as i64, 0, thread) }
    }
}

#[test]
fn a_trap_stops_the_launch() {
    let (_, kernel) = kernel(trapping_often, saxpy_source("saxpy"));
    let Err(LaunchError::Trap(trap)) = launch_without_arrays(&kernel, 2_000_000_000, &LaunchOptions::default()) else {
        panic!("no trap")
    };
    assert_eq!(trap.thread, [trap.index as u64]);
    assert_eq!(trap.index % 1_000_000, 0);
    assert!(N_RUN.load(Ordering::Relaxed) < 2_000_000_000);
}

/// A thousand threads take a millisecond.
unsafe extern "C" fn slow(_: *const u8, _: *const LaunchContext, begin: u64, end: u64) {
    std::thread::sleep(std::time::Duration::from_micros(end - begin));
}

#[test]
fn a_long_launch_is_cancelled_from_another_thread_and_by_its_own() {
    let (_, kernel) = kernel(slow, saxpy_source("saxpy"));
    // Would take half an hour on one thread.
    let n = 2_000_000_000;
    let cancel = AtomicBool::new(false);
    let options = LaunchOptions { cancel: Some(&cancel), ..LaunchOptions::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            cancel.store(true, Ordering::Relaxed);
        });
        assert_eq!(launch_without_arrays(&kernel, n, &options), Err(LaunchError::Cancelled));
    });
    let n_asked = AtomicU64::new(0);
    let third_time = || n_asked.fetch_add(1, Ordering::Relaxed) == 2;
    let options = LaunchOptions { interrupted: Some(&third_time), ..LaunchOptions::default() };
    assert_eq!(launch_without_arrays(&kernel, n, &options), Err(LaunchError::Cancelled));
    assert_eq!(n_asked.into_inner(), 3);
}

static LONG_THREADS: [AtomicU64; 50] = [const { AtomicU64::new(0) }; 50];
static N_EMPTY: AtomicU64 = AtomicU64::new(0);

/// Every thread takes a fifth of a millisecond.
unsafe extern "C" fn long_threads(_: *const u8, _: *const LaunchContext, begin: u64, end: u64) {
    N_EMPTY.fetch_add(u64::from(begin >= end), Ordering::Relaxed);
    for thread in begin..end {
        std::thread::sleep(std::time::Duration::from_micros(200));
        LONG_THREADS[thread as usize].fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn few_long_threads_run_once_each_and_no_chunk_is_empty() {
    for source in [saxpy_source("saxpy"), loop_source("loop")] {
        let (_, kernel) = kernel(long_threads, source);
        for n in 1..=LONG_THREADS.len() {
            assert_eq!(launch_without_arrays(&kernel, n as u64, &LaunchOptions::default()), Ok(()));
            let counts: Vec<u64> = LONG_THREADS.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
            assert!(
                counts[..n].iter().all(|&count| count == 1) && counts[n..].iter().all(|&count| count == 0),
                "{counts:?}"
            );
            let pace = kernel.variants()[0].ns_per_thread;
            assert!(pace.is_finite(), "{n} threads at {pace} ns each");
        }
    }
    assert_eq!(N_EMPTY.load(Ordering::Relaxed), 0);
}

static IS_LONG: AtomicBool = AtomicBool::new(false);
static CANCEL_LONG: AtomicBool = AtomicBool::new(false);
static N_RUN_OF_LONG: AtomicU64 = AtomicU64::new(0);

/// Takes no time at first; once it is long, a thread takes a millisecond and cancels the launch.
unsafe extern "C" fn sometimes_long(_: *const u8, _: *const LaunchContext, begin: u64, end: u64) {
    if IS_LONG.load(Ordering::SeqCst) {
        N_RUN_OF_LONG.fetch_add(end - begin, Ordering::SeqCst);
        CANCEL_LONG.store(true, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(end - begin));
    }
}

#[test]
fn a_small_launch_that_takes_longer_than_the_last_one_can_be_stopped() {
    let (_, kernel) = kernel(sometimes_long, loop_source("loop"));
    let options = LaunchOptions { cancel: Some(&CANCEL_LONG), ..LaunchOptions::default() };
    for _ in 0..3 {
        assert_eq!(launch_without_arrays(&kernel, 16, &options), Ok(()));
    }
    IS_LONG.store(true, Ordering::SeqCst);
    assert_eq!(launch_without_arrays(&kernel, 16, &options), Err(LaunchError::Cancelled));
    assert!(N_RUN_OF_LONG.load(Ordering::SeqCst) < 16);
}

/// Launches code that does not look at its arguments.
fn launch_without_arrays(kernel: &CpuKernel, n: u64, options: &LaunchOptions<'_>) -> Result<(), LaunchError> {
    let mut args = ArgBlock::new();
    args.slice::<f32>(kernel.params(), &mut [], &[0]).unwrap();
    args.slice::<f32>(kernel.params(), &mut [], &[0]).unwrap();
    args.scalar(kernel.params(), polyloom_ir::Scalar::F32, 0).unwrap();
    // SAFETY: nothing is accessed.
    unsafe { launch(kernel, &[n], &args, options) }.map(drop)
}

#[cfg(unix)]
#[test]
fn a_forked_child_launches_with_workers_of_its_own() {
    let (_, warm) = kernel(saxpy, saxpy_source("saxpy"));
    run_saxpy(&warm, 1_000_000);
    let (_, cold) = kernel(saxpy, saxpy_source("cold"));
    // SAFETY: the child only launches and leaves without running any destructor of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: has no preconditions; ends a child that hangs.
        unsafe { libc::alarm(60) };
        let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run_saxpy(&warm, 1_000_000);
            run_saxpy(&cold, 1_000_000);
        }));
        // SAFETY: ends the child.
        unsafe { libc::_exit(if fine.is_ok() { 0 } else { 1 }) }
    }
    assert!(child > 0);
    run_saxpy(&warm, 1_000_000);
    let mut status = 0;
    // SAFETY: waits for the child just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[cfg(unix)]
static FORK_BEGINS: AtomicBool = AtomicBool::new(false);
#[cfg(unix)]
static IS_OPTIMISED: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
#[test]
fn a_fork_waits_for_the_compiler() {
    let (quick, optimizer) =
        (FakeBackend::new("quick", saxpy), FakeBackend::gated("optimizer", saxpy, &FORK_BEGINS, &IS_OPTIMISED));
    let kernel = CpuKernel::new(Arc::new(CpuDevice::new(quick, Some(optimizer.clone()))), saxpy_source("saxpy"));
    while optimizer.n_compiled.load(Ordering::SeqCst) == 0 {
        run_saxpy(&kernel, 100_000);
    }
    std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        FORK_BEGINS.store(true, Ordering::SeqCst);
    });
    // SAFETY: the child only loads and leaves without running any destructor.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(if IS_OPTIMISED.load(Ordering::SeqCst) { 0 } else { 1 }) }
    }
    let mut status = 0;
    // SAFETY: waits for the child just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}
