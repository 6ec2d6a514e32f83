"""Gradients in the float modes in which two kernels round differently: what counts, what records and what compares
decide alike."""

import numpy as np
import polyloom as loom
import pytest

f64 = loom.float64
D = loom.array(dtype=f64)


@pytest.fixture(params=["cpu", "sim:0"])
def device(request):
    return request.param


@loom.func
def longer(v: f64, w: f64, a: f64, b: f64):
    return v + w * b + a * w * 0.1 + (v * b + a) / w / a * 0.01


@loom.kernel(float_mode="fast")
def after(a: D, b: D, y: D, n: int):
    i = loom.tid()
    v = a[i]
    w = b[i]
    for _ in range(n):
        v = longer(v, w, a[i], b[i])
        w = w + v * a[i] * 0.01 + b[i] * 0.02
    y[i] = v


@loom.kernel(float_mode="fast")
def until(a: D, b: D, threshold: D, y: D):
    i = loom.tid()
    v = a[i]
    w = b[i]
    while v < threshold[i]:
        v = longer(v, w, a[i], b[i])
        w = w + v * a[i] * 0.01 + b[i] * 0.02
    y[i] = v * w


def by_hand(a, b, n):
    """The value after so many rounds, and its derivatives by a and b."""
    v, w = np.array([a, 1.0, 0.0]), np.array([b, 0.0, 1.0])
    a, b = np.array([a, 1.0, 0.0]), np.array([b, 0.0, 1.0])

    def times(x, y):
        return np.array([x[0] * y[0], *(x[0] * y[1:] + x[1:] * y[0])])

    def over(x, y):
        return np.array([x[0] / y[0], *((x[1:] - x[0] / y[0] * y[1:]) / y[0])])

    for _ in range(n):
        part = over(over(times(v, b) + a, w), a)
        v = v + times(w, b) + times(a, w) * 0.1 + part * 0.01
        w = w + times(v, a) * 0.01 + b * 0.02
    return times(v, w)


# Among these are some whose last decision falls otherwise by a rounding.
@pytest.mark.parametrize("first", [0, 60, 120, 180])
def test_loops_that_end_by_a_rounding(device, first):
    for seed in range(first, first + 60):
        random = np.random.default_rng(seed)
        a, b, threshold = 0.5 + random.random(1), 0.5 + random.random(1), np.zeros(1)
        loom.launch(after, 1, [a, b, threshold, 9], device=device)
        by_a, by_b = np.zeros(1), np.zeros(1)
        given = [a, b, threshold, np.zeros(1)]
        loom.launch(until, 1, given, adjoint=True, adj_inputs=[by_a, by_b, None, np.ones(1)], device=device)
        allowed = [by_hand(a[0], b[0], n)[1:] for n in (9, 10)]
        assert any(np.allclose([by_a[0], by_b[0]], slopes, rtol=1e-9) for slopes in allowed), seed


@pytest.mark.parametrize("mode", ["strict", "contract", "fast"])
def test_extrema(device, mode):
    @loom.kernel(float_mode=mode)
    def largest(a: D, b: D, c: D, y: D):
        i = loom.tid()
        s = a[i] * b[i] + c[i]
        s = s * b[i] + a[i] * c[i] + s / b[i] / a[i]
        t = s * s + a[i] * 0.1 + c[i] * 0.3 + b[i] * 0.7
        loom.atomic_max(y, 0, t * a[i] + s * b[i])

    for seed in range(20):
        random = np.random.default_rng(seed)
        a, b, c = (random.normal(size=37) for _ in range(3))
        y = np.full(1, -1e9)
        gradients, of_y = [np.zeros(37) for _ in range(3)], np.ones(1)
        loom.launch(largest, 37, [a, b, c, y], adjoint=True, adj_inputs=[*gradients, of_y], device=device)
        s = a * b + c
        s = s * b + a * c + s / b / a
        t = s * s + a * 0.1 + c * 0.3 + b * 0.7
        assert [np.flatnonzero(gradient).tolist() for gradient in gradients] == [[np.argmax(t * a + s * b)]] * 3
        assert of_y[0] == 0
        moving = [np.ones(37), np.zeros(37), np.zeros(37), np.zeros(1)]
        loom.jvp(largest, 37, [a, b, c, y.copy()], tangents=moving, device=device)
        np.testing.assert_allclose(moving[3][0], gradients[0].sum(), rtol=1e-12)


# A gradient is several launches here; if they took different branches, each array would have that of another.
@pytest.mark.parametrize("mode", ["strict", "contract", "fast"])
@pytest.mark.parametrize("decision", ["if", "sign"])
def test_ties_of_what_is_gathered(device, mode, decision):
    @loom.kernel(float_mode=mode)
    def branching(x: D, w: D, c: D, t: D, v: D, y: D):
        i = loom.tid()
        p = x[i + 1] * w[i]
        factor = f64(7.0)
        if p - c[i] > t[i]:
            factor = f64(2.0)
        y[i] = factor * p * v[i] + 4.0 * x[i]

    @loom.kernel(float_mode=mode)
    def signed(x: D, w: D, c: D, t: D, v: D, y: D):
        i = loom.tid()
        p = x[i + 1] * w[i]
        y[i] = (loom.sign(p - c[i] - t[i]) * 2.5 + 4.5) * p * v[i] + 4.0 * x[i]

    kernel, factors = {"if": (branching, [2.0, 7.0]), "sign": (signed, [2.0, 7.0, 4.5])}[decision]
    n = 200
    random = np.random.default_rng(1)
    x, w, v = 0.5 + random.random(n + 1), 0.5 + random.random(n), 0.5 + random.random(n)
    # Rounded, the products are these; what is lost has either sign.
    c = x[1:] * w
    by_x, by_w, by_v = np.zeros(n + 1), np.zeros(n), np.zeros(n)
    given = [x, w, c, np.zeros(n), v, np.zeros(n)]
    loom.launch(kernel, n, given, adjoint=True, adj_inputs=[by_x, by_w, None, None, by_v, np.ones(n)], device=device)
    by_x[:-1] -= 4.0
    found = by_v / c
    assert all(np.isclose(found, factors[0]) | np.isclose(found, factors[1]) | np.isclose(found, factors[-1]))
    np.testing.assert_allclose(by_w, found * x[1:] * v, rtol=1e-12)
    np.testing.assert_allclose(by_x[1:], found * w * v, rtol=1e-12)


@pytest.mark.parametrize("tier", ["0", "1"])
def test_ties_on_every_tier(tier, passed_on_tier):
    assert passed_on_tier(tier, __file__, "ties_of_what_is_gathered and cpu") == 6
