//! The numbers of which whole results of ops are multiples.

use crate::number_range::elem;
use crate::whole_number::WholeNumber;
use polyloom::{Scalar, Type};

/// The operands of an op as whole numbers.
pub(crate) struct WholeOperands<'a> {
    /// A number that each is a multiple of, if it is whole.
    pub(crate) operands: &'a [Option<WholeNumber>],
    /// Its value, if it is one whole number.
    pub(crate) numbers: &'a [Option<i64>],
    /// The type of the result.
    pub(crate) ty: Type,
}

impl WholeOperands<'_> {
    /// The operand as it is.
    pub(super) fn operand(&self, index: usize) -> Option<WholeNumber> {
        self.operands.get(index).copied().flatten()
    }

    fn number(&self, index: usize) -> Option<i64> {
        self.numbers.get(index).copied().flatten()
    }

    /// The operand in another type. As a condition it says whether it is not zero.
    pub(super) fn cast(&self) -> Option<WholeNumber> {
        self.operand(0).filter(|_| elem(self.ty) != Some(Scalar::Bool))
    }

    pub(super) fn negated(&self) -> Option<WholeNumber> {
        self.operand(0).zip(WholeNumber::of(-1.0)).map(|(x, minus)| x * minus)
    }

    /// The product of numbers.
    pub(super) fn product(&self) -> Option<WholeNumber> {
        if self.ty.as_composite().is_some() {
            return None;
        }
        self.operand(0).zip(self.operand(1)).map(|(a, b)| a * b)
    }

    /// One of the two.
    pub(super) fn either(&self, first: usize, second: usize) -> Option<WholeNumber> {
        self.operand(first).zip(self.operand(second)).map(|(a, b)| a.or(b))
    }

    pub(super) fn remainder(&self) -> Option<WholeNumber> {
        self.operand(0).zip(self.number(1)).and_then(|(x, modulus)| x.remainder(modulus))
    }

    /// Returns what bits a mask leaves, if they are always the same.
    pub(super) fn masked(&self) -> Option<WholeNumber> {
        let rest = match (self.number(0), self.number(1)) {
            (Some(mask), _) => self.operand(1)?.masked(mask)?,
            (_, Some(mask)) => self.operand(0)?.masked(mask)?,
            _ => return None,
        };
        WholeNumber::of(rest as f64)
    }
}
