//! Rules of views and of ops that move elements: what goes back is moved back.

use crate::attribute::AttributeValue;
use crate::gradient::expression::TensorExpr;
use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};

pub(super) fn reshape<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.g.reshape(&q.x[0].shape()))]
}

pub(super) fn permute<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axes = q.attributes[0].ints();
    let mut inverse = vec![0; axes.len()];
    for (place, &axis) in axes.iter().enumerate() {
        inverse[axis as usize] = place as i64;
    }
    vec![Some(q.g.apply(TensorOp::Permute, &[], &[("axes", inverse.into())]))]
}

pub(super) fn flip<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.g.flip(&q.attributes[0].ints()))]
}

/// The pass sums over the axes along which the operand was repeated.
pub(super) fn broadcast_to<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.g)]
}

pub(super) fn concat<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = q.attributes[0].int() as usize;
    let mut start = 0;
    let mut slices = Vec::new();
    for &x in &q.x {
        let shape = x.shape();
        let mut starts = vec![0; shape.rank()];
        starts[axis] = start;
        // Only one tensor alone may have a symbol here, and that is taken whole.
        start = i64::saturating_add(start, shape.0[axis].as_static().unwrap_or(0) as i64);
        slices.push(Some(q.g.slice(starts, shape)));
    }
    slices
}

pub(super) fn pad<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let starts = q.attributes[0].ints().chunks(2).map(|widths| widths[0]).collect();
    vec![Some(q.g.slice(starts, q.x[0].shape()))]
}

/// Puts the elements at the places that they were taken from, with zeros between them.
pub(super) fn slice<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let shape = q.x[0].shape();
    let AttributeValue::Shape(sizes) = &q.attributes[1] else { return vec![None] };
    if sizes.0.contains(&Dim::Static(0)) {
        return vec![None];
    }
    let starts = q.attributes[0].ints().into_iter();
    let taken = starts.zip(&sizes.0).zip(q.attributes[2].ints());
    let axes: Vec<AxisSlice> = taken.map(|((start, size), step)| AxisSlice::new(start, size, step)).collect();
    let reversed = (0i64..).zip(&axes).filter(|(_, axis)| axis.is_reversed).map(|(number, _)| number);
    let reversed: Vec<i64> = reversed.collect();
    let ascending = if reversed.is_empty() { q.g } else { q.g.flip(&reversed) };
    let spread = spread(ascending, &axes);
    let widths = axes.iter().zip(&shape.0).flat_map(|(axis, extent)| match (extent, &axis.length) {
        (&Dim::Static(extent), &Dim::Static(length)) => {
            [axis.first, (extent as i64).saturating_sub(axis.first).saturating_sub(length as i64)]
        }
        // A symbolic extent is taken whole.
        _ => [0, 0],
    });
    vec![Some(spread.pad(widths.collect()))]
}

/// The elements that a slice takes along one axis, in ascending order.
struct AxisSlice {
    is_reversed: bool,
    /// The index of the first.
    first: i64,
    /// The distance between two, 1 if there are not two.
    step: i64,
    /// The number of places from the first to the last.
    length: Dim,
}

impl AxisSlice {
    fn new(start: i64, size: &Dim, step: i64) -> AxisSlice {
        match size {
            // The step of one element, or of none, may be any number.
            Dim::Symbol(_) | Dim::Static(0 | 1) => {
                AxisSlice { is_reversed: false, first: start, step: 1, length: size.clone() }
            }
            &Dim::Static(size) => {
                let distance = (size as i64 - 1).saturating_mul(step);
                AxisSlice {
                    is_reversed: step < 0,
                    first: start.min(start.saturating_add(distance)),
                    step: step.saturating_abs(),
                    length: Dim::Static(distance.unsigned_abs().saturating_add(1)),
                }
            }
        }
    }
}

/// Puts elements that are `steps` apart back between zeros along the last axes, so many before the first that `before` tells; along
/// each axis there are as many in the end as `extents` has.
pub(super) fn spread_to<'g>(x: TensorExpr<'g>, steps: &[i64], before: &[i64], extents: &[Dim]) -> TensorExpr<'g> {
    let shape = x.shape();
    let first = shape.rank() - steps.len();
    let step_of = |axis: usize| axis.checked_sub(first).map_or(1, |axis| steps[axis]);
    let axes: Vec<AxisSlice> =
        shape.0.iter().enumerate().map(|(axis, size)| AxisSlice::new(0, size, step_of(axis))).collect();
    let spread = spread(x, &axes);
    let mut widths = vec![0; 2 * first];
    let (mut starts, mut sizes) = (vec![0; first], shape.0[..first].to_vec());
    for (index, extent) in extents.iter().enumerate() {
        let own = spread.shape().0[first + index].as_static().unwrap_or(0) as i64;
        let extent_of = extent.as_static().unwrap_or(0) as i64;
        // Elements that would lie before the first place, or after the last one, are cut off.
        widths.extend([before[index].max(0), (extent_of - own - before[index]).max(0)]);
        starts.push((-before[index]).max(0));
        sizes.push(extent.clone());
    }
    let padded = spread.pad(widths);
    if padded.shape() == Shape(sizes.clone()) { padded } else { padded.slice(starts, Shape(sizes)) }
}

pub(super) fn contiguous<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    vec![Some(q.g)]
}

/// Adds up the elements of all windows at the places that they were taken from, along one axis after the other, so that there are
/// as many terms as the sizes of a window add up to.
pub(super) fn windows<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let [axes, sizes, steps, dilations] = [0, 1, 2, 3].map(|index| q.attributes[index].ints());
    let shape = q.x[0].shape();
    let rank = shape.rank();
    // The axes of the operand, and after them those of a window.
    let mut labels: Vec<usize> = (0..rank + axes.len()).collect();
    let mut g = q.g;
    for (index, &axis) in axes.iter().enumerate() {
        let (axis, window) = (axis as usize, rank + index);
        let others = labels.iter().copied().filter(|&label| label != axis && label != window);
        let ordered: Vec<usize> = others.chain([axis, window]).collect();
        g = g.permute(&labels, &ordered);
        g = folded(g, sizes[index], steps[index], dilations[index], &shape.0[axis]);
        labels = ordered;
        labels.pop();
    }
    let all: Vec<usize> = (0..rank).collect();
    vec![Some(g.permute(&labels, &all))]
}

/// Adds up the elements along the last axis, those of windows that the axis before it numbers.
fn folded<'g>(g: TensorExpr<'g>, size: i64, step: i64, dilation: i64, extent: &Dim) -> TensorExpr<'g> {
    let shape = g.shape();
    let (last, kept) = (shape.rank() - 1, Shape(shape.0[..shape.rank() - 1].to_vec()));
    if let (Some(n), Some(whole)) = (kept.0[last - 1].as_static(), extent.as_static())
        && step == size
        && dilation == 1
    {
        // No two windows share an element.
        let mut joined = kept.clone();
        joined.0[last - 1] = Dim::Static(n * size as u64);
        let mut widths = vec![0; 2 * last];
        widths[2 * last - 1] = whole.saturating_sub(n * size as u64) as i64;
        return g.reshape(&joined).pad(widths);
    }
    let placed = |offset: i64| {
        let mut starts = vec![0; last];
        starts.push(offset);
        let taken = g.slice(starts, Shape(kept.0.iter().cloned().chain([Dim::Static(1)]).collect()));
        spread_to(taken.reshape(&kept), &[step], &[offset * dilation], std::slice::from_ref(extent))
    };
    (1..size).fold(placed(0), |sum, offset| sum + placed(offset))
}

/// Puts zeros between elements: each becomes a row of as many places as a step has, and the places after the last are cut off.
fn spread<'g>(x: TensorExpr<'g>, axes: &[AxisSlice]) -> TensorExpr<'g> {
    if axes.iter().all(|axis| axis.step == 1) {
        return x;
    }
    let sizes = x.shape();
    let mut split = Vec::new();
    let mut widths = Vec::new();
    let mut joined = Vec::new();
    for (axis, size) in axes.iter().zip(&sizes.0) {
        split.push(size.clone());
        widths.extend([0, 0]);
        if axis.step > 1 {
            split.push(Dim::Static(1));
            widths.extend([0, axis.step - 1]);
        }
        // An axis with a step has a known size.
        joined.push(match (axis.step, size) {
            (2.., Dim::Static(size)) => Dim::Static(size.saturating_mul(axis.step as u64)),
            _ => size.clone(),
        });
    }
    let rows = x.reshape(&Shape(split)).pad(widths).reshape(&Shape(joined));
    rows.slice(vec![0; axes.len()], Shape(axes.iter().map(|axis| axis.length.clone()).collect()))
}
