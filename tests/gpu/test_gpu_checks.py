"""What kernels report: failed checks, assertions, and what they print."""

import os
import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest


@loom.kernel(check=True)
def shifted(x: loom.array(dtype=float), k: int):
    i = loom.tid()
    x[i + k] = x[i]


@loom.kernel(check=True)
def divided(x: loom.array(dtype=int), k: int):
    i = loom.tid()
    assert k < 5, "too far"
    x[i] = x[i] // k


def failure(kernel, device, *args):
    with pytest.raises(loom.LaunchError) as caught:
        loom.launch(kernel, (10,), args, device=device)
    error = caught.value
    return str(error), error.kernel, error.line, error.index, error.extent, error.thread


def test_an_index_out_of_bounds_is_reported_as_on_the_cpu(device):
    x = np.zeros(10, np.float32)
    found = failure(shifted, device, loom.array(x), 1)
    assert found == failure(shifted, "cpu", x, 1)
    assert found[3:] == (10, 10, (9,))
    # With an array of the host's, whose other elements are written.
    ones = np.ones(10, np.float32)
    ones[0] = 5
    assert failure(shifted, device, ones, 1)[3:] == (10, 10, (9,))


def test_divisions_and_assertions(device):
    for k in (0, 7):
        message, *_ = failure(divided, device, loom.ones(10, dtype=int), k)
        assert ("division by zero" if k == 0 else "too far") in message and "divided" in message
    x = loom.full(10, 8, dtype=int)
    loom.launch(divided, 10, [x, 2])
    assert x.list() == [4] * 10


def test_a_device_goes_on_after_a_failed_check(device):
    x = loom.zeros(10)
    for _ in range(3):
        failure(shifted, device, x, 1)
    loom.launch(shifted, 9, [x, 1])
    assert x.list() == [0] * 10


def test_print(device, capfd):
    @loom.kernel
    def speak(x: loom.array(dtype=float)):
        i = loom.tid()
        loom.printf("%d is %.2f\n", i, x[i])

    loom.launch(speak, 3, [loom.array([1.5, 2.25, -1.0])])
    loom.synchronize()
    sys.stdout.flush()
    assert sorted(capfd.readouterr().out.splitlines()) == ["0 is 1.50", "1 is 2.25", "2 is -1.00"]


FAR = """
import polyloom as loom

@loom.kernel
def far(x: loom.array(dtype=float), k: int):
    x[loom.tid() + k] = 1.0

x = loom.zeros(4, device="cuda:0")
try:
    loom.launch(far, 4, [x, 1 << 30], device="cuda:0", unchecked=True)
    loom.synchronize()
except loom.DeviceError as error:
    print(error)
try:
    x.numpy()
except loom.DeviceError as error:
    print("again:", error)
"""


def test_an_illegal_access_is_an_error_and_no_crash(cuda, tmp_path):
    """In a process of its own: the device is lost to it."""
    script = tmp_path / "far.py"
    script.write_text(FAR)
    # A simulated driver finds there what is planted, which its report is to leave out.
    environment = {**os.environ, "POLYLOOM_GPU_REPORT": ""}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    # On H200 the driver says that the address is in no address space.
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in first or "CUDA_ERROR_INVALID_ADDRESS_SPACE" in first
    assert "is lost to this process" in first
    assert second.startswith("again: ") and "cuda:0" in second
