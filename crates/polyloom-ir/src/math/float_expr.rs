//! Operations on floats as the library's algorithms spell them.

use super::basic;
use crate::expression::Expr;
use crate::types::Scalar;

impl<'g> Expr<'g> {
    /// Returns true if it is an `f64`, not an `f32`.
    pub(super) fn is_f64(self) -> bool {
        self.scalar() == Scalar::F64
    }

    /// Returns the bits of a float as a signed integer.
    pub(super) fn bits(self) -> Expr<'g> {
        self.bitcast(if self.is_f64() { Scalar::I64 } else { Scalar::I32 })
    }

    /// Returns the float with these bits.
    pub(super) fn float_from_bits(self) -> Expr<'g> {
        self.bitcast(if self.scalar().bytes() == 8 { Scalar::F64 } else { Scalar::F32 })
    }

    /// Returns the magnitude with the sign bit of `sign`, even of a NaN, because it is for algorithms whose result is
    /// then NaN anyway. The op of this name takes care of NaNs.
    pub(super) fn copysign(self, sign: Expr<'g>) -> Expr<'g> {
        (basic::magnitude_bits(self) | basic::sign_bit(sign)).float_from_bits()
    }

    /// Evaluates the polynomial `coefficients[0] + coefficients[1] * self + …` by Horner's rule with fused steps.
    pub(super) fn polynomial(self, coefficients: &[f64]) -> Expr<'g> {
        let mut terms = coefficients.iter().rev();
        let highest = terms.next().copied().unwrap_or(0.0);
        terms.fold(self.constant(highest), |sum, &c| sum.fma(self, c))
    }
}
