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


def test_stores_that_count_from_the_end_meet_those_that_do_not(device):
    """Threads 0 and 5 store in `y[3]`, 1 and 6 in `y[4]`, each the same."""

    @loom.kernel
    def by_a_constant(x: D, y: D):
        i = loom.tid()
        y[i - 2] = x[0] * x[0]

    @loom.kernel
    def by_a_number(x: D, y: D, by: int):
        i = loom.tid()
        y[i + by] = x[0] * x[0]

    for kernel, more in ((by_a_constant, []), (by_a_number, [-2])):
        x, y = np.array([3.0]), np.zeros(5)
        with loom.Tape() as tape:
            loom.launch(kernel, 7, [x, y, *more], device=device)
        tape.backward(grads=[(y, np.ones(5))])
        np.testing.assert_array_equal(tape.gradients[x], [30.0])


def test_a_value_that_all_threads_store_has_one_gradient(device):
    @loom.kernel
    def square(x: D, y: D):
        y[0] = x[0] * x[0]

    x, y = np.array([1.0]), np.zeros(1)
    with loom.Tape() as tape:
        loom.launch(square, 64, [x, y], device=device)
    tape.backward(grads=[(y, np.ones(1))])
    np.testing.assert_array_equal(tape.gradients[x], [2.0])


@loom.struct
class Body:
    place: loom.vec2d
    mass: f64


V = loom.array(dtype=loom.vec3d)
M = loom.array(dtype=loom.mat22d)
Q = loom.array(dtype=loom.quatd)
T = loom.array(dtype=loom.transformd)


@pytest.mark.parametrize("n_threads", [1, 64])
def test_a_composite_that_all_threads_store_has_one_gradient(device, n_threads):
    @loom.kernel
    def alike(
        x: D, which: N, v: V, m: M, q: Q, t: T, bodies: loom.array(dtype=Body), parts: loom.array(dtype=loom.vec3d)
    ):
        s = x[0]
        v[0] = loom.vec3d(s, s * s, f64(3.0) * s)
        # An element that only the launch knows.
        m[which[loom.tid()]] = loom.mat22d(s, f64(2.0) * s, f64(3.0) * s, s * s)
        q[0] = loom.quatd(s, f64(0.0), s * s, f64(1.0))
        t[0] = loom.transformd(loom.vec3d(s), loom.quatd(f64(5.0) * s, s, s, s))
        bodies[0] = Body(loom.vec2d(s, f64(7.0) * s), s * s * s)
        parts[0][1] = f64(11.0) * s

    x, which = np.array([2.0]), np.ones(n_threads, np.int32)
    v, m, q, t, parts = (
        loom.zeros(n, dtype=dtype, device=device)
        for n, dtype in [(1, loom.vec3d), (2, loom.mat22d), (1, loom.quatd), (1, loom.transformd), (1, loom.vec3d)]
    )
    bodies = loom.zeros(1, dtype=Body, device=device)
    # By output, a weight for each component times how it moves with s = 2.
    weights = {
        v: ([1, 2, 3], [1, 4, 3]),
        m: ([0, 0, 0, 0, 1, 2, 3, 4], [0, 0, 0, 0, 1, 2, 3, 4]),
        q: ([4, 3, 2, 1], [1, 0, 4, 0]),
        t: ([1, 2, 3, 4, 5, 6, 7], [1, 1, 1, 5, 1, 1, 1]),
        parts: ([10, 20, 30], [0, 11, 0]),
    }
    with loom.Tape() as tape:
        loom.launch(alike, n_threads, [x, which, v, m, q, t, bodies, parts], device=device)
    seeds = [(each, np.reshape(np.array(w, float), each.numpy().shape)) for each, (w, _) in weights.items()]
    seed = loom.array([Body(loom.vec2d(1.0, 2.0), 3.0)], dtype=Body, device=device)
    tape.backward(grads=[*seeds, (bodies, seed)])
    expected = sum(np.dot(*pair) for pair in weights.values()) + 1 + 2 * 7 + 3 * 12
    np.testing.assert_allclose(tape.gradients[x], [expected])


def test_components_of_the_threads_own_elements_are_updated_from_others(device):
    @loom.kernel
    def update(y: D, v: V, m: M):
        i = loom.tid()
        v[i][1] += v[i][0] * y[i]
        v[i][2] -= v[i][1] * f64(2.0)
        m[i][0, 1] += m[i][1, 0] * v[i][2]

    n = 5
    g = np.random.default_rng(3)
    y, v, m = g.random(n), g.random((n, 3)), g.random((n, 2, 2))
    held, matrices = loom.array(v, dtype=loom.vec3d, device=device), loom.array(m, dtype=loom.mat22d, device=device)
    with loom.Tape() as tape:
        loom.launch(update, n, [y, held, matrices], device=device)
    moved = v[:, 1] + v[:, 0] * y
    last = v[:, 2] - 2.0 * moved
    np.testing.assert_allclose(matrices.numpy()[:, 0, 1], m[:, 0, 1] + m[:, 1, 0] * last)
    of_v, of_m = g.random((n, 3)), g.random((n, 2, 2))
    tape.backward(grads=[(held, of_v), (matrices, of_m)])
    # By hand, from the last statement to the first.
    of_last = of_v[:, 2] + of_m[:, 0, 1] * m[:, 1, 0]
    of_moved = of_v[:, 1] - 2.0 * of_last
    np.testing.assert_allclose(tape.gradients[y], of_moved * v[:, 0])
    expected = np.stack([of_v[:, 0] + of_moved * y, of_moved, of_last], axis=1)
    np.testing.assert_allclose(tape.gradients[held].numpy(), expected)
    expected = of_m.copy()
    expected[:, 1, 0] += of_m[:, 0, 1] * last
    np.testing.assert_allclose(tape.gradients[matrices].numpy(), expected)


def test_the_derivative_of_an_extremum_in_a_direction_is_refused_by_its_name():
    @loom.kernel
    def largest(x: D, y: D):
        loom.atomic_max(y, 0, x[loom.tid()])

    x, y, dot = np.arange(3.0), np.zeros(1), np.zeros(1)
    with loom.Tape() as tape, pytest.raises(loom.CompileError, match="`atomic_max` in a direction has no derivative"):
        loom.jvp(largest, 3, [x], [y], tangents=[np.ones(3), dot])
        tape.backward(dot)


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
