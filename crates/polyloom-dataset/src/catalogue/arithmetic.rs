//! Rows of arithmetic, comparisons, bits, and what moves values about.

use super::facts::{DrawFrequency, OpFacts, OpKind, OpTrait, Redundancy, WarpSupport, WatchedOutcome};
use super::need::OperandNeed;
use super::words;
use crate::number_range::NumberRange;
use polyloom::Op;

/// Holds the rows of arithmetic.
pub(super) static ARITHMETIC: &[OpFacts] = &[
    OpFacts::of(Op::Add)
        .noun("the sum of {} and {}")
        .words(words::SUM)
        .frequency(DrawFrequency::Basic)
        .kind(OpKind::Sum)
        .traits(&[OpTrait::ByComponent, OpTrait::Wraps])
        .result(|x| x.first() + x.second())
        .redundancies(&[Redundancy::WithZero]),
    OpFacts::of(Op::Sub)
        .noun("the difference of {} and {}")
        .words(words::DIFFERENCE)
        .frequency(DrawFrequency::Basic)
        .kind(OpKind::Difference)
        .traits(&[OpTrait::ByComponent, OpTrait::Wraps])
        .result(|x| x.first() - x.second())
        .redundancies(&[Redundancy::SharedComponents, Redundancy::SameOperands, Redundancy::WithZero]),
    OpFacts::of(Op::Mul)
        .noun("the product of {} and {}")
        .words(words::PRODUCT)
        .frequency(DrawFrequency::Basic)
        .kind(OpKind::Product)
        .traits(&[OpTrait::TakesOneTwice, OpTrait::Commutes, OpTrait::Wraps])
        .result(|x| x.product())
        .expected(|x| x.product_of_motions())
        .whole(|x| x.product())
        .redundancies(&[Redundancy::ByOne]),
    OpFacts::of(Op::Div)
        .noun("the quotient of {} and {}")
        .words(words::QUOTIENT)
        .frequency(DrawFrequency::CommonOfFloats(6))
        .warp(WarpSupport::NoTransforms)
        .kind(OpKind::Quotient)
        .needs(&[OperandNeed::Finite, OperandNeed::NotZero])
        .result(|x| x.quotient())
        .redundancies(&[Redundancy::MultiplesOrSame, Redundancy::ByOne]),
    OpFacts::of(Op::FloorDiv)
        .noun("the floor of the quotient of {} and {}")
        .names(&["floored", "n_whole"])
        .frequency(DrawFrequency::OneIn(6))
        .kind(OpKind::Quotient)
        .needs(&[OperandNeed::Finite, OperandNeed::NotZero])
        .result(|x| x.floored_quotient())
        .outcome(WatchedOutcome::Jumps),
    OpFacts::of(Op::Mod)
        .noun("the remainder of {} by {}")
        .words(words::REMAINDER)
        .frequency(DrawFrequency::OfFloats(6))
        .kind(OpKind::Remainder)
        .traits(&[OpTrait::Cycles])
        .needs(&[OperandNeed::Finite, OperandNeed::NotZero])
        .result(|x| x.remainder())
        .whole(|x| x.remainder())
        .redundancies(&[Redundancy::Multiples, Redundancy::BelowModulus])
        .outcome(WatchedOutcome::Leaves),
    OpFacts::of(Op::Pos).frequency(DrawFrequency::Never),
    OpFacts::of(Op::Neg)
        .noun("minus {}")
        .words(words::NEGATION)
        .warp(WarpSupport::NoTransforms)
        .kind(OpKind::Negation)
        .traits(&[OpTrait::ByComponent, OpTrait::SignOnly, OpTrait::Wraps])
        .result(|x| -x.first())
        .whole(|x| x.negated())
        .undoes(&[Op::Neg]),
];

const DECIDED: &[Redundancy] = &[Redundancy::Decided, Redundancy::SharedTerm];

/// Holds the rows of comparisons.
pub(super) static COMPARISONS: &[OpFacts] = &[
    OpFacts::of(Op::Eq).noun("{} equals {}").traits(&[OpTrait::Commutes]).redundancies(DECIDED),
    OpFacts::of(Op::Ne).noun("{} differs from {}").traits(&[OpTrait::Commutes]).redundancies(DECIDED),
    OpFacts::of(Op::Lt).noun("{} is less than {}").order(true, true).redundancies(DECIDED),
    OpFacts::of(Op::Le).noun("{} is at most {}").order(true, false).redundancies(DECIDED),
    OpFacts::of(Op::Gt).noun("{} is greater than {}").order(false, true).redundancies(DECIDED),
    OpFacts::of(Op::Ge).noun("{} is at least {}").order(false, false).redundancies(DECIDED),
];

/// Holds the rows of operations on bits.
pub(super) static BITS: &[OpFacts] = &[
    OpFacts::of(Op::BitAnd)
        .noun("the bitwise AND of {} and {}")
        .words(words::BITS)
        .frequency(DrawFrequency::OneIn(6))
        .kind(OpKind::BitMask)
        .traits(&[OpTrait::Commutes])
        .result(|x| x.masked())
        // Kernels of a seed would be others if it counted here that one operand bounds the other.
        .expected(|x| x.masked_of_two())
        .whole(|x| x.masked())
        .redundancies(&[Redundancy::IdleMask, Redundancy::SameOperands])
        .outcome(WatchedOutcome::Leaves),
    OpFacts::of(Op::BitOr)
        .noun("the bitwise OR of {} and {}")
        .words(words::BITS)
        .kind(OpKind::BitMask)
        .traits(&[OpTrait::Commutes])
        .result(|x| x.united_bits())
        .redundancies(&[Redundancy::IdleMask, Redundancy::SameOperands])
        .outcome(WatchedOutcome::Leaves),
    OpFacts::of(Op::BitXor)
        .noun("the bitwise XOR of {} and {}")
        .words(words::BITS)
        .kind(OpKind::BitMask)
        .traits(&[OpTrait::Commutes])
        .result(|x| x.united_bits())
        .redundancies(&[Redundancy::SameOperands])
        .outcome(WatchedOutcome::Leaves),
    OpFacts::of(Op::Invert)
        .noun("the bitwise complement of {}")
        .result(|x| -x.first() - NumberRange::of(1.0))
        .undoes(&[Op::Invert]),
    OpFacts::of(Op::Not).noun("not {}").frequency(DrawFrequency::OneIn(6)),
    OpFacts::of(Op::Unot).frequency(DrawFrequency::Never),
    OpFacts::of(Op::BitCount)
        .noun("the number of set bits of {}")
        .names(&["n_bits", "popcount"])
        .result(|_| NumberRange::new(0.0, 64.0))
        .redundancies(&[Redundancy::LosesShift]),
    OpFacts::of(Op::Lshift)
        .noun("{} shifted left by {}")
        .words(words::BITS)
        .kind(OpKind::Shift)
        // Languages disagree on shifts of negative numbers.
        .needs(&[OperandNeed::NotNegative, OperandNeed::Shift])
        .domain(NumberRange::ANY)
        .result(|x| x.shifted_left())
        .outcome(WatchedOutcome::Leaves),
    OpFacts::of(Op::Rshift)
        .noun("{} shifted right by {}")
        .words(words::BITS)
        .frequency(DrawFrequency::OfFloats(6))
        .kind(OpKind::Shift)
        .needs(&[OperandNeed::NotNegative, OperandNeed::Shift])
        .domain(NumberRange::ANY)
        .result(|x| x.shifted_right())
        .outcome(WatchedOutcome::Leaves),
];

/// Holds the rows of what chooses, converts, builds and loads values.
pub(super) static MOVES: &[OpFacts] = &[
    OpFacts::of(Op::Select)
        .noun("{1} where {0} holds and {2} elsewhere")
        .words(words::CHOICE)
        .kind(OpKind::Choice)
        .traits(&[OpTrait::TakesOneTwice])
        .result(|x| x.second().or(x.third()))
        .whole(|x| x.either(1, 2))
        .redundancies(&[Redundancy::SameChoices])
        .outcome(WatchedOutcome::OneOf(1)),
    OpFacts::of(Op::Cast)
        .traits(&[OpTrait::Wraps, OpTrait::Unwritten])
        .result(|x| x.cast())
        .whole(|x| x.cast())
        .outcome(WatchedOutcome::Jumps),
    OpFacts::of(Op::Const).traits(&[OpTrait::Unwritten]),
    OpFacts::of(Op::Construct).traits(&[OpTrait::Unwritten]).result(|x| x.any()),
    OpFacts::of(Op::Component).traits(&[OpTrait::Unwritten]).result(|x| x.first()).whole(|x| x.operand(0)),
    OpFacts::of(Op::ComponentAt).traits(&[OpTrait::Unwritten]),
    OpFacts::of(Op::ArrayLoad).traits(&[OpTrait::Unwritten]),
    OpFacts::of(Op::LoadReadonly).traits(&[OpTrait::Unwritten]),
];
