//! The tests that conditions are made of: what they compare, and what is known once one of them has been passed.

use crate::number_range::NumberRange;
use smallvec::SmallVec;

/// A comparison of a value with a number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ValueBound {
    /// True if the value is less, or at most this.
    pub(super) is_below: bool,
    /// True if the number itself is out.
    pub(super) is_strict: bool,
    pub(super) at: f64,
    /// True if the value is a variable and nothing else.
    pub(super) is_bare: bool,
}

impl ValueBound {
    pub(super) fn negated(self) -> ValueBound {
        ValueBound { is_below: !self.is_below, is_strict: !self.is_strict, ..self }
    }

    /// Returns what is left of numbers for which it holds.
    pub(super) fn narrowed(self, range: NumberRange, is_whole: bool) -> NumberRange {
        let step = if is_whole && self.is_strict { 1.0 } else { 0.0 };
        match self.is_below {
            true => NumberRange::new(range.low, range.high.min(self.at - step)),
            false => NumberRange::new(range.low.max(self.at + step), range.high),
        }
    }
}

/// Says where values come from: variables by number, components by the hash of their text.
pub(super) type Roots = SmallVec<[i64; 4]>;

/// One of the tests that a condition is made of.
#[derive(Clone, Debug)]
pub(super) struct ConditionTest {
    /// Holds what the tested value comes from.
    pub(super) roots: Roots,
    pub(super) bound: Option<ValueBound>,
    /// The variable that it is on.
    pub(super) of: Option<usize>,
    /// True if the ranges of its operands leave one answer.
    pub(super) is_plain: bool,
}

/// A test whose outcome is known.
pub(super) struct KnownTest {
    pub(super) roots: Roots,
    /// The variable whose range it has narrowed, and what that was.
    pub(super) narrowed: Option<(usize, NumberRange)>,
}

/// The tests of a condition that does not hold.
pub(super) fn negated(asks: &[ConditionTest]) -> Vec<ConditionTest> {
    asks.iter().map(|ask| ConditionTest { bound: ask.bound.map(ValueBound::negated), ..ask.clone() }).collect()
}
