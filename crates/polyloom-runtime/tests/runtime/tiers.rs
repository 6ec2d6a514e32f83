//! Which tier runs, and how a hot kernel changes tiers.

use crate::fake::{FakeBackend, run_saxpy, saxpy, saxpy_source, wait_for};
use polyloom_codegen::LaunchContext;
use polyloom_ir::Scalar;
use polyloom_runtime::{ArgBlock, CodeCache, CpuDevice, CpuKernel, DeviceError, LaunchError, LaunchOptions};
use polyloom_runtime::{Tier, TierPolicy, launch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn device(quick: &Arc<FakeBackend>, optimizer: &Arc<FakeBackend>, policy: TierPolicy) -> Arc<CpuDevice> {
    Arc::new(CpuDevice::new(quick.clone(), Some(optimizer.clone())).with_policy(policy).unwrap())
}

#[test]
fn the_names_of_policies() {
    assert_eq!(TierPolicy::from_name(""), Some(TierPolicy::Automatic));
    assert_eq!(TierPolicy::from_name("interp"), Some(TierPolicy::Always(Tier::Interpreter)));
    assert_eq!(TierPolicy::from_name("0"), Some(TierPolicy::Always(Tier::Quick)));
    assert_eq!(TierPolicy::from_name("1"), Some(TierPolicy::Always(Tier::Optimized)));
    assert_eq!(TierPolicy::from_name("2"), None);
}

#[test]
fn a_policy_decides_who_compiles() {
    for (policy, n_quick, n_optimized) in [
        (TierPolicy::Automatic, 1, 0),
        (TierPolicy::Always(Tier::Interpreter), 0, 0),
        (TierPolicy::Always(Tier::Quick), 1, 0),
        (TierPolicy::Always(Tier::Optimized), 0, 1),
    ] {
        let (quick, optimizer) = (FakeBackend::new("quick", saxpy), FakeBackend::new("optimizer", saxpy));
        let kernel = CpuKernel::new(device(&quick, &optimizer, policy), saxpy_source("saxpy"));
        run_saxpy(&kernel, 10);
        let compiled = (quick.n_compiled.load(Ordering::SeqCst), optimizer.n_compiled.load(Ordering::SeqCst));
        assert_eq!(compiled, (n_quick, n_optimized), "{policy:?}");
    }
}

#[test]
fn optimised_code_cannot_be_asked_of_a_device_without_an_optimiser() {
    let device = CpuDevice::new(FakeBackend::new("quick", saxpy), None);
    let result = device.with_policy(TierPolicy::Always(Tier::Optimized));
    assert_eq!(result.err(), Some(DeviceError::NoOptimizer));
}

#[test]
fn what_the_quick_back_end_cannot_compile_the_optimiser_may() {
    let (quick, optimizer) = (FakeBackend::new("quick", saxpy), FakeBackend::capable("optimizer", saxpy));
    let kernel = CpuKernel::new(device(&quick, &optimizer, TierPolicy::Automatic), saxpy_source("uncompilable"));
    run_saxpy(&kernel, 10);
    assert_eq!(kernel.variants()[0].tier, Tier::Optimized);
}

static QUICK_RAN: AtomicBool = AtomicBool::new(false);
static OPTIMIZER_LOADED: AtomicBool = AtomicBool::new(false);

/// Writes 1 to the `y` of its threads. After the first chunk, which makes the kernel hot, waits for the optimiser.
unsafe extern "C" fn quick(args: *const u8, _: *const LaunchContext, begin: u64, end: u64) {
    // SAFETY: the launch below has as many threads as elements.
    unsafe { mark(args, begin, end, 1.0) };
    QUICK_RAN.store(true, Ordering::SeqCst);
    if begin > 0 {
        wait_for(&OPTIMIZER_LOADED);
    }
    std::thread::sleep(Duration::from_millis(3));
}

/// Writes 2 to the `y` of its threads.
unsafe extern "C" fn optimized(args: *const u8, _: *const LaunchContext, begin: u64, end: u64) {
    // SAFETY: as in `quick`.
    unsafe { mark(args, begin, end, 2.0) };
}

unsafe fn mark(args: *const u8, begin: u64, end: u64, value: f32) {
    // SAFETY: the block is that of saxpy, with at least `end` elements.
    unsafe {
        let args = &*args.cast::<crate::fake::SaxpyArgs>();
        (begin..end).for_each(|i| *args.y.add(i as usize) = value);
    }
}

#[test]
fn a_launch_under_way_picks_up_better_code() {
    let quick_backend = FakeBackend::new("quick", quick);
    let optimizer = FakeBackend::gated("optimizer", optimized, &QUICK_RAN, &OPTIMIZER_LOADED);
    let device = device(&quick_backend, &optimizer, TierPolicy::Automatic);
    let kernel = CpuKernel::new(device.clone(), saxpy_source("saxpy"));
    let (mut x, mut y) = (vec![0.0f32; 1_000_000], vec![0.0f32; 1_000_000]);
    let mut args = ArgBlock::new();
    args.slice(kernel.params(), &mut x, &[1_000_000]).unwrap();
    args.slice(kernel.params(), &mut y, &[1_000_000]).unwrap();
    args.scalar(kernel.params(), Scalar::F32, 0).unwrap();
    // SAFETY: as many threads as elements.
    unsafe { launch(&kernel, &[1_000_000], &args, &LaunchOptions::default()) }.unwrap();
    let count = |value: f32| y.iter().filter(|&&v| v == value).count();
    assert_eq!(count(0.0), 0, "every thread ran");
    assert!(count(1.0) > 0 && count(2.0) > 0, "{} quick, {} optimised", count(1.0), count(2.0));
    device.wait_for_background();
    assert_eq!(kernel.variants()[0].tier, Tier::Optimized);
}

#[test]
fn many_small_launches_make_a_kernel_hot() {
    let (quick, optimizer) = (FakeBackend::new("quick", saxpy), FakeBackend::new("optimizer", saxpy));
    let device = device(&quick, &optimizer, TierPolicy::Automatic);
    let kernel = CpuKernel::new(device.clone(), saxpy_source("saxpy"));
    while optimizer.n_compiled.load(Ordering::SeqCst) == 0 {
        run_saxpy(&kernel, 1000);
        device.wait_for_background();
    }
    run_saxpy(&kernel, 1000);
    assert_eq!(kernel.variants()[0].tier, Tier::Optimized);
}

#[test]
fn variants_share_quick_code_until_they_are_hot() {
    let backend = FakeBackend::new("quick", saxpy);
    let device = Arc::new(CpuDevice::new(backend.clone(), None));
    let kernel = CpuKernel::new(device.clone(), saxpy_source("saxpy"));
    kernel.compile(1).unwrap();
    run_saxpy(&kernel, 10);
    assert_eq!(kernel.variants().len(), 2, "one that assumes nothing and one for dense arrays");
    assert_eq!(backend.n_compiled.load(Ordering::SeqCst), 1);
    while backend.n_compiled.load(Ordering::SeqCst) < 2 {
        run_saxpy(&kernel, 10_000);
        device.wait_for_background();
    }
    run_saxpy(&kernel, 10_000);
    device.wait_for_background();
    assert_eq!(backend.n_compiled.load(Ordering::SeqCst), 2, "a hot variant is compiled for what it assumes, once");
}

#[test]
fn optimised_code_in_the_cache_is_used_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for n_compiled in [1, 0] {
        let (quick, optimizer) = (FakeBackend::new("quick", saxpy), FakeBackend::new("optimizer", saxpy));
        let cache = CodeCache::in_directory(directory.path(), 1 << 20);
        let device = Arc::new(CpuDevice::new(quick, Some(optimizer.clone())).with_cache(cache));
        let kernel = CpuKernel::new(device.clone(), saxpy_source("saxpy"));
        run_saxpy(&kernel, 16);
        while n_compiled > 0 && optimizer.n_compiled.load(Ordering::SeqCst) == 0 {
            run_saxpy(&kernel, 16);
        }
        device.wait_for_background();
        assert_eq!(kernel.variants()[0].tier, Tier::Optimized);
        assert_eq!(optimizer.n_compiled.load(Ordering::SeqCst), n_compiled);
    }
}

#[test]
fn a_kernel_the_optimiser_cannot_compile_stays_quick_and_says_why() {
    let (quick, optimizer) = (FakeBackend::capable("quick", saxpy), FakeBackend::new("optimizer", saxpy));
    let device = device(&quick, &optimizer, TierPolicy::Automatic);
    let kernel = CpuKernel::new(device.clone(), saxpy_source("uncompilable"));
    while optimizer.n_compiled.load(Ordering::SeqCst) == 0 {
        run_saxpy(&kernel, 100_000);
        device.wait_for_background();
    }
    let variant = kernel.variants().remove(0);
    assert_eq!(variant.tier, Tier::Quick);
    assert_eq!(variant.error.map(|error| error.message).as_deref(), Some("no such luck"));
}

#[test]
fn the_interpreter_computes_what_the_kernel_says_and_stays_within_its_arrays() {
    let backend = FakeBackend::new("quick", saxpy);
    let device = CpuDevice::new(backend, None).with_policy(TierPolicy::Always(Tier::Interpreter)).unwrap();
    let kernel = CpuKernel::new(Arc::new(device), saxpy_source("saxpy"));
    run_saxpy(&kernel, 1000);
    let (mut x, mut y) = ([1f32; 10], [1f32; 20]);
    let mut args = ArgBlock::new();
    args.slice(kernel.params(), &mut x, &[10]).unwrap();
    args.slice(kernel.params(), &mut y, &[20]).unwrap();
    args.scalar(kernel.params(), Scalar::F32, 0).unwrap();
    // SAFETY: the interpreter stops at the end of `x`.
    let result = unsafe { launch(&kernel, &[4, 5], &args, &LaunchOptions::default()) };
    let Err(LaunchError::Trap(trap)) = result else { panic!("{result:?}") };
    let expect = "index 10 is out of bounds for axis 0 of `x` with extent 10 in kernel `saxpy`, thread [2, 0]";
    assert_eq!(trap.to_string(), expect);
}
