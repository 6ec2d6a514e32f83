//! Views and ops that move elements.

use super::DenseTensor;
use crate::attribute::AttributeValue;
use crate::builder::convert;
use crate::layout::Layout;
use crate::op::TensorOp;
use polyloom_ir::Scalar;

/// Returns where the elements of a view lie in its dense operand.
pub(super) fn view(op: TensorOp, operand: &Layout, attributes: &[AttributeValue], extents: &[u64]) -> Option<Layout> {
    Some(match op {
        TensorOp::Reshape => Layout::dense(extents),
        TensorOp::Permute => operand.permuted(&attributes[0].axes()),
        TensorOp::Slice => operand.sliced(&attributes[0].ints(), extents, &attributes[2].ints()),
        TensorOp::Flip => {
            let axes = attributes[0].ints();
            let is_flipped = |axis: usize| axes.contains(&(axis as i64));
            let last = |axis: usize| if is_flipped(axis) { extents[axis] as i64 - 1 } else { 0 };
            let step = |axis: usize| if is_flipped(axis) { -1 } else { 1 };
            let rank = extents.len();
            operand.sliced(&(0..rank).map(last).collect::<Vec<_>>(), extents, &(0..rank).map(step).collect::<Vec<_>>())
        }
        TensorOp::BroadcastTo => operand.broadcast_to(extents),
        TensorOp::Windows => {
            let axes: Vec<usize> = attributes[0].axes();
            operand.windows(&axes, extents, &attributes[2].ints(), &attributes[3].ints())
        }
        _ => return None,
    })
}

/// Copies an operand into a result, from an element on.
fn place_into(results: &mut [u64], extents: &[u64], operand: &DenseTensor, starts: &[i64]) {
    let steps = vec![1; extents.len()];
    let layout = Layout::dense(extents).sliced(starts, &operand.extents, &steps);
    for (place, &bits) in layout.places().zip(&operand.bits) {
        results[place] = bits;
    }
}

fn n_elements(extents: &[u64]) -> usize {
    extents.iter().product::<u64>() as usize
}

pub(super) fn concat(operands: &[&DenseTensor], axis: &[i64], extents: &[u64]) -> Vec<u64> {
    let axis = axis.first().map_or(0, |&axis| axis as usize);
    let mut results = vec![0; n_elements(extents)];
    let mut starts = vec![0; extents.len()];
    for operand in operands {
        place_into(&mut results, extents, operand, &starts);
        starts[axis] += operand.extents[axis] as i64;
    }
    results
}

pub(super) fn pad(x: &DenseTensor, attributes: &[AttributeValue], extents: &[u64]) -> Vec<u64> {
    let AttributeValue::Float(value) = attributes[1] else { return Vec::new() };
    let mut results = vec![convert(Scalar::F64, value.to_bits(), x.dtype); n_elements(extents)];
    let starts: Vec<i64> = attributes[0].ints().chunks(2).map(|widths| widths[0]).collect();
    place_into(&mut results, extents, x, &starts);
    results
}

pub(super) fn iota(extents: &[u64], axis: &[i64], dtype: Scalar) -> Vec<u64> {
    let axis = axis.first().map_or(0, |&axis| axis as usize);
    let stride: u64 = extents[axis + 1..].iter().product();
    let index = |place: u64| place / stride % extents[axis];
    (0..n_elements(extents) as u64).map(|place| convert(Scalar::U64, index(place), dtype)).collect()
}

pub(super) fn element_count(x: &DenseTensor, axes: &[i64], dtype: Scalar) -> Vec<u64> {
    let n: u64 = axes.iter().map(|&axis| x.extents[axis as usize]).product();
    vec![convert(Scalar::U64, n, dtype)]
}
