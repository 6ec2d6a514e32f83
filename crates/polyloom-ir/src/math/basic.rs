//! Library functions of a few exact steps: rounding, signs, interpolation, classification, floor division.

use crate::expression::{Expr, IntoExpr};
use crate::types::Scalar;

/// Rounds to the nearest integer, ties away from zero.
///
/// Adding the largest number below one half, not one half itself, keeps 0.5 - ulp below 1 and leaves numbers whose
/// spacing is one or more alone.
pub(super) fn round(x: Expr<'_>) -> Expr<'_> {
    let below_half = if x.is_f64() { 0.5_f64.next_down() } else { f64::from(0.5_f32.next_down()) };
    (x + x.constant(below_half).copysign(x)).trunc()
}

/// -1 below zero, else 1.
pub(super) fn sign(x: Expr<'_>) -> Expr<'_> {
    let one = x.constant(1);
    if x.scalar().is_unsigned_int() { one } else { x.lt(0).select(-one, one) }
}

/// 1 below zero, else 0.
pub(super) fn step(x: Expr<'_>) -> Expr<'_> {
    x.lt(0).select(x.constant(1), 0)
}

/// Cubic interpolation from 0 at `a` to 1 at `b`.
pub(super) fn smoothstep<'g>(a: Expr<'g>, b: Expr<'g>, x: Expr<'g>) -> Expr<'g> {
    let t = ((x - a) / (b - a)).max(0.0).min(1.0);
    t * t * (3.0 - t * 2.0)
}

/// The quotient of integers rounded toward negative infinity; 0 for a divisor of zero.
pub(super) fn floor_divide<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    let quotient = a / b;
    if a.scalar().is_unsigned_int() {
        return quotient;
    }
    let remainder = a % b;
    // A zero divisor leaves the remainder `a`; `b` itself then has neither sign.
    let opposite_signs = (remainder.lt(0) & b.gt(0)) | (remainder.gt(0) & b.lt(0));
    quotient - opposite_signs.cast(a.scalar())
}

/// The bits of a float without its sign.
pub(super) fn magnitude_bits(x: Expr<'_>) -> Expr<'_> {
    x.bits() & if x.is_f64() { i64::MAX } else { i64::from(i32::MAX) }
}

/// The sign bit of a float, in its place.
pub(super) fn sign_bit(x: Expr<'_>) -> Expr<'_> {
    x.bits() & if x.is_f64() { i64::MIN } else { i64::from(i32::MIN) }
}

/// The magnitude of `x` with the sign of `y`, positive if that is a NaN.
pub(super) fn copysign<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let bit = sign_bit(y);
    (magnitude_bits(x) | y.ne(y).select(bit.constant(0), bit)).float_from_bits()
}

/// The bits of infinity; the magnitude bits of a NaN are greater.
pub(super) fn infinity_bits(x: Expr<'_>) -> Expr<'_> {
    let bits = if x.is_f64() { f64::INFINITY.to_bits() as i64 } else { i64::from(f32::INFINITY.to_bits()) };
    bits.into_expr(x.bits())
}

/// Returns the number of bits that are set: added within ever larger groups, the last four or eight bytes by a product.
pub(super) fn bit_count(x: Expr<'_>) -> Expr<'_> {
    let (unsigned, wide) = match x.scalar() {
        Scalar::I8 | Scalar::U8 => (Scalar::U8, Scalar::U32),
        Scalar::I16 | Scalar::U16 => (Scalar::U16, Scalar::U32),
        Scalar::I64 | Scalar::U64 => (Scalar::U64, Scalar::U64),
        _ => (Scalar::U32, Scalar::U32),
    };
    let bits = if x.scalar() == unsigned { x } else { x.bitcast(unsigned) };
    let bits = if unsigned == wide { bits } else { bits.cast(wide) };
    let repeated = |byte: i64| bits.constant(byte * 0x0101_0101_0101_0101);
    let pairs = bits - ((bits >> 1) & repeated(0x55));
    let fours = (pairs & repeated(0x33)) + ((pairs >> 2) & repeated(0x33));
    let bytes = (fours + (fours >> 4)) & repeated(0x0f);
    ((bytes * repeated(1)) >> (i64::from(wide.bits()) - 8)).cast(Scalar::I32)
}
