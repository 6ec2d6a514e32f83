//! f32 and f64 arithmetic with PTX's rounding modes, flushing, saturation and NaNs (PTX ISA 9.0 §9.7.3).
//!
//! The f32 functions compute in f64, where the exact result or its rounding to odd is at hand; what is rounded to the
//! nearest is left to the host, whose arithmetic is IEEE's. f64 with a direction goes through `rustc_apfloat`.

use super::Rounding;
use super::narrow::{F32, narrow};
use rustc_apfloat::{Float, Round, ieee::Double};

/// The NaN that f32 instructions give.
pub(crate) const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// `.ftz`: subnormals become zeros of their sign.
#[inline]
pub(crate) fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    if bits & 0x7f80_0000 == 0 { f32::from_bits(bits & 0x8000_0000) } else { x }
}

/// `flush` if asked.
#[inline]
pub(crate) fn flush_if(ftz: bool, x: f32) -> f32 {
    if ftz { flush(x) } else { x }
}

/// PTX's one NaN for any.
#[inline]
pub(crate) fn canonical(x: f32) -> f32 {
    if x.is_nan() { NAN } else { x }
}

/// `.sat`: into [0, 1], NaN becoming 0.
#[inline]
pub(crate) fn saturate(x: f32) -> f32 {
    if x > 0.0 { if x > 1.0 { 1.0 } else { x } } else { 0.0 }
}

/// `saturate` for f64.
#[inline]
pub(crate) fn saturate_f64(x: f64) -> f64 {
    if x > 0.0 { if x > 1.0 { 1.0 } else { x } } else { 0.0 }
}

/// A sum and its rounding error, exact unless it overflows (Knuth's TwoSum).
#[inline]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// `rounded + error`, rounded to odd, `rounded` being its rounding to the nearest. An `error` that is no number is
/// zero.
#[inline]
pub(crate) fn odd(rounded: f64, error: f64) -> f64 {
    let bits = rounded.to_bits();
    let inexact = error.abs() > 0.0 && bits & 1 == 0;
    let away = (error > 0.0) == (rounded > 0.0);
    let moved = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact { moved } else { bits })
}

/// `two_sum` for f32.
#[inline]
pub(crate) fn two_sum_f32(a: f32, b: f32) -> (f32, f32) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// A value rounded to odd, `rounded` being its rounding to the nearest, which it is above or below, or neither.
#[inline]
pub(crate) fn odd_f32(rounded: f32, above: bool, below: bool) -> f32 {
    let bits = rounded.to_bits();
    let inexact = (above | below) & (bits & 1 == 0);
    let away = above == rounded.is_sign_positive();
    let moved = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f32::from_bits(if inexact { moved } else { bits })
}

/// `a * b + c` rounded once to the nearest. Fast because it needs no call, unlike `mul_add` where the build's target
/// has no such instruction.
#[inline]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    let (sum, error) = two_sum(f64::from(a) * f64::from(b), c.into());
    odd(sum, error) as f32
}

/// The operations that have directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DirectedOperation {
    Add,
    Sub,
    Mul,
    /// `a * b + c`
    Fma,
    Div,
    /// Of `a`.
    Sqrt,
}

/// An f32 operation in any mode.
pub(crate) fn directed(operation: DirectedOperation, rounding: Rounding, a: f32, b: f32, c: f32) -> f32 {
    let (x, y, z) = (f64::from(a), f64::from(b), f64::from(c));
    let exact = match operation {
        DirectedOperation::Add => with_zero_sign(two_sum(x, y), x, y, rounding),
        DirectedOperation::Sub => with_zero_sign(two_sum(x, -y), x, -y, rounding),
        DirectedOperation::Mul => x * y,
        DirectedOperation::Fma => with_zero_sign(two_sum(x * y, z), x * y, z, rounding),
        DirectedOperation::Div => {
            let quotient = x / y;
            // The remainder's sign, over the divisor's, is that of the error.
            odd(quotient, (-quotient).mul_add(y, x) * y.signum())
        }
        DirectedOperation::Sqrt => {
            let root = x.sqrt();
            odd(root, (-root).mul_add(root, x))
        }
    };
    canonical(f32::from_bits(narrow(exact, F32, rounding) as u32))
}

/// The sum rounded to odd; an exact zero of unlike signs is negative when rounding down (IEEE 754-2019 §6.3).
fn with_zero_sign((sum, error): (f64, f64), a: f64, b: f64, rounding: Rounding) -> f64 {
    if sum == 0.0 && rounding == Rounding::Down && (a.is_sign_negative() || b.is_sign_negative()) {
        return -0.0;
    }
    odd(sum, error)
}

/// An f64 operation in any mode.
pub(crate) fn directed_f64(operation: DirectedOperation, rounding: Rounding, a: f64, b: f64, c: f64) -> f64 {
    if rounding == Rounding::Nearest {
        return match operation {
            DirectedOperation::Add => a + b,
            DirectedOperation::Sub => a - b,
            DirectedOperation::Mul => a * b,
            DirectedOperation::Fma => a.mul_add(b, c),
            DirectedOperation::Div => a / b,
            DirectedOperation::Sqrt => a.sqrt(),
        };
    }
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return f64::NAN;
    }
    let round = round(rounding);
    let [x, y, z] = [a, b, c].map(|value| Double::from_bits(value.to_bits().into()));
    let result = match operation {
        DirectedOperation::Add => x.add_r(y, round).value,
        DirectedOperation::Sub => x.sub_r(y, round).value,
        DirectedOperation::Mul => x.mul_r(y, round).value,
        DirectedOperation::Fma => x.mul_add_r(y, z, round).value,
        DirectedOperation::Div => x.div_r(y, round).value,
        DirectedOperation::Sqrt => return directed_root(a, rounding),
    };
    f64::from_bits(result.to_bits() as u64)
}

fn directed_root(x: f64, rounding: Rounding) -> f64 {
    if x <= 0.0 || x.is_infinite() {
        return x.sqrt();
    }
    // Scaled so that the remainder does not underflow; both factors are powers of two.
    let (scaled, back) = if x < 1e-200 { (x * f64::exp2(400.0), f64::exp2(-200.0)) } else { (x, 1.0) };
    let root = scaled.sqrt();
    let error = (-root).mul_add(root, scaled);
    let bits = match rounding {
        Rounding::Zero | Rounding::Down if error < 0.0 => root.to_bits() - 1,
        Rounding::Up if error > 0.0 => root.to_bits() + 1,
        _ => root.to_bits(),
    };
    f64::from_bits(bits) * back
}

pub(crate) fn round(rounding: Rounding) -> Round {
    match rounding {
        Rounding::Nearest => Round::NearestTiesToEven,
        Rounding::NearestAway => Round::NearestTiesToAway,
        Rounding::Zero => Round::TowardZero,
        Rounding::Down => Round::TowardNegative,
        Rounding::Up => Round::TowardPositive,
    }
}

/// An integer as f32, in any mode.
pub(crate) fn f32_from_integer(value: i128, rounding: Rounding) -> f32 {
    let bits = rustc_apfloat::ieee::Single::from_i128_r(value, round(rounding)).value.to_bits();
    f32::from_bits(bits as u32)
}

/// An integer as f64, in any mode.
pub(crate) fn f64_from_integer(value: i128, rounding: Rounding) -> f64 {
    f64::from_bits(Double::from_i128_r(value, round(rounding)).value.to_bits() as u64)
}

/// `min` and `max` with PTX's rules: −0 is less than +0, a NaN loses against a number, unless `.NaN` is given.
#[inline]
pub(crate) fn extremum(larger: bool, nan: bool, a: f32, b: f32) -> f32 {
    let a_wins = if a == b { a.is_sign_negative() != larger } else { (a < b) != larger };
    let pick = if a_wins { a } else { b };
    if a.is_nan() || b.is_nan() {
        return if nan || a.is_nan() && b.is_nan() {
            NAN
        } else if a.is_nan() {
            b
        } else {
            a
        };
    }
    pick
}

/// `extremum` for f64, which has no `.NaN`.
#[inline]
pub(crate) fn extremum_f64(larger: bool, a: f64, b: f64) -> f64 {
    if a.is_nan() {
        return b;
    }
    if b.is_nan() {
        return a;
    }
    let a_wins = if a == b { a.is_sign_negative() != larger } else { (a < b) != larger };
    if a_wins { a } else { b }
}

/// Rounds to an integer, in any mode.
#[inline]
pub(crate) fn integral(x: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => x.round_ties_even(),
        Rounding::NearestAway => x.round(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}
