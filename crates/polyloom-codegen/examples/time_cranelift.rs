//! How long the Cranelift back end takes to compile small kernels, and how fast they run: medians, on one thread.
//!
//!     cargo run --release -p polyloom-codegen --example time_cranelift

use polyloom_codegen::conformance::kernels;
use polyloom_codegen::conformance::launch::{self, SubjectLaunch};
use polyloom_codegen::{Backend, CodeVariant, CraneliftBackend};
use polyloom_passes::pipeline;
use std::time::{Duration, Instant};

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let backend = CraneliftBackend::new().expect("Cranelift knows this machine");
    println!("{:<12}{:>12}{:>12}{:>12}{:>14}", "kernel", "compile µs", "load µs", "bytes", "ns a thread");
    for timed in [
        kernels::saxpy(1 << 20),
        kernels::exp(1 << 16),
        kernels::stencil(1000),
        kernels::nbody(1024),
        kernels::mandelbrot(256),
    ] {
        let module = launch::module(timed.text);
        let options = pipeline::PipelineOptions::default();
        let (module, kernel) =
            pipeline::prepared(&module, launch::kernel_of(&module), &options).expect("it can be prepared");
        let function = &module.functions[kernel];
        let variant = CodeVariant::new(timed.shape.len() as u8, launch::facts(function, &timed.args));

        let (mut compile, mut load, mut loaded, mut size) = (Vec::new(), Vec::new(), None, 0);
        for _ in 0..200 {
            let start = Instant::now();
            let object = backend.compile(&module, kernel, &variant).expect("it compiles");
            compile.push(start.elapsed());
            let start = Instant::now();
            loaded = Some(backend.load(&object).expect("it loads"));
            load.push(start.elapsed());
            size = object.bytes.len();
        }
        let code = loaded.expect("loaded at least once");

        let mut launch = SubjectLaunch::new(code, function, &timed.shape, &timed.args, &timed.memory);
        let mut all_threads = launch.whole();
        let run = (0..15).map(|_| {
            let start = Instant::now();
            all_threads();
            start.elapsed()
        });
        let run = median(run.collect());
        let n = timed.shape.iter().product::<u64>();
        println!(
            "{:<12}{:>12.1}{:>12.1}{size:>12}{:>14.3}",
            timed.name,
            median(compile).as_secs_f64() * 1e6,
            median(load).as_secs_f64() * 1e6,
            run.as_secs_f64() * 1e9 / n as f64
        );
    }
}
