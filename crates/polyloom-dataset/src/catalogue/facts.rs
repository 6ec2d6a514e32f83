//! An entry of the catalogue: all that data sets know of an op beyond its entry in the op table.

use super::need::OperandNeed;
use super::ranges::OperandRanges;
use super::wholes::WholeOperands;
use super::words::OpWords;
use crate::number_range::NumberRange;
use crate::whole_number::WholeNumber;
use polyloom::Op;

/// Computes the range of a result from those of the operands.
pub(super) type RangeRule = fn(&OperandRanges<'_>) -> NumberRange;

/// Computes what a result is a multiple of, if it is whole.
pub(super) type WholeRule = fn(&WholeOperands<'_>) -> Option<WholeNumber>;

/// The facts about one op. A row begins with [`OpFacts::of`], which says nothing, and states what differs from that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpFacts {
    pub(crate) op: Op,
    /// Holds what the op gives in prose, `{}` being its operands in order, `{0}` the first.
    pub(crate) noun: Option<&'static str>,
    /// Holds what programmers call its result, and functions that end with it.
    pub(crate) words: OpWords,
    /// Says how often generated expressions have it.
    pub(crate) frequency: DrawFrequency,
    /// Says for which operands Warp has it.
    pub(crate) warp: WarpSupport,
    /// Says by which rule operands make it say nothing.
    pub(crate) kind: OpKind,
    pub(super) traits: &'static [OpTrait],
    /// Holds what it needs of its operands; of those that are left out, that they are finite.
    pub(super) needs: &'static [OperandNeed],
    /// Numbers for which it is defined, where these are not those of what it needs.
    pub(super) domain: Option<NumberRange>,
    /// Computes the numbers that it gives where it is defined: all of them, because the proof relies on that.
    pub(super) result: RangeRule,
    /// The same as the generator takes it, where that differs because its operands are not all that there could be.
    pub(super) expected: Option<RangeRule>,
    /// Computes what its result is a multiple of, where that is a whole number.
    pub(super) whole: WholeRule,
    /// The ops behind which it takes back what they did, or has nothing left to do.
    pub(crate) undoes: &'static [Op],
    /// The ways in which it can be redundant that HIR shows, those first that are reported first.
    pub(crate) redundancies: &'static [Redundancy],
    /// Holds what is counted of its results in runs, if it is watched.
    pub(crate) outcome: Option<WatchedOutcome>,
    /// Says how lanes of a warp exchange values by it, if they do.
    pub(crate) exchange: Option<LaneExchange>,
    /// Says for which order of its operands it holds, if it tests that.
    pub(crate) order: Option<OperandOrder>,
}

/// Says how often the generator takes an op where it could take it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DrawFrequency {
    /// It is arithmetic that every kernel may have.
    Basic,
    /// It is arithmetic, which is most of what programs do; of integers one time in so many.
    CommonOfFloats(usize),
    /// As often as others.
    Usual,
    /// As often as others, and of integers one time in so many.
    OfFloats(usize),
    /// One time in so many.
    OneIn(usize),
    /// Never: of finite numbers its result is known, or another op says the same.
    Never,
}

/// Says of which operands real Warp has an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WarpSupport {
    All,
    /// All but transformations.
    NoTransforms,
    /// All but transformations and quaternions.
    NoRotations,
    /// Numbers, and composites of `float32`.
    Float32,
    /// Warp does not have the op.
    None,
}

/// Groups ops whose operands make them pointless in the same way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpKind {
    Sum,
    Difference,
    Product,
    Quotient,
    Remainder,
    Power,
    /// `a * b + c`.
    FusedProduct,
    Negation,
    /// It depends on the sign of a number, or takes it away.
    SignTest,
    SignCopy,
    /// The smaller or the larger of two values.
    Extremum,
    Rounding,
    Fraction,
    SquareRoot,
    /// An even function that is not flat.
    EvenFunction,
    Blend,
    Choice,
    BitMask,
    Shift,
    /// It takes radians.
    ToDegrees,
    /// It takes degrees.
    ToRadians,
    Other,
}

/// A property that an op has or has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpTrait {
    /// One value as both operands is a use that programs have for it.
    TakesOneTwice,
    /// The order of its two operands does not matter, where they are no composites that are multiplied.
    Commutes,
    /// Each component of its result is read of the same component of its operands.
    ByComponent,
    /// Its result has the sign of its operand.
    KeepsSign,
    /// It gives the same for a number, or a vector, and minus that.
    Even,
    /// It changes nothing of its first operand but the sign.
    SignOnly,
    /// It leaves a value as it is within bounds that are its other operands.
    Limits,
    /// Its last two operands are bounds.
    BoundsLast,
    /// Its first two operands are bounds.
    BoundsFirst,
    /// Its result has bounds that it nears, or passes to and fro between.
    LevelsOff,
    /// Its result goes up and down as its first operand rises.
    Cycles,
    GivesAngle,
    /// It gives a vector or a quaternion of length 1.
    UnitLength,
    /// It gives a matrix that is zero off the diagonal.
    ZeroOffDiagonal,
    /// It gives a matrix that is zero on the diagonal.
    ZeroOnDiagonal,
    /// Its integers are axes.
    TakesAxes,
    /// It may give a number that its type does not have.
    Wraps,
    /// Its result says which thread of the warp it is.
    OfThread,
    /// The source text has no operation for it.
    Unwritten,
}

/// A way in which an operation has no effect, as the values of its operands show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Redundancy {
    /// One of two operands is never the smaller one.
    OneOfTwo,
    /// An operand is the same op of the other operand.
    TakenBefore,
    AlwaysBound,
    NeverBound,
    NotNegative,
    /// The first operand has a minus that is lost.
    LosesMinus,
    OfSign,
    LosesScale,
    /// The first operand has a sign that is lost.
    LosesSign,
    SignOfSign,
    SignThatIsThere,
    OneSign,
    /// Both operands are multiples of one value.
    Multiples,
    /// The same, or they are one value.
    MultiplesOrSame,
    /// The first operand is less than the second in size.
    BelowModulus,
    BelowOne,
    WholeOperand,
    /// The first operand is another with its bits moved.
    LosesShift,
    /// The second operand is a mask that changes no bit.
    IdleMask,
    OneDirection,
    /// The same of two different vectors.
    OneDirectionOfTwo,
    OfOneLength,
    UniformOperand,
    /// Two vectors are made of some of the same numbers.
    SharedComponents,
    /// It blends with zero.
    BlendWithZero,
    SameOperands,
    SameChoices,
    ByOne,
    WithZero,
    Decided,
    SharedTerm,
}

/// Names the property of an op's results that runs of a kernel count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WatchedOutcome {
    /// Counts the results that are one of two operands, of which this is the first, and those that are the other.
    OneOf(usize),
    /// Counts the results that are the operand which it bounds.
    Bounded,
    /// Counts the results that are its first operand.
    Leaves,
    /// Looks for more than one number among the results.
    Jumps,
}

/// Says how a result comes from the values that lanes of a warp have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LaneExchange {
    /// It is the value of one lane.
    One,
    /// It is the sum over all lanes.
    Sum,
    /// It is the value of a lane that is told.
    Told,
    /// It is the value of a lane so many away.
    Neighbour,
    /// It is another value, the same in all lanes.
    Agreed,
    /// It is another value in each lane.
    Own,
}

/// The order of two operands for which a comparison holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OperandOrder {
    /// True if the first is the smaller one.
    pub(crate) is_less: bool,
    /// True if it does not hold for equal operands.
    pub(crate) is_strict: bool,
}

impl OpFacts {
    /// An entry that states nothing.
    pub(super) const fn of(op: Op) -> OpFacts {
        OpFacts {
            op,
            noun: None,
            words: OpWords::NONE,
            frequency: DrawFrequency::Usual,
            warp: WarpSupport::All,
            kind: OpKind::Other,
            traits: &[],
            needs: &[],
            domain: None,
            result: |_| NumberRange::ANY,
            expected: None,
            whole: |_| None,
            undoes: &[],
            redundancies: &[],
            outcome: None,
            exchange: None,
            order: None,
        }
    }

    pub(super) const fn noun(self, noun: &'static str) -> OpFacts {
        OpFacts { noun: Some(noun), ..self }
    }

    pub(super) const fn words(self, words: OpWords) -> OpFacts {
        OpFacts { words, ..self }
    }

    /// Names its result alone, or otherwise than its family does.
    pub(super) const fn names(self, names: &'static [&'static str]) -> OpFacts {
        OpFacts { words: OpWords { names, ..self.words }, ..self }
    }

    pub(super) const fn frequency(self, frequency: DrawFrequency) -> OpFacts {
        OpFacts { frequency, ..self }
    }

    pub(super) const fn warp(self, warp: WarpSupport) -> OpFacts {
        OpFacts { warp, ..self }
    }

    pub(super) const fn kind(self, kind: OpKind) -> OpFacts {
        OpFacts { kind, ..self }
    }

    pub(super) const fn traits(self, traits: &'static [OpTrait]) -> OpFacts {
        OpFacts { traits, ..self }
    }

    pub(super) const fn needs(self, needs: &'static [OperandNeed]) -> OpFacts {
        OpFacts { needs, ..self }
    }

    pub(super) const fn domain(self, domain: NumberRange) -> OpFacts {
        OpFacts { domain: Some(domain), ..self }
    }

    pub(super) const fn result(self, result: RangeRule) -> OpFacts {
        OpFacts { result, ..self }
    }

    pub(super) const fn expected(self, expected: RangeRule) -> OpFacts {
        OpFacts { expected: Some(expected), ..self }
    }

    pub(super) const fn whole(self, whole: WholeRule) -> OpFacts {
        OpFacts { whole, ..self }
    }

    pub(super) const fn undoes(self, undoes: &'static [Op]) -> OpFacts {
        OpFacts { undoes, ..self }
    }

    pub(super) const fn redundancies(self, redundancies: &'static [Redundancy]) -> OpFacts {
        OpFacts { redundancies, ..self }
    }

    pub(super) const fn outcome(self, outcome: WatchedOutcome) -> OpFacts {
        OpFacts { outcome: Some(outcome), ..self }
    }

    /// Makes it an exchange between the lanes of a warp, which has no effect on a value that all of them have.
    pub(super) const fn exchange(self, exchange: LaneExchange) -> OpFacts {
        OpFacts { exchange: Some(exchange), redundancies: &[Redundancy::UniformOperand], ..self }
    }

    pub(super) const fn order(self, is_less: bool, is_strict: bool) -> OpFacts {
        OpFacts { order: Some(OperandOrder { is_less, is_strict }), ..self }
    }

    /// Returns true if the op has the property.
    pub(crate) fn is(&self, property: OpTrait) -> bool {
        self.traits.contains(&property)
    }

    /// Returns what it needs of an operand.
    pub(crate) fn need(&self, operand: usize) -> OperandNeed {
        self.needs.get(operand).copied().unwrap_or(OperandNeed::Finite)
    }

    /// Returns the numbers of an operand for which it is defined.
    pub(super) fn domain_of(&self, operand: usize) -> NumberRange {
        self.domain.unwrap_or_else(|| self.need(operand).domain())
    }
}
