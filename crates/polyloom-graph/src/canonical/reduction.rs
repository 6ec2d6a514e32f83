//! Reductions: they drop their axes, and a reshape puts those of extent 1 back, so that both ways to write one are the same.

use super::along_axes;
use super::options::IdentityStrength;
use super::term::{TermId, TermStore, intern, push_term};
use super::types::TypeId;
use super::view::reshape;
use crate::attribute::{AttributeValue, Attributes};
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use smallvec::smallvec;

pub(super) fn make<S: TermStore>(store: &mut S, op: TensorOp, x: TermId, attributes: Attributes, ty: TypeId) -> TermId {
    let TensorType { dtype, shape } = store.types().get(ty).clone();
    if matches!(op, TensorOp::Argmax | TensorOp::Argmin) {
        // An index is counted in row-major order of all elements where there is no axis.
        let axes = if attributes.0[0] == AttributeValue::None {
            (0..store.ty(x).shape.rank()).collect()
        } else {
            attributes.0[0].axes()
        };
        let attributes = Attributes(vec![attributes.0[0].clone(), false.into()]);
        let dropped = dropped(&store.ty(x).shape, &axes);
        let ty = intern(store, dtype, dropped);
        let index = push_term(store, op, smallvec![x], attributes, ty);
        return reshape(store, index, shape);
    }
    let axes = attributes.0[0].axes();
    let reduced = reduce(store, op, x, &axes, dtype);
    reshape(store, reduced, shape)
}

fn dropped(shape: &Shape, axes: &[usize]) -> Shape {
    Shape(shape.0.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, dim)| dim.clone()).collect())
}

/// Adds a reduction that drops its axes.
pub(crate) fn reduce<S: TermStore>(store: &mut S, op: TensorOp, x: TermId, axes: &[usize], dtype: Scalar) -> TermId {
    let own = store.ty(x).clone();
    let is_exact = !matches!(op, TensorOp::Sum | TensorOp::Prod) || !own.dtype.is_float();
    let is_real = store.strength() == IdentityStrength::Mathematics;
    let may_regroup = (is_exact || is_real) && own.dtype == dtype;
    // A sum of one float is this float, but for -0.0; a maximum is the canonical NaN for any.
    let is_kept = |axis: &usize| own.shape.0[*axis] != Dim::Static(1);
    if may_regroup && !axes.iter().any(is_kept) {
        return reshape(store, x, dropped(&own.shape, axes));
    }
    if may_regroup && let Some(merged) = merged(store, op, x, axes, dtype) {
        return merged;
    }
    if is_real
        && own.dtype == dtype
        && let Some(rewritten) = along_axes::reduce(store, op, x, axes)
    {
        return rewritten;
    }
    push(store, op, x, axes, dtype)
}

/// Adds the reduction of a reduction of the same op as one along the axes of both.
fn merged<S: TermStore>(store: &mut S, op: TensorOp, x: TermId, axes: &[usize], dtype: Scalar) -> Option<TermId> {
    let (attributes, inner) = store.op_term(x, op)?;
    if store.ty(inner[0]).dtype != dtype || !store.spend() {
        return None;
    }
    // The axes that are left, by their places before the inner reduction.
    let inner_axes = attributes.0[0].axes();
    let rank = store.ty(inner[0]).shape.rank();
    let left: Vec<usize> = (0..rank).filter(|axis| !inner_axes.contains(axis)).collect();
    let mut all: Vec<usize> = inner_axes.into_iter().chain(axes.iter().map(|&axis| left[axis])).collect();
    all.sort_unstable();
    Some(reduce(store, op, inner[0], &all, dtype))
}

/// Adds a reduction over the reals, which one of the same op inside of it is part of.
pub(super) fn push_real<S: TermStore>(store: &mut S, op: TensorOp, x: TermId, axes: &[usize], dtype: Scalar) -> TermId {
    merged(store, op, x, axes, dtype).unwrap_or_else(|| push(store, op, x, axes, dtype))
}

/// Adds a reduction as it is.
pub(super) fn push<S: TermStore>(store: &mut S, op: TensorOp, x: TermId, axes: &[usize], dtype: Scalar) -> TermId {
    let shape = dropped(&store.ty(x).shape, axes);
    let list = axes.iter().map(|&axis| axis as i64).collect();
    let attributes = Attributes(vec![AttributeValue::Ints(list), false.into()]);
    let ty = intern(store, dtype, shape);
    push_term(store, op, smallvec![x], attributes, ty)
}
