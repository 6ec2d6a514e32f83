//! Control flow: every region op, every way out of it, nested in each other, uniform and not.

use super::EngineSubject;
use super::launch::{compare, dense};
use super::values::{RandomOperands, edges};
use polyloom_ir::Scalar;
use polyloom_ir::interp::BufferMemory;

/// Runs a kernel of an `i32` input and an `i32` output, one element per thread.
fn check(subject: &EngineSubject<'_>, body: &str) {
    let text = format!(
        "kernel @k(%a a: array<i32, 1>, %out out: array<i32, 1>) {{\n%i: i32 = tid 0\n%x: i32 = array_load %a, %i\n{body}\n}}\n"
    );
    let mut random = RandomOperands::new(4);
    let mut inputs: Vec<u64> = (0..40).map(|x: i64| (x - 10) as u32 as u64).collect();
    inputs.extend((0..60).map(|_| random.bits() % 97));
    let mut memory = BufferMemory::default();
    let args = [
        dense(&mut memory, Scalar::I32, &[inputs.len()], &inputs),
        dense(&mut memory, Scalar::I32, &[inputs.len()], &vec![7; inputs.len()]),
    ];
    compare(subject, &text, &[inputs.len() as u64], &args, &memory);
}

/// Bodies of kernels. `%x` is the thread's input, `%out` takes its result at `%i`.
const BODIES: &[&str] = &[
    // A branch with results.
    "%zero: i32 = const 0
     %c: bool = lt %x, %zero
     %r: i32 = if %c { %n: i32 = neg %x
       yield %n
     } else { yield %x }
     array_store %out, %i, %r
     return",
    // A branch whose sides both only yield, and one without results.
    "%five: i32 = const 5
     %c: bool = gt %x, %five
     %r: i32, %s: i32 = if %c { yield %x, %five } else { yield %five, %x }
     %d: i32 = sub %r, %s
     if %c { array_store %out, %i, %d
       yield } else { yield }
     return",
    // Nested branches, an early return, unreachable code behind a branch that never completes.
    "%zero: i32 = const 0
     %ten: i32 = const 10
     %c: bool = lt %x, %zero
     if %c { return } else { yield }
     %d: bool = lt %x, %ten
     if %d { array_store %out, %i, %ten
       return } else { array_store %out, %i, %x
       return }
     unreachable",
    // A counted loop to a bound of the thread's own.
    "%zero: i32 = const 0
     %one: i32 = const 1
     %r: i32 = for_range %zero, %x, %one, %zero (%k: i32, %sum: i32) { %t: i32 = mul %k, %k
       %next: i32 = add %sum, %t
       yield %next }
     array_store %out, %i, %r
     return",
    // Counting down, by steps that do not divide the distance, by a step that is not constant, and by zero.
    "%zero: i32 = const 0
     %minus: i32 = const -3
     %r: i32 = for_range %x, %zero, %minus, %zero (%k: i32, %sum: i32) { %next: i32 = add %sum, %k
       yield %next }
     %low: i32 = const -20
     %high: i32 = const 50
     %seven: i32 = const 7
     %s: i32 = for_range %low, %high, %seven, %r (%k2: i32, %sum2: i32) { %two: i32 = const 2
       %dbl: i32 = mul %sum2, %two
       %n2: i32 = add %dbl, %k2
       yield %n2 }
     %t: i32 = for_range %low, %high, %x, %s (%k3: i32, %sum3: i32) { %n3: i32 = bit_xor %sum3, %k3
       yield %n3 }
     %u: i32 = for_range %high, %low, %x, %t (%k4: i32, %sum4: i32) { %n4: i32 = add %sum4, %k4
       yield %n4 }
     %v: i32 = for_range %low, %high, %zero, %u (%k5: i32, %sum5: i32) { yield %k5 }
     array_store %out, %i, %v
     return",
    // Counters that would overflow past the end.
    "%zero: i32 = const 0
     %top: i32 = const 2147483647
     %near: i32 = const 2147483600
     %nine: i32 = const 9
     %r: i32 = for_range %near, %top, %nine, %zero (%k: i32, %n: i32) { %one: i32 = const 1
       %next: i32 = add %n, %one
       yield %next }
     %bottom: i32 = const -2147483648
     %down: i32 = const -2147483647
     %s: i32 = for_range %top, %bottom, %down, %r (%k2: i32, %n2: i32) { %next2: i32 = add %n2, %k2
       yield %next2 }
     %t: i32 = for_range %bottom, %top, %top, %s (%k3: i32, %n3: i32) { %next3: i32 = bit_xor %n3, %k3
       yield %next3 }
     %u: i32 = for_range %top, %bottom, %bottom, %t (%k4: i32, %n4: i32) { %next4: i32 = add %n4, %k4
       yield %next4 }
     array_store %out, %i, %u
     return",
    // Unsigned and narrow counters.
    "%z8: u8 = const 0
     %x8: u8 = cast %x
     %s8: u8 = const 100
     %lo8: u8 = const 3
     %hi8: u8 = const 255
     %r: u8 = for_range %lo8, %hi8, %s8, %z8 (%k: u8, %sum: u8) { %next: u8 = add %sum, %k
       yield %next }
     %q: u8 = for_range %x8, %hi8, %x8, %r (%k2: u8, %sum2: u8) { %next2: u8 = bit_xor %sum2, %k2
       yield %next2 }
     %xi: i8 = cast %x
     %li: i8 = const -128
     %hi: i8 = const 127
     %z: i8 = const 0
     %w: i8 = for_range %li, %hi, %xi, %z (%k3: i8, %sum3: i8) { %next3: i8 = add %sum3, %k3
       yield %next3 }
     %a1: i32 = cast %q
     %a2: i32 = cast %w
     %sh: i32 = const 8
     %a3: i32 = lshift %a2, %sh
     %res: i32 = bit_xor %a1, %a3
     array_store %out, %i, %res
     return",
    // break, continue and return inside a loop, with carried values.
    "%zero: i32 = const 0
     %one: i32 = const 1
     %fifty: i32 = const 50
     %r: i32, %s: i32 = for_range ^L %zero, %fifty, %one, %zero, %x (%k: i32, %p: i32, %q: i32) {
       %c: bool = eq %k, %x
       if %c { break ^L %k, %p } else { yield }
       %m: i32 = bit_and %k, %one
       %odd: bool = eq %m, %one
       if %odd { %p1: i32 = add %p, %q
         continue ^L %p1, %q } else { yield }
       %t: i32 = const 1000
       %big: bool = gt %p, %t
       if %big { array_store %out, %i, %k
         return } else { yield }
       %q1: i32 = add %q, %k
       yield %p, %q1 }
     %res: i32 = sub %r, %s
     array_store %out, %i, %res
     return",
    // A while loop: the Collatz steps of the input.
    "%zero: i32 = const 0
     %one: i32 = const 1
     %two: i32 = const 2
     %three: i32 = const 3
     %start: i32 = max %x, %one
     %v: i32, %n: i32 = while %start, %zero (%w: i32, %m: i32) { %more: bool = gt %w, %one
       yield %more } do (%w2: i32, %m2: i32) {
       %bit: i32 = bit_and %w2, %one
       %even: bool = eq %bit, %zero
       %next: i32 = if %even { %half: i32 = div %w2, %two
         yield %half } else { %t: i32 = mul %w2, %three
         %t1: i32 = add %t, %one
         yield %t1 }
       %m3: i32 = add %m2, %one
       yield %next, %m3 }
     array_store %out, %i, %n
     return",
    // break and continue of a while loop; a break in its condition.
    "%zero: i32 = const 0
     %one: i32 = const 1
     %hundred: i32 = const 100
     %r: i32 = while ^W %zero (%n: i32) { %wild: bool = gt %n, %hundred
       if %wild { %neg: i32 = neg %n
         break ^W %neg } else { yield }
       %more: bool = ne %n, %x
       yield %more } do (%n2: i32) {
       %three: i32 = const 3
       %m: i32 = bit_and %n2, %three
       %is: bool = eq %m, %three
       if %is { %two: i32 = const 2
         %skip: i32 = add %n2, %two
         continue ^W %skip } else { yield }
       %n3: i32 = add %n2, %one
       yield %n3 }
     array_store %out, %i, %r
     return",
    // A block left early from two depths, as an inlined function with early returns is.
    "%zero: i32 = const 0
     %ten: i32 = const 10
     %one: i32 = const 1
     %r: i32 = block ^B { %neg: bool = lt %x, %zero
       if %neg { break ^B %zero } else { yield }
       %s: i32 = for_range %zero, %x, %one, %zero (%k: i32, %sum: i32) { %big: bool = gt %sum, %ten
         if %big { %far: i32 = mul %k, %ten
           break ^B %far } else { yield }
         %next: i32 = add %sum, %k
         yield %next }
       yield %s }
     array_store %out, %i, %r
     return",
    // Loops left and continued from an inner loop.
    "%zero: i32 = const 0
     %one: i32 = const 1
     %six: i32 = const 6
     %r: i32 = for_range ^O %zero, %six, %one, %zero (%ka: i32, %s: i32) {
       %t: i32 = for_range ^I %zero, %six, %one, %s (%b: i32, %u: i32) {
         %ab: i32 = mul %ka, %b
         %hit: bool = eq %ab, %x
         if %hit { %h: i32 = const 1000
           %v: i32 = add %u, %h
           break ^O %v } else { yield }
         %skip: bool = gt %b, %ka
         if %skip { continue ^O %u } else { yield }
         %five: i32 = const 5
         %stop: bool = eq %ab, %five
         if %stop { break ^I %u } else { yield }
         %u2: i32 = add %u, %ab
         yield %u2 }
       %t2: i32 = add %t, %one
       yield %t2 }
     array_store %out, %i, %r
     return",
    // A loop that only ever breaks, and one that returns on its first turn.
    "%zero: i32 = const 0
     %one: i32 = const 1
     %yes: bool = const true
     %n: i32 = while ^W %x (%v: i32) { yield %yes } do (%v2: i32) { %neg: bool = le %v2, %zero
       if %neg { break ^W %v2 } else { yield }
       %seven: i32 = const 7
       %v3: i32 = sub %v2, %seven
       yield %v3 }
     array_store %out, %i, %n
     for_range %zero, %x, %one (%k: i32) { %m: i32 = add %n, %x
       array_store %out, %i, %m
       return }
     return",
    // Values from an enclosing region used deep inside, loop-carried values swapped.
    "%zero: i32 = const 0
     %one: i32 = const 1
     %twelve: i32 = const 12
     %f: i32, %g: i32 = for_range %zero, %twelve, %one, %zero, %one (%k: i32, %a1: i32, %b1: i32) { %c: i32 = add %a1, %b1
       %d: i32 = add %c, %x
       yield %b1, %d }
     %h: i32, %l: i32 = for_range %zero, %x, %one, %f, %g (%k2: i32, %p: i32, %q: i32) { yield %q, %p }
     %e: i32 = sub %h, %l
     array_store %out, %i, %e
     return",
];

/// Carried values of every type through a loop and a branch.
fn carried_types(subject: &EngineSubject<'_>) {
    for ty in Scalar::ALL {
        let name = ty.name();
        let text = format!(
            "kernel @k(%a a: array<{name}, 1>, %out out: array<{name}, 1>, %s s: {name}) {{
             %i: i32 = tid 0
             %x: {name} = array_load %a, %i
             %zero: i32 = const 0
             %one: i32 = const 1
             %n: i32 = const 5
             %m: i32 = mod %i, %n
             %r: {name}, %q: {name} = for_range %zero, %m, %one, %x, %s (%k: i32, %p1: {name}, %q1: {name}) {{
               %c: bool = eq %k, %one
               %t: {name}, %u: {name} = if %c {{ yield %p1, %q1 }} else {{ yield %q1, %p1 }}
               yield %u, %t }}
             %two: i32 = const 2
             %big: bool = gt %m, %two
             %w: {name} = where %big, %r, %q
             array_store %out, %i, %w
             return }}"
        );
        let values = edges(ty);
        let mut memory = BufferMemory::default();
        let args = [
            dense(&mut memory, ty, &[values.len()], &values),
            dense(&mut memory, ty, &[values.len()], &vec![0; values.len()]),
            polyloom_ir::interp::InterpArg::Scalar(values[values.len() / 2]),
        ];
        compare(subject, &text, &[values.len() as u64], &args, &memory);
    }
}

/// Every shape of control flow.
pub fn all(subject: &EngineSubject<'_>) {
    for body in BODIES {
        check(subject, body);
    }
    carried_types(subject);
}
