//! Rows of scalar mathematics.

use super::facts::{DrawFrequency, OpFacts, OpKind, OpTrait, Redundancy, WarpSupport, WatchedOutcome};
use super::need::OperandNeed;
use super::{ranges, words};
use crate::number_range::NumberRange;
use crate::whole_number::WholeNumber;
use polyloom::Op;

/// The ops behind which an exponential takes back a logarithm, or grows beyond all bounds.
const BEFORE_EXPONENTIALS: &[Op] = &[Op::Log, Op::Log1p, Op::Log2, Op::Log10, Op::Exp, Op::Exp2, Op::Expm1];

/// The ops behind which a logarithm is a product, or of a logarithm.
const BEFORE_LOGARITHMS: &[Op] =
    &[Op::Exp, Op::Exp2, Op::Expm1, Op::Pow, Op::Sqrt, Op::Log, Op::Log1p, Op::Log2, Op::Log10];

const TRIGONOMETRIC: &[Op] = &[Op::Sin, Op::Cos, Op::Tan, Op::Asin, Op::Acos, Op::Atan];

const HYPERBOLIC: &[Op] = &[Op::Sinh, Op::Cosh, Op::Tanh, Op::Asinh, Op::Acosh, Op::Atanh];

const BEFORE_HYPERBOLIC: &[Op] = &[Op::Sinh, Op::Cosh, Op::Tanh, Op::Asinh, Op::Acosh, Op::Atanh, Op::Erf];

const BEFORE_ROOTS: &[Op] = &[Op::LengthSq, Op::Pow, Op::Sqrt, Op::Rsqrt, Op::Exp];

/// A row of what rounds to a whole number.
const fn rounding(op: Op) -> OpFacts {
    OpFacts::of(op)
        .words(words::ROUNDING)
        .frequency(DrawFrequency::OneIn(6))
        .kind(OpKind::Rounding)
        .whole(|_| Some(WholeNumber::ANY))
        .undoes(&[Op::Floor, Op::Ceil, Op::Round, Op::Rint, Op::Trunc, Op::Sign, Op::Step])
        .redundancies(&[Redundancy::WholeOperand])
        .outcome(WatchedOutcome::Leaves)
}

/// A row of what gives one of a few whole numbers by the sign of another.
const fn sign_test(op: Op) -> OpFacts {
    OpFacts::of(op)
        .frequency(DrawFrequency::OneIn(12))
        .kind(OpKind::SignTest)
        .whole(|_| Some(WholeNumber::ANY))
        .outcome(WatchedOutcome::Jumps)
}

/// A row of a power of a constant.
const fn exponential(op: Op) -> OpFacts {
    OpFacts::of(op).words(words::EXPONENTIAL).needs(&[OperandNeed::Moderate]).undoes(BEFORE_EXPONENTIALS)
}

/// A row of a logarithm.
const fn logarithm(op: Op) -> OpFacts {
    OpFacts::of(op).words(words::LOGARITHM).needs(&[OperandNeed::Positive]).undoes(BEFORE_LOGARITHMS)
}

/// A row of the smaller or the larger of two values.
const fn extremum(op: Op) -> OpFacts {
    OpFacts::of(op)
        .kind(OpKind::Extremum)
        .traits(&[OpTrait::Commutes, OpTrait::ByComponent, OpTrait::Limits])
        .whole(|x| x.either(0, 1))
        .redundancies(&[Redundancy::OneOfTwo, Redundancy::TakenBefore])
        .outcome(WatchedOutcome::OneOf(0))
}

/// Holds the rows of sizes, signs, bounds and rounding.
pub(super) static NUMBERS: &[OpFacts] = &[
    OpFacts::of(Op::Abs)
        .noun("the absolute value of {}")
        .words(words::MAGNITUDE)
        .names(&["size", "abs_value"])
        .kind(OpKind::SignTest)
        .traits(&[OpTrait::ByComponent, OpTrait::Even, OpTrait::SignOnly])
        .result(|x| x.first().abs())
        .undoes(&[Op::Abs, Op::Neg, Op::Copysign, Op::Sqrt, Op::Exp, Op::Length, Op::Sign])
        .redundancies(&[Redundancy::NotNegative, Redundancy::LosesMinus, Redundancy::OfSign])
        .outcome(WatchedOutcome::Leaves),
    extremum(Op::Min)
        .noun("the smaller of {} and {}")
        .words(words::MINIMUM)
        .result(|x| x.first().min(x.second()))
        .undoes(&[Op::Min, Op::Clamp]),
    extremum(Op::Max)
        .noun("the larger of {} and {}")
        .words(words::MAXIMUM)
        .result(|x| x.first().max(x.second()))
        .undoes(&[Op::Max, Op::Clamp]),
    OpFacts::of(Op::Clamp)
        .noun("{} limited to the range from {} to {}")
        .words(words::CLAMP)
        .traits(&[OpTrait::ByComponent, OpTrait::Limits, OpTrait::BoundsLast, OpTrait::LevelsOff])
        .result(|x| x.first().max(x.second()).min(x.third()))
        .undoes(&[Op::Clamp])
        .redundancies(&[Redundancy::AlwaysBound, Redundancy::NeverBound])
        .outcome(WatchedOutcome::Bounded),
    OpFacts::of(Op::Fma)
        .noun("{} times {} plus {}")
        .names(&["fused"])
        .warp(WarpSupport::None)
        .kind(OpKind::FusedProduct)
        .traits(&[OpTrait::TakesOneTwice])
        .result(|x| x.first() * x.second() + x.third()),
    rounding(Op::Floor).noun("{} rounded down").result(|x| x.first().rising(f64::floor)),
    rounding(Op::Ceil).noun("{} rounded up").result(|x| x.first().rising(f64::ceil)),
    rounding(Op::Trunc)
        .noun("{} without its fraction")
        .traits(&[OpTrait::KeepsSign])
        .result(|x| x.first().rising(f64::trunc)),
    rounding(Op::Rint).noun("{} rounded with halves to even").result(|x| x.first().rising(f64::round_ties_even)),
    rounding(Op::Round).noun("{} rounded with halves away from zero").result(|x| x.first().rising(f64::round)),
    OpFacts::of(Op::Frac)
        .noun("the fractional part of {}")
        .words(words::REMAINDER)
        .names(&["fraction", "frac_part"])
        .kind(OpKind::Fraction)
        .traits(&[OpTrait::KeepsSign])
        .result(|x| x.first().of_sign(1.0))
        .undoes(&[Op::Frac])
        .redundancies(&[Redundancy::BelowOne, Redundancy::WholeOperand])
        .outcome(WatchedOutcome::Leaves),
    OpFacts::of(Op::Copysign)
        .noun("{} with the sign of {}")
        .names(&["signed"])
        .kind(OpKind::SignCopy)
        .traits(&[OpTrait::SignOnly])
        .result(|x| NumberRange::within(x.first().size()))
        .redundancies(&[
            Redundancy::LosesSign,
            Redundancy::SignOfSign,
            Redundancy::SignThatIsThere,
            Redundancy::OneSign,
        ])
        .outcome(WatchedOutcome::Leaves),
    sign_test(Op::Sign).noun("the sign of {}").result(|x| ranges::sign(x.first())).undoes(&[Op::Sign]),
    sign_test(Op::Step).noun("the indicator of negative {}").result(|x| ranges::step(x.first())),
    sign_test(Op::Nonzero).result(|x| ranges::nonzero(x.first())),
    OpFacts::of(Op::Lerp)
        .noun("the mix of {} and {} in the proportion {}")
        .words(words::BLEND)
        .kind(OpKind::Blend)
        .traits(&[OpTrait::ByComponent])
        .needs(&[OperandNeed::Finite, OperandNeed::Finite, OperandNeed::Fraction])
        .result(|x| x.blend())
        .redundancies(&[Redundancy::BlendWithZero]),
    OpFacts::of(Op::Smoothstep)
        .noun("the smooth step of {2} from {0} to {1}")
        .words(words::SATURATION)
        .traits(&[OpTrait::BoundsFirst])
        .result(|x| x.smooth_step())
        .outcome(WatchedOutcome::Jumps),
    OpFacts::of(Op::Degrees)
        .noun("{} in degrees")
        .frequency(DrawFrequency::OneIn(3))
        .kind(OpKind::ToDegrees)
        .result(|x| x.first().rising(f64::to_degrees))
        .undoes(&[Op::Degrees, Op::Radians]),
    OpFacts::of(Op::Radians)
        .noun("{} in radians")
        .frequency(DrawFrequency::OneIn(3))
        .kind(OpKind::ToRadians)
        .result(|x| x.first().rising(f64::to_radians))
        .undoes(&[Op::Degrees, Op::Radians]),
    OpFacts::of(Op::IsNan).frequency(DrawFrequency::Never),
    OpFacts::of(Op::IsInf).frequency(DrawFrequency::Never),
    OpFacts::of(Op::IsFinite).frequency(DrawFrequency::Never),
];

/// Holds the rows of elementary and special functions.
pub(super) static FUNCTIONS: &[OpFacts] = &[
    OpFacts::of(Op::Sqrt)
        .noun("the square root of {}")
        .words(words::ROOT)
        .kind(OpKind::SquareRoot)
        // At zero the slope of a root is infinite.
        .needs(&[OperandNeed::Positive])
        .result(|x| x.first().rising(f64::sqrt))
        .undoes(BEFORE_ROOTS),
    OpFacts::of(Op::Rsqrt)
        .noun("one over the square root of {}")
        .names(&["inv_root"])
        .warp(WarpSupport::None)
        .needs(&[OperandNeed::Positive])
        .result(|x| x.inverse_root())
        .undoes(BEFORE_ROOTS),
    OpFacts::of(Op::Cbrt)
        .noun("the cube root of {}")
        .words(words::ROOT)
        .traits(&[OpTrait::KeepsSign])
        .result(|x| x.first().rising_about(f64::cbrt)),
    OpFacts::of(Op::Hypot)
        .noun("the hypotenuse with legs {} and {}")
        .words(words::MAGNITUDE)
        .names(&["hypotenuse"])
        .warp(WarpSupport::None)
        .traits(&[OpTrait::Even])
        .result(|x| x.hypot()),
    OpFacts::of(Op::Pow)
        .noun("{} to the power of {}")
        .words(words::POWER)
        .kind(OpKind::Power)
        .needs(&[OperandNeed::Positive, OperandNeed::Moderate])
        .result(|x| x.power()),
    exponential(Op::Exp).noun("the exponential of {}").result(|x| x.first().rising_about(f64::exp)),
    exponential(Op::Exp2)
        .noun("two to the power of {}")
        .warp(WarpSupport::None)
        .result(|x| x.first().rising_about(f64::exp2)),
    exponential(Op::Expm1)
        .noun("the exponential of {} less one")
        .names(&[])
        .warp(WarpSupport::None)
        .traits(&[OpTrait::KeepsSign])
        .result(|x| x.first().rising_about(f64::exp_m1)),
    logarithm(Op::Log).noun("the natural logarithm of {}").result(|x| x.first().rising_about(f64::ln)),
    logarithm(Op::Log2).noun("the binary logarithm of {}").result(|x| x.first().rising_about(f64::log2)),
    logarithm(Op::Log10).noun("the decimal logarithm of {}").result(|x| x.first().rising_about(f64::log10)),
    logarithm(Op::Log1p)
        .noun("the logarithm of one plus {}")
        .warp(WarpSupport::None)
        .needs(&[OperandNeed::NotNegative])
        .domain(NumberRange::new(-1.0, f64::INFINITY))
        .result(|x| x.first().rising_about(f64::ln_1p)),
    OpFacts::of(Op::Sin)
        .noun("the sine of {}")
        .words(words::WAVE)
        .traits(&[OpTrait::LevelsOff, OpTrait::Cycles])
        .result(|x| x.sine())
        .undoes(TRIGONOMETRIC),
    OpFacts::of(Op::Cos)
        .noun("the cosine of {}")
        .words(words::WAVE)
        .kind(OpKind::EvenFunction)
        .traits(&[OpTrait::Even, OpTrait::LevelsOff, OpTrait::Cycles])
        .result(|x| x.cosine())
        .undoes(TRIGONOMETRIC),
    OpFacts::of(Op::Tan)
        .noun("the tangent of {}")
        .needs(&[OperandNeed::InsideUnit])
        .result(|x| x.tangent())
        .undoes(TRIGONOMETRIC),
    OpFacts::of(Op::ReduceAngle),
    OpFacts::of(Op::Asin)
        .noun("the inverse sine of {}")
        .names(words::ANGLE)
        .traits(&[OpTrait::KeepsSign, OpTrait::GivesAngle])
        .needs(&[OperandNeed::InsideUnit])
        .result(|x| x.first().rising_about(f64::asin))
        .undoes(TRIGONOMETRIC),
    OpFacts::of(Op::Acos)
        .noun("the inverse cosine of {}")
        .names(words::ANGLE)
        .traits(&[OpTrait::GivesAngle])
        .needs(&[OperandNeed::InsideUnit])
        .result(|x| (-x.first()).rising_about(|x| f64::acos(-x)))
        .undoes(TRIGONOMETRIC),
    OpFacts::of(Op::Atan)
        .noun("the inverse tangent of {}")
        .words(words::SATURATION)
        .names(words::ANGLE)
        .traits(&[OpTrait::KeepsSign, OpTrait::LevelsOff, OpTrait::GivesAngle])
        .result(|x| x.first().rising_about(f64::atan))
        .undoes(TRIGONOMETRIC),
    OpFacts::of(Op::Atan2)
        .noun("the four-quadrant inverse tangent of {} over {}")
        .names(words::ANGLE)
        .traits(&[OpTrait::GivesAngle])
        .result(|_| NumberRange::within(std::f64::consts::PI))
        .redundancies(&[Redundancy::SameOperands]),
    OpFacts::of(Op::Sinh)
        .noun("the hyperbolic sine of {}")
        .names(&["hyper", "hyperbolic"])
        .traits(&[OpTrait::KeepsSign])
        .needs(&[OperandNeed::Moderate])
        .result(|x| x.first().rising_about(f64::sinh))
        .undoes(BEFORE_HYPERBOLIC),
    OpFacts::of(Op::Cosh)
        .noun("the hyperbolic cosine of {}")
        .names(&["hyper", "hyperbolic"])
        .kind(OpKind::EvenFunction)
        .traits(&[OpTrait::Even])
        .needs(&[OperandNeed::Moderate])
        .result(|x| x.first().abs().rising_about(f64::cosh))
        .undoes(BEFORE_HYPERBOLIC),
    OpFacts::of(Op::Tanh)
        .noun("the hyperbolic tangent of {}")
        .words(words::SATURATION)
        .traits(&[OpTrait::KeepsSign, OpTrait::LevelsOff])
        .needs(&[OperandNeed::Small])
        .result(|x| x.first().rising_about(f64::tanh).and(NumberRange::within(1.0)))
        .undoes(BEFORE_HYPERBOLIC),
    OpFacts::of(Op::Asinh)
        .noun("the inverse hyperbolic sine of {}")
        .names(&["inv_hyper"])
        .warp(WarpSupport::None)
        .traits(&[OpTrait::KeepsSign])
        .result(|x| x.first().rising_about(f64::asinh))
        .undoes(HYPERBOLIC),
    OpFacts::of(Op::Acosh)
        .noun("the inverse hyperbolic cosine of {}")
        .names(&["inv_hyper"])
        .warp(WarpSupport::None)
        .needs(&[OperandNeed::AtLeastOne])
        .result(|x| x.first().rising_about(f64::acosh))
        .undoes(HYPERBOLIC),
    OpFacts::of(Op::Atanh)
        .noun("the inverse hyperbolic tangent of {}")
        .names(&["inv_hyper"])
        .warp(WarpSupport::None)
        .traits(&[OpTrait::KeepsSign])
        .needs(&[OperandNeed::InsideUnit])
        .result(|x| x.first().rising_about(f64::atanh))
        .undoes(HYPERBOLIC),
    OpFacts::of(Op::Erf)
        .noun("the error function of {}")
        .words(words::SATURATION)
        .traits(&[OpTrait::KeepsSign])
        .needs(&[OperandNeed::Small])
        .result(|x| x.first().of_sign(1.0))
        .undoes(&[Op::Erfinv, Op::Tanh, Op::Erf]),
    OpFacts::of(Op::Erfc)
        .noun("the complementary error function of {}")
        .frequency(DrawFrequency::OneIn(3))
        .needs(&[OperandNeed::Small])
        .result(|x| x.erfc())
        .undoes(&[Op::Erfcinv, Op::Erf, Op::Erfc]),
    OpFacts::of(Op::Erfinv)
        .frequency(DrawFrequency::OneIn(3))
        .traits(&[OpTrait::KeepsSign])
        .needs(&[OperandNeed::InsideUnit])
        .result(|x| x.inverse_error(NumberRange::within(0.95)))
        .undoes(&[Op::Erf]),
    OpFacts::of(Op::Erfcinv)
        .frequency(DrawFrequency::OneIn(3))
        .needs(&[OperandNeed::InsideTwo])
        .result(|x| x.inverse_error(NumberRange::new(0.05, 1.95)))
        .undoes(&[Op::Erfc]),
];
