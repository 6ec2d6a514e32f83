//! Contractions as they are kept: the labels of both operands are counted in the order in which these have them, and those of
//! the result ascend.

use super::term::{TermId, TermStore, intern, push_term};
use crate::attribute::Attributes;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use smallvec::smallvec;

/// Returns the labels of both operands and of the result.
pub(crate) fn labels_of(attributes: &Attributes) -> [Vec<i64>; 3] {
    [0, 1, 2].map(|index| attributes.0[index].ints())
}

/// Adds a contraction as it is.
pub(super) fn push<S: TermStore>(
    store: &mut S,
    [a, b]: [TermId; 2],
    [a_labels, b_labels, labels]: [Vec<i64>; 3],
    dtype: polyloom_ir::Scalar,
) -> TermId {
    let (a_shape, b_shape) = (&store.ty(a).shape, &store.ty(b).shape);
    let dim = |label: &i64| {
        let of =
            |own: &[i64], shape: &Shape| own.iter().position(|other| other == label).map(|axis| shape.0[axis].clone());
        of(&a_labels, a_shape).or_else(|| of(&b_labels, b_shape)).unwrap_or(Dim::Static(1))
    };
    let shape = Shape(labels.iter().map(dim).collect());
    let ty = intern(store, dtype, shape);
    let attributes = Attributes(vec![a_labels.into(), b_labels.into(), labels.into()]);
    push_term(store, TensorOp::Contract, smallvec![a, b], attributes, ty)
}

/// Returns a permuted product with itself with the lesser labels, if that is another one; a product of two different operands
/// is in its one form.
pub(super) fn permuted<S: TermStore>(
    store: &mut S,
    operands: &[TermId],
    attributes: &Attributes,
    axes: &[usize],
) -> Option<TermId> {
    if operands[0] != operands[1] {
        return None;
    }
    let [a_labels, b_labels, labels] = labels_of(attributes);
    let permuted: Vec<i64> = axes.iter().map(|&axis| labels[axis]).collect();
    // A product with itself is the same with its operands exchanged.
    let exchanged = |label: &i64| {
        let of_a = a_labels.iter().position(|other| other == label).and_then(|axis| b_labels.get(axis));
        let of_b = b_labels.iter().position(|other| other == label).and_then(|axis| a_labels.get(axis));
        of_a.or(of_b).copied()
    };
    let renamed: Option<Vec<i64>> = permuted.iter().map(exchanged).collect();
    let is_symmetric = renamed.is_some_and(|renamed| renamed == labels)
        && a_labels.iter().zip(&b_labels).all(|(a, b)| a == b || labels.contains(a) && labels.contains(b));
    if !is_symmetric {
        return None;
    }
    let dtype = store.ty(operands[0]).dtype;
    Some(push(store, [operands[0], operands[1]], [a_labels, b_labels, labels], dtype))
}
