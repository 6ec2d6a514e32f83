//! The ranges that ops need their operands to have, and those in which they are defined.

use crate::number_range::NumberRange;

/// Describes what a builtin needs of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OperandNeed {
    /// Not to be so large that arithmetic overflows.
    Finite,
    /// A size of 8 at most.
    Moderate,
    /// A size of 3 at most, because of larger numbers the function has one value.
    Small,
    /// At least 0.05.
    Positive,
    NotNegative,
    AtLeastOne,
    /// From -1 to 1.
    Unit,
    /// From -0.95 to 0.95.
    InsideUnit,
    /// From 0 to 1.
    Fraction,
    /// From 0.05 to 1.95.
    InsideTwo,
    /// Not within 0.05 of zero.
    NotZero,
    /// An integer that counts bits.
    Shift,
}

impl OperandNeed {
    /// Returns true if these numbers are what is needed.
    pub(crate) fn is_met_by(self, range: NumberRange) -> bool {
        range.lies_in(match self {
            OperandNeed::Finite => NumberRange::within(1e5),
            OperandNeed::Moderate => NumberRange::within(8.0),
            OperandNeed::Small => NumberRange::within(3.0),
            OperandNeed::Positive => NumberRange::new(0.05, 1e5),
            OperandNeed::NotNegative => NumberRange::new(0.0, 1e5),
            OperandNeed::AtLeastOne => NumberRange::new(1.0, 1e5),
            OperandNeed::Unit => NumberRange::within(1.0),
            OperandNeed::InsideUnit => NumberRange::within(0.95),
            OperandNeed::Fraction => NumberRange::new(0.0, 1.0),
            OperandNeed::InsideTwo => NumberRange::new(0.05, 1.95),
            OperandNeed::NotZero => return range.avoids_zero(0.05) && range.size() <= 1e5,
            OperandNeed::Shift => NumberRange::new(0.0, 7.0),
        })
    }

    /// Returns all numbers for which a function is defined that needs this, those at the ends included where it may be
    /// infinite.
    pub(super) fn domain(self) -> NumberRange {
        match self {
            OperandNeed::Positive | OperandNeed::NotNegative => NumberRange::new(0.0, f64::INFINITY),
            OperandNeed::AtLeastOne => NumberRange::new(1.0, f64::INFINITY),
            OperandNeed::Unit | OperandNeed::InsideUnit => NumberRange::within(1.0),
            OperandNeed::InsideTwo => NumberRange::new(0.0, 2.0),
            _ => NumberRange::ANY,
        }
    }
}
