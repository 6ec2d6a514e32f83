//! Rules of ops along one axis that keep it: normalisations and scans.

use crate::decompose::build::int;
use crate::gradient::expression::TensorExpr;
use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;

/// The decomposition would divide by the sum of exponentials, whose square may overflow, and go through the maximum.
pub(super) fn softmax<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = int(&q.attributes[0]);
    let mean = q.scale(q.g, q.r).reduce(TensorOp::Sum, &[axis]);
    vec![Some(q.scale(q.g - mean, q.r))]
}

/// As [`softmax`], of which the result is the logarithm.
pub(super) fn log_softmax<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = int(&q.attributes[0]);
    let sum = q.g.reduce(TensorOp::Sum, &[axis]);
    vec![Some(q.g - q.scale(sum, q.r.unary(TensorOp::Exp)))]
}

/// Returns for each element the sum from it to the end of the axis.
fn sums_to_the_end(x: TensorExpr<'_>, axis: i64) -> TensorExpr<'_> {
    x.flip(&[axis]).scan(TensorOp::Cumsum, axis).flip(&[axis])
}

pub(super) fn cumsum<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(sums_to_the_end(q.g, int(&q.attributes[0])))]
}

/// The slope of product k by element i, which is not after it, is the product of the elements up to k other than i. It is that
/// without zeros, if none of these is 0: if there is no zero up to k, or one and that is i.
pub(super) fn cumprod<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = int(&q.attributes[0]);
    let is_zero = q.x[0].equals(0.0);
    let without_zeros = is_zero.select(1.0, q.x[0]);
    let products = q.scale(q.g, without_zeros.scan(TensorOp::Cumprod, axis));
    let n_zeros = is_zero.cast(q.x[0].ty().dtype).scan(TensorOp::Cumsum, axis);
    let sums = |n: f64| sums_to_the_end(n_zeros.equals(n).select(products, 0.0), axis);
    vec![Some(is_zero.select(sums(1.0), sums(0.0) / without_zeros))]
}
