//! Prints what a warm launch costs: `cargo run --release -p polyloom-runtime --example launch_latency`.
//!
//! The small launch has one thread, so that nearly all its time is the runtime's. The parallel launch has 100,000
//! trivial threads and shows what waking the pool costs, against the same launch on one thread.

use polyloom_codegen::CraneliftBackend;
use polyloom_ir::{FileId, Scalar, parse_module};
use polyloom_runtime::{
    ArgBlock, CpuDevice, CpuKernel, InterpretableHir, KernelParams, KernelSource, LaunchOptions, launch, num_threads,
    set_num_threads,
};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// `y[i] += a * x[i]`.
fn saxpy() -> Option<KernelSource> {
    let text = include_str!("../../../tests/kernels/saxpy.hir");
    let module = Arc::new(parse_module(text, FileId::from_u32(0)).ok()?);
    let id = module.find("saxpy")?;
    let params = KernelParams::of(&module.functions[id]);
    Some(KernelSource {
        interpretable: InterpretableHir::new({
            let module = module.clone();
            move || (module, id)
        }),
        prepared: module,
        prepared_kernel: id,
        hash: [1; 32],
        params,
        needs_blocks: false,
        blocks: None,
    })
}

/// Median nanoseconds of a launch over `n` threads.
fn median(
    kernel: &CpuKernel,
    args: &ArgBlock,
    n: u64,
    n_rounds: usize,
    per_round: usize,
) -> Result<f64, Box<dyn Error>> {
    let options = LaunchOptions::default();
    let mut rounds = Vec::new();
    for _ in 0..n_rounds {
        let start = Instant::now();
        for _ in 0..per_round {
            // SAFETY: the arrays behind the block are alive and have at least `n` elements.
            unsafe { launch(black_box(kernel), black_box(&[n]), black_box(args), &options)? };
        }
        rounds.push(start.elapsed().as_nanos() as f64 / per_round as f64);
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[n_rounds / 2])
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Arc::new(CpuDevice::from_env(Arc::new(CraneliftBackend::new()?), None)?);
    let kernel = CpuKernel::new(device, saxpy().ok_or("the kernel cannot be read")?);
    let (mut x, mut y) = (vec![1.0f32; 100_000], vec![0.0f32; 100_000]);
    let mut args = ArgBlock::new();
    args.scalar(kernel.params(), Scalar::F32, 2f32.to_bits().into())?;
    args.slice(kernel.params(), &mut x, &[100_000])?;
    args.slice(kernel.params(), &mut y, &[100_000])?;

    let cores = num_threads();
    println!("one thread:              {:8.1} ns a launch", median(&kernel, &args, 1, 101, 10_000)?);
    println!("100 threads:             {:8.1} ns a launch", median(&kernel, &args, 100, 101, 10_000)?);
    println!("100,000 on {cores:3} cores:    {:8.1} ns a launch", median(&kernel, &args, 100_000, 101, 100)?);
    set_num_threads(1);
    println!("100,000 on   1 core:     {:8.1} ns a launch", median(&kernel, &args, 100_000, 101, 100)?);
    Ok(())
}
