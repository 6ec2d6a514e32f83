//! The steps that decompositions are made of. Each writes an op with simpler ones, some of which are composite themselves.
//!
//! Operands have been converted by the op's type rule and attributes are canonical, so that a decomposition checks nothing.

use crate::attribute::AttributeValue;
use crate::builder::{GraphBuilder, TensorOperand};
use crate::error::GraphError;
use crate::graph::TensorId;
use crate::op::TensorOp;
use crate::shape::Shape;
use polyloom_ir::Scalar;

pub(crate) type Built = Result<TensorId, GraphError>;

pub(super) fn unary(b: &mut GraphBuilder, op: TensorOp, x: TensorId) -> Built {
    b.op(op, &[x.into()], &[])
}

pub(super) fn binary(
    b: &mut GraphBuilder,
    op: TensorOp,
    x: impl Into<TensorOperand>,
    y: impl Into<TensorOperand>,
) -> Built {
    b.op(op, &[x.into(), y.into()], &[])
}

pub(super) fn reduce(b: &mut GraphBuilder, op: TensorOp, x: TensorId, axes: &[i64], keepdims: bool) -> Built {
    b.op(op, &[x.into()], &[("axes", axes.into()), ("keepdims", keepdims.into())])
}

pub(super) fn reshape(b: &mut GraphBuilder, x: TensorId, shape: Shape) -> Built {
    b.op(TensorOp::Reshape, &[x.into()], &[("shape", shape.into())])
}

/// Returns the number of elements along axes as a scalar, which kernels take as a parameter.
pub(crate) fn count(b: &mut GraphBuilder, x: TensorId, axes: &[i64], dtype: Scalar) -> Built {
    b.op(TensorOp::ElementCount, &[x.into()], &[("axes", axes.into()), ("dtype", dtype.into())])
}

/// Returns an attribute's integers. Inference has checked its kind, so that there is no other case.
pub(crate) fn ints(attribute: &AttributeValue) -> Vec<i64> {
    match attribute {
        AttributeValue::Ints(values) => values.clone(),
        AttributeValue::Int(value) => vec![*value],
        _ => Vec::new(),
    }
}

pub(crate) fn int(attribute: &AttributeValue) -> i64 {
    ints(attribute).first().copied().unwrap_or(0)
}

pub(crate) fn float(attribute: &AttributeValue) -> f64 {
    match attribute {
        AttributeValue::Float(value) => *value,
        other => int(other) as f64,
    }
}

pub(crate) fn flag(attribute: &AttributeValue) -> bool {
    *attribute == AttributeValue::Bool(true)
}

pub(super) fn is_word(attribute: &AttributeValue, word: &str) -> bool {
    matches!(attribute, AttributeValue::Text(text) if &**text == word)
}
