//! Views and pieces.

use super::{Law, LawSite};
use crate::attribute::AttributeValue;
use crate::canonical::{TermId, TermStore, broadcast};
use crate::op::TensorOp::{
    self, Absolute, Add, Concat, Cos, Divide, Erf, Exp, Flip, Log, Maximum, Minimum, Multiply, Permute, Sin, Slice,
    Sqrt, Tanh,
};
use crate::shape::{Dim, Shape};

/// The elementwise ops that views go through.
const ELEMENTWISE: &[TensorOp] =
    &[Add, Multiply, Maximum, Minimum, Divide, Exp, Log, Sqrt, Tanh, Absolute, Sin, Cos, Erf];

pub(super) const LAWS: &[Law] = &[
    Law {
        name: "view of an elementwise op",
        statement: "transpose(a + b) = transpose(a) + transpose(b); of any permutation, flip or slice and any elementwise op",
        domain: None,
        examples: &[
            "%a = add %x, %y\n%r = transpose %a",
            "%a = exp %x\n%r = flip %a",
            "%a = multiply %x, %y\n%r = slice %a, starts=(0, 1), sizes=(2, 2), steps=(1, 1)",
        ],
        ops: &[Permute, Flip, Slice],
        apply: of_elementwise,
    },
    Law {
        name: "piece of joined tensors",
        statement: "concat(a, b)[:n] = a, where n is the extent of a; of any piece",
        domain: None,
        examples: &["%a = concat %x, %y\n%r = slice %a, starts=(3, 0), sizes=(3, 4), steps=(1, 1)"],
        ops: &[Slice],
        apply: |site| piece(site).into_iter().collect(),
    },
    Law {
        name: "joined pieces",
        statement: "concat(x[:k], x[k:]) = x",
        domain: None,
        examples: &[
            "%a = slice %x, starts=(0, 0), sizes=(1, 4), steps=(1, 1)\n%b = slice %x, starts=(1, 0), sizes=(2, 4), steps=(1, 1)\n\
             %r = concat %a, %b",
        ],
        ops: &[Concat],
        apply: |site| joined(site).into_iter().collect(),
    },
];

fn of_elementwise(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let x = site.operands[0];
    let shape = site.shape(x);
    let mut found = Vec::new();
    for &op in ELEMENTWISE {
        for operands in site.terms_of(x, op).into_iter().take(2) {
            let viewed: Option<Vec<TermId>> = operands
                .into_iter()
                .map(|operand| {
                    if site.shape(operand).rank() == 0 {
                        return Some(operand);
                    }
                    let whole = broadcast(site.store, operand, shape.clone());
                    view_of(site, whole)
                })
                .collect();
            let Some(viewed) = viewed else { continue };
            let result = match op {
                Add => site.sum(&viewed),
                Multiply => site.product(&viewed),
                Divide if site.real(viewed[0]) == Some(1.0) => site.reciprocal(viewed[1]),
                _ if viewed.len() == 1 => site.elementwise(op, viewed),
                _ => site.chain(op, &viewed),
            };
            found.extend(result);
        }
    }
    found
}

/// Adds the view of the site of another term of the same shape. Of a repeated term the view is pushed to what is repeated where
/// it is one.
fn view_of(site: &mut LawSite<'_, '_>, x: TermId) -> Option<TermId> {
    let (op, attributes) = (site.op, site.attributes.0.clone());
    site.make(op, vec![x], attributes)
}

pub(super) fn slice_parts(attributes: &[AttributeValue]) -> Option<(Vec<i64>, Shape, Vec<i64>)> {
    match attributes {
        [AttributeValue::Ints(starts), AttributeValue::Shape(sizes), AttributeValue::Ints(steps)] => {
            Some((starts.clone(), sizes.clone(), steps.clone()))
        }
        _ => None,
    }
}

fn piece(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let (starts, sizes, steps) = slice_parts(&site.attributes.0)?;
    let (attributes, pieces) = site.store.op_term(site.operands[0], Concat)?;
    let axis = *attributes.0[0].axes().first()?;
    let mut first = 0;
    for piece in pieces {
        let extent = site.shape(piece).0[axis].as_static()? as i64;
        let last = starts[axis] + (sizes.0[axis].as_static()? as i64 - 1) * steps[axis];
        let within = first..first + extent;
        if within.contains(&starts[axis]) && within.contains(&last) {
            let mut starts = starts.clone();
            starts[axis] -= first;
            let attributes =
                vec![AttributeValue::Ints(starts), AttributeValue::Shape(sizes), AttributeValue::Ints(steps)];
            return site.make(Slice, vec![piece], attributes);
        }
        first += extent;
    }
    None
}

fn joined(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let axis = *site.attributes.0[0].axes().first()?;
    let mut whole: Option<(TermId, Vec<i64>, Shape)> = None;
    for &operand in &site.operands {
        let (attributes, inner) = site.store.op_term(operand, Slice)?;
        let (starts, sizes, steps) = slice_parts(&attributes.0)?;
        if steps.iter().any(|&step| step != 1) {
            return None;
        }
        match &mut whole {
            None => whole = Some((inner[0], starts, sizes)),
            Some((of, first, extent)) => {
                let end = first[axis] + extent.0[axis].as_static()? as i64;
                let is_next = (0..starts.len()).all(|other| {
                    if other == axis {
                        starts[other] == end
                    } else {
                        starts[other] == first[other] && sizes.0[other] == extent.0[other]
                    }
                });
                if *of != inner[0] || !is_next {
                    return None;
                }
                extent.0[axis] = Dim::Static(extent.0[axis].as_static()? + sizes.0[axis].as_static()?);
            }
        }
    }
    let (of, starts, sizes) = whole?;
    let steps = vec![1; starts.len()];
    site.make(
        Slice,
        vec![of],
        vec![AttributeValue::Ints(starts), AttributeValue::Shape(sizes), AttributeValue::Ints(steps)],
    )
}
