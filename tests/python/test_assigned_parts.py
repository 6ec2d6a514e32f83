"""Simultaneous assignment to parts of variables and arrays: the values first, then the targets from left to right."""

import numpy as np
import polyloom as loom
import pytest
from numpy.testing import assert_array_equal
from sources import define

# A body, the variable it leaves its result in, and the numbers of that: what CPython computes where values are copied.
CASES = {
    "rows": ("m = loom.mat22(1.0, 2.0, 3.0, 4.0)\nm[0], m[1] = m[1], m[0]", "m", [3, 4, 1, 2]),
    "columns": ("m = loom.mat22(1.0, 2.0, 3.0, 4.0)\nm[:, 0], m[:, 1] = m[:, 1], m[:, 0]", "m", [2, 1, 4, 3]),
    "row and element": (
        "m = loom.mat22(1.0, 2.0, 3.0, 4.0)\nm[0], m[1, 1] = loom.vec2(5.0, 6.0), m[0, 0]",
        "m",
        [5, 6, 3, 1],
    ),
    "new rows": ("m = loom.mat22()\nm[0], m[1] = loom.vec2(5.0, 6.0), loom.vec2(7.0, 8.0)", "m", [5, 6, 7, 8]),
    "results": ("m = loom.mat22()\nm[0], m[1] = two_rows()", "m", [1, 2, 3, 4]),
    "run-time rows": (
        "m = loom.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)\nm[n], m[n - 2] = m[n - 2], m[n]",
        "m",
        [7, 8, 9, 4, 5, 6, 1, 2, 3],
    ),
    "slices": ("v = loom.vec4(1.0, 2.0, 3.0, 4.0)\nv[0:2], v[2:4] = v[2:4], v[0:2]", "v", [3, 4, 1, 2]),
    "overlapping slices": ("v = loom.vec4(1.0, 2.0, 3.0, 4.0)\nv[0:3], v[1:4] = v[1:4], v[0:3]", "v", [2, 1, 2, 3]),
    "components": ("v = loom.vec3(1.0, 2.0, 3.0)\nv.x, v.y, v.z = v.z, v.x, v.y", "v", [3, 1, 2]),
    "slice and component": ("v = loom.vec3(1.0, 2.0, 3.0)\nv[0:2], v.z = v[1:3], v.x", "v", [2, 3, 1]),
    "component twice": ("v = loom.vec3(1.0, 2.0, 3.0)\nv.x, v.x = 5.0, 6.0", "v", [6, 2, 3]),
    "variable and its part": ("v = loom.vec2(1.0, 2.0)\nv, v.x = loom.vec2(5.0, 6.0), v.y", "v", [2, 6]),
    "part and its variable": ("v = loom.vec2(1.0, 2.0)\nv.x, v = v.y, loom.vec2(5.0, 6.0)", "v", [5, 6]),
    "index set before": ("v = loom.vec3(1.0, 2.0, 3.0)\ni = 0\ni, v[i] = 2, 9.0", "v", [1, 2, 9]),
    "index of a row set before": (
        "m = loom.mat22(1.0, 2.0, 3.0, 4.0)\ni = 0\ni, m[i] = 1, loom.vec2(8.0, 9.0)",
        "m",
        [1, 2, 8, 9],
    ),
    "index set after": ("v = loom.vec3(1.0, 2.0, 3.0)\ni = 0\nv[i], i = 9.0, 2", "v", [9, 2, 3]),
    "number of the part's type": (
        "v = loom.vec2d(loom.float64(1.0), loom.float64(2.0))\nv.x, v.y = 0.1, 3",
        "v",
        [0.1, 3],
    ),
    "variable for the other": ("v = loom.vec2(1.0, 2.0)\nx = 7.0\nx, v.x = v.x, x", "v", [7, 2]),
    "transform": (
        "t = loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(4.0, 5.0, 6.0, 7.0))\n"
        "t.p, t.q = loom.vec3(t.q[0], t.q[1], t.q[2]), loom.quat(t.p[0], t.p[1], t.p[2], 0.5)",
        "t",
        [4, 5, 6, 1, 2, 3, 0.5],
    ),
    "fields": (
        "s = S()\ns.v = loom.vec2(1.0, 2.0)\ns.w = loom.vec2(3.0, 4.0)\ns.v, s.w = s.w, s.v\n"
        "m = loom.mat22(s.v[0], s.v[1], s.w[0], s.w[1])",
        "m",
        [3, 4, 1, 2],
    ),
    "parts of fields": (
        "s = S()\ns.m = loom.mat22(1.0, 2.0, 3.0, 4.0)\ns.m[0], s.m[1] = s.m[1], s.m[0]\nm = s.m",
        "m",
        [3, 4, 1, 2],
    ),
    "structs": (
        "s = S()\nt = S()\ns.v = loom.vec2(1.0, 2.0)\nt.v = loom.vec2(3.0, 4.0)\ns, t.v = t, s.v\n"
        "m = loom.mat22(s.v[0], s.v[1], t.v[0], t.v[1])",
        "m",
        [3, 4, 1, 2],
    ),
    "a struct whose part is set before": (
        "s = S()\nt = S()\ns.v = loom.vec2(1.0, 2.0)\ns.v.x, t = 5.0, s\n"
        "m = loom.mat22(s.v[0], s.v[1], t.v[0], t.v[1])",
        "m",
        [5, 2, 1, 2],
    ),
    "a struct of variables that are set before": (
        "x = 1.0\nx, s = 5.0, Q(2.0, x)\nv = loom.vec2(x, s.b)",
        "v",
        [5, 1],
    ),
    "one value to a part and a variable": (
        "v = loom.vec2(1.0, 2.0)\nm = loom.mat22(5.0, 6.0, 7.0, 8.0)\nm[0] = v = m[1]\nm[1] = v",
        "m",
        [7, 8, 7, 8],
    ),
    "own array": (
        "t = loom.zeros(shape=(2, 2), dtype=float)\nt[0, 0] = 1.0\nt[1, 1] = 4.0\nt[0, 0], t[1, 1] = t[1, 1], t[0, 0]\n"
        "m = loom.mat22(t[0, 0], t[0, 1], t[1, 0], t[1, 1])",
        "m",
        [4, 0, 0, 1],
    ),
    "elements": ("a[0], a[1] = a[1], a[0]\nv = loom.vec2(a[0], a[1])", "v", [11, 10]),
    "rows of elements": ("p[0][0], p[0][1] = p[0][1], p[0][0]\nm = p[0]", "m", [3, 4, 1, 2]),
    "element and index": ("i = 0\ni, a[i] = 1, 5.0\nv = loom.vec2(a[0], a[1])", "v", [10, 5]),
    "a condition that another target changes": (
        "v = loom.vec2(1.0, 2.0)\nv.x, v.y = -1.0, 5.0 if v.x > 0.0 else 6.0",
        "v",
        [-1, 5],
    ),
}


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
@pytest.mark.parametrize("name", CASES)
def test_targets_are_assigned_from_left_to_right(name: str, device: str) -> None:
    body, result, expected = CASES[name]
    n = len(expected)
    shape = {"m": int(n**0.5)}.get(result)
    read = "{r}[c]" if shape is None else "{r}[c // N, c % N]"
    lines = [
        *body.split("\n"),
        f"for c in range({n}):",
        f"    o[c] = loom.float64({read.format(r=result).replace('N', str(shape))})",
    ]
    text = (
        "@loom.struct\nclass S:\n    v: loom.vec2\n    w: loom.vec2\n    m: loom.mat22\n\n"
        "@loom.struct\nclass Q:\n    a: float\n    b: float\n\n"
        "@loom.func\ndef two_rows():\n    return loom.vec2(1.0, 2.0), loom.vec2(3.0, 4.0)\n\n"
        "@loom.kernel\ndef k(a: loom.array(dtype=float), p: loom.array(dtype=loom.mat22), n: int,\n"
        "      o: loom.array(dtype=loom.float64)):\n" + "".join(f"    {line}\n" for line in lines)
    )
    k = define(text)["k"]
    a = loom.array([10.0, 11.0], dtype=float, device=device)
    p = loom.array([[[1.0, 2.0], [3.0, 4.0]]], dtype=loom.mat22, device=device)
    o = loom.zeros(n, dtype=loom.float64, device=device)
    loom.launch(k, 1, [a, p, 2, o], device=device)
    assert_array_equal(o.numpy(), np.array(expected, np.float64))


def test_gaussian_elimination_with_pivots() -> None:
    k = define(
        """
        V = loom.array(dtype=loom.vec3)

        @loom.kernel
        def solve(systems: loom.array(dtype=loom.mat33), right: V, x: V):
            t = loom.tid()
            m = systems[t]
            b = right[t]
            for c in range(3):
                pivot = c
                for r in range(c + 1, 3):
                    if loom.abs(m[r, c]) > loom.abs(m[pivot, c]):
                        pivot = r
                m[c], m[pivot] = m[pivot], m[c]
                b[c], b[pivot] = b[pivot], b[c]
                for r in range(c + 1, 3):
                    f = m[r, c] / m[c, c]
                    m[r] = m[r] - f * m[c]
                    b[r] = b[r] - f * b[c]
            for i in range(3):
                c = 2 - i
                s = b[c]
                for j in range(c + 1, 3):
                    s -= m[c, j] * b[j]
                b[c] = s / m[c, c]
            x[t] = b
        """
    )["solve"]
    draw = np.random.default_rng(3)
    systems, right = draw.normal(size=(40, 3, 3)).astype(np.float32), draw.normal(size=(40, 3)).astype(np.float32)
    x = np.zeros((40, 3), np.float32)
    loom.launch(k, 40, [systems, right, x])
    expected = np.linalg.solve(systems.astype(np.float64), right.astype(np.float64)[..., None])[..., 0]
    np.testing.assert_allclose(x, expected, rtol=2e-3, atol=2e-3)
