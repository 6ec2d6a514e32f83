//! Says what each op contributes to the cotangents of its operands.

mod arithmetic;
mod attention;
mod convolution;
mod indexing;
mod mathematics;
mod matmul;
mod movement;
mod reduction;
mod row;

use super::query::GradientRuleFn;
use crate::op::TensorOp;

/// Returns true if an op has a gradient rule of its own.
pub fn has_gradient_rule(op: TensorOp) -> bool {
    gradient_rule(op).is_some()
}

/// Returns the rule of an op whose table entry says [`crate::op::GradientRule::Rule`].
pub(super) fn gradient_rule(op: TensorOp) -> Option<GradientRuleFn> {
    Some(match op {
        TensorOp::Add => arithmetic::add,
        TensorOp::Subtract => arithmetic::subtract,
        TensorOp::Multiply => arithmetic::multiply,
        TensorOp::Divide => arithmetic::divide,
        TensorOp::Remainder => arithmetic::remainder,
        TensorOp::Power => arithmetic::power,
        TensorOp::Negative => arithmetic::negative,
        TensorOp::Absolute => arithmetic::absolute,
        TensorOp::Maximum | TensorOp::Minimum => arithmetic::extremum,
        TensorOp::Copysign => arithmetic::copysign,
        TensorOp::Where => arithmetic::select,
        TensorOp::Cast => arithmetic::cast,
        TensorOp::Relu => arithmetic::relu,
        TensorOp::Sigmoid => arithmetic::sigmoid,
        TensorOp::Softplus => arithmetic::softplus,
        TensorOp::Sqrt => mathematics::sqrt,
        TensorOp::Rsqrt => mathematics::rsqrt,
        TensorOp::Cbrt => mathematics::cbrt,
        TensorOp::Exp => mathematics::exp,
        TensorOp::Exp2 => mathematics::exp2,
        TensorOp::Expm1 => mathematics::expm1,
        TensorOp::Log => mathematics::log,
        TensorOp::Log2 => mathematics::log2,
        TensorOp::Log10 => mathematics::log10,
        TensorOp::Log1p => mathematics::log1p,
        TensorOp::Sin => mathematics::sin,
        TensorOp::Cos => mathematics::cos,
        TensorOp::Tan => mathematics::tan,
        TensorOp::Asin => mathematics::asin,
        TensorOp::Acos => mathematics::acos,
        TensorOp::Atan => mathematics::atan,
        TensorOp::Atan2 => mathematics::atan2,
        TensorOp::Sinh => mathematics::sinh,
        TensorOp::Cosh => mathematics::cosh,
        TensorOp::Tanh => mathematics::tanh,
        TensorOp::Asinh => mathematics::asinh,
        TensorOp::Acosh => mathematics::acosh,
        TensorOp::Atanh => mathematics::atanh,
        TensorOp::Erf => mathematics::erf,
        TensorOp::Erfc => mathematics::erfc,
        TensorOp::Hypot => mathematics::hypot,
        TensorOp::Sum => reduction::sum,
        TensorOp::Prod => reduction::prod,
        TensorOp::Max | TensorOp::Min => reduction::extremum,
        TensorOp::Var => reduction::var,
        TensorOp::Std => reduction::std,
        TensorOp::Logsumexp => reduction::logsumexp,
        TensorOp::Norm => reduction::norm,
        TensorOp::Softmax => row::softmax,
        TensorOp::LogSoftmax => row::log_softmax,
        TensorOp::Cumsum => row::cumsum,
        TensorOp::Cumprod => row::cumprod,
        TensorOp::Cummax | TensorOp::Cummin => row::running_extremum,
        TensorOp::LinearRecurrence => row::linear_recurrence,
        TensorOp::Reshape => movement::reshape,
        TensorOp::Permute => movement::permute,
        TensorOp::Slice => movement::slice,
        TensorOp::Flip => movement::flip,
        TensorOp::BroadcastTo => movement::broadcast_to,
        TensorOp::Concat => movement::concat,
        TensorOp::Pad => movement::pad,
        TensorOp::MatMul => matmul::matmul,
        TensorOp::Contract => matmul::contract,
        TensorOp::Attention => attention::attention,
        TensorOp::Windows => movement::windows,
        TensorOp::Contiguous => movement::contiguous,
        TensorOp::Gather => indexing::gather,
        TensorOp::ScatterAdd => indexing::scatter_add,
        TensorOp::Sort => indexing::sort,
        TensorOp::Conv1d | TensorOp::Conv2d => convolution::convolution,
        _ => return None,
    })
}
