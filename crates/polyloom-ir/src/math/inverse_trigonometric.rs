//! Arc functions.
//!
//! The arc tangent of a quotient has a polynomial for quotients up to 1; a larger one is turned upside down and the
//! result taken from π/2. The arc sine has one for arguments up to 1/2; the others are those of the square root of
//! `(1 - x) / 2`. Rounding errors of quotient and root are estimated and taken back, and so are those of the sum with
//! the multiple of π/2.

use super::exponential::two_sum;
use crate::expression::Expr;
use std::f64::consts::{FRAC_PI_2, PI};

/// `atan(t)` from the coefficient of `t^3` on, in powers of `t^2`. f32: `fpminimax(atan(x), [|3,…,19|], [|SG…|],
/// [1e-20;1.0001], relative, x)`, error 2^-28.5.
const ATAN_F32: [f64; 9] =
    [-0.333333, 0.19998534, -0.142641, 0.10951472, -0.08401426, 0.057923626, -0.031144435, 0.0108968, -0.0017896532];
/// Like [`ATAN_F32`], `[|3,…,41|]` in `D` up to 1.0000001: error 2^-57.6.
const ATAN_F64: [f64; 20] = [
    -0.3333333333333307,
    0.19999999999951756,
    -0.1428571428258855,
    0.1111111100735493,
    -0.09090907008003221,
    0.07692279891000324,
    -0.06666404438125824,
    0.05880529884631202,
    -0.052535270810123054,
    0.04722349272371464,
    -0.04219245750844715,
    0.03664320101486249,
    -0.029905808530938067,
    0.021987148701625398,
    -0.013902640213831682,
    0.007197925453698526,
    -0.0028856277114880893,
    0.0008315651613492065,
    -0.00015221218175449488,
    1.3230089905102343e-05,
];
/// `asin(s)` from the coefficient of `s^3` on, in powers of `s^2`. f32: `fpminimax(asin(x), [|3,…,11|], [|SG…|],
/// [1e-20;0.5001], relative, x)`, error 2^-27.6.
const ASIN_F32: [f64; 5] = [0.16666752, 0.07495307, 0.045469638, 0.024181534, 0.042165037];
/// Like [`ASIN_F32`], `[|3,…,25|]` in `D` up to 0.5000001: error 2^-55.9.
const ASIN_F64: [f64; 12] = [
    0.16666666666665408,
    0.07500000000337102,
    0.04464285682827001,
    0.030381959138991572,
    0.022371758008359242,
    0.017359705323849783,
    0.013885230512373397,
    0.012169241027234282,
    0.006527859385582433,
    0.019528556914528424,
    -0.01622467722437838,
    0.03191254145978924,
];

/// π/2 or π less its rounded value.
fn rounding_of_pi_2(x: Expr<'_>) -> f64 {
    if x.is_f64() { 6.123233995736766e-17 } else { -4.371139e-08 }
}

/// `1 / x` within 7 %, for a positive `x` that is neither subnormal nor past a quarter of the range.
///
/// Negating the bits of a float negates its exponent and, roughly, mirrors its mantissa. Good enough to scale a
/// rounding error with.
pub(super) fn rough_reciprocal(x: Expr<'_>) -> Expr<'_> {
    let bits = x.bits();
    let twice_one = if x.is_f64() { 0x7fde_0000_0000_0000 } else { 0x7ef0_0000 };
    (bits.constant(twice_one) - bits).float_from_bits()
}

/// `base + atan(numerator / denominator)`, for a positive denominator not less than the numerator's magnitude, and
/// `base` a multiple of π/2 given by its rounded value.
fn arctangent<'g>(base: Expr<'g>, numerator: Expr<'g>, denominator: Expr<'g>) -> Expr<'g> {
    let quotient = numerator / denominator;
    let residual = (-quotient).fma(denominator, numerator);
    let quotient_rest = residual * rough_reciprocal(denominator);
    let square = quotient * quotient;
    // The derivative of the arc tangent is 1 / (1 + quotient^2), nearly 1 - quotient^2 / 2.
    let quotient_rest = (quotient_rest * square).fma(-0.5, quotient_rest);
    let cubic = square.polynomial(if base.is_f64() { &ATAN_F64 } else { &ATAN_F32 });
    // For quotients near 1, where it matters, the derivative by the square is about -0.12 times the quotient.
    let square_rest = quotient * quotient.fma(quotient, -square);
    // The part of π/2 that its float lacks, as many times as the base has it.
    let base_rest = square_rest.fma(-0.12, base * (rounding_of_pi_2(base) / FRAC_PI_2));
    let (sum, sum_rest) = two_sum(base, quotient);
    sum + (quotient * square).fma(cubic, sum_rest + (base_rest + quotient_rest))
}

/// Arc tangent.
pub(super) fn atan(x: Expr<'_>) -> Expr<'_> {
    let magnitude = x.abs();
    // The magnitude is limited, because past this the result is the same, and `rough_reciprocal` would not serve.
    let largest = 2f64.powi(100);
    let magnitude = magnitude.gt(largest).select(x.constant(largest), magnitude);
    let inverted = magnitude.gt(1.0);
    let one = x.constant(1.0);
    let base = inverted.select(x.constant(FRAC_PI_2), 0.0);
    arctangent(base, inverted.select(-one, magnitude), inverted.select(magnitude, one)).copysign(x)
}

/// The angle of the point (`x`, `y`).
pub(super) fn atan2<'g>(y: Expr<'g>, x: Expr<'g>) -> Expr<'g> {
    let (a, b) = (y.abs(), x.abs());
    let steep = a.gt(b);
    let [larger, smaller] = [steep.select(a, b), steep.select(b, a)];
    // Powers of two bring the coordinates away from the ends of the range, so that `rough_reciprocal` serves and
    // residuals are exact.
    let (far, factor) = if x.is_f64() { (2f64.powi(900), 2f64.powi(-200)) } else { (2f64.powi(100), 2f64.powi(-40)) };
    let one = x.constant(1.0);
    let scale = larger.gt(far).select(x.constant(factor), larger.lt(1.0 / far).select(x.constant(1.0 / factor), one));
    // Equal coordinates are halfway between the axes, infinite ones too; the origin and what is finite beside an
    // infinite coordinate are on an axis.
    let (equal, zero) = (a.eq(b), larger.eq(0.0));
    let special = equal | larger.eq(f64::INFINITY);
    let denominator = special.select(one, larger * scale);
    let numerator = special.select((equal & !zero).select(one, smaller * 0.0), smaller * scale);
    let sign = if x.is_f64() { i64::MIN } else { i64::from(i32::MIN) };
    let left = x.bits() & sign;
    // Seen from the nearer axis, the angle grows toward it in two of the four eighths.
    let flip = left ^ steep.select(left.constant(sign), 0);
    let numerator = (numerator.bits() ^ flip).float_from_bits();
    let base = steep.select(x.constant(FRAC_PI_2), left.ne(0).select(x.constant(PI), 0.0));
    arctangent(base, numerator, denominator).copysign(y)
}

/// `base ± asin(x)` with the polynomial's argument and multiplier chosen: `base + multiple * s` and so on.
fn arcsine<'g>(base: Expr<'g>, linear: Expr<'g>, square: Expr<'g>, linear_rest: Expr<'g>) -> Expr<'g> {
    let cubic = square.polynomial(if base.is_f64() { &ASIN_F64 } else { &ASIN_F32 });
    let base_rest = base * (rounding_of_pi_2(base) / FRAC_PI_2);
    let (sum, sum_rest) = two_sum(base, linear);
    sum + (linear * square).fma(cubic, sum_rest + (base_rest + linear_rest))
}

/// Describes what the arc sine and cosine share: whether `|x|` is at most 1/2, and the polynomial's argument with the
/// rounding error of twice a root.
struct HalfAngle<'g> {
    small: Expr<'g>,
    magnitude: Expr<'g>,
    square: Expr<'g>,
    root: Expr<'g>,
    doubled_rest: Expr<'g>,
}

fn half_angle(x: Expr<'_>) -> HalfAngle<'_> {
    let magnitude = x.abs();
    let small = magnitude.le(0.5);
    let half = magnitude.fma(-0.5, 0.5);
    let root = half.sqrt();
    // 2 (half - root^2) / (2 root)
    let residual = (-root).fma(root, half) * rough_reciprocal(root);
    let square = small.select(magnitude * magnitude, half);
    HalfAngle { small, magnitude, square, root, doubled_rest: small.select(x.constant(0.0), residual) }
}

/// Arc sine.
pub(super) fn asin(x: Expr<'_>) -> Expr<'_> {
    let HalfAngle { small, magnitude, square, root, doubled_rest } = half_angle(x);
    let base = small.select(x.constant(0.0), FRAC_PI_2);
    let linear = small.select(magnitude, root * -2.0);
    arcsine(base, linear, square, -doubled_rest).copysign(x)
}

/// Arc cosine.
pub(super) fn acos(x: Expr<'_>) -> Expr<'_> {
    let HalfAngle { small, square, root, doubled_rest, .. } = half_angle(x);
    let negative = x.lt(0.0);
    let base = small.select(x.constant(FRAC_PI_2), negative.select(x.constant(PI), 0.0));
    let root = root * 2.0;
    let linear = small.select(-x, negative.select(-root, root));
    arcsine(base, linear, square, negative.select(-doubled_rest, doubled_rest))
}
