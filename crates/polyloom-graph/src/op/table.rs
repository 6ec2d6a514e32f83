//! The entries of the tensor op table. See [`crate::op`] for what the columns mean.
//!
//! An entry reads: documentation, `Variant = "name"`, aliases, kind of kernel, signature, shape rule, dtype rule,
//! definition, cost model, gradient, and what the gradient is where there is none in the strict sense (`kinks`), if there are
//! such places. No other column has a default, so that an op is not declared by leaving something out.

use super::CostModel::{Contraction, Free, Move, PerOperand, PerResult};
use super::DtypeClass::{Any, Bits, BoolAsInt8, Integer, Number, SortKey};
use super::DtypeRule::{
    Classes, Classified, Compared, Float, Indexed, Indices, Logical, Promoted, Quotient, Random, Reinterpreted, Seeded,
    Selected, Summed,
};
use super::OpDefinition::{self, Composite, Native, Scalar as By};
use super::TensorKernelKind::{Conv2d, Custom, Elementwise, Matmul, Reduce, Scan, Sort};
use super::scalar;
use super::{DtypeRule, GradientRule, ShapeRule, TensorKernelKind, TensorOpInfo, TensorSignature};
use ShapeRule::{AlongAxis, Broadcast, First};
use std::sync::LazyLock;

const KEPT: DtypeRule = Promoted(Any);
const REDUCED: ShapeRule = ShapeRule::Reduce { nonempty: false };
const REDUCED_NONEMPTY: ShapeRule = ShapeRule::Reduce { nonempty: true };

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! tensor_op_table {
    ($(
        $(#[doc = $doc:literal])+
        $op:ident = $name:literal, [$($alias:literal),*], $kind:expr, $signature:literal, $shape:expr, $dtype:expr,
        $definition:expr, $cost:expr, $gradient:ident $(, kinks $kinks:literal)?;
    )*) => {
        /// An op of tensor graphs. What each one is, the table says: [`TensorOp::info`].
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum TensorOp {
            $($(#[doc = $doc])+ $op,)*
        }

        pub(super) static TABLE: LazyLock<Vec<TensorOpInfo>> = LazyLock::new(|| vec![
            $(TensorOpInfo {
                op: TensorOp::$op,
                name: $name,
                aliases: &[$($alias),*],
                kind: $kind,
                signature: TensorSignature::parse($signature),
                shape_rule: $shape,
                dtype_rule: $dtype,
                definition: $definition,
                cost: $cost,
                gradient: GradientRule::$gradient,
                kinks: optional!($($kinks)?),
                doc: concat!($($doc, "\n"),+),
            },)*
        ]);
    };
}

tensor_op_table! {
    // ---- arithmetic -------------------------------------------------------------------------------------------------
    /// Adds. Of `bool` it is `or`.
    Add = "add", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Any), By(scalar::add), PerResult(1), Rule;
    /// Subtracts.
    Subtract = "subtract", ["sub"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Number), By(scalar::subtract), PerResult(1), Rule;
    /// Multiplies. Of `bool` it is `and`.
    Multiply = "multiply", ["mul"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Any), By(scalar::multiply), PerResult(1), Rule;
    /// Divides. The quotient of integers is a `float64`.
    Divide = "divide", ["true_divide", "div"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Quotient, By(scalar::divide), PerResult(4), Rule;
    /// Divides and rounds down. An integer divided by 0 is 0.
    FloorDivide = "floor_divide", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(BoolAsInt8), By(scalar::floor_divide), PerResult(8), Zero;
    /// The remainder of `floor_divide`, with the sign of the divisor. That of an integer by 0 is 0.
    Remainder = "remainder", ["mod"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(BoolAsInt8), By(scalar::remainder), PerResult(8), Rule,
        kinks "As of `a - b * floor(a / b)`, with the quotient's jumps left out.";
    /// Raises to a power. A negative power of an integer is 0.
    Power = "power", ["pow"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(BoolAsInt8), By(scalar::power), PerResult(30), Rule,
        kinks "By `b`, 0 where `a` is 0.";
    /// Changes the sign.
    Negative = "negative", ["neg"], Elementwise, "(x: tensor)", Broadcast, Promoted(Number), By(scalar::negative), PerResult(1), Rule;
    /// The magnitude.
    Absolute = "absolute", ["abs"], Elementwise, "(x: tensor)", Broadcast, KEPT, By(scalar::absolute), PerResult(1), Rule,
        kinks "0 at 0.";
    /// -1, 0 or 1, as the number is below, at or above zero; NaN for NaN.
    Sign = "sign", [], Elementwise, "(x: tensor)", Broadcast, Promoted(Number), By(scalar::sign), PerResult(2), Zero;
    /// The product with itself.
    Square = "square", [], Elementwise, "(x: tensor)", Broadcast, Promoted(BoolAsInt8), Composite, PerResult(1), OfDecomposition;
    /// One divided by the number. Of integers it is a `float64`, unlike NumPy's.
    Reciprocal = "reciprocal", [], Elementwise, "(x: tensor)", Broadcast, Quotient, Composite, PerResult(4), OfDecomposition;
    /// The larger; NaN if either is.
    Maximum = "maximum", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Any), By(scalar::maximum), PerResult(1), Rule,
        kinks "All of it to the first of equal values.";
    /// The smaller; NaN if either is.
    Minimum = "minimum", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Any), By(scalar::minimum), PerResult(1), Rule,
        kinks "All of it to the first of equal values.";
    /// The number, or the nearer of two limits if it is outside of them; the upper one if they cross.
    Clip = "clip", ["clamp"], Elementwise, "(x: tensor, lower: tensor, upper: tensor)", Broadcast, Promoted(Any), Composite, PerResult(2), OfDecomposition,
        kinks "At a limit, that of `x`.";
    /// Rounds down. Integers stay as they are.
    Floor = "floor", [], Elementwise, "(x: tensor)", Broadcast, Promoted(Any), By(scalar::floor), PerResult(1), Zero;
    /// Rounds up. Integers stay as they are.
    Ceil = "ceil", [], Elementwise, "(x: tensor)", Broadcast, Promoted(Any), By(scalar::ceil), PerResult(1), Zero;
    /// Rounds toward zero. Integers stay as they are.
    Trunc = "trunc", [], Elementwise, "(x: tensor)", Broadcast, Promoted(Any), By(scalar::trunc), PerResult(1), Zero;
    /// Rounds to the nearest integer, ties to even. Integers stay as they are.
    Round = "round", [], Elementwise, "(x: tensor)", Broadcast, Promoted(Any), By(scalar::round), PerResult(1), Zero;
    /// The magnitude of one number with the sign of another.
    Copysign = "copysign", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Float, By(scalar::copysign), PerResult(2), Rule,
        kinks "0 by `b`, and at an `a` of 0 as on the side of its sign.";

    // ---- mathematics ------------------------------------------------------------------------------------------------
    /// The square root.
    Sqrt = "sqrt", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::sqrt), PerResult(4), Rule;
    /// One divided by the square root.
    Rsqrt = "rsqrt", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::rsqrt), PerResult(8), Rule;
    /// The cube root.
    Cbrt = "cbrt", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::cbrt), PerResult(20), Rule;
    /// e to a power.
    Exp = "exp", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::exp), PerResult(14), Rule;
    /// 2 to a power.
    Exp2 = "exp2", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::exp2), PerResult(14), Rule;
    /// e to a power, less 1, exact near 0.
    Expm1 = "expm1", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::expm1), PerResult(20), Rule;
    /// The natural logarithm.
    Log = "log", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::log), PerResult(18), Rule;
    /// The logarithm to base 2.
    Log2 = "log2", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::log2), PerResult(18), Rule;
    /// The logarithm to base 10.
    Log10 = "log10", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::log10), PerResult(18), Rule;
    /// The natural logarithm of the number plus 1, exact near 0.
    Log1p = "log1p", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::log1p), PerResult(20), Rule;
    /// The sine.
    Sin = "sin", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::sin), PerResult(20), Rule;
    /// The cosine.
    Cos = "cos", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::cos), PerResult(20), Rule;
    /// The tangent.
    Tan = "tan", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::tan), PerResult(25), Rule;
    /// The inverse sine.
    Asin = "asin", ["arcsin"], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::asin), PerResult(20), Rule;
    /// The inverse cosine.
    Acos = "acos", ["arccos"], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::acos), PerResult(20), Rule;
    /// The inverse tangent.
    Atan = "atan", ["arctan"], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::atan), PerResult(20), Rule;
    /// The angle of the point `(b, a)`.
    Atan2 = "atan2", ["arctan2"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Float, By(scalar::atan2), PerResult(28), Rule,
        kinks "0 at the origin.";
    /// The hyperbolic sine.
    Sinh = "sinh", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::sinh), PerResult(25), Rule;
    /// The hyperbolic cosine.
    Cosh = "cosh", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::cosh), PerResult(20), Rule;
    /// The hyperbolic tangent.
    Tanh = "tanh", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::tanh), PerResult(25), Rule;
    /// The inverse hyperbolic sine.
    Asinh = "asinh", ["arcsinh"], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::asinh), PerResult(30), Rule;
    /// The inverse hyperbolic cosine.
    Acosh = "acosh", ["arccosh"], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::acosh), PerResult(30), Rule;
    /// The inverse hyperbolic tangent.
    Atanh = "atanh", ["arctanh"], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::atanh), PerResult(30), Rule;
    /// The error function.
    Erf = "erf", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::erf), PerResult(30), Rule;
    /// 1 less the error function, exact where that is near 1.
    Erfc = "erfc", [], Elementwise, "(x: tensor)", Broadcast, Float, By(scalar::erfc), PerResult(40), Rule;
    /// The length of the vector `(a, b)`, without overflow.
    Hypot = "hypot", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Float, By(scalar::hypot), PerResult(10), Rule,
        kinks "0 at the origin.";
    /// True for NaN.
    Isnan = "isnan", [], Elementwise, "(x: tensor)", Broadcast, Classified, By(scalar::isnan), PerResult(1), Zero;
    /// True for both infinities.
    Isinf = "isinf", [], Elementwise, "(x: tensor)", Broadcast, Classified, By(scalar::isinf), PerResult(1), Zero;
    /// False for NaN and infinities.
    Isfinite = "isfinite", [], Elementwise, "(x: tensor)", Broadcast, Classified, By(scalar::isfinite), PerResult(1), Zero;

    // ---- comparison and logic ---------------------------------------------------------------------------------------
    /// True where both are equal; NaN is not equal to anything.
    Equal = "equal", ["eq"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Compared(Any), By(scalar::equal), PerResult(1), Zero;
    /// True where they are not equal.
    NotEqual = "not_equal", ["ne"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Compared(Any), By(scalar::not_equal), PerResult(1), Zero;
    /// True where the first is smaller.
    Less = "less", ["lt"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Compared(Any), By(scalar::less), PerResult(1), Zero;
    /// True where the first is smaller or equal.
    LessEqual = "less_equal", ["le"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Compared(Any), By(scalar::less_equal), PerResult(1), Zero;
    /// True where the first is larger.
    Greater = "greater", ["gt"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Compared(Any), By(scalar::greater), PerResult(1), Zero;
    /// True where the first is larger or equal.
    GreaterEqual = "greater_equal", ["ge"], Elementwise, "(a: tensor, b: tensor)", Broadcast, Compared(Any), By(scalar::greater_equal), PerResult(1), Zero;
    /// True where both are not zero.
    LogicalAnd = "logical_and", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Logical, By(scalar::bitwise_and), PerResult(1), Zero;
    /// True where either is not zero.
    LogicalOr = "logical_or", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Logical, By(scalar::bitwise_or), PerResult(1), Zero;
    /// True where one alone is not zero.
    LogicalXor = "logical_xor", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Logical, By(scalar::bitwise_xor), PerResult(1), Zero;
    /// True where the number is zero.
    LogicalNot = "logical_not", [], Elementwise, "(x: tensor)", Broadcast, Logical, By(scalar::logical_not), PerResult(1), Zero;
    /// The bits that both have.
    BitwiseAnd = "bitwise_and", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Bits), By(scalar::bitwise_and), PerResult(1), Zero;
    /// The bits that either has.
    BitwiseOr = "bitwise_or", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Bits), By(scalar::bitwise_or), PerResult(1), Zero;
    /// The bits that one alone has.
    BitwiseXor = "bitwise_xor", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Bits), By(scalar::bitwise_xor), PerResult(1), Zero;
    /// The bits that it does not have.
    Invert = "invert", ["bitwise_not"], Elementwise, "(x: tensor)", Broadcast, Promoted(Bits), By(scalar::invert), PerResult(1), Zero;
    /// Shifts bits to the left. A count that is not below the width gives 0.
    LeftShift = "left_shift", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Integer), By(scalar::left_shift), PerResult(1), Zero;
    /// Shifts bits to the right, with copies of the sign bit if the type is signed.
    RightShift = "right_shift", [], Elementwise, "(a: tensor, b: tensor)", Broadcast, Promoted(Integer), By(scalar::right_shift), PerResult(1), Zero;
    /// One of two values, by a condition.
    Where = "where", [], Elementwise, "(condition: tensor, a: tensor, b: tensor)", Broadcast, Selected, By(scalar::select), PerResult(1), Rule,
        kinks "Of the value that is not chosen it is 0, also where what is computed for it alone is infinite or NaN.";
    /// Converts to another type. A float becomes an integer toward zero, at most the largest, and 0 for NaN.
    Cast = "cast", ["astype"], Elementwise, "(x: tensor, dtype: dtype)", First, DtypeRule::Given, By(scalar::identity), PerResult(1), Rule;
    /// The number with the same bits in another type of the same size. The bits of a NaN are those of the canonical one. `bool` is
    /// refused.
    Bitcast = "bitcast", [], Elementwise, "(x: tensor, dtype: dtype)", First, Reinterpreted, By(scalar::bits), PerResult(1), Zero;

    // ---- activations ------------------------------------------------------------------------------------------------
    /// The number if it is above 0, else 0; NaN for NaN.
    Relu = "relu", [], Elementwise, "(x: tensor)", Broadcast, Promoted(Number), Composite, PerResult(1), Rule,
        kinks "0 at 0.";
    /// The number if it is above 0, else its product with `negative_slope`.
    LeakyRelu = "leaky_relu", [], Elementwise, "(x: tensor, negative_slope: float = 0.01)", Broadcast, Float, Composite, PerResult(2), OfDecomposition,
        kinks "`negative_slope` at 0.";
    /// `x * (1 + erf(x / sqrt(2))) / 2`, or with `approximate` `"tanh"`
    /// `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2`.
    Gelu = "gelu", [], Elementwise, "(x: tensor, approximate: text = none)", Broadcast, Float, Composite, PerResult(34), OfDecomposition;
    /// `x * sigmoid(x)`.
    Silu = "silu", ["swish"], Elementwise, "(x: tensor)", Broadcast, Float, Composite, PerResult(20), OfDecomposition;
    /// `1 / (1 + exp(-x))`.
    Sigmoid = "sigmoid", [], Elementwise, "(x: tensor)", Broadcast, Float, Composite, PerResult(20), Rule;
    /// `log(1 + exp(x))`, as `maximum(x, 0) + log1p(exp(-abs(x)))`, which does not overflow.
    Softplus = "softplus", [], Elementwise, "(x: tensor)", Broadcast, Float, Composite, PerResult(36), Rule;

    // ---- reductions -------------------------------------------------------------------------------------------------
    /// The sum along axes, in the order that [`crate::reference`] defines. That of nothing is 0.
    Sum = "sum", [], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false)", REDUCED, Summed, Native, PerOperand(1), Rule;
    /// The product along axes, in the order of `sum`. That of nothing is 1.
    Prod = "prod", [], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false)", REDUCED, Summed, Native, PerOperand(1), Rule;
    /// The largest along axes; NaN if one is.
    Max = "max", ["amax"], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false)", REDUCED_NONEMPTY, KEPT, Native, PerOperand(1), Rule,
        kinks "All of it to the first of equal elements in row-major order.";
    /// The smallest along axes; NaN if one is.
    Min = "min", ["amin"], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false)", REDUCED_NONEMPTY, KEPT, Native, PerOperand(1), Rule,
        kinks "All of it to the first of equal elements in row-major order.";
    /// The index of the first of the largest along an axis, or in all in row-major order; of the first NaN if there is one.
    Argmax = "argmax", [], Reduce, "(x: tensor, axis: axis? = none, keepdims: bool = false)", ShapeRule::ReduceAxis, Indexed, Native, PerOperand(2), Zero;
    /// The index of the first of the smallest along an axis, or in all in row-major order; of the first NaN if there is one.
    Argmin = "argmin", [], Reduce, "(x: tensor, axis: axis? = none, keepdims: bool = false)", ShapeRule::ReduceAxis, Indexed, Native, PerOperand(2), Zero;
    /// True if all along axes are not zero.
    All = "all", [], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false)", REDUCED, Logical, Native, PerOperand(1), Zero;
    /// True if any along axes is not zero.
    Any = "any", [], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false)", REDUCED, Logical, Native, PerOperand(1), Zero;
    /// The sum along axes divided by their number of elements; NaN if there are none.
    Mean = "mean", [], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false)", REDUCED, Quotient, Composite, PerOperand(1), OfDecomposition;
    /// The sum of squared differences from the mean, divided by the number of elements less `correction`.
    Var = "var", [], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false, correction: int = 0)", REDUCED, Quotient, Composite, PerOperand(4), Rule;
    /// The square root of `var`.
    Std = "std", [], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false, correction: int = 0)", REDUCED, Quotient, Composite, PerOperand(4), Rule,
        kinks "0 where all elements are equal.";
    /// The logarithm of the sum of exponentials along axes, without overflow.
    Logsumexp = "logsumexp", [], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false)", REDUCED_NONEMPTY, Quotient, Composite, PerOperand(17), Rule;
    /// The square root of the sum of squares along axes.
    Norm = "norm", [], Reduce, "(x: tensor, axes: axes = none, keepdims: bool = false)", REDUCED, Quotient, Composite, PerOperand(2), Rule,
        kinks "0 where all elements are 0.";

    // ---- normalisation ----------------------------------------------------------------------------------------------
    /// Exponentials along an axis, divided by their sum.
    Softmax = "softmax", [], Reduce, "(x: tensor, axis: axis = -1)", AlongAxis, Quotient, Composite, PerResult(22), Rule;
    /// The logarithm of `softmax`.
    LogSoftmax = "log_softmax", [], Reduce, "(x: tensor, axis: axis = -1)", AlongAxis, Quotient, Composite, PerResult(18), Rule;
    /// Subtracts the mean over the axes from `axis` on and divides by the root of the variance plus `epsilon`, then multiplies by
    /// `weight` and adds `bias`, which have the shape of these axes.
    LayerNorm = "layer_norm", [], Reduce, "(x: tensor, weight: tensor?, bias: tensor?, axis: axis = -1, epsilon: float = 1e-5)", ShapeRule::LayerNorm, Quotient, Composite, PerResult(8), OfDecomposition;
    /// Divides by the root of the mean square over the axes from `axis` on plus `epsilon`, then multiplies by `weight`.
    RmsNorm = "rms_norm", [], Reduce, "(x: tensor, weight: tensor?, axis: axis = -1, epsilon: float = 1e-6)", ShapeRule::LayerNorm, Quotient, Composite, PerResult(5), OfDecomposition;
    /// Normalises as `layer_norm` over groups of channels, which are axis 1, and all axes after it, then multiplies by the
    /// channel's `weight` and adds its `bias`.
    GroupNorm = "group_norm", [], Reduce, "(x: tensor, weight: tensor?, bias: tensor?, groups: int, epsilon: float = 1e-5)", ShapeRule::GroupNorm, Quotient, Composite, PerResult(8), OfDecomposition;
    /// The negative logarithm of `softmax` along axis 1, or the only one, at the class `target`; 0 where that is no class. `reduction` is
    /// `"mean"` over all targets, `"sum"` or `"none"`.
    CrossEntropy = "cross_entropy", [], Reduce, "(logits: tensor, target: tensor, reduction: text = mean)", ShapeRule::CrossEntropy, Classes, Composite, PerOperand(20), OfDecomposition;

    // ---- scans ------------------------------------------------------------------------------------------------------
    /// The sums of the elements up to each along an axis, in the order that [`crate::reference`] defines.
    Cumsum = "cumsum", [], Scan, "(x: tensor, axis: axis)", AlongAxis, Summed, Native, PerResult(1), Rule;
    /// The products of the elements up to each along an axis, in the order of `cumsum`.
    Cumprod = "cumprod", [], Scan, "(x: tensor, axis: axis)", AlongAxis, Summed, Native, PerResult(1), Rule;
    /// The largest of the elements up to each along an axis; NaN from the first NaN on.
    Cummax = "cummax", [], Scan, "(x: tensor, axis: axis)", AlongAxis, KEPT, Native, PerResult(1), Rule,
        kinks "All of it to the first of equal elements.";
    /// The smallest of the elements up to each along an axis; NaN from the first NaN on.
    Cummin = "cummin", [], Scan, "(x: tensor, axis: axis)", AlongAxis, KEPT, Native, PerResult(1), Rule,
        kinks "All of it to the first of equal elements.";
    /// Combines the elements up to each along an axis: `combine` is `"add"`, `"multiply"`, `"maximum"` or `"minimum"`. It is `cumsum`,
    /// `cumprod`, `cummax` or `cummin`.
    Scan = "scan", [], TensorKernelKind::Scan, "(x: tensor, axis: axis, combine: text = add)", ShapeRule::Scan, DtypeRule::Scanned, Composite, PerResult(1), OfDecomposition;
    /// The states of a linear system along an axis: the first is that of `b`, and each other `a` times the one before plus `b`, one
    /// fused multiply-add.
    LinearRecurrence = "linear_recurrence", [], TensorKernelKind::Scan, "(a: tensor, b: tensor, axis: axis)", ShapeRule::Recurrence, Promoted(Number), Native, PerResult(2), Rule;

    // ---- sorting ----------------------------------------------------------------------------------------------------
    /// Sorts along an axis. -0.0 comes before 0.0, and NaN, which becomes the canonical one, after all numbers; with `descending`
    /// all is the other way round, so that NaN comes first.
    Sort = "sort", [], Sort, "(x: tensor, axis: axis = -1, descending: bool = false)", AlongAxis, KEPT, Composite, PerOperand(50), Rule,
        kinks "Equal elements get the cotangents of their places in the order that they have in `x`.";
    /// The indices that sort along an axis, in the order of `sort`: -0.0 comes before 0.0. Of equal elements, as all NaN are, the one
    /// with the lower index comes first, also with `descending`.
    Argsort = "argsort", [], Sort, "(x: tensor, axis: axis = -1, descending: bool = false)", AlongAxis, Indexed, Composite, PerOperand(60), Zero;
    /// The indices of the `k` largest elements along an axis, or smallest, as `argsort` gives them: NaN is above all numbers, and of
    /// equal elements the one with the lower index comes first. `topk` gives the elements too.
    TopkIndices = "topk_indices", [], Sort, "(x: tensor, k: int, axis: axis = -1, largest: bool = true)", ShapeRule::Topk, Indexed, Composite, PerOperand(60), Zero;
    /// Sorts numbers of type `uint32` or `uint64` along an axis. The other sorts are made of it.
    SortKeys = "sort_keys", [], Sort, "(x: tensor, axis: axis = -1)", AlongAxis, Promoted(SortKey), Native, PerOperand(50), Zero;

    // ---- views and movement -----------------------------------------------------------------------------------------
    /// The elements in row-major order, in another shape. One extent may be -1.
    Reshape = "reshape", [], TensorKernelKind::View, "(x: tensor, shape: shape)", ShapeRule::Reshape, KEPT, OpDefinition::View, Free, Rule;
    /// Orders the axes anew: axis i of the result is axis `axes[i]`.
    Permute = "permute", [], TensorKernelKind::View, "(x: tensor, axes: ints)", ShapeRule::Permute, KEPT, OpDefinition::View, Free, Rule;
    /// Exchanges two axes.
    Transpose = "transpose", ["swapaxes"], TensorKernelKind::View, "(x: tensor, axis1: axis = -2, axis2: axis = -1)", ShapeRule::Transpose, KEPT, Composite, Free, OfDecomposition;
    /// Takes `sizes[i]` elements along axis i, from `starts[i]` on in steps of `steps[i]`, which may be negative.
    Slice = "slice", [], TensorKernelKind::View, "(x: tensor, starts: ints, sizes: shape, steps: ints)", ShapeRule::Slice, KEPT, OpDefinition::View, Free, Rule;
    /// Reverses axes.
    Flip = "flip", [], TensorKernelKind::View, "(x: tensor, axes: axes = none)", ShapeRule::Flip, KEPT, OpDefinition::View, Free, Rule;
    /// Cuts `axes` into windows, which may overlap: such an axis numbers windows, `steps[i]` apart, and a new one at the end has the
    /// `sizes[i]` elements of each, `dilations[i]` apart.
    Windows = "windows", [], TensorKernelKind::View, "(x: tensor, axes: ints, sizes: ints, steps: ints, dilations: ints)", ShapeRule::Windows, KEPT, OpDefinition::View, Free, Rule;
    /// Repeats elements along new leading axes and axes of extent 1.
    BroadcastTo = "broadcast_to", ["expand"], TensorKernelKind::View, "(x: tensor, shape: shape)", ShapeRule::BroadcastTo, KEPT, OpDefinition::View, Free, Rule;
    /// Copies into memory without gaps, in row-major order.
    Contiguous = "contiguous", ["copy"], Elementwise, "(x: tensor)", First, KEPT, Native, Move, Rule;
    /// Takes, at each place, the element along an axis that an index tells, as NumPy's `take_along_axis`: `index` has as many axes as
    /// `x`, and the others broadcast. An index below 0 counts from the end, and one that is out of range is the nearest that is not.
    Gather = "gather", ["take_along_axis"], Custom, "(x: tensor, index: tensor, axis: axis)", ShapeRule::Gather, Indices, Native, Move, Rule;
    /// Takes the slices of an axis that indices tell, as NumPy's `take`. Indices are as those of `gather`.
    Take = "take", [], Custom, "(x: tensor, index: tensor, axis: axis)", ShapeRule::Take, Indices, Composite, Move, OfDecomposition;
    /// Takes the rows of `weight` that indices tell: the vectors of tokens.
    Embedding = "embedding", [], Custom, "(weight: tensor, index: tensor)", ShapeRule::Embedding, Indices, Composite, Move, OfDecomposition;
    /// Adds `updates` to the elements of `x` along an axis that `index` tells, one after the other in ascending order, so that the
    /// result is the same each time. An index below 0 counts from the end; an update with one that is out of range is left out.
    ScatterAdd = "scatter_add", [], Custom, "(x: tensor, index: tensor, updates: tensor, axis: axis)", ShapeRule::ScatterAdd, Indices, Native, PerResult(1), Rule;
    /// 1 at each class along a new last axis and 0 elsewhere; 0 everywhere for an index that is no class.
    OneHot = "one_hot", [], Elementwise, "(index: tensor, classes: int, dtype: dtype = f32)", ShapeRule::OneHot, DtypeRule::Given, Composite, PerResult(1), Zero;
    /// Joins tensors along an axis.
    Concat = "concat", ["concatenate"], Elementwise, "(x: tensor*, axis: axis = 0)", ShapeRule::Concat, Promoted(Any), Native, Move, Rule;
    /// Joins tensors along a new axis.
    Stack = "stack", [], Elementwise, "(x: tensor*, axis: axis = 0)", ShapeRule::Stack, Promoted(Any), Composite, Move, OfDecomposition;
    /// Adds `widths[2 * i]` elements of `value` before axis i and `widths[2 * i + 1]` after it.
    Pad = "pad", [], Elementwise, "(x: tensor, widths: ints, value: float = 0)", ShapeRule::Pad, KEPT, Native, Move, Rule;
    /// Repeats the whole along each axis.
    Tile = "tile", [], Elementwise, "(x: tensor, repeats: ints)", ShapeRule::Tile, KEPT, Composite, Move, OfDecomposition;

    // ---- sources and random numbers ---------------------------------------------------------------------------------
    /// The index of each element along an axis.
    Iota = "iota", [], Elementwise, "(shape: shape, axis: axis = 0, dtype: dtype = i64)", ShapeRule::Given, DtypeRule::Given, Native, PerResult(1), Zero;
    /// The number of elements along axes, a scalar. It is an op for the sake of extents that are symbols.
    ElementCount = "element_count", [], Custom, "(x: tensor, axes: axes = none, dtype: dtype = i64)", ShapeRule::Scalar, DtypeRule::Given, Native, Free, Zero;
    /// Random numbers uniform on [0, 1), in steps of 2⁻²⁴. Element i in row-major order is `randf` after `rand_init(seed, i)`.
    Rand = "rand", [], Elementwise, "(seed: tensor, shape: shape, dtype: dtype = f32)", ShapeRule::Given, Random, Native, PerResult(20), Zero;
    /// Random numbers of the normal distribution. Element i in row-major order is `randn` after `rand_init(seed, i)`.
    Randn = "randn", [], Elementwise, "(seed: tensor, shape: shape, dtype: dtype = f32)", ShapeRule::Given, Random, Native, PerResult(80), Zero;
    /// Zero with probability `p`, by `rand` of the seed; the others are divided by `1 - p`.
    Dropout = "dropout", [], Elementwise, "(x: tensor, seed: tensor, p: float = 0.5)", First, Seeded, Composite, PerResult(24), OfDecomposition;

    // ---- contractions -----------------------------------------------------------------------------------------------
    /// The product of matrices, or of batches of them, which broadcast. A first vector is a row, a second a column, and that axis is
    /// dropped from the result. Each element is one chain of fused multiply-adds, as [`crate::reference`] defines.
    MatMul = "matmul", [], Matmul, "(a: tensor, b: tensor)", ShapeRule::Matmul, Promoted(Any), Native, Contraction, Rule;
    /// Multiplies and sums. Each axis of `a`, of `b` and of the result has a label, which is a number, and axes of one label have one
    /// extent. Labels that the result lacks are of both operands and are summed over: a chain as that of `matmul`, whose elements are
    /// in row-major order of these axes as `a` has them.
    Contract = "contract", [], Matmul, "(a: tensor, b: tensor, a_labels: ints, b_labels: ints, labels: ints)", ShapeRule::Contract, Promoted(Any), Native, Contraction, Rule;
    /// Multiplies tensors and sums, as NumPy's `einsum` of an equation such as `"ij,jk->ik"`. More than two are multiplied from the
    /// left on.
    Einsum = "einsum", [], Matmul, "(a: tensor, b: tensor?, c: tensor?, d: tensor?, equation: text)", ShapeRule::Einsum, Promoted(Any), Composite, Contraction, OfDecomposition;
    /// `x @ transpose(weight) + bias`, for a weight of shape `[outputs, inputs]`.
    Linear = "linear", [], Matmul, "(x: tensor, weight: tensor, bias: tensor?)", ShapeRule::Linear, Promoted(Number), Composite, Contraction, OfDecomposition;
    /// The softmax of scaled products of queries with keys, times values, without a matrix of weights: `q` is
    /// `[batch…, queries, width]`, `k` `[batch…, keys, width]`, `v` `[batch…, keys, columns]`. The scale is one divided by the root of the width
    /// if none is given. With `causal` a query looks at no key that comes after it, where the last query is the last key's.
    Attention = "attention", ["scaled_dot_product_attention"], TensorKernelKind::Attention, "(q: tensor, k: tensor, v: tensor, causal: bool = false, scale: float = none)", ShapeRule::Attention, Quotient, Native, Contraction, Rule;
    /// Convolves `x`, `[batch, channels, length]`, with `weight`, `[outputs, channels / groups, size]`, and adds `bias`, of one element
    /// for each output. Zeros are added on both sides: so many as `padding`, or as its two numbers say.
    Conv1d = "conv1d", [], Conv2d, "(x: tensor, weight: tensor, bias: tensor?, stride: ints = none, padding: ints = none, dilation: ints = none, groups: int = 1)", ShapeRule::Convolution(1), Promoted(Number), Composite, Contraction, Rule;
    /// Convolves `x`, `[batch, channels, height, width]`, with `weight`, `[outputs, channels / groups, rows, columns]`, and adds `bias`,
    /// of one element for each output. Zeros are added around each axis: so many as `padding` has for it, or pairs of them.
    Conv2d = "conv2d", [], Conv2d, "(x: tensor, weight: tensor, bias: tensor?, stride: ints = none, padding: ints = none, dilation: ints = none, groups: int = 1)", ShapeRule::Convolution(2), Promoted(Number), Composite, Contraction, Rule;

    // ---- pooling ----------------------------------------------------------------------------------------------------
    /// The largest element of each window over the last two axes; NaN if one is. A window is of `size` and moves by `stride`, its own
    /// size if none is given. What `padding` adds is below all numbers.
    MaxPool2d = "max_pool2d", [], Reduce, "(x: tensor, size: ints, stride: ints = none, padding: ints = none, dilation: ints = none)", ShapeRule::Pool, KEPT, Composite, PerOperand(1), OfDecomposition,
        kinks "All of it to the first of equal elements of a window.";
    /// The mean of each window over the last two axes, as of `max_pool2d`. What `padding` adds counts only if `count_padding`.
    AvgPool2d = "avg_pool2d", [], Reduce, "(x: tensor, size: ints, stride: ints = none, padding: ints = none, count_padding: bool = false)", ShapeRule::Pool, Quotient, Composite, PerOperand(1), OfDecomposition;
}
