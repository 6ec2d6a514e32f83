//! Scans, in the order that [`super`] defines.

use super::DenseTensor;
use super::reduce::{BLOCK_LENGTH, accumulator, combiner};
use crate::builder::convert;
use crate::op::TensorOp;
use polyloom_ir::Op;

pub(super) fn evaluate(op: TensorOp, x: &DenseTensor, axis: &[i64]) -> Vec<u64> {
    let axis = axis.first().map_or(0, |&axis| axis as usize);
    let dtype = accumulator(x.dtype);
    let combine = combiner(if op == TensorOp::Cumprod { Op::Mul } else { Op::Add }, dtype);
    let stride: u64 = x.extents[axis + 1..].iter().product();
    let length = x.extents[axis];
    let mut results = vec![0; x.bits.len()];
    if x.bits.is_empty() {
        return results;
    }
    let n_outer: u64 = x.extents[..axis].iter().product();
    for first in (0..n_outer).flat_map(|outer| (0..stride).map(move |inner| outer * length * stride + inner)) {
        let mut carry: Option<u64> = None;
        for block in 0..length.div_ceil(BLOCK_LENGTH as u64) {
            let begin = block * BLOCK_LENGTH as u64;
            let mut chain: Option<u64> = None;
            let mut last = None;
            for k in begin..length.min(begin + BLOCK_LENGTH as u64) {
                let place = (first + k * stride) as usize;
                let element = convert(x.dtype, x.bits[place], dtype);
                let sum = chain.map_or(element, |chain| combine(chain, element));
                chain = Some(sum);
                let total = carry.map_or(sum, |carry| combine(carry, sum));
                last = Some(total);
                results[place] = convert(dtype, total, x.dtype);
            }
            carry = last;
        }
    }
    results
}
