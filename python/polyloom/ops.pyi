# Generated from the table of tensor ops by `make stubs`.
from collections.abc import Sequence
from typing import Any

# A NumPy array or number, a polyloom.array, a PyTorch tensor, or a Python number.
TensorLike = Any

def add(a: TensorLike, b: TensorLike) -> Any:
    """Adds. Of ``bool`` it is ``or``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def subtract(a: TensorLike, b: TensorLike) -> Any:
    """Subtracts.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def sub(a: TensorLike, b: TensorLike) -> Any:
    """Subtracts.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def multiply(a: TensorLike, b: TensorLike) -> Any:
    """Multiplies. Of ``bool`` it is ``and``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def mul(a: TensorLike, b: TensorLike) -> Any:
    """Multiplies. Of ``bool`` it is ``and``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def divide(a: TensorLike, b: TensorLike) -> Any:
    """Divides. The quotient of integers is a ``float64``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted; float64 of integers.
    """

def true_divide(a: TensorLike, b: TensorLike) -> Any:
    """Divides. The quotient of integers is a ``float64``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted; float64 of integers.
    """

def div(a: TensorLike, b: TensorLike) -> Any:
    """Divides. The quotient of integers is a ``float64``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted; float64 of integers.
    """

def floor_divide(a: TensorLike, b: TensorLike) -> Any:
    """Divides and rounds down. An integer divided by 0 is 0.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool counts as int8.
    """

def remainder(a: TensorLike, b: TensorLike) -> Any:
    """The remainder of ``floor_divide``, with the sign of the divisor. That of an integer by 0 is 0.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool counts as int8.
    """

def mod(a: TensorLike, b: TensorLike) -> Any:
    """The remainder of ``floor_divide``, with the sign of the divisor. That of an integer by 0 is 0.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool counts as int8.
    """

def power(a: TensorLike, b: TensorLike) -> Any:
    """Raises to a power. A negative power of an integer is 0.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool counts as int8.
    """

def pow(a: TensorLike, b: TensorLike) -> Any:
    """Raises to a power. A negative power of an integer is 0.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool counts as int8.
    """

def negative(x: TensorLike) -> Any:
    """Changes the sign.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def neg(x: TensorLike) -> Any:
    """Changes the sign.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def absolute(x: TensorLike) -> Any:
    """The magnitude.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def abs(x: TensorLike) -> Any:
    """The magnitude.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def sign(x: TensorLike) -> Any:
    """-1, 0 or 1, as the number is below, at or above zero; NaN for NaN.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def square(x: TensorLike) -> Any:
    """The product with itself.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool counts as int8.
    """

def reciprocal(x: TensorLike) -> Any:
    """One divided by the number. Of integers it is a ``float64``, unlike NumPy's.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted; float64 of integers.
    """

def maximum(a: TensorLike, b: TensorLike) -> Any:
    """The larger; NaN if either is.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def minimum(a: TensorLike, b: TensorLike) -> Any:
    """The smaller; NaN if either is.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def clip(x: TensorLike, lower: TensorLike, upper: TensorLike) -> Any:
    """The number, or the nearer of two limits if it is outside of them; the upper one if they cross. None is no limit.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def clamp(x: TensorLike, lower: TensorLike, upper: TensorLike) -> Any:
    """The number, or the nearer of two limits if it is outside of them; the upper one if they cross. None is no limit.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def floor(x: TensorLike) -> Any:
    """Rounds down. Integers stay as they are.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def ceil(x: TensorLike) -> Any:
    """Rounds up. Integers stay as they are.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def trunc(x: TensorLike) -> Any:
    """Rounds toward zero. Integers stay as they are.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def round(x: TensorLike) -> Any:
    """Rounds to the nearest integer, ties to even. Integers stay as they are.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def copysign(a: TensorLike, b: TensorLike) -> Any:
    """The magnitude of one number with the sign of another.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def sqrt(x: TensorLike) -> Any:
    """The square root.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def rsqrt(x: TensorLike) -> Any:
    """One divided by the square root.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def cbrt(x: TensorLike) -> Any:
    """The cube root.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def exp(x: TensorLike) -> Any:
    """e to a power.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def exp2(x: TensorLike) -> Any:
    """2 to a power.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def expm1(x: TensorLike) -> Any:
    """e to a power, less 1, exact near 0.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def log(x: TensorLike) -> Any:
    """The natural logarithm.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def log2(x: TensorLike) -> Any:
    """The logarithm to base 2.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def log10(x: TensorLike) -> Any:
    """The logarithm to base 10.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def log1p(x: TensorLike) -> Any:
    """The natural logarithm of the number plus 1, exact near 0.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def sin(x: TensorLike) -> Any:
    """The sine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def cos(x: TensorLike) -> Any:
    """The cosine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def tan(x: TensorLike) -> Any:
    """The tangent.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def asin(x: TensorLike) -> Any:
    """The inverse sine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def arcsin(x: TensorLike) -> Any:
    """The inverse sine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def acos(x: TensorLike) -> Any:
    """The inverse cosine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def arccos(x: TensorLike) -> Any:
    """The inverse cosine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def atan(x: TensorLike) -> Any:
    """The inverse tangent.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def arctan(x: TensorLike) -> Any:
    """The inverse tangent.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def atan2(a: TensorLike, b: TensorLike) -> Any:
    """The angle of the point ``(b, a)``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def arctan2(a: TensorLike, b: TensorLike) -> Any:
    """The angle of the point ``(b, a)``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def sinh(x: TensorLike) -> Any:
    """The hyperbolic sine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def cosh(x: TensorLike) -> Any:
    """The hyperbolic cosine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def tanh(x: TensorLike) -> Any:
    """The hyperbolic tangent.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def asinh(x: TensorLike) -> Any:
    """The inverse hyperbolic sine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def arcsinh(x: TensorLike) -> Any:
    """The inverse hyperbolic sine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def acosh(x: TensorLike) -> Any:
    """The inverse hyperbolic cosine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def arccosh(x: TensorLike) -> Any:
    """The inverse hyperbolic cosine.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def atanh(x: TensorLike) -> Any:
    """The inverse hyperbolic tangent.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def arctanh(x: TensorLike) -> Any:
    """The inverse hyperbolic tangent.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def erf(x: TensorLike) -> Any:
    """The error function.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def erfc(x: TensorLike) -> Any:
    """1 less the error function, exact where that is near 1.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def hypot(a: TensorLike, b: TensorLike) -> Any:
    """The length of the vector ``(a, b)``, without overflow.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def isnan(x: TensorLike) -> Any:
    """True for NaN.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def isinf(x: TensorLike) -> Any:
    """True for both infinities.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def isfinite(x: TensorLike) -> Any:
    """False for NaN and infinities.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def equal(a: TensorLike, b: TensorLike) -> Any:
    """True where both are equal; NaN is not equal to anything.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def eq(a: TensorLike, b: TensorLike) -> Any:
    """True where both are equal; NaN is not equal to anything.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def not_equal(a: TensorLike, b: TensorLike) -> Any:
    """True where they are not equal.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def ne(a: TensorLike, b: TensorLike) -> Any:
    """True where they are not equal.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def less(a: TensorLike, b: TensorLike) -> Any:
    """True where the first is smaller.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def lt(a: TensorLike, b: TensorLike) -> Any:
    """True where the first is smaller.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def less_equal(a: TensorLike, b: TensorLike) -> Any:
    """True where the first is smaller or equal.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def le(a: TensorLike, b: TensorLike) -> Any:
    """True where the first is smaller or equal.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def greater(a: TensorLike, b: TensorLike) -> Any:
    """True where the first is larger.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def gt(a: TensorLike, b: TensorLike) -> Any:
    """True where the first is larger.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def greater_equal(a: TensorLike, b: TensorLike) -> Any:
    """True where the first is larger or equal.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def ge(a: TensorLike, b: TensorLike) -> Any:
    """True where the first is larger or equal.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def logical_and(a: TensorLike, b: TensorLike) -> Any:
    """True where both are not zero.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def logical_or(a: TensorLike, b: TensorLike) -> Any:
    """True where either is not zero.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def logical_xor(a: TensorLike, b: TensorLike) -> Any:
    """True where one alone is not zero.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def logical_not(x: TensorLike) -> Any:
    """True where the number is zero.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: bool.
    """

def bitwise_and(a: TensorLike, b: TensorLike) -> Any:
    """The bits that both have.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; floats are refused.
    """

def bitwise_or(a: TensorLike, b: TensorLike) -> Any:
    """The bits that either has.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; floats are refused.
    """

def bitwise_xor(a: TensorLike, b: TensorLike) -> Any:
    """The bits that one alone has.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; floats are refused.
    """

def invert(x: TensorLike) -> Any:
    """The bits that it does not have.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; floats are refused.
    """

def bitwise_not(x: TensorLike) -> Any:
    """The bits that it does not have.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; floats are refused.
    """

def left_shift(a: TensorLike, b: TensorLike) -> Any:
    """Shifts bits to the left. A count that is not below the width gives 0.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; floats are refused, and bool counts as int8.
    """

def right_shift(a: TensorLike, b: TensorLike) -> Any:
    """Shifts bits to the right, with copies of the sign bit if the type is signed.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; floats are refused, and bool counts as int8.
    """

def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Any:
    """One of two values, by a condition.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted of `a` and `b`.
    """

def cast(x: TensorLike, dtype: Any) -> Any:
    """Converts to another type. A float becomes an integer toward zero, at most the largest, and 0 for NaN.

    Shape: The shape of the first argument.
    Element type: `dtype`.
    """

def astype(x: TensorLike, dtype: Any) -> Any:
    """Converts to another type. A float becomes an integer toward zero, at most the largest, and 0 for NaN.

    Shape: The shape of the first argument.
    Element type: `dtype`.
    """

def bitcast(x: TensorLike, dtype: Any) -> Any:
    """The number with the same bits in another type of the same size. The bits of a NaN are those of the canonical one. ``bool`` is refused.

    Shape: The shape of the first argument.
    Element type: `dtype`.
    """

def relu(x: TensorLike) -> Any:
    """The number if it is above 0, else 0; NaN for NaN.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def leaky_relu(x: TensorLike, negative_slope: float = 0.01) -> Any:
    """The number if it is above 0, else its product with ``negative_slope``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def gelu(x: TensorLike, approximate: str | None = None) -> Any:
    """``x * (1 + erf(x / sqrt(2))) / 2``, or with ``approximate`` ``"tanh"`` ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def silu(x: TensorLike) -> Any:
    """``x * sigmoid(x)``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def swish(x: TensorLike) -> Any:
    """``x * sigmoid(x)``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def sigmoid(x: TensorLike) -> Any:
    """``1 / (1 + exp(-x))``.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def softplus(x: TensorLike) -> Any:
    """``log(1 + exp(x))``, as ``maximum(x, 0) + log1p(exp(-abs(x)))``, which does not overflow.

    Shape: The shape that the arguments broadcast to, as in NumPy.
    Element type: Promoted, and made a float: 8-bit integers float16, 16-bit ones float32, others float64.
    """

def sum(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The sum along axes, in the order that the design page of fusion defines. That of nothing is 0.

    Shape: The shape of `x` without `axes`, or with extents of 1 with `keepdims`.
    Element type: That of `x`; int64 or uint64 of smaller integers.
    """

def prod(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The product along axes, in the order of ``sum``. That of nothing is 1.

    Shape: The shape of `x` without `axes`, or with extents of 1 with `keepdims`.
    Element type: That of `x`; int64 or uint64 of smaller integers.
    """

def max(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The largest along axes; NaN if one is.

    Shape: The shape of `x` without `axes`, which may not be empty, or with extents of 1 with `keepdims`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def amax(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The largest along axes; NaN if one is.

    Shape: The shape of `x` without `axes`, which may not be empty, or with extents of 1 with `keepdims`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def min(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The smallest along axes; NaN if one is.

    Shape: The shape of `x` without `axes`, which may not be empty, or with extents of 1 with `keepdims`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def amin(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The smallest along axes; NaN if one is.

    Shape: The shape of `x` without `axes`, which may not be empty, or with extents of 1 with `keepdims`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first of the largest along an axis, or in all in row-major order; of the first NaN if there is one.

    Shape: The shape of `x` without `axis`, which may not be empty, or with extent 1.
    Element type: int64.
    """

def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first of the smallest along an axis, or in all in row-major order; of the first NaN if there is one.

    Shape: The shape of `x` without `axis`, which may not be empty, or with extent 1.
    Element type: int64.
    """

def all(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """True if all along axes are not zero.

    Shape: The shape of `x` without `axes`, or with extents of 1 with `keepdims`.
    Element type: bool.
    """

def any(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """True if any along axes is not zero.

    Shape: The shape of `x` without `axes`, or with extents of 1 with `keepdims`.
    Element type: bool.
    """

def mean(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The sum along axes divided by their number of elements; NaN if there are none.

    Shape: The shape of `x` without `axes`, or with extents of 1 with `keepdims`.
    Element type: Promoted; float64 of integers.
    """

def var(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False, correction: int = 0) -> Any:
    """The sum of squared differences from the mean, divided by the number of elements less ``correction``.

    Shape: The shape of `x` without `axes`, or with extents of 1 with `keepdims`.
    Element type: Promoted; float64 of integers.
    """

def std(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False, correction: int = 0) -> Any:
    """The square root of ``var``.

    Shape: The shape of `x` without `axes`, or with extents of 1 with `keepdims`.
    Element type: Promoted; float64 of integers.
    """

def logsumexp(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exponentials along axes, without overflow.

    Shape: The shape of `x` without `axes`, which may not be empty, or with extents of 1 with `keepdims`.
    Element type: Promoted; float64 of integers.
    """

def norm(x: TensorLike, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    """The square root of the sum of squares along axes.

    Shape: The shape of `x` without `axes`, or with extents of 1 with `keepdims`.
    Element type: Promoted; float64 of integers.
    """

def softmax(x: TensorLike, axis: int = -1) -> Any:
    """Exponentials along an axis, divided by their sum.

    Shape: The shape of the first argument.
    Element type: Promoted; float64 of integers.
    """

def log_softmax(x: TensorLike, axis: int = -1) -> Any:
    """The logarithm of ``softmax``.

    Shape: The shape of the first argument.
    Element type: Promoted; float64 of integers.
    """

def layer_norm(x: TensorLike, weight: TensorLike | None = None, bias: TensorLike | None = None, axis: int = -1, epsilon: float = 1e-5) -> Any:
    """Subtracts the mean over the axes from ``axis`` on and divides by the root of the variance plus ``epsilon``, then multiplies by ``weight`` and adds ``bias``, which have the shape of these axes.

    Shape: The shape of `x`. Weight and bias have the shape of its axes from `axis` on.
    Element type: Promoted; float64 of integers.
    """

def rms_norm(x: TensorLike, weight: TensorLike | None = None, axis: int = -1, epsilon: float = 1e-6) -> Any:
    """Divides by the root of the mean square over the axes from ``axis`` on plus ``epsilon``, then multiplies by ``weight``.

    Shape: The shape of `x`. Weight and bias have the shape of its axes from `axis` on.
    Element type: Promoted; float64 of integers.
    """

def group_norm(x: TensorLike, weight: TensorLike | None = None, bias: TensorLike | None = None, *, groups: int, epsilon: float = 1e-5) -> Any:
    """Normalises as ``layer_norm`` over groups of channels, which are axis 1, and all axes after it, then multiplies by the channel's ``weight`` and adds its ``bias``.

    Shape: The shape of `x`, whose axis 1 is split into `groups`. Weight and bias have its extent.
    Element type: Promoted; float64 of integers.
    """

def cross_entropy(logits: TensorLike, target: TensorLike, reduction: str | None = "mean") -> Any:
    """The negative logarithm of ``softmax`` along axis 1, or the only one, at the class ``target``; 0 where that is no class. ``reduction`` is ``"mean"`` over all targets, ``"sum"`` or ``"none"``.

    Shape: The shape of `target` with `reduction` `"none"`; otherwise no axes.
    Element type: That of the first argument; float64 of integers.
    """

def cumsum(x: TensorLike, axis: int) -> Any:
    """The sums of the elements up to each along an axis, in the order that the design page of fusion defines.

    Shape: The shape of the first argument.
    Element type: That of `x`; int64 or uint64 of smaller integers.
    """

def cumprod(x: TensorLike, axis: int) -> Any:
    """The products of the elements up to each along an axis, in the order of ``cumsum``.

    Shape: The shape of the first argument.
    Element type: That of `x`; int64 or uint64 of smaller integers.
    """

def cummax(x: TensorLike, axis: int) -> Any:
    """The largest of the elements up to each along an axis; NaN from the first NaN on.

    Shape: The shape of the first argument.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def cummin(x: TensorLike, axis: int) -> Any:
    """The smallest of the elements up to each along an axis; NaN from the first NaN on.

    Shape: The shape of the first argument.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def scan(x: TensorLike, axis: int, combine: str | None = "add") -> Any:
    """Combines the elements up to each along an axis: ``combine`` is ``"add"``, ``"multiply"``, ``"maximum"`` or ``"minimum"``. It is ``cumsum``, ``cumprod``, ``cummax`` or ``cummin``.

    Shape: The shape of the first argument.
    Element type: That of `x`; sums and products of smaller integers are int64 or uint64.
    """

def linear_recurrence(a: TensorLike, b: TensorLike, axis: int) -> Any:
    """The states of a linear system along an axis: the first is that of ``b``, and each other ``a`` times the one before plus ``b``, one fused multiply-add.

    Shape: What `a` and `b` broadcast to.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def sort(x: TensorLike, axis: int = -1, descending: bool = False) -> Any:
    """Sorts along an axis. -0.0 comes before 0.0, and NaN, which becomes the canonical one, after all numbers; with ``descending`` all is the other way round, so that NaN comes first.

    Shape: The shape of the first argument.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def argsort(x: TensorLike, axis: int = -1, descending: bool = False) -> Any:
    """The indices that sort along an axis, in the order of ``sort``: -0.0 comes before 0.0. Of equal elements, as all NaN are, the one with the lower index comes first, also with ``descending``.

    Shape: The shape of the first argument.
    Element type: int64.
    """

def topk_indices(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> Any:
    """The indices of the ``k`` largest elements along an axis, or smallest, as ``argsort`` gives them: NaN is above all numbers, and of equal elements the one with the lower index comes first. ``topk`` gives the elements too.

    Shape: The shape of `x` with `k` elements along `axis`.
    Element type: int64.
    """

def sort_keys(x: TensorLike, axis: int = -1) -> Any:
    """Sorts numbers of type ``uint32`` or ``uint64`` along an axis. The other sorts are made of it.

    Shape: The shape of the first argument.
    Element type: That of `x`.
    """

def reshape(x: TensorLike, shape: int | Sequence[int]) -> Any:
    """The elements in row-major order, in another shape. One extent may be -1.

    Shape: `shape`, of as many elements.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def permute(x: TensorLike, axes: int | Sequence[int]) -> Any:
    """Orders the axes anew: axis i of the result is axis ``axes[i]``.

    Shape: The extents of `x` in the order of `axes`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def transpose(x: TensorLike, axis1: int = -2, axis2: int = -1) -> Any:
    """Exchanges two axes.

    Shape: The shape of `x` with two extents exchanged.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def swapaxes(x: TensorLike, axis1: int = -2, axis2: int = -1) -> Any:
    """Exchanges two axes.

    Shape: The shape of `x` with two extents exchanged.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def slice(x: TensorLike, starts: int | Sequence[int | None] | None, stops: int | Sequence[int | None] | None = None, steps: int | Sequence[int | None] | None = None) -> Any:
    """Takes elements along the leading axes as Python's slices do: from ``starts`` to before ``stops`` in steps of ``steps``. Negative limits count from the end, and None is no limit.

    Shape: As many elements along each axis as the slice takes.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def flip(x: TensorLike, axes: int | Sequence[int] | None = None) -> Any:
    """Reverses axes.

    Shape: The shape of `x`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def windows(x: TensorLike, axes: int | Sequence[int], sizes: int | Sequence[int], steps: int | Sequence[int | None] | None, dilations: int | Sequence[int]) -> Any:
    """Cuts ``axes`` into windows, which may overlap: such an axis numbers windows, ``steps[i]`` apart, and a new one at the end has the ``sizes[i]`` elements of each, ``dilations[i]`` apart.

    Shape: The shape of `x` with numbers of windows along `axes`, and `sizes` at the end.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def broadcast_to(x: TensorLike, shape: int | Sequence[int]) -> Any:
    """Repeats elements along new leading axes and axes of extent 1.

    Shape: `shape`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def expand(x: TensorLike, shape: int | Sequence[int]) -> Any:
    """Repeats elements along new leading axes and axes of extent 1.

    Shape: `shape`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def contiguous(x: TensorLike) -> Any:
    """Copies into memory without gaps, in row-major order.

    Shape: The shape of the first argument.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def copy(x: TensorLike) -> Any:
    """Copies into memory without gaps, in row-major order.

    Shape: The shape of the first argument.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def gather(x: TensorLike, index: TensorLike, axis: int) -> Any:
    """Takes, at each place, the element along an axis that an index tells, as NumPy's ``take_along_axis``: ``index`` has as many axes as ``x``, and the others broadcast. An index below 0 counts from the end, and one that is out of range is the nearest that is not.

    Shape: The extent of `index` along `axis`; along the others what both broadcast to.
    Element type: That of `x`, promoted with the updates if there are any. Indices are integers.
    """

def take_along_axis(x: TensorLike, index: TensorLike, axis: int) -> Any:
    """Takes, at each place, the element along an axis that an index tells, as NumPy's ``take_along_axis``: ``index`` has as many axes as ``x``, and the others broadcast. An index below 0 counts from the end, and one that is out of range is the nearest that is not.

    Shape: The extent of `index` along `axis`; along the others what both broadcast to.
    Element type: That of `x`, promoted with the updates if there are any. Indices are integers.
    """

def take(x: TensorLike, index: TensorLike, axis: int) -> Any:
    """Takes the slices of an axis that indices tell, as NumPy's ``take``. Indices are as those of ``gather``.

    Shape: The shape of `x` with the axes of `index` in place of `axis`.
    Element type: That of `x`, promoted with the updates if there are any. Indices are integers.
    """

def embedding(weight: TensorLike, index: TensorLike) -> Any:
    """Takes the rows of ``weight`` that indices tell: the vectors of tokens.

    Shape: The shape of `index` with the extent of a row at the end.
    Element type: That of `x`, promoted with the updates if there are any. Indices are integers.
    """

def scatter_add(x: TensorLike, index: TensorLike, updates: TensorLike, axis: int) -> Any:
    """Adds ``updates`` to the elements of ``x`` along an axis that ``index`` tells, one after the other in ascending order, so that the result is the same each time. An index below 0 counts from the end; an update with one that is out of range is left out.

    Shape: The shape of `x`. `updates` differ from it along `axis` alone, and `index` broadcasts to them.
    Element type: That of `x`, promoted with the updates if there are any. Indices are integers.
    """

def one_hot(index: TensorLike, classes: int, dtype: Any = "float32") -> Any:
    """1 at each class along a new last axis and 0 elsewhere; 0 everywhere for an index that is no class.

    Shape: The shape of `index` with `classes` at the end.
    Element type: `dtype`.
    """

def concat(x: Sequence[TensorLike], axis: int = 0) -> Any:
    """Joins tensors along an axis.

    Shape: The shape of the first tensor with the sum of the extents along `axis`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def concatenate(x: Sequence[TensorLike], axis: int = 0) -> Any:
    """Joins tensors along an axis.

    Shape: The shape of the first tensor with the sum of the extents along `axis`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def stack(x: Sequence[TensorLike], axis: int = 0) -> Any:
    """Joins tensors along a new axis.

    Shape: The shape of the tensors with a new axis, as long as there are tensors.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def pad(x: TensorLike, widths: int | Sequence[int] | Sequence[Sequence[int]], value: float = 0.0) -> Any:
    """Adds elements of ``value`` before and after each axis: ``widths`` is a number for all, a pair for all axes, or a pair for each.

    Shape: The extents of `x`, each grown by two widths.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def tile(x: TensorLike, repeats: int | Sequence[int]) -> Any:
    """Repeats the whole along each axis; along leading axes once if ``repeats`` has fewer numbers.

    Shape: The extents of `x`, each multiplied.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def iota(shape: int | Sequence[int], axis: int = 0, dtype: Any = "int64") -> Any:
    """The index of each element along an axis.

    Shape: `shape`.
    Element type: `dtype`.
    """

def element_count(x: TensorLike, axes: int | Sequence[int] | None = None, dtype: Any = "int64") -> Any:
    """The number of elements along axes, a scalar. It is an op for the sake of extents that are symbols.

    Shape: No axes.
    Element type: `dtype`.
    """

def rand(seed: TensorLike, shape: int | Sequence[int], dtype: Any = "float32") -> Any:
    """Random numbers uniform on [0, 1), in steps of 2⁻²⁴. Element i in row-major order is ``randf`` after ``rand_init(seed, i)``.

    Shape: `shape`.
    Element type: `dtype`, a float.
    """

def randn(seed: TensorLike, shape: int | Sequence[int], dtype: Any = "float32") -> Any:
    """Random numbers of the normal distribution. Element i in row-major order is ``randn`` after ``rand_init(seed, i)``.

    Shape: `shape`.
    Element type: `dtype`, a float.
    """

def dropout(x: TensorLike, seed: TensorLike, p: float = 0.5) -> Any:
    """Zero with probability ``p``, by ``rand`` of the seed; the others are divided by ``1 - p``.

    Shape: The shape of the first argument.
    Element type: That of the first argument; float64 of integers.
    """

def matmul(a: TensorLike, b: TensorLike) -> Any:
    """The product of matrices, or of batches of them, which broadcast. A first vector is a row, a second a column, and that axis is dropped from the result. Each element is one chain of fused multiply-adds, as the design page of fusion defines.

    Shape: Rows of `a` by columns of `b`; leading axes are batches, which broadcast.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def contract(a: TensorLike, b: TensorLike, a_labels: int | Sequence[int], b_labels: int | Sequence[int], labels: int | Sequence[int]) -> Any:
    """Multiplies and sums. Each axis of ``a``, of ``b`` and of the result has a label, which is a number, and axes of one label have one extent. Labels that the result lacks are of both operands and are summed over: a chain as that of ``matmul``, whose elements are in row-major order of these axes as ``a`` has them.

    Shape: The extents of `labels`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def einsum(equation: str, a: TensorLike, b: TensorLike | None = None, c: TensorLike | None = None, d: TensorLike | None = None) -> Any:
    """Multiplies tensors and sums, as NumPy's ``einsum`` of an equation such as ``"ij,jk->ik"``. More than two are multiplied from the left on.

    Shape: The extents of the letters after `->`.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Any:
    """``x @ transpose(weight) + bias``, for a weight of shape ``[outputs, inputs]``.

    Shape: The shape of `x` with the number of outputs as its last extent.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def attention(q: TensorLike, k: TensorLike, v: TensorLike, causal: bool = False, scale: float | None = None) -> Any:
    """The softmax of scaled products of queries with keys, times values, without a matrix of weights: ``q`` is ``[batch…, queries, width]``, ``k`` ``[batch…, keys, width]``, ``v`` ``[batch…, keys, columns]``. The scale is one divided by the root of the width if none is given. With ``causal`` a query looks at no key that comes after it, where the last query is the last key's.

    Shape: `[batch…, queries, columns of values]`; leading axes are batches, which broadcast.
    Element type: Promoted; float64 of integers.
    """

def scaled_dot_product_attention(q: TensorLike, k: TensorLike, v: TensorLike, causal: bool = False, scale: float | None = None) -> Any:
    """The softmax of scaled products of queries with keys, times values, without a matrix of weights: ``q`` is ``[batch…, queries, width]``, ``k`` ``[batch…, keys, width]``, ``v`` ``[batch…, keys, columns]``. The scale is one divided by the root of the width if none is given. With ``causal`` a query looks at no key that comes after it, where the last query is the last key's.

    Shape: `[batch…, queries, columns of values]`; leading axes are batches, which broadcast.
    Element type: Promoted; float64 of integers.
    """

def conv1d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] | None = None, dilation: int | Sequence[int] | None = None, groups: int = 1) -> Any:
    """Convolves ``x``, ``[batch, channels, length]``, with ``weight``, ``[outputs, channels / groups, size]``, and adds ``bias``, of one element for each output. Zeros are added on both sides: so many as ``padding``, or as its two numbers say.

    Shape: `[batch, outputs, windows]`.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def conv2d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] | None = None, dilation: int | Sequence[int] | None = None, groups: int = 1) -> Any:
    """Convolves ``x``, ``[batch, channels, height, width]``, with ``weight``, ``[outputs, channels / groups, rows, columns]``, and adds ``bias``, of one element for each output. Zeros are added around each axis: so many as ``padding`` has for it, or pairs of them.

    Shape: `[batch, outputs, rows of windows, columns of windows]`.
    Element type: Promoted, as in NumPy 2; bool is refused.
    """

def max_pool2d(x: TensorLike, size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] | None = None, dilation: int | Sequence[int] | None = None) -> Any:
    """The largest element of each window over the last two axes; NaN if one is. A window is of ``size`` and moves by ``stride``, its own size if none is given. What ``padding`` adds is below all numbers.

    Shape: The shape of `x` with the numbers of windows as its last two extents.
    Element type: Promoted, as in NumPy 2: Python numbers take the type of tensors.
    """

def avg_pool2d(x: TensorLike, size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] | None = None, count_padding: bool = False) -> Any:
    """The mean of each window over the last two axes, as of ``max_pool2d``. What ``padding`` adds counts only if ``count_padding``.

    Shape: The shape of `x` with the numbers of windows as its last two extents.
    Element type: Promoted; float64 of integers.
    """

def topk(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:
    """The ``k`` largest elements along an axis, or smallest, in order, and their indices.

    Shape: The shape of `x` with `k` elements along `axis`.
    Element type: That of `x`; int64 of indices.
    """

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "all",
    "amax",
    "amin",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "attention",
    "avg_pool2d",
    "bitcast",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "cast",
    "cbrt",
    "ceil",
    "clamp",
    "clip",
    "concat",
    "concatenate",
    "contiguous",
    "contract",
    "conv1d",
    "conv2d",
    "copy",
    "copysign",
    "cos",
    "cosh",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "div",
    "divide",
    "dropout",
    "einsum",
    "element_count",
    "embedding",
    "eq",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expand",
    "expm1",
    "flip",
    "floor",
    "floor_divide",
    "gather",
    "ge",
    "gelu",
    "greater",
    "greater_equal",
    "group_norm",
    "gt",
    "hypot",
    "invert",
    "iota",
    "isfinite",
    "isinf",
    "isnan",
    "layer_norm",
    "le",
    "leaky_relu",
    "left_shift",
    "less",
    "less_equal",
    "linear",
    "linear_recurrence",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "lt",
    "matmul",
    "max",
    "max_pool2d",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mod",
    "mul",
    "multiply",
    "ne",
    "neg",
    "negative",
    "norm",
    "not_equal",
    "one_hot",
    "pad",
    "permute",
    "pow",
    "power",
    "prod",
    "rand",
    "randn",
    "reciprocal",
    "relu",
    "remainder",
    "reshape",
    "right_shift",
    "rms_norm",
    "round",
    "rsqrt",
    "scaled_dot_product_attention",
    "scan",
    "scatter_add",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "slice",
    "softmax",
    "softplus",
    "sort",
    "sort_keys",
    "sqrt",
    "square",
    "stack",
    "std",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swish",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tile",
    "topk",
    "topk_indices",
    "transpose",
    "true_divide",
    "trunc",
    "var",
    "where",
    "windows",
]
