//! Candidates of hot kernels are measured by launches, and the faster one is kept.

use crate::fake::{FakeBackend, run_saxpy, saxpy, saxpy_source, source};
use polyloom_codegen::{KernelEntry, LaunchContext};
use polyloom_ir::FloatMode;
use polyloom_runtime::{CandidateInfo, CodeCache, CpuDevice, CpuKernel, KernelSource, Tier, TierPolicy, VariantInfo};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Fewer than are aligned or not by chance, which would make variants.
const N: usize = 100_000;

/// Saxpy that takes `NS` nanoseconds a thread.
unsafe extern "C" fn saxpy_in<const NS: u64>(args: *const u8, context: *const LaunchContext, begin: u64, end: u64) {
    let until = Instant::now() + Duration::from_nanos(NS * (end - begin));
    // SAFETY: passed on from the runtime.
    unsafe { saxpy(args, context, begin, end) };
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// A device whose optimiser cannot tell which of two codes is faster.
fn undecided(chosen: KernelEntry, rival: KernelEntry, cache: Option<&Path>) -> (Arc<FakeBackend>, Arc<CpuDevice>) {
    let optimizer = FakeBackend::undecided("optimizer", chosen, rival);
    let device = CpuDevice::new(FakeBackend::new("quick", saxpy_in::<80>), Some(optimizer.clone()));
    let device = match cache {
        Some(directory) => device.with_cache(CodeCache::in_directory(directory, 1 << 20)),
        None => device,
    };
    (optimizer, Arc::new(device))
}

/// Launches the kernel until its candidates have been measured, checking every element of every launch. How many launches
/// that takes depends on the machine: a kernel is hot by the time that its work has taken.
fn measure(kernel: &CpuKernel) -> [CandidateInfo; 2] {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(120) {
        run_saxpy(kernel, N);
        kernel.device().wait_for_background();
        if let Some(found) = decided(&kernel.variants()) {
            return found;
        }
    }
    panic!("nothing has been measured: {:?}", kernel.variants());
}

/// The candidates of a kernel's only variant, if they have been measured.
fn decided(variants: &[VariantInfo]) -> Option<[CandidateInfo; 2]> {
    let found = <[CandidateInfo; 2]>::try_from(variants[0].candidates.as_slice()).ok()?;
    let is_rejected = found[1].ns_per_thread > found[0].ns_per_thread.map(|ns| 1.5 * ns);
    let n_wanted = if is_rejected { 5 } else { 15 };
    found.iter().all(|candidate| candidate.n_samples >= n_wanted).then_some(found)
}

/// Saxpy in another mode than `strict`.
fn fast_source() -> KernelSource {
    let strict = saxpy_source("fast");
    let mut kernel = strict.prepared.functions[strict.prepared_kernel].clone();
    kernel.metadata.float_mode = FloatMode::Fast;
    source(kernel)
}

#[test]
fn the_faster_candidate_is_found_and_kept() {
    for (chosen, rival, faster) in
        [(saxpy_in::<80> as KernelEntry, saxpy as KernelEntry, 1), (saxpy, saxpy_in::<80>, 0)]
    {
        for source in [saxpy_source("saxpy"), fast_source()] {
            let (optimizer, device) = undecided(chosen, rival, None);
            let kernel = CpuKernel::new(device, source);
            let found = measure(&kernel);
            assert_eq!(found.map(|candidate| candidate.lanes), [8, 1]);
            assert!(found[faster].is_used && !found[1 - faster].is_used, "{found:?}");
            assert!(found[faster].ns_per_thread < found[1 - faster].ns_per_thread, "{found:?}");
            let n_compiled = optimizer.n_compiled.load(Ordering::SeqCst);
            assert_eq!(n_compiled, 2);
            run_saxpy(&kernel, N);
            kernel.device().wait_for_background();
            assert_eq!(optimizer.n_compiled.load(Ordering::SeqCst), n_compiled);
        }
    }
}

#[test]
fn lanes_are_named_where_the_estimate_was_wrong() {
    for (chosen, rival, lanes) in
        [(saxpy_in::<80> as KernelEntry, saxpy as KernelEntry, Some(1)), (saxpy, saxpy_in::<80>, None)]
    {
        let (_, device) = undecided(chosen, rival, None);
        let kernel = CpuKernel::new(device, saxpy_source("saxpy"));
        assert_eq!(kernel.measured_lanes(1, &kernel.dense_facts()), None);
        measure(&kernel);
        assert_eq!(kernel.measured_lanes(1, &kernel.dense_facts()), lanes);
        kernel.device().set_deterministic(true);
        assert_eq!(kernel.measured_lanes(1, &kernel.dense_facts()), None);
    }
}

#[cfg(unix)]
#[test]
fn a_child_forked_during_a_trial_measures_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let (optimizer, device) = undecided(saxpy_in::<80>, saxpy, Some(directory.path()));
    // Not in `strict`, where one launch may give all samples.
    let kernel = CpuKernel::new(device, fast_source());
    while kernel.variants().first().is_none_or(|variant| variant.candidates.is_empty()) {
        run_saxpy(&kernel, N);
        kernel.device().wait_for_background();
    }
    let n_samples = |kernel: &CpuKernel| -> usize {
        kernel.variants()[0].candidates.iter().map(|candidate| candidate.n_samples).sum()
    };
    let before = n_samples(&kernel);
    assert_eq!(decided(&kernel.variants()), None, "the trial is over before the fork");
    // SAFETY: the child only launches and leaves without running any destructor of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: has no preconditions; ends a child that hangs.
        unsafe { libc::alarm(120) };
        let is_fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_eq!(n_samples(&kernel), before, "the child has the samples from before it");
            assert!(measure(&kernel)[1].is_used);
        }));
        // SAFETY: ends the child.
        unsafe { libc::_exit(if is_fine.is_ok() { 0 } else { 1 }) }
    }
    assert!(child > 0);
    assert!(measure(&kernel)[1].is_used);
    let mut status = 0;
    // SAFETY: waits for the child just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(optimizer.n_compiled.load(Ordering::SeqCst), 2);
    // Both have written samples to the cache, and what is there is whole.
    let (_, other) = undecided(saxpy_in::<80>, saxpy, Some(directory.path()));
    let known = CpuKernel::new(other.clone(), fast_source());
    run_saxpy(&known, 10);
    other.wait_for_background();
    assert!(decided(&known.variants()).is_some_and(|found| found[1].is_used));
}

#[test]
fn a_kernel_that_is_not_hot_in_optimised_code_is_compiled_once() {
    let (optimizer, device) = undecided(saxpy, saxpy_in::<80>, None);
    let kernel = CpuKernel::new(device, saxpy_source("saxpy"));
    while kernel.variants().first().is_none_or(|variant| variant.tier != Tier::Optimized) {
        run_saxpy(&kernel, N);
        kernel.device().wait_for_background();
    }
    // A launch that is short even if the last chunk of those before was disturbed, which makes threads seem slow.
    run_saxpy(&kernel, 10);
    kernel.device().wait_for_background();
    assert_eq!(optimizer.n_compiled.load(Ordering::SeqCst), 1);
    assert_eq!(kernel.variants()[0].candidates, []);
}

#[test]
fn a_hopeless_rival_gets_few_chunks() {
    let (_, device) = undecided(saxpy, saxpy_in::<900>, None);
    let kernel = CpuKernel::new(device, saxpy_source("saxpy"));
    let found = measure(&kernel);
    assert!(found[0].is_used && found[1].n_samples < 15, "{found:?}");
}

#[test]
fn samples_in_the_cache_decide_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (_, device) = undecided(saxpy_in::<80>, saxpy, Some(directory.path()));
    let first = measure(&CpuKernel::new(device.clone(), saxpy_source("saxpy")));
    device.wait_for_background();
    for policy in [TierPolicy::Automatic, TierPolicy::Always(Tier::Optimized)] {
        let optimizer = FakeBackend::undecided("optimizer", saxpy_in::<80>, saxpy);
        let device = CpuDevice::new(FakeBackend::new("quick", saxpy_in::<80>), Some(optimizer.clone()));
        let cache = CodeCache::in_directory(directory.path(), 1 << 20);
        let kernel =
            CpuKernel::new(Arc::new(device.with_cache(cache).with_policy(policy).unwrap()), saxpy_source("saxpy"));
        run_saxpy(&kernel, 10);
        kernel.device().wait_for_background();
        assert_eq!(kernel.variants()[0].tier, Tier::Optimized);
        assert_eq!(decided(&kernel.variants()), Some(first), "{policy:?}");
        assert_eq!(optimizer.n_compiled.load(Ordering::SeqCst), 0, "{policy:?}");
        // The other candidate has not even been loaded.
        assert_eq!(optimizer.n_loaded.load(Ordering::SeqCst), 1, "{policy:?}");
    }
}

#[test]
fn a_deterministic_device_measures_nothing_and_does_not_read_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let (_, device) = undecided(saxpy_in::<80>, saxpy, Some(directory.path()));
    measure(&CpuKernel::new(device.clone(), saxpy_source("saxpy")));
    device.wait_for_background();
    for cache in [Some(directory.path()), None] {
        let (optimizer, device) = undecided(saxpy_in::<80>, saxpy, cache);
        device.set_deterministic(true);
        let kernel = CpuKernel::new(device, saxpy_source("saxpy"));
        // Ten times the work that makes a kernel have its candidates measured.
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(1) {
            run_saxpy(&kernel, N);
        }
        kernel.device().wait_for_background();
        assert_eq!(kernel.variants()[0].candidates, []);
        assert_eq!(optimizer.n_compiled.load(Ordering::SeqCst), usize::from(cache.is_none()));
    }
}

#[test]
fn launches_at_once_measure_together() {
    let (optimizer, device) = undecided(saxpy_in::<80>, saxpy, None);
    let kernel = CpuKernel::new(device, saxpy_source("saxpy"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(measure(&kernel)[1].lanes == 1));
        }
    });
    assert_eq!(optimizer.n_compiled.load(Ordering::SeqCst), 2);
}

static RIVAL_CHUNKS: AtomicUsize = AtomicUsize::new(0);

/// Saxpy that counts its calls.
unsafe extern "C" fn counted_saxpy(args: *const u8, context: *const LaunchContext, begin: u64, end: u64) {
    RIVAL_CHUNKS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: passed on from the runtime.
    unsafe { saxpy(args, context, begin, end) };
}

#[test]
fn a_device_that_becomes_deterministic_goes_back_to_the_choice_of_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let (_, device) = undecided(saxpy_in::<80>, counted_saxpy, Some(directory.path()));
    let measured = CpuKernel::new(device.clone(), saxpy_source("saxpy"));
    measure(&measured);
    device.wait_for_background();
    // Another device reads what this one has measured, and has no code of the model's choice yet.
    let (_, other) = undecided(saxpy_in::<80>, counted_saxpy, Some(directory.path()));
    let known = CpuKernel::new(other.clone(), saxpy_source("saxpy"));
    run_saxpy(&known, 10);
    other.wait_for_background();
    for (device, kernel) in [(device, measured), (other, known)] {
        for is_deterministic in [false, true, false] {
            device.set_deterministic(is_deterministic);
            let before = RIVAL_CHUNKS.load(Ordering::SeqCst);
            (0..10).for_each(|_| run_saxpy(&kernel, N));
            let ran = RIVAL_CHUNKS.load(Ordering::SeqCst) - before;
            assert_eq!(ran == 0, is_deterministic, "{ran} chunks");
            assert_eq!(kernel.variants()[0].candidates[1].is_used, !is_deterministic);
        }
    }
}
