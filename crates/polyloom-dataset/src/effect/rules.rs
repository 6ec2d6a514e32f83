//! Operations that have no effect on operands of which enough is known.

use super::known::{LinearSum, NumberId, NumberTable, ValueOrigin, square};
use crate::catalogue::{self, OpTrait, Redundancy};
use crate::number_range::NumberRange;
use crate::whole_number::WholeNumber;
use polyloom::Op;

/// Returns what is wrong with an operation on these values, if something is.
pub(super) fn fault(table: &NumberTable, op: Op, operands: &[NumberId]) -> Option<&'static str> {
    if operands.iter().all(|&id| table.as_number(id).is_some()) {
        return None;
    }
    let operation = NumberedOperation { table, op, operands };
    let ways = catalogue::facts(op).redundancies;
    ways.iter().find(|&&redundancy| operation.is_redundant(redundancy)).map(|&redundancy| what(redundancy))
}

/// Returns what is said of an operation that is redundant in this way.
fn what(redundancy: Redundancy) -> &'static str {
    match redundancy {
        Redundancy::OneOfTwo => "always gives the same one of the two",
        Redundancy::TakenBefore => "has been taken before",
        Redundancy::AlwaysBound => "always gives a bound",
        Redundancy::NeverBound => "never reaches a bound",
        Redundancy::NotNegative => "is of a number that is not negative",
        Redundancy::LosesMinus => "takes back a minus",
        Redundancy::OfSign => "is of a sign",
        Redundancy::LosesScale | Redundancy::LosesShift => "takes back a scale",
        Redundancy::LosesSign => "takes back a sign",
        Redundancy::SignOfSign => "takes a sign from a sign",
        Redundancy::SignThatIsThere => "takes the sign that is there",
        Redundancy::OneSign => "always takes the same sign",
        Redundancy::Multiples | Redundancy::MultiplesOrSame => "is of multiples of one value",
        Redundancy::BelowModulus | Redundancy::BelowOne | Redundancy::IdleMask => "leaves what it is given",
        Redundancy::WholeOperand => "is of a whole number",
        Redundancy::OneDirection | Redundancy::OneDirectionOfTwo => "is of vectors of one direction",
        Redundancy::OfOneLength => "is of a vector of length 1",
        Redundancy::UniformOperand => "is of what all lanes have",
        Redundancy::SharedComponents => "takes away what was added",
        Redundancy::BlendWithZero => "is a product",
        Redundancy::SameOperands => "is of a value and itself",
        Redundancy::SameChoices => "chooses between equal values",
        Redundancy::ByOne | Redundancy::WithZero => "changes nothing",
        Redundancy::Decided => "is always the same",
        Redundancy::SharedTerm => "has one term on both sides",
    }
}

/// An operation on values of which something is known.
struct NumberedOperation<'a> {
    table: &'a NumberTable,
    op: Op,
    operands: &'a [NumberId],
}

impl NumberedOperation<'_> {
    fn is_redundant(&self, redundancy: Redundancy) -> bool {
        let (table, operands) = (self.table, self.operands);
        let number = |index: usize| table.as_number(operands[index]);
        match redundancy {
            Redundancy::OneOfTwo => self.is_one_of_two(),
            Redundancy::TakenBefore => self.has_been_taken(),
            Redundancy::AlwaysBound => self.apart(0, 1).high <= 0.0 || self.apart(2, 0).high <= 0.0,
            Redundancy::NeverBound => self.apart(0, 1).low >= 0.0 || self.apart(2, 0).low >= 0.0,
            Redundancy::NotNegative => self.range(0).low >= 0.0,
            Redundancy::LosesMinus => is_negated(self.sum(0)),
            Redundancy::OfSign => self.is_made_by(0, |op| op == Op::Sign),
            Redundancy::LosesScale => is_scaled(self.sum(0)),
            Redundancy::LosesSign => is_negated(self.sum(0)) || self.is_made_by(0, |op| op == Op::Abs),
            Redundancy::SignOfSign => self.is_made_by(1, |op| op == Op::Copysign),
            Redundancy::SignThatIsThere => sign(table, operands[0]) == sign(table, operands[1]),
            Redundancy::OneSign => self.range(1).low >= 0.0 || self.range(1).high <= 0.0,
            Redundancy::Multiples => self.has_multiples(),
            Redundancy::MultiplesOrSame => self.sum(0) == self.sum(1) || self.has_multiples(),
            Redundancy::BelowModulus => self.is_below_modulus(),
            Redundancy::BelowOne => self.range(0).size() < 1.0,
            Redundancy::WholeOperand => table.get(operands[0]).facts.whole.is_some(),
            Redundancy::LosesShift => is_shifted(self.sum(0)),
            Redundancy::IdleMask => number(1).is_some_and(|mask| keeps(table, self.op, operands[0], mask)),
            Redundancy::OneDirection => self.has_one_direction(),
            Redundancy::OneDirectionOfTwo => operands[0] != operands[1] && self.has_one_direction(),
            Redundancy::OfOneLength => self.is_made_by(0, |op| catalogue::facts(op).is(OpTrait::UnitLength)),
            Redundancy::UniformOperand => table.get(operands[0]).facts.is_uniform,
            Redundancy::SharedComponents => n_shared(table, operands[0], operands[1]) > 1,
            Redundancy::BlendWithZero => number(0) == Some(0.0) || number(1) == Some(0.0),
            Redundancy::SameOperands => operands[0] == operands[1],
            Redundancy::SameChoices => operands[1] == operands[2],
            Redundancy::ByOne => number(1) == Some(1.0),
            Redundancy::WithZero => number(1) == Some(0.0),
            Redundancy::Decided => self.is_decided(),
            Redundancy::SharedTerm => self.sum(0).terms.iter().any(|term| self.sum(1).terms.contains(term)),
        }
    }

    fn range(&self, index: usize) -> NumberRange {
        self.table.range(self.operands[index])
    }

    fn sum(&self, index: usize) -> &LinearSum {
        &self.table.get(self.operands[index]).sum
    }

    /// The range of the difference of two operands.
    fn apart(&self, index: usize, other: usize) -> NumberRange {
        self.table.difference(self.operands[index], self.operands[other])
    }

    fn is_made_by(&self, index: usize, is_meant: impl Fn(Op) -> bool) -> bool {
        match &self.table.get(self.operands[index]).origin {
            ValueOrigin::Op { op, .. } => is_meant(*op),
            _ => false,
        }
    }

    fn is_one_of_two(&self) -> bool {
        let &[a, b] = self.operands else { return false };
        let apart = self.apart(0, 1);
        apart.low >= 0.0 || apart.high <= 0.0 || exceeds(self.table, a, b) || exceeds(self.table, b, a)
    }

    fn has_been_taken(&self) -> bool {
        let &[a, b] = self.operands else { return false };
        let repeats = |value: NumberId, other: NumberId| is_made_of(self.table, value, self.op, |id| id == other);
        repeats(a, b) || repeats(b, a)
    }

    fn has_multiples(&self) -> bool {
        let (a, b) = (self.sum(0), self.sum(1));
        a.constant == 0.0 && b.constant == 0.0 && a.ratio(b).is_some()
    }

    fn is_below_modulus(&self) -> bool {
        let (range, apart) = (self.range(0), self.apart(1, 0));
        let is_less = range.size() < self.range(1).abs().low || (range.low >= 0.0 && apart.low > 0.0);
        // Far below zero, a divisor that is larger is smaller in size.
        let is_told = apart.low > 0.0 && apart.low == apart.high && range.low > -0.5 * apart.low;
        is_less || is_told || is_within(self.table, self.operands[0], self.operands[1])
    }

    fn has_one_direction(&self) -> bool {
        let direction = |index: usize| self.table.get(self.operands[index]).direction;
        direction(0) == direction(1)
    }

    /// Returns true if a comparison comes out the same for all numbers that its operands may be.
    fn is_decided(&self) -> bool {
        let apart = self.apart(0, 1);
        match catalogue::facts(self.op).order {
            // At zero `<` and `>=` come out as they do above it, the others as below.
            Some(order) if order.is_less == order.is_strict => apart.high < 0.0 || apart.low >= 0.0,
            Some(_) => apart.high <= 0.0 || apart.low > 0.0,
            None => apart.high < 0.0 || apart.low > 0.0 || (apart.low == 0.0 && apart.high == 0.0),
        }
    }
}

/// Returns true if it is minus a sum of which no term is taken away.
fn is_negated(sum: &LinearSum) -> bool {
    sum.constant <= 0.0 && !sum.terms.is_empty() && sum.terms.iter().all(|&(_, times)| times < 0.0)
}

/// Returns the value whose sign this value has, and whether the sign is changed.
fn sign(table: &NumberTable, mut id: NumberId) -> (NumberId, bool) {
    let mut is_changed = false;
    loop {
        let known = table.get(id);
        match (&known.sum.terms[..], &known.origin) {
            (&[(term, times)], _) if known.sum.constant == 0.0 && term != id => {
                is_changed ^= times < 0.0;
                id = term;
            }
            (_, ValueOrigin::Op { op, operands, .. }) if catalogue::facts(*op).is(OpTrait::KeepsSign) => {
                id = operands[0]
            }
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
