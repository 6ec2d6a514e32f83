//! Prints what the pipeline costs for small kernels, in all and pass by pass.
//!
//! `cargo run --release -p polyloom-passes --example time_pipeline [FILE.hir]`

use polyloom_ir::{FileId, FunctionKind, Module, parse_module};
use polyloom_passes::{PASSES, PassContext, PipelineOptions, canonical_hash, pipeline, prepare};
use std::time::{Duration, Instant};

const STENCIL: &str = r#"
kernel @stencil(%a a: array<f32, 2>, %b b: array<f32, 2>, %k k: f32) {
  %i: i32 = tid 0
  %j: i32 = tid 1
  %n: i32 = dim 0 %a
  %m: i32 = dim 1 %a
  %zero: i32 = const 0
  %one: i32 = const 1
  %n1: i32 = sub %n, %one
  %m1: i32 = sub %m, %one
  %c1: bool = eq %i, %zero
  %c2: bool = eq %j, %zero
  %c3: bool = ge %i, %n1
  %c4: bool = ge %j, %m1
  %c12: bool = bit_or %c1, %c2
  %c34: bool = bit_or %c3, %c4
  %edge: bool = bit_or %c12, %c34
  if %edge {
    return
  } else {
    yield
  }
  %one1: i32 = const 1
  %up: i32 = sub %i, %one1
  %x1: f32 = array_load %a, %up, %j
  %one2: i32 = const 1
  %down: i32 = add %i, %one2
  %x2: f32 = array_load %a, %down, %j
  %one3: i32 = const 1
  %left: i32 = sub %j, %one3
  %x3: f32 = array_load %a, %i, %left
  %one4: i32 = const 1
  %right: i32 = add %j, %one4
  %x4: f32 = array_load %a, %i, %right
  %x0: f32 = array_load %a, %i, %j
  %s1: f32 = add %x1, %x2
  %s2: f32 = add %s1, %x3
  %s3: f32 = add %s2, %x4
  %four: f32 = const 4.0
  %c: f32 = mul %four, %x0
  %d: f32 = sub %s3, %c
  %e: f32 = mul %k, %d
  %f: f32 = add %x0, %e
  array_store %b, %i, %j, %f
  return
}"#;

const BODIES: &str = r#"
func @force(%dx dx: f32, %dy dy: f32, %dz dz: f32) -> (f32) {
  %xx: f32 = mul %dx, %dx
  %yy: f32 = mul %dy, %dy
  %zz: f32 = mul %dz, %dz
  %s: f32 = add %xx, %yy
  %r2: f32 = add %s, %zz
  %zero: f32 = const 0.0
  %same: bool = eq %r2, %zero
  if %same {
    return %zero
  } else {
    yield
  }
  %one: f32 = const 1.0
  %r: f32 = sqrt %r2
  %r3: f32 = mul %r, %r2
  %inverse: f32 = div %one, %r3
  return %inverse
}

kernel @bodies(%p p: array<f32, 2>, %v v: array<f32, 2>, %n n: i32, %dt dt: f32) {
  %i: i32 = tid_linear
  %past: bool = ge %i, %n
  if %past {
    return
  } else {
    yield
  }
  %zero: i32 = const 0
  %one: i32 = const 1
  %two: i32 = const 2
  %f0: f32 = const 0.0
  %x: f32 = array_load %p, %i, %zero
  %y: f32 = array_load %p, %i, %one
  %z: f32 = array_load %p, %i, %two
  %ax: f32, %ay: f32, %az: f32 = for_range %zero, %n, %one, %f0, %f0, %f0 (%j: i32, %sx: f32, %sy: f32, %sz: f32) {
    %xj: f32 = array_load %p, %j, %zero
    %yj: f32 = array_load %p, %j, %one
    %zj: f32 = array_load %p, %j, %two
    %dx: f32 = sub %xj, %x
    %dy: f32 = sub %yj, %y
    %dz: f32 = sub %zj, %z
    %w: f32 = call @force %dx, %dy, %dz
    %fx: f32 = mul %w, %dx
    %fy: f32 = mul %w, %dy
    %fz: f32 = mul %w, %dz
    %tx: f32 = add %sx, %fx
    %ty: f32 = add %sy, %fy
    %tz: f32 = add %sz, %fz
    yield %tx, %ty, %tz
  }
  %gx: f32 = mul %ax, %dt
  %gy: f32 = mul %ay, %dt
  %gz: f32 = mul %az, %dt
  %nx: f32 = clamp %gx, %f0, %dt
  array_store %v, %i, %zero, %nx
  array_store %v, %i, %one, %gy
  array_store %v, %i, %two, %gz
  return
}"#;

const REPEATS: usize = 2000;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |t| t.as_secs_f64() * 1e6)
}

fn time<T>(mut setup: impl FnMut() -> T, mut run: impl FnMut(&mut T)) -> f64 {
    let measure = |_| {
        let mut input = setup();
        let start = Instant::now();
        run(&mut input);
        let elapsed = start.elapsed();
        drop(input);
        elapsed
    };
    median((0..REPEATS).map(measure).collect())
}

fn report(name: &str, source: &Module) {
    for (id, kernel) in source.functions.iter().filter(|(_, f)| f.kind == FunctionKind::Kernel) {
        let (module, id) = pipeline::extract(source, id);
        for checked in [false, true] {
            let options = PipelineOptions { checked, ..Default::default() };
            let total = time(|| module.clone(), |module| assert!(prepare(module, id, &options).is_ok()));
            let mut prepared = module.clone();
            let n_before = count(&prepared, id);
            let result = prepare(&mut prepared, id, &options);
            let mode = if checked { "checked" } else { "unchecked" };
            println!(
                "{name} @{} {mode}: {total:.1} us, {n_before} -> {} instructions{}",
                kernel.name,
                count(&prepared, id),
                if result.is_ok() { "" } else { " (failed)" }
            );
        }
        let hash = time(|| (), |()| assert_ne!(canonical_hash(&module, id), [0; 32]));
        println!("  canonical_hash {hash:.2} us");
        for pass in PASSES {
            let mut before = module.clone();
            for earlier in PASSES.iter().take_while(|p| p.name != pass.name) {
                if (earlier.run)(&mut before, id, &PassContext::default()).is_err() {
                    return;
                }
            }
            let us = time(|| before.clone(), |m| assert!((pass.run)(m, id, &PassContext::default()).is_ok()));
            println!("  {:<18} {us:.2} us", pass.name);
        }
    }
}

fn count(module: &Module, id: polyloom_ir::FuncId) -> usize {
    let function = &module.functions[id];
    let mut n = 0;
    function.walk(function.body, &mut |_, _| n += 1);
    n
}

fn main() {
    let mut inputs: Vec<(String, String)> = std::env::args()
        .skip(1)
        .filter_map(|path| std::fs::read_to_string(&path).ok().map(|text| (path, text)))
        .collect();
    if inputs.is_empty() {
        inputs = vec![("built in".to_owned(), STENCIL.to_owned()), ("built in".to_owned(), BODIES.to_owned())];
    }
    for (name, text) in inputs {
        match parse_module(&text, FileId::from_u32(0)) {
            Ok(module) => report(&name, &module),
            Err(errors) => eprintln!("{name}: {errors:?}"),
        }
    }
}
