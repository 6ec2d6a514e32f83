//! Constants: ops of them alone are computed by the evaluator, in the type of the result, or in `f64` over the real numbers.

use super::options::IdentityStrength;
use super::term::{TermId, TermStore, push_constant, push_number, real};
use crate::op::TensorOp;
use crate::reference::evaluate_scalar;
use polyloom_ir::Scalar;

/// Returns the term of the result, if all operands are constants.
pub(super) fn fold<S: TermStore>(store: &mut S, op: TensorOp, operands: &[TermId], dtype: Scalar) -> Option<TermId> {
    if operands.iter().any(|&operand| store.constant_bits(operand).is_none()) {
        return None;
    }
    let is_real = store.strength() == IdentityStrength::Mathematics;
    let widened = |dtype: Scalar| if is_real && dtype.is_float() { Scalar::F64 } else { dtype };
    let values: Option<Vec<(Scalar, u64)>> = operands
        .iter()
        .map(|&operand| Some((widened(store.ty(operand).dtype), store.constant_bits(operand)?)))
        .collect();
    let values = values?;
    if is_real && dtype.is_float() {
        let arguments: Vec<f64> = operands.iter().filter_map(|&operand| real(store, operand)).collect();
        let value = match (op, &arguments[..]) {
            (TensorOp::Add, [a, b]) => snap(a + b),
            (TensorOp::Subtract, [a, b]) => snap(a - b),
            (TensorOp::Multiply, [a, b]) => snap(a * b),
            (TensorOp::Divide, [a, b]) => snap(a / b),
            _ => f64::from_bits(evaluate_scalar(op, &values, Scalar::F64)?),
        };
        return value.is_finite().then(|| push_number(store, dtype, value));
    }
    let bits = evaluate_scalar(op, &values, widened(dtype))?;
    Some(push_constant(store, dtype, bits))
}

/// Applies a function to a real number by the evaluator, whose results are the same on every machine, as those of a system's library are not.
pub(super) fn apply_real(op: TensorOp, value: f64) -> f64 {
    evaluate_scalar(op, &[(Scalar::F64, value.to_bits())], Scalar::F64).map_or(f64::NAN, f64::from_bits)
}

/// Returns the fraction of a small denominator that a computed number is a rounding of, so that `3 * (1 / 3)` is 1 in every order.
pub(super) fn snap(value: f64) -> f64 {
    const LARGEST_DENOMINATOR: f64 = 4096.0;
    if !value.is_finite() || value.fract() == 0.0 || value.abs() > 1e9 {
        return value;
    }
    // The continued fraction.
    let (mut previous, mut current) = ((0.0, 1.0), (1.0, 0.0));
    let mut rest = value;
    for _ in 0..24 {
        let whole = rest.floor();
        (previous, current) = (current, (whole * current.0 + previous.0, whole * current.1 + previous.1));
        if current.1 > LARGEST_DENOMINATOR {
            return value;
        }
        let fraction = current.0 / current.1;
        if (fraction - value).abs() <= 8.0 * f64::EPSILON * value.abs() {
            return fraction;
        }
        rest = 1.0 / (rest - whole);
    }
    value
}
