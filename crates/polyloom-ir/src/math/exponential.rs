//! Exponentials.
//!
//! `x` is split as `n ln 2 + r` with an integer `n` and `|r|` at most half of `ln 2`; `e^r` is a polynomial, and the
//! result is scaled by `2^n` in two steps, so that a subnormal result is rounded once and overflow gives infinity.

use crate::expression::{Expr, IntoExpr};

/// `e^r` on ±0.3468. f32: `fpminimax(exp(x), [|2,…,6|], [|SG…|], [-0.3468;0.3468], relative, 1 + x)`, error 2^-28.2.
const EXP_F32: [f64; 7] = [1.0, 1.0, 0.49999994, 0.1666652, 0.041668233, 0.008368818, 0.0013823851];
/// Like [`EXP_F32`], `[|2,…,11|]` in `D`: error 2^-57.9.
const EXP_F64: [f64; 12] = [
    1.0,
    1.0,
    0.5000000000000011,
    0.16666666666666421,
    0.041666666666526825,
    0.008333333333488643,
    0.0013888888944412249,
    0.00019841269519453028,
    2.4801492348440482e-05,
    2.755757458056556e-06,
    2.763050187187333e-07,
    2.5003895907820405e-08,
];
/// `2^r` on ±0.5. f32: `fpminimax(2^x, [|1,…,6|], [|SG…|], [-0.5001;0.5001], relative, 1)`, error 2^-28.0.
const EXP2_F32: [f64; 7] = [1.0, 0.6931472, 0.24022645, 0.055503584, 0.009618829, 0.0013391473, 0.00015243398];
/// Like [`EXP2_F32`], `[|1,…,11|]` in `D`: error 2^-57.3.
const EXP2_F64: [f64; 12] = [
    1.0,
    0.6931471805599453,
    0.24022650695910136,
    0.05550410866482233,
    0.009618129107592572,
    0.0013333558146358705,
    0.000154035304587881,
    1.5252733828792048e-05,
    1.3215434541072126e-06,
    1.0178076641344715e-07,
    7.073898734280998e-09,
    4.4515126732731573e-10,
];

/// `ln 2` in two parts, the first short enough for its product with any exponent to be exact.
pub(super) fn ln_2(x: Expr<'_>) -> (f64, f64) {
    if x.is_f64() { (0.6931471805601177, -1.7239444525614835e-13) } else { (0.69314575, 1.4286068e-06) }
}

/// An integer as a float, and as the low bits of an integer.
#[derive(Clone, Copy)]
pub(super) struct FloatInteger<'g> {
    /// The integer.
    pub(super) float: Expr<'g>,
    /// The integer in the low half of the word; the high half is of no meaning.
    pub(super) low_bits: Expr<'g>,
}

/// `x * factor` rounded to an integer below 2^22 (f32) or 2^51 (f64) in magnitude.
///
/// Added to 1.5 · 2^23 (2^52), a number has its integer part in the low bits of its mantissa. That is cheaper than
/// rounding and converting, whose conversion must saturate.
pub(super) fn nearest_integer<'g>(x: Expr<'g>, factor: f64) -> FloatInteger<'g> {
    let shift = if x.is_f64() { 1.5 * 2f64.powi(52) } else { 1.5 * 2f64.powi(23) };
    let shifted = if factor == 1.0 { x + shift } else { x.fma(factor, shift) };
    FloatInteger { float: shifted - shift, low_bits: shifted.bits() }
}

/// `2^(n - down)` for `n` in the low bits of an integer: its bits if it is a normal float.
fn power_of_two(n: Expr<'_>, down: i64) -> Expr<'_> {
    let (one, mantissa_bits) =
        if n.scalar().bytes() == 8 { (1f64.to_bits() as i64, 52) } else { (i64::from(1f32.to_bits()), 23) };
    ((n << mantissa_bits) + (one - (down << mantissa_bits))).float_from_bits()
}

/// `value * 2^n` for `n` up to twice the range of exponents, rounded once.
fn scale<'g>(value: Expr<'g>, n: FloatInteger<'g>) -> Expr<'g> {
    let half = n.low_bits >> 1;
    value * power_of_two(half, 0) * power_of_two(n.low_bits - half, 0)
}

/// `x` limited to `low` … `high`; NaN stays NaN.
fn limit<'g>(x: Expr<'g>, low: impl IntoExpr<'g> + Copy, high: impl IntoExpr<'g> + Copy) -> Expr<'g> {
    let x = x.gt(high).select(x.constant(high), x);
    x.lt(low).select(x.constant(low), x)
}

/// `x - n ln 2` as a rounded value and what the rounding left, with its `n`.
fn reduce(x: Expr<'_>) -> (Expr<'_>, Expr<'_>, FloatInteger<'_>) {
    let (high, low) = ln_2(x);
    let n = nearest_integer(x, std::f64::consts::LOG2_E);
    let exact = n.float.fma(-high, x);
    let r = n.float.fma(-low, exact);
    (r, n.float.fma(-low, exact - r), n)
}

/// e to the power `x`.
pub(super) fn exp(x: Expr<'_>) -> Expr<'_> {
    let x = if x.is_f64() { limit(x, -746.0, 710.0) } else { limit(x, -104.0, 89.0) };
    let (r, _, n) = reduce(x);
    scale(r.polynomial(if x.is_f64() { &EXP_F64 } else { &EXP_F32 }), n)
}

/// e to the power `x + rest`, for a normal result.
pub(super) fn exp_normal<'g>(x: Expr<'g>, rest: Expr<'g>) -> Expr<'g> {
    let (r, _, n) = reduce(x);
    (r + rest).polynomial(if x.is_f64() { &EXP_F64 } else { &EXP_F32 }) * power_of_two(n.low_bits, 0)
}

/// e to the power `x + rest`, for a `rest` that is a rounding error of `x`; where `x` is out of range, anything.
pub(super) fn exp_of_sum<'g>(x: Expr<'g>, rest: Expr<'g>) -> Expr<'g> {
    let limited = limit(x, -746.0, 710.0);
    let rest = limited.eq(x).select(rest, 0.0);
    let (r, r_rest, n) = reduce(limited);
    let power = r.polynomial(&EXP_F64);
    scale(power.fma(r_rest + rest, power), n)
}

/// `2^r` on ±0.5 as [`EXP2_F32`], in `D`: error 2^-28.9.
const EXP2_SHORT: [f64; 7] = [
    1.0,
    0.6931472028809585,
    0.24022647910274791,
    0.055503324096040335,
    0.00961843760712154,
    0.001339890020142881,
    0.0001535334088587846,
];

/// 2 to the power `x`, an `f64`, to the precision of `f32` and over a little more than its range.
pub(super) fn exp2_of_power(x: Expr<'_>) -> Expr<'_> {
    let x = limit(x, -152.0, 130.0);
    let n = nearest_integer(x, 1.0);
    (x - n.float).polynomial(&EXP2_SHORT) * power_of_two(n.low_bits, 0)
}

/// 2 to the power `x`.
pub(super) fn exp2(x: Expr<'_>) -> Expr<'_> {
    let x = if x.is_f64() { limit(x, -1076.0, 1025.0) } else { limit(x, -151.0, 129.0) };
    let n = nearest_integer(x, 1.0);
    scale((x - n.float).polynomial(if x.is_f64() { &EXP2_F64 } else { &EXP2_F32 }), n)
}

/// `2^(x factor) + 1` for an `f32` product from 0 to 126, rounded once after the polynomial.
pub(super) fn exp2_plus_one(x: Expr<'_>, factor: f64) -> Expr<'_> {
    let n = nearest_integer(x, factor);
    let fraction = x.fma(factor, -n.float);
    fraction.polynomial(&EXP2_F32).fma(power_of_two(n.low_bits, 0), 1.0)
}

/// `e^x` as `power (1 + r + rest)`, all divided by `2^down`.
struct ExpParts<'g> {
    power: Expr<'g>,
    linear: Expr<'g>,
    rest: Expr<'g>,
}

fn parts(x: Expr<'_>, down: i64) -> ExpParts<'_> {
    let (r, r_rest, n) = reduce(x);
    let power = power_of_two(n.low_bits, down);
    let quadratic = r.polynomial(if x.is_f64() { &EXP_F64[2..] } else { &EXP_F32[2..] });
    let rest = (r * r).fma(quadratic, r_rest.fma(r, r_rest));
    ExpParts { power, linear: power * r, rest }
}

/// The rounded sum and its error, for `a` that is zero or not smaller than `b`.
pub(super) fn two_sum<'g>(a: Expr<'g>, b: Expr<'g>) -> (Expr<'g>, Expr<'g>) {
    let sum = a + b;
    (sum, (a - sum) + b)
}

/// `e^x / 2^down` as a rounded value and its error, for `x` such that this is a normal number.
pub(super) fn exp_sum(x: Expr<'_>, down: i64) -> (Expr<'_>, Expr<'_>) {
    let ExpParts { power, linear, rest } = parts(x, down);
    let sum = power + linear;
    two_sum(sum, power.fma(rest, (power - sum) + linear))
}

/// `(e^x - 1) / 2^down` as a rounded value and its error, for `x` such that `e^x / 2^down` is a normal number.
///
/// The sum is of `2^n - 1` and `2^n r`, whose rounding errors go to the rest.
pub(super) fn expm1_sum(x: Expr<'_>, down: i64) -> (Expr<'_>, Expr<'_>) {
    let ExpParts { power, linear, rest } = parts(x, down);
    let one = 2f64.powi(-down as i32);
    let offset = power - one;
    let offset_error = (power - offset) - one;
    let sum = offset + linear;
    two_sum(sum, power.fma(rest, ((offset - sum) + linear) + offset_error))
}

/// `e^x - 1`, halved on the way lest a power overflow. The lower limit of `x` is where the result is -1.
pub(super) fn expm1(x: Expr<'_>) -> Expr<'_> {
    let limited = if x.is_f64() { limit(x, -45.0, 710.0) } else { limit(x, -40.0, 89.0) };
    let (half, _) = expm1_sum(limited, 1);
    x.abs().lt(2f64.powi(-60)).select(x, half + half)
}
