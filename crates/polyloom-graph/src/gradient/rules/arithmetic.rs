//! Rules of arithmetic, of choices, and of the activations whose decomposition would overflow.

use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;

pub(super) fn add<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.g), Some(q.g)]
}

pub(super) fn subtract<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.g), Some(-q.g)]
}

pub(super) fn multiply<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.scale(q.g, q.x[1])), Some(q.scale(q.g, q.x[0]))]
}

pub(super) fn divide<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let by_a = q.divide(q.g, q.x[1]);
    vec![Some(by_a), Some(-q.scale(by_a, q.r))]
}

/// It is `a - b * n`, where `n` is a whole number that the rounded `a / b` may miss.
pub(super) fn remainder<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let n = ((q.x[0] - q.r) / q.x[1]).unary(TensorOp::Round);
    vec![Some(q.g), Some(-q.scale(q.g, n))]
}

/// It is `b * a**(b - 1)` by `a`, and `a**b * log(a)` by `b`.
pub(super) fn power<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (a, b) = (q.x[0], q.x[1]);
    // Most exponents are constants, and most of those are small.
    let by_a = match b.as_constant() {
        Some(0.0) => None,
        Some(1.0) => Some(q.g),
        Some(2.0) => Some(q.scale(q.g, a * 2.0)),
        Some(exponent) => Some(q.scale(q.g, a.binary(TensorOp::Power, exponent - 1.0) * exponent)),
        None => {
            let slope = b * a.binary(TensorOp::Power, b - 1.0);
            // `x**0` has no slope, not even where the lower power is infinite.
            Some(q.scale(q.g, b.equals(0.0).select(0.0, slope)))
        }
    };
    let is_zero = a.equals(0.0).binary(TensorOp::LogicalOr, q.r.equals(0.0));
    let growth = is_zero.select(0.0, q.r * a.unary(TensorOp::Log));
    vec![by_a, Some(q.scale(q.g, growth))]
}

pub(super) fn negative<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(-q.g)]
}

pub(super) fn absolute<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.scale(q.g, q.x[0].unary(TensorOp::Sign)))]
}

/// Equal values are told apart by their order.
pub(super) fn extremum<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let is_first = q.r.equals(q.x[0]);
    vec![Some(q.taken_where(is_first)), Some(q.taken_unless(is_first))]
}

pub(super) fn copysign<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let signs = [q.x[0], q.x[1]].map(|x| x.after_number(TensorOp::Copysign, 1.0));
    vec![Some(q.g * (signs[0] * signs[1])), None]
}

pub(super) fn select<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![None, Some(q.taken_where(q.x[0])), Some(q.taken_unless(q.x[0]))]
}

pub(super) fn cast<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.g)]
}

/// At 0 it is 0, as users of neural networks expect, where its decomposition, `maximum(x, 0)`, would take the first.
pub(super) fn relu<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.taken_where(q.x[0].binary(TensorOp::Greater, 0.0)))]
}

/// The decomposition would multiply the exponential, which overflows, by 0.
pub(super) fn sigmoid<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.scale(q.g, q.r * (1.0 - q.r)))]
}

/// The parts of the decomposition have no derivative at 0; their sum has one.
pub(super) fn softplus<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.scale(q.g, q.x[0].unary(TensorOp::Sigmoid)))]
}
