//! Prints how long the interpreter takes for a step, on a loop of arithmetic and on one of array accesses.

use polyloom_ir::interp::{BufferMemory, InterpArg, Interpreter, PrintingHost};
use polyloom_ir::{FileId, Scalar, text};
use std::time::Instant;

/// 6 ops an iteration.
const ARITHMETIC: &str = "
kernel @k(%n n: i32, %a a: array<f32, 1>) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %x: f32 = const 1.5
  %r: f32, %c: i32 = for_range %zero, %n, %one, %x, %zero (%i: i32, %y: f32, %c0: i32) {
    %y1: f32 = mul %y, %x
    %y2: f32 = add %y1, %x
    %y3: f32 = fma %y2, %x, %y
    %y4: f32 = min %y3, %x
    %c1: i32 = bit_xor %c0, %i
    %c2: i32 = add %c1, %one
    yield %y4, %c2
  }
  array_store %a, %zero, %r
  return
}";

/// 5 ops an iteration, 3 of them accesses.
const ACCESSES: &str = "
kernel @k(%n n: i32, %a a: array<f32, 1>) {
  %zero: i32 = const 0
  %one: i32 = const 1
  for_range %zero, %n, %one (%i: i32) {
    %mask: i32 = const 1023
    %j: i32 = bit_and %i, %mask
    %x: f32 = array_load %a, %j
    %y: f32 = array_load %a, %zero
    %z: f32 = add %x, %y
    array_store %a, %j, %z
    yield
  }
  return
}";

fn main() {
    for (name, text, n_ops) in [("arithmetic", ARITHMETIC, 6), ("accesses", ACCESSES, 5)] {
        let module = text::parse_module(text, FileId::from_u32(0)).unwrap_or_default();
        let Some(kernel) = module.find("k") else { continue };
        let Ok(interpreter) = Interpreter::new(&module, kernel) else { continue };
        let mut memory = BufferMemory::default();
        let array = memory.add_array(Scalar::F32, &[1024], &[0; 1024]);
        let n = 1_000_000u64;
        let start = Instant::now();
        let result =
            interpreter.launch(&[1], &[InterpArg::Scalar(n), array], &mut memory, &mut PrintingHost::default(), 0..1);
        let elapsed = start.elapsed().as_nanos() as f64 / (n * n_ops) as f64;
        println!("{name}: {elapsed:.1} ns an op ({result:?})");
    }
}
