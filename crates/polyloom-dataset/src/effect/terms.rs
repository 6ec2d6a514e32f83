//! What values are sums of, component by component where they are vectors.

use super::known::{LinearSum, NumberId, NumberTable, ValueOrigin, meet, range_of_type, text};
use crate::number_range::{NumberRange, elem};
use polyloom::{Composite, Imm, InstData, Op, Type};
use smallvec::SmallVec;

/// The terms of a sum, and what is wrong with it.
pub(super) struct SumTerms {
    pub(super) sum: LinearSum,
    pub(super) what: Option<&'static str>,
}

/// The terms of a sum, and what is wrong with adding them up.
pub(super) fn sum(table: &NumberTable, op: Op, operands: &[NumberId], ty: Type) -> Option<SumTerms> {
    let sum = |index: usize| &table.get(operands[index]).sum;
    // Differences of unsigned integers are never negative.
    if range_of_type(ty) != NumberRange::ANY {
        return None;
    }
    let added = |other: LinearSum| {
        let (all, cancels) = sum(0).plus(&other);
        let is_of_one = || sum(0).ratio(&other).is_some();
        let what = match cancels {
            true => Some("takes away what was added"),
            false => is_of_one().then_some("is of multiples of one value"),
        };
        Some(SumTerms { sum: all, what })
    };
    let plain = |sum: LinearSum| Some(SumTerms { sum, what: None });
    match op {
        Op::Add => added(sum(1).clone()),
        Op::Sub => added(sum(1).clone().times(-1.0)),
        Op::Neg => plain(sum(0).clone().times(-1.0)),
        Op::Invert => plain(sum(0).clone().times(-1.0).plus(&LinearSum::number(-1.0)).0),
        Op::Pos => plain(sum(0).clone()),
        Op::Lshift => {
            let by = sum(1).as_number().filter(|by| (0.0..16.0).contains(by))?;
            plain(sum(0).clone().times(by.exp2()))
        }
        Op::Mul => match (sum(0).as_number(), sum(1).as_number()) {
            (Some(factor), _) => plain(sum(1).clone().times(factor)),
            (_, Some(factor)) => plain(sum(0).clone().times(factor)),
            _ => None,
        },
        // Integers are left out, because their quotients are cut off.
        Op::Div if elem(ty).is_some_and(polyloom::Scalar::is_float) => {
            let divisor = sum(1).as_number().filter(|&divisor| divisor != 0.0)?;
            plain(sum(0).clone().times(1.0 / divisor))
        }
        _ => None,
    }
}

/// The component of a vector that is made of others: of a sum the sum of theirs.
pub(super) fn part(table: &mut NumberTable, data: &InstData, operands: &[NumberId], ty: Type) -> Option<NumberId> {
    let (Op::Component, &Imm::Component(at)) = (data.op, &data.imm) else { return None };
    let n = ty.as_composite().map_or(0, Composite::n_components);
    let LinearSum { terms, constant } = table.get(operands[0]).sum.clone();
    let is_plain = matches!(terms[..], [(term, 1.0)] if made_of(table, term, n).is_none());
    if is_plain || terms.is_empty() || constant != 0.0 {
        return None;
    }
    let mut sum = LinearSum::default();
    for (term, times) in terms {
        let part = match made_of(table, term, n) {
            Some(parts) => *parts.get(usize::from(at))?,
            None => {
                let operands = SmallVec::from_slice(&[term]);
                let origin = ValueOrigin::Op { op: data.op, operands, imm: text(&data.imm), time: 0, result: 0 };
                let facts = table.get(term).facts;
                table.atom(origin, facts, None)
            }
        };
        sum = sum.plus(&table.get(part).sum.clone().times(times)).0;
    }
    let range = meet(table.range(operands[0]), table.range_of(&sum));
    let elem = ty.as_composite().map_or(ty, |composite| Type::Scalar(composite.elem()));
    Some(table.sum(sum, range, elem))
}

/// Returns what a vector of so many components is made of, if it is made of these.
pub(super) fn made_of(table: &NumberTable, vector: NumberId, n: usize) -> Option<&[NumberId]> {
    match &table.get(vector).origin {
        ValueOrigin::Op { op: Op::Construct, operands, .. } if operands.len() == n && n > 1 => Some(operands),
        _ => None,
    }
}
