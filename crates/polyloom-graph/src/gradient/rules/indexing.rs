//! Rules of ops that move elements by indices.

use crate::gradient::query::{GradientQuery, OperandContributions};
use crate::op::TensorOp;
use crate::shape::Dim;
use polyloom_ir::Scalar;

/// Each element gets the sum over the places that took it. An index that is out of range takes from the nearest.
pub(super) fn gather<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = q.attributes[0].int();
    let (mut shape, index) = (q.x[0].shape(), q.x[1]);
    let n = q.x[0].extent(&[axis], Scalar::I64);
    let counted = index.binary(TensorOp::Less, 0i64).select(index + n, index);
    let nearest = counted.binary(TensorOp::Maximum, 0i64).binary(TensorOp::Minimum, n - 1i64);
    // Along the other axes the tensor may be repeated, which the pass sums over.
    let result = q.g.shape();
    for (other, dim) in shape.0.iter_mut().enumerate() {
        if other as i64 != axis {
            dim.clone_from(&result.0[other]);
        }
    }
    let mut ty = q.x[0].ty();
    ty.shape = shape;
    let zeros = q.g.zeros(&ty);
    let sums = zeros.apply(TensorOp::ScatterAdd, &[nearest.into(), q.g.into()], &[("axis", axis.into())]);
    vec![Some(sums), None]
}

pub(super) fn scatter_add<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let axis = q.attributes[0].int();
    let index = q.x[1].broadcast_to(&q.x[2].shape());
    if q.x[0].shape().0[axis as usize] == Dim::Static(0) {
        return vec![Some(q.g), None, None];
    }
    let n = q.x[0].extent(&[axis], Scalar::I64);
    let taken = q.g.apply(TensorOp::Gather, &[index.into()], &[("axis", axis.into())]);
    let is_within =
        index.binary(TensorOp::GreaterEqual, -n).binary(TensorOp::LogicalAnd, index.binary(TensorOp::Less, n));
    vec![Some(q.g), None, Some(is_within.select(taken, 0.0))]
}

/// Each cotangent goes back to where its element came from.
pub(super) fn sort<'g>(q: &GradientQuery<'g>) -> OperandContributions<'g> {
    let [axis, descending] = [0, 1].map(|index| q.attributes[index].clone());
    let index = q.x[0].apply(TensorOp::Argsort, &[], &[("axis", axis.clone()), ("descending", descending)]);
    let zeros = q.g.zeros(&q.x[0].ty());
    vec![Some(zeros.apply(TensorOp::ScatterAdd, &[index.into(), q.g.into()], &[("axis", axis)]))]
}
