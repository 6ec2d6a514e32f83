//! Logic, and integers as bits.

use super::{Law, LawSite};
use crate::canonical::{Coefficient, TermId, coefficient};
use crate::op::TensorOp::{Invert, LeftShift, LogicalAnd, LogicalNot, LogicalOr};

pub(super) const LAWS: &[Law] = &[
    Law {
        name: "De Morgan",
        statement: "not (a and b) = not a or not b, and not (a or b) = not a and not b",
        domain: None,
        examples: &[
            "%a = less %x, %y\n%b = less %y, %p\n%c = logical_and %a, %b\n%d = logical_not %c\n%r = cast %d, dtype=f64",
            "%a = less %x, %y\n%b = less %y, %p\n%c = logical_or %a, %b\n%d = logical_not %c\n%r = cast %d, dtype=f64",
        ],
        ops: &[LogicalNot],
        apply: de_morgan,
    },
    Law {
        name: "inversion as a difference",
        statement: "invert(x) = -x - 1, of integers",
        domain: None,
        examples: &["%a = cast %x, dtype=i32\n%b = invert %a\n%r = cast %b, dtype=f64"],
        ops: &[Invert],
        apply: |site| inverted(site).into_iter().collect(),
    },
    Law {
        name: "shift as a product",
        statement: "left_shift(x, c) = x * 2 ** c, for a number c below the width of the integer",
        domain: None,
        examples: &["%a = cast %x, dtype=i16\n%b = left_shift %a, 3\n%r = cast %b, dtype=f64"],
        ops: &[LeftShift],
        apply: |site| shifted(site).into_iter().collect(),
    },
];

fn de_morgan(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let mut found = Vec::new();
    for (op, other) in [(LogicalAnd, LogicalOr), (LogicalOr, LogicalAnd)] {
        for operands in site.terms_of(site.operands[0], op).into_iter().take(2) {
            let negated: Option<Vec<TermId>> =
                operands.into_iter().map(|operand| site.elementwise(LogicalNot, vec![operand])).collect();
            found.extend(negated.and_then(|negated| site.chain(other, &negated)));
        }
    }
    found
}

fn inverted(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    if !site.dtype().is_int() {
        return None;
    }
    let (negative, minus_one) = (site.negated(site.operands[0])?, site.number(-1.0));
    site.sum(&[negative, minus_one])
}

fn shifted(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let &[x, count] = &site.operands[..] else { return None };
    let Some(Coefficient::Integer(count)) = coefficient(site.store, count) else { return None };
    if !(0..i128::from(site.dtype().bits())).contains(&count) {
        return None;
    }
    let factor = site.number((1u128 << count) as f64);
    site.product(&[x, factor])
}
