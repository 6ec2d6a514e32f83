"""Generic kernels, `static`, functions as arguments, factories, slices and own arrays under real Warp.

The same text with another import gives equal results."""

import importlib.util

import numpy as np
import pytest

pytest.importorskip("warp", reason="Warp is the oracle of these tests: pip install warp-lang==1.19.0")

PROGRAM = """
from typing import Any

import numpy as np
import PACKAGE as wp

wp.init()

VALUES = [0.5, 2.0, 4.0]
FLAG = wp.constant(True)
vec5 = wp.types.vector(length=5, dtype=float)
mat23 = wp.types.matrix(shape=(2, 3), dtype=float)


@wp.func
def square(x: Any):
    return x * x


@wp.func
def half(x: wp.Float):
    return x * type(x)(0.5)


@wp.func
def which(x: wp.Int):
    return 1


@wp.func
def which(x: wp.Float):
    return 2


@wp.func
def which(x: Any):
    return 3


@wp.func
def which(x: wp.float64):
    return 4


@wp.func
def first(x: Any, y: Any):
    return 1


@wp.func
def first(x: wp.Int, y: Any):
    return 2


@wp.func
def first(x: wp.Int, y: float):
    return 3


@wp.func
def first(x: wp.float64, y: float):
    return 4


@wp.func
def total(v: wp.types.vector(length=Any, dtype=wp.Scalar)):
    s = v.dtype(0)
    for i in range(wp.static(1), len(v)):
        s += v[i]
    return s + v[0]


@wp.func
def plus_one(x: float):
    return x + 1.0


@wp.func
def times_two(x: float):
    return x * 2.0


FUNCTIONS = [plus_one, times_two, wp.sqrt]


@wp.func
def apply(f: wp.Function, x: float):
    return f(x)


@wp.kernel
def scale(x: wp.array(dtype=Any), s: Any):
    i = wp.tid()
    x[i] = s * square(x[i])


@wp.kernel
def halves(x: wp.array(dtype=wp.Float), out: wp.array(dtype=wp.Float)):
    i = wp.tid()
    out[i] = half(x[i]) + x.dtype(3) - type(x[i])(2.5)


@wp.kernel
def choices(out: wp.array(dtype=int)):
    out[0] = which(1)
    out[1] = which(1.0)
    out[2] = which(wp.vec3(1.0))
    out[3] = which(wp.float64(1.0))
    out[4] = which(wp.uint8(1))
    out[5] = which(wp.float16(1.0))
    out[6] = first(1, 2.0)
    out[7] = first(wp.vec3(1.0), 2.0)
    out[8] = first(wp.float64(1.0), 2.0)


@wp.kernel
def sums(v: wp.array(dtype=wp.types.vector(length=Any, dtype=wp.Scalar)), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = total(v[i])


@wp.kernel
def statics(x: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i] * wp.static(sum(VALUES))
    for j in range(wp.static(len(VALUES))):
        s += wp.static(VALUES[j]) * float(j)
    f = wp.static(FUNCTIONS[1])
    s = f(s) + wp.static(FUNCTIONS[0])(1.0) + apply(plus_one, s) + apply(times_two, 0.5)
    for j in range(2):
        s = wp.static(FUNCTIONS[j])(s)
    if wp.static(len(VALUES) == 3):
        s += 0.25
    else:
        s = wp.undefined(s)
    x[i] = s


@wp.kernel
def slices(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    v = vec5(x[0], x[1], x[2], x[3], x[4])
    a = v[1:4]
    b = v[::-2]
    v[0:2] = wp.vec2(7.0, 8.0)
    v[-2:] += wp.vec2(1.0, 2.0)
    m = mat23(x[0], x[1], x[2], x[3], x[4], x[5])
    c = m[0:2, 1]
    d = m[i, 1:]
    m[1, 0:2] = wp.vec2(-1.0, -2.0)
    e = m[:, ::2]
    w = wp.vec4(*c, *d)
    for k in range(3):
        out[0, k] = a[k]
        out[1, k] = b[k]
    for k in reversed(range(5)):
        out[2, k] = v[k]
    for k in range(2):
        out[3, k] = c[k]
        out[4, k] = d[k]
        out[5, k] = m[1, k]
        out[6, k] = e[k, 0]
        out[7, k] = e[k, 1]
    for k in range(4):
        out[8, k] = w[k]


@wp.func
def count(bins: wp.array2d(dtype=int), i: int, j: int):
    bins[i, j] += 1


@wp.func
def total_of(a: wp.array(dtype=float)):
    s = float(0.0)
    for i in range(a.shape[0]):
        s += a[i]
    return s


@wp.kernel
def own_arrays(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    row = x[i]
    a = wp.zeros(shape=(4,), dtype=float)
    bins = wp.zeros(shape=(2, 2), dtype=int)
    for j in range(4):
        a[j] = row[3 - j] * 2.0
        count(bins, j % 2, int(row[j]) % 2)
    out[i, 0] = total_of(a) + total_of(row) + total_of(x[i])
    for j in range(2):
        for k in range(2):
            out[i, 1 + 2 * j + k] = float(bins[j, k]) + a[i]
    out[i, 5] = float(row.shape[0])


def make(function, value, dtype):
    vector = wp.types.vector(length=3, dtype=dtype)

    @wp.func
    def shifted(x: dtype):
        return function(x) + dtype(value)

    @wp.kernel(module="unique")
    def k(x: wp.array(dtype=dtype), v: wp.array(dtype=vector)):
        i = wp.tid()
        x[i] = shifted(x[i])
        v[i] = vector(x[i])

    return k


@wp.kernel
def declared(x: wp.array(dtype=Any), n: Any):
    i = wp.tid()
    x[i] = x[i] + x.dtype(n)


@wp.overload
def declared(x: wp.array(dtype=wp.float64), n: wp.int32): ...


concrete = wp.overload(declared, [wp.array(dtype=wp.int64), wp.int16])


NUMBERS = (wp.float32, wp.float64, wp.int32, wp.uint8)
FLOATS = (wp.float16, wp.float32, wp.float64)
VECTORS = ((2, wp.float32), (3, wp.int32), (5, wp.float64))

# Each new overload has Warp compile the whole module again: all of them first.
for t in NUMBERS:
    wp.overload(scale, [wp.array(dtype=t), t])
for t in FLOATS:
    wp.overload(halves, {"x": wp.array(dtype=t), "out": wp.array(dtype=t)})
for n, t in VECTORS:
    wp.overload(sums, [wp.array(dtype=wp.types.vector(length=n, dtype=t)), wp.array(dtype=t)])
wp.overload(declared, [wp.array(dtype=wp.float32), wp.float32])


def run():
    results = []

    def launch(kernel, dim, *arrays):
        wp.launch(kernel, dim=dim, inputs=list(arrays), device="cpu")
        results.extend(a.numpy().copy() for a in arrays if hasattr(a, "numpy"))

    def array(data, dtype):
        return wp.array(np.asarray(data), dtype=dtype, device="cpu")

    for dtype in NUMBERS:
        launch(scale, 3, array([1, 2, 3], dtype), dtype(3))
    for dtype in FLOATS:
        launch(halves, 2, array([1, 5], dtype), array([0, 0], dtype))
    launch(choices, 1, array(np.zeros(9), int))
    for length, dtype in VECTORS:
        vector = wp.types.vector(length=length, dtype=dtype)
        launch(sums, 2, array(np.arange(2.0 * length).reshape(2, length), vector), array([0, 0], dtype))
    launch(statics, 3, array([1.0, 2.0, -3.0], float))
    launch(slices, 1, array(np.arange(1.0, 7.0), float), array(np.zeros((9, 5)), float))
    cases = [(plus_one, 2.0, wp.float32), (times_two, 2.0, wp.float32), (half, 3, wp.float64), (wp.abs, 4, wp.int32)]
    for case in cases:
        kernel = make(*case)
        vector = wp.types.vector(length=3, dtype=case[2])
        launch(kernel, 2, array([-1, 2], case[2]), array(np.zeros((2, 3)), vector))
    launch(own_arrays, 3, array(np.arange(12.0).reshape(3, 4), float), array(np.zeros((3, 6)), float))
    launch(declared, 2, array([1, 2], wp.float64), 3)
    launch(declared, 2, array([1, 2], wp.float32), 3.5)
    launch(concrete, 2, array([1, 2], wp.int64), 3)
    return results
"""


@pytest.mark.filterwarnings("ignore:the first of two overloads")
def test_results_are_equal(tmp_path):
    import warp

    warp.config.quiet = True
    warp.config.mode = "debug"  # compiles in seconds instead of minutes; the arithmetic is the same
    warp.config.kernel_cache_dir = str(tmp_path / "cache")
    results = []
    for package in ("polyloom", "warp"):
        path = tmp_path / f"generic_{package}.py"
        path.write_text(PROGRAM.replace("PACKAGE", package))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        results.append(module.run())
    assert len(results[0]) == len(results[1]) > 25
    for index, (ours, theirs) in enumerate(zip(*results, strict=True)):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, err_msg=str(index))
