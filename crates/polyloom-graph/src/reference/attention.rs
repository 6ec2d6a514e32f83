//! Attention, by blocks of keys.

use super::reduce::{N_LANES, accumulator};
use super::{DenseTensor, elementwise};
use crate::attribute::AttributeValue;
use crate::builder::convert;
use crate::error::GraphError;
use crate::layout::Layout;
use crate::op::TensorOp;
use polyloom_ir::eval::eval;
use polyloom_ir::{Op, Scalar, Type};

/// The number of keys of a block.
pub const N_KEYS: u64 = 64;

pub(super) fn evaluate(
    operands: &[&DenseTensor],
    attributes: &[AttributeValue],
    extents: &[u64],
) -> Result<Vec<u64>, GraphError> {
    let [q, k, v] = operands else { return Ok(Vec::new()) };
    let dtype = accumulator(q.dtype);
    let number = |value: f64| convert(Scalar::F64, value.to_bits(), dtype);
    let apply = |op: TensorOp, operands: &[u64]| -> Result<u64, GraphError> {
        let one = |&bits: &u64| DenseTensor { dtype, extents: Vec::new(), bits: vec![bits] };
        let operands: Vec<DenseTensor> = operands.iter().map(one).collect();
        Ok(elementwise::evaluate(op, &operands.iter().collect::<Vec<_>>(), &[], dtype)?[0])
    };
    let ty = Type::Scalar(dtype);
    let fma = |x, y, z| eval(Op::Fma, &[ty; 3], &[x, y, z], ty).unwrap_or(0);
    let n = extents.len() - 2;
    let [n_queries, n_columns] = [extents[n], extents[n + 1]];
    let [n_keys, width] = [k.extents[k.extents.len() - 2], k.extents[k.extents.len() - 1]];
    let is_causal = attributes[0] == AttributeValue::Bool(true);
    let scale = if let AttributeValue::Float(scale) = attributes[1] { scale } else { 1.0 / (width as f64).sqrt() };
    // Each matrix of a batch is found by its first element.
    let starts = |tensor: &DenseTensor| -> Vec<usize> {
        let own = tensor.extents.len() - 2;
        let size: u64 = tensor.extents[own..].iter().product();
        let layout = Layout::dense(&tensor.extents[..own]).broadcast_to(&extents[..n]);
        layout.places().map(|place| place * size as usize).collect()
    };
    let load = |tensor: &DenseTensor, place: usize| convert(tensor.dtype, tensor.bits[place], dtype);
    let mut results = Vec::new();
    for ((of_q, of_k), of_v) in starts(q).into_iter().zip(starts(k)).zip(starts(v)) {
        for query in 0..n_queries {
            let n_seen = if is_causal { (query + 1 + n_keys).saturating_sub(n_queries) } else { n_keys };
            let (mut most, mut sum) = (number(f64::NEG_INFINITY), number(0.0));
            let mut values = vec![number(0.0); n_columns as usize];
            for first in (0..n_seen).step_by(N_KEYS as usize) {
                let mut scores = vec![number(f64::NEG_INFINITY); N_KEYS as usize];
                let mut weights = vec![number(0.0); N_KEYS as usize];
                let seen = first..n_seen.min(first + N_KEYS);
                for key in seen.clone() {
                    let chain = (0..width).fold(number(0.0), |chain, d| {
                        let x = load(q, of_q + (query * width + d) as usize);
                        let y = load(k, of_k + (key * width + d) as usize);
                        fma(x, y, chain)
                    });
                    scores[(key - first) as usize] = apply(TensorOp::Multiply, &[chain, number(scale)])?;
                }
                let mut greatest = most;
                for &score in &scores {
                    greatest = apply(TensorOp::Maximum, &[greatest, score])?;
                }
                let power = |x| apply(TensorOp::Exp, &[apply(TensorOp::Subtract, &[x, greatest])?]);
                for key in seen.clone() {
                    weights[(key - first) as usize] = power(scores[(key - first) as usize])?;
                }
                let factor = power(most)?;
                let mut lanes: Vec<u64> = weights[..N_LANES].to_vec();
                for (lane, &weight) in lanes.iter_mut().zip(&weights[N_LANES..]) {
                    *lane = apply(TensorOp::Add, &[*lane, weight])?;
                }
                let mut distance = N_LANES / 2;
                while distance > 0 {
                    for lane in 0..distance {
                        lanes[lane] = apply(TensorOp::Add, &[lanes[lane], lanes[lane + distance]])?;
                    }
                    distance /= 2;
                }
                sum = apply(TensorOp::Add, &[apply(TensorOp::Multiply, &[sum, factor])?, lanes[0]])?;
                for (column, value) in values.iter_mut().enumerate() {
                    *value = apply(TensorOp::Multiply, &[*value, factor])?;
                    for key in seen.clone() {
                        let x = load(v, of_v + key as usize * n_columns as usize + column);
                        *value = fma(weights[(key - first) as usize], x, *value);
                    }
                }
                most = greatest;
            }
            let reciprocal = apply(TensorOp::Divide, &[number(1.0), sum])?;
            for value in values {
                results.push(convert(dtype, apply(TensorOp::Multiply, &[value, reciprocal])?, q.dtype));
            }
        }
    }
    Ok(results)
}
