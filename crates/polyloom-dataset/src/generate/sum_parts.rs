//! The terms and factors that a value is made of, by which it is seen what cancels, repeats or has a factor in common.

use smallvec::{SmallVec, smallvec};

/// Describes what a value is a sum of, each part by the hash of its text and negative if it is taken away, and a
/// product of.
#[derive(Clone, Debug, Default)]
pub(super) struct SumParts {
    pub(super) terms: SmallVec<[i64; 4]>,
    pub(super) factors: SmallVec<[i64; 4]>,
    /// True if a number is one of its terms.
    pub(super) is_moved: bool,
    /// True if a number is one of its factors.
    pub(super) is_scaled: bool,
    /// True if one of the two that it is the sum or the product of is a number.
    pub(super) has_number: bool,
    /// Holds what it is a number times, with a number added perhaps.
    pub(super) multiple_of: Option<i64>,
}

impl SumParts {
    /// Makes an expression that has a name, or is an element.
    pub(super) fn of(text: &str) -> SumParts {
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let id = (hash >> 1) as i64;
        SumParts { terms: smallvec![id], factors: smallvec![id], multiple_of: Some(id), ..SumParts::default() }
    }

    pub(super) fn of_operator(operator: &str, a: &SumParts, b: &SumParts) -> SumParts {
        let (mut terms, mut factors) = (SmallVec::new(), SmallVec::new());
        match operator {
            "+" => terms.extend(a.terms.iter().chain(&b.terms).copied()),
            "-" => terms.extend(a.terms.iter().copied().chain(b.terms.iter().map(|term| -term))),
            "*" => factors.extend(a.factors.iter().chain(&b.factors).copied()),
            "/" => factors.extend(a.factors.iter().copied()),
            _ => {}
        }
        SumParts { terms, factors, ..SumParts::default() }
    }

    /// Returns true if both are multiples of one value, but for a number that is added.
    pub(super) fn doubles(&self, other: &SumParts) -> bool {
        let sorted = |parts: &SumParts| {
            let mut terms = parts.terms.clone();
            terms.sort_unstable();
            terms
        };
        let is_same = || self.terms.len() > 1 && sorted(self) == sorted(other);
        self.multiple_of.is_some() && self.multiple_of == other.multiple_of || is_same() || self.is_opposite(other)
    }

    /// Returns true if something is added and taken away in the sum of both, or in the difference.
    pub(super) fn cancel(&self, other: &SumParts, is_sum: bool) -> bool {
        let sign = if is_sum { -1 } else { 1 };
        self.terms.iter().any(|term| other.terms.contains(&(sign * term)))
    }

    /// Returns true if one is the other with the sign changed.
    pub(super) fn is_opposite(&self, other: &SumParts) -> bool {
        let mut negated: SmallVec<[i64; 4]> = other.terms.iter().map(|term| -term).collect();
        let mut terms = self.terms.clone();
        negated.sort_unstable();
        terms.sort_unstable();
        terms.len() > 1 && terms == negated
    }

    /// Returns true if something is a factor of both.
    pub(super) fn share(&self, other: &SumParts) -> bool {
        self.factors.iter().any(|factor| other.factors.contains(factor))
    }
}
