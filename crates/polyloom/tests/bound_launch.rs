//! Launches whose arguments are bound once and replaced later.

use polyloom::{
    ArgBlock, BoundLaunch, CpuQueue, ExprBuilder, Kernel, LaunchError, LaunchOptions, Module, Scalar, Session,
    SourceMap, Type,
};
use std::sync::Arc;

const ARRAY: Type = Type::array(Scalar::F32, 1);

/// `y[i + n] = x[i] * 2`.
fn shifted() -> Arc<Kernel> {
    let kernel = ExprBuilder::kernel("shifted", [("n", Type::I32), ("x", ARRAY), ("y", ARRAY)], |b, [n, x, y]| {
        let i = b.tid(0);
        y.store(&[i + n], x.load(&[i]) * 2.0);
    });
    let mut module = Module::new();
    let id = module.functions.push(kernel.unwrap());
    Arc::new(Session::new().unwrap().compile_module(module, id, SourceMap::new()).unwrap())
}

fn bound(kernel: &Arc<Kernel>, n: u64, x: &mut [f32], y: &mut [f32]) -> BoundLaunch {
    let mut args = ArgBlock::new();
    args.scalar(kernel.params(), Scalar::I32, n).unwrap();
    for array in [x, y] {
        let extent = [array.len() as u64];
        args.slice(kernel.params(), array, &extent).unwrap();
    }
    BoundLaunch::new(kernel.clone(), Arc::new(CpuQueue), &[2], args, &LaunchOptions::default())
}

/// Runs a launch as callers do: the short way if there is one.
fn run(launch: &BoundLaunch) -> Result<(), LaunchError> {
    // SAFETY: all arrays of these tests outlive their launches, which compare indices with extents.
    match unsafe { launch.run_if_short() } {
        Some(done) => done,
        // SAFETY: as above.
        None => unsafe { launch.run(&LaunchOptions::default()).map(drop) },
    }
}

#[test]
fn replaced_arguments_are_those_of_the_next_run() {
    let kernel = shifted();
    let (mut x, mut other, mut y) = ([1.0, 2.0], [5.0f32, 0.0, 6.0], [0.0; 3]);
    let mut launch = bound(&kernel, 0, &mut x, &mut y);
    for _ in 0..3 {
        run(&launch).unwrap();
    }
    assert_eq!(y, [2.0, 4.0, 0.0]);
    // Every other element, so that the code for dense arrays must not run.
    launch.rebind_array(1, Scalar::F32, other.as_mut_ptr().cast(), &[2], &[8]).unwrap();
    run(&launch).unwrap();
    assert_eq!(y, [10.0, 12.0, 0.0]);
    launch.rebind_scalar(0, Scalar::I32, 1).unwrap();
    run(&launch).unwrap();
    assert_eq!(y, [10.0, 10.0, 12.0]);
    launch.set_shape(&[1], None);
    launch.rebind_scalar(0, Scalar::I32, 2).unwrap();
    run(&launch).unwrap();
    assert_eq!(y, [10.0, 10.0, 10.0]);
}

#[test]
fn indices_are_compared_with_the_extents_of_what_is_replaced() {
    let kernel = shifted();
    let (mut x, mut y) = ([1.0, 2.0], [0.0; 3]);
    let mut launch = bound(&kernel, 0, &mut x, &mut y);
    for _ in 0..3 {
        run(&launch).unwrap();
    }
    launch.rebind_scalar(0, Scalar::I32, 2).unwrap();
    assert!(matches!(run(&launch), Err(LaunchError::Outside { .. })));
    launch.rebind_scalar(0, Scalar::I32, 0).unwrap();
    launch.rebind_array(2, Scalar::F32, y.as_mut_ptr().cast(), &[1], &[4]).unwrap();
    assert!(matches!(run(&launch), Err(LaunchError::Outside { .. })));
    assert_eq!(y, [2.0, 4.0, 0.0]);
}

#[test]
fn what_does_not_fit_leaves_the_launch_as_it_was() {
    let kernel = shifted();
    let (mut x, mut y) = ([1.0, 2.0], [0.0; 3]);
    let mut launch = bound(&kernel, 1, &mut x, &mut y);
    assert!(launch.rebind_scalar(0, Scalar::F32, 0).is_err());
    assert!(launch.rebind_scalar(1, Scalar::I32, 0).is_err());
    let array = y.as_mut_ptr().cast();
    assert!(launch.rebind_array(1, Scalar::F64, array, &[2], &[8]).is_err());
    assert!(launch.rebind_array(1, Scalar::F32, array, &[2, 1], &[4, 4]).is_err());
    assert!(launch.rebind_array(0, Scalar::F32, array, &[2], &[4]).is_err());
    assert!(launch.rebind_array(9, Scalar::F32, array, &[2], &[4]).is_err());
    run(&launch).unwrap();
    assert_eq!(y, [0.0, 2.0, 4.0]);
}
