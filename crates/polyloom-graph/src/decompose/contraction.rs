//! Contractions, convolutions and pooling.

use super::build::{Built, binary, reduce, reshape, unary};
use crate::attribute::AttributeValue;
use crate::builder::{GraphBuilder, TensorOperand};
use crate::equation::Equation;
use crate::graph::TensorId;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;

/// Labels of the axes of convolutions.
pub(crate) mod label {
    pub(crate) const BATCH: i64 = 0;
    pub(crate) const GROUP: i64 = 1;
    pub(crate) const OUTPUT: i64 = 2;
    pub(crate) const CHANNEL: i64 = 3;
    /// The first of the axes of windows, and the first of those in a window.
    pub(crate) const PLACE: i64 = 4;
    pub(crate) const OFFSET: i64 = 8;
}

fn contract(b: &mut GraphBuilder, x: TensorId, y: TensorId, labels: [Vec<i64>; 3]) -> Built {
    let [of_x, of_y, result] = labels;
    let attributes = [("a_labels", of_x.into()), ("b_labels", of_y.into()), ("labels", result.into())];
    b.op(TensorOp::Contract, &[x.into(), y.into()], &attributes)
}

pub(crate) fn einsum(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let text = if let AttributeValue::Text(text) = &attributes[0] { &**text } else { "" };
    // Inference has read it.
    let Ok(equation) = Equation::parse(text) else { return Ok(x[0]) };
    let mut rest: Vec<(TensorId, Vec<i64>)> = x.iter().copied().zip(equation.operands).collect();
    let (mut value, mut labels) = rest.remove(0);
    loop {
        // Axes that neither another operand nor the result needs are summed over first.
        let is_needed = |label: &i64, others: &[(TensorId, Vec<i64>)]| {
            equation.result.contains(label) || others.iter().any(|(_, own)| own.contains(label))
        };
        (value, labels) = without(b, value, labels, |label| is_needed(label, &rest))?;
        if rest.is_empty() {
            break;
        }
        let (other, other_labels) = rest.remove(0);
        let own = labels.clone();
        let (other, other_labels) =
            without(b, other, other_labels, |label| own.contains(label) || is_needed(label, &rest))?;
        let both = labels.iter().chain(other_labels.iter().filter(|label| !labels.contains(label)));
        let mut kept: Vec<i64> = both.copied().filter(|label| is_needed(label, &rest)).collect();
        if rest.is_empty() {
            kept = equation.result.clone();
        }
        value = contract(b, value, other, [labels, other_labels, kept.clone()])?;
        labels = kept;
    }
    let axes = equation.result.iter().filter_map(|label| labels.iter().position(|own| own == label));
    let axes: Vec<i64> = axes.map(|axis| axis as i64).collect();
    if axes.iter().enumerate().all(|(place, &axis)| place as i64 == axis) {
        return Ok(value);
    }
    b.op(TensorOp::Permute, &[value.into()], &[("axes", axes.into())])
}

/// Sums over the axes whose labels are not needed, in the type of the tensor.
fn without(
    b: &mut GraphBuilder,
    x: TensorId,
    labels: Vec<i64>,
    is_needed: impl Fn(&i64) -> bool,
) -> Result<(TensorId, Vec<i64>), crate::error::GraphError> {
    let axes: Vec<i64> = (0..labels.len()).filter(|&axis| !is_needed(&labels[axis])).map(|axis| axis as i64).collect();
    if axes.is_empty() {
        return Ok((x, labels));
    }
    let dtype = b.ty(x)?.dtype;
    let sum = reduce(b, TensorOp::Sum, x, &axes, false)?;
    let sum = b.cast(sum, dtype)?;
    Ok((sum, labels.into_iter().filter(|label| is_needed(label)).collect()))
}

pub(crate) fn linear(b: &mut GraphBuilder, x: &[TensorId], _: &[AttributeValue]) -> Built {
    let weight = b.op(TensorOp::Transpose, &[x[1].into()], &[])?;
    let product = binary(b, TensorOp::MatMul, x[0], weight)?;
    match x.get(2) {
        Some(&bias) => binary(b, TensorOp::Add, product, bias),
        None => Ok(product),
    }
}

/// Adds elements around the last axes.
fn padded(b: &mut GraphBuilder, x: TensorId, padding: &[i64], value: f64) -> Built {
    if padding.iter().all(|&width| width == 0) {
        return Ok(x);
    }
    let rank = b.ty(x)?.shape.rank();
    let widths: Vec<i64> = std::iter::repeat_n(0, 2 * rank - padding.len()).chain(padding.iter().copied()).collect();
    b.op(TensorOp::Pad, &[x.into()], &[("widths", widths.into()), ("value", value.into())])
}

/// Cuts the last axes into windows.
fn windows(b: &mut GraphBuilder, x: TensorId, sizes: &[i64], steps: &[i64], dilations: &[i64]) -> Built {
    let rank = b.ty(x)?.shape.rank() as i64;
    let axes: Vec<i64> = (rank - sizes.len() as i64..rank).collect();
    let attributes =
        [("axes", axes.into()), ("sizes", sizes.into()), ("steps", steps.into()), ("dilations", dilations.into())];
    b.op(TensorOp::Windows, &[x.into()], &attributes)
}

/// Cuts the last axes into windows. If these leap along the last axis, the elements of theirs along it are copied side by side
/// with those of their neighbours, once for all windows above each other.
fn windows_with_rows(b: &mut GraphBuilder, x: TensorId, sizes: &[i64], steps: &[i64], dilations: &[i64]) -> Built {
    let Some(last) = steps.len().checked_sub(1).filter(|&last| steps[last] > 1) else {
        return windows(b, x, sizes, steps, dilations);
    };
    let rank = b.ty(x)?.shape.rank() as i64;
    let of_rows = windows(b, x, &sizes[last..], &steps[last..], &dilations[last..])?;
    // The elements of a window come before the windows.
    let axes: Vec<i64> = (0..rank - 1).chain([rank, rank - 1]).collect();
    let ordered = b.op(TensorOp::Permute, &[of_rows.into()], &[("axes", axes.into())])?;
    let copied = unary(b, TensorOp::Contiguous, ordered)?;
    let axes: Vec<i64> = (rank - 1 - last as i64..rank - 1).collect();
    let rest = [("sizes", &sizes[..last]), ("steps", &steps[..last]), ("dilations", &dilations[..last])];
    let attributes: Vec<(&str, AttributeValue)> =
        std::iter::once(("axes", axes.into())).chain(rest.map(|(name, values)| (name, values.into()))).collect();
    let cut = b.op(TensorOp::Windows, &[copied.into()], &attributes)?;
    // From [rows of windows…, element, window, rows of a window…] to [rows…, window, rows of a window…, element].
    let (first, all) = (rank - 1, rank + 1 + last as i64);
    let axes: Vec<i64> = (0..first).chain([first + 1]).chain(first + 2..all).chain([first]).collect();
    b.op(TensorOp::Permute, &[cut.into()], &[("axes", axes.into())])
}

/// Splits an axis into groups and what is in each.
fn grouped(b: &mut GraphBuilder, x: TensorId, axis: usize, groups: i64) -> Built {
    let mut shape = b.ty(x)?.shape.clone();
    let own = shape.0[axis].as_static().unwrap_or(0) / groups as u64;
    shape.0.splice(axis..=axis, [Dim::Static(groups as u64), Dim::Static(own)]);
    reshape(b, x, shape)
}

fn sizes_of(b: &GraphBuilder, weight: TensorId) -> Result<Vec<i64>, crate::error::GraphError> {
    let dims = b.ty(weight)?.shape.0[2..].iter();
    Ok(dims.map(|dim| dim.as_static().unwrap_or(1) as i64).collect())
}

pub(crate) fn convolution(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let [strides, padding, dilations] = [0, 1, 2].map(|index| attributes[index].ints());
    let groups = attributes[3].int();
    let result = b.ty(x[1])?.shape.0[0].clone();
    let sizes = sizes_of(b, x[1])?;
    let n = sizes.len() as i64;
    let padded = padded(b, x[0], &padding, 0.0)?;
    let channels = grouped(b, padded, 1, groups)?;
    let windows = windows_with_rows(b, channels, &sizes, &strides, &dilations)?;
    let weight = grouped(b, x[1], 0, groups)?;
    use label::{BATCH, CHANNEL, GROUP, OFFSET, OUTPUT, PLACE};
    let (places, offsets) = (PLACE..PLACE + n, OFFSET..OFFSET + n);
    let labels = [
        [GROUP, OUTPUT, CHANNEL].into_iter().chain(offsets.clone()).collect(),
        [BATCH, GROUP, CHANNEL].into_iter().chain(places.clone()).chain(offsets).collect(),
        [BATCH, GROUP, OUTPUT].into_iter().chain(places).collect(),
    ];
    let product = contract(b, weight, windows, labels)?;
    let mut shape = b.ty(product)?.shape.clone();
    shape.0.splice(1..3, [result.clone()]);
    let product = reshape(b, product, shape)?;
    let Some(&bias) = x.get(2) else { return Ok(product) };
    let mut per_output = vec![Dim::Static(1); n as usize + 1];
    per_output[0] = result;
    let bias = reshape(b, bias, Shape(per_output))?;
    binary(b, TensorOp::Add, product, bias)
}

pub(crate) fn max_pool2d(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let [sizes, strides, padding, dilations] = [0, 1, 2, 3].map(|index| attributes[index].ints());
    // `false` is below `true`; minus infinity would be true.
    let is_bool = b.ty(x[0])?.dtype == Scalar::Bool;
    let padded = padded(b, x[0], &padding, if is_bool { 0.0 } else { f64::NEG_INFINITY })?;
    let windows = windows(b, padded, &sizes, &strides, &dilations)?;
    reduce(b, TensorOp::Max, windows, &[-2, -1], false)
}

pub(crate) fn avg_pool2d(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let [sizes, strides, padding] = [0, 1, 2].map(|index| attributes[index].ints());
    let dtype = b.ty(x[0])?.dtype;
    let sum = sum_of_windows(b, x[0], &sizes, &strides, &padding)?;
    if attributes[3].flag() || padding.iter().all(|&width| width == 0) {
        let n: i64 = sizes.iter().product();
        return binary(b, TensorOp::Divide, sum, n as f64);
    }
    let plane = Shape(b.ty(x[0])?.shape.0.iter().rev().take(2).rev().cloned().collect());
    let one: TensorOperand = b.number(dtype, 1.0).into();
    let ones = b.op(TensorOp::BroadcastTo, &[one], &[("shape", plane.into())])?;
    let count = sum_of_windows(b, ones, &sizes, &strides, &padding)?;
    binary(b, TensorOp::Divide, sum, count)
}

/// Sums each window over the last two axes, with zeros around them.
fn sum_of_windows(b: &mut GraphBuilder, x: TensorId, sizes: &[i64], steps: &[i64], padding: &[i64]) -> Built {
    let padded = padded(b, x, padding, 0.0)?;
    let windows = windows(b, padded, sizes, steps, &[1, 1])?;
    reduce(b, TensorOp::Sum, windows, &[-2, -1], false)
}
