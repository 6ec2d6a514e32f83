//! Poisson-distributed random numbers.
//!
//! Small means: Knuth's method, which multiplies uniform samples until the product falls below e^-λ. Means from 10:
//! transformed rejection (PTRS), W. Hörmann, "The transformed rejection method for generating Poisson random
//! variables", Insurance: Mathematics and Economics 12, 1993. The draws come in Warp's order.

use super::random::DrawSource;
use crate::expression::{Expr, ExprBuilder};
use crate::op::Op;
use crate::types::Scalar;
use std::f64::consts::TAU;

/// `(state, mean)`; 0 without a draw for a mean of zero, and 0 for a negative or NaN mean.
pub(super) fn poisson<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let (state, mean) = (x[0], x[1]);
    let builder = mean.builder();
    let [value, state] = builder.branch(
        mean.ge(10.0),
        || transformed_rejection(builder, state, mean),
        || {
            let zero = || [builder.int(Scalar::U32, 0), state];
            builder.branch(mean.eq(0.0), zero, || products(builder, state, mean))
        },
    );
    vec![value, state]
}

fn products<'g>(builder: &'g ExprBuilder, state: Expr<'g>, mean: Expr<'g>) -> [Expr<'g>; 2] {
    let limit = builder.op(Op::Exp, &[-mean]);
    let mut source = DrawSource { state };
    let product = source.uniform();
    let [count, _, state] = builder.while_loop(
        [builder.int(Scalar::U32, 0), product, source.state],
        |[_, product, _]| product.gt(limit),
        |[count, product, state]| {
            let mut source = DrawSource { state };
            [count + 1, product * source.uniform(), source.state]
        },
    );
    [count, state]
}

fn transformed_rejection<'g>(builder: &'g ExprBuilder, state: Expr<'g>, mean: Expr<'g>) -> [Expr<'g>; 2] {
    let log = |x: Expr<'g>| builder.op(Op::Log, &[x]);
    let b = mean.sqrt() * 2.53 + 0.931;
    let a = b * 0.02483 - 0.059;
    let inverse_alpha = 1.1328 / (b - 3.4) + 1.1239;
    let sure_below = 0.9277 - 3.6224 / (b - 2.0);
    let (log_mean, log_inverse_alpha) = (log(mean), log(inverse_alpha));
    let pending = builder.int(Scalar::I32, 1);
    let [_, candidate, state] = builder.while_loop(
        [pending, builder.float(Scalar::F32, 0.0), state],
        |[pending, _, _]| pending.ne(0),
        |[_, _, state]| {
            let mut source = DrawSource { state };
            let u = source.uniform() - 0.5;
            let v = source.uniform();
            let distance = 0.5 - u.abs();
            let k = ((a * 2.0 / distance + b) * u + mean + 0.43).floor();
            let accepted_early = distance.ge(0.07) & v.le(sure_below);
            let rejected_early = k.lt(0.0) | (distance.lt(0.013) & v.gt(distance));
            let left = log(v) + log_inverse_alpha - log(a / (distance * distance) + b);
            let right = k * log_mean - mean - log_gamma(k + 1.0);
            let accepted = accepted_early | (!rejected_early & left.le(right));
            [(!accepted).cast(Scalar::I32), k, source.state]
        },
    );
    [candidate.cast(Scalar::U32), state]
}

/// The logarithm of the gamma function for `x` at least 1, to about the precision of `f32`: Stirling's series at 8
/// or more, which smaller `x` reach by `Γ(x + 8) = x (x + 1) … (x + 7) Γ(x)`.
fn log_gamma<'g>(x: Expr<'g>) -> Expr<'g> {
    let log = |x: Expr<'g>| x.builder().op(Op::Log, &[x]);
    let small = x.lt(8.0);
    let rising = (1..8).fold(x, |product, i| product * (x + i));
    let y = small.select(x + 8.0, x);
    let inverse = 1.0 / y;
    let series = (inverse * inverse).polynomial(&[1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0]) * inverse;
    let stirling = (y - 0.5) * log(y) - y + 0.5 * TAU.ln() + series;
    small.select(stirling - log(rising), stirling)
}
