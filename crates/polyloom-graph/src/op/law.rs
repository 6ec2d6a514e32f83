//! The laws of elementwise ops of two operands, which hold bit for bit, NaN being equal to NaN. A test tries them on the evaluator.

use super::TensorOp;

impl TensorOp {
    /// Returns true if the operands may change places.
    ///
    /// `maximum` and `minimum` may: -0.0 is below 0.0, and NaN in either place gives NaN.
    pub fn is_commutative(self) -> bool {
        self.is_associative() || matches!(self, TensorOp::Equal | TensorOp::NotEqual | TensorOp::Hypot)
    }

    /// Returns true if the op is commutative, and chains of it may be grouped in any way over the real numbers. Of floats, sums and products may
    /// not bit for bit.
    pub fn is_associative(self) -> bool {
        matches!(self, TensorOp::Add | TensorOp::Multiply)
            || self.is_idempotent()
            || self == TensorOp::LogicalXor
            || self == TensorOp::BitwiseXor
    }

    /// Returns true if the op is associative and commutative bit for bit, and its result for two equal operands is this operand.
    pub fn is_idempotent(self) -> bool {
        matches!(
            self,
            TensorOp::Maximum
                | TensorOp::Minimum
                | TensorOp::LogicalAnd
                | TensorOp::LogicalOr
                | TensorOp::BitwiseAnd
                | TensorOp::BitwiseOr
        )
    }
}
