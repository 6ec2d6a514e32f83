//! Reductions, in the order that [`super`] defines.

use super::DenseTensor;
use crate::attribute::AttributeValue;
use crate::builder::convert;
use crate::op::TensorOp;
use polyloom_ir::eval::{OpEvaluator, evaluator};
use polyloom_ir::{Op, Scalar, Type};

/// The number of lanes that a block of a row is combined in.
pub const N_LANES: usize = 32;

/// The number of elements of a block of a row.
pub const BLOCK_LENGTH: usize = 4096;

/// Returns the scalar type that numbers of a type are combined in.
pub(super) fn accumulator(dtype: Scalar) -> Scalar {
    if dtype.is_half() { Scalar::F32 } else { dtype }
}

/// Returns a function of two numbers of a type, by an op of HIR that is defined for it.
pub(super) fn combiner(op: Op, dtype: Scalar) -> impl Fn(u64, u64) -> u64 {
    let ty = Type::Scalar(dtype);
    let found = evaluator(op, &[ty, ty], if is_comparison(op) { Type::BOOL } else { ty });
    move |a, b| match found {
        Some(OpEvaluator::Binary(f)) => f(a, b),
        _ => 0,
    }
}

fn is_comparison(op: Op) -> bool {
    matches!(op, Op::Lt | Op::Gt | Op::Ne)
}

/// Calls a function on each row of the elements along axes.
fn rows(x: &DenseTensor, axes: &[i64], mut combine: impl FnMut(&[u64]) -> u64) -> Vec<u64> {
    let (reduced, kept): (Vec<usize>, Vec<usize>) =
        (0..x.extents.len()).partition(|&axis| axes.contains(&(axis as i64)));
    let length: u64 = reduced.iter().map(|&axis| x.extents[axis]).product();
    let n_rows: u64 = kept.iter().map(|&axis| x.extents[axis]).product();
    let layout = x.layout().permuted(&[kept, reduced].concat());
    let elements: Vec<u64> = layout.places().map(|place| x.bits[place]).collect();
    (0..n_rows).map(|row| combine(&elements[(row * length) as usize..((row + 1) * length) as usize])).collect()
}

pub(super) fn evaluate_sum(op: TensorOp, x: &DenseTensor, axes: &[i64]) -> Vec<u64> {
    let dtype = accumulator(x.dtype);
    let number = |value: f64| convert(Scalar::F64, value.to_bits(), dtype);
    let (op, identity) = match op {
        TensorOp::Prod => (Op::Mul, number(1.0)),
        _ => (Op::Add, number(0.0)),
    };
    let combine = combiner(op, dtype);
    rows(x, axes, |row| {
        let row: Vec<u64> = row.iter().map(|&bits| convert(x.dtype, bits, dtype)).collect();
        convert(dtype, combine_row(&row, identity, &combine), x.dtype)
    })
}

fn combine_row(row: &[u64], identity: u64, combine: &impl Fn(u64, u64) -> u64) -> u64 {
    let mut totals: Vec<u64> = row.chunks(BLOCK_LENGTH).map(|block| combine_block(block, identity, combine)).collect();
    while totals.len() > 1 {
        totals = totals.chunks(2).map(|pair| if let [a, b] = pair { combine(*a, *b) } else { pair[0] }).collect();
    }
    totals.first().copied().unwrap_or(identity)
}

fn combine_block(block: &[u64], identity: u64, combine: &impl Fn(u64, u64) -> u64) -> u64 {
    let mut lanes = [identity; N_LANES];
    for (index, &element) in block.iter().enumerate() {
        lanes[index % N_LANES] = combine(lanes[index % N_LANES], element);
    }
    let mut distance = N_LANES / 2;
    while distance > 0 {
        for lane in 0..distance {
            lanes[lane] = combine(lanes[lane], lanes[lane + distance]);
        }
        distance /= 2;
    }
    lanes[0]
}

pub(super) fn evaluate_extremum(op: TensorOp, x: &DenseTensor, axes: &[i64]) -> Vec<u64> {
    let combine = extremum(matches!(op, TensorOp::Max | TensorOp::Any), x.dtype);
    let empty = u64::from(op == TensorOp::All);
    rows(x, axes, |row| canonical(row.iter().copied().reduce(&combine).unwrap_or(empty), x.dtype))
}

/// Returns the function of two numbers that gives the larger or the smaller, or the first NaN.
pub(super) fn extremum(is_max: bool, dtype: Scalar) -> impl Fn(u64, u64) -> u64 {
    // Of `bool`, `max` and `any` are the same.
    let hir_op = match (dtype == Scalar::Bool, is_max) {
        (true, true) => Op::BitOr,
        (true, false) => Op::BitAnd,
        (false, true) => Op::Max,
        (false, false) => Op::Min,
    };
    let combine = combiner(hir_op, dtype);
    let is_nan = nan_test(dtype);
    move |a: u64, b: u64| match (is_nan(a), is_nan(b)) {
        (true, _) => a,
        (_, true) => b,
        _ => combine(a, b),
    }
}

/// Makes any NaN the canonical one, by adding -0.0, which changes nothing else.
pub(super) fn canonical(bits: u64, dtype: Scalar) -> u64 {
    if !dtype.is_float() {
        return bits;
    }
    combiner(Op::Add, dtype)(bits, convert(Scalar::F64, (-0.0f64).to_bits(), dtype))
}

fn nan_test(dtype: Scalar) -> impl Fn(u64) -> bool {
    let differs = combiner(Op::Ne, dtype);
    move |bits| dtype.is_float() && differs(bits, bits) != 0
}

pub(super) fn evaluate_index(op: TensorOp, x: &DenseTensor, axis: &AttributeValue) -> Vec<u64> {
    let axes: Vec<i64> = match axis {
        AttributeValue::Int(axis) => vec![*axis],
        _ => (0..x.extents.len() as i64).collect(),
    };
    // `bool` has no order in HIR, but its bits have one.
    let dtype = if x.dtype == Scalar::Bool { Scalar::U8 } else { x.dtype };
    let is_better = combiner(if op == TensorOp::Argmax { Op::Gt } else { Op::Lt }, dtype);
    let is_nan = nan_test(dtype);
    rows(x, &axes, |row| {
        let mut best = 0;
        for (index, &element) in row.iter().enumerate() {
            if is_nan(row[best]) {
                break;
            }
            if is_nan(element) || is_better(element, row[best]) != 0 {
                best = index;
            }
        }
        best as u64
    })
}
