//! Where builtins are defined, and what they give.
//!
//! A builtin that is not named here is taken for defined on all moderate numbers; running the kernel tells.

use super::range::Range;
use polyloom::Op;
use std::f64::consts::{FRAC_PI_2, PI};

/// What a builtin needs of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Not to be so large that arithmetic overflows.
    Finite,
    /// A size of 8 at most.
    Moderate,
    /// A size of 3 at most: of larger numbers the function has one value.
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

impl Need {
    /// Whether these numbers are what is needed.
    pub(super) fn is_met_by(self, range: Range) -> bool {
        range.lies_in(match self {
            Need::Finite => Range::within(1e5),
            Need::Moderate => Range::within(8.0),
            Need::Small => Range::within(3.0),
            Need::Positive => Range::new(0.05, 1e5),
            Need::NotNegative => Range::new(0.0, 1e5),
            Need::AtLeastOne => Range::new(1.0, 1e5),
            Need::Unit => Range::within(1.0),
            Need::InsideUnit => Range::within(0.95),
            Need::Fraction => Range::new(0.0, 1.0),
            Need::InsideTwo => Range::new(0.05, 1.95),
            Need::NotZero => return range.avoids_zero(0.05) && range.size() <= 1e5,
            Need::Shift => Range::new(0.0, 7.0),
        })
    }
}

/// What an op needs of an operand.
pub(crate) fn need(op: Op, operand: usize) -> Need {
    match (op, operand) {
        (Op::Div | Op::FloorDiv | Op::Mod | Op::CwDiv, 1) => Need::NotZero,
        // At zero the slope of a root is infinite.
        (Op::Log | Op::Log2 | Op::Log10 | Op::Sqrt | Op::Rsqrt, _) | (Op::Pow, 0) => Need::Positive,
        (Op::Log1p, _) => Need::NotNegative,
        (Op::Acosh, _) => Need::AtLeastOne,
        (Op::Asin | Op::Acos | Op::Atanh | Op::Erfinv | Op::Tan, _) => Need::InsideUnit,
        (Op::Erfcinv, _) => Need::InsideTwo,
        (Op::Lerp | Op::QuatSlerp, 2) => Need::Fraction,
        (Op::Exp | Op::Exp2 | Op::Expm1 | Op::Sinh | Op::Cosh, _) | (Op::Pow, 1) => Need::Moderate,
        (Op::Erf | Op::Erfc | Op::Tanh, _) => Need::Small,
        (Op::Lshift | Op::Rshift, 1) => Need::Shift,
        // Languages disagree on shifts of negative numbers.
        (Op::Lshift | Op::Rshift, 0) => Need::NotNegative,
        (Op::Normalize | Op::QuatInverse, _) => Need::NotZero,
        (Op::Inverse, _) => Need::NotZero,
        _ => Need::Finite,
    }
}

/// The numbers an op gives for operands of these ranges; `n` is how many components the first has.
pub(crate) fn result(op: Op, operands: &[Range], n: usize) -> Range {
    let first = operands.first().copied().unwrap_or(Range::ANY);
    let second = operands.get(1).copied().unwrap_or(first);
    let n = n as f64;
    match op {
        Op::Add => first + second,
        Op::Sub => first - second,
        // Of matrices sums of products.
        Op::Mul if n > 1.0 => (first * second * Range::of(n.sqrt())).or(Range::of(0.0)),
        Op::Mul | Op::CwMul => first * second,
        Op::Div | Op::CwDiv => first / second,
        Op::FloorDiv => (first / second).rising(f64::floor),
        Op::Mod if first.low >= 0.0 && second.low >= 0.0 => Range::new(0.0, second.high.min(first.high)),
        Op::Mod => Range::within(second.size()),
        Op::Neg => -first,
        Op::Abs => first.abs(),
        Op::Min => first.min(second),
        Op::Max => first.max(second),
        Op::Sign => Range::within(1.0),
        Op::Step | Op::Nonzero => Range::new(0.0, 1.0),
        Op::Frac => first.of_sign(1.0),
        Op::Floor => first.rising(f64::floor),
        Op::Ceil => first.rising(f64::ceil),
        Op::Trunc | Op::Rint | Op::Round => Range::new(first.low.floor(), first.high.ceil()),
        Op::Copysign => Range::within(first.size()),
        Op::Clamp => operands.get(2).map_or(first, |high| Range::new(second.low, high.high)),
        Op::Lerp => first.or(second),
        Op::Smoothstep => Range::new(0.0, 1.0),
        Op::Select => second.or(operands.get(2).copied().unwrap_or(second)),
        Op::Degrees => first.rising(f64::to_degrees),
        Op::Radians => first.rising(f64::to_radians),
        // Sines of small numbers do not fall, and have their signs.
        Op::Sin if first.size() <= 1.5 => first.rising_about(f64::sin).and(Range::within(1.0)),
        Op::Cos if first.size() <= 1.5 => Range::new(0.0, 1.0),
        Op::Tanh => first.rising_about(f64::tanh).and(Range::within(1.0)),
        Op::Erf => first.of_sign(1.0),
        Op::Sin | Op::Cos => Range::within(1.0),
        Op::Erfc if first.low >= 0.0 => Range::new(0.0, 1.0),
        Op::Erfc if first.high <= 0.0 => Range::new(1.0, 2.0),
        Op::Erfc => Range::new(0.0, 2.0),
        Op::Tan => first.rising_about(f64::tan),
        Op::Asin if first.size() <= 1.0 => first.rising_about(f64::asin),
        Op::Asin => Range::within(FRAC_PI_2),
        Op::Acos if first.size() <= 1.0 => (-first).rising_about(|x| f64::acos(-x)),
        Op::Acos => Range::new(0.0, PI),
        Op::Atan => first.rising_about(f64::atan),
        Op::Atan2 => Range::within(PI),
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
        Op::Rsqrt => Range::new(first.high.sqrt().recip(), first.low.sqrt().recip()),
        Op::Cbrt => first.rising_about(f64::cbrt),
        Op::Hypot => Range::new(0.0, first.size() + second.size()),
        Op::Pow => {
            let powers = [first.low, first.high].map(|x| [x.powf(second.low), x.powf(second.high)]);
            let powers = powers.as_flattened();
            Range::new(0.0, powers.iter().copied().fold(0.0, f64::max)).rising_about(|x| x)
        }
        Op::Fma => first * second + operands.get(2).copied().unwrap_or(Range::ANY),
        Op::Erfinv | Op::Erfcinv => Range::within(2.0),
        Op::Dot | Op::Ddot | Op::SpatialDot => Range::within(n * first.size() * second.size()),
        Op::Cross => Range::within(2.0 * first.size() * second.size()),
        Op::LengthSq => Range::new(0.0, n * first.size().powi(2)),
        Op::Length => Range::new(0.0, n.sqrt() * first.size()),
        Op::NormL1 | Op::NormHuber | Op::NormPseudoHuber => Range::new(0.0, n * first.size()),
        Op::Normalize | Op::SmoothNormalize => Range::within(1.0),
        Op::Outer => first * second,
        Op::Transpose | Op::Diag | Op::GetDiag | Op::Skew => first.or(-first).or(Range::of(0.0)),
        Op::Trace => Range::within(n.sqrt() * first.size()),
        Op::QuatRotate | Op::QuatRotateInv => Range::within(2.0 * second.size()),
        Op::QuatFromAxisAngle | Op::QuatRpy | Op::QuatSlerp | Op::QuatFromMatrix | Op::QuatToMatrix => {
            Range::within(1.0)
        }
        Op::BitCount => Range::new(0.0, 64.0),
        Op::Argmin | Op::Argmax => Range::new(0.0, n - 1.0),
        Op::BitAnd if first.low >= 0.0 && second.low >= 0.0 => Range::new(0.0, first.high.min(second.high)),
        Op::BitOr | Op::BitXor if first.low >= 0.0 && second.low >= 0.0 => {
            Range::new(0.0, 2.0 * first.high.max(second.high) + 1.0)
        }
        Op::Lshift => first * Range::new(1.0, second.high.exp2()),
        Op::Rshift if first.low >= 0.0 => Range::new(0.0, first.high),
        Op::Invert => -first - Range::of(1.0),
        _ => Range::ANY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an index or a divisor, one plus such a part would be zero.
    #[test]
    fn fractional_parts_have_the_sign_of_the_number() {
        assert_eq!(result(Op::Frac, &[Range::within(3.0)], 1), Range::within(1.0));
        assert_eq!(result(Op::Frac, &[Range::new(0.0, 3.0)], 1), Range::new(0.0, 1.0));
    }
}
