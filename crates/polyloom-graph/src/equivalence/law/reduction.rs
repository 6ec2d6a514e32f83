//! Reductions: of views, of tensors in pieces, and sums of products.

use super::product::products_of;
use super::{Law, LawSite};
use crate::attribute::AttributeValue;
use crate::canonical::{TermId, TermStore, broadcast, contract, permute, reduce, reshape};
use crate::op::TensorOp::{
    self, Add, All, Any, Concat, Cumsum, Exp, Max, Min, Multiply, Pad, Permute, Prod, Reshape, Slice, Sum,
};
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
        name: "sum of padding",
        statement: "sum(pad(x)) = sum(x) for zeros along the axes that are summed over",
        domain: None,
        examples: &[
            "%a = pad %x, widths=(1, 0, 0, 2)\n%r = sum %a",
            "%a = pad %x, widths=(0, 0, 3, 2)\n%r = sum %a, axes=(1)",
        ],
        ops: &[Sum],
        apply: |site| of_padding(site).into_iter().collect(),
    },
    Law {
        name: "product of exponentials",
        statement: "prod(exp(x)) = exp(sum(x))",
        domain: None,
        examples: &["%a = exp %x\n%r = prod %a, axes=(1)"],
        ops: &[Prod],
        apply: |site| of_exponentials(site).into_iter().collect(),
    },
    Law {
        name: "scan of a sum",
        statement: "cumsum(a + b) = cumsum(a) + cumsum(b), and cumsum(c * x) = c * cumsum(x) for a number c",
        domain: None,
        examples: &["%a = add %x, %s\n%r = cumsum %a, axis=1", "%a = multiply %x, 3.0\n%r = cumsum %a, axis=0"],
        ops: &[Cumsum],
        apply: scan_of_sum,
    },
    Law {
        name: "sum of a product of matrices",
        statement: "sum(a @ b, axis=1) = a @ sum(b, axis=1); along any axis of the result",
        domain: None,
        examples: &["%a = matmul %x, %w\n%r = sum %a, axes=(1)", "%a = matmul %x, %w\n%r = sum %a"],
        ops: &[Sum],
        apply: of_contraction,
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
    let axes = site.attributes.0[0].axes();
    let (attributes, inner) = site.store.op_term(site.operands[0], Permute)?;
    let order = attributes.0[0].axes();
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
    let axes = site.attributes.0[0].axes();
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
    let axes = site.attributes.0[0].axes();
    let (attributes, pieces) = site.store.op_term(site.operands[0], Concat)?;
    let axis = attributes.0[0].axes();
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
    site.chain(op, &reduced)
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
                let axes = attributes.0[0].axes();
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

fn of_padding(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let axes = site.attributes.0[0].axes();
    let (attributes, inner) = site.store.op_term(site.operands[0], Pad)?;
    let AttributeValue::Ints(widths) = &attributes.0[0] else { return None };
    let is_padded = |axis: usize| widths[2 * axis] != 0 || widths[2 * axis + 1] != 0;
    let fits = widths.iter().all(|&width| width >= 0)
        && (0..widths.len() / 2).all(|axis| !is_padded(axis) || axes.contains(&axis))
        && matches!(attributes.0[1], AttributeValue::Float(0.0));
    fits.then(|| reduce(site.store, Sum, inner[0], &axes, site.ty.dtype))
}

fn of_exponentials(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let axes = site.attributes.0[0].axes();
    let exponent = site.store.operands_of(site.operands[0], Exp)?[0];
    if site.store.ty(exponent) != site.store.ty(site.operands[0]) {
        return None;
    }
    let sum = reduce(site.store, Sum, exponent, &axes, site.ty.dtype);
    site.exp(sum)
}

fn scan_of_sum(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let x = site.operands[0];
    if !site.is_float() || site.store.ty(x).dtype != site.ty.dtype {
        return Vec::new();
    }
    let shape = site.shape(x);
    let attributes = site.attributes.0.clone();
    let mut found = Vec::new();
    for terms in site.terms_of(x, Add).into_iter().take(2) {
        let scans: Option<Vec<TermId>> = terms
            .into_iter()
            .map(|term| {
                let whole = broadcast(site.store, term, shape.clone());
                site.make(Cumsum, vec![whole], attributes.clone())
            })
            .collect();
        found.extend(scans.and_then(|scans| site.sum(&scans)));
    }
    let (value, rest) = site.split(x);
    if rest != x && site.shape(rest) == shape {
        let scan = site.make(Cumsum, vec![rest], attributes);
        found.extend(scan.and_then(|scan| site.scaled(value, scan)));
    }
    found
}

fn of_contraction(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let axes = site.attributes.0[0].axes();
    let dtype = site.ty.dtype;
    if site.store.ty(site.operands[0]).dtype != dtype {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (operands, [a_labels, b_labels, labels]) in products_of(site, site.operands[0]).into_iter().take(2) {
        let (summed, kept): (Vec<_>, Vec<_>) =
            labels.into_iter().enumerate().partition(|(axis, _)| axes.contains(axis));
        // Axes of one operand alone are summed over before the product.
        let mut sum_own = |x: TermId, own: &[i64], other: &[i64]| {
            let is_own = |label: &i64| summed.iter().any(|(_, sum)| sum == label) && !other.contains(label);
            let axes: Vec<usize> = (0..own.len()).filter(|&axis| is_own(&own[axis])).collect();
            let left: Vec<i64> = own.iter().copied().filter(|label| !is_own(label)).collect();
            (if axes.is_empty() { x } else { reduce(site.store, Sum, x, &axes, dtype) }, left)
        };
        let (a, a_left) = sum_own(operands[0], &a_labels, &b_labels);
        let (b, b_left) = sum_own(operands[1], &b_labels, &a_labels);
        let labels = kept.into_iter().map(|(_, label)| label).collect();
        found.push(contract(site.store, [a, b], [a_left, b_left, labels], dtype));
    }
    found
}

fn of_product(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let axes = site.attributes.0[0].axes();
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
