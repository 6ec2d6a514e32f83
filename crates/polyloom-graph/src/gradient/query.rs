//! The question to a gradient rule: an op with its operands, its result, and the cotangent of the result.

use super::expression::TensorExpr;
use crate::attribute::AttributeValue;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use std::cell::Cell;

/// The contribution to the cotangent of each operand; `None` where that is zero. The pass brings it to the operand's shape by
/// [`TensorExpr::fit`], so that rules of ops that broadcast need not.
pub(super) type OperandContributions<'g> = Vec<Option<TensorExpr<'g>>>;

/// A function that gives what an op contributes to the cotangents of its operands.
pub(super) type GradientRuleFn = for<'g> fn(&GradientQuery<'g>) -> OperandContributions<'g>;

/// An op whose gradient is built.
pub(super) struct GradientQuery<'g> {
    /// The op.
    pub(super) op: TensorOp,
    /// Its operands.
    pub(super) x: Vec<TensorExpr<'g>>,
    /// Its attributes, in canonical form.
    pub(super) attributes: &'g [AttributeValue],
    /// Its result.
    pub(super) r: TensorExpr<'g>,
    /// The cotangent of its result.
    pub(super) g: TensorExpr<'g>,
    /// True if elements of the cotangent may be 0 because an op took another operand.
    pub(super) may_be_untaken: bool,
    /// True once the rule has set elements to 0 because the op took another operand.
    pub(super) has_untaken: Cell<bool>,
}

impl<'g> GradientQuery<'g> {
    /// Returns the cotangent where a condition holds and 0 elsewhere, for an op that takes one of its operands.
    pub(super) fn taken_where(&self, condition: TensorExpr<'g>) -> TensorExpr<'g> {
        self.has_untaken.set(true);
        condition.select(self.g, 0.0)
    }

    /// Returns the cotangent where a condition does not hold and 0 elsewhere.
    pub(super) fn taken_unless(&self, condition: TensorExpr<'g>) -> TensorExpr<'g> {
        self.has_untaken.set(true);
        condition.select(0.0, self.g)
    }

    /// Returns the product of a cotangent and a slope.
    ///
    /// A value for an operand that was not taken may be infinite or NaN, and so may its slope. The product with a
    /// cotangent of 0 is 0 there. A product that is a number stays as it is, because its second derivative may not be 0.
    pub(super) fn scale(&self, cotangent: TensorExpr<'g>, slope: TensorExpr<'g>) -> TensorExpr<'g> {
        let product = cotangent * slope;
        if slope.as_constant().is_some_and(f64::is_finite) { product } else { self.guarded(cotangent, product) }
    }

    /// Returns the quotient of a cotangent and a divisor, which [`GradientQuery::scale`] is of a slope.
    pub(super) fn divide(&self, cotangent: TensorExpr<'g>, divisor: TensorExpr<'g>) -> TensorExpr<'g> {
        let quotient = cotangent / divisor;
        let is_finite = divisor.as_constant().is_some_and(|divisor| divisor.is_finite() && divisor != 0.0);
        if is_finite { quotient } else { self.guarded(cotangent, quotient) }
    }

    fn guarded(&self, cotangent: TensorExpr<'g>, product: TensorExpr<'g>) -> TensorExpr<'g> {
        if !self.may_be_untaken {
            return product;
        }
        let is_nan = product.unary(TensorOp::Isnan);
        is_nan.binary(TensorOp::LogicalAnd, cotangent.equals(0.0)).select(0.0, product)
    }

    /// Brings the result of a reduction, or its cotangent, to the rank of the operand: dropped axes come back with extent 1.
    pub(super) fn undrop(&self, reduced: TensorExpr<'g>, axes: &[i64]) -> TensorExpr<'g> {
        let dims = self.x[0].shape().0.into_iter().enumerate();
        let kept = dims.map(|(axis, dim)| if axes.contains(&(axis as i64)) { Dim::Static(1) } else { dim });
        reduced.reshape(&Shape(kept.collect()))
    }
}
