//! Times four kernels as this back end compiles them, beside what the machine could do at best.
//!
//!     cargo run --release -p polyloom-llvm --example time_kernels [LANES] [asm|ir]
//!
//! The best is bytes moved over the speed of a copy of the same size, or arithmetic over the vector units' throughput.

use polyloom_codegen::conformance::kernels::{self, TimedKernel};
use polyloom_codegen::conformance::launch::{self, SubjectLaunch};
use polyloom_codegen::{Backend, CodeVariant, EmitRequest, Emitter as _, Form};
use polyloom_ir::Scalar;
use polyloom_llvm::LlvmBackend;
use polyloom_passes::pipeline;
use std::time::Instant;

/// Compiles a kernel and says how long that took.
fn prepare(backend: &LlvmBackend, timed: &TimedKernel, lanes: Option<u32>, form: Option<Form>) -> SubjectLaunch {
    let module = launch::module(timed.text);
    let (module, kernel) = pipeline::prepared(
        &module,
        launch::kernel_of(&module),
        &pipeline::PipelineOptions { checked: false, ..Default::default() },
    )
    .unwrap_or_else(|e| panic!("{e:?}"));
    let function = &module.functions[kernel];
    let variant = CodeVariant::new(timed.shape.len() as u8, launch::facts(function, &timed.args)).with_lanes(lanes);
    if let Some(form) = form {
        let text = backend.emit(&EmitRequest::new(&module, kernel, &variant), form).unwrap_or_else(|e| panic!("{e}"));
        println!("{}", String::from_utf8_lossy(&text));
    }
    let object = backend.compile(&module, kernel, &variant).unwrap_or_else(|e| panic!("{e}"));
    let code = backend.load(&object).unwrap_or_else(|e| panic!("{e}"));
    let compile = best(0.2, || drop(backend.compile(&module, kernel, &variant)));
    let load = best(0.05, || drop(backend.load(&object)));
    println!("  compiled in {:.2} ms, loaded in {:.2} ms", compile / 1e6, load / 1e6);
    SubjectLaunch::new(code, function, &timed.shape, &timed.args, &timed.memory)
}

/// The least of many runs, in nanoseconds.
fn best(seconds: f64, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let all = Instant::now();
    while all.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64() * 1e9);
    }
    best
}

fn main() {
    let mut args = std::env::args().skip(1);
    let backend = LlvmBackend::new().expect("LLVM knows this machine");
    let lanes = args.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
    let form = match args.next().as_deref() {
        Some("asm") => Some(Form::Asm),
        Some("ir") => Some(Form::LlvmIrOptimized),
        Some("raw") => Some(Form::LlvmIr),
        _ => None,
    };
    let only = args.next();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);

    let time = |timed: &TimedKernel| {
        let mut launch = prepare(&backend, timed, lanes, form);
        best(0.7, launch.whole())
    };

    if wanted("saxpy") {
        let n = 10_000_000usize;
        println!("saxpy, 1e7 elements");
        let time = time(&kernels::saxpy(n));
        let (b, mut c) = (vec![1f32; n], vec![2f32; n]);
        let floor = best(0.7, || {
            let (b, c) = (&b[..], &mut c[..]);
            c.iter_mut().zip(b).for_each(|(c, b)| *c += 2.0 * *b);
        });
        let bytes = 12.0 * n as f64;
        println!("  {time:.0} ns, {:.2} GB/s; rustc's loop: {:.2} GB/s", bytes / time, bytes / floor);
    }
    if wanted("nbody") {
        let n = 4096usize;
        println!("n-body, 4096 bodies");
        let time = time(&kernels::nbody(n));
        println!("  {time:.0} ns, {:.3} ns per pair", time / (n * n) as f64);
    }
    if wanted("stencil") {
        let n = 2048usize;
        println!("5-point stencil, 2048 x 2048");
        let time = time(&kernels::stencil(n));
        let (a, mut b) = (vec![1f32; n * n], vec![0f32; n * n]);
        let floor = best(0.7, || b.copy_from_slice(&a));
        let bytes = 8.0 * (n * n) as f64;
        println!("  {time:.0} ns, {:.2} GB/s; copy: {:.2} GB/s", bytes / time, bytes / floor);
    }
    if wanted("mandelbrot") {
        println!("Mandelbrot, 1024 x 1024, at most 256 iterations");
        let mut timed = kernels::mandelbrot(1024);
        let mut launch = prepare(&backend, &timed, lanes, form);
        let time = best(0.7, launch.whole());
        launch.finish(&mut timed.memory);
        let iterations: u64 = timed.memory.elements(Scalar::I32, timed.args[0]).iter().sum();
        println!("  {time:.0} ns, {:.3} ns per iteration ({iterations} iterations)", time / iterations as f64);
    }
}
