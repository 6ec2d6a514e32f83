"""Programs written for Warp do the same with nothing but their import changed. Warp itself is the oracle."""

import importlib.util
import math

import numpy as np
import polyloom
import pytest

warp = pytest.importorskip("warp", reason="Warp, the oracle of these tests, is not installed")

VALUES = """
v + w | v - w | -v | v * 2.0 | 2.0 * v | v / 2.0 | 2.0 / v | v + 1.0 | i + i | i * 2 | i / 2 | m * m | m @ m | m * u
u * m | m + m | m * 2.0 | q * q | q + q | q * 2.0 | t * t | v[0] | v[-1] | v[1:] | v.z | m[1] | m[0, 1] | m[:, 1]
m[0:1] | list(v) | list(m) | len(m) | len(t) | t.p | t.q | str(v) | str(m) | v == w | v == (1, 2, 3)
v == wp.vec3d(1, 2, 3) | wp.vec3() | wp.vec3(1) | wp.vec3([1, 2, 3]) | wp.vec3(np.array([1, 2, 3.0]))
wp.vec3(wp.vec3d(1, 2, 3)) | wp.quat() | wp.mat22(1) | wp.mat22([[1, 2], [3, 4]]) | wp.mat22([1, 2], [3, 4])
wp.mat22(np.eye(2)) | wp.transform() | wp.transform((1, 2, 3), (0, 0, 0, 1))
wp.transform(p=(1, 2, 3), q=(0, 0, 0, 1)) | wp.spatial_vector(1, 2, 3, 4, 5, 6)
wp.dot(v, w) | wp.cross(v, w) | wp.length(v) | wp.normalize(v) | wp.outer(v, w) | wp.transpose(m) | wp.determinant(m)
wp.inverse(m) | wp.trace(m) | wp.quat_identity() | wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5)
wp.quat_rotate(q, v) | wp.quat_inverse(q) | wp.quat_to_matrix(q) | wp.transform_point(t, v) | wp.transform_inverse(t)
wp.transform_identity() | wp.min(v, w) | wp.cw_mul(v, w) | wp.skew(v) | wp.diag(v) | wp.sin(0.5) | wp.max(1, 2)
wp.zeros(3, dtype=wp.vec3).shape | wp.zeros((2, 3), dtype=wp.mat22).numpy().shape | wp.zeros(3, dtype=wp.vec3).strides
wp.array([(1, 2, 3), (4, 5, 6)], dtype=wp.vec3).numpy() | wp.array([v, w], dtype=wp.vec3).numpy()
wp.full(2, v).numpy() | wp.array(np.zeros((2, 9)), dtype=wp.mat33).shape | wp.array(np.zeros(6), dtype=wp.vec3).shape
wp.full(2, 5, dtype=wp.vec3).numpy() | wp.ones(2, dtype=wp.vec3).numpy() | wp.from_numpy(x, dtype=wp.vec3).size
""".replace("\n", " | ").strip(" |")

ERRORS = """
v * w | v / w | v @ v | d + v | v + u | m + 1.0 | q * v | abs(v) | hash(v) | v[3] | v[0, 1] | v.w | m[2, 0]
wp.vec3(1, 2) | wp.vec3([1, 2]) | wp.vec3("abc") | wp.vec3i(1.5) | wp.mat22(1, 2, 3) | wp.mat22([1, 2, 3], [4, 5, 6])
wp.dot(v, u) | wp.array(np.zeros((2, 4)), dtype=wp.vec3)
""".replace("\n", " | ").strip(" |")


def names(wp):
    return {
        "wp": wp,
        "np": np,
        "x": np.zeros((4, 3), np.float32),
        "u": wp.vec2(1.0, 2.0),
        "v": wp.vec3(1.0, 2.0, 3.0),
        "w": wp.vec3(4.0, 6.0, 5.0),
        "i": wp.vec3i(7, 8, -9),
        "d": wp.vec3d(1.0, 2.0, 3.0),
        "m": wp.mat22(1.0, 2.0, 3.0, 5.0),
        "q": wp.quat(0.0, 0.6, 0.0, 0.8),
        "t": wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat(0.6, 0.0, 0.0, 0.8)),
    }


def plain(value):
    """A value as lists of numbers, with what its type is called where it is a vector or the like."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    kind = type(value)
    if not hasattr(kind, "_length_"):
        return np.asarray(value).tolist() if isinstance(value, np.ndarray) else value
    return [*map(plain, value)]


def same(ours, theirs):
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-7)
    return ours == theirs


@pytest.mark.parametrize("expression", VALUES.split(" | "))
def test_values(expression):
    ours, theirs = eval(expression, names(polyloom)), eval(expression, names(warp))
    assert same(plain(ours), plain(theirs)), (ours, theirs)
    if hasattr(type(theirs), "_length_"):
        assert type(ours)._shape_ == type(theirs)._shape_
        assert type(ours)._wp_scalar_type_.name == type(theirs)._wp_scalar_type_.__name__


@pytest.mark.parametrize("expression", ERRORS.split(" | "))
def test_errors(expression):
    for wp in (polyloom, warp):
        with pytest.raises(Exception):  # noqa: B017 - which one differs
            eval(expression, names(wp))


PROGRAM = """
import numpy as np
import PACKAGE as wp

wp.init()
GRAVITY = wp.constant(wp.vec3(0.0, -9.8, 0.0))
AXIS = wp.normalize(wp.vec3(1.0, 2.0, 2.0))
vec5 = wp.types.vector(length=5, dtype=wp.float32)
N = 64


@wp.func
def spring(a: wp.vec3, b: wp.vec3, rest: float):
    d = b - a
    l = wp.length(d)
    return d * ((l - rest) / l)


@wp.kernel
def forces(x: wp.array(dtype=wp.vec3), pairs: wp.array(dtype=wp.vec2i), f: wp.array(dtype=wp.vec3), k: float):
    i = wp.tid()
    a = pairs[i][0]
    b = pairs[i][1]
    s = k * spring(x[a], x[b], 0.5)
    wp.atomic_add(f, a, s)
    wp.atomic_sub(f, b, s)


@wp.kernel
def step(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    f: wp.array(dtype=wp.vec3),
    frame: wp.mat33,
    wind: wp.vec3,
    turn: wp.quat,
    dt: float,
):
    i = wp.tid()
    a = f[i] + GRAVITY + frame * wind
    v[i] = wp.quat_rotate(turn, v[i] + a * dt)
    p = x[i] + v[i] * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1], p[2])
    x[i] = p


@wp.kernel
def measure(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=vec5), m: wp.array(dtype=wp.mat33)):
    i = wp.tid()
    p = x[i]
    out[i] = vec5(p[0], p[1], p[2], wp.length(p), wp.dot(p, AXIS))
    m[i] = wp.outer(p, p) + wp.skew(AXIS)


def run():
    rng = np.random.default_rng(1)
    x = wp.array(rng.uniform(0.5, 2.0, (N, 3)).astype(np.float32), dtype=wp.vec3, device="cpu")
    v = wp.zeros(N, dtype=wp.vec3, device="cpu")
    f = wp.zeros_like(v)
    pairs = wp.array(np.stack([np.arange(N - 1), np.arange(1, N)], axis=1), dtype=wp.vec2i, device="cpu")
    turn = wp.quat_from_axis_angle(AXIS, 0.1)
    frame = wp.mat33(0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    for _ in range(10):
        f.zero_()
        wp.launch(forces, dim=N - 1, inputs=[x, pairs, f, 3.0], device="cpu")
        wp.launch(step, dim=N, inputs=[x, v, f, frame, (1.0, 0.5, 0.25), turn, 0.02], device="cpu")
    out = wp.zeros(N, dtype=vec5, device="cpu")
    m = wp.zeros(N, dtype=wp.mat33, device="cpu")
    wp.launch(measure, dim=N, inputs=[x], outputs=[out, m], device="cpu")
    return [x.numpy(), v.numpy(), out.numpy(), m.numpy()]
"""


def test_a_program(tmp_path):
    results = []
    for package in ("polyloom", "warp"):
        path = tmp_path / f"program_{package}.py"
        path.write_text(PROGRAM.replace("PACKAGE", package))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        results.append(module.run())
    for ours, theirs in zip(*results, strict=True):
        assert ours.shape == theirs.shape
        # Sums of atomics are in no order, and Warp contracts products and sums.
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
