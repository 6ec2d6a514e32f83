"""Queues of a device: order, events, and what they share with the default queue."""

import numpy as np
import polyloom as loom
import pytest
from polyloom import _native
from queue_kernels import double, spin


@loom.kernel(check=True)
def beyond(x: loom.array(dtype=float)):
    x[loom.tid() + 8 * int(x[0])] = 1.0


def test_launches_of_a_queue_are_in_order(device):
    queue = _native.Queue(device)
    x, y = loom.full(4096, 3.0), loom.zeros(4096)
    for _ in range(4):
        queue.launch(spin, 4096, [x, 2000])
    queue.launch(double, 4096, [x, y])
    queue.synchronize()
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())
    assert (queue.handle != 0) == device.startswith("cuda")


def test_a_queue_waits_for_the_event_of_another(device, small):
    first, second = _native.Queue(device), _native.Queue(device)
    x, y = loom.full(1 << 16, 3.0), loom.zeros(1 << 16)
    begin = first.record()
    first.launch(spin, 1 << 16, [x, 20 if small else 200_000])
    end = first.record()
    second.wait(end)
    second.launch(double, 1 << 16, [x, y])
    second.synchronize()
    assert end.is_done and end.seconds_since(begin) > 0
    end.synchronize()
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())


def test_the_default_queue_comes_after_others(device, small):
    queue = _native.Queue(device)
    x, y = loom.full(1 << 16, 3.0), loom.zeros(1 << 16)
    queue.launch(spin, 1 << 16, [x, 20 if small else 200_000])
    loom.launch(double, 1 << 16, [x, y])
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())


def test_arrays_of_the_host_and_failed_checks(device):
    queue = _native.Queue(device)
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    queue.launch(double, 8, [x, y])
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]
    with pytest.raises(loom.LaunchError, match="index 8 is out of bounds"):
        queue.launch(beyond, 1, [loom.ones(8)])


def test_memory_is_given_back_after_the_work_of_the_queue(device):
    for _ in range(20):
        x = loom.full(1 << 16, 3.0)
        loom.launch(spin, 1 << 16, [x, 10])
        del x
    loom.synchronize()


def test_a_queue_of_another_device_is_refused(cuda):
    with pytest.raises(ValueError, match="is on device 'cuda:0'"):
        _native.Queue("sim:0").launch(double, 4, [loom.zeros(4), loom.zeros(4)])


def test_properties(device):
    found = device.properties
    assert found["id"] == device and found["warp_size"] == 32 and found["threads_per_block"] == 1024
    major, minor = found["capability"]
    assert device.arch == 10 * major + minor
    for name in ("shared_bytes_per_block", "registers_per_block", "threads_per_multiprocessor"):
        assert found[name] >= 1024, name
    if device.is_cuda:
        assert found["n_multiprocessors"] > 0 and found["clock_khz"] > 0 and found["l2_bytes"] > 0
        assert found["memory_clock_khz"] > 0 and found["memory_bus_bits"] > 0
        # The tables of the architecture say what the driver says.
        limits = device.limits
        assert found["registers_per_multiprocessor"] == limits["registers_per_multiprocessor"]
        assert found["threads_per_multiprocessor"] == limits["max_threads_per_multiprocessor"]
        assert found["shared_bytes_per_multiprocessor"] == limits["shared_memory_per_multiprocessor"]
        assert found["opt_in_shared_bytes_per_block"] == limits["max_shared_memory_per_block"]
