//! Products: `matmul` is a contraction, whose labels are counted in the order in which its operands have them. Permutations of
//! operands become an order of labels and one of the result a permutation after it, so that `transpose(a @ b)` and
//! `transpose(b) @ transpose(a)` are one term.

use super::labels;
use super::options::IdentityStrength;
use super::term::{TermId, TermStore};
use super::view::{permute, reshape};
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use std::cmp::Ordering;

/// Adds a product of matrices as a contraction.
pub(super) fn of_matmul<S: TermStore>(store: &mut S, a: TermId, b: TermId, dtype: Scalar) -> TermId {
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
    let names_of = |axes: &[(i64, Dim)]| axes.iter().map(|(label, _)| *label).collect::<Vec<i64>>();
    let mut labels: Vec<i64> = (0..n as i64).rev().map(|axis| BATCH + axis).collect();
    labels.extend((a_shape.rank() > 1).then_some(ROW));
    labels.extend((b_shape.rank() > 1).then_some(COLUMN));
    let a = reshape(store, a, shape_of(&of_a));
    let b = reshape(store, b, shape_of(&of_b));
    contract(store, [a, b], [names_of(&of_a), names_of(&of_b), labels], dtype)
}

/// Adds a contraction.
pub(crate) fn contract<S: TermStore>(
    store: &mut S,
    operands: [TermId; 2],
    [mut a_labels, mut b_labels, labels]: [Vec<i64>; 3],
    dtype: Scalar,
) -> TermId {
    let [mut a, mut b] = operands;
    let is_real = store.strength() == IdentityStrength::Mathematics;
    let summed = |own: &[i64]| own.iter().copied().filter(|label| !labels.contains(label)).collect::<Vec<i64>>();
    // The chain goes along the axes that are summed over as the first operand has them.
    let order = summed(&a_labels);
    let may_reorder = is_real || order.len() <= 1;
    for (operand, own, is_first) in [(&mut a, &mut a_labels, true), (&mut b, &mut b_labels, false)] {
        if let Some((attributes, inner)) = store.op_term(*operand, TensorOp::Permute) {
            let axes = attributes.0[0].axes();
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
    let contracted = labels::push(store, [a, b], [a_labels, b_labels, ascending], dtype);
    if axes.is_sorted() {
        return contracted;
    }
    permute(store, contracted, &axes)
}
