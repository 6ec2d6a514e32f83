# Generated from the op table by `make stubs`.
from typing import Any, TypeVar, overload

from polyloom._arrays import array as _array

T = TypeVar("T")
U = TypeVar("U")

__all__: list[str]

def tid() -> int:
    """The thread's index; unpacked to two, three or four names, its coordinates."""

def printf(format: str, *values: object) -> None:
    """Prints by a C format string."""

def cast(x: object, dtype: T) -> T:
    """The bits of `x` read as another type of the same size."""

def where(cond: bool, a: T, b: T) -> T:
    """One of two values: `a` if the condition holds, else `b`. Both are computed."""

def select(cond: bool, a: T, b: T) -> T:
    """One of two values: `a` if the condition holds, else `b`. Both are computed."""

def dot(a: Any, b: Any) -> Any:
    """The sum of the products of corresponding components, from the first on."""

def ddot(a: Any, b: Any) -> Any:
    """The sum of the products of corresponding elements of two matrices."""

def cross(a: Any, b: Any) -> Any:
    """The vector at right angles to both, as long as the parallelogram they span is large."""

def length_sq(x: Any) -> Any:
    """The square of the Euclidean length."""

def length(x: Any) -> Any:
    """The Euclidean length."""

def normalize(x: Any) -> Any:
    """The vector divided by its length. A vector of length 0 stays, a quaternion of length 0 becomes the identity."""

def cw_mul(a: Any, b: Any) -> Any:
    """The products of corresponding components."""

def cw_div(a: Any, b: Any) -> Any:
    """The quotients of corresponding components."""

def outer(a: Any, b: Any) -> Any:
    """The matrix of all products of a component of `a`, by row, and one of `b`, by column."""

def transpose(x: Any) -> Any:
    """The matrix with rows and columns exchanged."""

def trace(x: Any) -> Any:
    """The sum of the diagonal."""

def determinant(x: Any) -> Any:
    """The determinant."""

def inverse(x: Any) -> Any:
    """The inverse of a matrix; zeros where the determinant is 0."""

def diag(x: Any) -> Any:
    """The diagonal matrix with these elements."""

def get_diag(x: Any) -> Any:
    """The diagonal of a square matrix."""

def skew(x: Any) -> Any:
    """The antisymmetric matrix that multiplies a vector as the cross product with `x` from the left does."""

def quat_inverse(q: Any) -> Any:
    """The inverse of a rotation: a quaternion with its imaginary part negated."""

def quat_rotate(q: Any, x: Any) -> Any:
    """A vector rotated by a quaternion."""

def quat_rotate_inv(q: Any, x: Any) -> Any:
    """A vector rotated by a quaternion's inverse."""

def add(a: T, b: T) -> T:
    """Sum. Integers wrap."""

def sub(a: T, b: T) -> T:
    """Difference. Integers wrap."""

def mul(a: T, b: T) -> T:
    """Product. Integers wrap. A composite times a scalar is scaled; a matrix times a matrix or a vector, and a vector times a matrix, are products of linear algebra; a quaternion times a quaternion is their composition."""

def div(a: T, b: T) -> T:
    """Quotient. Integers truncate toward zero, as in Warp and C; division by zero gives 0 and the most negative integer divided by -1 wraps to itself."""

def floordiv(a: T, b: T) -> T:
    """Quotient rounded toward negative infinity. Integer division by zero gives 0; floats are `floor(a / b)`."""

def mod(a: T, b: T) -> T:
    """Remainder of the truncated quotient: the sign is that of `a`, as in Warp and C. An integer divisor of zero gives `a`; a float divisor of zero gives NaN. Exact for floats."""

def neg(x: T) -> T:
    """Negation. Integers wrap."""

def eq(a: T, b: T) -> bool:
    """Whether two values are equal. NaN is not equal to anything."""

def ne(a: T, b: T) -> bool:
    """Whether two values differ. NaN differs from everything."""

def lt(a: T, b: T) -> bool:
    """Whether `a` is less than `b`; false with a NaN."""

def le(a: T, b: T) -> bool:
    """Whether `a` is at most `b`; false with a NaN."""

def gt(a: T, b: T) -> bool:
    """Whether `a` is greater than `b`; false with a NaN."""

def ge(a: T, b: T) -> bool:
    """Whether `a` is at least `b`; false with a NaN."""

def bit_and(a: T, b: T) -> T:
    """Bitwise and; logical and for `bool`."""

def bit_or(a: T, b: T) -> T:
    """Bitwise or; logical or for `bool`."""

def bit_xor(a: T, b: T) -> T:
    """Bitwise exclusive or; inequality for `bool`."""

def invert(x: T) -> T:
    """Bitwise complement."""

def logical_not(x: bool) -> bool:
    """Logical negation."""

def lshift(x: T, count: T) -> T:
    """Shift left. The count is read as unsigned; a count of the width or more gives 0."""

def rshift(x: T, count: T) -> T:
    """Shift right, arithmetic for signed types. The count is read as unsigned; a count of the width or more gives 0, or -1 for a negative signed `x`."""

def abs(x: T) -> T:
    """Absolute value. The most negative integer stays itself."""

def min(a: T, b: T) -> T:
    """The smaller value. With one NaN, the other operand; -0.0 is less than +0.0."""

def max(a: T, b: T) -> T:
    """The larger value. With one NaN, the other operand; -0.0 is less than +0.0."""

def sqrt(x: T) -> T:
    """Square root, correctly rounded; NaN below zero."""

def fma(a: T, b: T, c: T) -> T:
    """`a * b + c` with one rounding (for 16-bit floats: computed in `f64`, then rounded)."""

def floor(x: T) -> T:
    """Largest integer not above `x`."""

def ceil(x: T) -> T:
    """Smallest integer not below `x`."""

def trunc(x: T) -> T:
    """Integer part, toward zero."""

def rint(x: T) -> T:
    """Nearest integer, ties to even."""

def copysign(x: T, y: T) -> T:
    """The magnitude of `x` with the sign of `y`; a NaN `y` counts as positive, since the sign of a NaN is not defined."""

def round(x: T) -> T:
    """Nearest integer, ties away from zero."""

def frac(x: T) -> T:
    """Fractional part, `x - trunc(x)`: the sign is that of `x`."""

def sign(x: T) -> T:
    """-1 for negative `x`, else 1 (also for zero, as in Warp)."""

def step(x: T) -> T:
    """1 for negative `x`, else 0, as in Warp."""

def clamp(x: T, low: T, high: T) -> T:
    """`x` limited to `low` … `high`: `min(max(low, x), high)`."""

def lerp(a: T, b: T, t: T) -> T:
    """Linear interpolation, `a * (1 - t) + b * t`."""

def smoothstep(a: T, b: T, x: T) -> T:
    """Smooth Hermite step: 0 below `a`, 1 above `b`, `t * t * (3 - 2 * t)` between."""

def degrees(x: T) -> T:
    """Radians to degrees."""

def radians(x: T) -> T:
    """Degrees to radians."""

def isnan(x: T) -> bool:
    """Whether `x` is NaN."""

def isinf(x: T) -> bool:
    """Whether `x` is positive or negative infinity."""

def isfinite(x: T) -> bool:
    """Whether `x` is neither infinite nor NaN."""

def sin(x: T) -> T:
    """Sine of an angle in radians."""

def cos(x: T) -> T:
    """Cosine of an angle in radians."""

def tan(x: T) -> T:
    """Tangent of an angle in radians."""

def asin(x: T) -> T:
    """Arc sine in radians; NaN outside -1 … 1."""

def acos(x: T) -> T:
    """Arc cosine in radians; NaN outside -1 … 1."""

def atan(x: T) -> T:
    """Arc tangent in radians."""

def atan2(y: T, x: T) -> T:
    """Angle of the point (`x`, `y`) in radians, -π … π; zeros and infinities as in C."""

def sinh(x: T) -> T:
    """Hyperbolic sine."""

def cosh(x: T) -> T:
    """Hyperbolic cosine."""

def tanh(x: T) -> T:
    """Hyperbolic tangent."""

def asinh(x: T) -> T:
    """Inverse hyperbolic sine."""

def acosh(x: T) -> T:
    """Inverse hyperbolic cosine; NaN below 1."""

def atanh(x: T) -> T:
    """Inverse hyperbolic tangent; NaN outside -1 … 1."""

def exp(x: T) -> T:
    """e to the power `x`."""

def exp2(x: T) -> T:
    """2 to the power `x`."""

def expm1(x: T) -> T:
    """`exp(x) - 1`, accurate near 0."""

def log(x: T) -> T:
    """Natural logarithm; NaN below 0."""

def log2(x: T) -> T:
    """Base-2 logarithm; NaN below 0."""

def log10(x: T) -> T:
    """Base-10 logarithm; NaN below 0."""

def log1p(x: T) -> T:
    """`log(1 + x)`, accurate near 0; NaN below -1."""

def pow(x: T, y: T) -> T:
    """`x` to the power `y`; special cases as in C."""

def rsqrt(x: T) -> T:
    """`1 / sqrt(x)`."""

def cbrt(x: T) -> T:
    """Cube root, of negative numbers too."""

def hypot(x: T, y: T) -> T:
    """`sqrt(x * x + y * y)` without overflow."""

def erf(x: T) -> T:
    """Error function."""

def erfc(x: T) -> T:
    """Complementary error function, `1 - erf(x)`."""

def erfinv(x: T) -> T:
    """Inverse of the error function; NaN outside -1 … 1."""

@overload
def atomic_add(array: _array, i: int, value: T) -> T:
    """Adds to an element and gives its old value. The order in which threads add is not fixed."""

@overload
def atomic_add(array: _array, i: int, j: int, value: T) -> T:
    """Adds to an element and gives its old value. The order in which threads add is not fixed."""

@overload
def atomic_add(array: _array, i: int, j: int, k: int, value: T) -> T:
    """Adds to an element and gives its old value. The order in which threads add is not fixed."""

@overload
def atomic_add(array: _array, i: int, j: int, k: int, l: int, value: T) -> T:
    """Adds to an element and gives its old value. The order in which threads add is not fixed."""

@overload
def atomic_sub(array: _array, i: int, value: T) -> T:
    """Subtracts from an element and gives its old value."""

@overload
def atomic_sub(array: _array, i: int, j: int, value: T) -> T:
    """Subtracts from an element and gives its old value."""

@overload
def atomic_sub(array: _array, i: int, j: int, k: int, value: T) -> T:
    """Subtracts from an element and gives its old value."""

@overload
def atomic_sub(array: _array, i: int, j: int, k: int, l: int, value: T) -> T:
    """Subtracts from an element and gives its old value."""

@overload
def atomic_min(array: _array, i: int, value: T) -> T:
    """Stores the `min` of element and value and gives the old value."""

@overload
def atomic_min(array: _array, i: int, j: int, value: T) -> T:
    """Stores the `min` of element and value and gives the old value."""

@overload
def atomic_min(array: _array, i: int, j: int, k: int, value: T) -> T:
    """Stores the `min` of element and value and gives the old value."""

@overload
def atomic_min(array: _array, i: int, j: int, k: int, l: int, value: T) -> T:
    """Stores the `min` of element and value and gives the old value."""

@overload
def atomic_max(array: _array, i: int, value: T) -> T:
    """Stores the `max` of element and value and gives the old value."""

@overload
def atomic_max(array: _array, i: int, j: int, value: T) -> T:
    """Stores the `max` of element and value and gives the old value."""

@overload
def atomic_max(array: _array, i: int, j: int, k: int, value: T) -> T:
    """Stores the `max` of element and value and gives the old value."""

@overload
def atomic_max(array: _array, i: int, j: int, k: int, l: int, value: T) -> T:
    """Stores the `max` of element and value and gives the old value."""

@overload
def atomic_and(array: _array, i: int, value: T) -> T:
    """Stores the bitwise and of element and value and gives the old value."""

@overload
def atomic_and(array: _array, i: int, j: int, value: T) -> T:
    """Stores the bitwise and of element and value and gives the old value."""

@overload
def atomic_and(array: _array, i: int, j: int, k: int, value: T) -> T:
    """Stores the bitwise and of element and value and gives the old value."""

@overload
def atomic_and(array: _array, i: int, j: int, k: int, l: int, value: T) -> T:
    """Stores the bitwise and of element and value and gives the old value."""

@overload
def atomic_or(array: _array, i: int, value: T) -> T:
    """Stores the bitwise or of element and value and gives the old value."""

@overload
def atomic_or(array: _array, i: int, j: int, value: T) -> T:
    """Stores the bitwise or of element and value and gives the old value."""

@overload
def atomic_or(array: _array, i: int, j: int, k: int, value: T) -> T:
    """Stores the bitwise or of element and value and gives the old value."""

@overload
def atomic_or(array: _array, i: int, j: int, k: int, l: int, value: T) -> T:
    """Stores the bitwise or of element and value and gives the old value."""

@overload
def atomic_xor(array: _array, i: int, value: T) -> T:
    """Stores the exclusive or of element and value and gives the old value."""

@overload
def atomic_xor(array: _array, i: int, j: int, value: T) -> T:
    """Stores the exclusive or of element and value and gives the old value."""

@overload
def atomic_xor(array: _array, i: int, j: int, k: int, value: T) -> T:
    """Stores the exclusive or of element and value and gives the old value."""

@overload
def atomic_xor(array: _array, i: int, j: int, k: int, l: int, value: T) -> T:
    """Stores the exclusive or of element and value and gives the old value."""

@overload
def atomic_cas(array: _array, i: int, compare: T, value: T) -> T:
    """Stores `value` if the element's bits equal those of `compare`; gives the old value either way."""

@overload
def atomic_cas(array: _array, i: int, j: int, compare: T, value: T) -> T:
    """Stores `value` if the element's bits equal those of `compare`; gives the old value either way."""

@overload
def atomic_cas(array: _array, i: int, j: int, k: int, compare: T, value: T) -> T:
    """Stores `value` if the element's bits equal those of `compare`; gives the old value either way."""

@overload
def atomic_cas(array: _array, i: int, j: int, k: int, l: int, compare: T, value: T) -> T:
    """Stores `value` if the element's bits equal those of `compare`; gives the old value either way."""

@overload
def atomic_exch(array: _array, i: int, value: T) -> T:
    """Stores `value` and gives the old value."""

@overload
def atomic_exch(array: _array, i: int, j: int, value: T) -> T:
    """Stores `value` and gives the old value."""

@overload
def atomic_exch(array: _array, i: int, j: int, k: int, value: T) -> T:
    """Stores `value` and gives the old value."""

@overload
def atomic_exch(array: _array, i: int, j: int, k: int, l: int, value: T) -> T:
    """Stores `value` and gives the old value."""

@overload
def rand_init(seed: int) -> int:
    """A random state from a seed and, to give each thread its own sequence, an offset."""

@overload
def rand_init(seed: int, offset: int) -> int:
    """A random state from a seed and, to give each thread its own sequence, an offset."""

@overload
def randi(state: int) -> int:
    """A random integer over all of `int32`, or from `low` up to but not including `high`."""

@overload
def randi(state: int, low: int, high: int) -> int:
    """A random integer over all of `int32`, or from `low` up to but not including `high`."""

@overload
def randu(state: int) -> int:
    """A random integer over all of `uint32`, or from `low` up to but not including `high`."""

@overload
def randu(state: int, low: int, high: int) -> int:
    """A random integer over all of `uint32`, or from `low` up to but not including `high`."""

@overload
def randf(state: int) -> float:
    """A random float, uniform on [0, 1) in steps of 2^-24, or from `low` up to `high`."""

@overload
def randf(state: int, low: float, high: float) -> float:
    """A random float, uniform on [0, 1) in steps of 2^-24, or from `low` up to `high`."""

def randn(state: int) -> float:
    """A random float from the standard normal distribution."""

def poisson(state: int, lam: float) -> int:
    """A random integer from the Poisson distribution with mean `lam`."""

def sample_cdf(state: int, cdf: _array) -> int:
    """The first index whose entry of a cumulative distribution is not below a uniform sample."""

def sample_triangle(state: int) -> tuple[float, float]:
    """Barycentric coordinates `u, v` of a uniform point of a triangle."""

def sample_unit_ring(state: int) -> tuple[float, float]:
    """A uniform point of the unit circle's line, `x, y`."""

def sample_unit_disk(state: int) -> tuple[float, float]:
    """A uniform point of the unit disk, `x, y`."""

def sample_unit_sphere_surface(state: int) -> tuple[float, float, float]:
    """A uniform point of the unit sphere's surface, `x, y, z`."""

def sample_unit_sphere(state: int) -> tuple[float, float, float]:
    """A uniform point of the unit ball, `x, y, z`."""

def sample_unit_hemisphere_surface(state: int) -> tuple[float, float, float]:
    """A uniform point of the upper unit hemisphere's surface (`z` at least 0), `x, y, z`."""

def sample_unit_hemisphere(state: int) -> tuple[float, float, float]:
    """A uniform point of the upper unit half ball (`z` at least 0), `x, y, z`."""

def sample_unit_square(state: int) -> tuple[float, float]:
    """A uniform point of the square from -0.5 to 0.5, `x, y`."""

def sample_unit_cube(state: int) -> tuple[float, float, float]:
    """A uniform point of the cube from -0.5 to 0.5, `x, y, z`."""
