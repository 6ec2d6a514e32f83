//! Where builtins are defined, and what they give.
//!
//! A builtin that is not named here is taken for defined on all moderate numbers; running the kernel tells.

use super::range::NumberRange;
use polyloom::{Composite, Op, Scalar, Type};
use smallvec::SmallVec;
use std::f64::consts::{FRAC_PI_2, PI};

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
    pub(super) fn is_met_by(self, range: NumberRange) -> bool {
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
}

/// Returns what an op needs of an operand.
pub(crate) fn need(op: Op, operand: usize) -> OperandNeed {
    match (op, operand) {
        (Op::Div | Op::FloorDiv | Op::Mod | Op::CwDiv, 1) => OperandNeed::NotZero,
        // At zero the slope of a root is infinite.
        (Op::Log | Op::Log2 | Op::Log10 | Op::Sqrt | Op::Rsqrt, _) | (Op::Pow, 0) => OperandNeed::Positive,
        (Op::Log1p, _) => OperandNeed::NotNegative,
        (Op::Acosh, _) => OperandNeed::AtLeastOne,
        (Op::Asin | Op::Acos | Op::Atanh | Op::Erfinv | Op::Tan, _) => OperandNeed::InsideUnit,
        (Op::Erfcinv, _) => OperandNeed::InsideTwo,
        (Op::Lerp | Op::QuatSlerp, 2) => OperandNeed::Fraction,
        (Op::Exp | Op::Exp2 | Op::Expm1 | Op::Sinh | Op::Cosh, _) | (Op::Pow, 1) => OperandNeed::Moderate,
        (Op::Erf | Op::Erfc | Op::Tanh, _) => OperandNeed::Small,
        (Op::Lshift | Op::Rshift, 1) => OperandNeed::Shift,
        // Languages disagree on shifts of negative numbers.
        (Op::Lshift | Op::Rshift, 0) => OperandNeed::NotNegative,
        (Op::Normalize | Op::QuatInverse, _) => OperandNeed::NotZero,
        (Op::Inverse, _) => OperandNeed::NotZero,
        _ => OperandNeed::Finite,
    }
}

/// The numbers an operation gives for operands of these ranges and types, where it is defined.
pub(crate) fn result(op: Op, operands: &[NumberRange], ty: Type, types: &[Type]) -> NumberRange {
    let within: SmallVec<[NumberRange; 4]> =
        operands.iter().enumerate().map(|(index, &range)| inside(op, index, range)).collect();
    let is_int = elem(ty).is_some_and(Scalar::is_int);
    let first = within.first().copied().unwrap_or(NumberRange::ANY);
    let second = || within.get(1).copied().unwrap_or(first);
    let sized = |factor: f64| NumberRange::new(first.abs().low * factor, first.size() * factor);
    let count = n_components(types) as f64;
    let length = || sized(count.sqrt());
    let delta = || within.get(1).copied().unwrap_or(NumberRange::of(1.0));
    let range = match op {
        Op::Mul => product(first, second(), types),
        Op::Clamp if within.len() == 3 => first.max(second()).min(within[2]),
        Op::NormHuber if delta().low >= 0.0 => {
            let loss = |x: f64, delta: f64| if x <= delta { 0.5 * x * x } else { delta * (x - 0.5 * delta) };
            NumberRange::new(loss(length().low, delta().low), loss(length().high, delta().high))
        }
        Op::NormPseudoHuber if delta().low > 0.0 => {
            NumberRange::new(length().low.hypot(delta().low), length().high.hypot(delta().high)).rising_about(|x| x)
        }
        Op::NormHuber | Op::NormPseudoHuber => NumberRange::ANY,
        // Near its ends it has no bound.
        Op::Erfinv if first.size() > 0.95 => NumberRange::ANY,
        Op::Erfcinv if !first.lies_in(NumberRange::new(0.05, 1.95)) => NumberRange::ANY,
        // A quaternion that is not of unit length makes longer what it turns.
        Op::QuatRotate | Op::QuatRotateInv | Op::QuatSlerp | Op::QuatToMatrix | Op::QuatFromMatrix => NumberRange::ANY,
        Op::QuatFromAxisAngle => NumberRange::within(first.size().max(1.0)),
        Op::Exp | Op::Exp2 if first == NumberRange::ANY => NumberRange::new(0.0, f64::INFINITY),
        Op::Tan if operands[0].size() <= 1.5 => operands[0].rising_about(f64::tan),
        Op::Rsqrt if first.low > 0.0 => NumberRange::new(first.high.sqrt().recip(), first.low.sqrt().recip()),
        Op::Rsqrt => NumberRange::new(0.0, f64::INFINITY),
        Op::Cos if first.size() <= PI => (-first.abs()).rising_about(f64::cos).and(NumberRange::within(1.0)),
        Op::Sign => {
            NumberRange::new(if first.low >= 0.0 { 1.0 } else { -1.0 }, if first.high < 0.0 { -1.0 } else { 1.0 })
        }
        // It is 1 below zero.
        Op::Step => NumberRange::new(f64::from(first.high < 0.0), f64::from(first.low < 0.0)),
        Op::Nonzero => NumberRange::new(f64::from(first.low > 0.0 || first.high < 0.0), 1.0),
        Op::Trunc => first.rising(f64::trunc),
        Op::Rint => first.rising(f64::round_ties_even),
        Op::Round => first.rising(f64::round),
        Op::Pow if operands[0].low > 0.0 && first.size().is_finite() && second().size().is_finite() => {
            let of = |base: f64| NumberRange::of(base.powf(second().low)).or(NumberRange::of(base.powf(second().high)));
            of(first.low).or(of(first.high)).rising_about(|x| x)
        }
        Op::Pow if operands[0].low < 0.0 => NumberRange::ANY,
        Op::Pow => NumberRange::new(0.0, f64::INFINITY),
        Op::Mod | Op::Div | Op::FloorDiv if is_int && !second().avoids_zero(1.0) => NumberRange::ANY,
        Op::Mod => {
            let most = second().size() - f64::from(u8::from(is_int));
            NumberRange::new(first.low.min(0.0).max(-most), first.high.max(0.0).min(most))
        }
        Op::Div if is_int => (first / second()).rising(f64::trunc),
        Op::Smoothstep if operands[0].low == operands[0].high && operands[0].high < operands[1].low => {
            let (from, to) = (operands[0].low, operands[1].low);
            let at = |x: f64| ((x - from) / (to - from)).clamp(0.0, 1.0);
            let step = operands[2].rising(|x| at(x) * at(x) * (3.0 - 2.0 * at(x)));
            if operands[1].low == operands[1].high { step } else { NumberRange::new(0.0, step.high) }
        }
        Op::Lerp if !within[2].lies_in(NumberRange::new(0.0, 1.0)) => first + (second() - first) * within[2],
        Op::Length => length(),
        Op::LengthSq => first.squared() * NumberRange::of(count),
        Op::NormL1 => sized(count),
        Op::Dot | Op::Ddot | Op::SpatialDot => first * second() * NumberRange::of(count),
        Op::Hypot => NumberRange::new(first.abs().low.max(second().abs().low), first.size() + second().size()),
        Op::Lshift | Op::Rshift if !second().lies_in(NumberRange::new(0.0, 31.0)) => NumberRange::ANY,
        Op::Lshift => first * second().rising(f64::exp2),
        Op::Rshift if first.low >= 0.0 => {
            let shifted = |x: f64, by: f64| (x / by.exp2()).floor();
            NumberRange::new(shifted(first.low, second().high), shifted(first.high, second().low))
        }
        Op::Add => first + second(),
        Op::Sub => first - second(),
        Op::CwMul => first * second(),
        Op::Div | Op::CwDiv => first / second(),
        Op::FloorDiv => (first / second()).rising(f64::floor),
        Op::Neg => -first,
        Op::Abs => first.abs(),
        Op::Min => first.min(second()),
        Op::Max => first.max(second()),
        Op::Frac => first.of_sign(1.0),
        Op::Floor => first.rising(f64::floor),
        Op::Ceil => first.rising(f64::ceil),
        Op::Copysign => NumberRange::within(first.size()),
        Op::Lerp => first.or(second()),
        Op::Smoothstep => NumberRange::new(0.0, 1.0),
        Op::Select => second().or(within.get(2).copied().unwrap_or(second())),
        Op::Degrees => first.rising(f64::to_degrees),
        Op::Radians => first.rising(f64::to_radians),
        // Sines of small numbers do not fall, and have their signs.
        Op::Sin if first.size() <= 1.5 => first.rising_about(f64::sin).and(NumberRange::within(1.0)),
        Op::Tanh => first.rising_about(f64::tanh).and(NumberRange::within(1.0)),
        Op::Erf => first.of_sign(1.0),
        Op::Sin | Op::Cos => NumberRange::within(1.0),
        Op::Erfc if first.low >= 0.0 => NumberRange::new(0.0, 1.0),
        Op::Erfc if first.high <= 0.0 => NumberRange::new(1.0, 2.0),
        Op::Erfc => NumberRange::new(0.0, 2.0),
        Op::Asin if first.size() <= 1.0 => first.rising_about(f64::asin),
        Op::Asin => NumberRange::within(FRAC_PI_2),
        Op::Acos if first.size() <= 1.0 => (-first).rising_about(|x| f64::acos(-x)),
        Op::Acos => NumberRange::new(0.0, PI),
        Op::Atan => first.rising_about(f64::atan),
        Op::Atan2 => NumberRange::within(PI),
        Op::Sinh => first.rising_about(f64::sinh),
        Op::Cosh => first.abs().rising_about(f64::cosh),
        Op::Asinh => first.rising_about(f64::asinh),
        Op::Acosh => first.rising_about(f64::acosh),
        Op::Atanh => first.rising_about(f64::atanh),
        Op::Exp => first.rising_about(f64::exp),
        Op::Exp2 => first.rising_about(f64::exp2),
        Op::Expm1 => first.rising_about(f64::exp_m1),
        Op::Log => first.rising_about(f64::ln),
        Op::Log2 => first.rising_about(f64::log2),
        Op::Log10 => first.rising_about(f64::log10),
        Op::Log1p => first.rising_about(f64::ln_1p),
        Op::Sqrt => first.rising(f64::sqrt),
        Op::Cbrt => first.rising_about(f64::cbrt),
        Op::Fma => first * second() + within.get(2).copied().unwrap_or(NumberRange::ANY),
        Op::Erfinv | Op::Erfcinv => NumberRange::within(2.0),
        Op::Cross => NumberRange::within(2.0 * first.size() * second().size()),
        Op::Normalize | Op::SmoothNormalize => NumberRange::within(1.0),
        Op::Outer => first * second(),
        Op::Transpose | Op::Diag | Op::GetDiag | Op::Skew => first.or(-first).or(NumberRange::of(0.0)),
        Op::Trace => NumberRange::within(count.sqrt() * first.size()),
        Op::QuatRpy | Op::QuatFromEuler => NumberRange::within(1.0),
        Op::BitCount => NumberRange::new(0.0, 64.0),
        Op::Argmin | Op::Argmax => NumberRange::new(0.0, count - 1.0),
        Op::BitAnd if first.low >= 0.0 && second().low >= 0.0 => NumberRange::new(0.0, first.high.min(second().high)),
        Op::BitOr | Op::BitXor if first.low >= 0.0 && second().low >= 0.0 => {
            NumberRange::new(0.0, 2.0 * first.high.max(second().high) + 1.0)
        }
        Op::Invert => -first - NumberRange::of(1.0),
        _ => NumberRange::ANY,
    };
    if range.low.is_nan() || range.high.is_nan() { NumberRange::ANY } else { range }
}

/// The same as the generator takes it: quaternions are turns, and so are the matrices that become some.
pub(super) fn expected(op: Op, operands: &[NumberRange], ty: Type, types: &[Type]) -> NumberRange {
    let moves = matches!(ty.as_composite(), Some(Composite::Transform { .. }));
    match op {
        Op::QuatRotate | Op::QuatRotateInv => NumberRange::within(2.0 * operands[1].size()),
        Op::QuatSlerp | Op::QuatFromMatrix | Op::QuatToMatrix => NumberRange::within(1.0),
        Op::Mul if moves => (operands[0] * operands[1] * NumberRange::of(7.0_f64.sqrt())).or(NumberRange::of(0.0)),
        _ => result(op, operands, ty, types),
    }
}

/// The product of numbers, vectors, matrices or quaternions.
fn product(first: NumberRange, second: NumberRange, types: &[Type]) -> NumberRange {
    let composite = |index: usize| types.get(index).and_then(|ty| ty.as_composite());
    match (composite(0), composite(1)) {
        (None, _) | (_, None) => first * second,
        (Some(Composite::Quaternion { .. }), Some(Composite::Quaternion { .. })) => {
            NumberRange::within(4.0 * first.size() * second.size())
        }
        (Some(left @ (Composite::Vector { .. } | Composite::Matrix { .. })), Some(Composite::Matrix { .. }))
        | (Some(left @ Composite::Matrix { .. }), Some(Composite::Vector { .. })) => {
            let n_inner = left.shape().last().copied().map_or(1.0, f64::from);
            first * second * NumberRange::of(n_inner)
        }
        _ => NumberRange::ANY,
    }
}

/// The part of a range where a function is defined.
fn inside(op: Op, index: usize, range: NumberRange) -> NumberRange {
    let (low, high) = match need(op, index) {
        _ if matches!(op, Op::Lshift | Op::Rshift) => return range,
        _ if op == Op::Log1p => (-1.0, f64::INFINITY),
        OperandNeed::Positive | OperandNeed::NotNegative => (0.0, f64::INFINITY),
        OperandNeed::AtLeastOne => (1.0, f64::INFINITY),
        OperandNeed::Unit | OperandNeed::InsideUnit => (-1.0, 1.0),
        OperandNeed::InsideTwo => (0.0, 2.0),
        _ => return range,
    };
    range.and(NumberRange::new(low, high))
}

/// The range, unless numbers of the type wrap around in it. Of integers it loses fractions.
pub(crate) fn within_type(range: NumberRange, ty: Type) -> NumberRange {
    let all = match elem(ty) {
        Some(Scalar::Bool) => NumberRange::new(0.0, 1.0),
        Some(elem) if elem.is_int() => numbers_of(elem),
        _ => return range,
    };
    let range = range.rising(f64::trunc);
    if range.lies_in(all) { range } else { all }
}

pub(crate) fn n_components(types: &[Type]) -> usize {
    types.first().and_then(|ty| ty.as_composite()).map_or(1, Composite::n_components)
}

/// The numbers that an integer type has.
pub(crate) fn numbers_of(elem: Scalar) -> NumberRange {
    let bits = f64::from(elem.bits());
    match elem.is_unsigned_int() {
        true => NumberRange::new(0.0, bits.exp2() - 1.0),
        false => NumberRange::new(-(bits - 1.0).exp2(), (bits - 1.0).exp2() - 1.0),
    }
}

/// The type of numbers that it is or consists of.
pub(crate) fn elem(ty: Type) -> Option<Scalar> {
    ty.as_composite().map(|composite| composite.elem()).or(ty.as_scalar())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an index or a divisor, one plus such a part would be zero.
    #[test]
    fn fractional_parts_have_the_sign_of_the_number() {
        assert_eq!(result(Op::Frac, &[NumberRange::within(3.0)], Type::F32, &[Type::F32]), NumberRange::within(1.0));
        assert_eq!(
            result(Op::Frac, &[NumberRange::new(0.0, 3.0)], Type::F32, &[Type::F32]),
            NumberRange::new(0.0, 1.0)
        );
    }
}
