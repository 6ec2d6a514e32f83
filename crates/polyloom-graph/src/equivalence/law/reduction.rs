//! Reductions: of views, of tensors in pieces, and sums of products.

use super::{Law, LawSite};
use crate::attribute::AttributeValue;
use crate::canonical::contraction::contract;
use crate::canonical::normal::axes_of;
use crate::canonical::reduction::reduce;
use crate::canonical::view::{permute, reshape};
use crate::canonical::{TermId, TermStore};
use crate::op::TensorOp::{self, Add, All, Any, Concat, Max, Min, Multiply, Permute, Prod, Reshape, Slice, Sum};
use crate::shape::{Dim, Shape};

pub(super) const LAWS: &[Law] = &[
    Law {
        name: "reduction of a permutation",
        statement: "sum(permute(x)) = permute(sum(x)) along the axes' places before; of any reduction",
        domain: None,
        examples: &["%a = transpose %x\n%r = sum %a, axes=(0)", "%a = transpose %x\n%r = max %a, axes=(1)"],
        ops: &[Sum, Max, Min, Prod, All, Any],
        apply: |site| of_permutation(site).into_iter().collect(),
    },
    Law {
        name: "reduction split",
        statement: "sum(reshape(x)) = sum(x) where the axes that are summed over are those that the reshape splits or joins; of any reduction",
        domain: None,
        examples: &[
            "%a = reshape %x, shape=(2, 6)\n%r = sum %a",
            "%a = reshape %x, shape=(3, 2, 2)\n%r = max %a, axes=(1, 2)",
        ],
        ops: &[Sum, Max, Min, Prod, All, Any],
        apply: |site| of_reshape(site).into_iter().collect(),
    },
    Law {
        name: "reduction of pieces",
        statement: "sum(concat(a, b)) = sum(a) + sum(b) along the axis that they are joined along",
        domain: None,
        examples: &["%a = concat %x, %y\n%r = sum %a, axes=(0)", "%a = concat %x, %y, axis=1\n%r = max %a, axes=(1)"],
        ops: &[Sum, Max, Min],
        apply: |site| of_pieces(site).into_iter().collect(),
    },
    Law {
        name: "sum of sums of pieces",
        statement: "sum(x[:k]) + sum(x[k:]) = sum(x)",
        domain: None,
        examples: &[
            "%a = slice %x, starts=(0, 0), sizes=(3, 1), steps=(1, 1)\n%b = slice %x, starts=(0, 1), sizes=(3, 3), steps=(1, 1)\n\
             %c = sum %a\n%d = sum %b\n%r = add %c, %d",
        ],
        ops: &[Add],
        apply: |site| of_slices(site).into_iter().collect(),
    },
    Law {
        name: "sum of products",
        statement: "sum(a * b) is a contraction of a and b, if both change along all axes that are summed over",
        domain: None,
        examples: &["%a = multiply %x, %y\n%r = sum %a, axes=(1)", "%a = multiply %x, %y\n%r = sum %a"],
        ops: &[Sum],
        apply: of_product,
    },
];

fn of_permutation(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let axes = axes_of(&site.attributes.0[0]);
    let (attributes, inner) = site.store.op_term(site.operands[0], Permute)?;
    let order = axes_of(&attributes.0[0]);
    let mut inner_axes: Vec<usize> = axes.iter().map(|&axis| order[axis]).collect();
    inner_axes.sort_unstable();
    let reduced = reduce(site.store, site.op, inner[0], &inner_axes, site.ty.dtype);
    // The axes that are left, numbered as the reduction of the operand has them.
    let left: Vec<usize> = (0..order.len()).filter(|axis| !inner_axes.contains(axis)).collect();
    let kept = order.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    let order: Vec<usize> = kept.filter_map(|(_, axis)| left.iter().position(|other| other == axis)).collect();
    Some(permute(site.store, reduced, &order))
}

fn of_reshape(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let axes = axes_of(&site.attributes.0[0]);
    let (_, inner) = site.store.op_term(site.operands[0], Reshape)?;
    let (outer_shape, inner_shape) = (site.shape(site.operands[0]), site.shape(inner[0]));
    let (first, last) = (*axes.first()?, *axes.last()?);
    if last + 1 - first != axes.len() {
        return None;
    }
    let n_after = outer_shape.rank() - 1 - last;
    let inner_last = inner_shape.rank().checked_sub(n_after)?;
    let is_alike = first <= inner_last
        && inner_shape.0[..first] == outer_shape.0[..first]
        && inner_shape.0[inner_last..] == outer_shape.0[last + 1..];
    if !is_alike || inner_shape.0.contains(&Dim::Static(0)) {
        return None;
    }
    let axes: Vec<usize> = (first..inner_last).collect();
    Some(reduce(site.store, site.op, inner[0], &axes, site.ty.dtype))
}

fn of_pieces(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let axes = axes_of(&site.attributes.0[0]);
    let (attributes, pieces) = site.store.op_term(site.operands[0], Concat)?;
    let axis = axes_of(&attributes.0[0]);
    if !axes.contains(axis.first()?) || pieces.iter().any(|&piece| site.shape(piece).0.contains(&Dim::Static(0))) {
        return None;
    }
    let op = site.op;
    let reduced: Vec<TermId> =
        pieces.into_iter().map(|piece| reduce(site.store, op, piece, &axes, site.ty.dtype)).collect();
    if op == Sum {
        return site.sum(&reduced);
    }
    let op = if op == Max { TensorOp::Maximum } else { TensorOp::Minimum };
    let (first, rest) = reduced.split_first()?;
    rest.iter().try_fold(*first, |chain, &operand| site.elementwise(op, vec![chain, operand]))
}

fn of_slices(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    struct Piece {
        term: TermId,
        axes: Vec<usize>,
        of: TermId,
        starts: Vec<i64>,
        sizes: Shape,
    }
    let mut pieces: Vec<Piece> = Vec::new();
    for &term in &site.operands {
        for (attributes, operands) in site.store.op_terms(term, Sum).into_iter().take(2) {
            let Some((slice, inner)) = site.store.op_term(operands[0], Slice) else { continue };
            let (AttributeValue::Ints(starts), AttributeValue::Shape(sizes), AttributeValue::Ints(steps)) =
                (&slice.0[0], &slice.0[1], &slice.0[2])
            else {
                continue;
            };
            if steps.iter().all(|&step| step == 1) {
                let axes = axes_of(&attributes.0[0]);
                pieces.push(Piece { term, axes, of: inner[0], starts: starts.clone(), sizes: sizes.clone() });
            }
        }
    }
    for first in &pieces {
        for second in &pieces {
            if first.term == second.term || first.of != second.of || first.axes != second.axes {
                continue;
            }
            let differing: Vec<usize> = (0..first.starts.len())
                .filter(|&axis| {
                    first.starts[axis] != second.starts[axis] || first.sizes.0[axis] != second.sizes.0[axis]
                })
                .collect();
            let &[axis] = &differing[..] else { continue };
            let (Some(length), Some(rest)) = (first.sizes.0[axis].as_static(), second.sizes.0[axis].as_static()) else {
                continue;
            };
            if !first.axes.contains(&axis) || first.starts[axis] + length as i64 != second.starts[axis] {
                continue;
            }
            let mut sizes = first.sizes.clone();
            sizes.0[axis] = Dim::Static(length + rest);
            let steps = vec![1; first.starts.len()];
            let attributes = vec![
                AttributeValue::Ints(first.starts.clone()),
                AttributeValue::Shape(sizes),
                AttributeValue::Ints(steps),
            ];
            let whole = site.make(Slice, vec![first.of], attributes)?;
            let sum = reduce(site.store, Sum, whole, &first.axes, site.ty.dtype);
            let rest = site.operands.iter().copied().filter(|&term| term != first.term && term != second.term);
            let terms: Vec<TermId> = rest.chain([sum]).collect();
            return site.sum(&terms);
        }
    }
    None
}

fn of_product(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let axes = axes_of(&site.attributes.0[0]);
    let x = site.operands[0];
    let shape = site.shape(x);
    let dtype = site.ty.dtype;
    if site.store.ty(x).dtype != dtype || shape.0.contains(&Dim::Static(0)) || shape.0.contains(&Dim::Static(1)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for factors in site.terms_of(x, Multiply) {
        // Every way to part the factors in two, of which a few are enough.
        let n = factors.len().min(4);
        for subset in 1u32..(1 << (n - 1)) {
            let is_left = |place: usize| place < n && subset >> place & 1 == 1;
            let part = |left: bool| -> Vec<TermId> {
                factors.iter().enumerate().filter(|(place, _)| is_left(*place) == left).map(|(_, &id)| id).collect()
            };
            let (Some(a), Some(b)) = (site.product(&part(true)), site.product(&part(false))) else { continue };
            let (Some((a, a_labels)), Some((b, b_labels))) = (labelled(site, a, &shape), labelled(site, b, &shape))
            else {
                continue;
            };
            let changes = |own: &[i64]| axes.iter().all(|&axis| own.contains(&(axis as i64)));
            let labels: Vec<i64> =
                (0..shape.rank()).filter(|axis| !axes.contains(axis)).map(|axis| axis as i64).collect();
            if !changes(&a_labels) || !changes(&b_labels) {
                continue;
            }
            found.push(contract(site.store, [a, b], [a_labels, b_labels, labels], dtype));
        }
    }
    found
}

/// Drops the axes of extent 1 of a factor, and returns the places of the others in the shape that it broadcasts to.
fn labelled(site: &mut LawSite<'_, '_>, x: TermId, shape: &Shape) -> Option<(TermId, Vec<i64>)> {
    let own = site.shape(x);
    let n_new = shape.rank().checked_sub(own.rank())?;
    let kept: Vec<usize> = (0..own.rank()).filter(|&axis| own.0[axis] != Dim::Static(1)).collect();
    let labels = kept.iter().map(|axis| (axis + n_new) as i64).collect();
    let dims = kept.iter().map(|&axis| own.0[axis].clone()).collect();
    Some((reshape(site.store, x, Shape(dims)), labels))
}
