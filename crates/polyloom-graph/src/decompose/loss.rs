//! Losses.

use super::build::{Built, binary, reduce, reshape, unary};
use crate::attribute::AttributeValue;
use crate::builder::GraphBuilder;
use crate::graph::TensorId;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};

pub(crate) fn cross_entropy(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let shape = b.ty(x[0])?.shape.clone();
    let axis = shape.rank().min(2) - 1;
    let logarithm = b.op(TensorOp::LogSoftmax, &[x[0].into()], &[("axis", (axis as i64).into())])?;
    let negative = unary(b, TensorOp::Negative, logarithm)?;
    // The class of a place is found by comparing all classes with the target, so that none is out of range.
    let mut along_classes = vec![Dim::Static(1); shape.rank()];
    along_classes[axis] = shape.0[axis].clone();
    let iota = [("shape", Shape(along_classes).into()), ("axis", (axis as i64).into())];
    let classes = b.op(TensorOp::Iota, &[], &iota)?;
    let mut places = shape;
    places.0[axis] = Dim::Static(1);
    let target = reshape(b, x[1], places)?;
    let is_target = binary(b, TensorOp::Equal, classes, target)?;
    let chosen = b.op(TensorOp::Where, &[is_target.into(), negative.into(), 0.0.into()], &[])?;
    let losses = reduce(b, TensorOp::Sum, chosen, &[axis as i64], false)?;
    match &attributes[0] {
        word if word.is_word("mean") => unary(b, TensorOp::Mean, losses),
        word if word.is_word("sum") => unary(b, TensorOp::Sum, losses),
        _ => Ok(losses),
    }
}
