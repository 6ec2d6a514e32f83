"""Arrays on devices, copies, and launches that follow each other."""

import numpy as np
import polyloom as loom
import pytest

N = 100_000


@loom.struct
class Particle:
    position: loom.vec3
    velocity: loom.vec3
    mass: float


@loom.kernel
def advance(particles: loom.array(dtype=Particle), dt: float):
    i = loom.tid()
    particles[i].position += dt * particles[i].velocity


@loom.kernel
def increment(x: loom.array(dtype=int)):
    i = loom.tid()
    x[i] = x[i] + 1


def test_large_arrays_go_there_and_back(device):
    host = np.random.default_rng(17).random((100, N // 100))
    there = loom.array(host)
    assert there.device == device
    np.testing.assert_array_equal(there.numpy(), host)
    np.testing.assert_array_equal(there[10:20, ::3].numpy(), host[10:20, ::3])
    np.testing.assert_array_equal(loom.clone(there).transpose().numpy(), host.T)
    there[:, 5] = 0.0
    host[:, 5] = 0
    np.testing.assert_array_equal(there.to("cpu").numpy(), host)


def test_launches_in_a_loop(device):
    x = loom.zeros(1000, dtype=int)
    for _ in range(100):
        loom.launch(increment, 1000, [x])
    assert x.list() == [100] * 1000
    step = loom.launch(increment, 1000, [x], record_cmd=True)
    for _ in range(100):
        step.launch()
    loom.synchronize_device(device)
    assert x[0] == x[-1] == 200


def test_many_kernels_and_arrays_come_and_go(device):
    total = loom.zeros(1, dtype=int)
    for number in range(20):

        @loom.kernel
        def add(x: loom.array(dtype=int), out: loom.array(dtype=int)):
            loom.atomic_add(out, 0, x[loom.tid()] * number)  # noqa: B023 - a constant of the kernel

        loom.launch(add, 10, [loom.ones(10, dtype=int), total])
    assert total[0] == 10 * sum(range(20))


def test_structs(device):
    particles = loom.zeros(50, dtype=Particle)
    one = Particle()
    one.velocity, one.mass = (1, 2, 4), 3.0
    particles[7] = one
    for _ in range(4):
        loom.launch(advance, 50, [particles, 0.5])
    assert particles[7].position == loom.vec3(2, 4, 8) and particles[6].position == loom.vec3(0, 0, 0)


def test_host_arrays_are_copied_for_the_launch(device):
    x = np.arange(10, dtype=np.int32)
    loom.launch(increment, 5, [x[::2]])
    assert x.tolist() == [1, 1, 3, 3, 5, 5, 7, 7, 9, 9]
    with pytest.raises(ValueError, match=f"is on device 'cpu', and the launch is on '{device}'"):
        loom.launch(increment, 5, [loom.zeros(5, dtype=int, device="cpu")])


def test_operators_run_there(device):
    x = loom.array([1.0, 2.0, 3.0])
    y = x * 2.0 + x
    assert y.device == device and y.list() == [3, 6, 9]


def test_views_of_arrays_with_strides(device):
    @loom.kernel
    def copy(a: loom.array(dtype=float, ndim=2), b: loom.array(dtype=float, ndim=2)):
        i, j = loom.tid()
        b[i, j] = a[i, j]

    host = np.arange(48, dtype=np.float32).reshape(6, 8)
    a, b = loom.array(host), loom.zeros((8, 3))
    loom.launch(copy, (8, 3), [a[::-2].transpose(), b])
    np.testing.assert_array_equal(b.numpy(), host[::-2].T)


def test_more_memory_than_there_is(device):
    with pytest.raises(loom.DeviceError, match=f"device '{device}' is out of memory"):
        loom.empty((1 << 30, 1 << 20), dtype=loom.float64)
    assert loom.ones(3).list() == [1, 1, 1]


def test_launches_that_cannot_be(device):
    with pytest.raises(ValueError, match="up to 1024 threads"):
        loom.launch(increment, 8, [loom.zeros(8, dtype=int)], block_dim=2048)
    loom.launch(increment, 0, [loom.zeros(0, dtype=int)])


ELEMENTS = {
    "int8": (loom.int8, 3),
    "bfloat16": (loom.bfloat16, 1.5),
    "float32": (loom.float32, 0.1),
    "float64": (loom.float64, 0.1),
    "vec3": (loom.vec3, (1, 2, 3)),
    "mat22d": (loom.mat22d, 2.5),
}


@pytest.mark.parametrize(("dtype", "value"), ELEMENTS.values(), ids=ELEMENTS.keys())
def test_filling_parts(device, dtype, value):
    there, host = (loom.zeros((5, 6), dtype=dtype, device=where) for where in (device, "cpu"))
    for part in (np.s_[1], np.s_[:, 4], np.s_[::2, ::-3], np.s_[2:4, 1:3], np.s_[0, 0], np.s_[...], np.s_[5:]):
        for each in (there, host):
            each.zero_()
            each[part] = value
        np.testing.assert_array_equal(there.numpy(), host.numpy())
    # More than is brought from the host at once.
    there, host = (loom.full((3, 40_000), value, dtype, where) for where in (device, "cpu"))
    np.testing.assert_array_equal(there.numpy(), host.numpy())


@pytest.mark.parametrize("dtype", [loom.int8, loom.float32, loom.vec3d], ids=["int8", "float32", "vec3d"])
def test_copies_that_stay_there(device, dtype):
    values = np.arange(6 * 4 * 3).reshape(6, 4, 3)[:, :, : 3 if dtype is loom.vec3d else 1]
    host = loom.array(values if dtype is loom.vec3d else values[:, :, 0], dtype=dtype, device="cpu")
    there = host.to(device)
    for to, source in (
        (np.s_[1], np.s_[2]),
        (np.s_[:, 1], np.s_[:, 2]),
        (np.s_[::2, ::-1], np.s_[3:]),
        (np.s_[1:], np.s_[:-1]),
    ):
        made, expect = loom.clone(there), loom.clone(host)
        made[to] = made[source]
        expect[to] = expect.numpy()[source].copy()
        np.testing.assert_array_equal(made.numpy(), expect.numpy())
        np.testing.assert_array_equal(there[source].contiguous().numpy(), host.numpy()[source])
    np.testing.assert_array_equal(there.transpose().contiguous().numpy(), host.transpose().contiguous().numpy())
