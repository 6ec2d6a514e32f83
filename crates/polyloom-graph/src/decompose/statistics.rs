//! Composite reductions and scans.

use super::build::{Built, binary, count, reduce, reshape, unary};
use crate::attribute::AttributeValue;
use crate::builder::GraphBuilder;
use crate::graph::TensorId;
use crate::op::TensorOp;
use crate::shape::Shape;

pub(crate) fn mean(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axes = attributes[0].ints();
    let sum = reduce(b, TensorOp::Sum, x[0], &axes, attributes[1].flag())?;
    let dtype = b.ty(sum)?.dtype;
    let n = count(b, x[0], &axes, dtype)?;
    binary(b, TensorOp::Divide, sum, n)
}

pub(crate) fn scan(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let op = match &attributes[1] {
        AttributeValue::Text(word) if &**word == "multiply" => TensorOp::Cumprod,
        AttributeValue::Text(word) if &**word == "maximum" => TensorOp::Cummax,
        AttributeValue::Text(word) if &**word == "minimum" => TensorOp::Cummin,
        _ => TensorOp::Cumsum,
    };
    b.op(op, &[x[0].into()], &[("axis", attributes[0].int().into())])
}

pub(crate) fn var(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axes = attributes[0].ints();
    let mean = reduce(b, TensorOp::Mean, x[0], &axes, true)?;
    let difference = binary(b, TensorOp::Subtract, x[0], mean)?;
    let square = unary(b, TensorOp::Square, difference)?;
    let sum = reduce(b, TensorOp::Sum, square, &axes, attributes[1].flag())?;
    let dtype = b.ty(sum)?.dtype;
    let n = count(b, x[0], &axes, dtype)?;
    let divisor = match attributes[2].int() {
        0 => n,
        correction => {
            let less = binary(b, TensorOp::Subtract, n, correction as f64)?;
            // As in NumPy, more correction than elements divides by 0.
            binary(b, TensorOp::Maximum, less, 0.0)?
        }
    };
    binary(b, TensorOp::Divide, sum, divisor)
}

pub(crate) fn std(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let names = ["axes", "keepdims", "correction"].into_iter().zip(attributes.iter().cloned());
    let named: Vec<(&str, AttributeValue)> = names.collect();
    let variance = b.op(TensorOp::Var, &[x[0].into()], &named)?;
    unary(b, TensorOp::Sqrt, variance)
}

pub(crate) fn logsumexp(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axes = attributes[0].ints();
    let max = reduce(b, TensorOp::Max, x[0], &axes, true)?;
    // An infinity less itself would be NaN.
    let is_finite = unary(b, TensorOp::Isfinite, max)?;
    let shift = b.op(TensorOp::Where, &[is_finite.into(), max.into(), 0.0.into()], &[])?;
    let shifted = binary(b, TensorOp::Subtract, x[0], shift)?;
    let exponential = unary(b, TensorOp::Exp, shifted)?;
    let sum = reduce(b, TensorOp::Sum, exponential, &axes, true)?;
    let logarithm = unary(b, TensorOp::Log, sum)?;
    let result = binary(b, TensorOp::Add, logarithm, shift)?;
    if attributes[1].flag() {
        return Ok(result);
    }
    let dims = b.ty(x[0])?.shape.0.clone().into_iter().enumerate();
    let kept = dims.filter(|(axis, _)| !axes.contains(&(*axis as i64))).map(|(_, dim)| dim);
    reshape(b, result, Shape(kept.collect()))
}

pub(crate) fn norm(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let square = unary(b, TensorOp::Square, x[0])?;
    let sum = reduce(b, TensorOp::Sum, square, &attributes[0].ints(), attributes[1].flag())?;
    unary(b, TensorOp::Sqrt, sum)
}
