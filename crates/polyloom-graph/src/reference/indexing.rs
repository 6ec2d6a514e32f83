//! Ops that move elements by indices.

use super::{DenseTensor, elementwise};
use crate::error::GraphError;
use crate::layout::Layout;
use crate::op::TensorOp;

/// Counts an index below 0 from the end.
fn counted(bits: u64, n: u64) -> i64 {
    let index = bits as i64;
    if index < 0 { index.wrapping_add(n as i64) } else { index }
}

pub(super) fn gather(x: &DenseTensor, index: &DenseTensor, axis: &[i64], extents: &[u64]) -> Vec<u64> {
    let axis = axis.first().map_or(0, |&axis| axis as usize);
    let mut from = x.layout();
    let (n, stride) = (from.extents[axis], from.strides[axis]);
    from.extents[axis] = 1;
    let indices = index.layout().broadcast_to(extents);
    let element = |(place, of_index): (usize, usize)| {
        let index = counted(index.bits[of_index], n).clamp(0, (n as i64 - 1).max(0));
        x.bits[(place as i64 + index * stride) as usize]
    };
    from.broadcast_to(extents).places().zip(indices.places()).map(element).collect()
}

pub(super) fn scatter_add(operands: &[&DenseTensor], axis: &[i64]) -> Result<Vec<u64>, GraphError> {
    let axis = axis.first().map_or(0, |&axis| axis as usize);
    let [x, index, updates] = operands else { return Ok(Vec::new()) };
    let rank = x.extents.len();
    let order: Vec<usize> = (0..rank).filter(|&other| other != axis).chain([axis]).collect();
    let whole = x.layout();
    let (n, stride) = (whole.extents[axis], whole.strides[axis]);
    let mut to = Layout { extents: updates.extents.clone(), ..whole };
    to.strides[axis] = 0;
    let indices = index.layout().broadcast_to(&updates.extents).permuted(&order);
    let values = updates.layout().permuted(&order);
    let mut result = x.bits.clone();
    for ((place, of_index), of_value) in to.permuted(&order).places().zip(indices.places()).zip(values.places()) {
        let index = counted(index.bits[of_index], n);
        if (0..n as i64).contains(&index) {
            let place = (place as i64 + index * stride) as usize;
            let one = |bits| DenseTensor { dtype: x.dtype, extents: Vec::new(), bits: vec![bits] };
            let (old, value) = (one(result[place]), one(updates.bits[of_value]));
            result[place] = elementwise::evaluate(TensorOp::Add, &[&old, &value], &[], x.dtype)?[0];
        }
    }
    Ok(result)
}

/// Sorts bits, which are those of unsigned integers.
pub(super) fn sort_keys(x: &DenseTensor, axis: &[i64]) -> Vec<u64> {
    let axis = axis.first().map_or(0, |&axis| axis as usize);
    let rank = x.extents.len();
    let order: Vec<usize> = (0..rank).filter(|&other| other != axis).chain([axis]).collect();
    let places: Vec<usize> = x.layout().permuted(&order).places().collect();
    let mut result = x.bits.clone();
    for row in places.chunks(x.extents[axis].max(1) as usize) {
        let mut keys: Vec<u64> = row.iter().map(|&place| x.bits[place]).collect();
        keys.sort_unstable();
        for (&place, key) in row.iter().zip(keys) {
            result[place] = key;
        }
    }
    result
}
