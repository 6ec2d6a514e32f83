//! Ops that move elements by indices.

use super::build::{Built, reshape};
use crate::attribute::AttributeValue;
use crate::builder::GraphBuilder;
use crate::graph::TensorId;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;

pub(crate) fn take(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    along(b, x, attributes[0].int() as usize)
}

pub(crate) fn embedding(b: &mut GraphBuilder, x: &[TensorId], _: &[AttributeValue]) -> Built {
    along(b, x, 0)
}

/// Gathers with the axes of the index as axes of the result, of which the tensor is the same along all but one.
fn along(b: &mut GraphBuilder, x: &[TensorId], axis: usize) -> Built {
    let [of_x, of_index] = [x[0], x[1]].map(|id| b.ty(id).map(|ty| ty.shape.clone()));
    let (mut of_x, of_index) = (of_x?, of_index?);
    let n_after = of_x.rank() - axis - 1;
    // A scalar index takes one slice, whose axis is dropped.
    let mut result = of_x.clone();
    result.0.splice(axis..=axis, of_index.0.iter().cloned());
    let index_dims = if of_index.rank() == 0 { vec![Dim::Static(1)] } else { of_index.0.clone() };
    let n_more = index_dims.len() - 1;
    let wide_index =
        std::iter::repeat_n(Dim::Static(1), axis).chain(index_dims).chain(std::iter::repeat_n(Dim::Static(1), n_after));
    let index = reshape(b, x[1], Shape(wide_index.collect()))?;
    // The axis that is gathered along is the last of the index's.
    of_x.0.splice(axis..axis, std::iter::repeat_n(Dim::Static(1), n_more));
    let wide = reshape(b, x[0], of_x)?;
    let gathered =
        b.op(TensorOp::Gather, &[wide.into(), index.into()], &[("axis", ((axis + n_more) as i64).into())])?;
    reshape(b, gathered, result)
}

pub(crate) fn one_hot(b: &mut GraphBuilder, x: &[TensorId], attributes: &[AttributeValue]) -> Built {
    let classes = attributes[0].int() as u64;
    let dtype = if let AttributeValue::Dtype(dtype) = attributes[1] { dtype } else { Scalar::F32 };
    let mut shape = b.ty(x[0])?.shape.clone();
    shape.0.push(Dim::Static(1));
    let index = reshape(b, x[0], shape)?;
    let all = Shape::of(&[classes]);
    let classes = b.op(TensorOp::Iota, &[], &[("shape", all.into()), ("axis", 0i64.into())])?;
    let is_class = b.op(TensorOp::Equal, &[index.into(), classes.into()], &[])?;
    b.cast(is_class, dtype)
}
