# Generated from the op table by `make stubs`.
from typing import Any, TypeVar, overload

from polyloom._arrays import array as _array
from polyloom._composites import Composite as _Composite
from polyloom._composites import Matrix as _Matrix
from polyloom._composites import Quaternion as _Quaternion
from polyloom._composites import Transformation as _Transformation
from polyloom._composites import Vector as _Vector

T = TypeVar("T")
U = TypeVar("U")
C = TypeVar("C", bound=_Composite)
V = TypeVar("V", bound=_Vector)
M = TypeVar("M", bound=_Matrix)
Q = TypeVar("Q", bound=_Quaternion)
X = TypeVar("X", bound=_Transformation)

def tid() -> Any:
    """The thread's index; unpacked to two, three or four names, its coordinates."""

def block_dim() -> int:
    """The number of threads in a block: 1 on the CPU."""

def printf(format: str, *values: object) -> None:
    """Prints by a C format string."""

def cast(x: object, dtype: T) -> T:
    """The bits of `x` read as another type of the same size."""

def vector(*components: Any, length: int = ..., dtype: Any = ...) -> _Vector:
    """A vector of these components, or of `length` that are all one number."""

def matrix(*components: Any, shape: tuple[int, int] = ..., dtype: Any = ...) -> _Matrix:
    """A matrix of these components, row by row, or of `shape` all one number."""

def matrix_from_rows(*rows: _Vector) -> _Matrix:
    """The matrix with these vectors as rows."""

def matrix_from_cols(*cols: _Vector) -> _Matrix:
    """The matrix with these vectors as columns."""

def identity(n: int, dtype: Any) -> _Matrix:
    """The identity matrix."""

def quat_identity(dtype: Any = ...) -> _Quaternion:
    """The quaternion of no rotation."""

def transform_identity(dtype: Any = ...) -> _Transformation:
    """The transformation that moves nothing."""

def quaternion(*components: Any, dtype: Any = ...) -> _Quaternion:
    """A quaternion of x, y, z and the real part."""

def transformation(*components: Any, dtype: Any = ...) -> _Transformation:
    """A transformation of a translation and a rotation."""

def where(cond: bool, value_if_true: T, value_if_false: T) -> T:
    """One of two values, by a condition. Both are computed. An integer is true unless it is zero. `select` takes the value for a false condition first, as in Warp."""

def select(cond: bool, value_if_true: T, value_if_false: T) -> T:
    """One of two values, by a condition. Both are computed. An integer is true unless it is zero. `select` takes the value for a false condition first, as in Warp."""

@overload
def dot(a: V, b: V) -> float:
    """The sum of the products of corresponding components, from the first on."""

@overload
def dot(a: Q, b: Q) -> float:
    """The sum of the products of corresponding components, from the first on."""

def ddot(a: M, b: M) -> float:
    """The sum of the products of corresponding elements of two matrices; `float32` and `float64` products are added without being rounded, as in the product of two matrices."""

def cross(a: V, b: V) -> V:
    """The vector at right angles to both, as long as the parallelogram they span is large."""

@overload
def length_sq(x: _Vector) -> float:
    """The square of the Euclidean length."""

@overload
def length_sq(x: _Quaternion) -> float:
    """The square of the Euclidean length."""

@overload
def length(x: _Vector) -> float:
    """The Euclidean length."""

@overload
def length(x: _Quaternion) -> float:
    """The Euclidean length."""

@overload
def norm_l2(x: _Vector) -> float:
    """The Euclidean length."""

@overload
def norm_l2(x: _Quaternion) -> float:
    """The Euclidean length."""

def norm_l1(v: _Vector) -> float:
    """The sum of the magnitudes of the components."""

@overload
def norm_huber(v: _Vector) -> float:
    """Half the square of the length up to the length `delta`, 1 unless given, and linear in the length from there."""

@overload
def norm_huber(v: _Vector, delta: float) -> float:
    """Half the square of the length up to the length `delta`, 1 unless given, and linear in the length from there."""

@overload
def norm_pseudo_huber(v: _Vector) -> float:
    """`delta * sqrt(1 + length_sq(v) / (delta * delta))`, where `delta` is 1 unless given."""

@overload
def norm_pseudo_huber(v: _Vector, delta: float) -> float:
    """`delta * sqrt(1 + length_sq(v) / (delta * delta))`, where `delta` is 1 unless given."""

@overload
def smooth_normalize(v: V) -> V:
    """The vector divided by its `norm_pseudo_huber`."""

@overload
def smooth_normalize(v: V, delta: float) -> V:
    """The vector divided by its `norm_pseudo_huber`."""

@overload
def normalize(x: V) -> V:
    """The vector divided by its length. A vector of length 0 stays, a quaternion of length 0 becomes the identity."""

@overload
def normalize(x: Q) -> Q:
    """The vector divided by its length. A vector of length 0 stays, a quaternion of length 0 becomes the identity."""

def cw_mul(a: C, b: C) -> C:
    """The products of corresponding components."""

def cw_div(a: C, b: C) -> C:
    """The quotients of corresponding components."""

def outer(a: _Vector, b: _Vector) -> _Matrix:
    """The matrix of all products of a component of `a`, by row, and one of `b`, by column."""

def transpose(x: _Matrix) -> _Matrix:
    """The matrix with rows and columns exchanged."""

def trace(x: _Matrix) -> float:
    """The sum of the diagonal."""

def determinant(x: _Matrix) -> float:
    """The determinant."""

def inverse(x: M) -> M:
    """The inverse of a matrix; zeros where the determinant is 0. Of 4 × 4 elements it is computed in `float64`."""

def inverse_approx(x: M) -> M:
    """The inverse of a matrix; zeros where the determinant is 0. Of 4 × 4 elements it is computed in `float64`."""

@overload
def svd2(A: M) -> tuple[M, _Vector, M]:
    """The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. The columns of `U` and `V` are orthonormal and `V` is a rotation; the singular values descend and none is negative."""

@overload
def svd2(A: M, U: M, sigma: _Vector, V: M) -> None:
    """The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. The columns of `U` and `V` are orthonormal and `V` is a rotation; the singular values descend and none is negative."""

@overload
def svd3(A: M) -> tuple[M, _Vector, M]:
    """The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. `U` and `V` are rotations; the magnitudes of the singular values descend, and the last is negative where the determinant is."""

@overload
def svd3(A: M, U: M, sigma: _Vector, V: M) -> None:
    """The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. `U` and `V` are rotations; the magnitudes of the singular values descend, and the last is negative where the determinant is."""

@overload
def qr3(A: M) -> tuple[M, M]:
    """The factors `Q` and `R` of a matrix, `A = Q * R`: `Q` is a rotation, `R` upper triangular with the first two elements of its diagonal not negative."""

@overload
def qr3(A: M, Q: M, R: M) -> None:
    """The factors `Q` and `R` of a matrix, `A = Q * R`: `Q` is a rotation, `R` upper triangular with the first two elements of its diagonal not negative."""

@overload
def eig3(A: M) -> tuple[M, _Vector]:
    """The eigenvectors, columns of the rotation `Q`, and eigenvalues `d` of a symmetric matrix: `A = Q * diag(d) * transpose(Q)`, in no particular order. Elements below the diagonal are not read."""

@overload
def eig3(A: M, Q: M, d: _Vector) -> None:
    """The eigenvectors, columns of the rotation `Q`, and eigenvalues `d` of a symmetric matrix: `A = Q * diag(d) * transpose(Q)`, in no particular order. Elements below the diagonal are not read."""

def diag(x: _Vector) -> _Matrix:
    """The diagonal matrix with these elements."""

def get_diag(x: _Matrix) -> _Vector:
    """The diagonal of a square matrix."""

def skew(x: _Vector) -> _Matrix:
    """The antisymmetric matrix that multiplies a vector as the cross product with `x` from the left does."""

def quat_inverse(q: Q) -> Q:
    """The inverse of a rotation: a quaternion with its imaginary part negated."""

def quat_rotate(q: _Quaternion, x: V) -> V:
    """A vector rotated by a quaternion."""

def quat_rotate_inv(q: _Quaternion, x: V) -> V:
    """A vector rotated by a quaternion's inverse."""

def quat_from_axis_angle(axis: _Vector, angle: float) -> _Quaternion:
    """The rotation by `angle`, in radians, around `axis`, a vector of length 1."""

def quat_to_axis_angle(q: _Quaternion) -> tuple[_Vector, float]:
    """The axis of a rotation, of length 1, and its angle in radians, at most π; an axis of zeros without a rotation."""

def quat_from_matrix(mat: _Matrix) -> _Quaternion:
    """The rotation of a matrix, of its upper left 3 × 3 elements; it is normalized."""

def quat_to_matrix(q: _Quaternion) -> _Matrix:
    """The matrix of a rotation."""

def quat_rpy(roll: float, pitch: float, yaw: float) -> _Quaternion:
    """The rotation by `roll` around x, then `pitch` around y, then `yaw` around z, in radians."""

def quat_slerp(a: Q, b: Q, t: float) -> Q:
    """The rotation at `t` on the way from `a`, at 0, to `b`, at 1, turning evenly."""

def quat_from_euler(e: _Vector, i: int, j: int, k: int) -> _Quaternion:
    """The rotations by the angles of `e` along the axes `i`, `j` and `k`, numbered from 0, one after the other, in radians."""

def quat_to_euler(q: _Quaternion, i: int, j: int, k: int) -> _Vector:
    """The angles of a rotation for the axes `i`, `j` and `k`, each in its axis' component, in radians. If `k` is `i`, the third angle is in the component that is left."""

def quat_to_rpy(q: _Quaternion) -> _Vector:
    """The roll, pitch and yaw of a rotation, as `quat_rpy` takes them. The yaw is 0 where the pitch is a right angle."""

def quat_twist(axis: _Vector, q: Q) -> Q:
    """The part of a rotation that turns around `axis`, a vector of length 1."""

def quat_twist_angle(axis: _Vector, q: _Quaternion) -> float:
    """By how much a rotation turns around `axis`, a vector of length 1, in radians; never negative."""

def quat_twist_angle_signed(axis: _Vector, q: _Quaternion) -> float:
    """By how much a rotation turns around `axis`, a vector of length 1, in radians; negative for a turn to the left."""

def quat_between_vectors(a: V, b: V) -> _Quaternion:
    """The shortest rotation from the direction of `a` to that of `b`."""

def transform_compose(position: V, rotation: _Quaternion, scale: V) -> _Matrix:
    """The matrix that scales along the axes, rotates, then moves to `position`."""

def transform_decompose(m: _Matrix) -> tuple[_Vector, _Quaternion, _Vector]:
    """Position, rotation and scale of a matrix, as `transform_compose` takes them."""

def transform_from_matrix(mat: _Matrix) -> _Transformation:
    """The transform of a matrix that rotates and moves."""

def transform_to_matrix(xform: _Transformation) -> _Matrix:
    """The matrix of a transform."""

def transform_set_translation_copy(xform: X, p: _Vector) -> X:
    """A transform with another translation."""

def transform_set_rotation_copy(xform: X, q: _Quaternion) -> X:
    """A transform with another rotation."""

def transform_twist(t: _Transformation, x: V) -> V:
    """A motion, angular part first, in the frame that `t` leads to."""

def transform_wrench(t: _Transformation, x: V) -> V:
    """A force, torque first, in the frame that `t` leads to."""

def velocity_at_point(qd: _Vector, r: V) -> V:
    """The velocity of the point `r` of a body whose motion is `qd`, angular part first."""

def transform_get_translation(xform: _Transformation) -> _Vector:
    """A transform's translation."""

def transform_get_rotation(xform: _Transformation) -> _Quaternion:
    """A transform's rotation."""

def transform_set_translation(xform: _Transformation, p: _Vector) -> None:
    """Sets a transform's translation."""

def transform_set_rotation(xform: _Transformation, q: _Quaternion) -> None:
    """Sets a transform's rotation."""

def transform_multiply(a: X, b: X) -> X:
    """The transform `b`, then `a`."""

def transform_inverse(xform: X) -> X:
    """The transform that undoes another."""

@overload
def transform_point(xform: _Transformation, point: V) -> V:
    """A point moved: by a transform, or as (x, y, z, 1) by a matrix, whose last row is left out."""

@overload
def transform_point(mat: _Matrix, point: V) -> V:
    """A point moved: by a transform, or as (x, y, z, 1) by a matrix, whose last row is left out."""

@overload
def transform_vector(xform: _Transformation, vec: V) -> V:
    """A direction turned: by a transform's rotation, or as (x, y, z, 0) by a matrix, whose last row is left out."""

@overload
def transform_vector(mat: _Matrix, vec: V) -> V:
    """A direction turned: by a transform's rotation, or as (x, y, z, 0) by a matrix, whose last row is left out."""

def spatial_top(svec: _Vector) -> _Vector:
    """The first three components of a spatial vector, the angular part."""

def spatial_bottom(svec: _Vector) -> _Vector:
    """The last three components of a spatial vector, the linear part."""

def spatial_dot(a: V, b: V) -> float:
    """The sum of the products of corresponding components."""

def spatial_cross(a: V, b: V) -> V:
    """The cross product of two motions."""

def spatial_cross_dual(a: V, b: V) -> V:
    """The cross product of a motion and a force."""

def spatial_adjoint(r: M, s: M) -> _Matrix:
    """The matrix that takes spatial vectors from one frame to another: `r` on the diagonal, `s` at the lower left."""

def add(a: T, b: T) -> T:
    """Sum. Integers wrap."""

def sub(a: T, b: T) -> T:
    """Difference. Integers wrap."""

def mul(a: T, b: T) -> T:
    """Product. Integers wrap. A composite times a scalar is scaled; a matrix times a matrix or a vector, and a vector times a matrix, are products of linear algebra; quaternions and transforms are composed: `b`, then `a`."""

def div(a: T, b: T) -> T:
    """Quotient. Integers truncate toward zero, as in Warp and C; division by zero gives 0 and the most negative integer divided by -1 wraps to itself."""

def div_approx(a: T, b: T) -> T:
    """Quotient. Integers truncate toward zero, as in Warp and C; division by zero gives 0 and the most negative integer divided by -1 wraps to itself."""

def floordiv(a: T, b: T) -> T:
    """Quotient rounded toward negative infinity. Integer division by zero gives 0; floats are `floor(a / b)`."""

def mod(a: T, b: T) -> T:
    """Remainder of the truncated quotient: the sign is that of `a`, as in Warp and C. An integer divisor of zero gives `a`; a float divisor of zero gives NaN. Exact for floats."""

def pos(x: T) -> T:
    """The number itself."""

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

def unot(a: T) -> bool:
    """Whether a number is zero, or a `bool` false."""

def bit_count(x: T) -> int:
    """How many bits of an integer are set."""

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

def argmin(x: _Vector) -> int:
    """The number of the first component that is the smallest; NaN is none. 0 if all are NaN."""

def argmax(x: _Vector) -> int:
    """The number of the first component that is the largest; NaN is none. 0 if all are NaN."""

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

def nonzero(x: T) -> T:
    """0 for zero, else 1."""

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

def erfcinv(x: T) -> T:
    """Inverse of the complementary error function, with all digits of results for small `x`; NaN outside 0 … 2."""

@overload
def lower_bound(arr: _array, value: T) -> int:
    """The first index of a sorted array whose element is not less than `value`, of the indices from `arr_begin` up to but not including `arr_end` if they are given; the last index if there is none. The limits are not checked."""

@overload
def lower_bound(arr: _array, arr_begin: int, arr_end: int, value: T) -> int:
    """The first index of a sorted array whose element is not less than `value`, of the indices from `arr_begin` up to but not including `arr_end` if they are given; the last index if there is none. The limits are not checked."""

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

def sample_triangle(state: int) -> _Vector:
    """Barycentric coordinates (u, v) of a uniform point of a triangle."""

def sample_unit_ring(state: int) -> _Vector:
    """A uniform point of the unit circle's line, `x, y`."""

def sample_unit_disk(state: int) -> _Vector:
    """A uniform point of the unit disk, `x, y`."""

def sample_unit_sphere_surface(state: int) -> _Vector:
    """A uniform point of the unit sphere's surface, `x, y, z`."""

def sample_unit_sphere(state: int) -> _Vector:
    """A uniform point of the unit ball, `x, y, z`."""

def sample_unit_hemisphere_surface(state: int) -> _Vector:
    """A uniform point of the upper unit hemisphere's surface (`z` at least 0), `x, y, z`."""

def sample_unit_hemisphere(state: int) -> _Vector:
    """A uniform point of the upper unit half ball (`z` at least 0), `x, y, z`."""

def sample_unit_square(state: int) -> _Vector:
    """A uniform point of the square from -0.5 to 0.5, `x, y`."""

def sample_unit_cube(state: int) -> _Vector:
    """A uniform point of the cube from -0.5 to 0.5, `x, y, z`."""

def noise(state: int, x: float) -> float:
    """Perlin noise: the value at a point of a smooth random field, zero at integer coordinates. The state, as of `rand_init`, says which field; it does not change."""

def pnoise(state: int, x: float, px: int) -> float:
    """Perlin noise that repeats: as `noise`, with an integer period along each axis."""

@overload
def curlnoise(state: int, xy: _Vector) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xy: _Vector, octaves: int) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xy: _Vector, octaves: int, lacunarity: float) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xy: _Vector, octaves: int, lacunarity: float, gain: float) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xyz: _Vector) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xyz: _Vector, octaves: int) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xyz: _Vector, octaves: int, lacunarity: float) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xyz: _Vector, octaves: int, lacunarity: float, gain: float) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xyzt: _Vector) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xyzt: _Vector, octaves: int) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xyzt: _Vector, octaves: int, lacunarity: float) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

@overload
def curlnoise(state: int, xyzt: _Vector, octaves: int, lacunarity: float, gain: float) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before."""

def expect_eq(a: T, b: T) -> None:
    """Prints both values unless they are equal."""

def expect_neq(a: T, b: T) -> None:
    """Prints both values if they are equal."""

@overload
def expect_near(a: T, b: T) -> None:
    """Prints both values if they, or any of their components, differ by more than `tolerance`, 1e-6 unless given."""

@overload
def expect_near(a: T, b: T, tolerance: T) -> None:
    """Prints both values if they, or any of their components, differ by more than `tolerance`, 1e-6 unless given."""

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_exch",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xor",
    "bit_and",
    "bit_count",
    "bit_or",
    "bit_xor",
    "block_dim",
    "cast",
    "cbrt",
    "ceil",
    "clamp",
    "copysign",
    "cos",
    "cosh",
    "cross",
    "curlnoise",
    "cw_div",
    "cw_mul",
    "ddot",
    "degrees",
    "determinant",
    "diag",
    "div",
    "div_approx",
    "dot",
    "eig3",
    "eq",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "exp",
    "exp2",
    "expect_eq",
    "expect_near",
    "expect_neq",
    "expm1",
    "floor",
    "floordiv",
    "fma",
    "frac",
    "ge",
    "get_diag",
    "gt",
    "hypot",
    "identity",
    "inverse",
    "inverse_approx",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "length",
    "length_sq",
    "lerp",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "lower_bound",
    "lshift",
    "lt",
    "matrix",
    "matrix_from_cols",
    "matrix_from_rows",
    "max",
    "min",
    "mod",
    "mul",
    "ne",
    "neg",
    "noise",
    "nonzero",
    "norm_huber",
    "norm_l1",
    "norm_l2",
    "norm_pseudo_huber",
    "normalize",
    "outer",
    "pnoise",
    "poisson",
    "pos",
    "pow",
    "printf",
    "qr3",
    "quat_between_vectors",
    "quat_from_axis_angle",
    "quat_from_euler",
    "quat_from_matrix",
    "quat_identity",
    "quat_inverse",
    "quat_rotate",
    "quat_rotate_inv",
    "quat_rpy",
    "quat_slerp",
    "quat_to_axis_angle",
    "quat_to_euler",
    "quat_to_matrix",
    "quat_to_rpy",
    "quat_twist",
    "quat_twist_angle",
    "quat_twist_angle_signed",
    "quaternion",
    "radians",
    "rand_init",
    "randf",
    "randi",
    "randn",
    "randu",
    "rint",
    "round",
    "rshift",
    "rsqrt",
    "sample_cdf",
    "sample_triangle",
    "sample_unit_cube",
    "sample_unit_disk",
    "sample_unit_hemisphere",
    "sample_unit_hemisphere_surface",
    "sample_unit_ring",
    "sample_unit_sphere",
    "sample_unit_sphere_surface",
    "sample_unit_square",
    "select",
    "sign",
    "sin",
    "sinh",
    "skew",
    "smooth_normalize",
    "smoothstep",
    "spatial_adjoint",
    "spatial_bottom",
    "spatial_cross",
    "spatial_cross_dual",
    "spatial_dot",
    "spatial_top",
    "sqrt",
    "step",
    "sub",
    "svd2",
    "svd3",
    "tan",
    "tanh",
    "tid",
    "trace",
    "transform_compose",
    "transform_decompose",
    "transform_from_matrix",
    "transform_get_rotation",
    "transform_get_translation",
    "transform_identity",
    "transform_inverse",
    "transform_multiply",
    "transform_point",
    "transform_set_rotation",
    "transform_set_rotation_copy",
    "transform_set_translation",
    "transform_set_translation_copy",
    "transform_to_matrix",
    "transform_twist",
    "transform_vector",
    "transform_wrench",
    "transformation",
    "transpose",
    "trunc",
    "unot",
    "vector",
    "velocity_at_point",
    "where",
]
