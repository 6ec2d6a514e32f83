//! Launches: results, refusals, traps, cancellation.

use crate::fake::{kernel, saxpy, saxpy_source, source, trapping};
use polyloom_codegen::abi::SiteKind;
use polyloom_ir::{Builder, CheckKind, Function, FunctionKind, Scalar, Type};
use polyloom_runtime::{ArgBlock, ArgError, CpuKernel, LaunchError, LaunchOptions, launch};
use std::sync::atomic::{AtomicBool, Ordering};

fn saxpy_args(kernel: &CpuKernel, x: &mut [f32], y: &mut [f32], alpha: f32) -> ArgBlock {
    let mut args = ArgBlock::new();
    let shape = [x.len() as u64];
    args.slice(kernel.params(), x, &shape).unwrap();
    args.slice(kernel.params(), y, &shape).unwrap();
    args.scalar(kernel.params(), Scalar::F32, alpha.to_bits().into()).unwrap();
    args
}

fn run(kernel: &CpuKernel, shape: &[u64], args: &ArgBlock) -> Result<(), LaunchError> {
    // SAFETY: the tests launch no more threads than their arrays have elements.
    unsafe { launch(kernel, shape, args, &LaunchOptions::default()) }.map(drop)
}

#[test]
fn every_thread_runs_once_whatever_the_size() {
    let (_, kernel) = kernel(saxpy, saxpy_source("saxpy"));
    for n in [0, 1, 2, 63, 64, 65, 1000, 100_003, 3_000_000] {
        let mut x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32).collect();
        let mut y = vec![1.0; n];
        for repeat in 1..4 {
            let args = saxpy_args(&kernel, &mut x, &mut y, 2.0);
            run(&kernel, &[n as u64], &args).unwrap();
            let wrong = (0..n).find(|&i| y[i] != 1.0 + (repeat * 2 * (i % 1000)) as f32);
            assert_eq!(wrong, None, "{n} threads, launch {repeat}");
        }
    }
}

#[test]
fn a_grid_that_threads_cannot_count_is_refused() {
    let (backend, kernel) = kernel(saxpy, saxpy_source("saxpy"));
    let args = saxpy_args(&kernel, &mut [], &mut [], 2.0);
    assert_eq!(run(&kernel, &[], &args), Err(LaunchError::Rank { rank: 0 }));
    assert_eq!(run(&kernel, &[1; 5], &args), Err(LaunchError::Rank { rank: 5 }));
    for shape in [&[1 << 31][..], &[1 << 16, 1 << 15], &[u64::MAX, u64::MAX]] {
        assert_eq!(run(&kernel, shape, &args), Err(LaunchError::TooManyThreads { shape: shape.to_vec() }));
    }
    assert_eq!(run(&kernel, &[u64::MAX, u64::MAX, 0], &args), Ok(()));
    assert_eq!(backend.n_compiled.load(Ordering::SeqCst), 0, "an empty launch compiles nothing");
}

#[test]
fn an_incomplete_block_is_refused() {
    let (_, kernel) = kernel(saxpy, saxpy_source("saxpy"));
    assert!(matches!(run(&kernel, &[1], &ArgBlock::new()), Err(LaunchError::Arguments(_))));
}

#[test]
fn a_block_of_another_kernel_is_refused_even_if_it_has_as_many_words() {
    let array = |ndim| Type::array(Scalar::F32, ndim);
    let source_of = |params: [(&str, Type); 2]| {
        let mut function = Function::new("copy", FunctionKind::Kernel, params, &[]);
        Builder::new(&mut function).return_(&[]);
        source(function)
    };
    let (_, given) = kernel(saxpy, source_of([("x", array(2)), ("n", Type::I32)]));
    let (_, launched) = kernel(saxpy, source_of([("x", array(1)), ("y", array(1))]));
    let mut args = ArgBlock::new();
    args.slice(given.params(), &mut [0f32; 4], &[2, 2]).unwrap();
    assert_eq!(args.slice(launched.params(), &mut [0f32; 4], &[4]), Err(ArgError::OtherKernel));
    args.scalar(given.params(), Scalar::I32, 0).unwrap();
    assert_eq!(run(&launched, &[1], &args), Err(LaunchError::Arguments(ArgError::OtherKernel)));
    args.clear();
    args.slice(launched.params(), &mut [0f32; 4], &[4]).unwrap();
}

#[test]
fn a_trap_names_kernel_site_values_and_thread() {
    let (_, kernel) = kernel(trapping, saxpy_source("saxpy"));
    let (mut x, mut y) = (vec![0.0; 100_000], vec![0.0; 100_000]);
    let args = saxpy_args(&kernel, &mut x, &mut y, 2.0);
    for shape in [&[200][..], &[100_000], &[10, 20]] {
        let Err(LaunchError::Trap(trap)) = run(&kernel, shape, &args) else { panic!("no trap in {shape:?}") };
        assert_eq!(&*trap.kernel, "saxpy");
        assert_eq!(trap.site.kind, SiteKind::Check(CheckKind::Bounds { array: "x".into(), axis: 0, unsigned: false }));
        assert_eq!((trap.index, trap.extent), (100, 7));
        assert_eq!(trap.thread, if shape.len() == 1 { vec![100] } else { vec![5, 0] });
    }
    let text = run(&kernel, &[200], &args).unwrap_err().to_string();
    let expect = "index 100 is out of bounds for axis 0 of `x` with extent 7 in kernel `saxpy`, thread [100]";
    assert_eq!(text, expect);
}

#[test]
fn a_cancelled_launch_stops() {
    let (_, kernel) = kernel(saxpy, saxpy_source("saxpy"));
    let (mut x, mut y) = (vec![0.0; 10_000_000], vec![0.0; 10_000_000]);
    let args = saxpy_args(&kernel, &mut x, &mut y, 2.0);
    let shape = [x.len() as u64];
    let cancel = AtomicBool::new(true);
    let by_flag = LaunchOptions { cancel: Some(&cancel), ..LaunchOptions::default() };
    // SAFETY: as many threads as elements.
    assert_eq!(unsafe { launch(&kernel, &shape, &args, &by_flag) }, Err(LaunchError::Cancelled));
    let by_question = LaunchOptions { interrupted: Some(&|| true), ..LaunchOptions::default() };
    // SAFETY: as above.
    assert_eq!(unsafe { launch(&kernel, &shape, &args, &by_question) }, Err(LaunchError::Cancelled));
}

#[test]
fn a_kernel_that_cannot_be_compiled_says_why() {
    let (_, kernel) = kernel(saxpy, saxpy_source("uncompilable"));
    let args = saxpy_args(&kernel, &mut [0.0], &mut [0.0], 2.0);
    let text = run(&kernel, &[1], &args).unwrap_err().to_string();
    assert_eq!(text, "kernel `uncompilable` could not be compiled: no such luck");
}
