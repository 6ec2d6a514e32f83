"""Backward kernels and tapes, against central differences in float64 and derivatives worked out by hand.

This file is longer than others: it is one list of kernels, each with the derivative that it must have or the reason
why it is refused.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
import pytest
from tape_kernels import product_of_all

ERRORS = Path(__file__).parents[2] / "docs" / "errors"
D = loom.array(dtype=loom.float64)
V = loom.array(dtype=loom.vec3d)
f64 = loom.float64


@loom.kernel
def saxpy(a: f64, x: D, y: D):
    i = loom.tid()
    y[i] = a * x[i] + loom.sin(y[i])


@loom.kernel
def squared_until(x: D, y: D):
    i = loom.tid()
    v = x[i]
    while v < f64(10.0):
        v = v * v
    y[i] = v


@loom.kernel
def overwritten(x: D, y: D):
    i = loom.tid()
    y[i] = x[i]
    y[i] *= x[i]


@loom.kernel
def branches(x: D, y: D):
    i = loom.tid()
    if x[i] > f64(0.0):
        t = x[i] * x[i]
        if x[i] > f64(0.5):
            t = t * loom.sin(t)
        y[i] = t
    else:
        y[i] = loom.exp(x[i]) * y[i]


@loom.kernel
def early_exits(x: D, y: D):
    i = loom.tid()
    if x[i] < f64(0.0):
        y[i] = x[i] * f64(3.0)
        return
    s = f64(0.0)
    for k in range(10):
        if k > 6:
            break
        if k % 3 == 1:
            continue
        s += x[i] * s + f64(k) * x[i]
        if s > f64(4.0):
            break
    y[i] = s * x[i]


@loom.kernel
def nested_loops(x: D, y: D):
    s = f64(1.0)
    for k in range(x.shape[0] - 1, -1, -1):
        t = x[k]
        for j in range(0, k, 2):
            t = t * x[j] + s
        s = s + loom.cos(t) * f64(0.3)
    y[loom.tid()] = s


@loom.kernel
def memory_in_loops(x: D, y: D):
    i = loom.tid()
    n = 0
    while y[i] < f64(5.0) and n < 20:
        for k in range(2):
            if k == 1:
                y[i] = y[i] * y[i] * x[i] + f64(1.1)
            else:
                y[i] += x[i]
        n += 1


@loom.func
def part(a: f64, b: f64):
    if a > b:
        return a * b
    return loom.atan2(a, b)


@loom.kernel
def sums(x: D, y: D):
    i = loom.tid()
    loom.atomic_add(y, 0, part(x[i], f64(0.2)) * x[i])
    loom.atomic_sub(y, 1, x[i] * x[i])


@loom.kernel
def gathered(x: D, y: D):
    i = loom.tid()
    n = x.shape[0]
    y[i] = x[i] * x[(i + 1) % n] - x[-1]


@loom.kernel
def sums_in_loops(x: D, y: D):
    i = loom.tid()
    s = f64(0.0)
    for j in range(x.shape[0]):
        for k in range(i % 3):
            s += x[i] * x[j] * f64(k + 1)
        if x[j] > f64(0.0):
            s += loom.sin(x[i]) + x[3] * x[j]
    y[i] = s


@loom.kernel
def sums_of_each(x: D, y: D):
    i = loom.tid()
    for k in range(i):
        y[i] += x[i] * loom.cos(x[i]) * f64(k)


@loom.kernel
def window(x: D, y: D):
    i = loom.tid()
    if i < x.shape[0] - 2:
        y[i] = x[i] * x[i + 1] + y[i] * x[2 + i] * x[2 + i]
        if y[i] > f64(0.0) and i > 1:
            y[i] -= loom.cos(x[i - 2])


KERNELS = [
    saxpy,
    product_of_all,
    squared_until,
    overwritten,
    branches,
    early_exits,
    nested_loops,
    memory_in_loops,
    sums,
    gathered,
    sums_in_loops,
    sums_of_each,
    window,
]


def arguments(kernel, rng):
    x, y = rng.normal(size=7), 0.5 + rng.random(7)
    if kernel is squared_until:
        x = 1.1 + rng.random(7)
    if kernel is memory_in_loops:
        x = 0.5 + rng.random(7)
    return [0.7, x, y] if kernel is saxpy else [x, y]


def differences(kernel, args, weights, step=1e-6):
    """Central differences of the weighted sum of what the arrays hold at the end."""

    def total(args):
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        loom.launch(kernel, 7, copies)
        return sum(float((w * a).sum()) for w, a in zip(weights, copies, strict=True) if isinstance(a, np.ndarray))

    for index, arg in enumerate(args):
        gradient = np.zeros(np.shape(arg) or (1,))
        for place in np.ndindex(gradient.shape):
            ends = []
            for sign in (1, -1):
                moved = np.array(arg, np.float64)
                moved[place if moved.ndim else ()] += sign * step
                other = moved if moved.ndim else float(moved)
                ends.append(total([*args[:index], other, *args[index + 1 :]]))
            gradient[place] = (ends[0] - ends[1]) / (2 * step)
        yield gradient


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_backward_kernels_agree_with_differences(kernel):
    rng = np.random.default_rng(3)
    args = arguments(kernel, rng)
    weights = [rng.normal(size=np.shape(arg) or (1,)) for arg in args]
    adjoints = [w.copy() if isinstance(arg, np.ndarray) else np.zeros(1) for w, arg in zip(weights, args, strict=True)]
    loom.launch(kernel, 7, args, adjoint=True, adj_inputs=adjoints)
    for adjoint, expected in zip(adjoints, differences(kernel, args, weights), strict=True):
        np.testing.assert_allclose(adjoint, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_they_do_on_every_engine(tier, passed_on_tier):
    assert passed_on_tier(tier, __file__, "agree_with_differences") == len(KERNELS)


def test_gradients_that_are_easily_wrong():
    """Warp 1.19 gets these three wrong and says nothing."""
    x = np.array([1.5, -2.0, 0.5, 3.0])
    adj_x, adj_y = np.zeros(4), np.ones(1)
    loom.launch(product_of_all, 1, [x, np.zeros(1)], adjoint=True, adj_inputs=[adj_x, adj_y])
    np.testing.assert_allclose(adj_x, np.prod(x) / x)

    # 1.5 → 2.25 → 5.0625 → 25.6…: the eighth power.
    adj_x, adj_y = np.zeros(1), np.ones(1)
    loom.launch(squared_until, 1, [np.array([1.5]), np.zeros(1)], adjoint=True, adj_inputs=[adj_x, adj_y])
    np.testing.assert_allclose(adj_x, 8 * 1.5**7)

    adj_x, adj_y = np.zeros(4), np.ones(4)
    loom.launch(overwritten, 4, [x, np.zeros(4)], adjoint=True, adj_inputs=[adj_x, adj_y])
    np.testing.assert_allclose(adj_x, 2 * x)
    assert not adj_y.any()


def test_vectors():
    @loom.kernel
    def k(p: V, y: D):
        i = loom.tid()
        v = p[i]
        w = loom.cross(v, loom.vec3d(f64(1.0), f64(2.0), v[0]))
        y[i] = loom.dot(v, w) + loom.length(w) + loom.normalize(v)[1]

    rng = np.random.default_rng(5)
    p, weight = rng.normal(size=(3, 3)), rng.normal(size=3)
    adj_p = np.zeros_like(p)
    loom.launch(k, 3, [p, np.zeros(3)], adjoint=True, adj_inputs=[adj_p, weight.copy()])
    for place in np.ndindex(p.shape):
        ends = []
        for sign in (1, -1):
            moved, y = p.copy(), np.zeros(3)
            moved[place] += sign * 1e-6
            loom.launch(k, 3, [moved, y])
            ends.append((weight * y).sum())
        np.testing.assert_allclose(adj_p[place], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6)


def test_kinks():
    """The choices that the guide names."""

    @loom.kernel
    def k(p: V, x: D, y: D):
        y[0] = loom.length(p[0]) + loom.normalize(p[0])[0] + abs(x[0]) + loom.min(x[1], x[2]) + loom.max(x[3], x[4])
        y[0] += loom.floor(x[5]) + loom.hypot(x[6], x[7])

    adj_p, adj_x = np.zeros((1, 3)), np.zeros(8)
    loom.launch(k, 1, [np.zeros((1, 3)), np.zeros(8), np.zeros(1)], adjoint=True, adj_inputs=[adj_p, adj_x, np.ones(1)])
    assert not adj_p.any()
    np.testing.assert_array_equal(adj_x, [0, 1, 0, 1, 0, 0, 0, 0])


@loom.kernel
def step(x: D, v: D, dt: f64):
    i = loom.tid()
    v[i] = v[i] - dt * loom.sin(x[i])
    x[i] = x[i] + dt * v[i]


@loom.kernel
def squares(x: D, loss: D):
    loom.atomic_add(loss, 0, x[loom.tid()] * x[loom.tid()])


def test_a_tape_of_launches_that_overwrite_what_others_need():
    def simulate(x, v):
        x, v, loss = x.copy(), v.copy(), np.zeros(1)
        for _ in range(20):
            loom.launch(step, len(x), [x, v, 0.1])
        loom.launch(squares, len(x), [x], [loss])
        return x, v, loss

    rng = np.random.default_rng(0)
    x0, v0 = rng.normal(size=3), rng.normal(size=3)
    with loom.Tape() as tape:
        x, v, loss = simulate(x0, v0)
    tape.backward(loss)
    for moved, array in ((0, x), (1, v)):
        for i in range(3):
            ends = []
            for sign in (1, -1):
                start = [x0.copy(), v0.copy()]
                start[moved][i] += sign * 1e-6
                ends.append(simulate(*start)[2][0])
            np.testing.assert_allclose(tape.gradients[array][i], (ends[0] - ends[1]) / 2e-6, rtol=1e-5)
    tape.zero()
    assert not tape.gradients[x].any()


def test_views_share_the_gradient_of_their_array():
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(2)
    with loom.Tape() as tape:
        loom.launch(overwritten, 2, [x[::2]], [y])
        loom.launch(overwritten, 2, [x[1:3]], [y])
    tape.backward(grads=[(y, np.ones(2))])
    # The second launch overwrites what the first wrote.
    np.testing.assert_allclose(tape.gradients[x], [0.0, 4.0, 6.0, 0.0])
    np.testing.assert_allclose(tape.gradients[x[1:3]], [4.0, 6.0])


@loom.kernel
def extrema(x: D, low: D, high: D):
    i = loom.tid()
    loom.atomic_min(low, i % 2, x[i] * x[i])
    if x[i] < f64(1.0):
        loom.atomic_max(high, 0, loom.sin(x[i]))
        loom.atomic_max(high, 0, f64(0.25))


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_atomic_extrema(device):
    """The adjoint goes to the value that is the extremum, or stays with what was there before."""
    x = np.array([0.5, -2.0, 0.7, -3.0, -0.1, 2.0, 0.9])
    args = [x, np.array([1.0, 1.0]), np.array([-1.0])]
    adj_x, adj_low, adj_high = np.zeros(7), np.array([2.0, 3.0]), np.array([5.0])
    loom.launch(extrema, 7, args, device=device, adjoint=True, adj_inputs=[adj_x, adj_low, adj_high])
    expected = np.zeros(7)
    expected[4], expected[6] = 2.0 * 2 * x[4], 5.0 * np.cos(x[6])
    np.testing.assert_allclose(adj_x, expected)
    np.testing.assert_array_equal(adj_low, [0.0, 3.0])
    np.testing.assert_array_equal(adj_high, [0.0])
    # Of equal values one takes it all.
    adj_x, adj_low = np.zeros(4), np.array([1.0, 1.0])
    args = [np.array([0.3, 0.2, -0.3, 0.3]), np.ones(2), np.ones(1)]
    loom.launch(extrema, 4, args, device=device, adjoint=True, adj_inputs=[adj_x, adj_low, np.zeros(1)])
    np.testing.assert_allclose(np.sort(np.abs(adj_x)), [0.0, 0.0, 0.4, 0.6])


def test_a_tape_of_extrema():
    x, low, high, loss = np.array([0.5, -2.0, 0.7]), np.ones(2), -np.ones(1), np.zeros(1)
    with loom.Tape() as tape:
        loom.launch(extrema, 3, [x, low, high])
        loom.launch(squares, 2, [low], [loss])
        loom.launch(squares, 1, [high], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(tape.gradients[x], [4 * x[0] ** 3, 0.0, 2 * np.sin(x[2]) * np.cos(x[2])])


V3 = loom.array(dtype=loom.vec3d)


@loom.kernel
def box(x: V3, low: V3, high: V3):
    i = loom.tid()
    loom.atomic_min(low, 0, x[i])
    loom.atomic_max(high, 0, x[i])


@loom.kernel
def span(x: D, limits: D):
    i = loom.tid()
    loom.atomic_min(limits, 0, x[i])
    loom.atomic_max(limits, 1, x[i])


@loom.kernel
def spans(x: D, limits: D):
    i = loom.tid()
    loom.atomic_min(limits, 2 * (i % 3), x[i])
    loom.atomic_max(limits, 2 * (i % 3) + 1, x[i])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_each_component_has_an_extremum_of_its_own(device):
    rng = np.random.default_rng(7)
    x, low, high = rng.uniform(1.0, 2.0, (5, 3)), np.full((1, 3), 9.0), np.array([[0.0, 3.0, 0.0]])
    expected = np.zeros((5, 3))
    for component in range(3):
        expected[x[:, component].argmin(), component] += 1.0
        # Nothing is above 3, what was there before.
        if component != 1:
            expected[x[:, component].argmax(), component] += 10.0 * (component + 1)
    adjoints = [np.zeros((5, 3)), np.ones((1, 3)), np.array([[10.0, 20.0, 30.0]])]
    loom.launch(box, 5, [x, low, high], device=device, adjoint=True, adj_inputs=adjoints)
    np.testing.assert_array_equal(adjoints[0], expected)
    np.testing.assert_array_equal(adjoints[1:], [[[0.0, 0.0, 0.0]], [[0.0, 20.0, 0.0]]])
    # In a direction, the extrema move as the numbers do that they are.
    direction = rng.normal(size=(5, 3))
    moved, columns = [np.zeros((1, 3)), np.full((1, 3), 0.5)], np.arange(3)
    loom.jvp(box, 5, [x, low.copy(), high.copy()], tangents=[direction, *moved], device=device)
    np.testing.assert_array_equal(moved[0][0], direction[x.argmin(0), columns])
    highest = direction[x.argmax(0), columns]
    np.testing.assert_array_equal(moved[1][0], [highest[0], 0.5, highest[2]])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_extrema_of_either_kind_on_different_elements(device):
    x = np.array([3.0, 1.0, 2.0, 7.0, 5.0, 6.0, 4.0])
    adjoints = [np.zeros(7), np.array([2.0, 3.0])]
    loom.launch(span, 7, [x, np.array([9.0, 0.0])], device=device, adjoint=True, adj_inputs=adjoints)
    np.testing.assert_array_equal(adjoints[0], [0.0, 2.0, 0.0, 3.0, 0.0, 0.0, 0.0])
    adjoints = [np.zeros(7), np.arange(1.0, 7.0)]
    limits = np.array([9.0, 0.0, 9.0, 0.0, 9.0, 0.0])
    loom.launch(spans, 7, [x, limits], device=device, adjoint=True, adj_inputs=adjoints)
    # Of 3, 7, 4; 1, 5; and 2, 6.
    np.testing.assert_array_equal(adjoints[0], [1.0, 3.0, 5.0, 2.0, 4.0, 6.0, 0.0])


def test_extrema_of_matrices_of_the_thread():
    @loom.kernel
    def k(y: loom.array(dtype=loom.mat22d)):
        i = loom.tid()
        y[i] = y[i] * f64(2.0)
        loom.atomic_min(y, i, loom.mat22d(1.0))

    y, adj_y = np.array([[[0.2, 3.0], [0.4, -5.0]]]), np.array([[[1.0, 2.0], [3.0, 4.0]]])
    loom.launch(k, 1, [y], adjoint=True, adj_inputs=[adj_y])
    np.testing.assert_array_equal(adj_y, [[[2.0, 0.0], [6.0, 8.0]]])


def test_extrema_of_vectors_whose_former_value_is_used_are_refused():
    @loom.kernel
    def k(x: loom.array(dtype=loom.vec3d), low: loom.array(dtype=loom.vec3d)):
        i = loom.tid()
        before = loom.atomic_min(low, 0, x[i])
        x[i] = before * f64(2.0)

    with pytest.raises(loom.CompileError, match="PL0701"):
        k.hir(backward=True)


def test_extrema_of_either_kind_on_what_may_be_one_element_are_refused():
    @loom.kernel
    def k(x: D, limits: D, n: int):
        i = loom.tid()
        loom.atomic_min(limits, 0, x[i])
        loom.atomic_max(limits, n, x[i])

    @loom.kernel
    def from_the_end(x: D, limits: D):
        i = loom.tid()
        loom.atomic_min(limits, 0, x[i])
        loom.atomic_max(limits, -1, x[i])

    @loom.kernel
    def thirds(x: D, limits: D, n: int, m: int):
        # Indices wrap at 2^32, which is no multiple of 3.
        i = loom.tid()
        loom.atomic_min(limits, 3 * n, x[i])
        loom.atomic_max(limits, 3 * m + 1, x[i])

    for kernel in (k, from_the_end, thirds):
        with pytest.raises(loom.CompileError, match="may also use in another way") as caught:
            kernel.hir(backward=True)
        assert "elements that constant indices tell apart" in str(caught.value)


@loom.kernel
def greatest_and_sum(x: D, y: D):
    i = loom.tid()
    loom.atomic_max(y, 0, x[i])
    loom.atomic_add(y, 1, x[i] * x[i])


@loom.kernel
def greatest_and_read(x: D, y: D, z: D):
    i = loom.tid()
    loom.atomic_max(y, 0, x[i])
    z[i] = x[i] * y[1]


@loom.kernel
def sum_and_read(x: D, y: D, z: D):
    i = loom.tid()
    loom.atomic_add(y, 2 * (i % 2), x[i] * x[i])
    z[i] = x[i] * y[1]


def test_elements_that_constant_indices_tell_apart_are_used_in_several_ways():
    x = np.array([0.3, 0.9, 0.5])
    for kernel, more in ((greatest_and_sum, []), (greatest_and_read, [np.zeros(3)]), (sum_and_read, [np.zeros(3)])):
        loom.gradcheck(kernel, [x, np.array([0.0, 0.4, 0.2]), *more], dim=3)
    y, dot_y = np.array([0.0, 0.4]), np.array([0.0, 2.0])
    loom.jvp(greatest_and_sum, 3, [x, y], tangents=[np.array([1.0, 2.0, 3.0]), dot_y])
    np.testing.assert_allclose(dot_y, [2.0, 2.0 + 2 * (0.3 * 1 + 0.9 * 2 + 0.5 * 3)])


def test_extrema_of_what_is_read_or_added_to_are_refused():
    @loom.kernel
    def k(x: D, y: D):
        i = loom.tid()
        loom.atomic_min(y, 0, x[i])
        loom.atomic_add(y, 0, x[i])

    @loom.kernel
    def read(x: D, y: D, n: int):
        i = loom.tid()
        loom.atomic_min(y, n, x[i])
        x[i] = y[1]

    with pytest.raises(loom.CompileError, match="atomic_min"):
        k.backward([True, True], [4])
    with pytest.raises(loom.CompileError, match="elements that constant indices tell apart"):
        read.backward([True, True], [4])


@loom.kernel
def pairs(x: D, y: D):
    i = loom.tid()
    y[i // 2] = x[i] * x[i]


@loom.kernel
def remainders(x: D, y: D):
    i = loom.tid()
    y[i % 2] = x[i]


@loom.kernel
def low_bits(x: D, y: D):
    i = loom.tid()
    y[(i >> 1) + 0] = x[i]


@loom.kernel
def product(x: D, y: D):
    i = loom.tid()
    y[0] *= x[i]


@loom.kernel
def neighbours(x: D, y: D):
    i = loom.tid()
    y[i] = x[i]
    y[i + 2] = f64(3.0) * x[i]


@loom.kernel
def rows(x: loom.array2d(dtype=loom.float64), y: D):
    i, j = loom.tid()
    y[i] = x[i, j]


@pytest.mark.parametrize(
    ("kernel", "most"), [(pairs, 1), (remainders, 2), (low_bits, 1), (product, 1), (neighbours, 2), (rows, 1)]
)
def test_races_are_refused_where_there_are_enough_threads(kernel, most):
    if kernel is rows:
        x, dims = np.ones((3, 9)), ((3, most), (3, most + 1))
    else:
        x, dims = np.ones(9), (most, most + 1)
    with loom.Tape():
        loom.launch(kernel, dims[0], [x, np.ones(9)])
    with pytest.raises(loom.CompileError, match="several threads write different numbers to one element of `y`") as e:
        with loom.Tape():
            loom.launch(kernel, dims[1], [x, np.ones(9)])
    assert e.value.diagnostics[0].code == "PL0701" and "atomic_add" in str(e.value)
    with pytest.raises(loom.CompileError, match="several threads"):
        loom.launch(kernel, dims[1], [x, np.ones(9)], adjoint=True, adj_inputs=[np.zeros_like(x), np.ones(9)])
    # One thread after the other, it has a gradient.
    assert "adj_y" in kernel.backward([True, True], [1, 1] if kernel is rows else [1]).kernel.hir()


@loom.kernel
def harmless(x: D, p: f64, index: loom.array(dtype=int), y: loom.array2d(dtype=loom.float64)):
    i = loom.tid()
    n = y.shape[1]
    if i == 0:
        y[0, 0] = x[i]  # one thread
    if i % 3 == 2:
        y[1, i // 3] = x[i]  # one of three
    y[2, 0] = p * x[0]  # the same in all
    y[3 + i // n, i % n] = x[i]  # a place for each
    y[12, index[i]] = x[i]
    y[13, i // 3] = x[i // 3]
    if x[i] == f64(5.0):
        y[14, 0] = x[i]
    for k in range(i, i + 1):
        y[15, k] = x[k]


def test_what_is_no_race_is_differentiated():
    x, index, y = np.arange(8.0), np.arange(8, dtype=np.int32)[::-1].copy(), np.zeros((16, 8))
    with loom.Tape() as tape:
        loom.launch(harmless, 8, [x, 2.0, index, y])
    weights = np.random.default_rng(3).normal(size=y.shape)
    tape.backward(grads=[(y, weights)])
    expected = weights[3] + weights[12, ::-1] + weights[15]
    expected[0] += weights[0, 0] + 2.0 * weights[2, 0]
    expected[[2, 5]] += weights[1, :2]
    expected[:3] += weights[13, :3]
    expected[5] += weights[14, 0]
    np.testing.assert_allclose(tape.gradients[x], expected)


@loom.kernel
def twice_the_same(p: f64, y: D):
    i = loom.tid()
    y[i] = p
    y[i + 1] = p


def test_one_number_stored_by_two_threads_is_no_race():
    y, adj_y = np.zeros(6), np.arange(1.0, 7.0)
    adj_p = np.zeros(1)
    loom.launch(twice_the_same, 5, [2.0, y], adjoint=True, adj_inputs=[adj_p, adj_y])
    assert adj_p[0] == 21.0


@loom.kernel
def every_other(x: D, y: D):
    i = loom.tid()
    y[i] = x[2 * i] * x[2 * i + 1]


@loom.kernel
def shifted(x: D, y: D):
    i = loom.tid()
    y[i] = x[i + 5] * f64(3.0)


@loom.kernel
def of_blocks(x: D, y: D):
    i = loom.tid()
    for k in range(5):
        y[5 * i + k] = x[5 * i + k] * x[i]
    for k in range(1, 5):
        y[5 * i + k] += y[5 * i + k - 1] * y[5 * i + k]


@loom.kernel
def mirrored(x: D, y: D, n: int):
    i = loom.tid()
    if i >= y.shape[0]:
        return
    if i < n:
        y[y.shape[0] - i - 1] = x[n - 1 - i] * x[n - 1 - i]


@loom.kernel
def mirrored_in_any_launch(x: D, y: D, n: int):
    i = loom.tid()
    y[i] = x[n - 1 - i] * f64(i + 1)


def test_elements_counted_from_the_other_end_are_private_if_a_condition_keeps_them_apart():
    """The thread with the number `n` has the index -1, which is the first thread's element."""
    x, adj_x = np.arange(1.0, 5.0), np.zeros(4)
    for kernel, is_atomic in ((mirrored, False), (mirrored_in_any_launch, True)):
        text = kernel.backward([True, True, False], [9]).kernel.hir()
        assert ("atomic_" in text) == is_atomic, text
    loom.launch(mirrored, 9, [x, np.zeros(8), 4], adjoint=True, adj_inputs=[adj_x, np.ones(8), None])
    np.testing.assert_allclose(adj_x, 2.0 * x)
    adj_x = np.zeros(4)
    loom.launch(mirrored_in_any_launch, 5, [x, np.zeros(5), 4], adjoint=True, adj_inputs=[adj_x, np.ones(5), None])
    np.testing.assert_allclose(adj_x, [4.0, 3.0, 2.0, 1.0 + 5.0])


@loom.kernel
def overlapping(x: D, y: D):
    i = loom.tid()
    y[i] = x[2 * i] * x[2 * i + 2]


def test_elements_of_the_thread_take_no_atomic_updates():
    for kernel in (every_other, shifted):
        assert "atomic_add" not in kernel.hir(backward=True), kernel.key
    for kernel in (overlapping, of_blocks):
        assert "atomic_add" in kernel.hir(backward=True), kernel.key
    assert "atomic_add %adj_y" not in of_blocks.hir(backward=True)


def test_multiples_of_coordinates_may_overflow_in_long_launches():
    for dim, is_atomic in (1 << 24, False), ((1 << 24) + 1, True):
        assert ("atomic_add" in every_other.backward([True, True], [dim]).kernel.hir()) == is_atomic
        assert "atomic_add" not in shifted.backward([True, True], [dim]).kernel.hir()


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_elements_of_the_thread_beside_its_number(device):
    rng = np.random.default_rng(5)
    for kernel, n, m in ((every_other, 40, 80), (shifted, 40, 45), (of_blocks, 40, 200), (overlapping, 40, 82)):
        x, y = rng.uniform(0.5, 1.5, m), np.zeros(200)
        assert loom.gradcheck(kernel, [x], [y], dim=n, device=device)


def test_a_launch_backward_gives_what_its_tapes_took():
    x, adj_x = np.array([1.5, 2.0]), np.zeros(2)
    args = {"adjoint": True, "adj_inputs": [adj_x, np.ones(2)]}
    memory = loom.launch(squared_until, 2, [x, np.zeros(2)], **args)
    with loom.Tape() as tape:
        y = np.zeros(2)
        loom.launch(squared_until, 2, [x, y])
    tape.backward(grads=[(y, np.ones(2))])
    assert memory.loops == tape.memory.loops > 0
    assert loom.launch(every_other, 1, [x, np.zeros(1)], adjoint=True, adj_inputs=[adj_x, np.ones(1)]).loops == 0


@loom.kernel
def laplacian(u: loom.array2d(dtype=loom.float64), v: loom.array2d(dtype=loom.float64)):
    i, j = loom.tid()
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        v[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f64(4.0) * u[i, j]


@loom.kernel
def transposed(a: loom.array2d(dtype=loom.vec3d), b: loom.array2d(dtype=loom.vec3d), w: f64):
    i, j = loom.tid()
    b[i, j] = w * loom.cross(a[j, i + 1], a[j, i]) + a[j + 2, i]


def test_sums_beside_the_threads_own_elements_are_gathered():
    """By a thread for each element of the array, without atomic updates."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(6, 6, 3)), np.zeros((5, 4, 3))
    adj_b = rng.normal(size=b.shape)
    backward = transposed.backward([True, True, False], [4, 4])
    launches = backward.launches((5, 4), [(6, 6), (5, 4)])
    assert [(dim, numbers) for _, dim, numbers in launches] == [([6, 6], [5, 4]), ([5, 4], [])]
    assert "atomic" not in "".join(kernel.hir() for kernel, _, _ in launches)
    expected = np.zeros_like(a)
    for i, j in np.ndindex(5, 4):
        # Of w · (p × q): the adjoint g gives q × w g to p and w g × p to q.
        g, p, q = adj_b[i, j], a[j, i + 1], a[j, i]
        expected[j, i + 1] += np.cross(q, 0.7 * g)
        expected[j, i] += np.cross(0.7 * g, p)
        expected[j + 2, i] += g
    for device in ("cpu", "sim:0"):
        with loom.ScopedDevice(device):
            given = [loom.array(each, dtype=loom.vec3d) for each in (a, b, np.zeros_like(a), adj_b)]
            loom.launch(
                transposed, (5, 4), [*given[:2], 0.7], adjoint=True, adj_inputs=[*given[2:], None], device=device
            )
            np.testing.assert_allclose(given[2].numpy(), expected, atol=1e-12)
            assert not given[3].numpy().any()


def test_what_is_gathered_and_what_is_not():
    def launches(kernel, rank=1, n_elements=4):
        backward = kernel.backward([True] * len(kernel._parameters), [4] * rank)
        extents = [[n_elements] * 2 if n_elements else None] * len(backward.adjoints)
        return [numbers for _, _, numbers in backward.launches([4] * rank, extents)]

    whole = [[]]
    assert launches(laplacian, 2) == [[4, 4], []]
    assert launches(laplacian, 2, n_elements=6) == whole  # more than twice as many elements as threads
    assert launches(laplacian, 2, n_elements=None) == whole  # several of which may be one memory
    assert launches(window) == whole  # it reads what it has stored
    assert launches(around) == whole  # an index may count from the end
    assert launches(sums_in_loops) == whole
    assert launches(laplacian, 3) == whole  # every thread comes several times


@loom.kernel
def around(x: D, y: D):
    i = loom.tid()
    y[i] = x[i - 1] * f64(2.0)


@pytest.mark.parametrize("tier", ["0", "1"])
def test_sums_beside_the_threads_own_elements(tier, on_tier):
    """Vectors of threads add to elements that lie beside theirs, which other vectors add to as well."""
    script = """
        import numpy as np, polyloom as loom
        from test_gradients import around, laplacian
        rng = np.random.default_rng(0)
        adj_u, adj_v = np.zeros((61, 83)), rng.normal(size=(61, 83))
        inner = np.zeros((61, 83)); inner[1:-1, 1:-1] = adj_v[1:-1, 1:-1]
        expected = -4 * inner
        for axis in (0, 1):
            expected += np.roll(inner, 1, axis) + np.roll(inner, -1, axis)
        u = rng.normal(size=(61, 83))
        loom.launch(laplacian, u.shape, [u, u.copy()], adjoint=True, adj_inputs=[adj_u, adj_v])
        np.testing.assert_allclose(adj_u, expected, atol=1e-12)
        for n in range(2, 40):
            adj_x, adj_y = np.zeros(n), rng.normal(size=n + 1)
            wanted = 2 * np.roll(adj_y[:n], -1); wanted[n - 1] += 2 * adj_y[n]
            loom.launch(around, n + 1, [np.ones(n), np.ones(n + 1)], adjoint=True, adj_inputs=[adj_x, adj_y])
            np.testing.assert_allclose(adj_x, wanted, err_msg=str(n))
    """
    on_tier(tier, script)


@loom.kernel
def far_away(x: D, n: loom.array(dtype=int), y: D):
    i = loom.tid()
    s = f64(0.0)
    for k in range(n[i]):
        s += x[i] * f64(k)
        if k > 1:
            s += x[i + 4]
    if n[i] > 10:
        s += x[11]
    y[i] = s


@pytest.mark.parametrize("tier", ["0", "1"])
def test_sums_of_nothing_touch_no_memory(tier, on_tier):
    """A loop that does not run and a branch that no thread takes add to no element: there may be none."""
    script = """
        import numpy as np, polyloom as loom
        from test_gradients import far_away
        n = np.array([2, 5, 0, 1, 0, 0, 2, 0, 0], np.int32)
        x, memory = np.ones(7), np.full(20, np.nan)
        memory[:7] = 0
        loom.launch(far_away, 9, [x, n, np.zeros(9)], adjoint=True, adj_inputs=[memory[:7], None, np.ones(9)])
        np.testing.assert_array_equal(memory[:7], [1, 10, 0, 0, 0, 3, 1])
        assert np.isnan(memory[7:]).all()
    """
    on_tier(tier, script)


@loom.kernel
def interactions(x: loom.array(dtype=Any), y: loom.array(dtype=Any), w: loom.array(dtype=Any)):
    i = loom.tid()
    s = x.dtype(0.0)
    for j in range(x.shape[0]):
        s += w[0] * loom.sin(x[i] - x[j])
    y[i] = s


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 4])
def test_sums_of_all_pairs(dtype, threads):
    """Every thread adds to all elements, which helpers of the launch do in copies, if the array is dense."""
    script = (
        "import numpy as np, polyloom as loom\n"
        "from test_gradients import interactions\n"
        "rng = np.random.default_rng(0)\n"
        f"x, g = (rng.normal(size=1200).astype('{dtype}') for _ in range(2))\n"
        "c = 0.5 * np.cos(np.subtract.outer(x, x, dtype=np.float64))\n"
        "expected = [g * c.sum(1) - g @ c, g @ np.sin(np.subtract.outer(x, x, dtype=np.float64)).sum(1)]\n"
        "for step in (1, 2):\n"
        "    for launch in range(5):\n"
        "        adj_x, adj_w = np.zeros(1200 * step, x.dtype)[::step], np.zeros(1, x.dtype)\n"
        "        loom.launch(interactions, 1200, [x, np.zeros_like(x), np.array([0.5], x.dtype)],\n"
        "                    adjoint=True, adj_inputs=[adj_x, g.copy(), adj_w])\n"
        "        for found, wanted in zip((adj_x, adj_w), expected):\n"
        "            np.testing.assert_allclose(found, wanted, atol=200 * 1200 * np.finfo(x.dtype).eps)\n"
    )
    environment = {**os.environ, "POLYLOOM_NUM_THREADS": str(threads), "POLYLOOM_CACHE": "0"}
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_threads_that_share_elements():
    """Over more dimensions than the kernel asks coordinates of, threads come several times; so do shared gradients."""
    x, loss = np.array([1.0, 2.0, 3.0]), np.zeros(1)
    adj_x = np.zeros(3)
    loom.launch(squares, (3, 500), [x, loss], adjoint=True, adj_inputs=[adj_x, np.ones(1)])
    np.testing.assert_allclose(adj_x, 1000.0 * x)

    @loom.kernel
    def k(a: D, b: D, y: D):
        i = loom.tid()
        y[i] = a[i] * b[i]

    n = 10_000
    x, y = np.arange(n + 1.0), np.zeros(n)
    with loom.Tape() as tape:
        loom.launch(k, n, [x[:-1], x[1:], y])
    tape.backward(grads=[(y, np.ones(n))])
    np.testing.assert_allclose(tape.gradients[x][1:-1], x[:-2] + x[2:])


@pytest.fixture
def little_memory():
    before = loom.config.tape_memory
    loom.config.tape_memory = 600
    yield
    loom.config.tape_memory = before


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_with_little_memory_for_tapes(kernel, little_memory):
    """In parts, and with checkpoints where a thread's loops leave no place."""
    test_backward_kernels_agree_with_differences(kernel)


@loom.kernel
def pendulums(x: loom.array2d(dtype=loom.float64), n: int, y: loom.array2d(dtype=loom.float64)):
    i, j = loom.tid()
    position, velocity = x[i, j], f64(0.0)
    for _ in range(n):
        velocity -= f64(0.001) * loom.sin(position)
        position += f64(0.001) * velocity
    y[i, j] = position


def test_memory_of_long_loops_is_bounded(little_memory):
    """The position of every iteration takes 0.8 MB a thread. With checkpoints, positions and velocities of 316 are
    kept, and positions of the 317 behind one of them."""
    x, y, n = np.linspace(0.1, 1.0, 6).reshape(2, 3), np.zeros((2, 3)), 100_000
    found = []
    few = 316 * 16 + 317 * 8
    for memory, n_bytes in ((64 << 20, 6 * 8 * n), (5 * few, 5 * few), (1, few)):
        loom.config.tape_memory = memory
        with loom.Tape() as tape:
            loom.launch(pendulums, (2, 3), [x, n], [y])
        tape.backward(grads=[(y, np.ones((2, 3)))])
        found.append(tape.gradients[x])
        assert tape.memory.loops == n_bytes
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    # How much the end moves with the beginning.
    ends = []
    for sign in (1, -1):
        end = np.zeros((2, 3))
        loom.launch(pendulums, (2, 3), [x + sign * 1e-6, n], [end])
        ends.append(end)
    np.testing.assert_allclose(found[0], (ends[0] - ends[1]) / 2e-6, rtol=1e-5)
    # A launch of one thread is bounded as others are.
    loom.config.tape_memory = few
    with loom.Tape() as tape:
        loom.launch(pendulums, (1, 1), [x, n], [y])
    tape.backward(grads=[(y, np.ones((2, 3)))])
    assert tape.memory.loops == few
    np.testing.assert_array_equal(tape.gradients[x], np.where(np.arange(6).reshape(2, 3) == 0, found[0], 0.0))


def test_lengths_of_loops_over_constants_are_known():
    @loom.kernel
    def k(x: D, y: D):
        i = loom.tid()
        v = x[i]
        for _ in range(5):
            v = v * v + x[i]
        y[i] = v

    backward = k.backward([True, True], [4])
    assert backward.lengths == [5] and backward.sizes is None
    backward = pendulums.backward([True, False, True], [4, 4])
    assert backward.lengths == [None] and backward.lengths_are_uniform
    backward = squared_until.backward([True, True], [4])
    assert backward.lengths == [None] and not backward.lengths_are_uniform


def test_arrays_that_are_read_and_written_by_two_names_are_refused():
    x = np.ones(3)
    with pytest.raises(ValueError, match="elements in common with argument"), loom.Tape():
        loom.launch(overwritten, 3, [x, x])


def test_arrays_of_the_package():
    x = loom.array([1.0, 2.0, 3.0], dtype=f64, requires_grad=True)
    loss = loom.zeros(1, dtype=f64)
    with loom.Tape() as tape:
        loom.launch(squares, x.shape, [x], [loss])
    tape.backward(loss=loss)
    np.testing.assert_allclose(tape.gradients[x].numpy(), [2.0, 4.0, 6.0])


def test_launches_outside_a_tape_or_told_so_are_not_recorded():
    x, loss = np.ones(3), np.zeros(1)
    with loom.Tape() as tape:
        loom.launch(squares, 3, [x], [loss], record_tape=False)
    loom.launch(squares, 3, [x], [loss])
    with pytest.raises(ValueError, match="has recorded nothing"):
        tape.backward(loss)
    with pytest.raises(KeyError):
        tape.gradients[x]


def test_what_has_no_derivative_is_refused(define):
    page = (ERRORS / "PL0701.md").read_text()
    wrong, right = re.findall(r"```python\n(.*?)```", page, re.S)
    with pytest.raises(loom.CompileError, match="depends on the order of threads") as caught:
        define(wrong)
    assert [d.code for d in caught.value.diagnostics] == ["PL0701"]
    define(right)


def test_gradients_that_do_not_fit_are_named():
    x, loss = np.ones(3), np.zeros(1)
    with pytest.raises(ValueError, match="one for each argument"):
        loom.launch(squares, 3, [x, loss], adjoint=True, adj_inputs=[np.ones(3)])
    with pytest.raises(ValueError, match=r"shape \(3,\) and type float64"):
        loom.launch(squares, 3, [x, loss], adjoint=True, adj_inputs=[np.ones(2), np.ones(1)])
    with pytest.raises(ValueError, match="loss is an array of one element"):
        loom.Tape().backward(x)


def test_texts_are_named_for_their_direction():
    cuda, cpp = saxpy.cuda(backward=True), saxpy.cpp(backward=True)
    assert "saxpy_cuda_kernel_backward(" in cuda and "adj_x" in cuda
    assert "saxpy_cpu_kernel_backward(" in cpp
    assert ".entry saxpy_cuda_kernel_backward(" in saxpy.ptx("sm_80", backward=True)
    assert "[backward]" in saxpy.hir(backward=True)
    (entry,) = saxpy.gpu_metadata("sm_80", backward=True)["entry_points"]
    assert "saxpy_cuda_kernel_backward" in str(entry)
