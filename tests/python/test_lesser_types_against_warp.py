"""Parameters by reference, tuples, slices of arrays, indexed arrays and lesser builtins under real Warp.

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


@wp.struct
class Counter:
    value: int
    weight: float


@wp.func
def double(x: wp.ref[float]):
    x = x * 2.0


@wp.func
def count(c: wp.ref[Counter], by: int) -> int:
    if by > 1:
        c.value += by
    c.weight = float(c.value)
    return by + 1


@wp.kernel(enable_backward=False)
def references(
    a: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), c: wp.array(dtype=Counter), out: wp.array(dtype=float)
):
    i = wp.tid()
    x = float(i) + 1.0
    double(x)
    double(a[i])
    double(v[i].y)
    n = count(c[i], i + 1)
    own = Counter()
    own.value = 3
    count(own, n)
    out[i] = x + own.weight + float(n)


@wp.func
def weighted(t: tuple[wp.vec3, float]) -> float:
    return wp.length(t[0]) * t[1]


@wp.func
def total(values: Any):
    s = wp.int32(0)
    for i in range(wp.static(len(values))):
        s += values[i]
    for i in range(len(values)):
        s += values[i] * 10
    return s


@wp.func
def two(x: float) -> tuple[float, int]:
    return (x * 2.0, 7)


@wp.kernel
def tuples(out: wp.array(dtype=float)):
    t = (1, 2.5, wp.vec3(3.0, 0.0, 4.0))
    out[0] = float(t[0]) + t[1]
    out[1] = weighted((t[2], t[1]))
    t3 = (1, 2, 3)
    t2 = (4, 5)
    out[2] = float(total(t3) + total(t2) * len(t))
    r = two(out[0])
    a, b = r
    out[3] = a + float(b) + r[0]
    q = wp.quat_to_axis_angle(wp.quat(1.0, 2.0, 3.0, 4.0))
    axis = q[0]
    out[4] = axis[1] + q[1]


@wp.func
def sum_of(a: wp.array(dtype=float)):
    s = float(0.0)
    for i in range(a.shape[0]):
        s += a[i]
    return s


@wp.kernel
def slices(a: wp.array2d(dtype=float), start: int, stop: int, step: int, out: wp.array(dtype=float)):
    row = a[1]
    out[0] = sum_of(row[1:])
    out[1] = sum_of(a[:, 2])
    out[2] = a[::-1, 0][0]
    part = a[1:3, ::2]
    out[3] = part[1, 1] + float(part.shape[0] * 10 + part.shape[1])
    moving = row[start:stop:step]
    out[4] = float(moving.shape[0])
    if moving.shape[0] > 0:
        out[5] = moving[0] + moving[moving.shape[0] - 1]
    part[0, 0] = -1.0
    twice = row[1:][::2]
    out[6] = twice[1]


@wp.kernel
def indexed(a: wp.indexedarray(dtype=float), m: wp.indexedarray(dtype=wp.vec2, ndim=2)):
    i = wp.tid()
    a[i] = a[i] * 2.0 + float(a.shape[0])
    m[i, 1] = m[i, 0] + wp.vec2(1.0)
    wp.atomic_add(a, i, 0.5)


@wp.kernel
def lesser(out: wp.array(dtype=float), t: wp.array(dtype=wp.transform)):
    i, j = 0, 1
    out[0] = float(wp.block_dim())
    f = wp.sin
    out[1] = wp.abs(f(0.0)) + float(out.shape[1])
    t[0] = wp.transform(p=wp.vec3(1.0, 2.0, 3.0))
    t[1] = wp.transform(2.5)
    out[2] = sqrt(4.0)


def run():
    results = []

    def launch(kernel, dim, *arrays):
        wp.launch(kernel, dim=dim, inputs=list(arrays), device="cpu")
        for each in arrays:
            each = getattr(each, "data", each) if type(each).__name__.startswith("indexed") else each
            if hasattr(each, "numpy"):
                values = each.numpy()
                fields = values.dtype.names
                results.extend([values[name] for name in fields] if fields else [values.copy()])

    def array(data, dtype):
        return wp.array(np.asarray(data), dtype=dtype, device="cpu")

    floats = array([1.0, 2.0, 3.0], float)
    vectors = array(np.arange(9.0).reshape(3, 3), wp.vec3)
    launch(references, 3, floats, vectors, wp.zeros(3, dtype=Counter), wp.zeros(3, dtype=float))
    launch(tuples, 1, wp.zeros(5, dtype=float))
    for bounds in [(1, 4, 2), (4, 0, -1), (-3, 9, 1), (3, 1, 1)]:
        launch(slices, 1, array(np.arange(20.0).reshape(4, 5), float), *bounds, wp.zeros(7, dtype=float))
    indices = array([3, 0, 2], int)
    chosen = wp.indexedarray(array(np.arange(5.0), float), [indices])
    plane = wp.indexedarray(array(np.arange(24.0).reshape(4, 3, 2), wp.vec2), [indices, None])
    assert plane.shape == (3, 3)
    launch(indexed, 3, chosen, plane)
    launch(lesser, 1, wp.zeros(3, dtype=float), wp.zeros(2, dtype=wp.transform))
    return results
"""


@pytest.mark.filterwarnings("ignore")
def test_results_are_equal(tmp_path):
    import warp

    warp.config.quiet = True
    warp.config.mode = "debug"  # compiles in seconds instead of minutes; the arithmetic is the same
    warp.config.kernel_cache_dir = str(tmp_path / "cache")
    results = []
    for package in ("polyloom", "warp"):
        path = tmp_path / f"lesser_{package}.py"
        path.write_text(PROGRAM.replace("PACKAGE", package))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        results.append(module.run())
    assert len(results[0]) == len(results[1]) > 15
    for index, (ours, theirs) in enumerate(zip(*results, strict=True)):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, err_msg=str(index))
