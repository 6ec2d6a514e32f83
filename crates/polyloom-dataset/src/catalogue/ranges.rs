//! The ranges of results: what the rules of the catalogue's rows are told of operands, and those that are longer than a
//! line.

use super::facts::OpFacts;
use crate::number_range::{NumberRange, elem, n_components};
use polyloom::{Composite, Scalar, Type};
use smallvec::SmallVec;
use std::f64::consts::{E, PI};

/// The ranges of an operation's operands, and its types.
pub(crate) struct OperandRanges<'a> {
    /// All that the operands may be.
    given: &'a [NumberRange],
    /// The part of that range in which the op is defined.
    within: SmallVec<[NumberRange; 4]>,
    /// The type of the result.
    ty: Type,
    types: &'a [Type],
    /// True if the op has two operands that are one value.
    is_same: bool,
}

impl<'a> OperandRanges<'a> {
    pub(super) fn new(
        facts: &OpFacts,
        given: &'a [NumberRange],
        ty: Type,
        types: &'a [Type],
        is_same: bool,
    ) -> OperandRanges<'a> {
        let within = given.iter().enumerate().map(|(index, range)| range.and(facts.domain_of(index))).collect();
        OperandRanges { given, within, ty, types, is_same }
    }

    pub(super) fn given(&self, index: usize) -> NumberRange {
        self.given[index]
    }

    pub(super) fn first(&self) -> NumberRange {
        self.within.first().copied().unwrap_or(NumberRange::ANY)
    }

    /// The second operand, or the first of those that have one alone.
    pub(super) fn second(&self) -> NumberRange {
        self.within.get(1).copied().unwrap_or(self.first())
    }

    pub(super) fn third(&self) -> NumberRange {
        self.within.get(2).copied().unwrap_or(NumberRange::ANY)
    }

    /// The least range with all operands.
    pub(super) fn any(&self) -> NumberRange {
        self.within.iter().copied().reduce(NumberRange::or).unwrap_or(NumberRange::ANY)
    }

    fn is_int(&self) -> bool {
        elem(self.ty).is_some_and(Scalar::is_int)
    }

    fn is_bool(&self) -> bool {
        elem(self.ty) == Some(Scalar::Bool)
    }

    fn composite(&self, index: usize) -> Option<Composite> {
        self.types.get(index).and_then(|ty| ty.as_composite())
    }

    fn count(&self) -> f64 {
        n_components(self.types) as f64
    }

    /// The position of a component.
    pub(super) fn position(&self) -> NumberRange {
        NumberRange::new(0.0, self.count() - 1.0)
    }

    pub(super) fn sum_of_squares(&self) -> NumberRange {
        self.first().squared() * NumberRange::of(self.count())
    }

    fn sized(&self, factor: f64) -> NumberRange {
        NumberRange::new(self.first().abs().low * factor, self.first().size() * factor)
    }

    pub(super) fn length(&self) -> NumberRange {
        self.sized(self.count().sqrt())
    }

    pub(super) fn norm_l1(&self) -> NumberRange {
        self.sized(self.count())
    }

    pub(super) fn trace(&self) -> NumberRange {
        NumberRange::within(self.count().sqrt() * self.first().size())
    }

    /// The second operand, or the 1 that norms have in its place.
    fn delta(&self) -> NumberRange {
        self.within.get(1).copied().unwrap_or(NumberRange::of(1.0))
    }

    pub(super) fn norm_huber(&self) -> NumberRange {
        let (length, delta) = (self.length(), self.delta());
        let loss = |x: f64, delta: f64| if x <= delta { 0.5 * x * x } else { delta * (x - 0.5 * delta) };
        match delta.low >= 0.0 {
            true => NumberRange::new(loss(length.low, delta.low), loss(length.high, delta.high)),
            false => NumberRange::ANY,
        }
    }

    pub(super) fn norm_pseudo_huber(&self) -> NumberRange {
        let (length, delta) = (self.length(), self.delta());
        match delta.low > 0.0 {
            true => NumberRange::new(length.low.hypot(delta.low), length.high.hypot(delta.high)).rising_about(|x| x),
            false => NumberRange::ANY,
        }
    }

    /// The sum of the products of components.
    pub(super) fn dot(&self) -> NumberRange {
        match self.is_same {
            true => self.sum_of_squares(),
            false => self.dot_of_two(),
        }
    }

    pub(super) fn dot_of_two(&self) -> NumberRange {
        self.first() * self.second() * NumberRange::of(self.count())
    }

    /// The products of components.
    pub(super) fn cw_product(&self) -> NumberRange {
        if self.is_same { self.first().squared() } else { self.first() * self.second() }
    }

    /// The product of numbers, vectors, matrices or quaternions.
    pub(super) fn product(&self) -> NumberRange {
        let (first, second) = (self.first(), self.second());
        match (self.composite(0), self.composite(1)) {
            (None, _) | (_, None) => self.cw_product(),
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

    /// The same where transformations are those of rigid bodies.
    pub(super) fn product_of_motions(&self) -> NumberRange {
        match self.ty.as_composite() {
            Some(Composite::Transform { .. }) => {
                (self.given(0) * self.given(1) * NumberRange::of(7.0_f64.sqrt())).or(NumberRange::of(0.0))
            }
            _ => self.product(),
        }
    }

    pub(super) fn quotient(&self) -> NumberRange {
        let quotient = self.first() / self.second();
        match self.is_int() {
            true if !self.second().avoids_zero(1.0) => NumberRange::ANY,
            true => quotient.rising(f64::trunc),
            false => quotient,
        }
    }

    pub(super) fn floored_quotient(&self) -> NumberRange {
        match self.is_int() && !self.second().avoids_zero(1.0) {
            true => NumberRange::ANY,
            false => (self.first() / self.second()).rising(f64::floor),
        }
    }

    pub(super) fn remainder(&self) -> NumberRange {
        let (first, second) = (self.first(), self.second());
        if self.is_int() && !second.avoids_zero(1.0) {
            return NumberRange::ANY;
        }
        let most = second.size() - f64::from(u8::from(self.is_int()));
        NumberRange::new(first.low.min(0.0).max(-most), first.high.max(0.0).min(most))
    }

    pub(super) fn power(&self) -> NumberRange {
        let (base, exponent) = (self.first(), self.second());
        match self.given(0).low {
            low if low > 0.0 && self.is_same => power_of_itself(self.given(0)),
            low if low > 0.0 && base.size().is_finite() && exponent.size().is_finite() => {
                let of =
                    |base: f64| NumberRange::of(base.powf(exponent.low)).or(NumberRange::of(base.powf(exponent.high)));
                of(base.low).or(of(base.high)).rising_about(|x| x)
            }
            low if low < 0.0 => NumberRange::ANY,
            _ => NumberRange::new(0.0, f64::INFINITY),
        }
    }

    pub(super) fn hypot(&self) -> NumberRange {
        let (first, second) = (self.first(), self.second());
        NumberRange::new(first.abs().low.max(second.abs().low), first.size() + second.size())
    }

    pub(super) fn shifted_left(&self) -> NumberRange {
        match self.has_shift() {
            true => self.first() * self.second().rising(f64::exp2),
            false => NumberRange::ANY,
        }
    }

    pub(super) fn shifted_right(&self) -> NumberRange {
        let (first, by) = (self.first(), self.second());
        let shifted = |x: f64, by: f64| (x / by.exp2()).floor();
        match self.has_shift() && first.low >= 0.0 {
            true => NumberRange::new(shifted(first.low, by.high), shifted(first.high, by.low)),
            false => NumberRange::ANY,
        }
    }

    /// Returns true if the second operand is a number of bits that may be shifted.
    fn has_shift(&self) -> bool {
        self.second().lies_in(NumberRange::new(0.0, 31.0))
    }

    /// The bits of one operand that are left by the smallest mask.
    pub(super) fn masked(&self) -> NumberRange {
        let masks = || self.within.iter().filter(|range| range.low >= 0.0);
        match masks().next() {
            Some(_) => NumberRange::new(0.0, masks().map(|range| range.high).fold(f64::INFINITY, f64::min)),
            None => NumberRange::ANY,
        }
    }

    /// The same of operands that are not negative, and of others anything.
    pub(super) fn masked_of_two(&self) -> NumberRange {
        let is_known = self.first().low >= 0.0 && self.second().low >= 0.0;
        if is_known { NumberRange::new(0.0, self.first().high.min(self.second().high)) } else { NumberRange::ANY }
    }

    /// Bits of either operand.
    pub(super) fn united_bits(&self) -> NumberRange {
        let (first, second) = (self.first(), self.second());
        match first.low >= 0.0 && second.low >= 0.0 {
            true => NumberRange::new(0.0, 2.0 * first.high.max(second.high) + 1.0),
            false => NumberRange::ANY,
        }
    }

    /// The numbers in another type.
    pub(super) fn cast(&self) -> NumberRange {
        match self.is_bool() {
            true => NumberRange::new(nonzero(self.first()).low, f64::from(self.first() != NumberRange::of(0.0))),
            false if self.is_int() => self.first().rising(f64::trunc),
            false => self.first(),
        }
    }

    pub(super) fn sine(&self) -> NumberRange {
        match self.first() {
            // Sines of small numbers do not fall, and have their signs.
            x if x.size() <= 1.5 => x.rising_about(f64::sin).and(NumberRange::within(1.0)),
            _ => NumberRange::within(1.0),
        }
    }

    pub(super) fn cosine(&self) -> NumberRange {
        match self.first() {
            x if x.size() <= PI => (-x.abs()).rising_about(f64::cos).and(NumberRange::within(1.0)),
            _ => NumberRange::within(1.0),
        }
    }

    pub(super) fn tangent(&self) -> NumberRange {
        if self.given(0).size() <= 1.5 { self.given(0).rising_about(f64::tan) } else { NumberRange::ANY }
    }

    pub(super) fn inverse_root(&self) -> NumberRange {
        match self.first() {
            x if x.low > 0.0 => NumberRange::new(x.high.sqrt().recip(), x.low.sqrt().recip()),
            _ => NumberRange::new(0.0, f64::INFINITY),
        }
    }

    pub(super) fn erfc(&self) -> NumberRange {
        match self.first() {
            x if x.low >= 0.0 => NumberRange::new(0.0, 1.0),
            x if x.high <= 0.0 => NumberRange::new(1.0, 2.0),
            _ => NumberRange::new(0.0, 2.0),
        }
    }

    /// The inverse of an error function, which near the ends of these numbers has no bound.
    pub(super) fn inverse_error(&self, away_from_ends: NumberRange) -> NumberRange {
        if self.first().lies_in(away_from_ends) { NumberRange::within(2.0) } else { NumberRange::ANY }
    }

    pub(super) fn blend(&self) -> NumberRange {
        let (first, second, share) = (self.first(), self.second(), self.third());
        match share.lies_in(NumberRange::new(0.0, 1.0)) {
            true => first.or(second),
            false => first + (second - first) * share,
        }
    }

    pub(super) fn smooth_step(&self) -> NumberRange {
        let [from, to, x] = self.given else { return NumberRange::new(0.0, 1.0) };
        if from.low != from.high || from.high >= to.low {
            return NumberRange::new(0.0, 1.0);
        }
        let at = |x: f64| ((x - from.low) / (to.low - from.low)).clamp(0.0, 1.0);
        let step = x.rising(|x| at(x) * at(x) * (3.0 - 2.0 * at(x)));
        if to.low == to.high { step } else { NumberRange::new(0.0, step.high) }
    }

    pub(super) fn cross(&self) -> NumberRange {
        NumberRange::within(2.0 * self.first().size() * self.second().size())
    }

    /// The components in other places, with other signs or zeros beside them.
    pub(super) fn rearranged(&self) -> NumberRange {
        self.first().or(-self.first()).or(NumberRange::of(0.0))
    }
}

/// The power of each number to itself, which falls up to the inverse of e and rises from there.
fn power_of_itself(range: NumberRange) -> NumberRange {
    let power = |x: f64| x.powf(x);
    let ends = NumberRange::of(power(range.low)).or(NumberRange::of(power(range.high)));
    let dips = range.low < 1.0 / E && range.high > 1.0 / E;
    let all = if dips { ends.or(NumberRange::of(power(1.0 / E))) } else { ends };
    all.rising_about(|x| x)
}

/// 1 for numbers that are not zero.
pub(super) fn nonzero(range: NumberRange) -> NumberRange {
    NumberRange::new(f64::from(range.low > 0.0 || range.high < 0.0), 1.0)
}

/// 1 for numbers below zero, and else 0.
pub(super) fn step(range: NumberRange) -> NumberRange {
    NumberRange::new(f64::from(range.high < 0.0), f64::from(range.low < 0.0))
}

pub(super) fn sign(range: NumberRange) -> NumberRange {
    NumberRange::new(if range.low >= 0.0 { 1.0 } else { -1.0 }, if range.high < 0.0 { -1.0 } else { 1.0 })
}
