//! Products: `matmul` is a contraction, whose labels are counted in the order in which its operands have them. Permutations of
//! operands become an order of labels and one of the result a permutation after it, so that `transpose(a @ b)` and
//! `transpose(b) @ transpose(a)` are one term.

use super::form::IdentityStrength;
use super::normal::axes_of;
use super::term::{Term, TermHead, TermId, TermStore};
use super::view::{permute, reshape};
use crate::attribute::{AttributeValue, Attributes};
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use std::cmp::Ordering;

/// Adds a product of matrices as a contraction.
pub(super) fn of_matmul<S: TermStore>(store: &mut S, a: TermId, b: TermId, ty: TensorType) -> TermId {
    let (a_shape, b_shape) = (store.ty(a).shape.clone(), store.ty(b).shape.clone());
    const SUMMED: i64 = 0;
    const ROW: i64 = 1;
    const COLUMN: i64 = 2;
    const BATCH: i64 = 3;
    let n_batch = |shape: &Shape| shape.rank().saturating_sub(2);
    let n = n_batch(&a_shape).max(n_batch(&b_shape));
    // Batches are counted from the last, so that those of both operands have the same labels.
    let batch = |shape: &Shape| -> Vec<(i64, Dim)> {
        let own = n_batch(shape);
        (0..own).map(|axis| (BATCH + (own - 1 - axis) as i64, shape.0[axis].clone())).collect()
    };
    let (mut of_a, mut of_b) = (batch(&a_shape), batch(&b_shape));
    // An extent of 1 beside another one is an axis that the operand lacks.
    let (all_a, all_b) = (of_a.clone(), of_b.clone());
    let lacks = |(label, dim): &(i64, Dim), other: &[(i64, Dim)]| {
        *dim == Dim::Static(1) && other.iter().any(|(own, dim)| own == label && *dim != Dim::Static(1))
    };
    of_a.retain(|axis| !lacks(axis, &all_b));
    of_b.retain(|axis| !lacks(axis, &all_a));
    let matrix = |shape: &Shape, labels: [i64; 2], vector: i64| -> Vec<(i64, Dim)> {
        match &shape.0[..] {
            [dim] => vec![(vector, dim.clone())],
            [.., first, second] => vec![(labels[0], first.clone()), (labels[1], second.clone())],
            [] => Vec::new(),
        }
    };
    of_a.extend(matrix(&a_shape, [ROW, SUMMED], SUMMED));
    of_b.extend(matrix(&b_shape, [SUMMED, COLUMN], SUMMED));
    let shape_of = |axes: &[(i64, Dim)]| Shape(axes.iter().map(|(_, dim)| dim.clone()).collect());
    let labels_of = |axes: &[(i64, Dim)]| axes.iter().map(|(label, _)| *label).collect::<Vec<i64>>();
    let mut labels: Vec<i64> = (0..n as i64).rev().map(|axis| BATCH + axis).collect();
    labels.extend((a_shape.rank() > 1).then_some(ROW));
    labels.extend((b_shape.rank() > 1).then_some(COLUMN));
    let a = reshape(store, a, shape_of(&of_a));
    let b = reshape(store, b, shape_of(&of_b));
    contract(store, [a, b], [labels_of(&of_a), labels_of(&of_b), labels], ty.dtype)
}

pub(super) fn make<S: TermStore>(
    store: &mut S,
    operands: Vec<TermId>,
    attributes: &Attributes,
    ty: TensorType,
) -> TermId {
    contract(store, [operands[0], operands[1]], labels_of(attributes), ty.dtype)
}

/// Returns the labels of both operands and of the result.
pub(crate) fn labels_of(attributes: &Attributes) -> [Vec<i64>; 3] {
    [0, 1, 2].map(|index| match &attributes.0[index] {
        AttributeValue::Ints(labels) => labels.clone(),
        _ => Vec::new(),
    })
}

/// Adds a contraction.
pub(crate) fn contract<S: TermStore>(
    store: &mut S,
    operands: [TermId; 2],
    [mut a_labels, mut b_labels, labels]: [Vec<i64>; 3],
    dtype: polyloom_ir::Scalar,
) -> TermId {
    let [mut a, mut b] = operands;
    let is_real = store.strength() == IdentityStrength::Mathematics;
    let summed = |own: &[i64]| own.iter().copied().filter(|label| !labels.contains(label)).collect::<Vec<i64>>();
    // The chain goes along the axes that are summed over as the first operand has them.
    let order = summed(&a_labels);
    let may_reorder = is_real || order.len() <= 1;
    for (operand, own, is_first) in [(&mut a, &mut a_labels, true), (&mut b, &mut b_labels, false)] {
        if let Some((attributes, inner)) = store.op_term(*operand, TensorOp::Permute) {
            let axes = axes_of(&attributes.0[0]);
            let mut labels_inside = vec![0; axes.len()];
            axes.iter().zip(own.iter()).for_each(|(&axis, &label)| labels_inside[axis] = label);
            if may_reorder || !is_first || summed(&labels_inside) == order {
                *operand = inner[0];
                *own = labels_inside;
            }
        }
    }
    let relabel = |first: &[i64], second: &[i64]| {
        let mut seen: Vec<i64> = Vec::new();
        let mut number = |label: &i64| {
            seen.iter().position(|other| other == label).unwrap_or_else(|| {
                seen.push(*label);
                seen.len() - 1
            }) as i64
        };
        let first: Vec<i64> = first.iter().map(&mut number).collect();
        let second: Vec<i64> = second.iter().map(&mut number).collect();
        let result: Vec<i64> = labels.iter().map(&mut number).collect();
        [first, second, result]
    };
    let mut chosen = relabel(&a_labels, &b_labels);
    if may_reorder || summed(&b_labels) == order {
        let other = relabel(&b_labels, &a_labels);
        let sorted = |result: &[i64]| {
            let mut result = result.to_vec();
            result.sort_unstable();
            result
        };
        let swaps = match store.compare(b, a) {
            Ordering::Less => true,
            Ordering::Greater => false,
            // Of a product with itself, the lesser labels count, whatever the order of the result is.
            Ordering::Equal => {
                (&other[0], &other[1], sorted(&other[2]), &other[2])
                    < (&chosen[0], &chosen[1], sorted(&chosen[2]), &chosen[2])
            }
        };
        if swaps {
            (a, b, chosen) = (b, a, other);
        }
    }
    let [a_labels, b_labels, result] = chosen;
    let mut ascending = result.clone();
    ascending.sort_unstable();
    let axes: Vec<usize> =
        result.iter().filter_map(|label| ascending.iter().position(|other| other == label)).collect();
    let contracted = push(store, [a, b], [a_labels, b_labels, ascending], dtype);
    if axes.is_sorted() {
        return contracted;
    }
    permute(store, contracted, &axes)
}

fn push<S: TermStore>(
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
    let attributes = Attributes(vec![a_labels.into(), b_labels.into(), labels.into()]);
    let head = TermHead::Op(TensorOp::Contract, attributes);
    store.push(Term { head, operands: vec![a, b], ty: TensorType { dtype, shape } })
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
