//! How long the Cranelift back end takes to compile small kernels, and how fast they run: medians, on one thread.
//!
//!     cargo run --release -p polyloom-codegen --example time_cranelift

use polyloom_codegen::{ArgLayout, ArrayFacts, Backend, CraneliftBackend, Facts, LaunchContext, Variant};
use polyloom_ir::{FileId, FuncId, MAX_DIMS, Type, parse_module};
use polyloom_passes::pipeline;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Name, rank and extents of the launch, extent of every array axis, text.
const KERNELS: &[(&str, &[u64], &str)] = &[
    (
        "saxpy",
        &[1 << 20],
        "kernel @saxpy(%s s: f32, %x x: array<f32, 1>, %y y: array<f32, 1>) {
            %i: i32 = tid 0
            %a: f32 = array_load %x, %i
            %b: f32 = array_load %y, %i
            %c: f32 = mul %s, %a
            %d: f32 = add %c, %b
            array_store %y, %i, %d
            return }",
    ),
    (
        "sine",
        &[1 << 16],
        "kernel @sine(%s s: f32, %x x: array<f32, 1>, %y y: array<f32, 1>) {
            %i: i32 = tid 0
            %a: f32 = array_load %x, %i
            %c: f32 = mul %s, %a
            %d: f32 = exp %c
            array_store %y, %i, %d
            return }",
    ),
    (
        "stencil",
        &[1000, 1000],
        "kernel @stencil(%s s: f32, %x x: array<f32, 2>, %y y: array<f32, 2>) {
            %i: i32 = tid 0
            %j: i32 = tid 1
            %one: i32 = const 1
            %h: i32 = dim 0 %x
            %w: i32 = dim 1 %x
            %h1: i32 = sub %h, %one
            %w1: i32 = sub %w, %one
            %a1: bool = ge %i, %one
            %a2: bool = lt %i, %h1
            %a3: bool = ge %j, %one
            %a4: bool = lt %j, %w1
            %b1: bool = bit_and %a1, %a2
            %b2: bool = bit_and %a3, %a4
            %in: bool = bit_and %b1, %b2
            if %in {
              %up: i32 = sub %i, %one
              %dn: i32 = add %i, %one
              %lt: i32 = sub %j, %one
              %rt: i32 = add %j, %one
              %v0: f32 = array_load %x, %i, %j
              %v1: f32 = array_load %x, %up, %j
              %v2: f32 = array_load %x, %dn, %j
              %v3: f32 = array_load %x, %i, %lt
              %v4: f32 = array_load %x, %i, %rt
              %t1: f32 = add %v1, %v2
              %t2: f32 = add %v3, %v4
              %t3: f32 = add %t1, %t2
              %four: f32 = const 4
              %t4: f32 = mul %v0, %four
              %t5: f32 = sub %t3, %t4
              %t6: f32 = mul %t5, %s
              %t7: f32 = add %v0, %t6
              array_store %y, %i, %j, %t7
              yield
            } else { yield }
            return }",
    ),
    (
        "nbody",
        &[1024],
        "kernel @nbody(%s s: f32, %x x: array<f32, 1>, %z z: array<f32, 1>, %y y: array<f32, 1>) {
            %i: i32 = tid 0
            %zero: i32 = const 0
            %one: i32 = const 1
            %n: i32 = dim 0 %x
            %xi: f32 = array_load %x, %i
            %zi: f32 = array_load %z, %i
            %f0: f32 = const 0
            %ax: f32, %az: f32 = for_range %zero, %n, %one, %f0, %f0 (%k: i32, %px: f32, %pz: f32) {
              %xk: f32 = array_load %x, %k
              %zk: f32 = array_load %z, %k
              %dx: f32 = sub %xk, %xi
              %dz: f32 = sub %zk, %zi
              %dx2: f32 = mul %dx, %dx
              %dz2: f32 = mul %dz, %dz
              %r2: f32 = add %dx2, %dz2
              %r2e: f32 = add %r2, %s
              %r: f32 = sqrt %r2e
              %r3: f32 = mul %r, %r2e
              %unit: f32 = const 1
              %inv: f32 = div %unit, %r3
              %fx: f32 = mul %dx, %inv
              %fz: f32 = mul %dz, %inv
              %nx: f32 = add %px, %fx
              %nz: f32 = add %pz, %fz
              yield %nx, %nz
            }
            %sum: f32 = add %ax, %az
            array_store %y, %i, %sum
            return }",
    ),
    (
        "mandelbrot",
        &[256, 256],
        "kernel @mandelbrot(%s s: f32, %x x: array<f32, 2>) {
            %i: i32 = tid 0
            %j: i32 = tid 1
            %fi: f32 = cast %i
            %fj: f32 = cast %j
            %scale: f32 = const 0.01
            %m2: f32 = const -2
            %m1: f32 = const -1
            %c1: f32 = mul %fi, %scale
            %c2: f32 = mul %fj, %scale
            %cr: f32 = add %c1, %m2
            %ci: f32 = add %c2, %m1
            %zero: i32 = const 0
            %one: i32 = const 1
            %max: i32 = const 256
            %f0: f32 = const 0
            %four: f32 = const 4
            %zr: f32, %zi: f32, %n: i32 = while %f0, %f0, %zero (%a: f32, %b: f32, %k: i32) {
              %a2: f32 = mul %a, %a
              %b2: f32 = mul %b, %b
              %r: f32 = add %a2, %b2
              %in: bool = lt %r, %four
              %more: bool = lt %k, %max
              %go: bool = bit_and %in, %more
              yield %go
            } do (%d: f32, %e: f32, %l: i32) {
              %d2: f32 = mul %d, %d
              %e2: f32 = mul %e, %e
              %q: f32 = sub %d2, %e2
              %re: f32 = add %q, %cr
              %de: f32 = mul %d, %e
              %de2: f32 = add %de, %de
              %im: f32 = add %de2, %ci
              %l1: i32 = add %l, %one
              yield %re, %im, %l1
            }
            %fn: f32 = cast %n
            array_store %x, %i, %j, %fn
            return }",
    ),
];

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[if std::env::var("MIN").is_ok() { 0 } else { times.len() / 2 }]
}

fn main() {
    let backend = CraneliftBackend::new().expect("Cranelift knows this machine");
    println!("{:<12}{:>12}{:>12}{:>12}{:>14}", "kernel", "compile µs", "load µs", "bytes", "ns a thread");
    for (name, shape, text) in KERNELS {
        let module = parse_module(text, FileId::from_u32(0)).expect("the kernel is HIR");
        let options = pipeline::Options::default();
        let (module, kernel) = pipeline::prepared(&module, FuncId::from_u32(0), &options).expect("it can be prepared");
        let function = &module.functions[kernel];
        let fact = ArrayFacts { contiguous: true, disjoint: true, ..ArrayFacts::default() };
        let facts = Facts { arrays: vec![fact; function.params().len()] };
        let variant = Variant { launch_rank: shape.len() as u8, facts };

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

        let n = shape.iter().product::<u64>();
        let layout = ArgLayout::of(function);
        let mut block = vec![0u64; layout.size as usize / 8];
        let mut arrays = Vec::new();
        for (&param, &offset) in function.params().iter().zip(&layout.offsets) {
            let at = offset as usize / 8;
            match function.ty(param) {
                Type::Scalar(_) => block[at] = 0.25f32.to_bits().into(),
                Type::Array { ndim, .. } => {
                    let mut data: Vec<f32> = (0..n).map(|x| (x % 1000) as f32 * 0.01).collect();
                    block[at] = data.as_mut_ptr() as usize as u64;
                    arrays.push(data);
                    let mut stride = 4;
                    for axis in (0..ndim).rev() {
                        let extent = shape[usize::from(axis)];
                        block[at + ArgLayout::extent(axis) as usize / 8] = extent;
                        block[at + ArgLayout::stride(ndim, axis) as usize / 8] = stride;
                        stride *= extent;
                    }
                }
            }
        }
        extern "C" fn trap(_: *const LaunchContext, _: u32, _: i64, _: i64, _: u64) {}
        extern "C" fn print(_: *const LaunchContext, _: u32, _: *const u64) {}
        let mut context = LaunchContext { shape: [1; MAX_DIMS], trap, print, data: std::ptr::null_mut() };
        context.shape[..shape.len()].copy_from_slice(shape);
        let run = (0..15).map(|_| {
            let start = Instant::now();
            // SAFETY: the block and the context are laid out as the kernel's HIR says, and every array has an element
            // for each thread.
            unsafe { code.entry()(black_box(block.as_ptr().cast()), &context, 0, n) };
            start.elapsed()
        });
        let run = median(run.collect());
        black_box(&arrays);
        println!(
            "{name:<12}{:>12.1}{:>12.1}{size:>12}{:>14.3}",
            median(compile).as_secs_f64() * 1e6,
            median(load).as_secs_f64() * 1e6,
            run.as_secs_f64() * 1e9 / n as f64
        );
    }
}
