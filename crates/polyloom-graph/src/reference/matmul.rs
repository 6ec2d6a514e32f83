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

fn multiply_add(dtype: Scalar, x: u64, y: u64, sum: u64) -> u64 {
    let ty = Type::Scalar(dtype);
    let two = |op, a, b| eval(op, &[ty, ty], &[a, b], ty).unwrap_or(0);
    match dtype {
        Scalar::Bool => sum | (x & y),
        _ if dtype.is_float() => eval(Op::Fma, &[ty; 3], &[x, y, sum], ty).unwrap_or(0),
        _ => two(Op::Add, sum, two(Op::Mul, x, y)),
    }
}
