//! Composite ops that move elements or drop them.

use super::build::{Built, binary, reshape};
use crate::attribute::AttributeValue;
use crate::builder::{GraphBuilder, TensorOperand};
use crate::graph::TensorId;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;

pub(crate) fn transpose(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let mut axes: Vec<i64> = (0..b.ty(x[0])?.shape.rank() as i64).collect();
    axes.swap(attributes[0].int() as usize, attributes[1].int() as usize);
    b.op(TensorOp::Permute, &[x[0].into()], &[("axes", axes.into())])
}

pub(crate) fn stack(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let axis = attributes[0].int();
    let mut shape = b.ty(x[0])?.shape.clone();
    shape.0.insert(axis as usize, Dim::Static(1));
    let mut layers: Vec<TensorOperand> = Vec::new();
    for &operand in x {
        layers.push(reshape(b, operand, shape.clone())?.into());
    }
    b.op(TensorOp::Concat, &layers, &[("axis", axis.into())])
}

pub(crate) fn tile(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let shape = b.ty(x[0])?.shape.clone();
    let repeats: Vec<u64> = attributes[0].ints().iter().map(|&factor| factor as u64).collect();
    let pairs = |factors: &dyn Fn(usize) -> u64| {
        let dims = shape.0.iter().enumerate();
        Shape(dims.flat_map(|(axis, dim)| [Dim::Static(factors(axis)), dim.clone()]).collect())
    };
    let split = reshape(b, x[0], pairs(&|_| 1))?;
    let target = pairs(&|axis| repeats[axis]);
    let repeated = b.op(TensorOp::BroadcastTo, &[split.into()], &[("shape", target.into())])?;
    let dims = shape.0.iter().zip(&repeats).map(|(dim, &factor)| match dim {
        Dim::Static(extent) => Dim::Static(extent * factor),
        // Inference lets a symbolic extent be repeated once alone.
        symbol => symbol.clone(),
    });
    let joined = Shape(dims.collect());
    reshape(b, repeated, joined)
}

pub(crate) fn dropout(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let p = attributes[0].float();
    let shape = b.ty(x[0])?.shape.clone();
    let random = [("shape", shape.into()), ("dtype", Scalar::F32.into())];
    let random = b.op(TensorOp::Rand, &[x[1].into()], &random)?;
    let is_kept = binary(b, TensorOp::GreaterEqual, random, p)?;
    let scaled = binary(b, TensorOp::Divide, x[0], 1.0 - p)?;
    b.op(TensorOp::Where, &[is_kept.into(), scaled.into(), 0.0.into()], &[])
}
