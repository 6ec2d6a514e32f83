//! Whole numbers by what they leave when they are divided: `256 * n + 3` has the same last bits whatever `n` is.

use std::ops::{Add, Mul};

/// A whole number that is `rest` and some times `step`; with a step of 0 it is `rest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WholeNumber {
    step: i64,
    rest: i64,
}

/// The largest step that is kept track of.
const LARGEST: i64 = 1 << 20;

impl WholeNumber {
    /// Any whole number.
    pub(crate) const ANY: WholeNumber = WholeNumber { step: 1, rest: 0 };

    /// A number that is whole.
    pub(crate) fn of(number: f64) -> Option<WholeNumber> {
        let is_exact = number == number.trunc() && number.abs() <= LARGEST as f64;
        is_exact.then_some(WholeNumber { step: 0, rest: number as i64 })
    }

    fn new(step: i64, rest: i64) -> WholeNumber {
        match step {
            0 if rest.abs() <= LARGEST => WholeNumber { step, rest },
            1..=LARGEST => WholeNumber { step, rest: rest.rem_euclid(step) },
            _ => WholeNumber::ANY,
        }
    }

    #[cfg(test)]
    pub(crate) fn covers(self, number: i64) -> bool {
        number == self.rest || (self.step != 0 && (number - self.rest) % self.step == 0)
    }

    /// Returns what is left of it in so many bits, where only multiples of powers of two outlast the numbers' wrapping
    /// around.
    pub(crate) fn wrapped(self, bits: u32) -> WholeNumber {
        let all = if bits < 20 { 1 << bits } else { LARGEST };
        WholeNumber::new(gcd(self.step, all), self.rest)
    }

    /// Returns what is left of it where large numbers lose their last bits.
    pub(crate) fn rounded(self) -> WholeNumber {
        match self.step {
            0 => self,
            step => WholeNumber::new(gcd(gcd(step, self.rest), LARGEST), 0),
        }
    }

    /// One of the two.
    pub(crate) fn or(self, other: WholeNumber) -> WholeNumber {
        let step = gcd(gcd(self.step, other.step), (self.rest - other.rest).abs());
        WholeNumber::new(step, self.rest)
    }

    /// Returns what all of them leave when divided by a number, if it is the same.
    pub(crate) fn rest_by(self, modulus: i64) -> Option<i64> {
        (modulus > 0 && self.step % modulus == 0).then(|| self.rest.rem_euclid(modulus))
    }

    /// The number, if it is one.
    pub(crate) fn as_number(self) -> Option<f64> {
        (self.step == 0).then_some(self.rest as f64)
    }

    /// Returns what is left of it by a number: where its sign is that of the dividend, it may be less by the number.
    pub(crate) fn remainder(self, modulus: i64) -> Option<WholeNumber> {
        match self.rest_by(modulus) {
            Some(0) => Some(WholeNumber { step: 0, rest: 0 }),
            _ => (modulus > 0).then(|| WholeNumber::new(gcd(self.step, modulus), self.rest)),
        }
    }

    /// Returns what all of them leave of the bits of a mask, if it is the same.
    pub(crate) fn masked(self, mask: i64) -> Option<i64> {
        let all = u64::try_from(mask).ok()?.checked_add(1)?.next_power_of_two();
        Some(self.rest_by(i64::try_from(all).ok()?)? & mask)
    }
}

impl Add for WholeNumber {
    type Output = WholeNumber;

    fn add(self, other: WholeNumber) -> WholeNumber {
        WholeNumber::new(gcd(self.step, other.step), self.rest + other.rest)
    }
}

impl Mul for WholeNumber {
    type Output = WholeNumber;

    fn mul(self, other: WholeNumber) -> WholeNumber {
        let step = [self.step * other.step, self.step * other.rest, self.rest * other.step];
        let step = step.into_iter().fold(0, |all, step| gcd(all, step.abs()));
        WholeNumber::new(step, self.rest * other.rest)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_keeps_what_is_left() {
        let of = |step, rest| WholeNumber { step, rest };
        assert_eq!((of(12, 7).wrapped(32), of(0, 300).wrapped(8)), (of(4, 3), of(256, 44)));
        assert_eq!((of(24, 16).rounded(), of(8, 3).rounded()), (of(8, 0), WholeNumber::ANY));
        for (a, b) in [(of(4, 1), of(6, 3)), (of(0, -7), of(8, 2)), (WholeNumber::ANY, of(0, 16)), (of(5, 0), of(0, 0))]
        {
            for (k, n) in [(0, 0), (3, -2), (-5, 7)] {
                let (x, y) = (a.rest + k * a.step, b.rest + n * b.step);
                assert!((a + b).covers(x + y) && (a * b).covers(x * y) && a.or(b).covers(x) && a.or(b).covers(y));
            }
        }
    }

    #[test]
    fn multiples_leave_nothing() {
        let even = WholeNumber::ANY * WholeNumber { step: 0, rest: 256 };
        assert_eq!((even.rest_by(64), even.masked(12), even.rest_by(512)), (Some(0), Some(0), None));
        assert_eq!((even + WholeNumber { step: 0, rest: 5 }).masked(4), Some(4));
    }
}
