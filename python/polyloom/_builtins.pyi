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
    """The thread's index; unpacked to two, three or four names, its coordinates.

    >>> loom.tid()
    0
    """

def printf(format: str, *values: object) -> None:
    """Prints by a C format string.

    >>> loom.printf("%d of %.1f\\n", 3, 2.5)
    3 of 2.5
    """

def cast(x: object, dtype: T) -> T:
    """The bits of `x` read as another type of the same size.

    >>> loom.cast(1.0, loom.int32)
    1065353216
    """

def vector(*components: Any, length: int = ..., dtype: Any = ...) -> _Vector:
    """A vector of these components, or of `length` that are all one number.

    >>> loom.vector(1.0, 2.0, 3.0)
    [1.0, 2.0, 3.0]
    >>> loom.vector(0.5, length=2)
    [0.5, 0.5]
    """

def matrix(*components: Any, shape: tuple[int, int] = ..., dtype: Any = ...) -> _Matrix:
    """A matrix of these components, row by row, or of `shape` all one number.

    >>> loom.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2))
    [[1.0, 2.0], [3.0, 4.0]]
    """

def matrix_from_rows(*rows: _Vector) -> _Matrix:
    """The matrix with these vectors as rows.

    >>> loom.matrix_from_rows(loom.vec2(1.0, 2.0), loom.vec2(3.0, 4.0))
    [[1.0, 2.0], [3.0, 4.0]]
    """

def matrix_from_cols(*cols: _Vector) -> _Matrix:
    """The matrix with these vectors as columns.

    >>> loom.matrix_from_cols(loom.vec2(1.0, 2.0), loom.vec2(3.0, 4.0))
    [[1.0, 3.0], [2.0, 4.0]]
    """

def identity(n: int, dtype: Any) -> _Matrix:
    """The identity matrix.

    >>> loom.identity(n=2, dtype=float)
    [[1.0, 0.0], [0.0, 1.0]]
    """

def quat_identity(dtype: Any = ...) -> _Quaternion:
    """The quaternion of no rotation.

    >>> loom.quat_identity()
    [0.0, 0.0, 0.0, 1.0]
    """

def transform_identity(dtype: Any = ...) -> _Transformation:
    """The transformation that moves nothing.

    >>> loom.transform_identity()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """

def quaternion(*components: Any, dtype: Any = ...) -> _Quaternion:
    """A quaternion of x, y, z and the real part.

    >>> loom.quaternion(1.0, 2.0, 3.0, 4.0)
    [1.0, 2.0, 3.0, 4.0]
    """

def transformation(*components: Any, dtype: Any = ...) -> _Transformation:
    """A transformation of a translation and a rotation.

    >>> loom.transformation(loom.vec3(1.0, 2.0, 3.0), loom.quat_identity())
    [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]
    """

def where(cond: bool, value_if_true: T, value_if_false: T) -> T:
    """One of two values, by a condition. Both are computed. An integer is true unless it is zero. `select` takes the value for a false condition first, as in Warp.

    >>> loom.where(2 > 1, 10, 20)
    10
    >>> loom.where(2.0 > 3.0, loom.vec2(1.0), loom.vec2(0.0))
    [0.0, 0.0]
    """

def select(cond: bool, value_if_true: T, value_if_false: T) -> T:
    """One of two values, by a condition. Both are computed. An integer is true unless it is zero. `select` takes the value for a false condition first, as in Warp.

    >>> loom.where(2 > 1, 10, 20)
    10
    >>> loom.where(2.0 > 3.0, loom.vec2(1.0), loom.vec2(0.0))
    [0.0, 0.0]
    """

@overload
def dot(a: V, b: V) -> float:
    """The sum of the products of corresponding components, from the first on.

    >>> loom.dot(loom.vec3(1.0, 2.0, 3.0), loom.vec3(4.0, 5.0, 6.0))
    32.0
    """

@overload
def dot(a: Q, b: Q) -> float:
    """The sum of the products of corresponding components, from the first on."""

def ddot(a: M, b: M) -> float:
    """The sum of the products of corresponding elements of two matrices; `float32` and `float64` products are added without being rounded, as in the product of two matrices.

    >>> loom.ddot(loom.mat22(1.0, 2.0, 3.0, 4.0), loom.mat22(5.0, 6.0, 7.0, 8.0))
    70.0
    """

def cross(a: V, b: V) -> V:
    """The vector at right angles to both, as long as the parallelogram they span is large.

    >>> loom.cross(loom.vec3(1.0, 0.0, 0.0), loom.vec3(0.0, 1.0, 0.0))
    [0.0, 0.0, 1.0]
    """

@overload
def length_sq(x: _Vector) -> float:
    """The square of the Euclidean length.

    >>> loom.length_sq(loom.vec2(3.0, 4.0))
    25.0
    """

@overload
def length_sq(x: _Quaternion) -> float:
    """The square of the Euclidean length."""

@overload
def length(x: _Vector) -> float:
    """The Euclidean length.

    >>> loom.length(loom.vec2(3.0, 4.0))
    5.0
    """

@overload
def length(x: _Quaternion) -> float:
    """The Euclidean length."""

@overload
def norm_l2(x: _Vector) -> float:
    """The Euclidean length.

    >>> loom.length(loom.vec2(3.0, 4.0))
    5.0
    """

@overload
def norm_l2(x: _Quaternion) -> float:
    """The Euclidean length."""

def norm_l1(v: _Vector) -> float:
    """The sum of the magnitudes of the components.

    >>> loom.norm_l1(loom.vec3(1.0, -2.0, 3.0))
    6.0
    """

@overload
def norm_huber(v: _Vector) -> float:
    """Half the square of the length up to the length `delta`, 1 unless given, and linear in the length from there.

    >>> loom.norm_huber(loom.vec2(0.3, 0.4))
    0.125
    >>> loom.norm_huber(loom.vec2(3.0, 4.0))
    4.5
    """

@overload
def norm_huber(v: _Vector, delta: float) -> float:
    """Half the square of the length up to the length `delta`, 1 unless given, and linear in the length from there."""

@overload
def norm_pseudo_huber(v: _Vector) -> float:
    """`delta * sqrt(1 + length_sq(v) / (delta * delta))`, where `delta` is 1 unless given.

    >>> loom.norm_pseudo_huber(loom.vec2(3.0, 4.0), 2.0)
    5.385165
    """

@overload
def norm_pseudo_huber(v: _Vector, delta: float) -> float:
    """`delta * sqrt(1 + length_sq(v) / (delta * delta))`, where `delta` is 1 unless given."""

@overload
def smooth_normalize(v: V) -> V:
    """The vector divided by its `norm_pseudo_huber`.

    >>> loom.smooth_normalize(loom.vec2(3.0, 4.0), 2.0)
    [0.557086, 0.7427814]
    """

@overload
def smooth_normalize(v: V, delta: float) -> V:
    """The vector divided by its `norm_pseudo_huber`."""

@overload
def normalize(x: V) -> V:
    """The vector divided by its length. A vector of length 0 stays, a quaternion of length 0 becomes the identity.

    >>> loom.normalize(loom.vec3(3.0, 0.0, 4.0))
    [0.6, 0.0, 0.8]
    """

@overload
def normalize(x: Q) -> Q:
    """The vector divided by its length. A vector of length 0 stays, a quaternion of length 0 becomes the identity."""

def cw_mul(a: C, b: C) -> C:
    """The products of corresponding components.

    >>> loom.cw_mul(loom.vec3(1.0, 2.0, 3.0), loom.vec3(4.0, 5.0, 6.0))
    [4.0, 10.0, 18.0]
    """

def cw_div(a: C, b: C) -> C:
    """The quotients of corresponding components.

    >>> loom.cw_div(loom.vec3(4.0, 10.0, 18.0), loom.vec3(4.0, 5.0, 6.0))
    [1.0, 2.0, 3.0]
    """

def outer(a: _Vector, b: _Vector) -> _Matrix:
    """The matrix of all products of a component of `a`, by row, and one of `b`, by column.

    >>> loom.outer(loom.vec2(1.0, 2.0), loom.vec2(3.0, 4.0))
    [[3.0, 4.0], [6.0, 8.0]]
    """

def transpose(x: _Matrix) -> _Matrix:
    """The matrix with rows and columns exchanged.

    >>> loom.transpose(loom.mat22(1.0, 2.0, 3.0, 4.0))
    [[1.0, 3.0], [2.0, 4.0]]
    """

def trace(x: _Matrix) -> float:
    """The sum of the diagonal.

    >>> loom.trace(loom.mat22(1.0, 2.0, 3.0, 4.0))
    5.0
    """

def determinant(x: _Matrix) -> float:
    """The determinant.

    >>> loom.determinant(loom.mat22(1.0, 2.0, 3.0, 4.0))
    -2.0
    """

def inverse(x: M) -> M:
    """The inverse of a matrix; zeros where the determinant is 0. Of 4 × 4 elements it is computed in `float64`.

    >>> loom.inverse(loom.mat22(1.0, 2.0, 3.0, 4.0))
    [[-2.0, 1.0], [1.5, -0.5]]
    """

def inverse_approx(x: M) -> M:
    """The inverse of a matrix; zeros where the determinant is 0. Of 4 × 4 elements it is computed in `float64`.

    >>> loom.inverse(loom.mat22(1.0, 2.0, 3.0, 4.0))
    [[-2.0, 1.0], [1.5, -0.5]]
    """

@overload
def svd2(A: M) -> tuple[M, _Vector, M]:
    """The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. The columns of `U` and `V` are orthonormal and `V` is a rotation; the singular values descend and none is negative.

    >>> U, sigma, V = loom.svd2(loom.mat22(0.0, -3.0, 1.0, 0.0))
    >>> sigma
    [3.0, 1.0]
    >>> U * loom.diag(sigma) * loom.transpose(V)
    [[0.0, -3.0], [1.0, 0.0]]
    """

@overload
def svd2(A: M, U: M, sigma: _Vector, V: M) -> None:
    """The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. The columns of `U` and `V` are orthonormal and `V` is a rotation; the singular values descend and none is negative."""

@overload
def svd3(A: M) -> tuple[M, _Vector, M]:
    """The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. `U` and `V` are rotations; the magnitudes of the singular values descend, and the last is negative where the determinant is.

    >>> U, sigma, V = loom.svd3(loom.mat33(0.0, 0.0, -4.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0))
    >>> sigma
    [4.0, 3.0, -2.0]
    """

@overload
def svd3(A: M, U: M, sigma: _Vector, V: M) -> None:
    """The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. `U` and `V` are rotations; the magnitudes of the singular values descend, and the last is negative where the determinant is."""

@overload
def qr3(A: M) -> tuple[M, M]:
    """The factors `Q` and `R` of a matrix, `A = Q * R`: `Q` is a rotation, `R` upper triangular with the first two elements of its diagonal not negative.

    >>> Q, R = loom.qr3(loom.mat33(0.0, 5.0, 1.0, 2.0, 0.0, 1.0, 0.0, 0.0, 3.0))
    >>> R
    [[2.0, 0.0, 1.0], [0.0, 5.0, 1.0], [0.0, 0.0, -3.0]]
    """

@overload
def qr3(A: M, Q: M, R: M) -> None:
    """The factors `Q` and `R` of a matrix, `A = Q * R`: `Q` is a rotation, `R` upper triangular with the first two elements of its diagonal not negative."""

@overload
def eig3(A: M) -> tuple[M, _Vector]:
    """The eigenvectors, columns of the rotation `Q`, and eigenvalues `d` of a symmetric matrix: `A = Q * diag(d) * transpose(Q)`, in no particular order. Of another matrix those of its symmetric part.

    >>> Q, d = loom.eig3(loom.mat33(2.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 5.0))
    >>> loom.max(d), loom.min(d)
    5.0 1.0
    """

@overload
def eig3(A: M, Q: M, d: _Vector) -> None:
    """The eigenvectors, columns of the rotation `Q`, and eigenvalues `d` of a symmetric matrix: `A = Q * diag(d) * transpose(Q)`, in no particular order. Of another matrix those of its symmetric part."""

def diag(x: _Vector) -> _Matrix:
    """The diagonal matrix with these elements.

    >>> loom.diag(loom.vec2(1.0, 2.0))
    [[1.0, 0.0], [0.0, 2.0]]
    """

def get_diag(x: _Matrix) -> _Vector:
    """The diagonal of a square matrix.

    >>> loom.get_diag(loom.mat22(1.0, 2.0, 3.0, 4.0))
    [1.0, 4.0]
    """

def skew(x: _Vector) -> _Matrix:
    """The antisymmetric matrix that multiplies a vector as the cross product with `x` from the left does.

    >>> loom.skew(loom.vec3(1.0, 2.0, 3.0))
    [[0.0, -3.0, 2.0], [3.0, 0.0, -1.0], [-2.0, 1.0, 0.0]]
    """

def quat_inverse(q: Q) -> Q:
    """The inverse of a rotation: a quaternion with its imaginary part negated.

    >>> loom.quat_inverse(loom.quat(0.0, 0.0, 0.6, 0.8))
    [0.0, 0.0, -0.6, 0.8]
    """

def quat_rotate(q: _Quaternion, x: V) -> V:
    """A vector rotated by a quaternion.

    >>> loom.quat_rotate(loom.quat(0.0, 0.0, 0.6, 0.8), loom.vec3(1.0, 0.0, 0.0))
    [0.28, 0.96, 0.0]
    """

def quat_rotate_inv(q: _Quaternion, x: V) -> V:
    """A vector rotated by a quaternion's inverse.

    >>> loom.quat_rotate_inv(loom.quat(0.0, 0.0, 0.6, 0.8), loom.vec3(1.0, 0.0, 0.0))
    [0.28, -0.96, 0.0]
    """

def quat_from_axis_angle(axis: _Vector, angle: float) -> _Quaternion:
    """The rotation by `angle`, in radians, around `axis`, a vector of length 1.

    >>> loom.quat_from_axis_angle(loom.vec3(0.0, 0.0, 1.0), 0.5)
    [0.0, 0.0, 0.247404, 0.9689124]
    """

def quat_to_axis_angle(q: _Quaternion) -> tuple[_Vector, float]:
    """The axis of a rotation, of length 1, and its angle in radians, at most π; an axis of zeros without a rotation.

    >>> axis, angle = loom.quat_to_axis_angle(loom.quat(0.0, 0.0, 0.6, 0.8))
    >>> axis
    [0.0, 0.0, 1.0]
    >>> angle
    1.287002
    """

def quat_from_matrix(mat: _Matrix) -> _Quaternion:
    """The rotation of a matrix, of its upper left 3 × 3 elements; it is normalized.

    >>> loom.quat_from_matrix(loom.mat33(0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    [0.0, 0.0, 0.7071068, 0.7071068]
    """

def quat_to_matrix(q: _Quaternion) -> _Matrix:
    """The matrix of a rotation.

    >>> loom.quat_to_matrix(loom.quat(0.0, 0.0, 0.6, 0.8))
    [[0.28, -0.96, 0.0], [0.96, 0.28, 0.0], [0.0, 0.0, 1.0]]
    """

def quat_rpy(roll: float, pitch: float, yaw: float) -> _Quaternion:
    """The rotation by `roll` around x, then `pitch` around y, then `yaw` around z, in radians.

    >>> loom.quat_rpy(0.0, 0.0, 0.5)
    [0.0, 0.0, 0.247404, 0.9689124]
    """

def quat_slerp(a: Q, b: Q, t: float) -> Q:
    """The rotation at `t` on the way from `a`, at 0, to `b`, at 1, turning evenly.

    >>> loom.quat_slerp(loom.quat_identity(), loom.quat(0.0, 0.0, 0.6, 0.8), 0.5)
    [0.0, 0.0, 0.3162278, 0.9486833]
    """

def quat_from_euler(e: _Vector, i: int, j: int, k: int) -> _Quaternion:
    """The rotations by the angles of `e` along the axes `i`, `j` and `k`, numbered from 0, one after the other, in radians.

    >>> loom.quat_from_euler(loom.vec3(0.0, 0.0, 0.5), 0, 1, 2)
    [0.0, 0.0, 0.247404, 0.9689124]
    """

def quat_to_euler(q: _Quaternion, i: int, j: int, k: int) -> _Vector:
    """The angles of a rotation for the axes `i`, `j` and `k`, each in its axis' component, in radians. If `k` is `i`, the third angle is in the component that is left.

    >>> loom.quat_to_euler(loom.quat(0.0, 0.0, 0.6, 0.8), 0, 1, 2)
    [0.0, 0.0, 1.287002]
    """

def quat_to_rpy(q: _Quaternion) -> _Vector:
    """The roll, pitch and yaw of a rotation, as `quat_rpy` takes them. The yaw is 0 where the pitch is a right angle.

    >>> loom.quat_to_rpy(loom.quat(0.0, 0.0, 0.6, 0.8))
    [0.0, 0.0, 1.287002]
    """

def quat_twist(axis: _Vector, q: Q) -> Q:
    """The part of a rotation that turns around `axis`, a vector of length 1.

    >>> loom.quat_twist(loom.vec3(0.0, 0.0, 1.0), loom.quat(0.5, 0.5, 0.5, 0.5))
    [0.0, 0.0, 0.7071068, 0.7071068]
    """

def quat_twist_angle(axis: _Vector, q: _Quaternion) -> float:
    """By how much a rotation turns around `axis`, a vector of length 1, in radians; never negative.

    >>> loom.quat_twist_angle(loom.vec3(0.0, 0.0, 1.0), loom.quat(0.0, 0.0, -0.6, 0.8))
    1.287002
    """

def quat_twist_angle_signed(axis: _Vector, q: _Quaternion) -> float:
    """By how much a rotation turns around `axis`, a vector of length 1, in radians; negative for a turn to the left.

    >>> loom.quat_twist_angle_signed(loom.vec3(0.0, 0.0, 1.0), loom.quat(0.0, 0.0, -0.6, 0.8))
    -1.287002
    """

def quat_between_vectors(a: V, b: V) -> _Quaternion:
    """The shortest rotation from the direction of `a` to that of `b`.

    >>> loom.quat_between_vectors(loom.vec3(1.0, 0.0, 0.0), loom.vec3(0.0, 1.0, 0.0))
    [0.0, 0.0, 0.7071068, 0.7071068]
    """

def transform_compose(position: V, rotation: _Quaternion, scale: V) -> _Matrix:
    """The matrix that scales along the axes, rotates, then moves to `position`.

    >>> loom.transform_compose(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8), loom.vec3(2.0))
    [[0.56, -1.92, 0.0, 1.0], [1.92, 0.56, 0.0, 2.0], [0.0, 0.0, 2.0, 3.0], [0.0, 0.0, 0.0, 1.0]]
    """

def transform_decompose(m: _Matrix) -> tuple[_Vector, _Quaternion, _Vector]:
    """Position, rotation and scale of a matrix, as `transform_compose` takes them.

    >>> m = loom.mat44(0.0, -1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0, 1.0)
    >>> p, q, s = loom.transform_decompose(m)
    >>> p
    [1.0, 2.0, 3.0]
    >>> q
    [0.0, 0.0, 0.7071068, 0.7071068]
    >>> s
    [1.0, 1.0, 1.0]
    """

def transform_from_matrix(mat: _Matrix) -> _Transformation:
    """The transform of a matrix that rotates and moves.

    >>> loom.transform_from_matrix(loom.mat44(0.0, -1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0, 1.0))
    [1.0, 2.0, 3.0, 0.0, 0.0, 0.7071068, 0.7071068]
    """

def transform_to_matrix(xform: _Transformation) -> _Matrix:
    """The matrix of a transform.

    >>> loom.transform_to_matrix(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))
    [[0.28, -0.96, 0.0, 1.0], [0.96, 0.28, 0.0, 2.0], [0.0, 0.0, 1.0, 3.0], [0.0, 0.0, 0.0, 1.0]]
    """

def transform_set_translation_copy(xform: X, p: _Vector) -> X:
    """A transform with another translation.

    >>> loom.transform_set_translation_copy(loom.transform_identity(), loom.vec3(1.0, 2.0, 3.0))
    [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]
    """

def transform_set_rotation_copy(xform: X, q: _Quaternion) -> X:
    """A transform with another rotation.

    >>> loom.transform_set_rotation_copy(loom.transform_identity(), loom.quat(0.0, 0.0, 0.6, 0.8))
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.6, 0.8]
    """

def transform_twist(t: _Transformation, x: V) -> V:
    """A motion, angular part first, in the frame that `t` leads to.

    >>> loom.transform_twist(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.spatial_vector(1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    [0.28, 0.96, 0.0, -2.88, 0.84, 0.4]
    """

def transform_wrench(t: _Transformation, x: V) -> V:
    """A force, torque first, in the frame that `t` leads to.

    >>> loom.transform_wrench(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.spatial_vector(0.0, 0.0, 0.0, 1.0, 0.0, 0.0))
    [-2.88, 0.84, 0.4, 0.28, 0.96, 0.0]
    """

def velocity_at_point(qd: _Vector, r: V) -> V:
    """The velocity of the point `r` of a body whose motion is `qd`, angular part first.

    >>> loom.velocity_at_point(loom.spatial_vector(0.0, 0.0, 1.0, 5.0, 0.0, 0.0), loom.vec3(2.0, 0.0, 0.0))
    [5.0, 2.0, 0.0]
    """

def transform_get_translation(xform: _Transformation) -> _Vector:
    """A transform's translation.

    >>> loom.transform_get_translation(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))
    [1.0, 2.0, 3.0]
    """

def transform_get_rotation(xform: _Transformation) -> _Quaternion:
    """A transform's rotation.

    >>> loom.transform_get_rotation(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))
    [0.0, 0.0, 0.6, 0.8]
    """

def transform_set_translation(xform: _Transformation, p: _Vector) -> None:
    """Sets a transform's translation.

    >>> t = loom.transform_identity()
    >>> loom.transform_set_translation(t, loom.vec3(1.0, 2.0, 3.0))
    >>> t
    [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]
    """

def transform_set_rotation(xform: _Transformation, q: _Quaternion) -> None:
    """Sets a transform's rotation.

    >>> t = loom.transform_identity()
    >>> loom.transform_set_rotation(t, loom.quat(0.0, 0.0, 0.6, 0.8))
    >>> t
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.6, 0.8]
    """

def transform_multiply(a: X, b: X) -> X:
    """The transform `b`, then `a`.

    >>> loom.transform_multiply(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))
    [-0.64, 3.52, 6.0, 0.0, 0.0, 0.96, 0.28]
    """

def transform_inverse(xform: X) -> X:
    """The transform that undoes another.

    >>> loom.transform_inverse(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))
    [-2.2, 0.4, -3.0, 0.0, 0.0, -0.6, 0.8]
    """

@overload
def transform_point(xform: _Transformation, point: V) -> V:
    """A point moved: by a transform, or as (x, y, z, 1) by a matrix, whose last row is left out.

    >>> loom.transform_point(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.vec3(1.0, 0.0, 0.0))
    [1.28, 2.96, 3.0]
    """

@overload
def transform_point(mat: _Matrix, point: V) -> V:
    """A point moved: by a transform, or as (x, y, z, 1) by a matrix, whose last row is left out."""

@overload
def transform_vector(xform: _Transformation, vec: V) -> V:
    """A direction turned: by a transform's rotation, or as (x, y, z, 0) by a matrix, whose last row is left out.

    >>> loom.transform_vector(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.vec3(1.0, 0.0, 0.0))
    [0.28, 0.96, 0.0]
    """

@overload
def transform_vector(mat: _Matrix, vec: V) -> V:
    """A direction turned: by a transform's rotation, or as (x, y, z, 0) by a matrix, whose last row is left out."""

def spatial_top(svec: _Vector) -> _Vector:
    """The first three components of a spatial vector, the angular part.

    >>> loom.spatial_top(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    [1.0, 2.0, 3.0]
    """

def spatial_bottom(svec: _Vector) -> _Vector:
    """The last three components of a spatial vector, the linear part.

    >>> loom.spatial_bottom(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    [4.0, 5.0, 6.0]
    """

def spatial_dot(a: V, b: V) -> float:
    """The sum of the products of corresponding components.

    >>> loom.spatial_dot(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    91.0
    """

def spatial_cross(a: V, b: V) -> V:
    """The cross product of two motions.

    >>> loom.spatial_cross(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), loom.spatial_vector(1.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    [0.0, 3.0, -2.0, -3.0, 6.0, -4.0]
    """

def spatial_cross_dual(a: V, b: V) -> V:
    """The cross product of a motion and a force.

    >>> loom.spatial_cross_dual(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), loom.spatial_vector(1.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    [-6.0, 3.0, 2.0, -3.0, 0.0, 1.0]
    """

def spatial_adjoint(r: M, s: M) -> _Matrix:
    """The matrix that takes spatial vectors from one frame to another: `r` on the diagonal, `s` at the lower left.

    >>> m = loom.spatial_adjoint(loom.identity(n=3, dtype=float), loom.skew(loom.vec3(1.0, 2.0, 3.0)))
    >>> m[3]
    [0.0, -3.0, 2.0, 1.0, 0.0, 0.0]
    """

def add(a: T, b: T) -> T:
    """Sum. Integers wrap.

    >>> 2 + 3
    5
    >>> loom.add(2, 3)
    5
    """

def sub(a: T, b: T) -> T:
    """Difference. Integers wrap.

    >>> 2 - 3
    -1
    >>> loom.sub(2, 3)
    -1
    """

def mul(a: T, b: T) -> T:
    """Product. Integers wrap. A composite times a scalar is scaled; a matrix times a matrix or a vector, and a vector times a matrix, are products of linear algebra; quaternions and transforms are composed: `b`, then `a`.

    >>> 2 * 3
    6
    >>> loom.mat22(1.0, 2.0, 3.0, 4.0) * loom.vec2(1.0, 1.0)
    [3.0, 7.0]
    """

def div(a: T, b: T) -> T:
    """Quotient. Integers truncate toward zero, as in Warp and C; division by zero gives 0 and the most negative integer divided by -1 wraps to itself.

    >>> -7 / 2
    -3
    >>> loom.div(-7, 2)
    -3
    """

def div_approx(a: T, b: T) -> T:
    """Quotient. Integers truncate toward zero, as in Warp and C; division by zero gives 0 and the most negative integer divided by -1 wraps to itself.

    >>> -7 / 2
    -3
    >>> loom.div(-7, 2)
    -3
    """

def floordiv(a: T, b: T) -> T:
    """Quotient rounded toward negative infinity. Integer division by zero gives 0; floats are `floor(a / b)`.

    >>> -7 // 2
    -4
    >>> loom.floordiv(-7, 2)
    -4
    """

def mod(a: T, b: T) -> T:
    """Remainder of the truncated quotient: the sign is that of `a`, as in Warp and C. An integer divisor of zero gives `a`; a float divisor of zero gives NaN. Exact for floats.

    >>> -7 % 2
    -1
    >>> loom.mod(-7, 2)
    -1
    """

def pos(x: T) -> T:
    """The number itself.

    >>> loom.pos(2.5)
    2.5
    """

def neg(x: T) -> T:
    """Negation. Integers wrap.

    >>> -loom.vec2(1.0, 2.0)
    [-1.0, -2.0]
    >>> loom.neg(3)
    -3
    """

def eq(a: T, b: T) -> bool:
    """Whether two values are equal. NaN is not equal to anything.

    >>> 2 == 2
    True
    >>> loom.vec2(1.0, 2.0) == loom.vec2(1.0, 3.0)
    False
    """

def ne(a: T, b: T) -> bool:
    """Whether two values differ. NaN differs from everything.

    >>> 2 != 2
    False
    >>> loom.nan != loom.nan
    True
    """

def lt(a: T, b: T) -> bool:
    """Whether `a` is less than `b`; false with a NaN.

    >>> 2 < 3
    True
    >>> loom.lt(3, 2)
    False
    """

def le(a: T, b: T) -> bool:
    """Whether `a` is at most `b`; false with a NaN.

    >>> 2 <= 2
    True
    >>> loom.le(3, 2)
    False
    """

def gt(a: T, b: T) -> bool:
    """Whether `a` is greater than `b`; false with a NaN.

    >>> 3 > 2
    True
    >>> loom.gt(2, 2)
    False
    """

def ge(a: T, b: T) -> bool:
    """Whether `a` is at least `b`; false with a NaN.

    >>> 2 >= 2
    True
    >>> loom.ge(2, 3)
    False
    """

def bit_and(a: T, b: T) -> T:
    """Bitwise and; logical and for `bool`.

    >>> 12 & 10
    8
    """

def bit_or(a: T, b: T) -> T:
    """Bitwise or; logical or for `bool`.

    >>> 12 | 10
    14
    """

def bit_xor(a: T, b: T) -> T:
    """Bitwise exclusive or; inequality for `bool`.

    >>> 12 ^ 10
    6
    """

def invert(x: T) -> T:
    """Bitwise complement.

    >>> ~5
    -6
    """

def logical_not(x: bool) -> bool:
    """Logical negation.

    >>> not 1 < 2
    False
    """

def unot(a: T) -> bool:
    """Whether a number is zero, or a `bool` false.

    >>> loom.unot(0)
    True
    """

def bit_count(x: T) -> int:
    """How many bits of an integer are set.

    >>> loom.bit_count(255)
    8
    """

def lshift(x: T, count: T) -> T:
    """Shift left. The count is read as unsigned; a count of the width or more gives 0.

    >>> 3 << 4
    48
    """

def rshift(x: T, count: T) -> T:
    """Shift right, arithmetic for signed types. The count is read as unsigned; a count of the width or more gives 0, or -1 for a negative signed `x`.

    >>> -16 >> 2
    -4
    """

def abs(x: T) -> T:
    """Absolute value. The most negative integer stays itself.

    >>> loom.abs(-2.5)
    2.5
    >>> loom.abs(loom.vec2(-1.0, 2.0))
    [1.0, 2.0]
    """

def min(a: T, b: T) -> T:
    """The smaller value. With one NaN, the other operand; -0.0 is less than +0.0.

    >>> loom.min(2, 3)
    2
    >>> loom.min(loom.vec3(3.0, 1.0, 2.0))
    1.0
    """

def max(a: T, b: T) -> T:
    """The larger value. With one NaN, the other operand; -0.0 is less than +0.0.

    >>> loom.max(2, 3)
    3
    >>> loom.max(loom.vec3(3.0, 1.0, 2.0))
    3.0
    """

def argmin(x: _Vector) -> int:
    """The number of the first component that is the smallest; NaN is none. 0 if all are NaN.

    >>> loom.argmin(loom.vec3(3.0, 1.0, 2.0))
    1
    """

def argmax(x: _Vector) -> int:
    """The number of the first component that is the largest; NaN is none. 0 if all are NaN.

    >>> loom.argmax(loom.vec3(3.0, 1.0, 2.0))
    0
    """

def sqrt(x: T) -> T:
    """Square root, correctly rounded; NaN below zero.

    >>> loom.sqrt(2.0)
    1.414214
    """

def fma(a: T, b: T, c: T) -> T:
    """`a * b + c` with one rounding (for 16-bit floats: computed in `f64`, then rounded).

    >>> loom.fma(2.0, 3.0, 4.0)
    10.0
    """

def floor(x: T) -> T:
    """Largest integer not above `x`.

    >>> loom.floor(-1.5)
    -2.0
    """

def ceil(x: T) -> T:
    """Smallest integer not below `x`.

    >>> loom.ceil(-1.5)
    -1.0
    """

def trunc(x: T) -> T:
    """Integer part, toward zero.

    >>> loom.trunc(-1.5)
    -1.0
    """

def rint(x: T) -> T:
    """Nearest integer, ties to even.

    >>> loom.rint(2.5)
    2.0
    >>> loom.rint(3.5)
    4.0
    """

def copysign(x: T, y: T) -> T:
    """The magnitude of `x` with the sign of `y`; a NaN `y` counts as positive, since the sign of a NaN is not defined.

    >>> loom.copysign(2.0, -1.0)
    -2.0
    """

def round(x: T) -> T:
    """Nearest integer, ties away from zero.

    >>> loom.round(2.5)
    3.0
    >>> loom.round(-2.5)
    -3.0
    """

def frac(x: T) -> T:
    """Fractional part, `x - trunc(x)`: the sign is that of `x`.

    >>> loom.frac(-1.25)
    -0.25
    """

def sign(x: T) -> T:
    """-1 for negative `x`, else 1 (also for zero, as in Warp).

    >>> loom.sign(-2.5)
    -1.0
    >>> loom.sign(0.0)
    1.0
    """

def step(x: T) -> T:
    """1 for negative `x`, else 0, as in Warp.

    >>> loom.step(-2.5)
    1.0
    >>> loom.step(2.5)
    0.0
    """

def nonzero(x: T) -> T:
    """0 for zero, else 1.

    >>> loom.nonzero(-2.5)
    1.0
    """

def clamp(x: T, low: T, high: T) -> T:
    """`x` limited to `low` … `high`: `min(max(low, x), high)`.

    >>> loom.clamp(1.5, 0.0, 1.0)
    1.0
    """

def lerp(a: T, b: T, t: T) -> T:
    """Linear interpolation, `a * (1 - t) + b * t`.

    >>> loom.lerp(10.0, 20.0, 0.25)
    12.5
    """

def smoothstep(a: T, b: T, x: T) -> T:
    """Smooth Hermite step: 0 below `a`, 1 above `b`, `t * t * (3 - 2 * t)` between.

    >>> loom.smoothstep(0.0, 1.0, 0.25)
    0.15625
    """

def degrees(x: T) -> T:
    """Radians to degrees.

    >>> loom.degrees(loom.pi)
    180.0
    """

def radians(x: T) -> T:
    """Degrees to radians.

    >>> loom.radians(180.0)
    3.141593
    """

def isnan(x: T) -> bool:
    """Whether `x` is NaN.

    >>> loom.isnan(loom.sqrt(-1.0))
    True
    """

def isinf(x: T) -> bool:
    """Whether `x` is positive or negative infinity.

    >>> loom.isinf(-loom.inf)
    True
    """

def isfinite(x: T) -> bool:
    """Whether `x` is neither infinite nor NaN.

    >>> loom.isfinite(loom.inf)
    False
    """

def sin(x: T) -> T:
    """Sine of an angle in radians.

    >>> loom.sin(1.0)
    0.841471
    """

def cos(x: T) -> T:
    """Cosine of an angle in radians.

    >>> loom.cos(1.0)
    0.5403023
    """

def tan(x: T) -> T:
    """Tangent of an angle in radians.

    >>> loom.tan(1.0)
    1.557408
    """

def asin(x: T) -> T:
    """Arc sine in radians; NaN outside -1 … 1.

    >>> loom.asin(0.5)
    0.5235988
    """

def acos(x: T) -> T:
    """Arc cosine in radians; NaN outside -1 … 1.

    >>> loom.acos(0.5)
    1.047198
    """

def atan(x: T) -> T:
    """Arc tangent in radians.

    >>> loom.atan(1.0)
    0.7853982
    """

def atan2(y: T, x: T) -> T:
    """Angle of the point (`x`, `y`) in radians, -π … π; zeros and infinities as in C.

    >>> loom.atan2(1.0, -1.0)
    2.356194
    """

def sinh(x: T) -> T:
    """Hyperbolic sine.

    >>> loom.sinh(1.0)
    1.175201
    """

def cosh(x: T) -> T:
    """Hyperbolic cosine.

    >>> loom.cosh(1.0)
    1.543081
    """

def tanh(x: T) -> T:
    """Hyperbolic tangent.

    >>> loom.tanh(1.0)
    0.7615942
    """

def asinh(x: T) -> T:
    """Inverse hyperbolic sine.

    >>> loom.asinh(1.0)
    0.8813736
    """

def acosh(x: T) -> T:
    """Inverse hyperbolic cosine; NaN below 1.

    >>> loom.acosh(2.0)
    1.316958
    """

def atanh(x: T) -> T:
    """Inverse hyperbolic tangent; NaN outside -1 … 1.

    >>> loom.atanh(0.5)
    0.5493061
    """

def exp(x: T) -> T:
    """e to the power `x`.

    >>> loom.exp(1.0)
    2.718282
    """

def exp2(x: T) -> T:
    """2 to the power `x`.

    >>> loom.exp2(0.5)
    1.414214
    """

def expm1(x: T) -> T:
    """`exp(x) - 1`, accurate near 0.

    >>> loom.expm1(0.001)
    0.0010005
    """

def log(x: T) -> T:
    """Natural logarithm; NaN below 0.

    >>> loom.log(2.0)
    0.6931472
    """

def log2(x: T) -> T:
    """Base-2 logarithm; NaN below 0.

    >>> loom.log2(10.0)
    3.321928
    """

def log10(x: T) -> T:
    """Base-10 logarithm; NaN below 0.

    >>> loom.log10(50.0)
    1.69897
    """

def log1p(x: T) -> T:
    """`log(1 + x)`, accurate near 0; NaN below -1.

    >>> loom.log1p(0.001)
    0.0009995003
    """

def pow(x: T, y: T) -> T:
    """`x` to the power `y`; special cases as in C.

    >>> 2.0 ** 0.5
    1.414214
    >>> loom.pow(2.0, 10.0)
    1024.0
    """

def rsqrt(x: T) -> T:
    """`1 / sqrt(x)`.

    >>> loom.rsqrt(4.0)
    0.5
    """

def cbrt(x: T) -> T:
    """Cube root, of negative numbers too.

    >>> loom.cbrt(-27.0)
    -3.0
    """

def hypot(x: T, y: T) -> T:
    """`sqrt(x * x + y * y)` without overflow.

    >>> loom.hypot(3.0, 4.0)
    5.0
    """

def erf(x: T) -> T:
    """Error function.

    >>> loom.erf(0.5)
    0.5204999
    """

def erfc(x: T) -> T:
    """Complementary error function, `1 - erf(x)`.

    >>> loom.erfc(2.0)
    0.004677735
    """

def erfinv(x: T) -> T:
    """Inverse of the error function; NaN outside -1 … 1.

    >>> loom.erfinv(0.5)
    0.4769363
    """

def erfcinv(x: T) -> T:
    """Inverse of the complementary error function, with all digits of results for small `x`; NaN outside 0 … 2.

    >>> loom.erfcinv(1e-10)
    4.572825
    """

@overload
def load_readonly(array: _array, i: int) -> Any:
    """An element of an array that nothing writes while the kernel runs, past the cache for what may change. Indices as for `a[i]`.

    >>> a = [3, 1, 4]
    >>> loom.load_readonly(a, -1)
    4
    """

@overload
def load_readonly(array: _array, i: int, j: int) -> Any:
    """An element of an array that nothing writes while the kernel runs, past the cache for what may change. Indices as for `a[i]`."""

@overload
def load_readonly(array: _array, i: int, j: int, k: int) -> Any:
    """An element of an array that nothing writes while the kernel runs, past the cache for what may change. Indices as for `a[i]`."""

@overload
def load_readonly(array: _array, i: int, j: int, k: int, l: int) -> Any:
    """An element of an array that nothing writes while the kernel runs, past the cache for what may change. Indices as for `a[i]`."""

@overload
def lower_bound(arr: _array, value: T) -> int:
    """The first index of a sorted array whose element is not less than `value`, of the indices from `arr_begin` up to but not including `arr_end` if they are given; the last index if there is none. Limits outside the array are its ends.

    >>> a = [1, 3, 3, 5, 9]
    >>> loom.lower_bound(a, 3)
    1
    >>> loom.lower_bound(a, 4)
    3
    """

@overload
def lower_bound(arr: _array, arr_begin: int, arr_end: int, value: T) -> int:
    """The first index of a sorted array whose element is not less than `value`, of the indices from `arr_begin` up to but not including `arr_end` if they are given; the last index if there is none. Limits outside the array are its ends."""

@overload
def atomic_add(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Adds to an element and gives its old value. The order in which threads add is not fixed.

    >>> a = [3, 1, 4]
    >>> loom.atomic_add(a, 1, 10)
    1
    >>> a
    [3, 11, 4]
    """

@overload
def atomic_add(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Adds to an element and gives its old value. The order in which threads add is not fixed."""

@overload
def atomic_add(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Adds to an element and gives its old value. The order in which threads add is not fixed."""

@overload
def atomic_add(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Adds to an element and gives its old value. The order in which threads add is not fixed."""

@overload
def atomic_sub(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Subtracts from an element and gives its old value.

    >>> a = [3, 1, 4]
    >>> loom.atomic_sub(a, 1, 10)
    1
    >>> a
    [3, -9, 4]
    """

@overload
def atomic_sub(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Subtracts from an element and gives its old value."""

@overload
def atomic_sub(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Subtracts from an element and gives its old value."""

@overload
def atomic_sub(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Subtracts from an element and gives its old value."""

@overload
def atomic_min(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the `min` of element and value and gives the old value.

    >>> a = [3, 1, 4]
    >>> loom.atomic_min(a, 1, -2)
    1
    >>> a
    [3, -2, 4]
    """

@overload
def atomic_min(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the `min` of element and value and gives the old value."""

@overload
def atomic_min(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the `min` of element and value and gives the old value."""

@overload
def atomic_min(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the `min` of element and value and gives the old value."""

@overload
def atomic_max(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the `max` of element and value and gives the old value.

    >>> a = [3, 1, 4]
    >>> loom.atomic_max(a, 1, 7)
    1
    >>> a
    [3, 7, 4]
    """

@overload
def atomic_max(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the `max` of element and value and gives the old value."""

@overload
def atomic_max(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the `max` of element and value and gives the old value."""

@overload
def atomic_max(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the `max` of element and value and gives the old value."""

@overload
def atomic_and(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the bitwise and of element and value and gives the old value.

    >>> a = [3, 12, 4]
    >>> loom.atomic_and(a, 1, 10)
    12
    >>> a
    [3, 8, 4]
    """

@overload
def atomic_and(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the bitwise and of element and value and gives the old value."""

@overload
def atomic_and(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the bitwise and of element and value and gives the old value."""

@overload
def atomic_and(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the bitwise and of element and value and gives the old value."""

@overload
def atomic_or(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the bitwise or of element and value and gives the old value.

    >>> a = [3, 12, 4]
    >>> loom.atomic_or(a, 1, 10)
    12
    >>> a
    [3, 14, 4]
    """

@overload
def atomic_or(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the bitwise or of element and value and gives the old value."""

@overload
def atomic_or(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the bitwise or of element and value and gives the old value."""

@overload
def atomic_or(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the bitwise or of element and value and gives the old value."""

@overload
def atomic_xor(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the exclusive or of element and value and gives the old value.

    >>> a = [3, 12, 4]
    >>> loom.atomic_xor(a, 1, 10)
    12
    >>> a
    [3, 6, 4]
    """

@overload
def atomic_xor(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the exclusive or of element and value and gives the old value."""

@overload
def atomic_xor(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the exclusive or of element and value and gives the old value."""

@overload
def atomic_xor(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores the exclusive or of element and value and gives the old value."""

@overload
def atomic_cas(array: _array, i: int, compare: T, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores `value` if the element's bits equal those of `compare`; gives the old value either way.

    >>> a = [3, 1, 4]
    >>> loom.atomic_cas(a, 1, 1, 7)
    1
    >>> loom.atomic_cas(a, 2, 1, 7)
    4
    >>> a
    [3, 7, 4]
    """

@overload
def atomic_cas(array: _array, i: int, j: int, compare: T, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores `value` if the element's bits equal those of `compare`; gives the old value either way."""

@overload
def atomic_cas(array: _array, i: int, j: int, k: int, compare: T, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores `value` if the element's bits equal those of `compare`; gives the old value either way."""

@overload
def atomic_cas(array: _array, i: int, j: int, k: int, l: int, compare: T, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores `value` if the element's bits equal those of `compare`; gives the old value either way."""

@overload
def atomic_exch(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores `value` and gives the old value.

    >>> a = [3, 1, 4]
    >>> loom.atomic_exch(a, 1, 7)
    1
    >>> a
    [3, 7, 4]
    """

@overload
def atomic_exch(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores `value` and gives the old value."""

@overload
def atomic_exch(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores `value` and gives the old value."""

@overload
def atomic_exch(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Stores `value` and gives the old value."""

@overload
def atomic_inc(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Counts an element up: stores 0 if it is at least `value`, else the element plus 1, and gives the old value.

    >>> a = [3, 1, 4]
    >>> loom.atomic_inc(a, 1, 7)
    1
    >>> loom.atomic_inc(a, 2, 4)
    4
    >>> a
    [3, 2, 0]
    """

@overload
def atomic_inc(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Counts an element up: stores 0 if it is at least `value`, else the element plus 1, and gives the old value."""

@overload
def atomic_inc(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Counts an element up: stores 0 if it is at least `value`, else the element plus 1, and gives the old value."""

@overload
def atomic_inc(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Counts an element up: stores 0 if it is at least `value`, else the element plus 1, and gives the old value."""

@overload
def atomic_dec(array: _array, i: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Counts an element down: stores `value` if it is 0 or more than `value`, else the element minus 1, and gives the old value.

    >>> a = [3, 1, 0]
    >>> loom.atomic_dec(a, 1, 7)
    1
    >>> loom.atomic_dec(a, 2, 4)
    0
    >>> a
    [3, 0, 4]
    """

@overload
def atomic_dec(array: _array, i: int, j: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Counts an element down: stores `value` if it is 0 or more than `value`, else the element minus 1, and gives the old value."""

@overload
def atomic_dec(array: _array, i: int, j: int, k: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Counts an element down: stores `value` if it is 0 or more than `value`, else the element minus 1, and gives the old value."""

@overload
def atomic_dec(array: _array, i: int, j: int, k: int, l: int, value: T, *, scope: str = ..., order: str = ...) -> T:
    """Counts an element down: stores `value` if it is 0 or more than `value`, else the element minus 1, and gives the old value."""

@overload
def rand_init(seed: int) -> int:
    """A random state from a seed and, to give each thread its own sequence, an offset.

    >>> loom.rand_init(42)
    1223963391
    >>> loom.rand_init(42, 1)
    2311944962
    """

@overload
def rand_init(seed: int, offset: int) -> int:
    """A random state from a seed and, to give each thread its own sequence, an offset."""

@overload
def randi(state: int) -> int:
    """A random integer over all of `int32`, or from `low` up to but not including `high`; `low` if there is none between.

    >>> state = loom.rand_init(42)
    >>> loom.randi(state, 1, 7)
    2
    """

@overload
def randi(state: int, low: int, high: int) -> int:
    """A random integer over all of `int32`, or from `low` up to but not including `high`; `low` if there is none between."""

@overload
def randu(state: int) -> int:
    """A random integer over all of `uint32`, or from `low` up to but not including `high`; `low` if there is none between.

    >>> state = loom.rand_init(42)
    >>> loom.randu(state)
    2785308739
    """

@overload
def randu(state: int, low: int, high: int) -> int:
    """A random integer over all of `uint32`, or from `low` up to but not including `high`; `low` if there is none between."""

@overload
def randf(state: int) -> float:
    """A random float, uniform on [0, 1) in steps of 2^-24, or from `low` up to `high`.

    >>> state = loom.rand_init(42)
    >>> loom.randf(state)
    0.6485052
    """

@overload
def randf(state: int, low: float, high: float) -> float:
    """A random float, uniform on [0, 1) in steps of 2^-24, or from `low` up to `high`."""

def randn(state: int) -> float:
    """A random float from the standard normal distribution.

    >>> state = loom.rand_init(42)
    >>> loom.randn(state)
    0.8478933
    """

def poisson(state: int, lam: float) -> int:
    """A random integer from the Poisson distribution with mean `lam`.

    >>> state = loom.rand_init(42)
    >>> loom.poisson(state, 4.0)
    5
    """

def sample_cdf(state: int, cdf: _array) -> int:
    """The first index whose entry of a cumulative distribution is not below a uniform sample.

    >>> cdf = [0.25, 0.5, 1.0]
    >>> state = loom.rand_init(42)
    >>> loom.sample_cdf(state, cdf)
    2
    """

def sample_triangle(state: int) -> _Vector:
    """Barycentric coordinates (u, v) of a uniform point of a triangle.

    >>> state = loom.rand_init(42)
    >>> loom.sample_triangle(state)
    [0.1947018, 0.7508289]
    """

def sample_unit_ring(state: int) -> _Vector:
    """A uniform point of the unit circle's line, `x, y`.

    >>> state = loom.rand_init(42)
    >>> loom.sample_unit_ring(state)
    [-0.5953575, -0.8034609]
    """

def sample_unit_disk(state: int) -> _Vector:
    """A uniform point of the unit disk, `x, y`.

    >>> state = loom.rand_init(42)
    >>> loom.sample_unit_disk(state)
    [0.7336624, -0.332031]
    """

def sample_unit_sphere_surface(state: int) -> _Vector:
    """A uniform point of the unit sphere's surface, `x, y, z`.

    >>> state = loom.rand_init(42)
    >>> loom.sample_unit_sphere_surface(state)
    [0.8699328, -0.3937024, -0.2970105]
    """

def sample_unit_sphere(state: int) -> _Vector:
    """A uniform point of the unit ball, `x, y, z`.

    >>> state = loom.rand_init(42)
    >>> loom.sample_unit_sphere(state)
    [0.7625344, -0.3450975, -0.2603428]
    """

def sample_unit_hemisphere_surface(state: int) -> _Vector:
    """A uniform point of the upper unit hemisphere's surface (`z` at least 0), `x, y, z`.

    >>> state = loom.rand_init(42)
    >>> loom.sample_unit_hemisphere_surface(state)
    [0.8529105, -0.3859987, 0.3514948]
    """

def sample_unit_hemisphere(state: int) -> _Vector:
    """A uniform point of the upper unit half ball (`z` at least 0), `x, y, z`.

    >>> state = loom.rand_init(42)
    >>> loom.sample_unit_hemisphere(state)
    [0.7476137, -0.3383449, 0.3081007]
    """

def sample_unit_square(state: int) -> _Vector:
    """A uniform point of the square from -0.5 to 0.5, `x, y`.

    >>> state = loom.rand_init(42)
    >>> loom.sample_unit_square(state)
    [0.1485052, 0.4323613]
    """

def sample_unit_cube(state: int) -> _Vector:
    """A uniform point of the cube from -0.5 to 0.5, `x, y, z`.

    >>> state = loom.rand_init(42)
    >>> loom.sample_unit_cube(state)
    [0.1485052, 0.4323613, 0.1734746]
    """

def noise(state: int, x: float) -> float:
    """Perlin noise: the value at a point of a smooth random field, zero at integer coordinates. The state, as of `rand_init`, says which field; it does not change.

    >>> state = loom.rand_init(42)
    >>> loom.noise(state, loom.vec2(0.5, 0.25))
    0.3150977
    """

def pnoise(state: int, x: float, px: int) -> float:
    """Perlin noise that repeats: as `noise`, with an integer period along each axis.

    >>> state = loom.rand_init(42)
    >>> loom.pnoise(state, loom.vec2(0.5, 0.25), 4, 4)
    0.3150977
    """

@overload
def curlnoise(state: int, xy: _Vector) -> _Vector:
    """A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before.

    >>> state = loom.rand_init(42)
    >>> loom.curlnoise(state, loom.vec3(0.5, 0.25, 0.75))
    [-0.09437898, -0.3558666, 0.6523674]
    """

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

def thread_idx(axis: int = ...) -> int:
    """The thread's coordinate in its block along axis 0, 1 or 2.

    >>> loom.thread_idx()
    0
    >>> loom.thread_idx(1)
    0
    """

def block_idx(axis: int = ...) -> int:
    """The block's coordinate in the grid along axis 0, 1 or 2.

    >>> loom.block_idx()
    0
    """

def block_dim(axis: int = ...) -> int:
    """The extent of a block along axis 0, 1 or 2, in threads. On the CPU, a kernel that has nothing else of blocks runs in blocks of one.

    >>> loom.block_dim()
    1
    """

def grid_dim(axis: int = ...) -> int:
    """The extent of the grid along axis 0, 1 or 2, in blocks.

    >>> loom.grid_dim()
    1
    """

def lane_id() -> int:
    """The thread's number in its warp, 0 to 31. Threads of a block are counted along axis 0 first, and 32 that follow each other are a warp.

    >>> loom.lane_id()
    0
    """

def warp_id() -> int:
    """The number of the thread's warp in its block.

    >>> loom.warp_id()
    0
    """

def shared_array(shape: Any, dtype: Any = ..., align: int = ...) -> _array:
    """An array of constant extents that the threads of a block have in common; its elements are not set to begin with. Each place in the text is one array for each block, however often it is executed.

    >>> tile = loom.shared_array(shape=(8, 4), dtype=int)
    >>> tile[2, 3] = 7
    >>> tile[2, 3]
    7
    """

def dynamic_shared(shape: Any, dtype: Any = ..., offset: int = ...) -> _array:
    """A view of the shared memory that the launch asks for with `shared_bytes`, from a byte offset on. Views may overlap.

    >>> part = loom.dynamic_shared(shape=0, dtype=float)
    >>> part.shape[0]
    0
    """

def sync_threads(id: int = ..., count: int = ...) -> None:
    """Waits until all threads of the block have come here. What they wrote before, all of them read after. With `id`, 1 to 15, and `count`, a multiple of 32, both constant: until `count` threads, those of whole warps, have come to a barrier of this number, while other warps go on.

    >>> tile = loom.shared_array(shape=2, dtype=float)
    >>> tile[loom.thread_idx()] = 1.5
    >>> loom.sync_threads()
    >>> tile[0]
    1.5
    """

def sync_threads_and(predicate: bool) -> bool:
    """As `sync_threads`; gives whether the predicate holds in all threads of the block.

    >>> loom.sync_threads_and(loom.tid() == 0)
    True
    """

def sync_threads_or(predicate: bool) -> bool:
    """As `sync_threads`; gives whether the predicate holds in any thread of the block.

    >>> loom.sync_threads_or(loom.tid() == 1)
    False
    """

def sync_threads_count(predicate: bool) -> int:
    """As `sync_threads`; gives in how many threads of the block the predicate holds.

    >>> loom.sync_threads_count(loom.tid() == 0)
    1
    """

def thread_fence(scope: str = ...) -> None:
    """What the thread wrote before is seen by others of the scope no later than what it writes after: `thread` for the thread alone, `block`, `device`, which it is unless given, or `system`, with the CPU and other devices.

    >>> a = [3, 1]
    >>> a[0] = 5
    >>> loom.thread_fence(scope="block")
    >>> a
    [5, 1]
    """

@overload
def sync_warp() -> None:
    """Waits until all threads of the warp that the mask names, one bit each, have come here; all unless it is given. What they wrote before, they all read after.

    >>> loom.sync_warp()
    >>> loom.lane_id()
    0
    """

@overload
def sync_warp(mask: int) -> None:
    """Waits until all threads of the warp that the mask names, one bit each, have come here; all unless it is given. What they wrote before, they all read after."""

def shuffle(value: T, lane: int, width: int = ...) -> T:
    """The value that another lane has: the one with this number, counted modulo `width` in the group of `width` lanes that the lane is in. Which value a lane gets whose source has exited is not defined; the interpreter gives it its own. `width` is a constant power of two, 32 unless given.

    >>> loom.shuffle(2.5, 0)
    2.5
    >>> loom.shuffle(7, 3, width=4)
    7
    """

def shuffle_up(value: T, delta: int, width: int = ...) -> T:
    """The value of the lane that is `delta`, modulo 32, before this one; its own if that is in another group of `width`. Else as `shuffle`.

    >>> loom.shuffle_up(7, 1)
    7
    """

def shuffle_down(value: T, delta: int, width: int = ...) -> T:
    """The value of the lane that is `delta`, modulo 32, behind this one; its own if that is in another group of `width`. Else as `shuffle`.

    >>> loom.shuffle_down(7, 1)
    7
    """

def shuffle_xor(value: T, mask: int, width: int = ...) -> T:
    """The value of the lane whose number is this one's with the bits of `mask`, modulo 32, flipped; its own if that is in a later group of `width`. Else as `shuffle`.

    >>> loom.shuffle_xor(loom.vec2(1.0, 2.0), 16)
    [1.0, 2.0]
    """

def ballot(predicate: bool) -> int:
    """In which lanes of the warp the predicate holds, one bit each; 0 for those that have exited.

    >>> loom.ballot(loom.lane_id() == 0)
    1
    """

def warp_any(predicate: bool) -> bool:
    """Whether the predicate holds in any lane of the warp.

    >>> loom.warp_any(loom.lane_id() == 5)
    False
    """

def warp_all(predicate: bool) -> bool:
    """Whether the predicate holds in all lanes of the warp.

    >>> loom.warp_all(loom.lane_id() == 0)
    True
    """

def match_any(value: T) -> int:
    """Which lanes of the warp have the bits of this one's value, one bit each.

    >>> loom.match_any(3)
    1
    """

def match_all(value: T) -> int:
    """Which lanes of the warp there are, one bit each, if the bits of all their values are the same; else 0.

    >>> loom.match_all(3.5)
    1
    """

def warp_reduce_add(value: T) -> T:
    """The sum of a value over the lanes of the warp, the same in all. In the order of a tree: each lane adds the value of the lane 16 behind it, if there is one, then of that 8 behind, 4, 2 and 1; lane 0 then has the sum.

    >>> loom.warp_reduce_add(2.5)
    2.5
    """

def warp_reduce_min(value: T) -> T:
    """The `min` of a value over the lanes of the warp, the same in all.

    >>> loom.warp_reduce_min(loom.vec2(1.0, 2.0))
    [1.0, 2.0]
    """

def warp_reduce_max(value: T) -> T:
    """The `max` of a value over the lanes of the warp, the same in all.

    >>> loom.warp_reduce_max(3)
    3
    """

def warp_reduce_and(value: T) -> T:
    """The bitwise and of a value over the lanes of the warp, the same in all.

    >>> loom.warp_reduce_and(12)
    12
    """

def warp_reduce_or(value: T) -> T:
    """The bitwise or of a value over the lanes of the warp, the same in all.

    >>> loom.warp_reduce_or(12)
    12
    """

def warp_reduce_xor(value: T) -> T:
    """The exclusive or of a value over the lanes of the warp, the same in all.

    >>> loom.warp_reduce_xor(12)
    12
    """

def mma_load_a(array: _array, row: int, col: int, *, layout: str = ...) -> _Vector:
    """The lane's part of a 16 × 16 matrix, the left factor of `mma`, that begins at this row and column: of `float16`, `bfloat16`, `float32` (`tf32`), `int8` or `uint8`. `layout="col"` reads an array that is indexed by the matrix's column first.

    >>> m = loom.shared_array(shape=(16, 16), dtype=loom.float16)
    >>> m[0, 1] = loom.float16(1.5)
    >>> loom.mma_load_a(m, 0, 0)[1]
    1.5
    """

def mma_load_b(array: _array, row: int, col: int, *, layout: str = ..., n: int = ...) -> _Vector:
    """The lane's part of a 16 × n matrix, the right factor of `mma`, that begins at this row and column; n is 16 unless it is given as 8. Else as `mma_load_a`.

    >>> m = loom.shared_array(shape=(16, 16), dtype=loom.float16)
    >>> m[1, 0] = loom.float16(1.5)
    >>> loom.mma_load_b(m, 0, 0, n=8)[1]
    1.5
    """

def mma_load_c(array: _array, row: int, col: int, *, layout: str = ..., n: int = ...) -> _Vector:
    """The lane's part of a 16 × n matrix that `mma` adds to, of `float32` or `int32`. Else as `mma_load_b`.

    >>> m = loom.shared_array(shape=(16, 16), dtype=float)
    >>> m[0, 1] = 1.5
    >>> loom.mma_load_c(m, 0, 0)[1]
    1.5
    """

def mma_store(array: _array, row: int, col: int, value: _Vector, *, layout: str = ...) -> None:
    """Stores the lane's part of the result of an `mma`, from this row and column on.

    >>> m = loom.shared_array(shape=(16, 8), dtype=float)
    >>> loom.mma_store(m, 0, 0, loom.vec4(2.5))
    >>> m[0, 1]
    2.5
    """

def mma(a: _Vector, b: _Vector, c: _Vector) -> _Vector:
    """The product of a 16 × 16 matrix and a 16 × n one, plus a 16 × n one, by the tensor core; each lane of the warp has a part of them. Products of floats are exact and added in `float32` from the first on; the tensor core rounds otherwise, so the last bits may differ. Of `float32` factors the upper ten bits of the mantissas count (`tf32`). Before `sm_80` there are products of `float16` alone.

    >>> a = loom.vector(length=8, dtype=loom.float16)
    >>> b = loom.vector(length=4, dtype=loom.float16)
    >>> loom.mma(a, b, loom.vec4(2.5))
    [2.5, 2.5, 2.5, 2.5]
    """

def async_copy(target: Any, source: Any, count: int = ..., cache: str = ...) -> None:
    """Begins to copy elements that follow each other, `count` from `source` on, from global to shared memory; they take 4, 8 or 16 bytes. `cache` is `"default"` or `"l1"`, through all caches; `"l2"`, for 16 bytes, past the multiprocessor's own; or `"streaming"`, to be the first that makes room in them. What is copied is there after `async_wait` and, for other threads, a barrier.

    >>> a = [3.0, 1.0]
    >>> m = loom.shared_array(shape=2, dtype=float)
    >>> loom.async_copy(m[0], a[0], count=2)
    >>> loom.async_commit()
    >>> loom.async_wait()
    >>> m[1]
    1.0
    """

def async_commit() -> None:
    """Makes a group of the copies that the thread has begun since the last one.

    >>> loom.async_commit()
    >>> loom.tid()
    0
    """

def async_wait(pending: int = ...) -> None:
    """Waits until at most `pending`, 0 unless it is given, of the groups that the thread has made are under way.

    >>> loom.async_wait(1)
    >>> loom.tid()
    0
    """

def clock() -> int:
    """A counter that the multiprocessor increments each clock cycle; on the CPU, one that increments in some way.

    >>> begin = loom.clock()
    >>> loom.clock() >= begin
    True
    """

def nanosleep(duration: int) -> None:
    """Suspends the thread for about so many nanoseconds, at most a million.

    >>> loom.nanosleep(100)
    >>> loom.tid()
    0
    """

def expect_eq(a: T, b: T) -> None:
    """Prints both values unless they are equal.

    >>> loom.expect_eq(1 + 1, 3)
    Error, expect_eq() failed:
    	 Expected: 3
    	 Actual: 2
    """

def expect_neq(a: T, b: T) -> None:
    """Prints both values if they are equal.

    >>> loom.expect_neq(1 + 1, 2)
    Error, expect_neq() failed:
    	 Expected: 2
    	 Actual: 2
    """

@overload
def expect_near(a: T, b: T) -> None:
    """Prints both values if they, or any of their components, differ by more than `tolerance`, 1e-6 unless given.

    >>> loom.expect_near(1.0, 1.25, 0.5)
    >>> loom.expect_near(1.0, 2.0, 0.5)
    Error, expect_near() failed:
    	 Expected: 2.0
    	 Actual: 1.0
    """

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
    "async_commit",
    "async_copy",
    "async_wait",
    "atan",
    "atan2",
    "atanh",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_dec",
    "atomic_exch",
    "atomic_inc",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xor",
    "ballot",
    "bit_and",
    "bit_count",
    "bit_or",
    "bit_xor",
    "block_dim",
    "block_idx",
    "cast",
    "cbrt",
    "ceil",
    "clamp",
    "clock",
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
    "dynamic_shared",
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
    "grid_dim",
    "gt",
    "hypot",
    "identity",
    "inverse",
    "inverse_approx",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "lane_id",
    "le",
    "length",
    "length_sq",
    "lerp",
    "load_readonly",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "lower_bound",
    "lshift",
    "lt",
    "match_all",
    "match_any",
    "matrix",
    "matrix_from_cols",
    "matrix_from_rows",
    "max",
    "min",
    "mma",
    "mma_load_a",
    "mma_load_b",
    "mma_load_c",
    "mma_store",
    "mod",
    "mul",
    "nanosleep",
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
    "shared_array",
    "shuffle",
    "shuffle_down",
    "shuffle_up",
    "shuffle_xor",
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
    "sync_threads",
    "sync_threads_and",
    "sync_threads_count",
    "sync_threads_or",
    "sync_warp",
    "tan",
    "tanh",
    "thread_fence",
    "thread_idx",
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
    "warp_all",
    "warp_any",
    "warp_id",
    "warp_reduce_add",
    "warp_reduce_and",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_or",
    "warp_reduce_xor",
    "where",
]
