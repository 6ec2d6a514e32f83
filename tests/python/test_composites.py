"""Vectors, matrices, quaternions and transformations as Python values, and as elements of arrays."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest

FLOATS = ["h", "f", "d"]
NAMES = [f"vec{n}{suffix}" for n in "234" for suffix in [*"hfdbsil", "ub", "us", "ui", "ul", ""]]
NAMES += [f"{stem}{suffix}" for stem in ("mat22", "mat33", "mat44", "quat", "transform") for suffix in [*FLOATS, ""]]
NAMES += [f"spatial_{stem}{suffix}" for stem in ("vector", "matrix") for suffix in [*FLOATS, ""]]


@pytest.mark.parametrize("name", NAMES)
def test_types(name):
    cls = getattr(loom, name)
    assert cls()._shape_ == cls._shape_ == np.asarray(cls()).shape
    assert cls._length_ == np.asarray(cls()).size
    assert cls._wp_scalar_type_.numpy == np.asarray(cls()).dtype
    assert pickle.loads(pickle.dumps(cls)) is cls
    assert {cls: 1}[cls] == 1
    value = cls(*range(cls._length_))
    assert np.asarray(value).ravel().tolist() == list(range(cls._length_))
    for made in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value), cls(value)):
        assert made == value and type(made) is cls
        assert not np.shares_memory(np.asarray(made), np.asarray(value))


def test_types_made_twice_are_the_same():
    types = loom.types
    assert types.vector(3, float) is types.vector(length=3, dtype=loom.float32) is loom.vec3 is loom.vec3f
    assert types.matrix((2, 2), dtype=np.float64) is loom.mat22d
    assert types.quaternion(dtype=float) is loom.quat
    assert types.transformation(dtype=loom.float16) is loom.transformh
    assert types.vector(6, float) is loom.spatial_vector
    assert types.vector(5, int) is types.vector(5, int)
    assert types.vector(5, int) is not types.vector(5, float)


def test_types_print_as_they_are_written():
    assert repr(loom.vec3) == "polyloom.vec3"
    assert repr(loom.types.vector(5, int)) == "polyloom.types.vector(length=5, dtype=int32)"
    assert repr(loom.types.matrix((2, 3), "float64")) == "polyloom.types.matrix(shape=(2, 3), dtype=float64)"
    assert repr(loom.array(dtype=loom.vec3, ndim=2)) == "polyloom.array(dtype=vec3, ndim=2)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: loom.types.vector(10**20, float), "a vector has 1 to 1024 components"),
        (lambda: loom.types.vector(-1, float), "a vector has 1 to 1024 components"),
        (lambda: loom.types.matrix((2,), float), "its number of rows and of columns"),
        (lambda: loom.types.quaternion(int), "a quaternion has components of a float type, not int32"),
    ],
)
def test_types_that_there_are_not(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_types_without_components_can_be_named_and_not_used():
    for ty in (loom.types.vector(0, float), loom.types.matrix((2, 0), float)):
        with pytest.raises(NotImplementedError, match="of no components is not there"):
            ty()


def test_values_are_made_of_numbers_parts_and_sequences():
    assert loom.vec3() == loom.vec3(0) == (0, 0, 0)
    assert (
        loom.vec3(1, 2, 3) == loom.vec3([1, 2, 3]) == loom.vec3(np.array([1.0, 2, 3])) == loom.vec3(loom.vec2(1, 2), 3)
    )
    assert loom.vec3d(loom.vec3(1, 2, 3)) == (1, 2, 3)
    assert loom.mat22(1, 2, 3, 4) == loom.mat22([1, 2], [3, 4]) == loom.mat22([[1, 2], [3, 4]])
    assert loom.mat22(1, 2, 3, 4) == loom.mat22(np.array([1, 2, 3, 4])) == loom.mat22((1, 2, 3, 4))
    assert loom.quat(loom.vec3(1, 2, 3), 4) == loom.quat(1, 2, 3, 4)
    assert loom.transform() == (0, 0, 0, 0, 0, 0, 1)
    assert loom.transform((1, 2, 3), loom.quat(4, 5, 6, 7)) == loom.transform(p=(1, 2, 3), q=(4, 5, 6, 7))
    assert loom.transform((1, 2, 3), q=(4, 5, 6, 7)) == range(1, 8)
    assert loom.vec2(loom.float32(1.5), np.float64(2.5)) == (1.5, 2.5)
    assert loom.vec2h(1e6, 0)[0] == np.inf
    assert loom.types.vector(2, bool)(True, False) == (True, False)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: loom.vec3(1, 2), ValueError, "vector constructor, expected 3 elements, got 2"),
        (lambda: loom.vec3([1, 2, 3, 4]), ValueError, "vec3 has 3 components, 4 given"),
        (lambda: loom.vec3("abc"), TypeError, "Expected to assign a `float32` value but got `str`"),
        (lambda: loom.vec3(1, None, 2), TypeError, "Expected to assign a `float32` value but got `NoneType`"),
        (lambda: loom.vec3(1j), TypeError, "Expected to assign a `float32` value but got `complex`"),
        (lambda: loom.vec3i(1.5), TypeError, "Expected to assign a `int32` value but got `float`"),
        (lambda: loom.mat22(1, 2, 3), ValueError, "matrix constructor, expected 4 elements, got 3"),
        (lambda: loom.mat22([1, 2, 3], [4]), TypeError, "expected row of length 2"),
        (lambda: loom.mat22([[1, 2, 3], [4]]), ValueError, "the rows differ in length"),
        (lambda: loom.types.matrix((2, 3), float)(np.zeros((3, 2))), ValueError, r"not an array of shape \(3, 2\)"),
        (lambda: loom.quat(1, 2), ValueError, "quat constructor, expected 4 elements, got 2"),
        (lambda: loom.transform((1, 2, 3), (0, 0, 0, 1), q=(0, 0, 0, 1)), TypeError, "more than its translation"),
    ],
)
def test_wrong_components(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_components_are_read_and_assigned():
    v = loom.vec4(1, 2, 3, 4)
    assert (v.x, v.y, v.z, v.w) == tuple(v) == (v[0], v[1], v[-2], v[-1])
    v.x, v[1], v[2:] = 5, 6.5, (7, 8)
    assert v == (5, 6.5, 7, 8)
    v[::2] = 0
    assert v == (0, 6.5, 0, 8)
    assert v[1:] == loom.vec3(6.5, 0, 8) and type(v[1:]) is loom.vec3
    m = loom.mat22(1, 2, 3, 4)
    assert m[0] == loom.vec2(1, 2) and m[1, 0] == 3 and m[:, 1] == (2, 4) and len(m) == 2
    assert [row.y for row in m] == [2, 4]
    m[0], m[1, 1] = (5, 6), 7
    assert m == ((5, 6), (3, 7))
    assert m.get_row(1) == (3, 7) and m.get_col(0) == (5, 3)
    m.set_row(0, 1)
    m.set_col(1, (8, 9))
    assert m == ((1, 8), (3, 9))
    m[0][0] = 100  # a row is a copy, as in kernels
    assert m[0, 0] == 1
    t = loom.transform((1, 2, 3), (0, 0, 0, 1))
    t.p, t.q = (4, 5, 6), (1, 0, 0, 0)
    assert t == (4, 5, 6, 1, 0, 0, 0) and t.p == (4, 5, 6) and type(t.q) is loom.quat


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda v, m: v[3], IndexError, "vec3 has no component 3: an index here is from -3 to 2"),
        (lambda v, m: v["x"], KeyError, "vec3: Invalid key x, expected int or slice"),
        (lambda v, m: v[0, 0], KeyError, "vec3: Invalid key, expected one index, got 2"),
        (lambda v, m: m[0, 2], IndexError, "mat22 has no component 2"),
        (lambda v, m: v.w, AttributeError, "'vec3' object has no attribute 'w'"),
        (lambda v, m: setattr(v, "w", 1.0), AttributeError, "'vec3' object has no attribute 'w'"),
        (lambda v, m: v.__setitem__(0, "a"), TypeError, "Expected to assign a `float32` value but got `str`"),
        (lambda v, m: v.__setitem__(0, (1, 2)), TypeError, "Expected to assign a `float32` value but got `tuple`"),
        (lambda v, m: v.__setitem__(slice(2), (1, 2, 3)), ValueError, r"values of shape \(3,\) for shape \(2,\)"),
        (lambda v, m: v * v, TypeError, "unsupported operand"),
        (lambda v, m: v + loom.vec2(), TypeError, "unsupported operand"),
        (lambda v, m: v + loom.vec3d(), TypeError, "unsupported operand"),
        (lambda v, m: m * v, TypeError, "unsupported operand"),
        (lambda v, m: v @ v, TypeError, "unsupported operand"),
        (lambda v, m: v / "a", TypeError, "unsupported operand|not str"),
        (lambda v, m: loom.vec3i(1) / 0, ZeroDivisionError, "division by zero"),
        (lambda v, m: hash(v), TypeError, "unhashable"),
    ],
)
def test_wrong_uses(use, error, message):
    with pytest.raises(error, match=message):
        use(loom.vec3(1, 2, 3), loom.mat22())


def test_arithmetic():
    v, w = loom.vec3(1, 2, 3), loom.vec3(4, 5, 6)
    assert v + w == (5, 7, 9) and v - w == (-3, -3, -3) and -v == (-1, -2, -3) and +v == v
    assert v * 2 == 2 * v == np.float64(2) * v == v * loom.float32(2) == (2, 4, 6)
    assert type(np.float64(2) * v) is loom.vec3
    assert w / 2 == (2, 2.5, 3) and 12 / v == (12, 6, 4)
    assert v + 1 == 1 + v == (2, 3, 4)
    v += w
    assert v == (5, 7, 9)
    assert loom.vec3i(7, 8, -9) / 2 == (3, 4, -4)
    m = loom.mat22(1, 2, 3, 4)
    assert m * m == m @ m == ((7, 10), (15, 22))
    assert m * loom.vec2(1, 2) == m @ loom.vec2(1, 2) == (5, 11)
    assert loom.vec2(1, 2) * m == loom.vec2(1, 2) @ m == (7, 10)
    assert loom.types.matrix((2, 3), float)(1) * loom.vec3(1, 2, 3) == loom.vec2(6)
    q = loom.quat(0, 0, 1, 0)
    assert q * q == (0, 0, 0, -1) and type(q * q) is loom.quat
    assert np.array_equal(np.ones(3) + loom.vec3(1, 2, 3), [2, 3, 4])


def test_equality():
    v = loom.vec3(1, 2, 3)
    assert v == [1, 2, 3] and v == np.array([1, 2, 3]) and v == loom.vec3d(1, 2, 3)
    assert v != (1, 2) and v != None and v != "abc" and v != 1 and v != [[1], [2, 3]]  # noqa: E711
    assert loom.vec2(np.nan) != loom.vec2(np.nan)


def test_text():
    assert repr(loom.vec3(1, 2, 3)) == "vec3([1.0, 2.0, 3.0])"
    assert str(loom.vec3i(1, 2, 3)) == "[1, 2, 3]"
    assert str(loom.mat22(1, 2, 3, 4)) == "[[1.0, 2.0],\n [3.0, 4.0]]"
    assert eval(repr(loom.mat22(1, 2, 3, 4)), vars(loom)) == loom.mat22(1, 2, 3, 4)


def test_builtins_outside_kernels():
    v, w = loom.vec3(1, 0, 0), loom.vec3(0, 2, 0)
    assert loom.dot(v, w) == 0 and loom.length(w) == 2
    assert loom.cross(v, w) == (0, 0, 2) and loom.normalize(w) == (0, 1, 0)
    assert loom.determinant(loom.mat22d(1, 2, 3, 4)) == -2
    assert loom.dot(a=v, b=v) == 1 and loom.clamp(5, low=0, high=3) == 3
    assert loom.max(1, 2) == 2 and type(loom.max(1, 2)) is int
    assert loom.sin(1) == loom.sin(1.0) == np.float32(0.8414709848)
    assert loom.sin(loom.float64(1.0)) == pytest.approx(np.sin(1), rel=1e-15)
    assert loom.quat_identity() == loom.quat(0, 0, 0, 1)
    assert loom.transform_identity(dtype=loom.float64) == loom.transformd()
    assert loom.identity(n=3, dtype=float) == np.eye(3)
    assert loom.matrix_from_rows(loom.vec2(1, 2), loom.vec2(3, 4)) == loom.mat22(1, 2, 3, 4)
    assert loom.vector(1.0, 2.0, dtype=loom.float64) == loom.vec2d(1, 2)
    assert loom.matrix(2.0, shape=(1, 2), dtype=float) == ((2, 2),)


def test_builtins_with_several_results_give_tuples():
    a = loom.mat33d(2, 1, 0, 1, 2, 0, 0, 0, 5)
    q, d = loom.eig3(a)
    assert type(q) is loom.mat33d and sorted(d) == pytest.approx([1, 3, 5])
    np.testing.assert_allclose(np.asarray(q) @ np.diag(d) @ np.asarray(q).T, a, atol=1e-14)
    u, sigma, v = loom.svd3(a)
    assert list(sigma) == pytest.approx([5, 3, 1])
    np.testing.assert_allclose(np.asarray(u) @ np.diag(sigma) @ np.asarray(v).T, a, atol=1e-14)
    axis, angle = loom.quat_to_axis_angle(loom.quat(0, 0, 0.6, 0.8))
    assert axis == (0, 0, 1) and angle == pytest.approx(2 * np.arctan2(0.6, 0.8), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: loom.dot(loom.vec3(), loom.vec2()),
            TypeError,
            "Couldn't find a function 'dot' compatible with the arguments 'vec3, vec2'",
        ),
        (lambda: loom.dot("a", "b"), TypeError, "polyloom.dot takes numbers, vectors and matrices, not str"),
        (
            lambda: loom.normalize((1, 2)),
            TypeError,
            "polyloom.normalize takes numbers, vectors and matrices, not tuple",
        ),
        (lambda: loom.dot(a=loom.vec3(), b=[1]), TypeError, "polyloom.dot takes numbers, .*, not list"),
        (lambda: loom.vector(1.0, length=2.5), TypeError, "polyloom.vector takes numbers, .*, not float"),
        (lambda: loom.tid(), TypeError, "polyloom.tid is a function of the kernel language"),
        (lambda: loom.atomic_add(np.zeros(3), 0, 1.0), TypeError, "polyloom.atomic_add is a function of the kernel"),
        (lambda: loom.max(1, 10**12), OverflowError, "1000000000000 does not fit int32"),
    ],
)
def test_wrong_calls_outside_kernels(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_arrays_of_composites():
    a = loom.zeros(10, dtype=loom.vec3)
    assert (a.shape, a.ndim, a.size, a.strides, len(a)) == ((10,), 1, 10, (12,), 10)
    assert a.dtype is loom.vec3 and a.numpy().shape == (10, 3)
    assert loom.empty((2, 3), dtype=loom.mat22).numpy().shape == (2, 3, 2, 2)
    assert loom.ones(2, dtype=loom.vec2).numpy().tolist() == [[1, 1], [1, 1]]
    filled = loom.full(2, loom.vec3(1, 2, 3))
    assert filled.dtype is loom.vec3 and filled[1] == (1, 2, 3)
    assert loom.full(1, (1, 2, 3), dtype=loom.vec3)[0] == (1, 2, 3)
    for like in (
        loom.zeros_like(filled),
        loom.ones_like(filled),
        loom.full_like(filled, (4, 5, 6)),
        loom.clone(filled),
    ):
        assert like.dtype is loom.vec3 and like.shape == (2,)
    loom.copy(a[:2], filled)
    assert a[1] == (1, 2, 3) and a[2] == (0, 0, 0)


def test_arrays_of_composites_from_data():
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    for a in (
        loom.array(data, dtype=loom.vec3),
        loom.array(data.tolist(), dtype=loom.vec3),
        loom.array([loom.vec3(row) for row in data], dtype=loom.vec3),
        loom.array(data.ravel(), dtype=loom.vec3),
        loom.array(loom.array(data, dtype=loom.vec3)),
        loom.from_numpy(data, dtype=loom.vec3),
    ):
        assert a.dtype is loom.vec3 and a.shape == (2,) and a[1] == (3, 4, 5)
    assert np.shares_memory(loom.from_numpy(data, dtype=loom.vec3).numpy(), data)
    assert loom.array(np.zeros((4, 9)), dtype=loom.mat33).shape == (4,)
    assert loom.array(data, dtype=loom.vec3, shape=(2, 1)).shape == (2, 1)
    assert loom.array([1, 2, 3], dtype=loom.vec3).shape == (1,)
    with pytest.raises(ValueError, match=r"data of shape \(2, 3\) has no elements of type vec2"):
        loom.array(data, dtype=loom.vec2)
    with pytest.raises(ValueError, match="has 1 dimensions, not 2"):
        loom.array(data, dtype=loom.vec3, ndim=2)


def test_elements_of_arrays_of_composites():
    a = loom.array(np.arange(12).reshape(2, 2, 3), dtype=loom.vec3)
    assert type(a[0, 1]) is loom.vec3 and a[0, 1] == (3, 4, 5) and a[1].shape == (2,) and a[..., 0].shape == (2,)
    a[0, 1] = loom.vec3(7, 8, 9)
    a[1] = (1, 2, 3)
    assert a.numpy().tolist() == [[[0, 1, 2], [7, 8, 9]], [[1, 2, 3], [1, 2, 3]]]
    a[:, 0] = 0
    assert a[0, 0] == (0, 0, 0) and a[1, 0] == (0, 0, 0)
    assert a.fill_((1, 2, 3))[1, 1] == (1, 2, 3) and a.zero_()[1, 1] == (0, 0, 0)
    with pytest.raises(IndexError):
        a[0, 0, 0]
    with pytest.raises(ValueError, match=r"values of shape \(2,\) are no elements of type vec3"):
        a[0, 0] = (1, 2)


def test_half_precision():
    v = loom.vec2h(1.5, 0.1)
    assert np.asarray(v).dtype == np.float16 and v.y == float(np.float16(0.1))
    bf = loom.types.vector(2, loom.bfloat16)(1.5, 0.1)
    assert bf.x == 1.5 and bf.y == 0.10009765625 and repr(bf).endswith("([1.5, 0.10009765625])")
    assert loom.array([[1.5, 2.5]], dtype=type(bf))[0] == (1.5, 2.5)


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
import polyloom as loom

v = loom.vec3bf(1, 2.5, 0.1)
assert v == (1, 2.5, 0.10009765625) and v.z == 0.10009765625 and np.asarray(v).dtype == np.uint16
assert v + v == (2, 5, 0.2001953125) and v[:2] == (1, 2.5) and loom.vec3(v) == v and loom.vec3bf(v) == v
v.x, v[1:] = 7, (1, 2)
a = loom.array([v, v * 2], dtype=loom.vec3bf)
assert a[0] == (7, 1, 2) and a[1] == (14, 2, 4) and loom.array(a, dtype=loom.vec3)[1] == (14, 2, 4)
"""


def test_bfloat16_without_ml_dtypes():
    done = subprocess.run([sys.executable, "-c", WITHOUT_ML_DTYPES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_arrays_of_composites_have_four_axes_too(define, device):
    k = define(
        """
        from typing import Any

        F = loom.array(dtype=loom.mat22, ndim=4)

        @loom.kernel
        def product(f: F, o: F):
            i, j, l, m = loom.tid()
            o[i, j, l, m] = f[i, j, l, m] * f[m, l, j, i] + f[i, j, l, m]

        @loom.kernel
        def first(f: loom.array(dtype=Any, ndim=4), o: loom.array(dtype=Any)):
            o[0] = f[1, 1, 1, 1]
        """
    )
    f = np.random.default_rng(1).normal(size=(2, 2, 2, 2, 2, 2)).astype(np.float32)
    o = loom.zeros((2, 2, 2, 2), dtype=loom.mat22, device=device)
    loom.launch(k["product"], (2, 2, 2, 2), [loom.array(f, dtype=loom.mat22, device=device), o], device=device)
    np.testing.assert_allclose(o.numpy(), np.einsum("ijlmab,mljibc->ijlmac", f, f) + f, rtol=1e-5, atol=1e-5)
    o = loom.zeros(1, dtype=loom.vec3, device=device)
    loom.launch(
        k["first"], 1, [loom.full((2, 2, 2, 2), loom.vec3(1.0), dtype=loom.vec3, device=device), o], device=device
    )
    assert o.numpy().tolist() == [[1.0, 1.0, 1.0]]


def test_wrong_keys_and_values_are_errors_of_warps_classes():
    v, m = loom.vec3i(1, 2, 3), loom.mat22h(1, 2, 3, 4)
    for error, text, run in (
        (ValueError, "vector constructor, expected 3 elements, got 2", lambda: loom.vec3(1, 2)),
        (TypeError, r"expected row of length 2, got \(1, 2, 3\)", lambda: loom.mat22((1, 2, 3), (3, 4, 5))),
        (KeyError, "Invalid key None, expected int or slice", lambda: v[None]),
        (KeyError, "expected one or two indices, got 3", lambda: m[0, 1, 2]),
        (IndexError, "Invalid row index", lambda: m.set_row(2, (0, 0))),
        (TypeError, "Expected to assign a `int32` value but got `str`", lambda: v.__setitem__(0, "1")),
        (TypeError, "a sequence of `float16` values but got `mat22h`", lambda: m.__setitem__(0, (m,))),
        (ValueError, "Can only assign sequence of same size", lambda: v.__setitem__(slice(1), (1, 2))),
        (TypeError, "expected a scalar value, got object", lambda: loom.transform(object())),
        (TypeError, "Invalid argument 'q' in transformation constructor", lambda: loom.transform((1, 2, 3), 1.0)),
        (TypeError, "got an unexpected keyword argument 'pos'", lambda: loom.transform(pos=1)),
        (RuntimeError, "NULL pointer exception", lambda: loom.vec3.from_ptr(0)),
    ):
        with pytest.raises(error, match=text):
            run()


def test_a_value_is_read_from_an_address():
    numbers = np.array([1.5, 2.5, 3.5], np.float32)
    v = loom.vec3.from_ptr(numbers.ctypes.data)
    numbers[:] = 0
    assert v == loom.vec3(1.5, 2.5, 3.5)
