"""Components of parts, copies of a thread's own arrays and temporary random states do what they do in Warp."""

import importlib.util

import numpy as np
import pytest

warp = pytest.importorskip("warp", reason="Warp, the oracle of these tests, is not installed")

PROGRAM = """
import PACKAGE as wp

Nothing = None


@wp.func
def change(a: wp.array(dtype=float)) -> Nothing:
    a[1] = 50.0


@wp.kernel
def own(i: int, v: wp.array(dtype=wp.vec3), m: wp.array(dtype=wp.mat22), t: wp.array(dtype=wp.transform)):
    a = wp.zeros(shape=(3,), dtype=wp.vec3)
    a[i].x = 2.0
    a[i][i] += 5.0
    a[i - 1][-3] = 7.0
    b = wp.zeros(shape=(3,), dtype=wp.mat22)
    b[i][0] = wp.vec2(1.0, 2.0)
    b[i][1, 1] = 4.0
    b[i][1, 0] += 4.0
    b[i - 1][i, 0] = 4.0
    c = wp.zeros(shape=(3,), dtype=wp.transform)
    c[i].p = wp.vec3(1.0, 2.0, 3.0)
    c[i].q = wp.quat(1.0, 2.0, 3.0, 4.0)
    c[i].p.x = 9.0
    for k in range(3):
        v[k] = a[k]
        m[k] = b[k]
        t[k] = c[k]


@wp.kernel
def elements(i: int, t: wp.array(dtype=wp.transform)):
    t[i].p[1] = 4.0
    t[i].p.x = 1.0
    t[i].q[3] = 5.0
    t[i].q[i] = 6.0
    t[i + 1].p.y += 1.0
    t[i + 1].q[3] += 6.0
    t[i + 1].p[i] += 6.0


@wp.struct
class Body:
    pose: wp.transform
    mass: float


@wp.kernel
def fields(i: int, bodies: wp.array(dtype=Body), t: wp.array(dtype=wp.transform)):
    bodies[0].pose.p = wp.vec3(1.0, 2.0, 3.0)
    bodies[0].pose.p[i] = 4.0
    bodies[0].pose.q.w = 4.0
    t[0] = bodies[0].pose


@wp.struct
class Frame:
    axes: wp.mat33


@wp.kernel
def copies(i: int, out: wp.array(dtype=float)):
    b = wp.zeros(shape=(3,), dtype=float)
    c = b
    b[0] = 1.0
    out[0] = c[0]
    c[2] = 5.0
    out[1] = b[2]
    change(b)
    out[2] = b[1]
    out[3] = c[1]
    d = wp.zeros(shape=(3,), dtype=float)
    if i > 0:
        d = b
    b[i] = 2.0
    out[4] = d[1]
    r = wp.zeros(shape=(2, 2), dtype=float)
    row = r[0]
    row[1] = 6.0
    out[5] = r[0, 1]


@wp.kernel
def states(out: wp.array(dtype=int)):
    out[0] = wp.randi(wp.rand_init(1, 2))
    out[1] = wp.randi(wp.rand_init(1, 2), 0, 10)


@wp.kernel
def unsigned(a: wp.uint32, b: wp.uint8, c: wp.uint64, out: wp.array(dtype=wp.uint64)):
    out[0] = wp.uint64(a)
    out[1] = wp.uint64(b)
    out[2] = c


@wp.kernel
def rows(k: int, bodies: wp.array(dtype=Frame), m: wp.array(dtype=wp.mat33)):
    bodies[0].axes[k].x = 3.0
    bodies[0].axes[k].y += 4.0
    bodies[0].axes[k + 1] = wp.vec3(1.0, 2.0, 3.0)
    m[0] = bodies[0].axes
    m[1][k].z = 5.0
    m[1][0].y -= 6.0
    l = m[1]
    l[k, 0:2] = wp.vec2(7.0, 8.0)
    l[0:2, k + 1] = wp.vec2(9.0, 10.0)
    m[2] = l


def run():
    v, m = wp.zeros(3, dtype=wp.vec3, device="cpu"), wp.zeros(3, dtype=wp.mat22, device="cpu")
    t = wp.zeros(3, dtype=wp.transform, device="cpu")
    wp.launch(own, 1, inputs=[1, v, m, t], device="cpu")
    yield from (v.numpy(), m.numpy(), t.numpy())
    t = wp.zeros(3, dtype=wp.transform, device="cpu")
    wp.launch(elements, 1, inputs=[1, t], device="cpu")
    yield t.numpy()
    wp.launch(fields, 1, inputs=[1, wp.zeros(1, dtype=Body, device="cpu"), t], device="cpu")
    yield t.numpy()
    out = wp.zeros(6, dtype=float, device="cpu")
    wp.launch(copies, 1, inputs=[1, out], device="cpu")
    yield out.numpy()
    numbers = wp.zeros(2, dtype=int, device="cpu")
    wp.launch(states, 1, inputs=[numbers], device="cpu")
    yield numbers.numpy()
    words = wp.zeros(3, dtype=wp.uint64, device="cpu")
    wp.launch(unsigned, 1, inputs=[-1, -2, -3, words], device="cpu")
    yield words.numpy()
    m = wp.zeros(3, dtype=wp.mat33, device="cpu")
    wp.launch(rows, 1, inputs=[1, wp.zeros(1, dtype=Frame, device="cpu"), m], device="cpu")
    yield m.numpy()
"""


def results(tmp_path, package):
    path = tmp_path / f"parts_{package}.py"
    path.write_text(PROGRAM.replace("PACKAGE", package))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.run())


def test_parts_copies_and_temporary_states_are_those_of_warp(tmp_path):
    expected, given = results(tmp_path, "warp"), results(tmp_path, "polyloom")
    assert len(expected) == len(given) == 9
    for ours, theirs in zip(given, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
