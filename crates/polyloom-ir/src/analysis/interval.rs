//! Intervals of integers and how the ops of the table act on them.
//!
//! Every function is an over-approximation of the op's definition in [`crate::eval`]: the result interval holds
//! every result that operands in the operand intervals can give, wrapping included.

use crate::op::Op;
use crate::types::Scalar;

/// All integers from `low` to `high`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The least value.
    pub low: i128,
    /// The greatest value.
    pub high: i128,
}

impl Interval {
    /// From `low` to `high`.
    pub const fn new(low: i128, high: i128) -> Interval {
        Interval { low, high }
    }

    /// Everything a type holds; of no use for floats.
    pub fn full(scalar: Scalar) -> Interval {
        let bits = scalar.bits();
        if scalar.is_signed_int() {
            Interval::new(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            Interval::new(0, (1 << bits) - 1)
        }
    }

    /// The one value.
    pub const fn one(value: i128) -> Interval {
        Interval::new(value, value)
    }

    /// The one value it holds, if it is one.
    pub fn single(self) -> Option<i128> {
        (self.low == self.high).then_some(self.low)
    }

    /// Returns true if every value of `other` is in it.
    pub fn contains(self, other: Interval) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// The smallest interval around both.
    #[must_use]
    pub fn union(self, other: Interval) -> Interval {
        Interval::new(self.low.min(other.low), self.high.max(other.high))
    }

    /// Returns what both hold; `None` if nothing.
    pub fn intersection(self, other: Interval) -> Option<Interval> {
        let both = Interval::new(self.low.max(other.low), self.high.min(other.high));
        (both.low <= both.high).then_some(both)
    }

    /// All sums, before they wrap.
    #[must_use]
    pub fn plus(self, other: Interval) -> Interval {
        Interval::new(self.low + other.low, self.high + other.high)
    }

    /// All differences, before they wrap.
    #[must_use]
    pub fn minus(self, other: Interval) -> Interval {
        Interval::new(self.low - other.high, self.high - other.low)
    }

    /// All products, before they wrap: bounds of 64-bit values have products of at most 128 bits, and unsigned ones,
    /// which may pass that, saturate.
    #[must_use]
    pub fn times(self, other: Interval) -> Interval {
        Interval::corners(self, other, i128::saturating_mul)
    }

    /// All negatives, before they wrap.
    #[must_use]
    pub fn negated(self) -> Interval {
        Interval::new(-self.high, -self.low)
    }

    /// The greatest magnitude in it.
    fn magnitude(self) -> i128 {
        self.low.abs().max(self.high.abs())
    }

    /// The interval widened to hold zero.
    fn with_zero(self) -> Interval {
        self.union(Interval::new(0, 0))
    }

    /// The interval around a function that is monotonic in each argument, from its values at the corners.
    fn corners(a: Interval, b: Interval, f: impl Fn(i128, i128) -> i128) -> Interval {
        let values = [f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)];
        values.into_iter().fold(Interval::one(values[0]), |all, v| all.union(Interval::one(v)))
    }
}

/// Returns what a unary op gives. `from` and `to` are the types of operand and result.
pub fn unary(op: Op, x: Interval, from: Scalar, to: Scalar) -> Interval {
    let full = Interval::full(to);
    let exact = match op {
        Op::Neg => x.negated(),
        Op::Invert if to.is_signed_int() => Interval::new(-1 - x.high, -1 - x.low),
        Op::Abs if x.low >= 0 => x,
        Op::Abs => Interval::new(if x.high < 0 { -x.high } else { 0 }, x.magnitude()),
        Op::Not => Interval::new(1 - x.high, 1 - x.low),
        Op::Cast if to == Scalar::Bool => match (x.low, x.high) {
            _ if from.is_float() => full,
            (0, 0) => x,
            (low, high) if low > 0 || high < 0 => Interval::new(1, 1),
            _ => full,
        },
        Op::Cast | Op::Bitcast if !from.is_float() => x,
        _ => full,
    };
    if full.contains(exact) { exact } else { full }
}

/// Returns what a binary op of integers or `bool`s gives. `ty` is the operands' type.
pub fn binary(op: Op, a: Interval, b: Interval, ty: Scalar) -> Interval {
    let full = Interval::full(ty);
    let decided = |always: bool, never: bool| Interval::new(i128::from(always), i128::from(!never));
    let exact = match op {
        Op::Eq => {
            return decided(a.single().is_some() && a == b, a.intersection(b).is_none());
        }
        Op::Ne => {
            return decided(a.intersection(b).is_none(), a.single().is_some() && a == b);
        }
        Op::Lt => return decided(a.high < b.low, a.low >= b.high),
        Op::Le => return decided(a.high <= b.low, a.low > b.high),
        Op::Gt => return decided(a.low > b.high, a.high <= b.low),
        Op::Ge => return decided(a.low >= b.high, a.high < b.low),
        Op::Add => a.plus(b),
        Op::Sub => a.minus(b),
        Op::Mul => a.times(b),
        Op::Div | Op::FloorDiv => match b.single() {
            Some(0) => Interval::new(0, 0),
            Some(c) if op == Op::Div => Interval::corners(a, b, |x, _| x / c),
            Some(c) if c > 0 => Interval::new(a.low.div_euclid(c), a.high.div_euclid(c)),
            _ if a.low >= 0 && b.low > 0 => Interval::new(a.low / b.high, a.high / b.low),
            _ if b.low >= 0 => a.with_zero(),
            _ => Interval::new(-a.magnitude(), a.magnitude()),
        },
        Op::Mod => {
            // The sign is the dividend's; a divisor of zero gives the dividend.
            let holds_zero = b.low <= 0 && b.high >= 0;
            let most = if holds_zero { i128::MAX } else { b.magnitude() - 1 };
            Interval::new(a.low.min(0).max(-most), a.high.max(0).min(most))
        }
        Op::Min => Interval::new(a.low.min(b.low), a.high.min(b.high)),
        Op::Max => Interval::new(a.low.max(b.low), a.high.max(b.high)),
        Op::BitAnd => match (a.low >= 0, b.low >= 0) {
            (true, true) => Interval::new(0, a.high.min(b.high)),
            (true, false) => Interval::new(0, a.high),
            (false, true) => Interval::new(0, b.high),
            (false, false) => full,
        },
        Op::BitOr | Op::BitXor if a.low >= 0 && b.low >= 0 => {
            let digits = 128 - a.high.max(b.high).leading_zeros();
            Interval::new(0, (1 << digits) - 1)
        }
        Op::Lshift => match b.single() {
            Some(count) if (0..i128::from(ty.bits())).contains(&count) => {
                let factor = 1 << count;
                Interval::new(a.low.saturating_mul(factor), a.high.saturating_mul(factor))
            }
            _ => full,
        },
        Op::Rshift => match b.low >= 0 && b.high < i128::from(ty.bits()) {
            true => Interval::corners(a, b, |x, count| x >> count),
            false => Interval::new(a.low.min(0), a.high.max(0).max(if a.low < 0 { -1 } else { 0 })),
        },
        _ => full,
    };
    if full.contains(exact) { exact } else { full }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::eval;
    use crate::types::Type;

    fn value(bits: u64, scalar: Scalar) -> i128 {
        if scalar == Scalar::I8 { i128::from(bits as u8 as i8) } else { i128::from(bits) }
    }

    fn bits(value: i128) -> u64 {
        u64::from(value as u8)
    }

    /// Intervals of an 8-bit type: every single value's neighbourhood and the edges of the type.
    fn samples(scalar: Scalar) -> Vec<Interval> {
        let full = Interval::full(scalar);
        let points = [full.low, full.low + 1, full.low + 7, -9, -2, -1, 0, 1, 2, 5, 64, full.high - 1, full.high];
        let points: Vec<i128> = points.into_iter().filter(|&p| full.contains(Interval::new(p, p))).collect();
        let pairs = points.iter().flat_map(|&low| points.iter().map(move |&high| Interval::new(low, high)));
        pairs.filter(|i| i.low <= i.high).collect()
    }

    fn members(interval: Interval) -> impl Iterator<Item = i128> {
        (interval.low..=interval.high)
            .step_by(((interval.high - interval.low) / 12).max(1) as usize)
            .chain([interval.high])
    }

    #[test]
    fn every_result_of_8_bit_operands_lies_in_the_interval() {
        const OPS: [Op; 19] = [
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::Div,
            Op::FloorDiv,
            Op::Mod,
            Op::Min,
            Op::Max,
            Op::BitAnd,
            Op::BitOr,
            Op::BitXor,
            Op::Lshift,
            Op::Rshift,
            Op::Eq,
            Op::Ne,
            Op::Lt,
            Op::Le,
            Op::Gt,
            Op::Ge,
        ];
        for scalar in [Scalar::I8, Scalar::U8] {
            for op in OPS {
                let is_comparison = matches!(op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge);
                let result = if is_comparison { Type::BOOL } else { scalar.into() };
                for a in samples(scalar) {
                    for b in samples(scalar) {
                        let found = binary(op, a, b, scalar);
                        for x in members(a) {
                            for y in members(b) {
                                // Library ops on integers are defined here by what they mean.
                                let exact = match op {
                                    Op::FloorDiv if y == 0 => Some(0),
                                    Op::FloorDiv => Some(bits((x as f64 / y as f64).floor() as i128)),
                                    Op::Mod if y == 0 => Some(bits(x)),
                                    Op::Mod => Some(bits(x % y)),
                                    _ => eval(op, &[scalar.into(); 2], &[bits(x), bits(y)], result),
                                };
                                let Some(exact) = exact else { continue };
                                let exact = if is_comparison { i128::from(exact) } else { value(exact, scalar) };
                                let inside = found.low <= exact && exact <= found.high;
                                assert!(inside, "{op:?} {scalar} {x} in {a:?}, {y} in {b:?}: {exact} not in {found:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_result_of_an_8_bit_operand_lies_in_the_interval() {
        for from in [Scalar::I8, Scalar::U8] {
            for (op, to) in [
                (Op::Neg, from),
                (Op::Invert, from),
                (Op::Abs, from),
                (Op::Cast, Scalar::I8),
                (Op::Cast, Scalar::U8),
                (Op::Cast, Scalar::Bool),
                (Op::Bitcast, Scalar::I8),
                (Op::Bitcast, Scalar::U8),
            ] {
                for a in samples(from) {
                    let found = unary(op, a, from, to);
                    for x in members(a) {
                        let Some(exact) = eval(op, &[from.into()], &[bits(x)], to.into()) else { continue };
                        let exact = value(exact, to);
                        assert!(
                            found.low <= exact && exact <= found.high,
                            "{op:?} {from} to {to} {x}: {exact} {found:?}"
                        );
                    }
                }
            }
        }
    }
}
