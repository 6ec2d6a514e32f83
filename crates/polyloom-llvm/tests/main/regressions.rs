//! Shapes of control flow that were once compiled wrongly: lanes that leave together, but by way of a mask.

use crate::conformance::{host, subject_of};
use polyloom_codegen::conformance::EngineSubject;
use polyloom_codegen::conformance::launch::{compare, dense};
use polyloom_ir::Scalar;
use polyloom_ir::interp::{BufferMemory, InterpArg};

/// Runs a kernel of one `i32` array over 37 threads: two groups and a bit.
#[track_caller]
fn check(text: &str) {
    let backend = host();
    for lanes in [1, 4, 16, 32] {
        let mut memory = BufferMemory::default();
        let values: Vec<u64> = (0..37).map(|i| i * 5 % 11).collect();
        let out = dense(&mut memory, Scalar::I32, &[37], &values);
        compare(&EngineSubject { lanes: Some(lanes), ..subject_of(&backend) }, text, &[37], &[out], &memory);
    }
}

#[test]
fn a_divergent_continue_of_a_loop_that_ends_for_all_at_once() {
    check(
        "
kernel @k(%0 out: array<i32, 1>) {
  %1: i32 = tid 0
  %2: i32 = array_load %0, %1
  %3: i32 = const 0
  %4: i32 = const 6
  %5: i32 = const 1
  %6: i32 = for_range ^0 %3, %4, %5, %3 (%7: i32, %8: i32) {
    %9: bool = lt %7, %2
    if %9 {
      continue ^0 %8
    } else {
      yield
    }
    %10: i32 = add %8, %7
    yield %10
  }
  array_store %0, %1, %6
  return
}",
    );
}

#[test]
fn a_break_by_all_lanes_out_of_a_block_that_some_left_before() {
    check(
        "
kernel @k(%0 out: array<i32, 1>) {
  %1: i32 = tid 0
  %2: i32 = array_load %0, %1
  %3: i32 = const 3
  %4: i32 = const 0
  %5: i32 = const 1
  %6: bool = lt %2, %3
  %7: i32 = block ^0 {
    if %6 {
      break ^0 %4
    } else {
      yield
    }
    for_range %4, %3, %5 (%8: i32) {
      break ^0 %2
    }
    yield %5
  }
  %9: i32 = add %7, %1
  array_store %0, %1, %9
  return
}",
    );
}

#[test]
fn a_return_of_all_lanes_out_of_a_loop_with_masks() {
    check(
        "
kernel @k(%0 out: array<i32, 1>) {
  %1: i32 = tid 0
  %2: i32 = array_load %0, %1
  %3: i32 = const 3
  %4: i32 = const 0
  %5: i32 = const 1
  %6: bool = lt %2, %3
  for_range ^0 %4, %3, %5 (%7: i32) {
    if %6 {
      array_store %0, %1, %7
      yield
    } else {
      continue ^0
    }
    %8: bool = gt %7, %5
    if %8 {
      return
    } else {
      yield
    }
    yield
  }
  array_store %0, %1, %5
  return
}",
    );
}

#[test]
fn a_loop_whose_every_iteration_continues() {
    check(
        "
kernel @k(%0 out: array<i32, 1>) {
  %1: i32 = tid 0
  %2: i32 = const 0
  %3: i32 = const 1
  %4: i32 = const 3
  %5: i32 = bit_and %1, %4
  %6: i32 = for_range ^0 %2, %5, %3, %1 (%7: i32, %8: i32) {
    %9: i32 = array_load %0, %1
    for_range %2, %4, %3 (%10: i32) {
      array_store %0, %1, %1
      yield
    }
    continue ^0 %9
  }
  array_store %0, %1, %6
  return
}",
    );
}

/// LLVM's vectoriser asks of a value whether iterations share it by asking that of its operands, without remembering
/// answers: through this chain it would be 2³⁰ questions. A division under a condition keeps it inside of the loop, as
/// long as nothing is known of the divisor, which the innermost loop changes.
#[test]
fn a_chain_that_iterations_share_is_compiled_in_time() {
    let check = |links: &str| {
        let text = format!(
            "
kernel @k(%0 out: array<i32, 1>, %1 n: i32) {{
  %2: i32 = const 0
  %3: i32 = const 1
  %4: i32 = const 100
  %5: i32 = array_load %0, %2
  %6: bool = gt %5, %1
  for_range ^0 %2, %1, %3 (%7: i32) {{
    if %6 {{
      %8: i32 = const 2
      %10: i32 = for_range ^1 %2, %8, %3, %4 (%11: i32, %12: i32) {{
        %13: i32 = add %12, %5
        %14: i32 = div %4, %13
        yield %14
      }}
{links}      array_store %0, %7, %80
      yield
    }} else {{
      yield
    }}
    yield
  }}
  return
}}"
        );
        let backend = host();
        let mut memory = BufferMemory::default();
        let out = dense(&mut memory, Scalar::I32, &[37], &[9; 37]);
        let subject = EngineSubject { lanes: Some(1), ..subject_of(&backend) };
        compare(&subject, &text, &[1], &[out, InterpArg::Scalar(7)], &memory);
    };
    let link = |index: u32| {
        let x = if index == 0 { 10 } else { 20 + 2 * index };
        let (sum, product) = (21 + 2 * index, 22 + 2 * index);
        format!("      %{sum}: i32 = add %{x}, %1\n      %{product}: i32 = mul %{x}, %{sum}\n")
    };
    check(&(0..30).map(link).collect::<String>());
    // The same, of links that are the iterations of a loop.
    let links = "
      %21: i32 = const 30
      %80: i32 = for_range ^2 %2, %21, %3, %10 (%22: i32, %23: i32) {
        %24: i32 = add %23, %1
        %25: i32 = mul %23, %24
        yield %25
      }
";
    check(links);
}

/// Runs a kernel of an `i32` array of `n_elements` and a number, over these extents, in groups of so many lanes.
#[track_caller]
fn check_lanes(text: &str, shape: &[u64], n_elements: u64, number: u64, lanes: u32) {
    let backend = host();
    let mut memory = BufferMemory::default();
    let values: Vec<u64> = (0..n_elements).map(|i| i * 5 % 11).collect();
    let out = dense(&mut memory, Scalar::I32, &[values.len()], &values);
    let subject = EngineSubject { lanes: Some(lanes), ..subject_of(&backend) };
    compare(&subject, text, shape, &[out, InterpArg::Scalar(number)], &memory);
}

/// The rest of a row is done in groups of at most 32 lanes under a mask, also where full groups give up.
#[test]
fn wide_groups_end_in_parts() {
    // Most quotients are those of their whole group.
    let text = "
kernel @k(%0 out: array<i32, 1>, %1 n: i32) {
  %2: i32 = tid 0
  %3: i32 = div %2, %1
  %4: i32 = mod %2, %1
  %5: i32 = array_load %0, %2
  %6: i32 = mul %3, %5
  %7: i32 = add %6, %4
  array_store %0, %2, %7
  return
}";
    for n in [1, 31, 33, 63, 64, 65, 100, 333] {
        for lanes in [32, 64] {
            check_lanes(text, &[n], n, 70, lanes);
        }
    }
}

/// Rows of a flat array are stored from cache lines on, wherever they begin.
#[test]
fn rows_of_flat_arrays_are_stored_from_cache_lines_on() {
    let text = "
kernel @k(%0 out: array<i32, 1>, %1 stride: i32) {
  %2: i32 = tid 0
  %3: i32 = tid 1
  %4: i32 = mul %2, %1
  %5: i32 = add %4, %3
  %6: i32 = const 2
  %7: i32 = add %5, %6
  %8: i32 = array_load %0, %7
  %9: i32 = add %8, %3
  array_store %0, %7, %9
  return
}";
    for n in [5, 130, 517] {
        for lanes in [4, 16, 64] {
            check_lanes(text, &[3, n], 3 * (n + 3), n + 3, lanes);
        }
    }
}
