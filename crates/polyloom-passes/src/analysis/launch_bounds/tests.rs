use super::*;
use polyloom_ir::{FileId, parse_module};

/// Sixteen words for each parameter: a scalar is the first, and extents follow it.
struct Words;

impl ArgumentWords for Words {
    fn scalar(&self, param: u32) -> usize {
        16 * param as usize
    }

    fn extent(&self, param: u32, axis: u8) -> usize {
        16 * param as usize + 1 + usize::from(axis)
    }
}

enum Given<'a> {
    Scalar(u64),
    Extents(&'a [u64]),
}
use Given::{Extents, Scalar};

fn bounds(text: &str) -> LaunchBounds {
    let module = parse_module(text, FileId::from_u32(0)).expect("the text is HIR");
    let kernel = module.find("k").expect("it has a kernel `k`");
    LaunchBounds::of(&module, kernel, &Words)
}

/// The first thread that is seen outside: coordinates along the launch's axes, the parameter, axis and index.
fn outside(text: &str, dim: &[u64], given: &[Given<'_>]) -> Option<(Vec<u64>, u32, u8, i128)> {
    let mut words = vec![0; 16 * given.len()];
    for (param, given) in given.iter().enumerate() {
        match given {
            Scalar(bits) => words[16 * param] = *bits,
            Extents(extents) => words[16 * param + 1..][..extents.len()].copy_from_slice(extents),
        }
    }
    let mut extents = [1; MAX_DIMS];
    extents[..dim.len()].copy_from_slice(dim);
    let found = bounds(text).find_outside(&extents, &words)?;
    Some((found.thread[..dim.len()].to_vec(), found.param, found.axis, found.index))
}

fn unverified(text: &str) -> Vec<Option<UnverifiedReason>> {
    bounds(text).indices().iter().map(|index| index.unverified).collect()
}

/// A kernel of an array `x` and two integers.
fn of_array(body: &str) -> String {
    format!("kernel @k(%x x: array<f32, 1>, %n n: i32, %m m: i32) {{\n%i: i32 = tid 0\n{body}\nreturn\n}}")
}

fn load(index: &str) -> String {
    format!("%v{index}: f32 = array_load %x, %{index}")
}

#[test]
fn the_first_thread_past_an_end_is_named() {
    let text = of_array(&load("i"));
    let at = |dim: u64, extent: u64| outside(&text, &[dim], &[Extents(&[extent]), Scalar(0), Scalar(0)]);
    assert_eq!(at(10, 10), None);
    assert_eq!(at(11, 10), Some((vec![10], 0, 0, 10)));
    assert_eq!(at(50_000_000, 10), Some((vec![10], 0, 0, 10)));
    assert_eq!(at(1, 0), Some((vec![0], 0, 0, 0)));
    assert_eq!(at(0, 0), None);
}

#[test]
fn negative_indices_count_from_the_end_once() {
    let text = of_array(&format!("%c: i32 = const 3\n%j: i32 = sub %i, %c\n{}", load("j")));
    let at = |dim: u64, extent: u64| outside(&text, &[dim], &[Extents(&[extent]), Scalar(0), Scalar(0)]);
    assert_eq!(at(6, 3), None);
    assert_eq!(at(1, 2), Some((vec![0], 0, 0, -3)));
    assert_eq!(at(7, 3), Some((vec![6], 0, 0, 3)));
    let unsigned = of_array(&format!("%u: u32 = cast %i\n%c: u32 = const 1\n%j: u32 = sub %u, %c\n{}", load("j")));
    let at = |dim: u64| outside(&unsigned, &[dim], &[Extents(&[5]), Scalar(0), Scalar(0)]);
    assert_eq!(at(3), Some((vec![0], 0, 0, 4_294_967_295)));
}

#[test]
fn guards_leave_threads_out() {
    let guarded = of_array(&format!("%b: bool = lt %i, %n\nif %b {{\n{}\nyield\n}} else {{\nyield\n}}", load("i")));
    let early = of_array(&format!("%b: bool = ge %i, %n\nif %b {{\nreturn\n}} else {{\nyield\n}}\n{}", load("i")));
    for text in [guarded, early] {
        let at = |dim: u64, n: i32| outside(&text, &[dim], &[Extents(&[10]), Scalar(u64::from(n as u32)), Scalar(0)]);
        assert_eq!(at(256, 10), None);
        assert_eq!(at(256, -4), None);
        assert_eq!(at(256, 12), Some((vec![10], 0, 0, 10)));
        assert_eq!(at(10, 12), None);
        assert_eq!(unverified(&text), [None]);
    }
}

#[test]
fn both_and_either_of_two_conditions_are_told_apart() {
    // 0 < i and i < n - 1: the neighbours on both sides are inside.
    let stencil = "%c0: i32 = const 0\n%c1: i32 = const 1\n%e: i32 = dim 0 %x\n%l: i32 = sub %e, %c1
        %a: bool = gt %i, %c0\n%b: bool = lt %i, %l\n%both: bool = bit_and %a, %b
        %j: i32 = sub %i, %c1\n%q: i32 = add %i, %c1";
    let inside =
        of_array(&format!("{stencil}\nif %both {{\n{}\n{}\nyield\n}} else {{\nyield\n}}", load("j"), load("q")));
    assert_eq!(unverified(&inside), [None, None]);
    for dim in [1, 10, 64] {
        assert_eq!(outside(&inside, &[dim], &[Extents(&[10]), Scalar(0), Scalar(0)]), None);
    }
    // Where not both hold, the thread is at one end or past the other.
    let ends = of_array(&format!("{stencil}\nif %both {{\nyield\n}} else {{\n{}\nyield\n}}", load("i")));
    assert_eq!(unverified(&ends), [None]);
    assert_eq!(outside(&ends, &[10], &[Extents(&[10]), Scalar(0), Scalar(0)]), None);
    assert_eq!(outside(&ends, &[12], &[Extents(&[10]), Scalar(0), Scalar(0)]), Some((vec![10], 0, 0, 10)));
}

#[test]
fn coordinates_may_have_factors_that_the_launch_is_given() {
    let text = "kernel @k(%x x: array<f32, 1>, %w w: i32) {
        %i: i32 = tid 0\n%j: i32 = tid 1\n%r: i32 = mul %i, %w\n%p: i32 = add %r, %j
        %v: f32 = array_load %x, %p\nreturn\n}";
    let at = |dim: [u64; 2], n: u64, w: u64| outside(text, &dim, &[Extents(&[n]), Scalar(w)]);
    assert_eq!(at([4, 5], 20, 5), None);
    assert_eq!(at([4, 5], 18, 5), Some((vec![3, 3], 0, 0, 18)));
    assert_eq!(at([4, 5], 20, 6), Some((vec![3, 2], 0, 0, 20)));
    assert_eq!(at([1, 5], 5, 1 << 30), None);
    // 8 * 2^30 is 2^33, whose low 32 bits are 0: the index is inside all the same.
    let wraps = of_array(&format!("%c: i32 = const 1073741824\n%j: i32 = mul %i, %c\n{}", load("j")));
    let found = outside(&wraps, &[9], &[Extents(&[10]), Scalar(0), Scalar(0)]);
    assert_eq!(found, Some((vec![1], 0, 0, 1 << 30)));
    let back =
        of_array(&format!("%c: i32 = const 2147483647\n%a: i32 = add %i, %c\n%j: i32 = sub %a, %c\n{}", load("j")));
    assert_eq!(outside(&back, &[10], &[Extents(&[10]), Scalar(0), Scalar(0)]), None);
    assert_eq!(outside(&back, &[11], &[Extents(&[10]), Scalar(0), Scalar(0)]), Some((vec![10], 0, 0, 10)));
    let modulo =
        of_array(&format!("%c: i32 = const -2147483648\n%a: i32 = mul %i, %c\n%j: i32 = add %a, %a\n{}", load("j")));
    assert_eq!(outside(&modulo, &[11], &[Extents(&[1]), Scalar(0), Scalar(0)]), None);
}

#[test]
fn loops_are_looked_through_where_all_threads_run_them_alike() {
    let counted = |start: &str, end: &str, step: i32, body: &str| {
        of_array(&format!(
            "%c0: i32 = const 0\n%c1: i32 = const -1\n%s: i32 = const {step}
            for_range ^0 %{start}, %{end}, %s (%q: i32) {{\n{body}\n{}\nyield\n}}",
            load("q")
        ))
    };
    let at = |text: &str, n: i32, m: i32| {
        let scalar = |n: i32| Scalar(u64::from(n as u32));
        outside(text, &[2], &[Extents(&[10]), scalar(n), scalar(m)])
    };
    let up = counted("c0", "n", 1, "");
    assert_eq!((at(&up, 10, 0), at(&up, 0, 0), at(&up, -3, 0)), (None, None, None));
    assert_eq!(at(&up, 12, 0), Some((vec![0], 0, 0, 10)));
    // 1, 4, 7 and 10.
    let by_three = counted("m", "n", 3, "");
    assert_eq!(at(&by_three, 10, 1), None);
    assert_eq!(at(&by_three, 11, 1), Some((vec![0], 0, 0, 10)));
    let down = counted("n", "c1", -1, "");
    assert_eq!(at(&down, 9, 0), None);
    assert_eq!(at(&down, 11, 0), Some((vec![0], 0, 0, 11)));
    // The first that is outside is 10, but this way round it is 11 that comes to it first.
    let skipped = counted("c0", "n", 1, "%b: bool = lt %q, %m\nif %b {\ncontinue ^0\n} else {\nyield\n}");
    assert_eq!(at(&skipped, 13, 11), Some((vec![0], 0, 0, 11)));
    let left = counted("c0", "n", 1, "%b: bool = eq %q, %m\nif %b {\nbreak ^0\n} else {\nyield\n}");
    assert_eq!(unverified(&left), [Some(UnverifiedReason::Condition)]);
    let by_thread = counted("i", "n", 1, "");
    assert_eq!(unverified(&by_thread), [Some(UnverifiedReason::LoopBounds)]);
}

#[test]
fn calls_are_followed_with_their_arguments() {
    let text = "func @put(%a a: array<f32, 1>, %p p: i32, %v v: f32) {
          %c: i32 = const 0\n%b: bool = lt %p, %c
          if %b {\nreturn\n} else {\nyield\n}
          array_store %a, %p, %v\nreturn\n}
        func @next(%p p: i32) -> (i32) {\n%c: i32 = const 1\n%q: i32 = add %p, %c\nreturn %q\n}
        kernel @k(%x x: array<f32, 1>, %y y: array<f32, 1>) {
          %i: i32 = tid 0\n%v: f32 = array_load %x, %i\n%j: i32 = call @next %i\n%n: i32 = neg %j
          call @put %y, %j, %v\ncall @put %y, %n, %v\nreturn\n}";
    assert_eq!(unverified(text), [None, None, None]);
    assert_eq!(outside(text, &[4], &[Extents(&[4]), Extents(&[5])]), None);
    assert_eq!(outside(text, &[4], &[Extents(&[4]), Extents(&[4])]), Some((vec![3], 1, 0, 4)));
    // Thread 2 is outside of both; the load comes first.
    assert_eq!(outside(text, &[4], &[Extents(&[2]), Extents(&[3])]), Some((vec![2], 0, 0, 2)));
}

#[test]
fn what_memory_decides_is_not_verified() {
    let text = "kernel @k(%x x: array<i32, 1>, %y y: array<i32, 2>) {
        %i: i32 = tid 0\n%j: i32 = array_load %x, %i\n%v: i32 = array_load %y, %j, %i
        %b: bool = cast %j\nif %b {\n%w: i32 = array_load %x, %i\nyield\n} else {\nyield\n}\nreturn\n}";
    assert_eq!(unverified(text), [None, Some(UnverifiedReason::Index), None, Some(UnverifiedReason::Condition)]);
    assert_eq!(outside(text, &[4], &[Extents(&[4]), Extents(&[1, 3])]), Some((vec![3], 1, 1, 3)));
}

#[test]
fn threads_are_in_row_major_order() {
    let text = "kernel @k(%x x: array<f32, 2>) {
        %i: i32 = tid 0\n%j: i32 = tid 1\n%n: i32 = neg %j\n%v: f32 = array_load %x, %i, %n\nreturn\n}";
    assert_eq!(outside(text, &[3, 4], &[Extents(&[3, 3])]), None);
    assert_eq!(outside(text, &[3, 4], &[Extents(&[2, 2])]), Some((vec![0, 3], 0, 1, -3)));
    assert_eq!(outside(text, &[3, 2], &[Extents(&[2, 2])]), Some((vec![2, 0], 0, 0, 2)));
    // A coordinate that the launch does not have is 0.
    assert_eq!(outside(text, &[3], &[Extents(&[3, 1])]), None);
    let linear = "kernel @k(%x x: array<f32, 1>) {\n%i: i32 = tid_linear\n%v: f32 = array_load %x, %i\nreturn\n}";
    assert_eq!(outside(linear, &[3, 4], &[Extents(&[12])]), None);
    assert_eq!(outside(linear, &[3, 4], &[Extents(&[11])]), Some((vec![2, 3], 0, 0, 11)));
}
