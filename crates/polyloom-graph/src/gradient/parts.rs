//! The cotangent of a value of which ops take slices: the cotangents of the slices, each at its place.
//!
//! A slice by itself would add a tensor as large as the value that is zero elsewhere. Of a loop that takes one row after the other,
//! these are as many as rows. Slices that do not overlap are put beside each other instead, along one axis after the other.

use super::expression::TensorExpr;
use crate::attribute::AttributeValue;
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};

/// The cotangent of elements that neighbour each other.
#[derive(Clone)]
pub(super) struct SlicePart<'g> {
    /// The first index along each axis.
    starts: Vec<u64>,
    value: TensorExpr<'g>,
}

impl<'g> SlicePart<'g> {
    /// Returns the part that a slice in steps of 1 takes of its operand, given the cotangent of the slice; `None` for other ops.
    pub(super) fn of_slice(op: TensorOp, attributes: &[AttributeValue], g: TensorExpr<'g>) -> Option<SlicePart<'g>> {
        let (TensorOp::Slice, [starts, AttributeValue::Shape(sizes), steps]) = (op, attributes) else { return None };
        let is_dense = steps.ints().iter().zip(&sizes.0).all(|(&step, size)| step == 1 || *size == Dim::Static(1));
        if !is_dense || sizes.0.contains(&Dim::Static(0)) {
            return None;
        }
        let starts = starts.ints().into_iter().map(u64::try_from).collect::<Result<_, _>>().ok()?;
        Some(SlicePart { starts, value: g })
    }

    /// Returns the part among zeros.
    fn padded(&self, shape: &Shape) -> TensorExpr<'g> {
        let sizes = self.value.shape();
        let axes = self.starts.iter().zip(&sizes.0).zip(&shape.0);
        let widths = axes.flat_map(|((&start, size), extent)| match (size.as_static(), extent.as_static()) {
            (Some(size), Some(extent)) => [start as i64, extent.saturating_sub(start).saturating_sub(size) as i64],
            // A symbolic extent is taken whole.
            _ => [0, 0],
        });
        self.value.pad(widths.collect())
    }
}

/// Returns the sum of parts of a value, each at its place, with zeros where no part is; `None` if there are no parts.
pub(super) fn joined<'g>(parts: &[SlicePart<'g>], ty: &TensorType) -> Option<TensorExpr<'g>> {
    joined_from(parts, ty, 0).or_else(|| parts.iter().map(|part| part.padded(&ty.shape)).reduce(|sum, part| sum + part))
}

/// Joins parts that agree along all axes before one; `None` if some overlap along it and are not the same there.
fn joined_from<'g>(parts: &[SlicePart<'g>], ty: &TensorType, axis: usize) -> Option<TensorExpr<'g>> {
    let first = parts.first()?;
    if axis == ty.shape.rank() {
        return parts.iter().map(|part| part.value).reduce(|sum, part| sum + part);
    }
    let Some(extent) = ty.shape.0[axis].as_static() else { return joined_from(parts, ty, axis + 1) };
    // A stable sort, so that parts of the same elements are added in the order in which they came.
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|part| part.starts[axis]);
    let runs: Vec<&[SlicePart<'g>]> = sorted.chunk_by(|a, b| a.starts[axis] == b.starts[axis]).collect();
    if let [run] = runs[..] {
        let length = common_length(run, axis)?;
        let before = run[0].starts[axis];
        let mut widths = vec![0; 2 * ty.shape.rank()];
        (widths[2 * axis], widths[2 * axis + 1]) = (before as i64, extent.checked_sub(before + length)? as i64);
        return Some(joined_from(run, ty, axis + 1)?.pad(widths));
    }
    let zeros = |length: u64| {
        let outer = first.value.shape().0.into_iter().take(axis);
        let dims = outer.chain([Dim::Static(length)]).chain(ty.shape.0[axis + 1..].iter().cloned());
        first.value.zeros(&TensorType { dtype: ty.dtype, shape: Shape(dims.collect()) })
    };
    let mut pieces = Vec::new();
    let mut end = 0;
    for run in runs {
        let (start, length) = (run[0].starts[axis], common_length(run, axis)?);
        let gap = start.checked_sub(end)?;
        if gap > 0 {
            pieces.push(zeros(gap));
        }
        pieces.push(joined_from(run, ty, axis + 1)?);
        end = start + length;
    }
    if end < extent {
        pieces.push(zeros(extent - end));
    }
    let (first, others) = pieces.split_first()?;
    let others: Vec<_> = others.iter().map(|&piece| piece.into()).collect();
    Some(first.apply(TensorOp::Concat, &others, &[("axis", (axis as i64).into())]))
}

/// Returns the number of elements along an axis of each part, if it is the same for all.
fn common_length(parts: &[SlicePart<'_>], axis: usize) -> Option<u64> {
    let mut lengths = parts.iter().map(|part| part.value.shape().0[axis].as_static());
    let first = lengths.next()?;
    if lengths.all(|length| length == first) { first } else { None }
}
