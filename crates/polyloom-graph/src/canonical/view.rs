//! Views: those that change nothing are left out, and a view of a view is one where one can be.

use super::labels;
use super::options::IdentityStrength;
use super::ring;
use super::term::{TermId, TermStore, intern, push_term};
use super::types::TypeId;
use crate::attribute::{AttributeValue, Attributes};
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use smallvec::smallvec;

const ONE: Dim = Dim::Static(1);

pub(super) fn make<S: TermStore>(store: &mut S, op: TensorOp, x: TermId, attributes: Attributes, ty: TypeId) -> TermId {
    let shape = store.types().get(ty).shape.clone();
    match op {
        TensorOp::Reshape => reshape(store, x, shape),
        TensorOp::BroadcastTo => broadcast(store, x, shape),
        TensorOp::Permute => permute(store, x, &attributes.0[0].axes()),
        TensorOp::Flip => flip(store, x, attributes.0[0].axes()),
        _ => slice(store, x, attributes, shape),
    }
}

fn push<S: TermStore>(store: &mut S, op: TensorOp, x: TermId, attribute: AttributeValue, shape: Shape) -> TermId {
    let dtype = store.ty(x).dtype;
    let ty = intern(store, dtype, shape);
    push_term(store, op, smallvec![x], Attributes(vec![attribute]), ty)
}

/// Adds a reshape.
pub(crate) fn reshape<S: TermStore>(store: &mut S, x: TermId, shape: Shape) -> TermId {
    if store.ty(x).shape == shape {
        return x;
    }
    if store.spend()
        && let Some(inner) = store.operands_of(x, TensorOp::Reshape)
    {
        return reshape(store, inner[0], shape);
    }
    if store.strength() == IdentityStrength::Mathematics
        && changes_ones_alone(&store.ty(x).shape, &shape)
        && store.spend()
        && let Some(inside) = ring::reshape_operands(store, x, &shape)
        && store.ty(inside).shape == shape
    {
        return inside;
    }
    push(store, TensorOp::Reshape, x, AttributeValue::Shape(shape.clone()), shape)
}

/// Returns true if two shapes differ in axes of extent 1 alone.
pub(super) fn changes_ones_alone(a: &Shape, b: &Shape) -> bool {
    fn others(shape: &Shape) -> impl Iterator<Item = &Dim> {
        shape.0.iter().filter(|dim| **dim != ONE)
    }
    others(a).eq(others(b))
}

/// Adds a broadcast.
pub(crate) fn broadcast<S: TermStore>(store: &mut S, x: TermId, shape: Shape) -> TermId {
    let dtype = store.ty(x).dtype;
    let ty = intern(store, dtype, shape);
    broadcast_to(store, x, ty)
}

/// Adds a broadcast to the shape of a type.
pub(super) fn broadcast_to<S: TermStore>(store: &mut S, x: TermId, ty: TypeId) -> TermId {
    let inner = without_repetition(store, x);
    if store.types().have_one_shape(store.type_id(inner), ty) {
        return inner;
    }
    let (own, shape) = (&store.ty(inner).shape, store.types().get(ty).shape.clone());
    if adds_leading_ones(own, &shape) {
        return reshape(store, inner, shape);
    }
    push(store, TensorOp::BroadcastTo, inner, AttributeValue::Shape(shape.clone()), shape)
}

/// Returns the operand of broadcasts and of reshapes that add leading axes of extent 1, both of which ops that broadcast do by
/// themselves.
pub(super) fn without_repetition<S: TermStore>(store: &S, mut x: TermId) -> TermId {
    loop {
        if store.has_op(x, TensorOp::BroadcastTo)
            && store.spend()
            && let Some(inner) = store.operands_of(x, TensorOp::BroadcastTo)
        {
            x = inner[0];
        } else if store.has_op(x, TensorOp::Reshape)
            && store.spend()
            && let Some(inner) = store.operands_of(x, TensorOp::Reshape)
            && adds_leading_ones(&store.ty(inner[0]).shape, &store.ty(x).shape)
        {
            x = inner[0];
        } else {
            return x;
        }
    }
}

fn adds_leading_ones(inner: &Shape, outer: &Shape) -> bool {
    outer
        .rank()
        .checked_sub(inner.rank())
        .is_some_and(|n_new| outer.0[n_new..] == inner.0[..] && outer.0[..n_new].iter().all(|dim| *dim == ONE))
}

/// Adds a permutation of axes.
pub(crate) fn permute<S: TermStore>(store: &mut S, x: TermId, axes: &[usize]) -> TermId {
    if let Some((outer, inner)) = store.op_term(x, TensorOp::Permute)
        && store.spend()
    {
        let of_inner = outer.0[0].axes();
        let both: Vec<usize> = axes.iter().map(|&axis| of_inner[axis]).collect();
        return permute(store, inner[0], &both);
    }
    if let Some((attributes, operands)) = store.op_term(x, TensorOp::Contract)
        && let Some(permuted) = labels::permuted(store, &operands, &attributes, axes)
    {
        return permuted;
    }
    let own = &store.ty(x).shape;
    let shape = Shape(axes.iter().map(|&axis| own.0[axis].clone()).collect());
    let moved: Vec<usize> = axes.iter().copied().filter(|&axis| own.0[axis] != ONE).collect();
    if moved.is_sorted() {
        return reshape(store, x, shape);
    }
    let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    push(store, TensorOp::Permute, x, AttributeValue::Ints(axes), shape)
}

fn flip<S: TermStore>(store: &mut S, x: TermId, mut axes: Vec<usize>) -> TermId {
    if let Some((inner_axes, inner)) = store.op_term(x, TensorOp::Flip)
        && store.spend()
    {
        let other = inner_axes.0[0].axes();
        let once = |axis: &usize| axes.contains(axis) != other.contains(axis);
        let axes: Vec<usize> = (0..store.ty(x).shape.rank()).filter(once).collect();
        return flip(store, inner[0], axes);
    }
    let shape = store.ty(x).shape.clone();
    axes.retain(|&axis| shape.0[axis] != ONE);
    if axes.is_empty() {
        return x;
    }
    let axes = axes.iter().map(|&axis| axis as i64).collect();
    push(store, TensorOp::Flip, x, AttributeValue::Ints(axes), shape)
}

fn slice<S: TermStore>(store: &mut S, x: TermId, attributes: Attributes, sizes: Shape) -> TermId {
    let (mut starts, mut steps) = (attributes.0[0].ints(), attributes.0[2].ints());
    let own = &store.ty(x).shape;
    if sizes == *own && starts.iter().all(|&start| start == 0) && steps.iter().all(|&step| step == 1) {
        return x;
    }
    if let Some((inner_attributes, inner)) = store.op_term(x, TensorOp::Slice)
        && store.spend()
    {
        let (inner_starts, inner_steps) = (inner_attributes.0[0].ints(), inner_attributes.0[2].ints());
        for axis in 0..starts.len() {
            starts[axis] = inner_starts[axis] + starts[axis] * inner_steps[axis];
            steps[axis] *= inner_steps[axis];
        }
        let attributes = normal_slice(starts, steps, &sizes);
        return slice(store, inner[0], attributes, sizes);
    }
    let attributes = normal_slice(starts, steps, &sizes);
    let dtype = store.ty(x).dtype;
    let ty = intern(store, dtype, sizes);
    push_term(store, TensorOp::Slice, smallvec![x], attributes, ty)
}

/// Returns the attributes of a slice, in which a step that is not taken is 1.
fn normal_slice(starts: Vec<i64>, steps: Vec<i64>, sizes: &Shape) -> Attributes {
    let step = |(step, size): (i64, &Dim)| if *size == ONE { 1 } else { step };
    let is_empty = sizes.0.contains(&Dim::Static(0));
    let starts = if is_empty { vec![0; starts.len()] } else { starts };
    let steps = if is_empty { vec![1; steps.len()] } else { steps.into_iter().zip(&sizes.0).map(step).collect() };
    Attributes(vec![AttributeValue::Ints(starts), AttributeValue::Shape(sizes.clone()), AttributeValue::Ints(steps)])
}
