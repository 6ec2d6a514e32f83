//! Products of matrices: the ascending chain of fused multiply-adds.

use super::DenseTensor;
use super::reduce::accumulator;
use crate::builder::convert;
use polyloom_ir::eval::eval;
use polyloom_ir::{Op, Scalar, Type};

pub(super) fn evaluate(a: &DenseTensor, b: &DenseTensor, extents: &[u64]) -> Vec<u64> {
    let dtype = accumulator(a.dtype);
    // A vector is a matrix of one row or one column, whose axis the result lacks.
    let a_extents = if a.extents.len() == 1 { vec![1, a.extents[0]] } else { a.extents.clone() };
    let b_extents = if b.extents.len() == 1 { vec![b.extents[0], 1] } else { b.extents.clone() };
    let [rows, length] = [a_extents[a_extents.len() - 2], a_extents[a_extents.len() - 1]];
    let columns = b_extents[b_extents.len() - 1];
    let n_dropped = usize::from(a.extents.len() == 1) + usize::from(b.extents.len() == 1);
    let batch = &extents[..extents.len() + n_dropped - 2];
    // Each matrix of a batch is found by its first element.
    let starts = |extents: &[u64]| -> Vec<usize> {
        let own = extents.len() - 2;
        let size: u64 = extents[own..].iter().product();
        let layout = super::Layout::dense(&extents[..own]).broadcast_to(batch);
        layout.places().map(|place| place * size as usize).collect()
    };
    let mut results = Vec::new();
    for (a_start, b_start) in starts(&a_extents).into_iter().zip(starts(&b_extents)) {
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let chain = (0..length).fold(0, |sum, k| {
                let x = a.bits[a_start + (i * length + k) as usize];
                let y = b.bits[b_start + (k * columns + j) as usize];
                multiply_add(dtype, convert(a.dtype, x, dtype), convert(b.dtype, y, dtype), sum)
            });
            results.push(convert(dtype, chain, a.dtype));
        }
    }
    results
}

pub(super) fn multiply_add(dtype: Scalar, x: u64, y: u64, sum: u64) -> u64 {
    let ty = Type::Scalar(dtype);
    let two = |op, a, b| eval(op, &[ty, ty], &[a, b], ty).unwrap_or(0);
    match dtype {
        Scalar::Bool => sum | (x & y),
        _ if dtype.is_float() => eval(Op::Fma, &[ty; 3], &[x, y, sum], ty).unwrap_or(0),
        _ => two(Op::Add, sum, two(Op::Mul, x, y)),
    }
}

/// Contracts two tensors, given the labels of their axes and of those of the result.
pub(super) fn contract(
    a: &DenseTensor,
    b: &DenseTensor,
    [a_labels, b_labels, labels]: [Vec<i64>; 3],
    extents: &[u64],
) -> Vec<u64> {
    let dtype = accumulator(a.dtype);
    let sums: Vec<usize> = (0..a_labels.len()).filter(|&axis| !labels.contains(&a_labels[axis])).collect();
    let sum_extents: Vec<u64> = sums.iter().map(|&axis| a.extents[axis]).collect();
    let all: Vec<i64> = labels.iter().copied().chain(sums.iter().map(|&axis| a_labels[axis])).collect();
    let space = [extents, &sum_extents].concat();
    // An operand is the same along the axes whose labels it lacks.
    let layout = |tensor: &DenseTensor, own: &[i64]| {
        let dense = tensor.layout();
        let stride = |label: &i64| own.iter().position(|other| other == label).map_or(0, |axis| dense.strides[axis]);
        super::Layout { extents: space.clone(), strides: all.iter().map(stride).collect(), offset: 0 }
    };
    let (a_layout, b_layout) = (layout(a, &a_labels), layout(b, &b_labels));
    let length = sum_extents.iter().product::<u64>() as usize;
    let n_results = extents.iter().product::<u64>() as usize;
    let mut places = a_layout.places().zip(b_layout.places());
    let chain = |_| {
        let steps = places.by_ref().take(length);
        let chain = steps.fold(0, |sum, (x, y)| {
            multiply_add(dtype, convert(a.dtype, a.bits[x], dtype), convert(b.dtype, b.bits[y], dtype), sum)
        });
        convert(dtype, chain, a.dtype)
    };
    (0..n_results).map(chain).collect()
}
