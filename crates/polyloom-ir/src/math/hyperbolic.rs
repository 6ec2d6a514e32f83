//! Hyperbolic functions and their inverses.
//!
//! Those of `e^x` are built on the exponential as a rounded sum with its rest; the inverses on `log(1 + y)`, with `y`
//! as such a sum too. Quotients and roots are corrected for their rounding errors, so that hardly more than the
//! last rounding is left.

use super::exponential::{exp_sum, exp2_plus_one, expm1_sum};
use super::inverse_trigonometric::rough_reciprocal;
use super::logarithm::log1p_sum;
use crate::expression::Expr;
use std::f64::consts::LOG2_E;

/// The magnitude of `x`, but no more than `largest`; NaN stays NaN.
fn limited_magnitude<'g>(x: Expr<'g>, largest: f64) -> Expr<'g> {
    let magnitude = x.abs();
    magnitude.gt(largest).select(x.constant(largest), magnitude)
}

/// A magnitude for which the hyperbolic sine and cosine overflow while a quarter of `e^x` does not.
fn overflowing(x: Expr<'_>) -> f64 {
    if x.is_f64() { 710.5 } else { 89.5 }
}

/// Hyperbolic sine: with `e = e^|x| - 1`, half of `e + e / (e + 1)`. Both are quartered on the way.
pub(super) fn sinh(x: Expr<'_>) -> Expr<'_> {
    let (e, e_rest) = expm1_sum(limited_magnitude(x, overflowing(x)), 2);
    // Past this the quotient is 1, a quarter of which is of no account.
    let largest = 2f64.powi(60);
    let numerator = e.gt(largest).select(x.constant(largest), e);
    let denominator = numerator.fma(4.0, 1.0);
    let denominator_rest = e_rest.fma(4.0, numerator.fma(4.0, 1.0 - denominator));
    let quotient = numerator / denominator;
    let residual = (-quotient).fma(denominator, numerator) + (-quotient).fma(denominator_rest, e_rest);
    let sum = e + quotient;
    let rest = residual.fma(rough_reciprocal(denominator), ((e - sum) + quotient) + e_rest);
    let half = sum + rest;
    x.abs().lt(2f64.powi(-60)).select(x, (half + half).copysign(x))
}

/// Hyperbolic cosine: half of `e^|x| + e^-|x|`.
pub(super) fn cosh(x: Expr<'_>) -> Expr<'_> {
    let (quarter, rest) = exp_sum(limited_magnitude(x, overflowing(x)), 2);
    let half = quarter + (rest + 0.0625 / quarter);
    half + half
}

/// `(tanh(a) / a - 1) / a^2` by `a^2` for `a` up to [`TANH_MIDDLE`], minimax in `f32`: error of the whole 2^-30.1.
const TANH_F32: [f64; 8] = [
    -0.3333332539,
    0.1333309710,
    -0.05394392833,
    0.02174630761,
    -0.008509383537,
    0.002973873634,
    -0.0007750654477,
    0.0001046354082,
];
/// From here on rounding errors of `2 / (e^(2 a) + 1)` are small beside the tangent, and those of the polynomial are not.
const TANH_MIDDLE: f64 = 1.05;

/// Hyperbolic tangent.
pub(super) fn tanh(x: Expr<'_>) -> Expr<'_> {
    if x.is_f64() { tanh_f64(x) } else { tanh_f32(x) }
}

/// Near zero `a` plus a polynomial, farther out `1 - 2 / (e^(2 a) + 1)`: one division, and no correction.
fn tanh_f32(x: Expr<'_>) -> Expr<'_> {
    let a = limited_magnitude(x, 9.25);
    let square = a * a;
    let near = (a * square.polynomial(&TANH_F32)).fma(square, a);
    let far = 1.0 - 2.0 / exp2_plus_one(a, 2.0 * LOG2_E);
    a.lt(TANH_MIDDLE).select(near, far).copysign(x)
}

/// With `e = e^(2 |x|) - 1`, the quotient `e / (e + 2)`.
fn tanh_f64(x: Expr<'_>) -> Expr<'_> {
    let doubled = limited_magnitude(x, 22.0) * 2.0;
    let (e, e_rest) = expm1_sum(doubled, 0);
    let denominator = e + 2.0;
    // The error of the sum takes the longer form, because its greater operand is not known.
    let added = denominator - e;
    let denominator_rest = ((e - (denominator - added)) + (2.0 - added)) + e_rest;
    let quotient = e / denominator;
    let residual = (-quotient).fma(denominator, e) + (-quotient).fma(denominator_rest, e_rest);
    residual.fma(rough_reciprocal(denominator), quotient).copysign(x)
}

/// From here on `1 + x^2` is `x^2`, and the sum of `x` and its root `2 x`.
const LARGE: f64 = (1u64 << 30) as f64;

/// The logarithm of `1 + y + y_rest`, or that of `2 a` for a large `a`, for which `1 + y` is that.
fn logarithm_of_sum<'g>(a: Expr<'g>, y: Expr<'g>, y_rest: Expr<'g>) -> Expr<'g> {
    let (large, zero) = (a.gt(LARGE), a.constant(0.0));
    let value = log1p_sum(
        large.select(a - 1.0, y),
        Some(large.select(zero, y_rest)),
        Some(large.select(a.constant(1.0), zero)),
    );
    a.lt(f64::INFINITY).select(value, a)
}

/// Inverse hyperbolic sine: the logarithm of `|x| + sqrt(x^2 + 1)`.
pub(super) fn asinh(x: Expr<'_>) -> Expr<'_> {
    let a = x.abs();
    let square = a * a;
    let square_rest = a.fma(a, -square);
    let sum = square + 1.0;
    let sum_rest = ((1.0 - sum) + square) + square_rest;
    let root = sum.sqrt();
    let root_rest = ((-root).fma(root, sum) + sum_rest) * (0.5 / root);
    let root = root - 1.0;
    let y = a + root;
    logarithm_of_sum(a, y, ((a - y) + root) + root_rest).copysign(x)
}

/// Inverse hyperbolic cosine: with `t = x - 1`, the logarithm of `1 + t + sqrt(2 t + t^2)`.
pub(super) fn acosh(x: Expr<'_>) -> Expr<'_> {
    let t = x - 1.0;
    let t_rest = (x - t) - 1.0;
    let doubled = t * 2.0;
    let square = t.fma(t, doubled);
    let square_rest = t.fma(t, doubled - square);
    let root = square.sqrt();
    // At x = 1 the root is zero and so is the residual.
    let root_rest = ((-root).fma(root, square) + square_rest) * (rough_reciprocal(root) * 0.5);
    let y = root + t;
    let value = logarithm_of_sum(x, y, ((root - y) + t) + (root_rest + t_rest));
    x.ge(1.0).select(value, f64::NAN)
}

/// Inverse hyperbolic tangent: half the logarithm of `1 + 2 |x| / (1 - |x|)`.
pub(super) fn atanh(x: Expr<'_>) -> Expr<'_> {
    let a = x.abs();
    let denominator = 1.0 - a;
    let denominator_rest = (1.0 - denominator) - a;
    let numerator = a + a;
    let quotient = numerator / denominator;
    let residual = (-quotient).fma(denominator_rest, (-quotient).fma(denominator, numerator));
    let rest = residual * rough_reciprocal(denominator);
    let value = log1p_sum(quotient, Some(rest), None) * 0.5;
    let outside = a.eq(1.0).select(x.constant(f64::INFINITY), f64::NAN);
    a.lt(1.0).select(value, outside).copysign(x)
}
