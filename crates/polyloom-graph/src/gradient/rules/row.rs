//! Rules of ops along one axis that keep it: normalisations and scans.

use crate::gradient::expression::TensorExpr;
use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;

/// The decomposition would divide by the sum of exponentials, whose square may overflow, and go through the maximum.
pub(super) fn softmax<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = q.attributes[0].int();
    let mean = q.scale(q.g, q.r).reduce(TensorOp::Sum, &[axis]);
    vec![Some(q.scale(q.g - mean, q.r))]
}

/// As [`softmax`], of which the result is the logarithm.
pub(super) fn log_softmax<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = q.attributes[0].int();
    let sum = q.g.reduce(TensorOp::Sum, &[axis]);
    vec![Some(q.g - q.scale(sum, q.r.unary(TensorOp::Exp)))]
}

/// Returns for each element the sum from it to the end of the axis.
fn sums_to_the_end(x: TensorExpr<'_>, axis: i64) -> TensorExpr<'_> {
    x.flip(&[axis]).scan(TensorOp::Cumsum, axis).flip(&[axis])
}

pub(super) fn cumsum<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(sums_to_the_end(q.g, q.attributes[0].int()))]
}

/// The state before element k along the axis, and another value for the first.
fn before<'g>(states: TensorExpr<'g>, axis: i64, first: f64) -> TensorExpr<'g> {
    let index = states.indices(axis);
    let shifted = states.apply(TensorOp::Gather, &[(index - 1i64).into()], &[("axis", axis.into())]);
    index.binary(TensorOp::Greater, 0i64).select(shifted, first)
}

/// Returns the cotangents of all states of a recurrence, given those of the results: that of state k is the one of result k and
/// the factor of state k + 1 times its cotangent, which is a recurrence from the end on.
fn cotangents_of_states<'g>(factors: TensorExpr<'g>, g: TensorExpr<'g>, axis: i64) -> TensorExpr<'g> {
    // Index -j counts from the end; the first factor of a recurrence has no part in it.
    let reversed = factors.broadcast_to(&g.shape());
    let reversed = reversed.apply(TensorOp::Gather, &[(-g.indices(axis)).into()], &[("axis", axis.into())]);
    let from_the_end = reversed.apply(TensorOp::LinearRecurrence, &[g.flip(&[axis]).into()], &[("axis", axis.into())]);
    from_the_end.flip(&[axis])
}

/// Products are a recurrence whose summands are 0, from 1 on.
pub(super) fn cumprod<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = q.attributes[0].int();
    vec![Some(q.scale(cotangents_of_states(q.x[0], q.g, axis), before(q.r, axis, 1.0)))]
}

pub(super) fn linear_recurrence<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = q.attributes[0].int();
    let g = cotangents_of_states(q.x[0], q.g, axis);
    vec![Some(q.scale(g, before(q.r, axis, 0.0))), Some(g)]
}

/// It goes to the first of the elements that are the result: the last place up to each at which the result was another than
/// before.
pub(super) fn running_extremum<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = q.attributes[0].int();
    let index = q.x[0].indices(axis).broadcast_to(&q.x[0].shape());
    let earlier = q.r.apply(TensorOp::Gather, &[(index - 1i64).into()], &[("axis", axis.into())]);
    // NaN is not NaN, but what follows it is.
    let is_other = earlier.binary(TensorOp::NotEqual, q.r);
    let is_new = is_other.binary(TensorOp::LogicalAnd, earlier.binary(TensorOp::Equal, earlier));
    let place = is_new.select(index, 0i64).scan(TensorOp::Cummax, axis);
    q.has_untaken.set(true);
    let zeros = q.g.zeros(&q.x[0].ty());
    vec![Some(zeros.apply(TensorOp::ScatterAdd, &[place.into(), q.g.into()], &[("axis", axis.into())]))]
}
