//! The rule of attention.

use crate::attribute::AttributeValue;
use crate::gradient::expression::TensorExpr;
use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;
use crate::shape::Dim;
use polyloom_ir::Scalar;

/// The queries whose weights are there at a time.
const BLOCK: u64 = 128;

/// The weights are found again, as softmax of the scores, and what reaches them goes back through softmax: for a block of queries
/// after the other, so that no matrix of all weights is in memory, and of causal attention only for the keys that the block sees.
pub(super) fn attention<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let (queries, keys, values) = (q.x[0], q.x[1], q.x[2]);
    let is_causal = q.attributes[0] == AttributeValue::Bool(true);
    let rows_of = |x: TensorExpr<'g>| x.shape().0[x.rank() - 2].as_static();
    let (Some(n_queries), Some(n_keys)) = (rows_of(queries), rows_of(keys)) else {
        let [by_queries, by_keys, by_values] = contributions(q, [queries, keys, values, q.g], None);
        return vec![Some(by_queries), Some(by_keys), Some(by_values)];
    };
    // Each query sees a key if there are no fewer of those.
    let cuts_keys = is_causal && n_keys >= n_queries;
    let mut by_queries = Vec::new();
    let (mut by_keys, mut by_values) = (None, None);
    // The last block sees all keys, and comes first.
    for start in (0..n_queries.div_ceil(BLOCK).max(1)).rev().map(|block| block * BLOCK) {
        let n = BLOCK.min(n_queries - start);
        let n_seen = if cuts_keys { n_keys - n_queries + start + n } else { n_keys };
        let operands = [rows(queries, start, n), rows(keys, 0, n_seen), rows(values, 0, n_seen), rows(q.g, start, n)];
        let [by_block, by_seen_keys, by_seen_values] = contributions(q, operands, Some(start as i64));
        by_queries.push(by_block);
        let add = |sum: &mut Option<TensorExpr<'g>>, seen: TensorExpr<'g>| {
            let mut widths = vec![0; 2 * seen.rank()];
            widths[2 * seen.rank() - 3] = (n_keys - n_seen) as i64;
            let seen = seen.pad(widths);
            *sum = Some(sum.map_or(seen, |sum| sum + seen));
        };
        add(&mut by_keys, by_seen_keys);
        add(&mut by_values, by_seen_values);
    }
    by_queries.reverse();
    let by_queries = by_queries.split_first().map(|(first, others)| {
        let axis = first.rank() as i64 - 2;
        let others: Vec<_> = others.iter().map(|&block| block.into()).collect();
        if others.is_empty() { *first } else { first.apply(TensorOp::Concat, &others, &[("axis", axis.into())]) }
    });
    vec![by_queries, by_keys, by_values]
}

/// Takes neighbouring rows of matrices.
fn rows(x: TensorExpr<'_>, start: u64, n: u64) -> TensorExpr<'_> {
    let mut sizes = x.shape();
    let axis = sizes.rank() - 2;
    if sizes.0[axis] == Dim::Static(n) {
        return x;
    }
    let mut starts = vec![0; sizes.rank()];
    starts[axis] = start as i64;
    sizes.0[axis] = Dim::Static(n);
    x.slice(starts, sizes)
}

/// Returns the contributions by queries, keys and values, given those and the cotangent of the results of the queries, of which the
/// first is number `start`; all of them if that is not given.
fn contributions<'g>(q: &GradientQuery<'g>, operands: [TensorExpr<'g>; 4], start: Option<i64>) -> [TensorExpr<'g>; 3] {
    let [queries, keys, values, g] = operands;
    let product = |a: TensorExpr<'g>, b| a.binary(TensorOp::MatMul, b);
    let unscaled = product(queries, keys.transpose());
    let rank = unscaled.rank() as i64;
    let scale = |x: TensorExpr<'g>| match q.attributes[1] {
        AttributeValue::Float(scale) => x * scale,
        _ => x / queries.extent(&[queries.rank() as i64 - 1], x.ty().dtype).unary(TensorOp::Sqrt),
    };
    let mut scores = scale(unscaled);
    if q.attributes[0] == AttributeValue::Bool(true) {
        let of_query = unscaled.indices(rank - 2);
        let of_query = if let Some(1..) = start { of_query + start.unwrap_or(0) } else { of_query };
        let of_key = unscaled.indices(rank - 1);
        let n_queries = q.x[0].extent(&[q.x[0].rank() as i64 - 2], Scalar::I64);
        let n_keys = q.x[1].extent(&[q.x[1].rank() as i64 - 2], Scalar::I64);
        let is_seen = of_key.binary(TensorOp::LessEqual, of_query + (n_keys - n_queries));
        scores = is_seen.select(scores, f64::NEG_INFINITY);
    }
    let weights = scores.apply(TensorOp::Softmax, &[], &[("axis", (-1i64).into())]);
    let by_weights = product(g, values.transpose());
    let total = (by_weights * weights).reduce(TensorOp::Sum, &[rank - 1]);
    let by_scores = scale(weights * (by_weights - total));
    [product(by_scores, keys), product(by_scores.transpose(), queries), product(weights.transpose(), g)]
}
