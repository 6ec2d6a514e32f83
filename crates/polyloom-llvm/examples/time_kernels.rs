//! Times four kernels as this back end compiles them, beside what the machine could do at best.
//!
//!     cargo run --release -p polyloom-llvm --example time_kernels [LANES] [asm|ir]
//!
//! The best is bytes moved over the speed of a copy of the same size, or arithmetic over the vector units' throughput.

use polyloom_codegen::{ArgLayout, ArrayFacts, Backend, Emit, Facts, LaunchContext, LoadedCode, Variant};
use polyloom_ir::{FileId, MAX_DIMS, Module, text};
use polyloom_llvm::LlvmBackend;
use polyloom_passes::pipeline;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

const SAXPY: &str = "
kernel @saxpy(%0 a: f32, %1 x: array<f32, 1>, %2 y: array<f32, 1>) {
  %3: i32 = tid 0
  %4: f32 = array_load %1, %3
  %5: f32 = array_load %2, %3
  %6: f32 = mul %0, %4
  %7: f32 = add %6, %5
  array_store %2, %3, %7
  return
}";

const NBODY: &str = "
kernel @nbody(%0 px: array<f32, 1>, %1 py: array<f32, 1>, %2 pz: array<f32, 1>, %3 mass: array<f32, 1>, %4 ax: array<f32, 1>, %5 ay: array<f32, 1>, %6 az: array<f32, 1>, %7 n: i32) {
  %8: i32 = tid 0
  %9: f32 = array_load %0, %8
  %10: f32 = array_load %1, %8
  %11: f32 = array_load %2, %8
  %12: i32 = const 0
  %13: i32 = const 1
  %14: f32 = const 0.0
  %15: f32 = const 0.01
  %16: f32 = const 1.0
  %17: f32, %18: f32, %19: f32 = for_range %12, %7, %13, %14, %14, %14 (%20: i32, %21: f32, %22: f32, %23: f32) {
    %24: f32 = array_load %0, %20
    %25: f32 = array_load %1, %20
    %26: f32 = array_load %2, %20
    %27: f32 = sub %24, %9
    %28: f32 = sub %25, %10
    %29: f32 = sub %26, %11
    %30: f32 = mul %27, %27
    %31: f32 = mul %28, %28
    %32: f32 = mul %29, %29
    %33: f32 = add %30, %31
    %34: f32 = add %33, %32
    %35: f32 = add %34, %15
    %36: f32 = sqrt %35
    %37: f32 = div %16, %36
    %38: f32 = mul %37, %37
    %39: f32 = mul %38, %37
    %40: f32 = array_load %3, %20
    %41: f32 = mul %40, %39
    %42: f32 = mul %27, %41
    %43: f32 = mul %28, %41
    %44: f32 = mul %29, %41
    %45: f32 = add %21, %42
    %46: f32 = add %22, %43
    %47: f32 = add %23, %44
    yield %45, %46, %47
  }
  array_store %4, %8, %17
  array_store %5, %8, %18
  array_store %6, %8, %19
  return
}";

const STENCIL: &str = "
kernel @stencil(%0 u: array<f32, 2>, %1 out: array<f32, 2>, %2 c: f32) {
  %3: i32 = tid 0
  %4: i32 = tid 1
  %5: i32 = const 0
  %6: i32 = const 1
  %7: i32 = dim 0 %0
  %8: i32 = sub %7, %6
  %9: i32 = dim 1 %0
  %10: i32 = sub %9, %6
  %11: bool = gt %3, %5
  %12: bool = lt %3, %8
  %13: bool = gt %4, %5
  %14: bool = lt %4, %10
  %15: bool = bit_and %11, %12
  %16: bool = bit_and %13, %14
  %17: bool = bit_and %15, %16
  if %17 {
    %18: i32 = sub %3, %6
    %19: i32 = add %3, %6
    %20: i32 = sub %4, %6
    %21: i32 = add %4, %6
    %22: f32 = array_load %0, %18, %4
    %23: f32 = array_load %0, %19, %4
    %24: f32 = array_load %0, %3, %20
    %25: f32 = array_load %0, %3, %21
    %26: f32 = array_load %0, %3, %4
    %27: f32 = add %22, %23
    %28: f32 = add %27, %24
    %29: f32 = add %28, %25
    %30: f32 = const -4.0
    %31: f32 = mul %30, %26
    %32: f32 = add %29, %31
    %33: f32 = mul %2, %32
    %34: f32 = add %26, %33
    array_store %1, %3, %4, %34
    yield
  } else {
    yield
  }
  return
}";

const MANDELBROT: &str = "
kernel @mandelbrot(%0 out: array<i32, 2>, %1 scale: f32, %2 most: i32) {
  %3: i32 = tid 0
  %4: i32 = tid 1
  %5: f32 = cast %4
  %6: f32 = mul %5, %1
  %7: f32 = const 2.0
  %8: f32 = sub %6, %7
  %9: f32 = cast %3
  %10: f32 = mul %9, %1
  %11: f32 = const 1.5
  %12: f32 = sub %10, %11
  %13: f32 = const 0.0
  %14: i32 = const 0
  %15: i32 = const 1
  %16: f32 = const 4.0
  %17: f32, %18: f32, %19: i32 = while %13, %13, %14 (%20: f32, %21: f32, %22: i32) {
    %23: f32 = mul %20, %20
    %24: f32 = mul %21, %21
    %25: f32 = add %23, %24
    %26: bool = lt %25, %16
    %27: bool = lt %22, %2
    %28: bool = bit_and %26, %27
    yield %28
  } do (%29: f32, %30: f32, %31: i32) {
    %32: f32 = mul %29, %29
    %33: f32 = mul %30, %30
    %34: f32 = sub %32, %33
    %35: f32 = add %34, %8
    %36: f32 = mul %7, %29
    %37: f32 = mul %36, %30
    %38: f32 = add %37, %12
    %39: i32 = add %31, %15
    yield %35, %38, %39
  }
  array_store %0, %3, %4, %19
  return
}";

/// An argument: a scalar's bits, or a dense array.
enum Arg {
    Scalar(u64),
    Array(Vec<f32>, Vec<usize>),
}

fn array(extents: &[usize], value: impl Fn(usize) -> f32) -> Arg {
    Arg::Array((0..extents.iter().product()).map(value).collect(), extents.to_vec())
}

extern "C" fn trap(_: *const LaunchContext, site: u32, _: i64, _: i64, thread: u64) {
    panic!("site {site} traps in thread {thread}");
}

extern "C" fn print(_: *const LaunchContext, _: u32, _: *const u64) {}

struct Launch {
    code: Arc<dyn LoadedCode>,
    block: Vec<u64>,
    shape: [u64; MAX_DIMS],
}

impl Launch {
    fn run(&self) {
        let context = LaunchContext { shape: self.shape, trap, print, data: std::ptr::null_mut::<c_void>() };
        let total: u64 = self.shape.iter().product();
        // SAFETY: the block describes arrays that live as long as the example and hold every element accessed.
        unsafe { self.code.entry()(self.block.as_ptr().cast(), &context, 0, total) };
    }
}

fn launch(backend: &LlvmBackend, source: &str, shape: &[u64], args: &[Arg], form: Option<Emit>) -> Launch {
    let module = text::parse_module(source, FileId::from_u32(0)).unwrap_or_else(|e| panic!("{e:?}"));
    let kernel = module.functions.keys().next().expect("a kernel");
    let (module, kernel): (Module, _) =
        pipeline::prepared(&module, kernel, &pipeline::Options { checked: false }).unwrap_or_else(|e| panic!("{e:?}"));
    let layout = ArgLayout::of(&module.functions[kernel]);
    let mut block = vec![0u64; layout.size as usize / 8];
    let mut facts = Facts::default();
    for (arg, &offset) in args.iter().zip(&layout.offsets) {
        let at = offset as usize / 8;
        let mut fact = ArrayFacts::default();
        match arg {
            Arg::Scalar(bits) => block[at] = *bits,
            Arg::Array(data, extents) => {
                block[at] = data.as_ptr() as u64;
                let mut stride = 4;
                for (axis, &extent) in extents.iter().enumerate().rev() {
                    block[at + 1 + axis] = extent as u64;
                    block[at + 1 + extents.len() + axis] = stride;
                    stride *= extent as u64;
                }
                fact.contiguous = true;
                fact.disjoint = true;
                fact.offsets_fit_i32 = true;
            }
        }
        facts.arrays.push(fact);
    }
    let variant = Variant { launch_rank: shape.len() as u8, facts };
    if let Some(form) = form {
        let text = backend.emit(&module, kernel, &variant, form).unwrap_or_else(|e| panic!("{e}"));
        println!("{}", String::from_utf8_lossy(&text));
    }
    let object = backend.compile(&module, kernel, &variant).unwrap_or_else(|e| panic!("{e}"));
    let code = backend.load(&object).unwrap_or_else(|e| panic!("{e}"));
    let compile = best(0.2, || drop(backend.compile(&module, kernel, &variant)));
    let load = best(0.05, || drop(backend.load(&object)));
    println!("  compiled in {:.2} ms, loaded in {:.2} ms", compile / 1e6, load / 1e6);
    let mut extents = [1; MAX_DIMS];
    extents[..shape.len()].copy_from_slice(shape);
    Launch { code, block, shape: extents }
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
    let mut backend = LlvmBackend::new().expect("LLVM knows this machine");
    if let Some(lanes) = args.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0) {
        backend = backend.with_lanes(lanes);
    }
    let form = match args.next().as_deref() {
        Some("asm") => Some(Emit::Asm),
        Some("ir") => Some(Emit::LlvmIrOptimized),
        Some("raw") => Some(Emit::LlvmIr),
        _ => None,
    };
    let only = args.next();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);

    if wanted("saxpy") {
        let n = 10_000_000usize;
        println!("saxpy, 1e7 elements");
        let args = [Arg::Scalar(2f32.to_bits().into()), array(&[n], |i| i as f32), array(&[n], |_| 1.0)];
        let kernel = launch(&backend, SAXPY, &[n as u64], &args, form);
        let time = best(0.7, || kernel.run());
        let (mut a, b, mut c) = (vec![0f32; n], vec![1f32; n], vec![2f32; n]);
        a.copy_from_slice(&b);
        let floor = best(0.7, || {
            let (b, c) = (&b[..], &mut c[..]);
            c.iter_mut().zip(b).for_each(|(c, b)| *c += 2.0 * *b);
        });
        println!(
            "  {:.0} ns, {:.2} GB/s; rustc's loop: {:.2} GB/s",
            time,
            12.0 * n as f64 / time,
            12.0 * n as f64 / floor
        );
    }
    if wanted("nbody") {
        let n = 4096usize;
        println!("n-body, 4096 bodies");
        let place = |k: usize| array(&[n], move |i| ((i * (7 + 2 * k) * 2_654_435) % 1000) as f32 / 1000.0);
        let args = [
            place(0),
            place(1),
            place(2),
            place(3),
            array(&[n], |_| 0.0),
            array(&[n], |_| 0.0),
            array(&[n], |_| 0.0),
            Arg::Scalar(n as u64),
        ];
        let kernel = launch(&backend, NBODY, &[n as u64], &args, form);
        let time = best(0.7, || kernel.run());
        println!("  {:.0} ns, {:.3} ns per pair", time, time / (n * n) as f64);
    }
    if wanted("stencil") {
        let n = 2048usize;
        println!("5-point stencil, 2048 x 2048");
        let args = [array(&[n, n], |i| (i % 97) as f32), array(&[n, n], |_| 0.0), Arg::Scalar(0.1f32.to_bits().into())];
        let kernel = launch(&backend, STENCIL, &[n as u64, n as u64], &args, form);
        let time = best(0.7, || kernel.run());
        let (a, mut b) = (vec![1f32; n * n], vec![0f32; n * n]);
        let floor = best(0.7, || b.copy_from_slice(&a));
        let bytes = 8.0 * (n * n) as f64;
        println!("  {:.0} ns, {:.2} GB/s; copy: {:.2} GB/s", time, bytes / time, bytes / floor);
    }
    if wanted("mandelbrot") {
        let n = 1024usize;
        println!("Mandelbrot, 1024 x 1024, at most 256 iterations");
        let args = [array(&[n, n], |_| 0.0), Arg::Scalar((3f32 / 1024.0).to_bits().into()), Arg::Scalar(256)];
        let kernel = launch(&backend, MANDELBROT, &[n as u64, n as u64], &args, form);
        let time = best(0.7, || kernel.run());
        let Arg::Array(counts, _) = &args[0] else { return };
        let iterations: u64 = counts.iter().map(|c| u64::from(c.to_bits())).sum();
        println!("  {:.0} ns, {:.3} ns per iteration ({iterations} iterations)", time, time / iterations as f64);
    }
}
