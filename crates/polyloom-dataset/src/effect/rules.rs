//! Operations that have no effect on operands of which enough is known.

use super::known::{LinearSum, NumberId, NumberTable, ValueOrigin, square};
use super::results::is_of_warp;
use super::whole::WholeNumber;
use polyloom::Op;

/// Returns what is wrong with an operation on these values, if something is.
pub(super) fn fault(table: &NumberTable, op: Op, operands: &[NumberId]) -> Option<&'static str> {
    let range = |index: usize| table.range(operands[index]);
    let number = |index: usize| table.as_number(operands[index]);
    let whole = |index: usize| table.get(operands[index]).facts.whole;
    let is_multiple = |index: usize, of: usize| {
        let (a, b) = (&table.get(operands[index]).sum, &table.get(operands[of]).sum);
        a.constant == 0.0 && b.constant == 0.0 && a.ratio(b).is_some()
    };
    let made_by = |index: usize, ops: &[Op]| match &table.get(operands[index]).origin {
        ValueOrigin::Op { op, .. } => ops.contains(op),
        _ => false,
    };
    let is_negated = |index: usize| {
        let sum = &table.get(operands[index]).sum;
        sum.constant <= 0.0 && !sum.terms.is_empty() && sum.terms.iter().all(|&(_, times)| times < 0.0)
    };
    if operands.iter().all(|&id| table.as_number(id).is_some()) {
        return None;
    }
    match op {
        Op::Min | Op::Max if operands.len() == 2 => {
            let apart = table.difference(operands[0], operands[1]);
            let repeats = |index: usize, other: usize| match &table.get(operands[index]).origin {
                ValueOrigin::Op { op: inner, operands: of, .. } => *inner == op && of.contains(&operands[other]),
                _ => false,
            };
            let exceeds = |index: usize, other: usize| exceeds(table, operands[index], operands[other]);
            match () {
                () if apart.low >= 0.0 || apart.high <= 0.0 || exceeds(0, 1) || exceeds(1, 0) => {
                    Some("always gives the same one of the two")
                }
                () if repeats(0, 1) || repeats(1, 0) => Some("has been taken before"),
                () => None,
            }
        }
        Op::Clamp => {
            let (above, below) =
                (table.difference(operands[0], operands[1]), table.difference(operands[2], operands[0]));
            match () {
                () if above.high <= 0.0 || below.high <= 0.0 => Some("always gives a bound"),
                () if above.low >= 0.0 || below.low >= 0.0 => Some("never reaches a bound"),
                () => None,
            }
        }
        Op::Abs if range(0).low >= 0.0 => Some("is of a number that is not negative"),
        Op::Abs if is_negated(0) => Some("takes back a minus"),
        Op::Abs if made_by(0, &[Op::Sign]) => Some("is of a sign"),
        Op::Length | Op::LengthSq if is_negated(0) => Some("takes back a minus"),
        Op::Normalize if is_scaled(&table.get(operands[0]).sum) => Some("takes back a scale"),
        Op::Copysign if is_negated(0) || made_by(0, &[Op::Abs]) => Some("takes back a sign"),
        Op::Copysign if made_by(1, &[Op::Copysign]) => Some("takes a sign from a sign"),
        Op::Copysign if sign(table, operands[0]) == sign(table, operands[1]) => Some("takes the sign that is there"),
        Op::Copysign if range(1).low >= 0.0 || range(1).high <= 0.0 => Some("always takes the same sign"),
        Op::Mod if is_multiple(0, 1) => Some("is of multiples of one value"),
        Op::Mod => {
            let apart = table.difference(operands[1], operands[0]);
            let is_less = range(0).size() < range(1).abs().low || (range(0).low >= 0.0 && apart.low > 0.0);
            // Far below zero, a divisor that is larger is smaller in size.
            let is_told = apart.low > 0.0 && apart.low == apart.high && range(0).low > -0.5 * apart.low;
            (is_less || is_told || is_within(table, operands[0], operands[1])).then_some("leaves what it is given")
        }
        Op::Frac if range(0).size() < 1.0 => Some("leaves what it is given"),
        Op::Floor | Op::Ceil | Op::Trunc | Op::Rint | Op::Round | Op::Frac if whole(0).is_some() => {
            Some("is of a whole number")
        }
        Op::BitCount if is_shifted(&table.get(operands[0]).sum) => Some("takes back a scale"),
        Op::BitAnd | Op::BitOr if number(1).is_some_and(|mask| keeps(table, op, operands[0], mask)) => {
            Some("leaves what it is given")
        }
        Op::Cross if table.get(operands[0]).direction == table.get(operands[1]).direction => {
            Some("is of vectors of one direction")
        }
        Op::Dot | Op::CwDiv
            if operands[0] != operands[1] && table.get(operands[0]).direction == table.get(operands[1]).direction =>
        {
            Some("is of vectors of one direction")
        }
        Op::Div if table.get(operands[0]).sum == table.get(operands[1]).sum || is_multiple(0, 1) => {
            Some("is of multiples of one value")
        }
        op if is_of_warp(op) && table.get(operands[0]).facts.is_uniform => Some("is of what all lanes have"),
        Op::Sub if n_shared(table, operands[0], operands[1]) > 1 => Some("takes away what was added"),
        Op::Lerp if number(0) == Some(0.0) || number(1) == Some(0.0) => Some("is a product"),
        Op::Sub | Op::Atan2 if operands[0] == operands[1] => Some("is of a value and itself"),
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
            let shared =
                table.get(operands[0]).sum.terms.iter().find(|term| table.get(operands[1]).sum.terms.contains(term));
            match shared {
                _ if is_decided => Some("is always the same"),
                Some(_) => Some("has one term on both sides"),
                None => None,
            }
        }
        _ => None,
    }
}

/// Returns the value whose sign this value has, and whether the sign is changed.
fn sign(table: &NumberTable, mut id: NumberId) -> (NumberId, bool) {
    use Op::{Asin, Asinh, Atan, Atanh, Cbrt, Erf, Erfinv, Expm1, Frac, Sinh, Tanh, Trunc};
    let mut is_changed = false;
    loop {
        let known = table.get(id);
        match (&known.sum.terms[..], &known.origin) {
            (&[(term, times)], _) if known.sum.constant == 0.0 && term != id => {
                is_changed ^= times < 0.0;
                id = term;
            }
            (
                _,
                ValueOrigin::Op {
                    op: Asin | Asinh | Atan | Atanh | Cbrt | Erf | Erfinv | Expm1 | Frac | Sinh | Tanh | Trunc,
                    operands,
                    ..
                },
            ) => id = operands[0],
            _ => return (id, is_changed),
        }
    }
}

/// Returns true if it is a float made of integers, whole however large these are.
pub(super) fn is_of_integers(table: &NumberTable, id: NumberId) -> bool {
    let known = table.get(id);
    let is_of_integer = |&(term, _): &(NumberId, f64)| match &table.get(term).origin {
        ValueOrigin::Op { op: Op::Cast, operands, .. } => table.get(operands[0]).facts.whole.is_some(),
        _ => false,
    };
    known.facts.whole.is_some() && !known.sum.terms.is_empty() && known.sum.terms.iter().all(is_of_integer)
}

/// Returns true if it is another whole number with its bits moved.
fn is_shifted(sum: &LinearSum) -> bool {
    matches!(sum.terms[..], [(_, times)] if sum.constant == 0.0 && times > 1.0 && times.log2().fract() == 0.0)
}

/// Returns true if a mask takes no bit away that a number could have, or adds none that it has not.
fn keeps(table: &NumberTable, op: Op, id: NumberId, mask: f64) -> bool {
    let facts = table.get(id).facts;
    match op {
        Op::BitAnd => facts.range.low >= 0.0 && facts.range.high <= mask && (mask + 1.0).log2().fract() == 0.0,
        _ => {
            facts.whole.and_then(|whole: WholeNumber| whole.masked(mask as i64)).is_some_and(|bits| bits == mask as i64)
        }
    }
}

/// Returns true if it is another value times a number.
fn is_scaled(sum: &LinearSum) -> bool {
    matches!(sum.terms[..], [(_, times)] if sum.constant == 0.0 && times != 1.0)
}

/// Returns the number of components two vectors have in common that are no numbers.
fn n_shared(table: &NumberTable, a: NumberId, b: NumberId) -> usize {
    let parts = |id: NumberId| match &table.get(id).origin {
        ValueOrigin::Op { op: Op::Construct, operands, .. } => &operands[..],
        _ => &[],
    };
    let is_shared = |&(&a, &b): &(&NumberId, &NumberId)| a == b && table.as_number(a).is_none();
    if parts(a).len() == parts(b).len() { parts(a).iter().zip(parts(b)).filter(is_shared).count() } else { 0 }
}

/// Returns true if the first value is the maximum of the second and another, or as large as its size.
fn exceeds(table: &NumberTable, value: NumberId, other: NumberId) -> bool {
    is_made_of(table, value, Op::Max, |id| id == other) || is_within(table, other, value)
}

/// Returns true if a value is of no larger size than the bound: its magnitude and more, or that of a multiple of it, or
/// its square and enough.
fn is_within(table: &NumberTable, value: NumberId, bound: NumberId) -> bool {
    let of = &table.get(value).sum;
    let part_of = |id: NumberId| {
        let whole = &table.get(id).sum;
        if value == id { Some(1.0) } else { of.ratio(whole).filter(|_| of.constant == 0.0 && whole.constant == 0.0) }
    };
    let sum = &table.get(bound).sum;
    (0..sum.terms.len()).any(|at| {
        let (term, times) = sum.terms[at];
        let mut rest = sum.clone();
        rest.terms.remove(at);
        let least = table.range_of(&rest).low;
        let is_reached = |id: NumberId, most: f64| part_of(id).is_some_and(|part| part.abs() <= most);
        // Twice the root of the product of `a` and `b` times `x` is at most the square of `x` times `a` and `b`.
        least >= 0.0
            && times > 0.0
            && (is_made_of(table, term, Op::Abs, |id| is_reached(id, times))
                || square(table, term).is_some_and(|id| is_reached(id, 2.0 * (times * least).sqrt())))
    })
}

fn is_made_of(table: &NumberTable, id: NumberId, wanted: Op, is_meant: impl Fn(NumberId) -> bool) -> bool {
    match &table.get(id).origin {
        ValueOrigin::Op { op, operands, .. } => *op == wanted && operands.iter().any(|&id| is_meant(id)),
        _ => false,
    }
}

/// Holds what gives vectors and quaternions of length 1.
const UNIT: &[Op] = &[
    Op::Normalize,
    Op::QuatFromEuler,
    Op::QuatRpy,
    Op::SampleUnitRing,
    Op::SampleUnitSphereSurface,
    Op::SampleUnitHemisphereSurface,
];
