"""Tasks on the CPU and a GPU, against the same launches one after the other."""

import random

import numpy as np
import polyloom as loom
import pytest


@loom.kernel
def scale(x: loom.array(dtype=float), f: float):
    i = loom.tid()
    x[i] = x[i] * f + 0.25


@loom.kernel
def combine(x: loom.array(dtype=float), y: loom.array(dtype=float), z: loom.array(dtype=float), f: float):
    i = loom.tid()
    z[i] = x[i] + y[i] * f


@pytest.mark.parametrize("seed", range(4))
def test_random_tasks_have_the_bits_of_one_device(device, seed):
    rng = random.Random(seed)
    first = np.random.default_rng(seed).random(96, np.float32)
    launches = [(rng.choice([scale, combine]), rng.sample(range(6), 3), rng.randrange(8) / 8) for _ in range(12)]

    def run(parts):
        for kernel, (a, b, c), f in launches:
            given = [parts[c]] if kernel is scale else [parts[a], parts[b], parts[c]]
            loom.launch(kernel, 16, [*given, f])

    expected = first.copy()
    run(np.split(expected, 6))
    # Half of the memory is the host's, half the device's.
    host, there = first[:48].copy(), loom.array(first[48:], device=device)
    with loom.tasks(["cpu", device], costs=lambda *given: rng.random() * 1e-3) as t:
        run([*np.split(host, 3), *(there[n : n + 16] for n in (0, 16, 32))])
    assert np.concatenate([host, there.numpy()]).tobytes() == expected.tobytes(), str(t)
    assert {record.device for record in t.timeline() if not record.is_copy} == {"cpu", str(device)}


def test_a_launch_is_split_between_the_cpu_and_the_device(device):
    x = np.arange(4096, dtype=np.float32)
    with loom.tasks(["cpu", device], costs=lambda *given: 1.0) as t:
        loom.launch(scale, 4096, [x, 2.0])
    assert (x == np.arange(4096, dtype=np.float32) * 2 + 0.25).all()
    assert sorted(record.device for record in t.timeline() if not record.is_copy) == sorted(["cpu", str(device)])


def test_auto_runs_where_the_machine_has_devices(device):
    x = loom.zeros(8, device=device)
    for _ in range(3):
        loom.launch(scale, 8, [x, 1.0], device="auto")
    assert x.list() == [0.75] * 8
