"""Forward mode against reverse mode and central differences, and Hessian-vector products by reverse over forward."""

import numpy as np
import polyloom as loom
import pytest
from test_gradients import KERNELS, D, V, arguments, extrema, f64, squares


def directional_difference(kernel, args, directions, step=1e-6):
    ends = []
    for sign in (1, -1):
        moved = [
            arg + sign * step * direction if isinstance(arg, np.ndarray) else float(arg + sign * step * direction)
            for arg, direction in zip(args, directions, strict=True)
        ]
        loom.launch(kernel, 7, moved)
        ends.append(moved)
    for a, b in zip(*ends, strict=True):
        yield (a - b) / (2 * step) if isinstance(a, np.ndarray) else None


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_tangents_agree_with_differences(kernel, device):
    rng = np.random.default_rng(7)
    args = arguments(kernel, rng)
    directions = [rng.normal(size=np.shape(arg)) if isinstance(arg, np.ndarray) else rng.normal() for arg in args]
    expected = list(directional_difference(kernel, args, directions))
    primal = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    tangents = [d.copy() if isinstance(d, np.ndarray) else d for d in directions]
    loom.jvp(kernel, 7, primal, tangents=tangents, device=device)
    after = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    loom.launch(kernel, 7, after)
    for moved, difference, held, wanted in zip(tangents, expected, primal, after, strict=True):
        if difference is not None:
            np.testing.assert_allclose(moved, difference, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(held, wanted, rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_forward_and_reverse_are_transposes(kernel):
    rng = np.random.default_rng(11)
    args = arguments(kernel, rng)
    directions = [rng.normal(size=np.shape(arg)) if isinstance(arg, np.ndarray) else rng.normal() for arg in args]
    weights = [rng.normal(size=np.shape(arg) or (1,)) for arg in args]
    tangents = [d.copy() if isinstance(d, np.ndarray) else d for d in directions]
    loom.jvp(kernel, 7, [a.copy() if isinstance(a, np.ndarray) else a for a in args], tangents=tangents)
    forward = sum((w * t).sum() for w, t in zip(weights, tangents, strict=True) if isinstance(t, np.ndarray))
    adjoints = [w.copy() if isinstance(a, np.ndarray) else np.zeros(1) for w, a in zip(weights, args, strict=True)]
    loom.launch(kernel, 7, args, adjoint=True, adj_inputs=adjoints)
    reverse = sum(float((adjoint * d).sum()) for adjoint, d in zip(adjoints, directions, strict=True))
    np.testing.assert_allclose(forward, reverse, rtol=1e-10)


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_they_do_on_every_engine(tier, passed_on_tier):
    which = "agree_with_differences and cpu or transposes"
    assert passed_on_tier(tier, __file__, which) == 2 * len(KERNELS)


@loom.kernel
def composites(p: V, q: V, m: loom.mat33d, y: loom.array(dtype=f64)):
    i = loom.tid()
    v = loom.cross(p[i], q[i]) / (loom.length(q[i]) + f64(1.0))
    w = m * v + loom.normalize(p[i]) * loom.dot(p[i], q[i])
    r = loom.quat_rotate(loom.quat_from_axis_angle(loom.normalize(q[i]), v[1]), w)
    y[i] = loom.length(r - p[i]) + loom.determinant(loom.outer(v, w) + m)


def test_composites():
    rng = np.random.default_rng(2)
    args = [rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), np.zeros(4)]
    directions = [rng.normal(size=np.shape(arg)) for arg in args[:3]]

    def outputs(step):
        moved = [a + step * d for a, d in zip(args, directions, strict=False)]
        y = np.zeros(4)
        loom.launch(composites, 4, [moved[0], moved[1], loom.mat33d(moved[2]), y])
        return y

    dot_y = np.zeros(4)
    loom.jvp(
        composites,
        4,
        [args[0], args[1], loom.mat33d(args[2])],
        [np.zeros(4)],
        tangents=[directions[0], directions[1], loom.mat33d(directions[2]), dot_y],
    )
    np.testing.assert_allclose(dot_y, (outputs(1e-6) - outputs(-1e-6)) / 2e-6, rtol=1e-6)
    weight = rng.normal(size=4)
    adjoints = [np.zeros((4, 3)), np.zeros((4, 3)), loom.zeros(1, dtype=loom.mat33d), weight.copy()]
    loom.launch(composites, 4, [args[0], args[1], loom.mat33d(args[2]), np.zeros(4)], adjoint=True, adj_inputs=adjoints)
    adjoints[2] = adjoints[2].numpy()[0]
    reverse = sum((adjoint * d).sum() for adjoint, d in zip(adjoints, directions, strict=False))
    np.testing.assert_allclose((weight * dot_y).sum(), reverse, rtol=1e-10)


@loom.kernel
def energy(x: D, loss: D):
    i = loom.tid()
    n = x.shape[0]
    loom.atomic_add(loss, 0, loom.sin(x[i]) * x[(i + 1) % n] * x[i])


def test_reverse_over_forward_is_a_hessian_vector_product():
    rng = np.random.default_rng(4)
    x, v = rng.normal(size=5), rng.normal(size=5)

    def gradient(x):
        adj_x = np.zeros(5)
        loom.launch(energy, 5, [x, np.zeros(1)], adjoint=True, adj_inputs=[adj_x, np.ones(1)])
        return adj_x

    dot_loss = np.zeros(1)
    with loom.Tape() as tape:
        loom.jvp(energy, 5, [x], [np.zeros(1)], tangents=[v, dot_loss])
    tape.backward(dot_loss)
    np.testing.assert_allclose(tape.gradients[x], (gradient(x + 1e-6 * v) - gradient(x - 1e-6 * v)) / 2e-6, rtol=1e-6)
    np.testing.assert_allclose(tape.gradients[v], gradient(x), rtol=1e-12)


def test_products_of_a_quaternion_and_its_tangent_do_not_commute():
    @loom.kernel
    def k(q: loom.array(dtype=loom.quatd), m: loom.array(dtype=loom.mat22d), y: D):
        square, product = q[0] * q[0], m[0] * m[0]
        y[0] = square[0] * square[1] + square[2] + product[0, 1] * product[1, 0]

    rng = np.random.default_rng(1)
    q, m, dot_q, dot_m = (rng.normal(size=(1, *shape)) for shape in ((4,), (2, 2), (4,), (2, 2)))
    dot_y, adj_q, adj_m, ends = np.zeros(1), np.zeros((1, 4)), np.zeros((1, 2, 2)), []
    loom.jvp(k, 1, [q, m], [np.zeros(1)], tangents=[dot_q, dot_m, dot_y])
    loom.launch(k, 1, [q, m, np.zeros(1)], adjoint=True, adj_inputs=[adj_q, adj_m, np.ones(1)])
    for sign in (1, -1):
        y = np.zeros(1)
        loom.launch(k, 1, [q + sign * 1e-6 * dot_q, m + sign * 1e-6 * dot_m, y])
        ends.append(y[0])
    difference = (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(dot_y, difference, rtol=1e-7)
    np.testing.assert_allclose((adj_q * dot_q).sum() + (adj_m * dot_m).sum(), difference, rtol=1e-7)


def test_products_of_transforms_are_not_linear_in_the_first():
    @loom.kernel
    def k(x: D, y: D):
        a = loom.transformd(x[0], x[1], x[2], x[3], x[4], x[5], x[6])
        b = loom.transformd(x[6], x[5], x[4], x[3], x[2], x[1], x[0])
        c = a * b
        y[0] = c[0] * c[1] + c[2] * c[4] + c[6]

    rng = np.random.default_rng(1)
    x, v = rng.normal(size=7), rng.normal(size=7)
    dot_y, adj_x = np.zeros(1), np.zeros(7)
    loom.jvp(k, 1, [x], [np.zeros(1)], tangents=[v, dot_y])
    loom.launch(k, 1, [x, np.zeros(1)], adjoint=True, adj_inputs=[adj_x, np.ones(1)])
    np.testing.assert_allclose(dot_y, adj_x @ v, rtol=1e-12)


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_atomic_extrema(device):
    x, dot_x = np.array([0.5, -2.0, 0.7, -3.0, -0.1, 2.0, 0.9]), np.arange(1.0, 8.0)
    low, high, dot_low, dot_high = np.ones(2), -np.ones(1), np.array([8.0, 9.0]), np.array([10.0])
    loom.jvp(extrema, 7, [x, low, high], tangents=[dot_x, dot_low, dot_high], device=device)
    np.testing.assert_allclose(low, [x[4] ** 2, 1.0])
    np.testing.assert_allclose(dot_low, [2 * x[4] * dot_x[4], 9.0])
    np.testing.assert_allclose(dot_high, np.cos(x[6]) * dot_x[6])


def test_what_is_written_moves_though_nobody_asks():
    @loom.kernel
    def k(x: D, between: D, y: D):
        i = loom.tid()
        between[i] = x[i] * x[i]
        y[i] = between[i] * x[i]

    x, dot_y = np.array([1.0, 2.0]), np.zeros(2)
    loom.jvp(k, 2, [x], [np.zeros(2), np.zeros(2)], tangents=[np.ones(2), None, dot_y])
    np.testing.assert_allclose(dot_y, 3 * x**2)
    # A store of what does not move leaves nothing of the direction that was there.
    dot_y = np.ones(2)
    loom.jvp(k, 2, [x], [np.zeros(2), np.zeros(2)], tangents=[None, None, dot_y])
    assert not dot_y.any()


def test_tangents_are_like_their_arguments():
    x, loss = np.ones(3), np.zeros(1)
    with pytest.raises(ValueError, match="one for each argument"):
        loom.jvp(squares, 3, [x], [loss], tangents=[np.ones(3)])
    with pytest.raises(ValueError, match=r"argument 0 is an array of shape \(3,\)"):
        loom.jvp(squares, 3, [x], [loss], tangents=[np.ones(2), np.zeros(1)])
    with pytest.raises(ValueError, match="its tangent is one like it, not no array but float"):
        loom.jvp(squares, 3, [x], [loss], tangents=[1.0, np.zeros(1)])
    with pytest.raises(TypeError, match="tangents are a list with one for each argument, or None, not NoneType"):
        loom.jvp(squares, 3, [x], [loss], tangents=None)
    with pytest.raises(TypeError, match=r"jvp\(\) needs a kernel"):
        loom.jvp(len, 3, [x], [loss], tangents=[None, None])
    with pytest.raises(ValueError, match="dim must not be negative, and is -1"):
        loom.jvp(squares, -1, [x], [loss], tangents=[None, None])

    @loom.kernel
    def multiplied(x: D, n: int):
        x[loom.tid()] *= f64(n)

    with pytest.raises(ValueError, match="its argument 'n' is no floating-point number, and does not move"):
        loom.jvp(multiplied, 3, [x, 2], tangents=[np.ones(3), 1])


def test_arrays_of_the_package_and_generic_kernels():
    @loom.kernel
    def k(x: loom.array(dtype=loom.Float), y: loom.array(dtype=loom.Float)):
        i = loom.tid()
        y[i] = loom.exp(x[i])

    x, dot_x = loom.array([0.0, 1.0], dtype=loom.float32), loom.array([1.0, 2.0], dtype=loom.float32)
    y, dot_y = loom.zeros(2, dtype=loom.float32), loom.zeros(2, dtype=loom.float32)
    loom.jvp(k, 2, [x], [y], tangents=[dot_x, dot_y])
    np.testing.assert_allclose(dot_y.numpy(), [1.0, 2 * np.e], rtol=1e-6)


def test_slerp_between_equal_rotations():
    """The way is smooth where it has no axis, and where it leads from a quaternion to its opposite."""

    @loom.kernel
    def part(a: loom.array(dtype=loom.quatd), b: loom.array(dtype=loom.quatd), t: D, y: loom.array(dtype=loom.quatd)):
        i = loom.tid()
        y[i] = loom.quat_slerp(a[i], b[i], t[i])

    rng = np.random.default_rng(12)
    a = np.array([[0.6, 0.0, 0.0, 0.8], [0.0, 0.0, 0.0, 1.0], [0.5, -0.5, 0.5, 0.5]])
    t = np.array([0.3, 1.0, -1.0])
    for sign in (1.0, -1.0):
        args = [a, sign * a, t, np.zeros((3, 4))]
        directions = [rng.normal(size=x.shape) for x in args[:3]]
        tangents = [*(d.copy() for d in directions), np.zeros((3, 4))]
        loom.jvp(part, 3, [x.copy() for x in args], tangents=tangents)
        ends = []
        for step in (1e-5, -1e-5):
            moved = [*(x + step * d for x, d in zip(args, directions, strict=False)), np.zeros((3, 4))]
            loom.launch(part, 3, moved)
            ends.append(moved[3])
        np.testing.assert_allclose(tangents[3], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8)
        weights = rng.normal(size=(3, 4))
        adjoints = [np.zeros_like(x) for x in args[:3]]
        loom.launch(part, 3, args, adjoint=True, adj_inputs=[*adjoints, weights.copy()])
        reverse = sum((adjoint * d).sum() for adjoint, d in zip(adjoints, directions, strict=True))
        np.testing.assert_allclose((weights * tangents[3]).sum(), reverse, rtol=1e-12)


def test_names_that_a_kernel_has_itself():
    """Adjoints and tangents have names of their own, the same in HIR and in text."""

    @loom.kernel
    def named(x: D, adj_x: D, tape_0: f64, first_thread: D, dot_x: f64):
        i = loom.tid()
        s = x[i]
        for _ in range(5):
            s = s * adj_x[i] + tape_0 * s
        first_thread[i] = s * dot_x

    hir, text = named.hir(backward=True), named.cpp(backward=True)
    params = hir[hir.index("(") + 1 : hir.index("{")]
    names = [part.split(":")[0].split()[-1] for part in params.split(",") if ":" in part]
    assert len(names) == len(set(names))
    assert {"adj_x", "adj_x_2", "adj_adj_x"} <= set(names)
    assert all(name in text for name in names)
