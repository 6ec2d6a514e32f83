//! Rules of reductions.

use crate::gradient::expression::TensorExpr;
use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;

/// Returns the axes of a reduction, and its result and cotangent of the operand's rank.
fn undropped<'g>(q: &GradientQuery<'g>) -> (Vec<i64>, TensorExpr<'g>, TensorExpr<'g>) {
    let axes = q.attributes[0].ints();
    if q.attributes[1].flag() {
        return (axes, q.r, q.g);
    }
    let (r, g) = (q.undrop(q.r, &axes), q.undrop(q.g, &axes));
    (axes, r, g)
}

pub(super) fn sum<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (_, _, g) = undropped(q);
    vec![Some(g)]
}

/// It is the product of the other elements: of those that are not 0, times that of the zeros among them. The latter is 1 without
/// zeros, and the element itself if there is one, so that it has a derivative too.
pub(super) fn prod<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (axes, _, g) = undropped(q);
    let is_zero = q.x[0].equals(0.0);
    let without_zeros = is_zero.select(1.0, q.x[0]);
    let zeros = is_zero.select(q.x[0], 0.0);
    let count = is_zero.cast(q.x[0].ty().dtype);
    let sum_of_others = |x: TensorExpr<'g>| x.reduce(TensorOp::Sum, &axes) - x;
    let n_other_zeros = sum_of_others(count);
    let only_zero = n_other_zeros.equals(1.0).select(sum_of_others(zeros), 0.0);
    let product_of_zeros = n_other_zeros.equals(0.0).select(1.0, only_zero);
    let product_of_rest = without_zeros.reduce(TensorOp::Prod, &axes) / without_zeros;
    vec![Some(q.scale(g, product_of_rest * product_of_zeros))]
}

/// It goes to the first element that is the largest. Axes are reduced from the last on, so that this is the first in row-major
/// order: the first along an outer axis, and within it the first along an inner one.
pub(super) fn extremum<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (axes, _, g) = undropped(q);
    let (mut x, mut choices) = (q.x[0], Vec::new());
    let index_op = if q.op == TensorOp::Max { TensorOp::Argmax } else { TensorOp::Argmin };
    for &axis in axes.iter().rev() {
        let index = x.apply(index_op, &[], &[("axis", axis.into()), ("keepdims", true.into())]);
        choices.push(x.indices(axis).equals(index));
        x = x.reduce(q.op, &[axis]);
    }
    q.has_untaken.set(!choices.is_empty() || q.has_untaken.get());
    vec![Some(choices.into_iter().rev().fold(g, |g, is_chosen| is_chosen.select(g, 0.0)))]
}

/// Returns the differences from the mean, and the number of elements less the correction.
fn deviations<'g>(q: &GradientQuery<'g>, axes: &[i64]) -> (TensorExpr<'g>, TensorExpr<'g>) {
    let x = q.x[0];
    let n = x.element_count(axes);
    let divisor = match q.attributes[2].int() {
        0 => n,
        correction => (n - correction as f64).binary(TensorOp::Maximum, 0.0),
    };
    (x - x.reduce(TensorOp::Mean, axes), divisor)
}

/// The decomposition would add the sum of the differences from the mean, which is 0 up to rounding.
pub(super) fn var<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (axes, _, g) = undropped(q);
    let (difference, divisor) = deviations(q, &axes);
    vec![Some(q.scale(g, difference * 2.0 / divisor))]
}

/// The root of the decomposition has an infinite slope at 0.
pub(super) fn std<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (axes, r, g) = undropped(q);
    let (difference, divisor) = deviations(q, &axes);
    let slope = r.equals(0.0).select(0.0, difference / (r * divisor));
    vec![Some(q.scale(g, slope))]
}

/// The decomposition would divide by the sum of exponentials, and add what goes to the maximum and is 0 up to rounding.
pub(super) fn logsumexp<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (_, r, g) = undropped(q);
    // Minus infinity less itself would be NaN.
    let shift = r.equals(f64::NEG_INFINITY).select(0.0, r);
    vec![Some(q.scale(g, (q.x[0] - shift).unary(TensorOp::Exp)))]
}

/// The root of the decomposition has an infinite slope at 0.
pub(super) fn norm<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (_, r, g) = undropped(q);
    vec![Some(q.scale(g, r.equals(0.0).select(0.0, q.x[0] / r)))]
}
