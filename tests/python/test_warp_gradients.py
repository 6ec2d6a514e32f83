"""Gradients against Warp's where Warp's are right, and against the truth where they are wrong.

Every kernel takes two arrays of `n` numbers, an array for the result, and is launched over `n` threads. The list
`WRONG` has kernels whose gradient is known by hand and is not what Warp gives: each says so, so that a Warp that has
mended it is noticed.
"""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polyloom
import pytest

pytest.importorskip("warp", reason="Warp is the oracle of these tests: pip install warp-lang==1.19.0")

N = 6
X = np.array([1.3, 0.7, 1.9, 1.1, 1.6, 0.9], np.float32)
W = np.array([0.6, 1.4, 0.8, 1.7, 1.2, 0.5], np.float32)
# The gradient of the result, from which that of the arrays follows.
SEED = np.array([1.0, -2.0, 0.5, 1.5, -1.0, 0.75], np.float32)

HEADER = "def {name}(x: wp.array(dtype=float), w: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):"
PRELUDE = """
@wp.func
def bump(a: float, b: float):
    if a > b:
        return a * a - b
    return wp.exp(a - b) * b


@wp.func
def polar(a: float, b: float):
    return wp.sqrt(a * a + b * b), wp.atan2(b, a)


@wp.func
def raised(a: float, n: int):
    p = a
    for k in range(n):
        p = p * a
    return p
"""

# Where Warp is right: elementary functions, branches, functions, composites, gathers and scatters, loops that are
# unrolled, and loops that add.
RIGHT = {
    "product": "y[i] = x[i] * w[i] + x[i]",
    "quotient": "y[i] = (x[i] - 2.0) / w[i]",
    "waves": "y[i] = wp.sin(x[i]) * wp.cos(w[i]) - wp.tan(0.3 * x[i])",
    "exponentials": "y[i] = wp.exp(-x[i]) * wp.log(w[i] + 1.0)",
    "powers": "y[i] = wp.pow(x[i], w[i]) + wp.sqrt(x[i])",
    "hyperbolic": "y[i] = wp.tanh(x[i]) + wp.sinh(w[i]) * wp.cosh(x[i])",
    "inverse_waves": "y[i] = wp.asin(0.4 * x[i]) + wp.acos(0.4 * w[i]) + wp.atan(x[i]) + wp.atan2(x[i], w[i])",
    "least_and_greatest": "y[i] = wp.min(x[i], w[i]) * wp.max(x[i], 1.0) + wp.clamp(w[i], 0.7, 1.5)",
    "absolute": "y[i] = wp.abs(x[i] - w[i]) + wp.sign(x[i] - 1.0) * w[i]",
    "rounding": "y[i] = x[i] * wp.floor(3.0 * w[i]) + wp.mod(x[i], 0.5)",
    "interpolation": "y[i] = wp.lerp(x[i], w[i], 0.3) + wp.smoothstep(0.0, 3.0, x[i]) + wp.step(w[i] - 1.0)",
    "choice": "y[i] = wp.where(x[i] > w[i], x[i] * x[i], w[i])",
    "branches": """
        s = float(0.0)
        if x[i] > 1.0:
            s = x[i] * w[i]
        else:
            s = wp.exp(x[i])
        y[i] = s * s""",
    "early_return": """
        if x[i] > 1.5:
            y[i] = w[i] * w[i]
            return
        y[i] = x[i] * w[i]""",
    "function_of_branches": "y[i] = bump(x[i], w[i]) * bump(w[i], x[i])",
    "function_of_two_results": """
        radius, angle = polar(x[i], w[i])
        y[i] = radius * wp.sin(2.0 * angle)""",
    "neighbours": "y[i] = x[(i + 1) % n] * w[i] - x[(i + n - 1) % n] * x[i]",
    "scattered": """
        wp.atomic_add(y, (i * 2) % n, x[i] * x[i])
        wp.atomic_sub(y, 0, w[i] * x[i])""",
    "unrolled_polynomial": """
        s = float(0.0)
        for k in range(5):
            s = s * x[i] + w[k]
        y[i] = s""",
    "unrolled_product": """
        s = float(1.0)
        for k in range(4):
            s *= x[(i + k) % n]
        y[i] = s""",
    "sum_in_a_loop": """
        s = float(0.0)
        for k in range(n):
            s += x[i] * w[k] * w[k]
        y[i] = s""",
    "sum_in_nested_loops": """
        s = float(0.0)
        for j in range(n):
            for k in range(j):
                s += x[j] * w[k] * x[i]
        y[i] = s""",
    "sum_of_chosen": """
        s = float(0.0)
        for k in range(n):
            if w[k] > x[i]:
                s += w[k] * x[i]
        y[i] = s""",
    "forces": """
        s = float(0.0)
        for k in range(n):
            d = x[k] - x[i]
            s += w[k] * d / (d * d + 0.1)
        y[i] = s""",
    "atomics_in_a_loop": """
        for k in range(n):
            wp.atomic_add(y, k, x[i] * w[k])""",
    "vectors": """
        a = wp.vec3(x[i], w[i], 1.0)
        b = wp.vec3(w[i], 2.0, x[i])
        y[i] = wp.dot(wp.cross(a, b), wp.normalize(a)) + wp.dot(wp.cross(a, b), a + 2.0 * b) + wp.length(a - b)""",
    "matrices": """
        a = wp.mat33(x[i], 1.0, 0.0, 0.5, w[i], 1.0, 0.0, x[i], 2.0)
        y[i] = wp.determinant(a) + wp.trace(a * wp.transpose(a)) + wp.inverse(a)[0, 1]""",
    "rotations": """
        q = wp.quat_from_axis_angle(wp.vec3(0.6, 0.0, 0.8), x[i])
        y[i] = wp.quat_rotate(q, wp.vec3(w[i], x[i], 1.0))[1]""",
    "transforms": """
        t = wp.transform(wp.vec3(x[i], 0.0, w[i]), wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), w[i]))
        y[i] = wp.transform_point(t, wp.vec3(1.0, x[i], 2.0))[0]""",
    "result_added_to": "y[i] = x[i] * w[i]\ny[i] += x[i] * x[i]",
    "variable_squared_twice": "a = x[i]\na = a * a\na = a * a\ny[i] = a",
    "elements_swapped": "a = x[i]\nx[i] = w[i]\nw[i] = a\ny[i] = x[i] * x[i] * w[i]",
    "added_to_then_read": "wp.atomic_add(w, i, x[i])\ny[i] = w[i] * w[i]",
    "greatest_of_all": "wp.atomic_max(y, 0, x[i] * w[i])",
    "least_of_each_kind": "wp.atomic_min(y, i % 2, -x[i] * w[i])",
    "conversions": "y[i] = float(wp.float64(x[i]) * wp.float64(w[i])) + float(i) * x[i]",
}


class Wrong(NamedTuple):
    body: str
    # The gradients of x and w by hand, given both and the gradient of the result, in float64.
    truth: Callable[[Any, Any, Any], tuple[Any, Any]]


def of_product(x, w, seed):
    return seed.sum() * x.prod() / x, 0 * w


def of_squares(x, w, seed):
    # v becomes a power of x whose exponent is 2 to the number of squarings.
    exponent = np.ones(N)
    for i, v in enumerate(x):
        while v < 10.0:
            v, exponent[i] = v * v, 2.0 * exponent[i]
    return seed * exponent * x ** (exponent - 1.0), 0 * w


def by_power(exponent):
    return lambda x, w, seed: (seed * exponent * x ** (exponent - 1.0), 0 * w)


def of_polynomial(x, w, seed):
    powers = x[:, None] ** np.arange(N - 1, -1, -1)
    slopes = np.arange(N - 1, 0, -1) * x[:, None] ** np.arange(N - 2, -1, -1)
    return seed * (slopes @ w[:-1]), seed @ powers


def of_growth(x, w, seed):
    # s = x to the number of multiplications until s exceeds 3.
    exponent = np.ones(N)
    for i in range(N):
        for _ in range(N - 1):
            if x[i] ** exponent[i] > 3.0:
                break
            exponent[i] += 1.0
    return seed * exponent * x ** (exponent - 1.0), 0 * w


def of_pendulum(x, w, seed):
    # The tangents of angle and speed with respect to x, carried along.
    angle, speed = x.copy(), w.copy()
    by_x, by_w = np.array([np.ones(N), np.zeros(N)]), np.array([np.zeros(N), np.ones(N)])
    for _ in range(N):
        for tangent in (by_x, by_w):
            tangent[1] -= 0.3 * np.cos(angle) * tangent[0]
            tangent[0] += 0.3 * tangent[1]
        speed -= 0.3 * np.sin(angle)
        angle += 0.3 * speed
    return seed * by_x[0], seed * by_w[0]


def of_roots(x, w, seed):
    # Newton's iteration for the root of x from x, and the derivative of each step.
    root, slope = x.copy(), np.ones(N)
    for _ in range(N):
        root, slope = 0.5 * (root + x / root), 0.5 * (slope + 1.0 / root - x / root**2 * slope)
    return seed * slope, 0 * w


def of_branches(x, w, seed):
    s, slope = x.copy(), np.ones(N)
    for _ in range(N):
        slope = np.where(s > 1.2, 0.5 * slope, 2.0 * s * slope + slope)
        s = np.where(s > 1.2, 0.5 * s, s * s + s)
    return seed * slope, 0 * w


def of_early_return(x, w, seed):
    by_x, by_w = np.zeros(N), np.zeros(N)
    for i in range(N):
        exponent = 1.0
        while exponent <= N and x[i] ** exponent <= 3.0:
            exponent += 1.0
        returned = exponent <= N
        by_x[i] = seed[i] * exponent * x[i] ** (exponent - 1.0) * (1.0 if returned else w[i])
        by_w[i] = 0.0 if returned else seed[i] * x[i] ** exponent
    return by_x, by_w


def of_least(x, w, seed):
    j = (x * w).argmin()
    by_x, by_w = seed * x[j] * w[j], np.zeros(N)
    by_x[j] += (seed * x).sum() * w[j]
    by_w[j] = (seed * x).sum() * x[j]
    return by_x, by_w


def of_decay(x, w, seed):
    rest = (1.0 - 0.1 * w).prod()
    return seed * rest, (seed * x).sum() * -0.1 * rest / (1.0 - 0.1 * w)


def of_chosen(x, w, seed):
    by_x, by_w, total = np.zeros(N), np.zeros(N), 0.0
    # Which elements are taken is the same for every thread.
    for k in range(N):
        j = int(total) % N
        total += x[j] * w[k]
        by_x[j] += seed.sum() * w[k]
        by_w[k] += seed.sum() * x[j]
    return by_x, by_w


# a, b = b, a * b from x and w: a becomes x to the 5th times w to the 8th in 6 steps.
def of_fibonacci(x, w, seed):
    return seed * 5.0 * x**4 * w**8, seed * x**5 * 8.0 * w**7


WRONG = {
    "product_in_a_loop": Wrong(
        """
        p = float(1.0)
        for k in range(n):
            p *= x[k]
        y[i] = p""",
        of_product,
    ),
    "squares_in_a_while_loop": Wrong(
        """
        v = x[i]
        if v > 1.05:
            while v < 10.0:
                v = v * v
            y[i] = v""",
        lambda x, w, seed: (np.where(x > 1.05, of_squares(np.maximum(x, 1.05), w, seed)[0], 0.0), 0 * w),
    ),
    "result_multiplied": Wrong("y[i] = x[i]\ny[i] *= x[i]", by_power(2.0)),
    "polynomial_in_a_loop": Wrong(
        """
        s = float(0.0)
        for k in range(n):
            s = s * x[i] + w[k]
        y[i] = s""",
        of_polynomial,
    ),
    "break_in_a_loop": Wrong(
        """
        s = x[i]
        for k in range(n - 1):
            if s > 3.0:
                break
            s = s * x[i]
        y[i] = s""",
        of_growth,
    ),
    "continue_in_a_loop": Wrong(
        """
        s = x[i]
        for k in range(n):
            if k % 2 == 0:
                continue
            s = s * x[i]
        y[i] = s""",
        by_power(4.0),
    ),
    "nested_loops": Wrong(
        """
        s = x[i]
        for j in range(n):
            for k in range(j):
                s = s * wp.sqrt(x[i])
        y[i] = s""",
        by_power(8.5),
    ),
    "branches_in_a_loop": Wrong(
        """
        s = x[i]
        for k in range(n):
            if s > 1.2:
                s = 0.5 * s
            else:
                s = s * s + s
        y[i] = s""",
        of_branches,
    ),
    "newton_in_a_loop": Wrong(
        """
        root = x[i]
        for k in range(n):
            root = 0.5 * (root + x[i] / root)
        y[i] = root""",
        of_roots,
    ),
    "pendulum_in_a_loop": Wrong(
        """
        angle = x[i]
        speed = w[i]
        for k in range(n):
            speed = speed - 0.3 * wp.sin(angle)
            angle = angle + 0.3 * speed
        y[i] = angle""",
        of_pendulum,
    ),
    "two_variables_in_a_loop": Wrong(
        """
        a = x[i]
        b = w[i]
        for k in range(n):
            c = a * b
            a = b
            b = c
        y[i] = a""",
        of_fibonacci,
    ),
    "vector_in_a_loop": Wrong(
        """
        v = wp.vec2(x[i], 1.0)
        for k in range(n):
            v = wp.cw_mul(v, wp.vec2(x[i], 1.0))
        y[i] = v[0]""",
        by_power(7.0),
    ),
    "component_in_a_loop": Wrong(
        """
        v = wp.vec2(1.0, x[i])
        for k in range(n):
            v[1] = v[1] * x[i]
        y[i] = v[1]""",
        by_power(7.0),
    ),
    "loop_over_an_element": Wrong(
        """
        y[i] = x[i]
        for k in range(n):
            y[i] = y[i] * x[i]""",
        by_power(7.0),
    ),
    "function_with_a_loop": Wrong("y[i] = raised(x[i], n)", by_power(7.0)),
    "return_in_a_loop": Wrong(
        """
        s = x[i]
        for k in range(n):
            if s > 3.0:
                y[i] = s
                return
            s = s * x[i]
        y[i] = s * w[i]""",
        of_early_return,
    ),
    "least_by_branches": Wrong(
        """
        m = float(10.0)
        for k in range(n):
            if x[k] * w[k] < m:
                m = x[k] * w[k]
        y[i] = m * x[i]""",
        of_least,
    ),
    "power_by_squares": Wrong(
        """
        r = float(1.0)
        b = x[i]
        e = int(n)
        while e > 0:
            if e % 2 == 1:
                r = r * b
            b = b * b
            e = e / 2
        y[i] = r""",
        by_power(6.0),
    ),
    "matrix_in_a_loop": Wrong(
        """
        m = wp.mat22(1.0, x[i], 0.0, 1.0)
        for k in range(n):
            m = m * wp.mat22(1.0, w[i], 0.0, x[i])
        y[i] = m[1, 1]""",
        by_power(6.0),
    ),
    "rotation_in_a_loop": Wrong(
        """
        q = wp.quat(0.0, 0.0, 0.0, 1.0)
        for k in range(n):
            q = q * wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.2 * x[i])
        y[i] = q[3]""",
        lambda x, w, seed: (seed * -0.1 * N * np.sin(0.1 * N * x), 0 * w),
    ),
    "decay_in_a_loop": Wrong(
        """
        s = x[i]
        for k in range(n):
            s -= 0.1 * w[k] * s
        y[i] = s""",
        of_decay,
    ),
    "index_by_what_a_loop_sums": Wrong(
        """
        s = float(0.0)
        for k in range(n):
            j = int(s) % n
            s += x[j] * w[k]
        y[i] = s""",
        of_chosen,
    ),
    # One iteration less than there are elements: Warp's index is one too large on the way back.
    "index_in_a_while_loop": Wrong(
        """
        s = float(0.0)
        k = int(0)
        while k < n - 1:
            s += x[i] * w[k]
            k += 1
        y[i] = s""",
        lambda x, w, seed: (seed * w[:-1].sum(), np.append(np.full(N - 1, (seed * x).sum()), 0.0)),
    ),
    "input_overwritten": Wrong("y[i] = x[i] * x[i]\nx[i] = 0.0", by_power(2.0)),
    "input_squared_twice": Wrong("x[i] = x[i] * x[i]\nx[i] = x[i] * x[i]\ny[i] = x[i]", by_power(4.0)),
    "weights_overwritten": Wrong(
        "w[i] = x[i] * w[i]\ny[i] = w[i] * w[i]",
        lambda x, w, seed: (seed * 2.0 * x * w**2, seed * 2.0 * x**2 * w),
    ),
    "read_then_added_to": Wrong(
        "y[i] = w[i] * w[i]\nwp.atomic_add(w, i, x[i])", lambda x, w, seed: (0 * x, seed * 2.0 * w)
    ),
    "running_maximum": Wrong(
        """
        m = x[0] * x[0]
        for k in range(n):
            m = wp.max(m, x[k] * x[k])
        y[i] = m * m""",
        lambda x, w, seed: (np.where(x == x.max(), 4.0 * x**3 * seed.sum(), 0.0), 0 * w),
    ),
}


def source(name: str, body: str) -> str:
    body = textwrap.dedent(body).strip("\n")
    return f"@wp.kernel\n{HEADER.format(name=name)}\n    i = wp.tid()\n{textwrap.indent(body, '    ')}\n"


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """The kernels, for Warp and for Polyloom."""
    import warp

    folder = tmp_path_factory.mktemp("gradients")
    warp.config.quiet = True
    warp.config.kernel_cache_dir = str(folder / "cache")
    warp.init()
    # Without optimisation it compiles in seconds instead of minutes; the arithmetic is the same.
    warp.config.mode = "debug"
    bodies = {**RIGHT, **{name: wrong.body for name, wrong in WRONG.items()}}
    loaded = {}
    for package in ("warp", "polyloom"):
        path = folder / f"gradients_{package}.py"
        kernels = "\n\n".join(source(name, body) for name, body in bodies.items())
        path.write_text(f"import {package} as wp\n\n{PRELUDE}\n\n{kernels}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        loaded[package] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded[package])
    return loaded


def warp_gradients(kernel: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """The gradients of both arrays, and the result."""
    import warp

    x, w = (warp.array(each, dtype=float, device="cpu", requires_grad=True) for each in (X, W))
    y = warp.zeros(N, dtype=float, device="cpu", requires_grad=True)
    with warp.Tape() as tape:
        warp.launch(kernel, N, inputs=[x, w, N], outputs=[y], device="cpu")
    result = y.numpy().copy()
    tape.backward(grads={y: warp.array(SEED, dtype=float, device="cpu")})
    return [x.grad.numpy(), w.grad.numpy()], result


def own_gradients(kernel: Any) -> tuple[list[np.ndarray], np.ndarray]:
    x, w, y = X.copy(), W.copy(), np.zeros(N, np.float32)
    with polyloom.Tape() as tape:
        polyloom.launch(kernel, N, [x, w, N], [y])
    tape.backward(grads=[(y, SEED)])
    return [tape.gradients[x], tape.gradients[w]], y


@pytest.mark.parametrize("name", RIGHT)
def test_agrees_with_warp(modules, name):
    wanted, their_result = warp_gradients(getattr(modules["warp"], name))
    found, result = own_gradients(getattr(modules["polyloom"], name))
    np.testing.assert_allclose(result, their_result, rtol=1e-5, atol=1e-6)
    assert any(each.any() for each in wanted)
    for gradient, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(gradient, theirs, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", WRONG)
def test_where_warp_is_wrong(modules, name):
    truth = WRONG[name].truth(*(each.astype(np.float64) for each in (X, W, SEED)))
    found, result = own_gradients(getattr(modules["polyloom"], name))
    for gradient, true in zip(found, truth, strict=True):
        np.testing.assert_allclose(gradient, true, rtol=2e-5, atol=1e-5)
    theirs, their_result = warp_gradients(getattr(modules["warp"], name))
    np.testing.assert_allclose(result, their_result, rtol=1e-5)
    is_right = all(np.allclose(a, b, rtol=1e-2, atol=1e-2) for a, b in zip(theirs, truth, strict=True))
    assert not is_right, "Warp's gradient is right now: move the kernel to those where it is"
