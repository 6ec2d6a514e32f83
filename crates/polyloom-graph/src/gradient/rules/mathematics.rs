//! Rules of mathematical functions.

use crate::gradient::expression::TensorExpr;
use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

fn one_plus_square(x: TensorExpr<'_>) -> TensorExpr<'_> {
    x * x + 1.0
}

/// Returns `(1 - x) (1 + x)`, because `1 - x²` loses its digits near the ends.
fn one_minus_square(x: TensorExpr<'_>) -> TensorExpr<'_> {
    (1.0 - x) * (x + 1.0)
}

/// Returns the quotient by a length, or 0 if that is 0.
fn over_length<'g>(x: TensorExpr<'g>, length: TensorExpr<'g>) -> TensorExpr<'g> {
    length.equals(0.0).select(0.0, x / length)
}

/// Rules of one operand: what the gradient is, given the query and the operand.
macro_rules! rules_of_one {
    ($($name:ident($q:ident, $x:ident) = $gradient:expr;)*) => {
        $(pub(super) fn $name<'g>($q: &GradientQuery<'g>) -> OperandContributions<'g> {
            let $x = $q.x[0];
            let _ = $x;
            vec![Some($gradient)]
        })*
    };
}

rules_of_one! {
    sqrt(q, x) = q.divide(q.g * 0.5, q.r);
    rsqrt(q, x) = q.divide(q.scale(q.g * -0.5, q.r), x);
    cbrt(q, x) = q.divide(q.g * (1.0 / 3.0), q.r * q.r);
    exp(q, x) = q.scale(q.g, q.r);
    exp2(q, x) = q.scale(q.g, q.r * LN_2);
    // `r + 1` has no digits left where `r` is near -1.
    expm1(q, x) = q.scale(q.g, x.unary(TensorOp::Exp));
    log(q, x) = q.divide(q.g, x);
    log2(q, x) = q.divide(q.g * (1.0 / LN_2), x);
    log10(q, x) = q.divide(q.g * (1.0 / LN_10), x);
    log1p(q, x) = q.divide(q.g, x + 1.0);
    sin(q, x) = q.scale(q.g, x.unary(TensorOp::Cos));
    cos(q, x) = -q.scale(q.g, x.unary(TensorOp::Sin));
    tan(q, x) = q.scale(q.g, one_plus_square(q.r));
    asin(q, x) = q.divide(q.g, one_minus_square(x).unary(TensorOp::Sqrt));
    acos(q, x) = -q.divide(q.g, one_minus_square(x).unary(TensorOp::Sqrt));
    atan(q, x) = q.divide(q.g, one_plus_square(x));
    sinh(q, x) = q.scale(q.g, x.unary(TensorOp::Cosh));
    cosh(q, x) = q.scale(q.g, x.unary(TensorOp::Sinh));
    tanh(q, x) = q.scale(q.g, one_minus_square(q.r));
    asinh(q, x) = q.divide(q.g, x.binary(TensorOp::Hypot, 1.0));
    // The product of roots does not overflow.
    acosh(q, x) = q.divide(q.g, (x - 1.0).unary(TensorOp::Sqrt) * (x + 1.0).unary(TensorOp::Sqrt));
    atanh(q, x) = q.divide(q.g, one_minus_square(x));
    erf(q, x) = q.scale(q.g, bell(x));
    erfc(q, x) = -q.scale(q.g, bell(x));
}

fn bell(x: TensorExpr<'_>) -> TensorExpr<'_> {
    (-(x * x)).unary(TensorOp::Exp) * FRAC_2_SQRT_PI
}

/// The quotients are by the length twice, because the square of the length may overflow or vanish.
pub(super) fn atan2<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (a, b) = (q.x[0], q.x[1]);
    let length = a.binary(TensorOp::Hypot, b);
    let slope = |x: TensorExpr<'g>| over_length(over_length(x, length), length);
    vec![Some(q.scale(q.g, slope(b))), Some(-q.scale(q.g, slope(a)))]
}

pub(super) fn hypot<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    q.x.iter().map(|&x| Some(q.scale(q.g, over_length(x, q.r)))).collect()
}
