//! Intervals of numbers, by which the generator keeps to where functions are defined and results finite.

use polyloom::{Composite, Scalar, Type};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Numbers from `low` to `high`. Of a vector or a matrix, its components.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct NumberRange {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl NumberRange {
    /// Nothing is known.
    pub(crate) const ANY: NumberRange = NumberRange { low: f64::NEG_INFINITY, high: f64::INFINITY };

    pub(crate) const fn new(low: f64, high: f64) -> NumberRange {
        NumberRange { low, high }
    }

    pub(crate) const fn of(number: f64) -> NumberRange {
        NumberRange { low: number, high: number }
    }

    /// From minus to plus this.
    pub(crate) const fn within(bound: f64) -> NumberRange {
        NumberRange { low: -bound, high: bound }
    }

    /// The largest absolute value.
    pub(crate) fn size(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    pub(crate) fn lies_in(self, other: NumberRange) -> bool {
        self.low >= other.low && self.high <= other.high
    }

    /// Returns true if no number is closer to zero than this.
    pub(crate) fn avoids_zero(self, distance: f64) -> bool {
        self.low >= distance || self.high <= -distance
    }

    /// The least range with both.
    pub(crate) fn or(self, other: NumberRange) -> NumberRange {
        NumberRange::new(self.low.min(other.low), self.high.max(other.high))
    }

    pub(crate) fn abs(self) -> NumberRange {
        let least = if self.low <= 0.0 && self.high >= 0.0 { 0.0 } else { self.low.abs().min(self.high.abs()) };
        NumberRange::new(least, self.size())
    }

    pub(crate) fn squared(self) -> NumberRange {
        let least = self.abs().low;
        NumberRange::new(least * least, self.size() * self.size())
    }

    pub(crate) fn min(self, other: NumberRange) -> NumberRange {
        NumberRange::new(self.low.min(other.low), self.high.min(other.high))
    }

    pub(crate) fn max(self, other: NumberRange) -> NumberRange {
        NumberRange::new(self.low.max(other.low), self.high.max(other.high))
    }

    /// The numbers of both.
    pub(crate) fn and(self, other: NumberRange) -> NumberRange {
        self.max(NumberRange::of(other.low)).min(NumberRange::of(other.high))
    }

    /// Returns what is no larger than this, with the sign of these numbers.
    pub(crate) fn of_sign(self, bound: f64) -> NumberRange {
        let (low, high) = (if self.low >= 0.0 { 0.0 } else { -bound }, if self.high <= 0.0 { 0.0 } else { bound });
        NumberRange::new(low, high)
    }

    /// Under a function that does not fall.
    pub(crate) fn rising(self, f: impl Fn(f64) -> f64) -> NumberRange {
        NumberRange::new(f(self.low), f(self.high))
    }

    /// The same of a function whose last digits are not the same in every mathematical library, because what kernels
    /// are written must not depend on these. It is rounded to seven bits and widened by as much.
    pub(crate) fn rising_about(self, f: impl Fn(f64) -> f64) -> NumberRange {
        const KEPT: u64 = !((1 << 45) - 1);
        let about = |x: f64| if x.is_finite() { f64::from_bits((x.to_bits() + (1 << 44)) & KEPT) } else { x };
        let (low, high) = (about(f(self.low)), about(f(self.high)));
        NumberRange::new(low - low.abs() / 64.0, high + high.abs() / 64.0)
    }

    fn of_products(products: [f64; 4]) -> NumberRange {
        // Zero times infinity.
        let known = |number: &f64| !number.is_nan();
        match products.iter().all(known) {
            true => NumberRange::new(
                products.into_iter().fold(f64::INFINITY, f64::min),
                products.into_iter().fold(f64::NEG_INFINITY, f64::max),
            ),
            false => NumberRange::ANY,
        }
    }
}

impl Add for NumberRange {
    type Output = NumberRange;

    fn add(self, other: NumberRange) -> NumberRange {
        NumberRange::new(self.low + other.low, self.high + other.high)
    }
}

impl Sub for NumberRange {
    type Output = NumberRange;

    fn sub(self, other: NumberRange) -> NumberRange {
        self + -other
    }
}

impl Neg for NumberRange {
    type Output = NumberRange;

    fn neg(self) -> NumberRange {
        NumberRange::new(-self.high, -self.low)
    }
}

impl Mul for NumberRange {
    type Output = NumberRange;

    fn mul(self, other: NumberRange) -> NumberRange {
        let products = [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        NumberRange::of_products(products)
    }
}

impl Div for NumberRange {
    type Output = NumberRange;

    fn div(self, other: NumberRange) -> NumberRange {
        if !other.avoids_zero(f64::MIN_POSITIVE) {
            return NumberRange::ANY;
        }
        let quotients = [self.low / other.low, self.low / other.high, self.high / other.low, self.high / other.high];
        NumberRange::of_products(quotients)
    }
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

    #[test]
    fn arithmetic_covers_every_pair() {
        assert_eq!((NumberRange::new(0.0, 49.0) / NumberRange::of(49.0)).high, 1.0);
        let ranges = [
            NumberRange::new(-2.0, 3.0),
            NumberRange::new(0.5, 1.0),
            NumberRange::new(-4.0, -1.0),
            NumberRange::of(0.0),
        ];
        let numbers = |range: NumberRange| [range.low, range.high, 0.5 * (range.low + range.high)];
        for a in ranges {
            for b in ranges {
                for x in numbers(a) {
                    for y in numbers(b) {
                        let covers = |range: NumberRange, number: f64| range.low <= number && number <= range.high;
                        assert!(covers(a + b, x + y) && covers(a - b, x - y) && covers(a * b, x * y));
                        assert!(covers(a.min(b), x.min(y)) && covers(a.max(b), x.max(y)) && covers(a.abs(), x.abs()));
                        assert!(y == 0.0 || covers(a / b, x / y), "{a:?} / {b:?}");
                    }
                }
            }
        }
    }
}
