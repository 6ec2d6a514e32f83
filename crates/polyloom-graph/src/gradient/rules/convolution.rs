//! The rule of convolutions.

use super::movement::spread_to;
use crate::decompose::contraction::label::{BATCH, CHANNEL, GROUP, OFFSET, OUTPUT, PLACE};
use crate::gradient::expression::TensorExpr;
use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};

/// By the input it is the convolution of the cotangent, its elements a stride apart between zeros, with the weight reversed; by the
/// weight, windows of the input times the cotangent; by the bias, the sum for each output.
pub(super) fn convolution<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let [strides, padding, dilations] = [0, 1, 2].map(|index| q.attributes[index].ints());
    let groups = q.attributes[3].int();
    let (x, weight) = (q.x[0], q.x[1]);
    let n = strides.len() as i64;
    let sizes: Vec<i64> = weight.shape().0[2..].iter().map(|dim| dim.as_static().unwrap_or(1) as i64).collect();
    let (places, offsets) = (PLACE..PLACE + n, OFFSET..OFFSET + n);
    let of_weight: Vec<i64> = [GROUP, OUTPUT, CHANNEL].into_iter().chain(offsets.clone()).collect();
    let of_result: Vec<i64> = [BATCH, GROUP, OUTPUT].into_iter().chain(places.clone()).collect();
    let of_input: Vec<i64> = [BATCH, GROUP, CHANNEL].into_iter().chain(places.clone()).collect();
    let with_offsets = |labels: &[i64]| -> Vec<i64> { labels.iter().copied().chain(offsets.clone()).collect() };
    let g = grouped(q.g, 1, groups);
    let grouped_weight = grouped(weight, 0, groups);

    // Windows of the cotangent, each a place from the next, reach the elements of the input.
    let reaches: Vec<i64> = sizes.iter().zip(&dilations).map(|(size, dilation)| (size - 1) * dilation).collect();
    let before: Vec<i64> = (0..sizes.len()).map(|axis| reaches[axis] - padding[2 * axis]).collect();
    let extent = |axis: usize| match x.shape().0[2 + axis] {
        Dim::Static(extent) => Dim::Static(extent.saturating_add(reaches[axis] as u64)),
        ref symbol @ Dim::Symbol(_) => symbol.clone(),
    };
    let extents: Vec<Dim> = (0..sizes.len()).map(extent).collect();
    let ones = vec![1; sizes.len()];
    let spread = spread_to(g, &strides, &before, &extents).windows(&sizes, &ones, &dilations);
    let reversed: Vec<i64> = (3..3 + n).collect();
    let by_x = grouped_weight.flip(&reversed).contract(spread, [&of_weight, &with_offsets(&of_result), &of_input]);

    let rank = x.rank();
    let widths: Vec<i64> = std::iter::repeat_n(0, 4).chain(padding.iter().copied()).collect();
    let padded = grouped(x.pad(widths), 1, groups).windows(&sizes, &strides, &dilations);
    let by_weight = g.contract(padded, [&of_result, &with_offsets(&of_input), &of_weight]);

    let mut contributions = vec![Some(by_x.reshape(&x.shape())), Some(by_weight.reshape(&weight.shape()))];
    if q.x.len() > 2 {
        let axes: Vec<i64> = (0..rank as i64).filter(|&axis| axis != 1).collect();
        contributions.push(Some(q.g.apply(TensorOp::Sum, &[], &[("axes", axes.into())])));
    }
    contributions
}

/// Splits an axis into groups and what is in each.
fn grouped<'g>(x: TensorExpr<'g>, axis: usize, groups: i64) -> TensorExpr<'g> {
    let mut shape = x.shape();
    let own = shape.0[axis].as_static().unwrap_or(0) / groups as u64;
    shape.0.splice(axis..=axis, [Dim::Static(groups as u64), Dim::Static(own)]);
    x.reshape(&Shape(shape.0))
}
