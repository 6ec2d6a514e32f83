"""`map` and the operators of arrays, against NumPy."""

import numpy as np
import polyloom as loom
import pytest

A = np.array([1.0, -2.0, 3.0], np.float32)
SCALE = 2.0


@loom.func
def moments(v: loom.vec3, weight: float):
    return weight * v, loom.dot(v, v)


def halved(x: float) -> float:
    return x / 2.0


def test_builtins_and_functions():
    a = loom.array(A)
    assert (loom.map(loom.abs, a).numpy() == np.abs(A)).all()
    assert (loom.map(loom.clamp, a, -1.0, 2.0).numpy() == A.clip(-1, 2)).all()
    assert (loom.map(halved, a).numpy() == A / 2).all()
    assert (loom.map(loom.sqrt, A * A).numpy() == np.abs(A)).all()
    made = loom.map(loom.vec3, a, a, 1.0)
    assert made.dtype is loom.vec3 and made[1] == loom.vec3(-2, -2, 1)
    assert loom.map(loom.int64, a).dtype is loom.int64


def test_lambdas_see_what_is_around_them():
    a = loom.array(A)
    for factor in (2.0, 3.0, 2.0):
        assert (loom.map(lambda x, y: factor * x + SCALE * y, a, a).numpy() == (factor + 2) * A).all()  # noqa: B023
    first, second = (lambda x: x + 1.0), (lambda x: x + 2.0)
    assert (loom.map(first, a).numpy() == A + 1).all() and (loom.map(second, a).numpy() == A + 2).all()
    length = loom.map(lambda v: loom.length(v), loom.array([[3, 4]], dtype=loom.vec2))
    assert length.list() == [5]


def test_kernels_are_compiled_once():
    a = loom.array(A)
    f = loom.map(loom.cos, a, return_kernel=True)
    assert loom.map(loom.cos, loom.zeros(7), return_kernel=True) is f
    assert loom.map(loom.cos, loom.zeros((2, 2)), return_kernel=True) is not f

    def kernel(offset):
        return loom.map(lambda x: x + offset, a, return_kernel=True)

    assert kernel(1.0) is kernel(1.0) and kernel(1.0) is not kernel(2.0)
    out = loom.zeros(3)
    loom.launch(f, 3, [a, out])
    assert np.allclose(out.numpy(), np.cos(A))


def test_shapes_are_broadcast():
    x = np.arange(12, dtype=np.float32).reshape(3, 1, 4)
    y = np.arange(20, dtype=np.float32).reshape(5, 4) * 100
    assert (loom.map(lambda a, b: a + b, loom.array(x), loom.array(y)).numpy() == x + y).all()
    vectors = loom.array(np.ones((2, 1, 3)), dtype=loom.vec3)
    scaled, squares = loom.map(moments, vectors, loom.array(A))
    assert scaled.shape == squares.shape == (2, 3)
    assert scaled[1, 2] == loom.vec3(3) and (squares.numpy() == 3).all()
    with pytest.raises(ValueError, match=r"Shapes \(3,\) and \(2,\) are not broadcastable"):
        loom.map(loom.add, loom.zeros(3), loom.zeros(2))


def test_results_go_where_they_are_wanted():
    a, out = loom.array(A), loom.zeros(3)
    assert loom.map(halved, a, out=out) is out and (out.numpy() == A / 2).all()
    assert loom.map(loom.neg, a, out=a) is a and (a.numpy() == -A).all()
    pair = [loom.zeros(2, dtype=loom.vec3), loom.zeros(2)]
    assert loom.map(moments, loom.ones(2, dtype=loom.vec3), 2.0, out=pair)[1].list() == [3, 3]
    with pytest.raises(TypeError, match=r"Output array shape \(2,\) does not match expected shape \(3,\)"):
        loom.map(halved, a, out=loom.zeros(2))
    with pytest.raises(TypeError, match="the function returns 2 values, and `out` has 1 arrays"):
        loom.map(moments, loom.ones(2, dtype=loom.vec3), 2.0, out=pair[1])
    assert loom.map(halved, loom.zeros(0)).shape == (0,)


def test_what_cannot_be_mapped():
    with pytest.raises(ValueError, match="requires at least one warp.array input"):
        loom.map(halved, 1.0)
    with pytest.raises(TypeError, match="takes a function, not str"):
        loom.map("sin", loom.zeros(1))
    with pytest.raises(TypeError, match="takes arrays, numbers, vectors and the like, not dict"):
        loom.map(loom.add, loom.zeros(1), {})
    with pytest.raises(loom.CompileError, match="no overload of `loom.length` takes"):
        loom.map(lambda x: loom.length(x), loom.zeros(1))
    with pytest.raises(TypeError, match="plain parameters alone"):
        loom.map(lambda x, y=1.0: x + y, loom.zeros(1))
    with pytest.raises(loom.DeviceError, match="device 'cuda:99' is not available"):
        loom.map(halved, loom.zeros(1), device="cuda:99")


def test_python_numbers_are_of_the_arrays_type():
    d = loom.array(A, dtype=loom.float64)
    assert loom.map(loom.mul, d, 0.1).list() == [x * 0.1 for x in d.list()]
    i = loom.array([7, -7], dtype=loom.int64)
    assert loom.map(loom.add, i, 1).dtype is loom.int64


def test_operators_of_arrays():
    a, d = loom.array(A), loom.array(A, dtype=loom.float64)
    assert ((a + a).numpy() == A + A).all() and ((1 - a).numpy() == 1 - A).all()
    assert ((a * 2).numpy() == 2 * A).all() and ((-a).numpy() == -A).all()
    assert ((1.0 / d).numpy() == 1 / A.astype(float)).all() and ((d**2).numpy() == A.astype(float) ** 2).all()
    b = a
    a += 1.0
    a *= a
    assert a is b and (a.numpy() == (A + 1) ** 2).all()
    i = loom.array([7, -7], dtype=int)
    # As in kernels: quotients of integers lose their fraction, remainders have the sign of the dividend.
    assert (i / 2).list() == [3, -3] and (i % 4).list() == [3, -3]
    v = loom.ones((2, 2), dtype=loom.vec2)
    assert (v * loom.array([1.0, 2.0]))[0, 1] == loom.vec2(2) and (v + loom.vec2(1, 2))[1, 1] == loom.vec2(2, 3)
    with pytest.raises(TypeError):
        a + "1"
    with pytest.raises(TypeError):
        a @ "1"
    for compute in (lambda: a + d, lambda: a @ d, lambda: d @ a, lambda: a @ d.numpy()):
        with pytest.raises(TypeError, match="the types of operands are not mixed"):
            compute()


class Settings:
    k = 2.0


def test_kernels_are_kept_for_what_functions_capture():
    a = loom.array([1.0, -2.0])

    def sign_of(c):
        return lambda x: loom.copysign(x, c)

    assert loom.map(sign_of(0.0), a).list() == [1, 2]
    assert loom.map(sign_of(-0.0), a).list() == [-1, -2]

    def times(t):
        return lambda x: x * loom.static(t[0])

    assert loom.map(times((1,)), loom.array([3, 5])).dtype is loom.int32
    with pytest.raises(loom.CompileError):
        loom.map(times((1.5,)), loom.array([3, 5]))

    def attribute(x: float):
        return x * Settings.k

    def static(x: float):
        return x * loom.static(Settings.k)

    try:
        for k in (2.0, 3.0, 2.0):
            Settings.k = k
            assert loom.map(attribute, a).list() == loom.map(static, a).list() == [k, -2 * k]
    finally:
        Settings.k = 2.0


def test_result_types():
    results = loom._native.result_types
    assert results(moments, [loom.vec3, loom.float32]) == [("vec3", loom.vec3), ("float32", loom.float32)]
    assert [each for _, each in results(loom.svd3, [loom.mat33])] == [loom.mat33, loom.vec3, loom.mat33]
    assert [each for _, each in results(loom.float64, [loom.int32])] == [loom.float64]

    @loom.struct
    class Pair:
        first: float
        second: float

    @loom.func
    def swapped(pair: Pair):
        return Pair(pair.second, pair.first)

    assert results(swapped, [Pair]) == [("Pair", Pair)]
    pairs = loom.array([Pair(1.0, 2.0)], dtype=Pair)
    assert loom.map(swapped, pairs)[0].first == 2
    assert loom.map(swapped, pairs, out=loom.zeros(1, dtype=Pair))[0].first == 2

    @loom.func
    def nothing(x: float):
        print(x)

    with pytest.raises(TypeError, match="must return a value"):
        loom.map(nothing, loom.zeros(1))


@loom.struct
class Pair:
    a: float
    b: float


@loom.func
def paired(x: float):
    return Pair(x, 2.0 * x)


def test_results_may_be_structs():
    found = loom.map(paired, loom.array([1.0, 3.0]))
    assert [(each.a, each.b) for each in found.list()] == [(1.0, 2.0), (3.0, 6.0)]


def test_indexed_arrays_are_operands_and_results():
    data = loom.array(np.arange(6.0), dtype=float)
    odd = loom.indexedarray(data, [loom.array([1, 3, 5], dtype=int)])
    assert isinstance(odd, loom.indexedarray) and not isinstance(odd, loom.indexedarray2d)
    loom.map(lambda x: 10.0 * x, odd, out=odd)
    odd += 1.0
    assert data.list() == [0, 11, 2, 31, 4, 51] and (2.0 * odd - odd).list() == [11, 31, 51]


def test_wrong_results_are_told():
    x = loom.zeros(3)
    for out, text in (
        (loom.zeros(2), r"Output array shape \(2,\) does not match expected shape \(3,\)"),
        (loom.zeros(3, dtype=int), "Output array dtype int32 does not match expected dtype float32"),
        ([x, x], r"provided output arrays \(2\) does not match"),
    ):
        with pytest.raises(TypeError, match=text):
            loom.map(loom.sin, x, out=out)
