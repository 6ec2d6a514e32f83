//! Ops that normalise rows.

use super::build::{Built, binary, reduce, reshape, unary};
use crate::attribute::AttributeValue;
use crate::builder::GraphBuilder;
use crate::error::GraphError;
use crate::graph::TensorId;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};

/// Subtracts the maximum along an axis, so that exponentials do not overflow. Returns `None` if the axis is empty, which has
/// no maximum and nothing to normalise.
fn shifted(b: &mut GraphBuilder, x: TensorId, axis: i64) -> Result<Option<TensorId>, GraphError> {
    if b.ty(x)?.shape.0[axis as usize] == Dim::Static(0) {
        return Ok(None);
    }
    let max = reduce(b, TensorOp::Max, x, &[axis], true)?;
    binary(b, TensorOp::Subtract, x, max).map(Some)
}

pub(crate) fn softmax(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axis = attributes[0].int();
    let Some(shifted) = shifted(b, x[0], axis)? else { return Ok(x[0]) };
    let exponential = unary(b, TensorOp::Exp, shifted)?;
    let sum = reduce(b, TensorOp::Sum, exponential, &[axis], true)?;
    multiplied_by_reciprocal(b, exponential, sum)
}

pub(crate) fn log_softmax(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axis = attributes[0].int();
    let Some(shifted) = shifted(b, x[0], axis)? else { return Ok(x[0]) };
    let exponential = unary(b, TensorOp::Exp, shifted)?;
    let sum = reduce(b, TensorOp::Sum, exponential, &[axis], true)?;
    let logarithm = unary(b, TensorOp::Log, sum)?;
    binary(b, TensorOp::Subtract, shifted, logarithm)
}

/// Multiplies rows by the reciprocal of what each has one of, which takes one division a row.
fn multiplied_by_reciprocal(b: &mut GraphBuilder, x: TensorId, divisor: TensorId) -> Built {
    let reciprocal = unary(b, TensorOp::Reciprocal, divisor)?;
    binary(b, TensorOp::Multiply, x, reciprocal)
}

/// Divides by the root of the mean square along axes plus `epsilon`.
fn divided_by_rms(b: &mut GraphBuilder, x: TensorId, axes: &[i64], epsilon: f64) -> Built {
    let square = unary(b, TensorOp::Square, x)?;
    let mean = reduce(b, TensorOp::Mean, square, axes, true)?;
    let sum = binary(b, TensorOp::Add, mean, epsilon)?;
    let root = unary(b, TensorOp::Sqrt, sum)?;
    multiplied_by_reciprocal(b, x, root)
}

fn standardised(b: &mut GraphBuilder, x: TensorId, axes: &[i64], epsilon: f64) -> Built {
    let mean = reduce(b, TensorOp::Mean, x, axes, true)?;
    let difference = binary(b, TensorOp::Subtract, x, mean)?;
    divided_by_rms(b, difference, axes, epsilon)
}

/// Multiplies by the weight and adds the bias, if there are any.
fn scaled(b: &mut GraphBuilder, x: TensorId, weight_and_bias: &[TensorId]) -> Built {
    let ops = [TensorOp::Multiply, TensorOp::Add].into_iter();
    ops.zip(weight_and_bias).try_fold(x, |x, (op, &operand)| binary(b, op, x, operand))
}

fn axes_from(b: &GraphBuilder, x: TensorId, first: i64) -> Result<Vec<i64>, GraphError> {
    Ok((first..b.ty(x)?.shape.rank() as i64).collect())
}

pub(crate) fn layer_norm(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axes = axes_from(b, x[0], attributes[0].int())?;
    let normal = standardised(b, x[0], &axes, attributes[1].float())?;
    scaled(b, normal, &x[1..])
}

pub(crate) fn rms_norm(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axes = axes_from(b, x[0], attributes[0].int())?;
    let normal = divided_by_rms(b, x[0], &axes, attributes[1].float())?;
    scaled(b, normal, &x[1..])
}

pub(crate) fn group_norm(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let shape = b.ty(x[0])?.shape.clone();
    let groups = attributes[0].int() as u64;
    let n_channels = shape.0[1].as_static().unwrap_or(groups);
    let mut grouped = shape.0.clone();
    grouped.splice(1..2, [Dim::Static(groups), Dim::Static(n_channels / groups)]);
    let split = reshape(b, x[0], Shape(grouped))?;
    let axes = axes_from(b, split, 2)?;
    let normal = standardised(b, split, &axes, attributes[1].float())?;
    let joined = reshape(b, normal, shape.clone())?;
    // The channel is followed by the axes that weights are the same along.
    let mut per_channel = vec![Dim::Static(1); shape.rank() - 1];
    per_channel[0] = Dim::Static(n_channels);
    let mut weights = Vec::new();
    for &operand in &x[1..] {
        weights.push(reshape(b, operand, Shape(per_channel.clone()))?);
    }
    scaled(b, joined, &weights)
}
