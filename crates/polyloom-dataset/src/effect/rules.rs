//! Operations that have no effect on operands of which enough is known.

use super::known::{Id, Origin, Sum, Table};
use crate::generate::{Need, Range, need, result};
use polyloom::Op;

/// What is wrong with an operation on these values, if something is.
pub(super) fn fault(table: &Table, op: Op, operands: &[Id]) -> Option<&'static str> {
    let range = |index: usize| table.get(operands[index]).range;
    let number = |index: usize| table.get(operands[index]).sum.as_number();
    let made_by = |index: usize, ops: &[Op]| match &table.get(operands[index]).origin {
        Origin::Op { op, .. } => ops.contains(op),
        _ => false,
    };
    let is_negated = |index: usize| {
        let sum = &table.get(operands[index]).sum;
        sum.constant <= 0.0 && !sum.terms.is_empty() && sum.terms.iter().all(|&(_, times)| times < 0.0)
    };
    if operands.iter().all(|&id| table.get(id).sum.as_number().is_some()) {
        return None;
    }
    match op {
        Op::Min | Op::Max if operands.len() == 2 => {
            let apart = table.difference(operands[0], operands[1]);
            let repeats = |index: usize, other: usize| match &table.get(operands[index]).origin {
                Origin::Op { op: inner, operands: of, .. } => *inner == op && of.contains(&operands[other]),
                _ => false,
            };
            match () {
                () if apart.low >= 0.0 || apart.high <= 0.0 => Some("always gives the same one of the two"),
                () if repeats(0, 1) || repeats(1, 0) => Some("has been taken before"),
                () => None,
            }
        }
        Op::Clamp => {
            let (above, below) =
                (table.difference(operands[0], operands[1]), table.difference(operands[2], operands[0]));
            match () {
                () if above.high <= 0.0 || below.high <= 0.0 => Some("always gives a bound"),
                () if above.low >= 0.0 && below.low >= 0.0 => Some("never reaches a bound"),
                () => None,
            }
        }
        Op::Abs if range(0).low >= 0.0 => Some("is of a number that is not negative"),
        Op::Abs if is_negated(0) => Some("takes back a minus"),
        Op::Length | Op::LengthSq if is_negated(0) => Some("takes back a minus"),
        Op::Normalize if is_scaled(&table.get(operands[0]).sum) => Some("takes back a scale"),
        Op::Copysign if is_negated(0) || made_by(0, &[Op::Abs]) => Some("takes back a sign"),
        Op::Copysign if made_by(1, &[Op::Copysign]) => Some("takes a sign from a sign"),
        Op::Mod => {
            let apart = table.difference(operands[1], operands[0]);
            let is_less = range(0).size() < range(1).low || (range(0).low >= 0.0 && apart.low > 0.0);
            let is_told = apart.low > 0.0 && apart.low == apart.high;
            (is_less || is_told || exceeds(table, operands[1], operands[0])).then_some("leaves what it is given")
        }
        Op::Floor | Op::Ceil | Op::Trunc | Op::Rint | Op::Round
            if made_by(0, &[Op::Floor, Op::Ceil, Op::Trunc, Op::Rint, Op::Round]) =>
        {
            Some("is of a whole number")
        }
        Op::Cross if table.get(operands[0]).direction == table.get(operands[1]).direction => {
            Some("is of vectors of one direction")
        }
        Op::Div | Op::Sub | Op::Copysign | Op::Atan2 if operands[0] == operands[1] => Some("is of a value and itself"),
        Op::Select if operands[1] == operands[2] => Some("chooses between equal values"),
        Op::BitAnd | Op::BitOr | Op::BitXor if operands[0] == operands[1] => Some("is of a value and itself"),
        Op::Length | Op::LengthSq | Op::Normalize if made_by(0, UNIT) => Some("is of a vector of length 1"),
        Op::Mul | Op::Div if number(1) == Some(1.0) => Some("changes nothing"),
        Op::Add | Op::Sub if number(1) == Some(0.0) => Some("changes nothing"),
        Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => {
            let apart = table.difference(operands[0], operands[1]);
            let is_decided = match op {
                Op::Lt | Op::Ge => apart.high < 0.0 || apart.low >= 0.0,
                Op::Le | Op::Gt => apart.high <= 0.0 || apart.low > 0.0,
                _ => apart.high < 0.0 || apart.low > 0.0 || (apart.low == 0.0 && apart.high == 0.0),
            };
            is_decided.then_some("is always the same")
        }
        _ => None,
    }
}

/// Whether it is another value times a number.
fn is_scaled(sum: &Sum) -> bool {
    matches!(sum.terms[..], [(_, times)] if sum.constant == 0.0 && times != 1.0)
}

/// Whether the first value is one that is as large as the second or larger: the maximum of it and another, or its
/// magnitude and more.
fn exceeds(table: &Table, value: Id, other: Id) -> bool {
    let is_by = |id: Id, wanted: Op| match &table.get(id).origin {
        Origin::Op { op, operands, .. } => *op == wanted && operands.contains(&other),
        _ => false,
    };
    let sum = &table.get(value).sum;
    let has_magnitude = |&(term, times): &(Id, f64)| times >= 1.0 && is_by(term, Op::Abs);
    is_by(value, Op::Max) || (sum.constant >= 0.0 && sum.terms.iter().any(has_magnitude))
}

/// What gives vectors of length 1.
const UNIT: &[Op] = &[Op::Normalize, Op::SampleUnitRing, Op::SampleUnitSphereSurface, Op::SampleUnitHemisphereSurface];

/// The numbers an operation gives for operands of these ranges, which are within where it is defined; `n` is how many
/// components the first has.
pub(super) fn range_of(op: Op, operands: &[Range], n: usize) -> Range {
    let within: Vec<Range> =
        operands.iter().enumerate().map(|(index, &range)| inside(need(op, index), range)).collect();
    let range = match op {
        Op::Exp | Op::Exp2 if within[0] == Range::ANY => Range::new(0.0, f64::INFINITY),
        Op::Tan => Range::ANY,
        Op::Rsqrt => Range::new(0.0, f64::INFINITY),
        Op::Pow if operands[0].low < 0.0 => Range::ANY,
        Op::Pow => Range::new(0.0, f64::INFINITY),
        _ => result(op, &within, n),
    };
    if range.low.is_nan() || range.high.is_nan() { Range::ANY } else { range }
}

/// The part of a range where a function is defined.
fn inside(need: Need, range: Range) -> Range {
    let (low, high) = match need {
        Need::Positive | Need::NotNegative => (0.0, f64::INFINITY),
        Need::AtLeastOne => (1.0, f64::INFINITY),
        Need::Unit | Need::InsideUnit => (-1.0, 1.0),
        Need::InsideTwo => (0.0, 2.0),
        _ => return range,
    };
    range.and(Range::new(low, high))
}
