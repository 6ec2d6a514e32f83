//! Launches of real machine code, against the interpreter.

use crate::fake::{run_saxpy, saxpy_source, source};
use polyloom_codegen::CraneliftBackend;
use polyloom_ir::{Builder, Function, FunctionKind, Op, Scalar, Type};
use polyloom_runtime::{
    ArgBlock, CodeCache, CpuDevice, CpuKernel, InterpretableHir, KernelSource, LaunchError, LaunchOptions,
};
use polyloom_runtime::{Tier, TierPolicy, launch};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn device(policy: TierPolicy) -> Arc<CpuDevice> {
    let backend = Arc::new(CraneliftBackend::new().unwrap());
    Arc::new(CpuDevice::new(backend, None).with_policy(policy).unwrap())
}

#[test]
fn saxpy_of_every_size() {
    let kernel = CpuKernel::new(device(TierPolicy::Automatic), saxpy_source("saxpy"));
    for n in [1, 7, 64, 1000, 100_003, 2_000_000] {
        run_saxpy(&kernel, n);
    }
}

#[test]
fn what_the_interpreter_runs_is_made_when_it_first_does() {
    for (policy, wanted) in [(TierPolicy::Automatic, 0), (TierPolicy::Always(Tier::Interpreter), 1)] {
        let source = saxpy_source("saxpy");
        let (n_made, known) = (Arc::new(AtomicUsize::new(0)), source.interpretable.clone());
        let counter = n_made.clone();
        let interpretable = InterpretableHir::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            let (module, kernel) = known.get();
            (module.clone(), kernel)
        });
        let kernel = CpuKernel::new(device(policy), KernelSource { interpretable, ..source });
        run_saxpy(&kernel, 7);
        run_saxpy(&kernel, 64);
        assert_eq!(n_made.load(Ordering::Relaxed), wanted, "{policy:?}");
    }
}

#[test]
fn an_index_out_of_bounds_is_reported_alike_by_code_and_interpreter() {
    for policy in [TierPolicy::Automatic, TierPolicy::Always(Tier::Interpreter)] {
        let kernel = CpuKernel::new(device(policy), saxpy_source("saxpy"));
        let (mut x, mut y) = (vec![1f32; 50_000], vec![1f32; 50_001]);
        let mut args = ArgBlock::new();
        args.slice(kernel.params(), &mut x, &[50_000]).unwrap();
        args.slice(kernel.params(), &mut y, &[50_001]).unwrap();
        args.scalar(kernel.params(), Scalar::F32, 1f32.to_bits().into()).unwrap();
        // SAFETY: the check keeps the last thread out of `x`.
        let result = unsafe { launch(&kernel, &[50_001], &args, &LaunchOptions::default()) };
        let Err(LaunchError::Trap(trap)) = result else { panic!("{policy:?}: {result:?}") };
        assert_eq!((trap.index, trap.extent, trap.thread), (50_000, 50_000, vec![50_000]), "{policy:?}");
        assert_eq!(y[50_000], 1.0);
    }
}

/// `atomic_add(count, 0, tid(axis))`
fn count_source(axis: u8) -> KernelSource {
    let array = Type::array(Scalar::I64, 1);
    let mut kernel = Function::new("count", FunctionKind::Kernel, [("count", array)], &[]);
    let count = kernel.params()[0];
    let mut build = Builder::new(&mut kernel);
    let i = build.tid(axis);
    let i = build.cast(i, Scalar::I64);
    let zero = build.const_int(Scalar::I32, 0);
    build.op(Op::AtomicAdd, &[count, zero, i]);
    build.return_(&[]);
    source(kernel)
}

#[test]
fn coordinates_are_right_in_grids_of_every_rank() {
    for policy in [TierPolicy::Automatic, TierPolicy::Always(Tier::Interpreter)] {
        for axis in 0..4 {
            let kernel = CpuKernel::new(device(policy), count_source(axis));
            for shape in [&[1000u64][..], &[10, 100], &[100, 3], &[7, 11, 13], &[3, 5, 7, 9], &[300, 1000]] {
                let mut count = [0i64];
                let mut args = ArgBlock::new();
                args.slice(kernel.params(), &mut count, &[1]).unwrap();
                // SAFETY: the kernel writes element 0 alone.
                unsafe { launch(&kernel, shape, &args, &LaunchOptions::default()) }.unwrap();
                // Each coordinate 0 … n-1 along the axis occurs total / n times.
                let n = shape.get(usize::from(axis)).copied().unwrap_or(1);
                let total: u64 = shape.iter().product();
                assert_eq!(count[0] as u64, total / n * (n * (n - 1) / 2), "{policy:?} {shape:?} axis {axis}");
            }
        }
    }
}

#[test]
fn code_from_the_disk_runs() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let backend = Arc::new(CraneliftBackend::new().unwrap());
        let cache = CodeCache::in_directory(directory.path(), 1 << 20);
        let device = Arc::new(CpuDevice::new(backend, None).with_cache(cache));
        run_saxpy(&CpuKernel::new(device.clone(), saxpy_source("saxpy")), 1000);
        device.wait_for_background();
    }
}
