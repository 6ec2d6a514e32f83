"""Tests of kernels on GPUs. Each runs on the simulator, which is always there, and on `cuda:0` where there is one."""

import os
import tempfile

# Tests compile afresh and leave nothing behind.
os.environ.setdefault("POLYLOOM_CACHE_DIR", tempfile.mkdtemp(prefix="polyloom-test-cache-"))

import numpy as np
import polyloom as loom
import pytest


def reason_for_no_gpu():
    """Why there is no CUDA device; nothing if there is one."""
    try:
        loom.get_device("cuda:0")
    except loom.DeviceError as error:
        return str(error)
    return ""


NO_GPU = reason_for_no_gpu()


def is_simulated(device):
    """True of the simulator, and of `cuda:0` over the simulated driver (`make test-gpu-simulated`)."""
    return str(device) == "sim:0" or loom.get_device(device).name.startswith("Polyloom simulator")


@pytest.fixture(name="is_simulated")
def _is_simulated():
    return is_simulated


@pytest.fixture
def small(device):
    """True where work has to be small."""
    return is_simulated(device)


def pytest_terminal_summary(terminalreporter):
    if NO_GPU:
        terminalreporter.write_line(f"tests/gpu ran on the simulator alone, and skipped cuda:0: {NO_GPU}")


@pytest.fixture(params=["sim:0"] if NO_GPU else ["sim:0", "cuda:0"])
def device(request):
    """The device that a test is about. What is made without naming another is there."""
    with loom.ScopedDevice(request.param):
        yield loom.get_device()


@pytest.fixture
def cuda():
    """The first CUDA device."""
    if NO_GPU:
        pytest.skip(NO_GPU)
    with loom.ScopedDevice("cuda:0"):
        yield loom.get_device()


@pytest.fixture
def same_as_cpu(device):
    """Runs a kernel on the CPU and on the device, on copies of the arguments, and compares the bits of all arrays."""

    def check(kernel, dim=None, args=(), **options):
        results = []
        for where in ("cpu", device):
            copies = [array.copy() if isinstance(array, np.ndarray) else array for array in args]
            loom.launch(kernel, dim, copies, device=where, **options)
            results.append([array for array in copies if isinstance(array, np.ndarray)])
        for expected, found in zip(*results, strict=True):
            assert_same_bits(found, expected)
        return results[1]

    return check


def assert_same_bits(found, expected):
    """Equal arrays; NaNs equal NaNs whatever their bits, and zeros have their sign."""
    if found.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found[~np.isnan(found)]), np.signbit(expected[~np.isnan(expected)]))
    np.testing.assert_array_equal(found, expected)
