//! The steps that decompositions are made of. Each writes an op with simpler ones, some of which are composite themselves.
//!
//! Operands have been converted by the op's type rule and attributes are canonical, so that a decomposition checks nothing.

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
