//! Programs in HIR text and what they compute, worked out by hand or by Rust.

use super::*;
use crate::Op;
use crate::types::Scalar;
use crate::{Builder, Function, FunctionKind};
use cranelift_entity::EntityRef;

fn parse(text: &str) -> Module {
    let module = crate::text::parse_module(text, crate::FileId::new(0)).unwrap_or_else(|errors| panic!("{errors:#?}"));
    crate::verify::verify_module(&module).unwrap_or_else(|errors| panic!("{errors:#?}"));
    module
}

/// An interpreter for the last function of the text.
fn prepare(text: &str) -> Interpreter {
    let module = parse(text);
    let last = module.functions.keys().next_back().unwrap();
    Interpreter::new(&module, last).unwrap()
}

/// What the last function of the text gives for these arguments.
fn check(text: &str, args: &[u64], expected: &[u64]) {
    assert_eq!(prepare(text).call(args).as_deref(), Ok(expected), "{args:?} given to\n{text}");
}

/// The bits of an `i32`.
fn int(value: i32) -> u64 {
    u64::from(value as u32)
}

fn float(value: f32) -> u64 {
    value.to_bits().into()
}

#[test]
fn straight_code_is_computed_in_order() {
    let text = "
func @f(%x x: i32, %y y: i32) -> (i32, bool) {
  %two: i32 = const 2
  %a: i32 = mul %x, %two
  %b: i32 = sub %a, %y
  %c: bool = lt %b, %x
  return %b, %c
}";
    check(text, &[int(10), int(3)], &[int(17), 0]);
    check(text, &[int(-10), int(3)], &[int(-23), 1]);
}

#[test]
fn an_if_executes_one_side() {
    let text = "
func @f(%x x: i32) -> (i32, i32) {
  %zero: i32 = const 0
  %c: bool = lt %x, %zero
  %a: i32, %b: i32 = if %c {
    %n: i32 = neg %x
    yield %n, %x
  } else {
    yield %x, %zero
  }
  return %a, %b
}";
    check(text, &[int(-4)], &[4, int(-4)]);
    check(text, &[int(4)], &[4, 0]);
}

const COUNT: &str = "
func @f(%lo lo: i32, %hi hi: i32, %step step: i32) -> (i32, i32) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %n: i32, %last: i32 = for_range %lo, %hi, %step, %zero, %zero (%i: i32, %n0: i32, %last0: i32) {
    %n1: i32 = add %n0, %one
    yield %n1, %i
  }
  return %n, %last
}";

#[test]
fn for_range_counts_like_python() {
    let range = |lo: i32, hi: i32, step: i32| -> (i64, i64) {
        let (lo, hi, step) = (i64::from(lo), i64::from(hi), i64::from(step));
        let (mut n, mut i, mut last) = (0, lo, 0);
        while step != 0 && if step > 0 { i < hi } else { i > hi } {
            (n, last) = (n + 1, i);
            i += step;
        }
        (n, last)
    };
    let interpreter = prepare(COUNT);
    for lo in -4..5 {
        for hi in -4..5 {
            for step in -3..4 {
                let (n, last) = range(lo, hi, step);
                let results = interpreter.call(&[int(lo), int(hi), int(step)]);
                assert_eq!(results, Ok(vec![int(n as i32), int(last as i32)]), "range({lo}, {hi}, {step})");
            }
        }
    }
}

#[test]
fn a_counter_that_would_overflow_ends_its_loop() {
    check(COUNT, &[int(i32::MAX - 5), int(i32::MAX), int(4)], &[2, int(i32::MAX - 1)]);
    check(COUNT, &[int(i32::MIN + 5), int(i32::MIN), int(-4)], &[2, int(i32::MIN + 1)]);
    check(COUNT, &[int(i32::MIN), int(i32::MAX), int(i32::MAX)], &[3, int(i32::MAX - 1)]);
    let bytes = COUNT.replace("i32", "u8");
    check(&bytes, &[250, 255, 3], &[2, 253]);
    check(&bytes, &[3, 0, 255], &[0, 0]);
    let wide = COUNT.replace("i32", "i64");
    check(&wide, &[i64::MIN as u64, i64::MAX as u64, i64::MAX as u64], &[3, i64::MAX as u64 - 1]);
    check(&wide, &[i64::MAX as u64, i64::MIN as u64, i64::MIN as u64], &[2, u64::MAX]);
}

#[test]
fn the_trip_count_is_decided_at_entry() {
    // The carried value takes the place of the bound, which the loop has already read.
    let text = "
func @f(%n n: i32) -> (i32) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %r: i32 = for_range %zero, %n, %one, %n (%i: i32, %c: i32) {
    %next: i32 = add %c, %c
    yield %next
  }
  return %r
}";
    check(text, &[3], &[24]);
}

#[test]
fn carried_values_are_exchanged_at_once() {
    let text = "
func @fibonacci(%n n: i32) -> (i32) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %a: i32, %b: i32 = for_range %zero, %n, %one, %zero, %one (%i: i32, %x: i32, %y: i32) {
    %sum: i32 = add %x, %y
    yield %y, %sum
  }
  return %a
}";
    check(text, &[10], &[55]);
    let swap = "
func @swap(%n n: i32, %p p: i32, %q q: i32) -> (i32, i32) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %a: i32, %b: i32 = for_range %zero, %n, %one, %p, %q (%i: i32, %x: i32, %y: i32) {
    yield %y, %x
  }
  return %a, %b
}";
    check(swap, &[3, 7, 8], &[8, 7]);
    check(swap, &[4, 7, 8], &[7, 8]);
}

#[test]
fn a_while_tests_before_each_iteration() {
    let text = "
func @collatz(%n n: i32) -> (i32) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %two: i32 = const 2
  %three: i32 = const 3
  %steps: i32, %end: i32 = while %zero, %n (%s: i32, %x: i32) {
    %more: bool = ne %x, %one
    yield %more
  } do (%t: i32, %y: i32) {
    %odd: i32 = mod %y, %two
    %is_odd: bool = ne %odd, %zero
    %half: i32 = div %y, %two
    %triple: i32 = mul %y, %three
    %up: i32 = add %triple, %one
    %next: i32 = where %is_odd, %up, %half
    %t1: i32 = add %t, %one
    yield %t1, %next
  }
  return %steps
}";
    check(text, &[27], &[111]);
    check(text, &[1], &[0]);
}

#[test]
fn break_and_continue_leave_several_levels() {
    // The first pair i < j with i * j == n and j odd, searched for up to 10; (-1, iterations done) if there is none.
    let text = "
func @f(%n n: i32) -> (i32, i32) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %two: i32 = const 2
  %ten: i32 = const 10
  %none: i32 = const -1
  %r: i32, %c: i32 = for_range ^0 %one, %ten, %one, %none, %zero (%i: i32, %r0: i32, %c0: i32) {
    %c3: i32 = for_range ^1 %i, %ten, %one, %c0 (%j: i32, %c1: i32) {
      %c2: i32 = add %c1, %one
      %rest: i32 = mod %j, %two
      %even: bool = eq %rest, %zero
      if %even {
        continue ^1 %c2
      } else {
        yield
      }
      %product: i32 = mul %i, %j
      %found: bool = eq %product, %n
      %past: bool = gt %product, %n
      if %found {
        break ^0 %j, %c2
      } else {
        yield
      }
      if %past {
        continue ^0 %none, %c2
      } else {
        yield
      }
      yield %c2
    }
    yield %none, %c3
  }
  return %r, %c
}";
    let expected = |n: i32| {
        let mut count = 0;
        'outer: for i in 1..10 {
            for j in i..10 {
                count += 1;
                if j % 2 == 0 {
                    continue;
                }
                if i * j == n {
                    return (j, count);
                }
                if i * j > n {
                    continue 'outer;
                }
            }
        }
        (-1, count)
    };
    let interpreter = prepare(text);
    for n in 0..90 {
        let (j, count) = expected(n);
        assert_eq!(interpreter.call(&[int(n)]), Ok(vec![int(j), int(count)]), "{n}");
    }
}

#[test]
fn a_block_is_left_early() {
    let text = "
func @f(%x x: i32) -> (i32) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %ten: i32 = const 10
  %r: i32 = block ^0 {
    %negative: bool = lt %x, %zero
    if %negative {
      break ^0 %zero
    } else {
      yield
    }
    for_range %zero, %ten, %one (%i: i32) {
      %is: bool = eq %i, %x
      if %is {
        break ^0 %ten
      } else {
        yield
      }
      yield
    }
    yield %x
  }
  return %r
}";
    check(text, &[int(-3)], &[0]);
    check(text, &[3], &[10]);
    check(text, &[11], &[11]);
}

#[test]
fn return_leaves_from_within_a_loop() {
    let text = "
func @f(%n n: i32) -> (i32) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %big: i32 = const 1000
  for_range %zero, %big, %one (%i: i32) {
    %square: i32 = mul %i, %i
    %enough: bool = ge %square, %n
    if %enough {
      return %i
    } else {
      yield
    }
    yield
  }
  return %zero
}";
    check(text, &[10], &[4]);
}

#[test]
fn calls_have_frames_of_their_own() {
    let text = "
func @swap(%a a: i32, %b b: i32) -> (i32, i32) {
  return %b, %a
}
func @difference(%a a: i32, %b b: i32) -> (i32) {
  %x: i32, %y: i32 = call @swap %a, %b
  %p: i32, %q: i32 = call @swap %y, %x
  %d: i32 = sub %p, %q
  return %d
}
func @f(%a a: i32, %b b: i32) -> (i32, i32) {
  %x: i32 = call @difference %a, %b
  %y: i32 = call @difference %b, %a
  return %x, %y
}";
    check(text, &[10, 4], &[int(-6), 6]);
}

#[test]
fn library_ops_run_their_definitions() {
    let text = "
func @f(%x x: f32, %s s: u32) -> (f32, u32, u32) {
  %a: f32 = sign %x
  %r: u32, %s1: u32 = randu %s
  return %a, %r, %s1
}";
    // PCG, as in Warp: the new state is the value.
    let pcg = |s: u32| {
        let b = s.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let c = ((b >> ((b >> 28) + 4)) ^ b).wrapping_mul(277_803_737);
        u64::from((c >> 22) ^ c)
    };
    check(text, &[float(-2.5), 42], &[float(-1.0), pcg(42), pcg(42)]);
}

#[test]
fn library_ops_on_16_bit_floats_are_those_of_f32_rounded() {
    let text = "
func @f(%x x: f16) -> (f16, bool) {
  %a: f16 = frac %x
  %b: bool = isnan %x
  return %a, %b
}";
    // 2.75 and NaN in binary16.
    check(text, &[0x4180], &[0x3a00, 0]);
    assert_eq!(prepare(text).call(&[0x7e00]).unwrap()[1], 1);
}

#[test]
fn the_definition_of_copysign_agrees_with_eval() {
    let samples = [0.0, -0.0, 1.5, -1.5, f64::INFINITY, -f64::INFINITY, f64::NAN, -f64::NAN, 5e-324];
    for ty in [Scalar::F32, Scalar::F64] {
        let types = [ty.into(), ty.into()];
        let mut module = Module::new();
        let function = module.functions.push(crate::math::library_function(Op::Copysign, &types).unwrap());
        let interpreter = Interpreter::new(&module, function).unwrap();
        let bits = samples.map(|x| if ty == Scalar::F32 { float(x as f32) } else { x.to_bits() });
        for x in bits {
            for y in bits {
                let expected = crate::eval::eval(Op::Copysign, &types, &[x, y], ty.into()).unwrap();
                let found = interpreter.call(&[x, y]).unwrap()[0];
                let both_nan = crate::generate::is_nan(ty, expected) && crate::generate::is_nan(ty, found);
                assert!(found == expected || both_nan, "copysign({x:#x}, {y:#x}) is {found:#x}, not {expected:#x}");
            }
        }
    }
}

/// Runs all threads of a kernel over one array of `i32` and gives its elements.
fn launch(text: &str, shape: &[u64], elements: &[i32]) -> Result<Vec<i32>, InterpError> {
    let mut memory = BufferMemory::default();
    let bits: Vec<u64> = elements.iter().map(|&x| int(x)).collect();
    let array = memory.add_array(Scalar::I32, &[elements.len()], &bits);
    let n = shape.iter().product();
    prepare(text).launch(shape, &[array], &mut memory, &mut PrintingHost::default(), 0..n)?;
    Ok(memory.elements(Scalar::I32, array).into_iter().map(|bits| bits as u32 as i32).collect())
}

#[test]
fn threads_run_in_row_major_order() {
    let text = "
kernel @k(%a a: array<i32, 1>) {
  %i: i32 = tid 0
  %j: i32 = tid 1
  %k: i32 = tid 2
  %n: i32 = tid_linear
  %ten: i32 = const 10
  %x: i32 = mul %i, %ten
  %y: i32 = add %x, %j
  %z: i32 = add %y, %k
  array_store %a, %n, %z
  return
}";
    assert_eq!(launch(text, &[2, 3], &[0; 6]), Ok(vec![0, 1, 2, 10, 11, 12]));
    assert_eq!(launch(text, &[1, 1, 1, 4], &[-1; 4]), Ok(vec![0; 4]));
    assert_eq!(launch(text, &[3, 0], &[5]), Ok(vec![5]));
}

#[test]
fn a_range_of_threads_is_a_part_of_the_launch() {
    let text = "
kernel @k(%a a: array<i32, 1>) {
  %i: i32 = tid 0
  %j: i32 = tid 1
  %n: i32 = tid_linear
  %ten: i32 = const 10
  %x: i32 = mul %i, %ten
  %y: i32 = add %x, %j
  array_store %a, %n, %y
  return
}";
    let interpreter = prepare(text);
    let mut memory = BufferMemory::default();
    let array = memory.add_array(Scalar::I32, &[12], &[99; 12]);
    let host = &mut PrintingHost::default();
    interpreter.launch(&[3, 4], &[array], &mut memory, host, 3..9).unwrap();
    assert_eq!(memory.elements(Scalar::I32, array), [99, 99, 99, 3, 10, 11, 12, 13, 20, 99, 99, 99]);
    let past = interpreter.launch(&[3, 4], &[array], &mut memory, host, 3..13);
    assert!(matches!(past, Err(InterpError::BadArguments(_))));
}

#[test]
fn negative_indices_count_from_the_end() {
    let load = "
kernel @k(%a a: array<i32, 1>) {
  %i: i32 = tid 0
  %m: i32 = const -1
  %n: i32 = sub %m, %i
  %x: i32 = array_load %a, %n
  %ten: i32 = const 10
  %y: i32 = mul %x, %ten
  array_store %a, %n, %y
  return
}";
    assert_eq!(launch(load, &[2], &[1, 2, 3]), Ok(vec![1, 20, 30]));
    let error = launch(load, &[4], &[1, 2, 3]).unwrap_err();
    let InterpError::OutOfBounds { axis, index, extent, thread, .. } = error else { panic!("{error}") };
    assert_eq!((axis, index, extent, thread), (0, -4, 3, 3));
}

#[test]
fn unsigned_indices_do_not_wrap() {
    let text = "
kernel @k(%a a: array<i32, 1>) {
  %i: u64 = const 18446744073709551615
  %x: i32 = array_load %a, %i
  return
}";
    let error = launch(text, &[1], &[1, 2, 3]).unwrap_err();
    let InterpError::OutOfBounds { index, .. } = error else { panic!("{error}") };
    assert_eq!(index, i128::from(u64::MAX));
    let byte = text.replace("u64", "u8").replace("18446744073709551615", "255");
    assert!(matches!(launch(&byte, &[1], &[1, 2, 3]), Err(InterpError::OutOfBounds { index: 255, .. })));
    let signed = text.replace("u64", "i8").replace("18446744073709551615", "-1");
    assert_eq!(launch(&signed, &[1], &[1, 2, 3]), Ok(vec![1, 2, 3]));
}

#[test]
fn views_have_strides_of_any_sign() {
    let text = "
kernel @k(%a a: array<i16, 2>, %b b: array<i16, 2>) {
  %i: i32 = tid 0
  %j: i32 = tid 1
  %x: i16 = array_load %a, %i, %j
  array_store %b, %j, %i, %x
  return
}";
    let mut memory = BufferMemory::default();
    let InterpArg::Array(dense) = memory.add_array(Scalar::I16, &[2, 3], &[1, 2, 3, 4, 5, 6]) else { panic!() };
    let transposed = memory.add_array(Scalar::I16, &[3, 2], &[0; 6]);
    // Rows last to first, columns last to first.
    let strides = [-dense.strides[0], -dense.strides[1], 0, 0, 0, 0];
    let backwards = InterpArg::Array(ArrayArg { offset: 10, strides, ..dense });
    let host = &mut PrintingHost::default();
    prepare(text).launch(&[2, 3], &[backwards, transposed], &mut memory, host, 0..6).unwrap();
    assert_eq!(memory.elements(Scalar::I16, transposed), [6, 3, 5, 2, 4, 1]);
    let beyond = InterpArg::Array(ArrayArg { offset: 11, strides, ..dense });
    let error = prepare(text).launch(&[2, 3], &[beyond, transposed], &mut memory, host, 0..6).unwrap_err();
    assert!(matches!(error, InterpError::OutsideBuffer { thread: 0, .. }));
}

#[test]
fn dim_gives_extents() {
    let text = "
kernel @k(%a a: array<i32, 3>) {
  %zero: i32 = const 0
  %d0: i32 = dim 0 %a
  %d1: i32 = dim 1 %a
  %d2: i32 = dim 2 %a
  %h: i32 = const 100
  %x: i32 = mul %d0, %h
  %y: i32 = add %x, %d1
  %z: i32 = mul %y, %h
  %r: i32 = add %z, %d2
  array_store %a, %zero, %zero, %zero, %r
  return
}";
    let mut memory = BufferMemory::default();
    let array = memory.add_array(Scalar::I32, &[2, 3, 4], &[0; 24]);
    prepare(text).launch(&[1], &[array], &mut memory, &mut PrintingHost::default(), 0..1).unwrap();
    assert_eq!(memory.elements(Scalar::I32, array)[0], 20304);
}

#[test]
fn atomics_give_the_old_value() {
    for (op, expected) in
        [("add", 6), ("sub", 14), ("min", -4), ("max", 10), ("and", 8), ("or", -2), ("xor", -10), ("exch", -4)]
    {
        let text = format!(
            "
kernel @k(%a a: array<i32, 1>) {{
  %zero: i32 = const 0
  %one: i32 = const 1
  %v: i32 = const -4
  %old: i32 = atomic_{op} %a, %zero, %v
  array_store %a, %one, %old
  return
}}"
        );
        assert_eq!(launch(&text, &[1], &[10, 0]), Ok(vec![expected, 10]), "{op}");
    }
    let cas = "
kernel @k(%a a: array<i32, 1>) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %i: i32 = tid 0
  %seen: i32 = const 5
  %v: i32 = const 7
  %old: i32 = atomic_cas %a, %i, %seen, %v
  return
}";
    assert_eq!(launch(cas, &[3], &[5, 6, 5]), Ok(vec![7, 6, 7]));
}

#[test]
fn float_atomics_follow_min_and_max() {
    let text = "
kernel @k(%a a: array<f32, 1>, %x x: f32) {
  %zero: i32 = const 0
  %one: i32 = const 1
  %old: f32 = atomic_min %a, %zero, %x
  %old2: f32 = atomic_max %a, %one, %x
  return
}";
    let after = |elements: [f32; 2], x: f32| {
        let mut memory = BufferMemory::default();
        let array = memory.add_array(Scalar::F32, &[2], &elements.map(float));
        let args = [array, InterpArg::Scalar(float(x))];
        prepare(text).launch(&[1], &args, &mut memory, &mut PrintingHost::default(), 0..1).unwrap();
        memory.elements(Scalar::F32, array)
    };
    assert_eq!(after([0.0, -0.0], -0.0), [float(-0.0), float(-0.0)]);
    assert_eq!(after([f32::NAN, 1.0], 2.0), [float(2.0), float(2.0)]);
    assert_eq!(after([3.0, 1.0], f32::NAN), [float(3.0), float(1.0)]);
}

#[test]
fn sums_of_magnitudes_have_no_signs() {
    for (elem, bits) in [("f32", [-3.5f32, 1.25].map(float)), ("f64", [-3.5f64, 1.25].map(f64::to_bits))] {
        let text = format!(
            "
kernel @k(%a a: array<{elem}, 1>, %x x: {elem}) {{
  %zero: i32 = const 0
  %old: {elem} = atomic_add %a, %zero, %x
  %then: {elem} = atomic_sub %a, %zero, %x
  return
}}"
        );
        let module = parse(&text);
        let kernel = module.functions.keys().next_back().unwrap();
        let after = |sums| {
            let mut memory = BufferMemory::default();
            let scalar = if elem == "f32" { Scalar::F32 } else { Scalar::F64 };
            let array = memory.add_array(scalar, &[1], &bits[1..]);
            let interpreter =
                Interpreter::with_options(&module, kernel, InterpOptions { sums, ..InterpOptions::default() }).unwrap();
            let args = [array, InterpArg::Scalar(bits[0])];
            interpreter.launch(&[1], &args, &mut memory, &mut PrintingHost::default(), 0..1).unwrap();
            memory.elements(scalar, array)[0]
        };
        assert_eq!(after(GlobalSums::Exact), bits[1]);
        assert_eq!(after(GlobalSums::Magnitudes), if elem == "f32" { float(8.25) } else { 8.25f64.to_bits() });
    }
}

#[test]
fn any_byte_but_zero_is_true() {
    let text = "
kernel @k(%a a: array<bool, 1>, %b b: array<i32, 1>) {
  %i: i32 = tid 0
  %x: bool = array_load %a, %i
  %y: i32 = cast %x
  array_store %b, %i, %y
  return
}";
    let mut memory = BufferMemory::default();
    let flags = memory.add_array(Scalar::Bool, &[3], &[0, 1, 0x80]);
    let numbers = memory.add_array(Scalar::I32, &[3], &[9; 3]);
    prepare(text).launch(&[3], &[flags, numbers], &mut memory, &mut PrintingHost::default(), 0..3).unwrap();
    assert_eq!(memory.elements(Scalar::I32, numbers), [0, 1, 1]);
}

#[test]
fn a_failed_check_ends_the_launch_and_earlier_stores_stay() {
    let text = "
kernel @k(%a a: array<i32, 1>) {
  %i: i32 = tid 0
  %two: i32 = const 2
  %ok: bool = lt %i, %two
  %index: i64 = cast %i
  %extent: i64 = const 2
  check bounds \"a\" 0 %ok, %index, %extent
  array_store %a, %i, %two
  return
}";
    let module = parse(text);
    let interpreter = Interpreter::new(&module, FuncId::new(0)).unwrap();
    let mut memory = BufferMemory::default();
    let array = memory.add_array(Scalar::I32, &[4], &[0; 4]);
    let result = interpreter.launch(&[4], &[array], &mut memory, &mut PrintingHost::default(), 0..4);
    let Err(InterpError::Trap(trap)) = result else { panic!("{result:?}") };
    assert_eq!((trap.index, trap.extent, trap.thread), (2, 2, 2));
    let site = trap.site;
    assert_eq!(module.functions[site.func.unwrap()].insts[site.inst].op, Op::Check);
    assert_eq!(site.span, module.functions[site.func.unwrap()].insts[site.inst].span);
    assert_eq!(memory.elements(Scalar::I32, array), [2, 2, 0, 0]);
}

#[test]
fn a_failed_assertion_ends_the_launch() {
    let text = "
kernel @k(%a a: array<i32, 1>) {
  %i: i32 = tid 0
  %x: i32 = array_load %a, %i
  %ok: bool = cast %x
  assert \"no zeros\" %ok
  return
}";
    assert_eq!(launch(text, &[3], &[1, 1, 1]), Ok(vec![1, 1, 1]));
    assert!(matches!(launch(text, &[3], &[1, 0, 0]), Err(InterpError::Trap(InterpTrap { thread: 1, .. }))));
}

#[test]
fn print_formats_its_operands() {
    let text = "
kernel @k(%x x: f32) {
  %i: i32 = tid 0
  %y: f32 = cast %i
  %z: f32 = add %x, %y
  print \"%d: %.2f\\n\" %i, %z
  return
}";
    let mut printed = PrintingHost::default();
    let args = [InterpArg::Scalar(float(0.5))];
    prepare(text).launch(&[2], &args, &mut BufferMemory::default(), &mut printed, 0..2).unwrap();
    assert_eq!(printed.0, "0: 0.50\n1: 1.50\n");
}

#[test]
fn endless_loops_reach_the_step_limit() {
    let text = "
func @f(%x x: i32) -> (i32) {
  %t: bool = const true
  %r: i32 = while %x (%y: i32) {
    yield %t
  } do (%z: i32) {
    yield %z
  }
  return %r
}";
    assert_eq!(prepare(text).with_max_steps(1000).call(&[1]), Err(InterpError::StepLimit { thread: 0 }));
    // Ten iterations and the call itself.
    let counted = prepare(COUNT).with_max_steps(10);
    assert_eq!(counted.call(&[0, 10, 1]), Ok(vec![10, 9]));
    assert_eq!(counted.call(&[0, 11, 1]), Err(InterpError::StepLimit { thread: 0 }));
}

#[test]
fn arguments_must_fit() {
    let interpreter = prepare("func @f(%x x: u8, %a a: array<i32, 1>) {\n  return\n}");
    let array = InterpArg::Array(ArrayArg::default());
    let call =
        |args: &[InterpArg]| interpreter.call_with(args, &mut BufferMemory::default(), &mut PrintingHost::default());
    assert_eq!(call(&[InterpArg::Scalar(255), array]), Ok(vec![]));
    for args in
        [&[InterpArg::Scalar(256), array][..], &[array, array], &[InterpArg::Scalar(1), InterpArg::Scalar(1)], &[]]
    {
        assert!(matches!(call(args), Err(InterpError::BadArguments(_))), "{args:?}");
    }
}

#[test]
fn circles_of_calls_are_refused() {
    let mut module = Module::new();
    let mut f = Function::new("f", FunctionKind::Func, [], &[]);
    let mut b = Builder::new(&mut f);
    b.call(FuncId::new(1), &[], &[]);
    b.return_(&[]);
    let mut g = f.clone();
    g.insts.values_mut().for_each(|data| {
        if data.op == Op::Call {
            data.imm = crate::Imm::Func(FuncId::new(0));
        }
    });
    let f = module.functions.push(f);
    module.functions.push(g);
    assert_eq!(Interpreter::new(&module, f).unwrap_err(), InterpError::CallDepth);
}

/// Those of the function itself and of what it calls, with what they were given, and no others.
#[test]
fn ops_that_are_watched_are_told_of() {
    struct Told(Vec<(Op, Vec<u64>, u64)>);
    impl InterpHost for Told {
        fn print(&mut self, _format: &str, _types: &[Type], _values: &[u64]) {}

        fn observe(&mut self, observed: &ObservedOp<'_>) {
            self.0.push((observed.op, observed.operands.to_vec(), observed.result));
        }
    }
    let module = parse(
        "
func @inner(%x x: i32) -> (i32) {
  %zero: i32 = const 0
  %y: i32 = max %x, %zero
  return %y
}
func @f(%x x: i32) -> (i32) {
  %three: i32 = const 3
  %a: i32 = max %x, %three
  %b: i32 = add %a, %x
  %c: i32 = call @inner %b
  return %c
}",
    );
    let last = module.functions.keys().next_back().unwrap();
    let watched: Option<&dyn Fn(Op) -> bool> = Some(&|op| op == Op::Max);
    let interpreter =
        Interpreter::with_options(&module, last, InterpOptions { watched, ..InterpOptions::default() }).unwrap();
    let mut told = Told(Vec::new());
    let left = interpreter.call_with(&[InterpArg::Scalar(int(2))], &mut BufferMemory::default(), &mut told).unwrap();
    assert_eq!(left, [int(5)]);
    let expected = [(Op::Max, vec![int(2), int(3)], int(3)), (Op::Max, vec![int(5), int(0)], int(5))];
    assert_eq!(told.0, expected);
}
