"""Gradients of kernels that take composites apart and put them together, against differences."""

import numpy as np
import polyloom as loom
import pytest

f64 = loom.float64
D = loom.array(dtype=f64)
V = loom.array(dtype=loom.vec3d)
M = loom.array(dtype=loom.mat33d)
Q = loom.array(dtype=loom.quatd)
T = loom.array(dtype=loom.transformd)
mat23 = loom.types.matrix(shape=(2, 3), dtype=f64)
vec5 = loom.types.vector(length=5, dtype=f64)


@loom.kernel
def components(v: V, m: M, y: D):
    i = loom.tid()
    p = v[i]
    a = m[i]
    k = i % 3
    y[i] = p.x * p[k] + p[-1] * a[k, 1] + a[2, k] * a[1][2] * p[k - 1]


@loom.kernel
def assigned(v: V, m: M, out: V):
    i = loom.tid()
    p = v[i]
    a = m[i]
    p.y = p.x * p.z
    p[i % 3] += f64(2.0) * p[1]
    a[1] = p
    a[i % 3, 2] = a[0, 0] * p[2]
    a[2, 1] *= p.y
    p *= a[2, 1]
    out[i] = a * p - p / a[2, 1]


@loom.kernel
def slices(a: loom.array(dtype=vec5), m: loom.array(dtype=mat23), y: D):
    i = loom.tid()
    w = a[i]
    b = m[i]
    head = w[1:4]
    w[0:2] = loom.vec2d(head[2], head[0] * head[1])
    y[i] = loom.dot(head, b[1]) + loom.dot(w[3:], b[:, 2]) * w[0] + loom.length(b[:, 0])


@loom.kernel
def broadcasts(v: V, m: M, s: D, out: V):
    i = loom.tid()
    t = s[i]
    a = t * m[i] + m[i] / t - (-m[i]) * t
    p = t / v[i] + v[i] * t - t * v[i] / f64(3.0)
    out[i] = loom.lerp(p, a * v[i], t) + v[i] * a + loom.abs(v[i]) + loom.max(v[i], p) + loom.cw_mul(p, v[i])


@loom.kernel
def rotations(q: Q, v: V, angles: D, y: V):
    i = loom.tid()
    r = loom.normalize(q[i]) * loom.quat_from_axis_angle(loom.normalize(v[i]), angles[i])
    w = loom.quat_rotate(r, v[i]) + loom.quat_rotate_inv(q[i], v[i])
    r[3] = r.x * r[1]
    y[i] = w + loom.vec3d(r[0], r[3], r.w) * angles[i]


@loom.kernel
def frames(t: T, v: V, y: V):
    i = loom.tid()
    a = t[i]
    b = loom.transform_inverse(a) * a * t[0]
    p = loom.transform_point(b, v[i])
    b.p = p + b.p
    b.q = loom.quat_inverse(a.q)
    loom.transform_set_translation(a, b.p)
    y[i] = loom.transform_vector(b, p) + loom.transform_get_translation(a) * a[4]


@loom.func
def stepped(p: loom.vec3d, m: loom.mat33d):
    return loom.normalize(m * p), loom.determinant(m) * loom.trace(m)


@loom.kernel
def loops(v: V, m: M, out: V):
    i = loom.tid()
    p = v[i]
    n = 0
    while loom.length(p) < f64(20.0) and n < 6:
        d, s = stepped(p, m[i])
        for k in range(3):
            p[k] = p[k] + d[(k + 1) % 3]
            if p[k] > f64(1.0):
                p = p + d * loom.sin(s)
        n += 1
    out[i] = p


@loom.kernel
def own_arrays(v: V, y: D):
    i = loom.tid()
    a = loom.zeros(shape=(4, 3), dtype=f64)
    for k in range(4):
        for j in range(3):
            a[k, j] = v[i][j] * v[k % v.shape[0]][0]
    for k in range(3):
        a[k + 1, k] += a[k, 2 - k] * a[k, k]
    y[i] = a[3, 2] * a[1, 0] + a[2, 1]


@loom.kernel
def memory(v: V, m: M, out: V, sums: V, total: D):
    i = loom.tid()
    p = loom.load_readonly(v, i)
    out[i] = out[i] * p.x
    out[i][1] = m[i][0, 1] * p[2]
    out[i] += m[i][2]
    loom.atomic_add(sums, 0, p * p.y)
    loom.atomic_sub(sums, i, p * p.x)
    sums[0][1] -= p.z * p.x
    loom.atomic_add(total, 0, loom.ddot(m[i], m[i]))


@loom.kernel
def choices(v: V, m: M, y: D):
    i = loom.tid()
    p = loom.where(v[i][0] > f64(0.0), v[i] / v[i][1], m[i] * v[i])
    u, s, w = loom.svd3(m[i])
    y[i] = loom.min(p) + loom.max(s) + (u * w)[0, 1] + loom.quat_from_matrix(u)[1]


VECTORS, MATRICES = (4, 3), (4, 3, 3)
KERNELS = [
    (components, [VECTORS, MATRICES], [(4,)]),
    (assigned, [VECTORS, MATRICES], [VECTORS]),
    (slices, [(4, 5), (4, 2, 3)], [(4,)]),
    (broadcasts, [VECTORS, MATRICES, (4,)], [VECTORS]),
    (rotations, [(4, 4), VECTORS, (4,)], [VECTORS]),
    (frames, [(4, 7), VECTORS], [VECTORS]),
    (loops, [VECTORS, MATRICES], [VECTORS]),
    (own_arrays, [VECTORS], [(4,)]),
    (choices, [VECTORS, MATRICES], [(4,)]),
]


@pytest.mark.parametrize(("kernel", "inputs", "outputs"), KERNELS, ids=lambda value: getattr(value, "key", ""))
def test_kernels_of_composites(kernel, inputs, outputs):
    rng = np.random.default_rng(11)
    report = loom.gradcheck(
        kernel, [rng.normal(size=shape) for shape in inputs], [np.zeros(shape) for shape in outputs]
    )
    assert all(np.isfinite(argument.gradient) for argument in report.arguments)


def test_memory_of_composites():
    rng = np.random.default_rng(12)
    given = [rng.normal(size=shape) for shape in (VECTORS, MATRICES, VECTORS, VECTORS, (1,))]
    assert loom.gradcheck(memory, given)
