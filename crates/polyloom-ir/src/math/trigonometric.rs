//! Sine, cosine and tangent.
//!
//! The angle is reduced to ±π/4, as a value and a rounding error; a polynomial of the value, corrected for the error,
//! gives the function of the remainder, and the quadrant says which function and which sign.

use super::angle::{ReducedAngle, reduce, reduce_small};
use crate::expression::Expr;

/// `sin(r)` from the coefficient of `r^3` on, in powers of `r^2`, negated. f32: `fpminimax(sin(x), [|3,5,7|], [|SG…|],
/// [1e-20;0.7856], relative, x)`, error 2^-27.9.
const SIN_F32: [f64; 3] = [0.16666655, -0.008332189, 0.00019518277];
/// As [`SIN_F32`], `[|3,…,13|]` in `D`: error 2^-57.9.
const SIN_F64: [f64; 6] = [
    0.1666666666666663,
    -0.008333333333321915,
    0.00019841269829453883,
    -2.755731358018261e-06,
    2.505074193536377e-08,
    -1.5895918444378155e-10,
];
/// `cos(r)` from the coefficient of `r^4` on, in powers of `r^2`. f32: `fpminimax(cos(x), [|4,6,8|], [|SG…|],
/// [-0.7856;0.7856], relative, 1 - x^2 / 2)`, error 2^-33.
const COS_F32: [f64; 3] = [0.041666646, -0.0013887311, 2.443256e-05];
/// As [`COS_F32`], `[|4,…,14|]` in `D`: error 2^-63.9.
const COS_F64: [f64; 6] = [
    0.041666666666666595,
    -0.001388888888887334,
    2.4801587288998847e-05,
    -2.755731421554384e-07,
    2.08757051196967e-09,
    -1.1358731395262075e-11,
];
/// `tan(r)` from the coefficient of `r^3` on, in powers of `r^2`. f32: `fpminimax(tan(x), [|3,…,15|], [|SG…|],
/// [1e-20;0.7856], relative, x)`, error 2^-29.6.
const TAN_F32: [f64; 7] = [0.3333335, 0.13332675, 0.054058917, 0.021286165, 0.010827618, 9.794688e-05, 0.0043728817];
/// As [`TAN_F32`], `[|3,…,29|]` in `D`: error 2^-56.2.
const TAN_F64: [f64; 14] = [
    0.33333333333332776,
    0.1333333333341485,
    0.0539682539265503,
    0.021869489611964114,
    0.008863219120922566,
    0.003592289482018005,
    0.001454755449824064,
    0.0005950755935698668,
    0.00022234716515732628,
    0.00013659388178504804,
    -2.6483766998050437e-05,
    8.954303851221369e-05,
    -4.49260018812782e-05,
    2.0875254045876257e-05,
];

/// The sine of the remainder. A zero keeps its sign, because the excess of a zero is +0.
fn sine<'g>(ReducedAngle { r, excess, .. }: ReducedAngle<'g>, square: Expr<'g>) -> Expr<'g> {
    let cubic = square.polynomial(if r.is_f64() { &SIN_F64 } else { &SIN_F32 });
    r - (r * square).fma(cubic, excess)
}

/// The cosine of the remainder. `1 - r^2 / 2` keeps its rounding error.
fn cosine<'g>(ReducedAngle { r, excess, .. }: ReducedAngle<'g>, square: Expr<'g>) -> Expr<'g> {
    let quartic = square.polynomial(if r.is_f64() { &COS_F64 } else { &COS_F32 });
    let parabola = square.fma(-0.5, 1.0);
    let error = square.fma(-0.5, 1.0 - parabola);
    parabola + (square * square).fma(quartic, r.fma(excess, error))
}

/// `if_odd` in odd quadrants, else `if_even`.
fn by_parity<'g>(quadrant: Expr<'g>, if_odd: Expr<'g>, if_even: Expr<'g>) -> Expr<'g> {
    (quadrant & 1).ne(0).select(if_odd, if_even)
}

/// The value, negated in the second half of a turn.
fn by_half<'g>(quadrant: Expr<'g>, value: Expr<'g>) -> Expr<'g> {
    let (sign, width) = if value.is_f64() { (i64::MIN, 64) } else { (i64::from(i32::MIN), 32) };
    (value.bits() ^ ((quadrant << (width - 2)) & sign)).float_from_bits()
}

fn sin_of(reduced: ReducedAngle<'_>) -> Expr<'_> {
    let square = reduced.r * reduced.r;
    by_half(reduced.quadrant, by_parity(reduced.quadrant, cosine(reduced, square), sine(reduced, square)))
}

fn cos_of(reduced: ReducedAngle<'_>) -> Expr<'_> {
    let square = reduced.r * reduced.r;
    by_half(reduced.quadrant + 1, by_parity(reduced.quadrant, sine(reduced, square), cosine(reduced, square)))
}

/// Sine.
pub(super) fn sin(x: Expr<'_>) -> Expr<'_> {
    sin_of(reduce(x))
}

/// Cosine.
pub(super) fn cos(x: Expr<'_>) -> Expr<'_> {
    cos_of(reduce(x))
}

/// Sine and cosine of an angle of a few turns.
pub(super) fn sin_cos_small(x: Expr<'_>) -> [Expr<'_>; 2] {
    let reduced = reduce_small(x);
    [sin_of(reduced), cos_of(reduced)]
}

/// Tangent.
///
/// In odd quadrants it is `-1 / tan(r)`; the quotient is corrected for the error of the tangent and for its own.
pub(super) fn tan(x: Expr<'_>) -> Expr<'_> {
    let ReducedAngle { r, excess, quadrant } = reduce(x);
    let square = r * r;
    let cubic = square.polynomial(if r.is_f64() { &TAN_F64 } else { &TAN_F32 });
    // The derivative of the tangent is 1 + tan(r)^2, nearly 1 + 1.5 r^2; that by the square is at most 0.6 r.
    let square_error = r.fma(r, -square);
    let excess = (excess * square).fma(1.5, (r * square_error).fma(-0.6, excess));
    let rest = (r * square).fma(cubic, -excess);
    let tangent = r + rest;
    let tangent_rest = (r - tangent) + rest;
    let reciprocal = -1.0 / tangent;
    let residual = reciprocal.fma(tangent_rest, reciprocal.fma(tangent, 1.0));
    by_parity(quadrant, reciprocal.fma(residual, reciprocal), tangent)
}
