//! Elementwise composite ops.

use super::build::{Built, binary, unary};
use crate::attribute::AttributeValue;
use crate::builder::{GraphBuilder, TensorOperand};
use crate::error::GraphError;
use crate::graph::TensorId;
use crate::op::TensorOp;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

pub(crate) fn square(b: &mut GraphBuilder, x: &[TensorId], _: &[AttributeValue]) -> Built {
    binary(b, TensorOp::Multiply, x[0], x[0])
}

pub(crate) fn reciprocal(b: &mut GraphBuilder, x: &[TensorId], _: &[AttributeValue]) -> Built {
    binary(b, TensorOp::Divide, 1.0, x[0])
}

pub(crate) fn clip(b: &mut GraphBuilder, x: &[TensorId], _: &[AttributeValue]) -> Built {
    let above = binary(b, TensorOp::Maximum, x[0], x[1])?;
    binary(b, TensorOp::Minimum, above, x[2])
}

pub(crate) fn relu(b: &mut GraphBuilder, x: &[TensorId], _: &[AttributeValue]) -> Built {
    binary(b, TensorOp::Maximum, x[0], TensorOperand::Int(0))
}

pub(crate) fn leaky_relu(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let is_positive = binary(b, TensorOp::Greater, x[0], 0.0)?;
    let scaled = binary(b, TensorOp::Multiply, x[0], attributes[0].float())?;
    b.op(TensorOp::Where, &[is_positive.into(), x[0].into(), scaled.into()], &[])
}

pub(crate) fn gelu(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let bend = match &attributes[0] {
        AttributeValue::None => {
            let scaled = binary(b, TensorOp::Multiply, x[0], FRAC_1_SQRT_2)?;
            unary(b, TensorOp::Erf, scaled)?
        }
        word if word.is_word("tanh") => {
            let squared = unary(b, TensorOp::Square, x[0])?;
            let cubed = binary(b, TensorOp::Multiply, squared, x[0])?;
            let cubic = binary(b, TensorOp::Multiply, cubed, 0.044715)?;
            let sum = binary(b, TensorOp::Add, x[0], cubic)?;
            let scaled = binary(b, TensorOp::Multiply, sum, FRAC_2_PI.sqrt())?;
            unary(b, TensorOp::Tanh, scaled)?
        }
        other => {
            let (op, attribute) = (TensorOp::Gelu.name(), "approximate".to_owned());
            return Err(GraphError::Attribute { op, attribute, reason: format!("is {other}, not \"tanh\" or none") });
        }
    };
    let weight = binary(b, TensorOp::Add, bend, 1.0)?;
    let half = binary(b, TensorOp::Multiply, x[0], 0.5)?;
    binary(b, TensorOp::Multiply, half, weight)
}

pub(crate) fn silu(b: &mut GraphBuilder, x: &[TensorId], _: &[AttributeValue]) -> Built {
    let weight = unary(b, TensorOp::Sigmoid, x[0])?;
    binary(b, TensorOp::Multiply, x[0], weight)
}

pub(crate) fn sigmoid(b: &mut GraphBuilder, x: &[TensorId], _: &[AttributeValue]) -> Built {
    let negative = unary(b, TensorOp::Negative, x[0])?;
    let exponential = unary(b, TensorOp::Exp, negative)?;
    let denominator = binary(b, TensorOp::Add, exponential, 1.0)?;
    unary(b, TensorOp::Reciprocal, denominator)
}

pub(crate) fn softplus(b: &mut GraphBuilder, x: &[TensorId], _: &[AttributeValue]) -> Built {
    let magnitude = unary(b, TensorOp::Absolute, x[0])?;
    let negative = unary(b, TensorOp::Negative, magnitude)?;
    let exponential = unary(b, TensorOp::Exp, negative)?;
    let rest = unary(b, TensorOp::Log1p, exponential)?;
    let positive = unary(b, TensorOp::Relu, x[0])?;
    binary(b, TensorOp::Add, positive, rest)
}
