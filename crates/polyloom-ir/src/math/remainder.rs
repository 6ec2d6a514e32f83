//! The exact floating-point remainder.
//!
//! If `t` is a multiple of `b` by a power of two and `q = trunc(a / t)` is below 2^precision, then `q` is the
//! truncated quotient or one more, and `a - q * t` is a multiple of the spacing of `t` smaller than `t`: `fma` gives
//! it exactly. One such step with `t = b` is enough for all but very unequal operands; a loop takes the quotient's
//! bits from the top for those.

use crate::expression::Expr;

/// `x - trunc(x / y) * y`, exactly; the sign is that of `x`.
pub(super) fn remainder<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let (a, b) = (x.abs(), y.abs());
    let largest_quotient = if x.is_f64() { 2f64.powi(52) } else { 2f64.powi(23) };
    let quotient = a / b;
    let needs_loop = quotient.gt(largest_quotient) & a.lt(f64::INFINITY) & b.gt(0.0);
    let builder = x.builder();
    let [magnitude] = builder.branch(
        needs_loop,
        || builder.while_loop([a], |[a]| a.ge(b), |[a]| [reduce(a, scaled(a, b))]),
        // Otherwise the product in `reduce`, with an infinite divisor, would be NaN.
        || [a.lt(b).select(a, reduce(a, b))],
    );
    magnitude.copysign(x)
}

/// `a` modulo `t`, for `a / t` below 2^precision.
fn reduce<'g>(a: Expr<'g>, t: Expr<'g>) -> Expr<'g> {
    let remainder = (-(a / t).trunc()).fma(t, a);
    remainder.lt(0.0).select(remainder + t, remainder)
}

/// The multiple of `b` by a power of two that is just small enough for [`reduce`], and not less than `b`.
fn scaled<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    let (precision, bias, mantissa_bits) = if b.is_f64() { (52, 1023, 52) } else { (23, 127, 23) };
    let shift = (exponent(a) - exponent(b) - (precision - 1)).max(0);
    // There are two factors, because the whole power may be out of range while each half of it is not.
    let half = shift >> 1;
    let power = |shift: Expr<'g>| ((shift + bias) << mantissa_bits).float_from_bits();
    b * power(half) * power(shift - half)
}

/// The biased exponent of a positive finite number, continued below zero for subnormal ones.
fn exponent(x: Expr<'_>) -> Expr<'_> {
    let (smallest_normal, mantissa_bits) =
        if x.is_f64() { (f64::MIN_POSITIVE, 52) } else { (f64::from(f32::MIN_POSITIVE), 23) };
    let subnormal = x.lt(smallest_normal);
    let field = subnormal.select(x * 2f64.powi(64), x).bits() >> mantissa_bits;
    subnormal.select(field - 64, field)
}
