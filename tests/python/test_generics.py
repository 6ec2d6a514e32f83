"""Generic kernels and functions: specialised for the types they are used with, each compiled once."""

from typing import Any, TypeVar

import numpy as np
import polyloom as loom
import pytest
from polyloom.types import Float, Int, Scalar

T = TypeVar("T")
Wide = TypeVar("Wide", loom.float64, loom.int64)
Sides = loom.types.vector(length=Any, dtype=Float)


@loom.kernel
def scale(x: loom.array(dtype=Any), s: Any):
    i = loom.tid()
    x[i] = x[i] * s


@loom.func
def square(x):
    return x * x


@loom.func
def halved(x: Float):
    return x * type(x)(0.5)


@loom.func
def total(v: loom.types.vector(length=Any, dtype=Scalar)):
    s = v.dtype(0)
    for i in range(len(v)):
        s += v[i]
    return s


def test_a_kernel_is_compiled_for_the_types_of_its_arguments():
    for dtype in (np.float32, np.float64, np.int32, np.uint8):
        x = np.arange(4).astype(dtype)
        loom.launch(scale, 4, [x, dtype(3)])
        assert x.dtype == dtype
        assert x.tolist() == [0, 3, 6, 9]
    points = loom.array([[1.0, 2.0, 3.0]], dtype=loom.vec3)
    loom.launch(scale, 1, [points, 2.0])
    assert points.numpy().tolist() == [[2, 4, 6]]


def test_each_specialisation_is_one_kernel():
    types = [loom.array(dtype=loom.float64), loom.float64]
    kernel = loom.overload(scale, types)
    assert kernel is loom.overload(scale, {"x": types[0], "s": types[1]})
    assert kernel is not loom.overload(scale, {"x": loom.array(dtype=float), "s": float})
    assert kernel.signature == "scale(x: array(dtype=float64), s: float64)"
    assert scale.is_generic
    assert not kernel.is_generic
    x = np.ones(2)
    loom.launch(kernel, 2, [x, 4.0])  # a Python number takes the type of a parameter that has one
    assert x.tolist() == [4, 4]
    assert "func @scale" not in kernel.hir()
    assert "f64" in kernel.hir()


def test_types_of_python_numbers():
    @loom.kernel
    def kinds(a: Any, b: Any, c: Any, d: Any, out: loom.array(dtype=float)):
        out[0] = float(a) + float(b) + float(c) + float(d)

    out = np.zeros(1, np.float32)
    loom.launch(kinds, 1, [1, 2.0, True, loom.float64(0.5), out])
    assert out[0] == 4.5
    signature = "kinds(a: int32, b: float32, c: bool, d: float64, out: array(dtype=float32))"
    types = [int, float, bool, loom.float64, loom.array(dtype=float)]
    assert loom.overload(kinds, types).signature == signature


def test_type_variables_choose():
    @loom.kernel
    def floats(x: loom.array(dtype=Float), n: Int):
        i = loom.tid()
        x[i] = halved(x[i]) + type(x[i])(n)

    x = np.array([2.0], np.float16)
    loom.launch(floats, 1, [x, np.int64(3)])
    assert x[0] == 4
    with pytest.raises(
        TypeError, match="argument 'x' of kernel 'floats' must be array.dtype=Float., not array.dtype=int32"
    ):
        loom.launch(floats, 1, [np.zeros(1, np.int32), 1])
    with pytest.raises(TypeError, match="argument 'n' of kernel 'floats' must be Int, not float32"):
        loom.launch(floats, 1, [x, 1.0])


def test_own_type_variables():
    @loom.kernel
    def keep(x: loom.array(dtype=T), w: Wide):
        i = loom.tid()
        x[i] = x[i] + x.dtype(w)

    x = np.array([1.5], np.float32)
    loom.launch(keep, 1, [x, np.int64(2)])
    assert x[0] == 3.5
    with pytest.raises(TypeError, match=r"must be int64 \| float64, not float32"):
        loom.launch(keep, 1, [x, 2.0])


def test_vectors_of_any_length():
    @loom.kernel
    def sums(v: loom.array(dtype=loom.types.vector(length=Any, dtype=Scalar)), out: loom.array(dtype=Any)):
        i = loom.tid()
        out[i] = total(v[i])

    for length in (2, 3, 5):
        for dtype in (np.float32, np.float64, np.int32):
            v = np.arange(2 * length).reshape(2, length).astype(dtype)
            out = np.zeros(2, dtype)
            # The last axes of a NumPy array are the vectors', where the annotation says that there are vectors.
            loom.launch(sums, 2, [v, out])
            assert out.tolist() == v.sum(axis=1).tolist()
    v = loom.array([[1.0, 2.0]], dtype=loom.vec2)
    out = loom.zeros(1, dtype=float)
    loom.launch(sums, 1, [v, out])
    assert out.numpy().tolist() == [3]
    with pytest.raises(
        TypeError, match="must be array.dtype=vector.length=Any, dtype=Scalar.., not array.dtype=float32"
    ):
        loom.launch(sums, 1, [out, out])


def test_matrices_of_any_shape():
    @loom.kernel
    def traces(m: loom.array(dtype=loom.types.matrix(shape=(Any, Any), dtype=Float)), out: loom.array(dtype=Any)):
        i = loom.tid()
        out[i] = loom.trace(m[i])

    m = np.arange(8.0).reshape(2, 2, 2)
    out = np.zeros(2)
    loom.launch(traces, 2, [m, out])
    assert out.tolist() == [3, 11]


def test_an_alias_of_a_generic_type():
    @loom.kernel
    def first(v: Sides, out: loom.array(dtype=float)):
        out[0] = float(v[0])

    out = np.zeros(1, np.float32)
    loom.launch(first, 1, [loom.vec2d(7.0, 1.0), out])
    assert out[0] == 7
    assert repr(Sides) == "polyloom.types.vector(length=Any, dtype=~Float)"


def test_functions_without_annotations():
    @loom.kernel
    def squares(x: loom.array(dtype=Any)):
        i = loom.tid()
        x[i] = square(x[i])

    for dtype in (np.float64, np.int16):
        x = np.array([3], dtype)
        loom.launch(squares, 1, [x])
        assert x[0] == 9


def test_overload_as_a_decorator():
    @loom.kernel
    def negate(x: loom.array(dtype=Any)):
        i = loom.tid()
        x[i] = -x[i]

    generic = negate

    @loom.overload
    def negate(x: loom.array(dtype=loom.float64)): ...

    assert negate is generic
    assert loom.overload(negate, [loom.array(dtype=loom.float64)]).name == "negate"


def test_misuse():
    @loom.kernel
    def one(x: loom.array(dtype=float)):
        x[0] = 1.0

    with pytest.raises(TypeError, match="kernel 'one' is not generic"):
        loom.overload(one, [loom.array(dtype=float)])
    with pytest.raises(TypeError, match=r"takes 2 arguments \(x, s\), 1 given"):
        loom.overload(scale, [loom.array(dtype=float)])
    with pytest.raises(TypeError, match=r"takes 2 arguments \(x, s\), 3 given"):
        loom.launch(scale, 1, [1, 2, 3])
    with pytest.raises(ValueError, match="no parameter 'y'"):
        loom.overload(scale, {"y": float})
    with pytest.raises(TypeError, match="parameter 's' of kernel 'scale' needs a type"):
        loom.overload(scale, {"x": loom.array(dtype=float)})
    with pytest.raises(TypeError, match="is not one type"):
        loom.overload(scale, [loom.array(dtype=Any), float])
    with pytest.raises(TypeError, match="argument 'x' of kernel 'scale' must be array"):
        loom.launch(scale, 1, [1.0, 1.0])
    with pytest.raises(TypeError, match="argument 's' of kernel 'scale' is of type object"):
        loom.launch(scale, 1, [np.zeros(1), object()])
    with pytest.raises(TypeError, match="kernel 'scale' is generic"):
        scale.hir()


def test_errors_name_the_types_and_the_call(define):
    names = define(
        """
        import polyloom as loom
        from typing import Any

        @loom.func
        def twice(x: Any):
            return x + 0.5

        @loom.kernel
        def k(x: loom.array(dtype=Any)):
            x[0] = twice(x[0])
        """
    )
    kernel = names["k"]
    x = np.zeros(1, np.float32)
    loom.launch(kernel, 1, [x])
    assert x[0] == 0.5
    with pytest.raises(loom.CompileError) as raised:
        loom.launch(kernel, 1, [np.zeros(1, np.int32)])
    text = str(raised.value)
    assert "this call compiles `twice(x: int32)`" in text
    assert "compiled as `k(x: array(dtype=int32))`" in text


def test_recorded_launches():
    x = np.ones(2)
    command = loom.launch(scale, 2, [x, np.float64(3.0)], record_cmd=True)
    command.launch()
    command.launch()
    assert x.tolist() == [9, 9]


def test_names_are_captured_when_a_kernel_is_defined(define):
    source = """
        from typing import Any

        class Settings:
            k = 2.0

        K = 2.0
        WEIGHTS = [1.0, 2.0]

        @loom.func
        def scaled(x: Any):
            return x * type(x)(K)

        @loom.func
        def helper(x: Any):
            return x + type(x)(1)

        @loom.kernel
        def generic(x: loom.array(dtype=Any)):
            i = loom.tid()
            s = helper(x[i] * type(x[i])(K) * type(x[i])(Settings.k))
            for j in range(2):
                s += type(s)(loom.static(WEIGHTS[j]))
            x[i] = s

        K, WEIGHTS, Settings.k = 3.0, [10.0, 20.0], 30.0

        @loom.func
        def helper(x: Any):
            return x + type(x)(100)

        @loom.kernel
        def plain(x: loom.array(dtype=float)):
            x[loom.tid()] = scaled(x[0])
    """
    names = define(source)
    names.update(K=5.0, WEIGHTS=[7.0, 7.0])
    for dtype in (np.float32, np.float64):
        x = np.ones(1, dtype)
        loom.launch(names["generic"], 1, [x])
        # 1 * 2 * 2, 1 more, 1 and 2 of the weights more.
        assert x[0] == 8
    x = np.ones(1, np.float32)
    loom.launch(names["plain"], 1, [x])
    assert x[0] == 2


def test_functions_may_stand_below_what_calls_them(define):
    source = """
        from typing import Any

        OFFSET = None

        @loom.func
        def outer(x: Any):
            return inner(x) + type(x)(OFFSET)

        @loom.kernel
        def generic(x: loom.array(dtype=Any)):
            i = loom.tid()
            x[i] = outer(x[i])

        OFFSET = 1

        @loom.func
        def inner(x: float):
            return FACTOR * x

        @loom.func
        def inner(x: loom.float64):
            return x * x + loom.float64(inner(1.0))
    """
    names = define(source, FACTOR=2.0)
    for dtype, expected in ((np.float32, 7), (np.float64, 12)):
        x = np.full(1, 3, dtype)
        loom.launch(names["generic"], 1, [x])
        assert x[0] == expected
    # The same text once more, as of a notebook's cell: what stands below is defined anew.
    again = define(source.replace("FACTOR * x", "FACTOR * x + 10.0"), **names)
    x = np.full(1, 3, np.float32)
    loom.launch(again["generic"], 1, [x])
    assert x[0] == 17


def test_functions_gain_overloads(define):
    names = define("""
        @loom.func
        def f(x: int):
            return x + 1

        @loom.func
        def g(x):
            return f(x)

        @loom.func
        def f(x: float):
            return x + float(f(1))

        @loom.kernel
        def k(x: loom.array(dtype=float)):
            x[0] = g(x[0])
    """)
    x = np.ones(1, np.float32)
    loom.launch(names["k"], 1, [x])
    assert x[0] == 3


def test_a_numpy_array_of_records_is_of_the_struct_that_has_such():
    @loom.struct
    class Reading:
        mass: float
        velocity: loom.vec3

    @loom.kernel
    def first(a: Any):
        i = loom.tid()
        a[i].mass = a[i].velocity[1]

    readings = np.zeros(2, Reading.numpy_dtype())
    readings["velocity"] = [[1, 2, 3], [4, 5, 6]]
    loom.launch(first, 2, [readings])
    assert readings["mass"].tolist() == [2.0, 5.0]
    with pytest.raises(TypeError):
        loom.launch(first, 2, [np.zeros(2, [("other", "f4")])])
