//! Intervals of numbers, by which the generator keeps to where functions are defined and results finite.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// Numbers from `low` to `high`. Of a vector or a matrix, its components.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Range {
    /// Nothing is known.
    pub(crate) const ANY: Range = Range { low: f64::NEG_INFINITY, high: f64::INFINITY };

    pub(crate) const fn new(low: f64, high: f64) -> Range {
        Range { low, high }
    }

    pub(crate) const fn of(number: f64) -> Range {
        Range { low: number, high: number }
    }

    /// From minus to plus this.
    pub(crate) const fn within(bound: f64) -> Range {
        Range { low: -bound, high: bound }
    }

    /// The largest absolute value.
    pub(crate) fn size(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    pub(crate) fn lies_in(self, other: Range) -> bool {
        self.low >= other.low && self.high <= other.high
    }

    /// Returns true if no number is closer to zero than this.
    pub(crate) fn avoids_zero(self, distance: f64) -> bool {
        self.low >= distance || self.high <= -distance
    }

    /// The least range with both.
    pub(crate) fn or(self, other: Range) -> Range {
        Range::new(self.low.min(other.low), self.high.max(other.high))
    }

    pub(crate) fn abs(self) -> Range {
        let least = if self.low <= 0.0 && self.high >= 0.0 { 0.0 } else { self.low.abs().min(self.high.abs()) };
        Range::new(least, self.size())
    }

    pub(crate) fn squared(self) -> Range {
        let least = self.abs().low;
        Range::new(least * least, self.size() * self.size())
    }

    pub(crate) fn min(self, other: Range) -> Range {
        Range::new(self.low.min(other.low), self.high.min(other.high))
    }

    pub(crate) fn max(self, other: Range) -> Range {
        Range::new(self.low.max(other.low), self.high.max(other.high))
    }

    /// The numbers of both.
    pub(crate) fn and(self, other: Range) -> Range {
        self.max(Range::of(other.low)).min(Range::of(other.high))
    }

    /// Returns what is no larger than this, with the sign of these numbers.
    pub(crate) fn of_sign(self, bound: f64) -> Range {
        let (low, high) = (if self.low >= 0.0 { 0.0 } else { -bound }, if self.high <= 0.0 { 0.0 } else { bound });
        Range::new(low, high)
    }

    /// Under a function that does not fall.
    pub(crate) fn rising(self, f: impl Fn(f64) -> f64) -> Range {
        Range::new(f(self.low), f(self.high))
    }

    /// The same of a function whose last digits are not the same in every mathematical library, because what kernels
    /// are written must not depend on these. It is rounded to seven bits and widened by as much.
    pub(crate) fn rising_about(self, f: impl Fn(f64) -> f64) -> Range {
        const KEPT: u64 = !((1 << 45) - 1);
        let about = |x: f64| if x.is_finite() { f64::from_bits((x.to_bits() + (1 << 44)) & KEPT) } else { x };
        let (low, high) = (about(f(self.low)), about(f(self.high)));
        Range::new(low - low.abs() / 64.0, high + high.abs() / 64.0)
    }

    fn of_products(products: [f64; 4]) -> Range {
        // Zero times infinity.
        let known = |number: &f64| !number.is_nan();
        match products.iter().all(known) {
            true => Range::new(
                products.into_iter().fold(f64::INFINITY, f64::min),
                products.into_iter().fold(f64::NEG_INFINITY, f64::max),
            ),
            false => Range::ANY,
        }
    }
}

impl Add for Range {
    type Output = Range;

    fn add(self, other: Range) -> Range {
        Range::new(self.low + other.low, self.high + other.high)
    }
}

impl Sub for Range {
    type Output = Range;

    fn sub(self, other: Range) -> Range {
        self + -other
    }
}

impl Neg for Range {
    type Output = Range;

    fn neg(self) -> Range {
        Range::new(-self.high, -self.low)
    }
}

impl Mul for Range {
    type Output = Range;

    fn mul(self, other: Range) -> Range {
        let products = [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        Range::of_products(products)
    }
}

impl Div for Range {
    type Output = Range;

    fn div(self, other: Range) -> Range {
        if !other.avoids_zero(f64::MIN_POSITIVE) {
            return Range::ANY;
        }
        let quotients = [self.low / other.low, self.low / other.high, self.high / other.low, self.high / other.high];
        Range::of_products(quotients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_covers_every_pair() {
        assert_eq!((Range::new(0.0, 49.0) / Range::of(49.0)).high, 1.0);
        let ranges = [Range::new(-2.0, 3.0), Range::new(0.5, 1.0), Range::new(-4.0, -1.0), Range::of(0.0)];
        let numbers = |range: Range| [range.low, range.high, 0.5 * (range.low + range.high)];
        for a in ranges {
            for b in ranges {
                for x in numbers(a) {
                    for y in numbers(b) {
                        let covers = |range: Range, number: f64| range.low <= number && number <= range.high;
                        assert!(covers(a + b, x + y) && covers(a - b, x - y) && covers(a * b, x * y));
                        assert!(covers(a.min(b), x.min(y)) && covers(a.max(b), x.max(y)) && covers(a.abs(), x.abs()));
                        assert!(y == 0.0 || covers(a / b, x / y), "{a:?} / {b:?}");
                    }
                }
            }
        }
    }
}
