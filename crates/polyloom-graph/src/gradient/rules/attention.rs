//! The rule of attention.

use crate::attribute::AttributeValue;
use crate::gradient::expression::TensorExpr;
use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;
use polyloom_ir::Scalar;

/// The weights are found again, as softmax of the scores, and what reaches them goes back through softmax.
pub(super) fn attention<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (queries, keys, values) = (q.x[0], q.x[1], q.x[2]);
    let is_causal = q.attributes[0] == AttributeValue::Bool(true);
    let product = |a: TensorExpr<'g>, b| a.binary(TensorOp::MatMul, b);
    let unscaled = product(queries, keys.transpose());
    let rank = unscaled.rank() as i64;
    let scale = |x: TensorExpr<'g>| match q.attributes[1] {
        AttributeValue::Float(scale) => x * scale,
        _ => x / queries.extent(&[queries.rank() as i64 - 1], x.ty().dtype).unary(TensorOp::Sqrt),
    };
    let mut scores = scale(unscaled);
    if is_causal {
        let (of_query, of_key) = (unscaled.indices(rank - 2), unscaled.indices(rank - 1));
        let n_queries = queries.extent(&[queries.rank() as i64 - 2], Scalar::I64);
        let n_keys = keys.extent(&[keys.rank() as i64 - 2], Scalar::I64);
        let is_seen = of_key.binary(TensorOp::LessEqual, of_query + (n_keys - n_queries));
        scores = is_seen.select(scores, f64::NEG_INFINITY);
    }
    let weights = scores.apply(TensorOp::Softmax, &[], &[("axis", (-1i64).into())]);
    let by_weights = product(q.g, values.transpose());
    let total = (by_weights * weights).reduce(TensorOp::Sum, &[rank - 1]);
    let by_scores = scale(weights * (by_weights - total));
    let by_queries = product(by_scores, keys);
    let by_keys = product(by_scores.transpose(), queries);
    let by_values = product(weights.transpose(), q.g);
    vec![Some(by_queries), Some(by_keys), Some(by_values)]
}
