"""Derivatives at points where what is not taken has an infinite one: reverse mode gives what forward mode gives."""

import textwrap

import numpy as np
import polyloom as loom
import pytest
import sources

# Bodies that set `r` from `x`, the points, and the derivatives there, by hand: what is not taken has none.
CASES = {
    "max": ("r = loom.max(loom.sqrt(x), 1.0e-10)", [0.0, 4.0], [0.0, 0.25]),
    "max, the other way": ("r = loom.max(1.0e-10, loom.sqrt(x))", [0.0, 4.0], [0.0, 0.25]),
    "max of three": ("r = loom.max(loom.sqrt(x), 1.0, loom.log(x) + 9.0 * x)", [0.0, 1.0], [0.0, 10.0]),
    "min": ("r = loom.min(loom.sqrt(x), -1.0)", [0.0, 4.0], [0.0, 0.0]),
    "clamp": ("r = loom.clamp(loom.sqrt(x), 1.0, 2.0)", [0.0, 2.25, 9.0], [0.0, 1 / 3, 0.0]),
    "clamp with limits": ("r = loom.clamp(x - 2.0, loom.sqrt(x) - 3.0, x + 1.0)", [0.0, 4.0], [1.0, 1.0]),
    "clamp to a limit": ("r = loom.clamp(-9.0, loom.sqrt(x) + 1.0, loom.log(x) + 9.0)", [4.0], [0.25]),
    "clamp to what has no derivative": ("r = loom.clamp(x, 1.0 - loom.sqrt(x), 1.0)", [4.0], [0.0]),
    "a chain": ("r = loom.max(loom.min(loom.log(x), 3.0), -2.0) + x", [0.0, 1.0, 100.0], [1.0, 2.0, 1.0]),
    "beside a use that asks": ("s = x * 3.0\nr = loom.max(loom.sqrt(s), 1.0) + s", [0.0, 3.0], [3.0, 3.5]),
    "where": ("r = loom.where(x > 0.0, loom.sqrt(x), 1.0)", [0.0, 4.0], [0.0, 0.25]),
    "a conditional expression": ("r = loom.sqrt(x) if x > 0.0 else 1.0", [0.0, 4.0], [0.0, 0.25]),
    "components": (
        "v = loom.max(loom.vec3(loom.sqrt(x), x, 2.0), loom.vec3(1.0, -5.0, x))\nr = v[0] + v[1] * 2.0 + v[2]",
        [0.0, 4.0],
        [2.0, 3.25],
    ),
    "components of a sum": (
        "v = loom.vec2(loom.sqrt(x), x) + loom.vec2(x, 1.0)\nw = loom.max(v, loom.vec2(3.0, -9.0))\nr = w[0] + w[1]",
        [0.0, 4.0],
        [1.0, 2.25],
    ),
    "a component left out": ("v = loom.vec3(loom.sqrt(x), x, x * x)\nr = v[1] + v[2]", [0.0, 3.0], [1.0, 7.0]),
    "a component set anew": ("v = loom.vec2(loom.sqrt(x), x)\nv[0] = x * 2.0\nr = v[0] + v[1]", [0.0, 3.0], [3.0, 3.0]),
    "the largest component": ("r = loom.max(loom.vec3(loom.sqrt(x), 1.0, x * 2.0))", [0.0, 4.0], [0.0, 2.0]),
    "the smallest component": ("r = loom.min(loom.vec3(loom.sqrt(x), -1.0, x - 9.0))", [0.0, 4.0], [1.0, 1.0]),
    "a vector that is not chosen": (
        "v = loom.where(x > 1.0, loom.vec2(loom.sqrt(x), x), loom.vec2(x, 1.0))\nr = v[0] + v[1]",
        [0.0, 4.0],
        [1.0, 1.25],
    ),
    "a running maximum": (
        "r = loom.sqrt(x)\nfor i in range(3):\n    r = loom.max(r, float(i) * x + 1.0)",
        [0.0, 1.0],
        [0.0, 2.0],
    ),
    "a running maximum by where": (
        "r = loom.sqrt(x)\nfor i in range(3):\n    s = float(i) * x + 1.0\n    r = loom.where(s > r, s, r)",
        [0.0, 1.0],
        [0.0, 2.0],
    ),
    "a running maximum by if": (
        "r = loom.sqrt(x)\nfor i in range(3):\n    s = float(i) * x + 1.0\n    if s > r:\n        r = s",
        [0.0, 1.0],
        [0.0, 2.0],
    ),
    "a running minimum that stays": (
        "r = loom.log(x)\nfor i in range(n):\n    r = loom.min(r, loom.sqrt(x) + float(i) + 1.0)",
        [1.0, 2.0],
        [1.0, 0.5],
    ),
    "in an iteration": (
        "r = 0.0\nfor i in range(n):\n    r += loom.max(loom.sqrt(x * float(i)), 0.5)",
        [0.0, 1.0],
        [0.0, 0.5 + 0.5 * 2**0.5],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_taken_has_no_derivative(name):
    body, points, wanted = CASES[name]
    kernel = sources.define(
        "@loom.kernel\ndef k(a: loom.array(dtype=float), n: int, o: loom.array(dtype=float)):\n"
        f"    t = loom.tid()\n    x = a[t]\n{textwrap.indent(body, '    ')}\n    o[t] = r\n"
    )["k"]
    x = np.array(points, np.float32)
    o, one = np.zeros_like(x), np.ones_like(x)
    with loom.Tape() as tape:
        loom.launch(kernel, len(x), [x, 3, o])
    tape.backward(grads=[(o, one.copy())])
    tangent = np.zeros_like(x)
    loom.jvp(kernel, len(x), [x, 3], [np.zeros_like(x)], tangents=[one, None, tangent])
    np.testing.assert_allclose(tape.gradients[x], wanted, rtol=1e-6)
    np.testing.assert_allclose(tangent, wanted, rtol=1e-6)


def test_an_extremum_in_memory_asks_for_the_thread_that_has_it():
    @loom.kernel
    def k(a: loom.array(dtype=float), o: loom.array(dtype=float)):
        loom.atomic_max(o, 0, loom.sqrt(a[loom.tid()]))

    x, o = np.array([0.0, 4.0, 0.0], np.float32), np.zeros(1, np.float32)
    with loom.Tape() as tape:
        loom.launch(k, 3, [x, o])
    tape.backward(grads=[(o, np.ones(1, np.float32))])
    assert tape.gradients[x].tolist() == [0.0, 0.25, 0.0]
