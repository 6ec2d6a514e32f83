//! The functions of NumPy and PyTorch that compute an op in one call.
//!
//! A name is the function's, below `numpy` or `torch`. What has no function there is computed by its parts, or elsewhere. Functions of which
//! IEEE arithmetic leaves nothing open keep bits; those that approximate, sum in their own order, or treat NaN, signed zeros and
//! ends of ranges in their own way do not.

use crate::backend::Backend;
use crate::op::TensorOp;
use crate::op::TensorOp as Op;

/// A function of a library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LibraryFunction {
    /// Its name below the library's module.
    pub name: &'static str,
    /// True if it gives the bits that the op defines, for all element types.
    pub keeps_bits: bool,
}

/// Returns the function of a backend's library that computes an op; `None` if there is none, or the backend is Polyloom's own.
///
/// ```
/// use polyloom_graph::{Backend, TensorOp, library_function};
/// assert_eq!(library_function(TensorOp::Asin, Backend::CpuNumpy).map(|f| f.name), Some("arcsin"));
/// assert_eq!(library_function(TensorOp::Softmax, Backend::CpuNumpy), None);
/// assert_eq!(library_function(TensorOp::Softmax, Backend::GpuTorch).map(|f| f.name), Some("softmax"));
/// ```
pub fn library_function(op: TensorOp, backend: Backend) -> Option<LibraryFunction> {
    let name = match backend {
        Backend::CpuNumpy => numpy_name(op)?,
        Backend::CpuTorch | Backend::GpuTorch => torch_name(op)?,
        Backend::CpuNative | Backend::GpuCuda | Backend::Sim => return None,
    };
    Some(LibraryFunction { name, keeps_bits: is_exact(op) })
}

/// Returns true if every implementation gives the same bits, because each element is moved, or rounded correctly once.
fn is_exact(op: TensorOp) -> bool {
    op.info().moves_by_index()
        || matches!(
            op,
            Op::Add
                | Op::Subtract
                | Op::Multiply
                | Op::Square
                | Op::Negative
                | Op::Absolute
                | Op::Equal
                | Op::NotEqual
                | Op::Less
                | Op::LessEqual
                | Op::Greater
                | Op::GreaterEqual
                | Op::LogicalAnd
                | Op::LogicalOr
                | Op::LogicalXor
                | Op::LogicalNot
                | Op::BitwiseAnd
                | Op::BitwiseOr
                | Op::BitwiseXor
                | Op::Invert
                | Op::Isnan
                | Op::Isinf
                | Op::Isfinite
                | Op::Where
                | Op::Floor
                | Op::Ceil
                | Op::Trunc
                | Op::Round
                | Op::Concat
                | Op::Stack
                | Op::Tile
                | Op::Contiguous
        )
}

fn numpy_name(op: TensorOp) -> Option<&'static str> {
    Some(match op {
        // NumPy has these by another name, which is the first alias of the op.
        Op::Asin | Op::Acos | Op::Atan | Op::Atan2 | Op::Asinh | Op::Acosh | Op::Atanh => op.info().aliases.first()?,
        Op::Cast | Op::Transpose | Op::Gather | Op::Concat => op.info().aliases.first()?,
        Op::Permute => "transpose",
        Op::Slice => "ndarray.__getitem__",
        Op::Contiguous => "ascontiguousarray",
        Op::Cummax => "maximum.accumulate",
        Op::Cummin => "minimum.accumulate",
        Op::Bitcast => "ndarray.view",
        Op::Cosh | Op::Sinh | Op::Tanh | Op::Sin | Op::Cos | Op::Tan | Op::Exp | Op::Exp2 | Op::Expm1 => op.name(),
        Op::Log | Op::Log2 | Op::Log10 | Op::Log1p | Op::Sqrt | Op::Cbrt | Op::Hypot | Op::Copysign => op.name(),
        Op::Isnan | Op::Isinf | Op::Isfinite | Op::Equal | Op::NotEqual | Op::Less | Op::LessEqual => op.name(),
        Op::Greater | Op::GreaterEqual | Op::LogicalAnd | Op::LogicalOr | Op::LogicalXor | Op::LogicalNot => op.name(),
        Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor | Op::Invert | Op::LeftShift | Op::RightShift => op.name(),
        Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::FloorDivide | Op::Remainder | Op::Power => op.name(),
        Op::Negative | Op::Absolute | Op::Sign | Op::Square | Op::Maximum | Op::Minimum | Op::Clip => op.name(),
        Op::Floor | Op::Ceil | Op::Trunc | Op::Round | Op::Where | Op::Sum | Op::Prod | Op::Max | Op::Min => op.name(),
        Op::Argmax | Op::Argmin | Op::All | Op::Any | Op::Mean | Op::Var | Op::Std | Op::Cumsum => op.name(),
        Op::Cumprod | Op::Sort | Op::Argsort | Op::Reshape | Op::Flip | Op::BroadcastTo | Op::Take => op.name(),
        Op::Stack | Op::Pad | Op::Tile | Op::MatMul | Op::Einsum => op.name(),
        _ => return None,
    })
}

fn torch_name(op: TensorOp) -> Option<&'static str> {
    Some(match op {
        Op::Power => "pow",
        Op::NotEqual => "ne",
        Op::Equal => "eq",
        Op::Invert => "bitwise_not",
        Op::LeftShift => "bitwise_left_shift",
        Op::RightShift => "bitwise_right_shift",
        Op::Cast => "Tensor.to",
        Op::Bitcast => "Tensor.view",
        Op::Slice => "Tensor.__getitem__",
        Op::Max => "amax",
        Op::Min => "amin",
        Op::Norm => "linalg.vector_norm",
        Op::Contiguous => "Tensor.contiguous",
        Op::Gather => "take_along_dim",
        Op::Concat => "cat",
        Op::BroadcastTo => "broadcast_to",
        Op::Relu => "relu",
        Op::LeakyRelu => "nn.functional.leaky_relu",
        Op::Gelu => "nn.functional.gelu",
        Op::Silu => "nn.functional.silu",
        Op::Softplus => "nn.functional.softplus",
        Op::LayerNorm => "nn.functional.layer_norm",
        Op::RmsNorm => "nn.functional.rms_norm",
        Op::GroupNorm => "nn.functional.group_norm",
        Op::CrossEntropy => "nn.functional.cross_entropy",
        Op::Linear => "nn.functional.linear",
        Op::Attention => "nn.functional.scaled_dot_product_attention",
        Op::Conv1d => "nn.functional.conv1d",
        Op::Conv2d => "nn.functional.conv2d",
        Op::MaxPool2d => "nn.functional.max_pool2d",
        Op::AvgPool2d => "nn.functional.avg_pool2d",
        Op::Embedding => "nn.functional.embedding",
        Op::OneHot => "nn.functional.one_hot",
        Op::Pad => "nn.functional.pad",
        Op::Transpose | Op::Permute | Op::Reshape | Op::Flip | Op::Stack | Op::Tile | Op::MatMul | Op::Einsum => {
            op.name()
        }
        Op::Sigmoid | Op::Softmax | Op::LogSoftmax | Op::Logsumexp | Op::Erf | Op::Erfc | Op::Rsqrt => op.name(),
        Op::Reciprocal | Op::Square | Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::FloorDivide => op.name(),
        Op::Remainder => op.name(),
        Op::Negative | Op::Absolute | Op::Sign | Op::Maximum | Op::Minimum | Op::Clip | Op::Floor | Op::Ceil => {
            op.name()
        }
        Op::Trunc | Op::Round | Op::Copysign | Op::Sqrt | Op::Exp | Op::Exp2 | Op::Expm1 | Op::Log => op.name(),
        Op::Log2 | Op::Log10 | Op::Log1p | Op::Sin | Op::Cos | Op::Tan | Op::Asin | Op::Acos | Op::Atan => op.name(),
        Op::Atan2 | Op::Sinh | Op::Cosh | Op::Tanh | Op::Asinh | Op::Acosh | Op::Atanh | Op::Hypot => op.name(),
        Op::Isnan | Op::Isinf | Op::Isfinite | Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual => op.name(),
        Op::LogicalAnd | Op::LogicalOr | Op::LogicalXor | Op::LogicalNot | Op::BitwiseAnd | Op::BitwiseOr => op.name(),
        Op::BitwiseXor | Op::Where | Op::Sum | Op::Prod | Op::Argmax | Op::Argmin | Op::All | Op::Any => op.name(),
        Op::Mean | Op::Var | Op::Std | Op::Cumsum | Op::Cumprod | Op::Cummax | Op::Cummin => op.name(),
        Op::Sort | Op::Argsort | Op::ScatterAdd => op.name(),
        _ => return None,
    })
}
