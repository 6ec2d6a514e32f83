//! Coefficients: the numbers before the terms of sums, and of products.

use super::fold::snap;
use super::term::{TermHead, TermId, TermStore, integer, push_number, push_scalar, real};
use polyloom_ir::Scalar;

/// The factor before a term.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Coefficient {
    Real(f64),
    /// An integer, modulo the size of its type.
    Integer(i128),
}

impl Coefficient {
    pub(crate) fn of(dtype: Scalar, value: i8) -> Coefficient {
        if dtype.is_float() { Coefficient::Real(value.into()) } else { Coefficient::Integer(value.into()) }
    }

    pub(super) fn add(self, other: Coefficient) -> Coefficient {
        match (self, other) {
            (Coefficient::Real(a), Coefficient::Real(b)) => Coefficient::Real(snap(a + b)),
            (Coefficient::Integer(a), Coefficient::Integer(b)) => Coefficient::Integer(a.wrapping_add(b)),
            (other, _) => other,
        }
    }

    pub(super) fn multiply(self, other: Coefficient, dtype: Scalar) -> Coefficient {
        match (self, other) {
            (Coefficient::Real(a), Coefficient::Real(b)) => Coefficient::Real(snap(a * b)),
            (Coefficient::Integer(a), Coefficient::Integer(b)) => {
                Coefficient::Integer(wrapped(a.wrapping_mul(b), dtype))
            }
            (other, _) => other,
        }
    }

    pub(super) fn is(self, number: i8) -> bool {
        match self {
            Coefficient::Real(value) => value == f64::from(number),
            Coefficient::Integer(value) => value == number.into(),
        }
    }

    pub(super) fn is_finite(self) -> bool {
        !matches!(self, Coefficient::Real(value) if !value.is_finite())
    }
}

/// Returns an integer modulo the size of a type, as a value of it.
pub(super) fn wrapped(value: i128, dtype: Scalar) -> i128 {
    let modulus = 1i128 << dtype.bits();
    let rest = value.rem_euclid(modulus);
    if dtype.is_signed_int() && rest >= modulus / 2 { rest - modulus } else { rest }
}

pub(crate) fn coefficient(store: &impl TermStore, id: TermId) -> Option<Coefficient> {
    real(store, id).map(Coefficient::Real).or_else(|| integer(store, id).map(Coefficient::Integer))
}

pub(crate) fn push_coefficient<S: TermStore>(store: &mut S, dtype: Scalar, value: Coefficient) -> TermId {
    match value {
        Coefficient::Real(value) => push_number(store, dtype, value),
        Coefficient::Integer(value) => {
            let bits = (value as u64) & (u64::MAX >> (64 - dtype.bits()));
            push_scalar(store, TermHead::Constant(bits), dtype)
        }
    }
}

/// Adds a constant of a float type.
pub(crate) fn number<S: TermStore>(store: &mut S, dtype: Scalar, value: f64) -> TermId {
    push_coefficient(store, dtype, Coefficient::Real(value))
}
