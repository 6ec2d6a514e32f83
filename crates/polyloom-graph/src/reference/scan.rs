//! Scans, in the order that [`super`] defines.

use super::DenseTensor;
use super::matmul::multiply_add;
use super::reduce::{BLOCK_LENGTH, accumulator, canonical, combiner, extremum};
use crate::builder::convert;
use crate::layout::Layout;
use crate::op::TensorOp;
use polyloom_ir::Op;

/// The places of the elements of each row along an axis, in order.
fn rows(extents: &[u64], axis: &[i64]) -> Vec<Vec<usize>> {
    let axis = axis.first().map_or(0, |&axis| axis as usize);
    let order: Vec<usize> = (0..extents.len()).filter(|&other| other != axis).chain([axis]).collect();
    let places: Vec<usize> = Layout::dense(extents).permuted(&order).places().collect();
    places.chunks(extents[axis].max(1) as usize).map(<[usize]>::to_vec).collect()
}

pub(super) fn evaluate_blocks(op: TensorOp, x: &DenseTensor, axis: &[i64]) -> Vec<u64> {
    let dtype = accumulator(x.dtype);
    let combine = combiner(if op == TensorOp::Cumprod { Op::Mul } else { Op::Add }, dtype);
    let mut results = vec![0; x.bits.len()];
    for row in rows(&x.extents, axis) {
        let mut carry: Option<u64> = None;
        for block in row.chunks(BLOCK_LENGTH) {
            let mut chain: Option<u64> = None;
            let mut last = None;
            for &place in block {
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

pub(super) fn evaluate_extremum(op: TensorOp, x: &DenseTensor, axis: &[i64]) -> Vec<u64> {
    let combine = extremum(op == TensorOp::Cummax, x.dtype);
    let mut results = vec![0; x.bits.len()];
    for row in rows(&x.extents, axis) {
        let mut best: Option<u64> = None;
        for place in row {
            let element = x.bits[place];
            let found = best.map_or(element, |best| combine(best, element));
            best = Some(found);
            results[place] = canonical(found, x.dtype);
        }
    }
    results
}

pub(super) fn evaluate_recurrence(operands: &[&DenseTensor], axis: &[i64], extents: &[u64]) -> Vec<u64> {
    let [a, b] = [operands[0], operands[1]].map(|operand| {
        let places = operand.layout().broadcast_to(extents);
        places.places().map(|place| operand.bits[place]).collect::<Vec<u64>>()
    });
    let own = operands[0].dtype;
    let dtype = accumulator(own);
    let mut results = vec![0; a.len()];
    for row in rows(extents, axis) {
        let mut chain: Option<u64> = None;
        for place in row {
            let [factor, summand] = [a[place], b[place]].map(|bits| convert(own, bits, dtype));
            let state = chain.map_or(summand, |chain| multiply_add(dtype, factor, chain, summand));
            chain = Some(state);
            results[place] = convert(dtype, state, own);
        }
    }
    results
}
