"""Gradients of launches whose threads meet in memory, or ask where they are, against derivatives by hand."""

import numpy as np
import polyloom as loom
import pytest

f64 = loom.float64
D = loom.array(dtype=f64)
N = loom.array(dtype=int)
F = loom.array(dtype=loom.float32)


@pytest.fixture(params=["cpu", "sim:0"])
def device(request):
    return request.param


@loom.kernel
def scaled(bias: D, x: D, y: D):
    i = loom.tid()
    y[i] = bias[i] * x[i]


@pytest.mark.parametrize("n", [4, 40, 10_000])
def test_an_array_with_a_stride_of_zero(device, n):
    base, x, y = np.array([2.0]), np.full(n, 3.0), np.zeros(n)
    with loom.Tape() as tape:
        loom.launch(scaled, n, [np.broadcast_to(base, n), x, y], device=device)
    tape.backward(grads=[(y, np.full(n, 2.0))])
    np.testing.assert_allclose(tape.gradients[base], [6.0 * n])


def test_windows_that_overlap(device):
    @loom.kernel
    def sums(windows: loom.array(dtype=f64, ndim=2), y: D):
        i, j = loom.tid()
        loom.atomic_add(y, i, windows[i, j])

    x, y = np.arange(6.0), np.zeros(4)
    windows = np.lib.stride_tricks.sliding_window_view(x, 3)
    with loom.Tape() as tape:
        loom.launch(sums, (4, 3), [windows, y], device=device)
    tape.backward(grads=[(y, np.ones(4))])
    np.testing.assert_array_equal(tape.gradients[x], [1, 2, 3, 3, 2, 1])


def test_a_view_that_is_written_has_elements_of_its_own():
    x = np.ones(1)
    view = np.lib.stride_tricks.as_strided(x, (3,), (0,))
    with loom.Tape(), pytest.raises(ValueError, match="several indices are one element"):
        loom.launch(scaled, 3, [np.ones(3), np.ones(3), view])


def test_a_value_that_all_threads_store_has_one_gradient(device):
    @loom.kernel
    def square(x: D, y: D):
        y[0] = x[0] * x[0]

    x, y = np.array([1.0]), np.zeros(1)
    with loom.Tape() as tape:
        loom.launch(square, 64, [x, y], device=device)
    tape.backward(grads=[(y, np.ones(1))])
    np.testing.assert_array_equal(tape.gradients[x], [2.0])


def test_stores_beside_the_threads_coordinates_take_no_exchange():
    @loom.kernel
    def shifted(x: D, y: D):
        i = loom.tid()
        y[i + 1] = x[i] * x[i]

    assert "atomic_exch" not in shifted.hir(backward=True)
    x, y = np.arange(1.0, 4.0), np.zeros(4)
    with loom.Tape() as tape:
        loom.launch(shifted, 3, [x, y])
    tape.backward(grads=[(y, np.ones(4))])
    np.testing.assert_array_equal(tape.gradients[x], 2.0 * x)


@pytest.mark.parametrize("scalar", [loom.int64, loom.int32, loom.uint32])
def test_ranges_of_more_iterations_than_an_int32_counts(device, scalar):
    @loom.kernel
    def left_early(start: scalar, end: scalar, x: D, y: D):
        p = f64(1.0)
        n = 0
        for _ in range(start, end):
            p *= x[0]
            n += 1
            if n == 4:
                break
        y[0] = p

    ends = {loom.int64: (0, 2**32 + 2), loom.int32: (-(2**31), 2**31 - 1), loom.uint32: (0, 3_000_000_000)}[scalar]
    x, y = np.array([2.0]), np.zeros(1)
    with loom.Tape() as tape:
        loom.launch(left_early, 1, [*ends, x, y], device=device)
    tape.backward(y)
    assert (y[0], tape.gradients[x][0]) == (16.0, 32.0)


def test_searches_of_what_the_kernel_has_stored(device):
    @loom.kernel
    def looked_up(c: N, v: D, y: D):
        for k in range(3):
            c[k] = k * 2
        j = loom.lower_bound(c, 3)
        y[0] = v[j] * v[j]

    @loom.kernel
    def drawn(c: F, v: D, y: D):
        c[0] = loom.float32(0.0)
        c[1] = loom.float32(0.0)
        c[2] = loom.float32(1.0)
        state = loom.rand_init(3, 0)
        y[0] = v[loom.sample_cdf(state, c)] * v[2]

    for kernel, array in [(looked_up, np.array([5, 6, 7], np.int32)), (drawn, np.ones(3, np.float32))]:
        v, y = np.array([2.0, 3.0, 5.0, 7.0]), np.zeros(1)
        with loom.Tape() as tape:
            loom.launch(kernel, 1, [array, v, y], device=device)
        tape.backward(y)
        np.testing.assert_array_equal(tape.gradients[v], [0, 0, 10, 0])


def test_what_a_search_has_looked_at_is_kept(device):
    @loom.kernel
    def drawn(c: F, v: D, y: D):
        state = loom.rand_init(3, 0)
        y[0] = v[loom.sample_cdf(state, c)] * v[2]

    c, v, y = loom.array([0.0, 0.0, 1.0], dtype=loom.float32, device=device), np.array([2.0, 3.0, 5.0]), np.zeros(1)
    with loom.Tape() as tape:
        loom.launch(drawn, 1, [c, v, y], device=device)
        c.fill_(1.0)
    tape.backward(y)
    np.testing.assert_array_equal(tape.gradients[v], [0, 0, 10])


def test_places_in_blocks_do_not_decide_how_long_tapes_are():
    @loom.kernel
    def powers(x: D, y: D):
        i = loom.tid()
        s = f64(1.0)
        for _ in range(loom.thread_idx() % 5):
            s = s * x[i]
        y[i] = s

    x, y = np.ones(8), np.zeros(8)
    with (
        loom.Tape(),
        pytest.raises(loom.CompileError, match=r"`thread_idx` in a kernel whose loops have to be recorded"),
    ):
        loom.launch(powers, 8, [x, y])


def test_clocks_are_refused():
    @loom.kernel
    def timed(x: D, y: D):
        i = loom.tid()
        if loom.clock() > loom.uint64(0):
            y[i] = x[i]

    with loom.Tape(), pytest.raises(loom.CompileError, match="when the kernel runs again"):
        loom.launch(timed, 8, [np.ones(8), np.zeros(8)])
