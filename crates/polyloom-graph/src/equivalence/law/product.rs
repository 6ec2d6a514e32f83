//! Products of matrices, as contractions.

use super::movement::slice_parts;
use super::{Law, LawSite};
use crate::attribute::AttributeValue;
use crate::canonical::{TermId, TermOperands, TermStore, broadcast, contract, labels_of, permute, reshape};
use crate::op::TensorOp::{Add, Attention, Contract, MatMul, Max, Multiply, Permute, Slice, Subtract, Sum};
use crate::shape::{Dim, Shape};

pub(super) const LAWS: &[Law] = &[
    Law {
        name: "product of a sum",
        statement: "(a + b) @ c = a @ c + b @ c",
        domain: None,
        examples: &["%a = add %x, %y\n%r = matmul %a, %w", "%a = add %x, %s\n%r = matmul %a, %w"],
        ops: &[Contract],
        apply: of_sum,
    },
    Law {
        name: "sum of products of one factor",
        statement: "a @ c + b @ c = (a + b) @ c",
        domain: None,
        examples: &["%a = matmul %x, %w\n%b = matmul %y, %w\n%r = subtract %a, %b"],
        ops: &[Add],
        apply: |site| join(site).into_iter().collect(),
    },
    Law {
        name: "grouping of products",
        statement: "(a @ b) @ c = a @ (b @ c)",
        domain: None,
        examples: &["%a = transpose %y\n%b = matmul %x, %a\n%r = matmul %b, %y"],
        ops: &[Contract],
        apply: regroup,
    },
    Law {
        name: "factor of a product",
        statement: "(d * a) @ b = d * (a @ b), for a d that does not change along what is summed over",
        domain: None,
        examples: &[
            "%a = multiply %x, %s\n%r = matmul %a, %w",
            "%d = sum %y, axes=(1), keepdims=true\n%a = multiply %x, %d\n%r = matmul %a, %w",
        ],
        ops: &[Contract],
        apply: factor,
    },
    Law {
        name: "piece of a product",
        statement: "(a @ b)[i, j] = a[i] @ b[:, j], for ranges i and j",
        domain: None,
        examples: &["%a = matmul %x, %w\n%r = slice %a, starts=(0, 1), sizes=(2, 3), steps=(2, 1)"],
        ops: &[Slice],
        apply: |site| piece(site).into_iter().collect(),
    },
    Law {
        name: "attention",
        statement: "attention(q, k, v) = softmax(scale * q @ transpose(k)) @ v",
        domain: None,
        examples: &["%r = attention %x, %y, %p", "%r = attention %x, %y, %x, scale=0.3"],
        ops: &[Attention],
        apply: |site| attention(site).into_iter().collect(),
    },
];

/// Adds a term that broadcasts to the shape of an operand as one of that shape.
fn whole(site: &mut LawSite<'_, '_>, x: TermId, shape: &Shape) -> TermId {
    broadcast(site.store, x, shape.clone())
}

fn of_sum(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let labels = labels_of(&site.attributes);
    let mut found = Vec::new();
    for place in 0..2 {
        let operand = site.operands[place];
        let shape = site.shape(operand);
        for terms in site.terms_of(operand, Add).into_iter().filter(|terms| terms.len() <= 6).take(2) {
            let products: Vec<TermId> = terms
                .into_iter()
                .map(|term| {
                    let mut operands = [site.operands[0], site.operands[1]];
                    operands[place] = whole(site, term, &shape);
                    contract(site.store, operands, labels.clone(), site.ty.dtype)
                })
                .collect();
            found.extend(site.sum(&products));
        }
    }
    found
}

/// Returns the products that a term is, with labels for the axes that the term has: a permutation after a product is an order of its
/// labels.
pub(super) fn products_of(site: &LawSite<'_, '_>, x: TermId) -> Vec<(TermOperands, [Vec<i64>; 3])> {
    let mut ways: Vec<(TermId, Option<Vec<usize>>)> = vec![(x, None)];
    if let Some((attributes, inner)) = site.store.op_term(x, Permute) {
        ways.push((inner[0], Some(attributes.0[0].axes())));
    }
    let mut found = Vec::new();
    for (term, order) in ways {
        for (attributes, operands) in site.store.op_terms(term, Contract).into_iter().take(3) {
            let mut labels = labels_of(&attributes);
            if let Some(order) = &order {
                labels[2] = order.iter().map(|&axis| labels[2][axis]).collect();
            }
            found.push((operands, labels));
        }
    }
    found
}

/// A product among the terms of a sum: its number, its operands and labels.
struct ProductTerm {
    term: TermId,
    value: f64,
    operands: TermOperands,
    labels: [Vec<i64>; 3],
}

fn product_terms(site: &mut LawSite<'_, '_>) -> Vec<ProductTerm> {
    let mut found = Vec::new();
    for term in site.operands.clone() {
        let (value, rest) = site.split(term);
        let products = products_of(site, rest).into_iter();
        found.extend(products.map(|(operands, labels)| ProductTerm { term, value, operands, labels }));
    }
    found
}

fn join(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    if !site.is_float() {
        return None;
    }
    let products = product_terms(site);
    for (index, first) in products.iter().enumerate() {
        for second in products[index + 1..].iter().filter(|second| second.term != first.term) {
            // The shared factor may be at either place of either; a product that exchanges its operands has other labels.
            for (place, other_place) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
                if first.operands[place] != second.operands[other_place] {
                    continue;
                }
                let renamed =
                    renamed(&second.labels, [other_place, 1 - other_place], &first.labels, [place, 1 - place]);
                let Some(labels) = renamed else { continue };
                let (a, b) = (first.operands[1 - place], second.operands[1 - other_place]);
                let own = &first.labels[1 - place];
                // The factor of the second in the order of the labels of the first.
                let order: Option<Vec<usize>> =
                    own.iter().map(|label| labels.iter().position(|other| other == label)).collect();
                let Some(order) = order else { continue };
                let b = if order.is_sorted() { b } else { permute(site.store, b, &order) };
                if site.shape(a) != site.shape(b) {
                    continue;
                }
                let (a, b) = (site.scaled(first.value, a)?, site.scaled(second.value, b)?);
                let joined = site.sum(&[a, b])?;
                let joined = whole(site, joined, &site.shape(first.operands[1 - place]));
                let mut operands = [joined; 2];
                operands[place] = first.operands[place];
                let product = contract(site.store, operands, first.labels.clone(), site.ty.dtype);
                let rest = site.operands.iter().copied().filter(|&term| term != first.term && term != second.term);
                let terms: Vec<TermId> = rest.chain([product]).collect();
                return site.sum(&terms);
            }
        }
    }
    None
}

/// Returns the labels of the factor that is not shared in the names of the first product, if shared factor and result have the
/// same places.
fn renamed(
    labels: &[Vec<i64>; 3],
    [shared, own]: [usize; 2],
    first: &[Vec<i64>; 3],
    [first_shared, first_own]: [usize; 2],
) -> Option<Vec<i64>> {
    if labels[shared].len() != first[first_shared].len() || labels[2].len() != first[2].len() {
        return None;
    }
    let mut pairs: Vec<(i64, i64)> = Vec::new();
    for (from, to) in labels[shared].iter().zip(&first[first_shared]).chain(labels[2].iter().zip(&first[2])) {
        match pairs.iter().find(|(known, target)| known == from || target == to) {
            Some(pair) if *pair != (*from, *to) => return None,
            Some(_) => {}
            None => pairs.push((*from, *to)),
        }
    }
    let rename = |label: &i64| pairs.iter().find(|(from, _)| from == label).map(|(_, to)| *to);
    let renamed: Option<Vec<i64>> = labels[own].iter().map(rename).collect();
    renamed.filter(|renamed| renamed.len() == first[first_own].len())
}

fn regroup(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let outer = labels_of(&site.attributes);
    let mut found = Vec::new();
    for place in 0..2 {
        let inner_term = site.operands[place];
        // A permutation of the inner product is taken with it: the outer labels name its axes.
        let mut inners: Vec<(Vec<i64>, TermId)> = vec![(outer[place].clone(), inner_term)];
        for (attributes, operands) in site.store.op_terms(inner_term, Permute).into_iter().take(1) {
            let order = attributes.0[0].axes();
            let mut labels = vec![0; order.len()];
            order.iter().zip(&outer[place]).for_each(|(&axis, &label)| labels[axis] = label);
            inners.push((labels, operands[0]));
        }
        for (own, term) in inners {
            for (attributes, factors) in site.store.op_terms(term, Contract).into_iter().take(2) {
                let inner = labels_of(&attributes);
                // Labels of the inner product by the outer names; those that it sums over get new ones.
                let name = |label: &i64| match inner[2].iter().position(|other| other == label) {
                    Some(axis) => own[axis],
                    None => 1000 + label,
                };
                let named = [0, 1].map(|factor| inner[factor].iter().map(name).collect::<Vec<i64>>());
                let third = (site.operands[1 - place], outer[1 - place].clone());
                for (left, right) in [(0, 1), (1, 0)] {
                    // left @ (right @ third)
                    let kept = |label: &&i64| outer[2].contains(label) || named[left].contains(label);
                    let mut labels: Vec<i64> = named[right].iter().filter(kept).copied().collect();
                    labels.extend(third.1.iter().filter(kept).filter(|label| !named[right].contains(label)));
                    let is_summed = |label: &i64| !labels.contains(label);
                    // What the new inner product sums over, both of its factors must have.
                    let fits = named[right]
                        .iter()
                        .chain(&third.1)
                        .filter(|label| is_summed(label))
                        .all(|label| named[right].contains(label) && third.1.contains(label));
                    let fits_outside = named[left]
                        .iter()
                        .chain(&labels)
                        .filter(|label| !outer[2].contains(label))
                        .all(|label| named[left].contains(label) && labels.contains(label));
                    if !fits || !fits_outside {
                        continue;
                    }
                    let dtype = site.ty.dtype;
                    let operands = [factors[right], third.0];
                    let new =
                        contract(site.store, operands, [named[right].clone(), third.1.clone(), labels.clone()], dtype);
                    let operands = [factors[left], new];
                    found.push(contract(site.store, operands, [named[left].clone(), labels, outer[2].clone()], dtype));
                }
            }
        }
    }
    found
}

fn factor(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let labels = labels_of(&site.attributes);
    let mut found = Vec::new();
    for place in 0..2 {
        let operand = site.operands[place];
        let shape = site.shape(operand);
        for factors in site.terms_of(operand, Multiply).into_iter().take(2) {
            let (mut outside, mut inside) = (Vec::new(), Vec::new());
            for factor in factors {
                match scale_of_result(site, factor, &shape, &labels[place], &labels[2]) {
                    Some(scale) => outside.push(scale),
                    None => inside.push(factor),
                }
            }
            if outside.is_empty() {
                continue;
            }
            let rest = if inside.is_empty() { Some(site.number(1.0)) } else { site.product(&inside) };
            let Some(rest) = rest else { continue };
            let mut operands = [site.operands[0], site.operands[1]];
            operands[place] = whole(site, rest, &shape);
            let product = contract(site.store, operands, labels.clone(), site.ty.dtype);
            outside.push(product);
            found.extend(site.product(&outside));
        }
    }
    found
}

/// Returns a factor of an operand as one of the result, if it does not change along what is summed over.
fn scale_of_result(
    site: &mut LawSite<'_, '_>,
    factor: TermId,
    shape: &Shape,
    labels: &[i64],
    result: &[i64],
) -> Option<TermId> {
    let own = site.shape(factor);
    let n_new = shape.rank() - own.rank();
    let mut dims = vec![Dim::Static(1); result.len()];
    let mut last = None;
    for (axis, dim) in own.0.iter().enumerate() {
        if *dim == Dim::Static(1) {
            continue;
        }
        let place = result.iter().position(|label| *label == labels[axis + n_new])?;
        // Axes keep their order, so that a reshape is enough.
        if last.is_some_and(|last| place < last) {
            return None;
        }
        last = Some(place);
        dims[place] = dim.clone();
    }
    if own.rank() == 0 {
        return Some(factor);
    }
    Some(reshape(site.store, factor, Shape(dims)))
}

fn piece(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let (starts, sizes, steps) = slice_parts(&site.attributes.0)?;
    let (operands, labels) = products_of(site, site.operands[0]).into_iter().next()?;
    let result = labels[2].clone();
    let mut sliced = [operands[0], operands[1]];
    for (operand, own) in sliced.iter_mut().zip(&labels) {
        let shape = site.shape(*operand);
        let place = |label: &i64| result.iter().position(|other| other == label);
        let own_starts = own.iter().map(|label| place(label).map_or(0, |axis| starts[axis])).collect();
        let own_steps = own.iter().map(|label| place(label).map_or(1, |axis| steps[axis])).collect();
        let own_sizes =
            own.iter().zip(&shape.0).map(|(label, dim)| place(label).map_or(dim, |axis| &sizes.0[axis]).clone());
        let attributes = vec![
            AttributeValue::Ints(own_starts),
            AttributeValue::Shape(Shape(own_sizes.collect())),
            AttributeValue::Ints(own_steps),
        ];
        *operand = site.make(Slice, vec![*operand], attributes)?;
    }
    let [a_labels, b_labels, _] = labels;
    Some(contract(site.store, sliced, [a_labels, b_labels, result], site.ty.dtype))
}

fn attention(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let &[q, k, v] = &site.operands[..] else { return None };
    if site.attributes.0[0] != AttributeValue::Bool(false) {
        return None;
    }
    let width = site.shape(q).0.last()?.as_static()? as f64;
    let scale = if let AttributeValue::Float(scale) = site.attributes.0[1] { scale } else { 1.0 / width.sqrt() };
    let rank = site.shape(k).rank() as i64;
    let order: Vec<i64> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
    let transposed = site.make(Permute, vec![k], vec![order.into()])?;
    let scores = site.make(MatMul, vec![q, transposed], Vec::new())?;
    let scores = site.scaled(scale, scores)?;
    let last = site.shape(scores).rank() as i64 - 1;
    let along = || vec![AttributeValue::Ints(vec![last]), AttributeValue::Bool(true)];
    let most = site.make(Max, vec![scores], along())?;
    let shifted = site.make(Subtract, vec![scores, most], Vec::new())?;
    let weights = site.exp(shifted)?;
    let total = site.make(Sum, vec![weights], along())?;
    let reciprocal = site.reciprocal(total)?;
    let weights = site.product(&[weights, reciprocal])?;
    site.make(MatMul, vec![weights, v], Vec::new())
}
