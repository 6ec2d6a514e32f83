"""CUDA C++ of kernels, compiled by NVIDIA's nvcc: as a program with a GPU backend of its own would load it."""

import shutil
import struct
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest
from polyloom import ops


def find_nvcc():
    """Returns the compiler of the package `nvidia-cuda-nvcc`, or one that is on the path."""
    packaged = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin/nvcc"))
    return str(packaged[-1]) if packaged else shutil.which("nvcc")


NVCC = find_nvcc()
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed (`pip install nvidia-cuda-nvcc`)")


def compiled(folder, text, form):
    source, out = folder / "kernel.cu", folder / f"kernel.{form}"
    source.write_text(text)
    subprocess.run([NVCC, f"-{form}", "-arch=sm_80", str(source), "-o", str(out)], check=True)
    return out.read_bytes()


def launch_bounds(n):
    """Returns the first argument of an entry: the extents of a launch of `n` threads, and no address of a report."""
    return struct.pack("5Q", n, 1, 1, 1, 0)


def vector(a):
    """Returns the argument of a one-dimensional array of float32: its address, its extent, and its stride in bytes."""
    return struct.pack("Qqq", a.ptr, a.shape[0], 4)


@loom.kernel
def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]


@loom.fuse
def normalised(x):
    return ops.tanh(ops.multiply(ops.softmax(x), 3.0))


@needs_nvcc
def test_a_kernel_compiled_by_nvcc_runs(device, tmp_path):
    ptx = compiled(tmp_path, saxpy.cuda(), "ptx").decode()
    name, n = "saxpy_cuda_kernel_forward", 1000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    if str(device) == "sim:0":
        loom.sim.Module(ptx).kernel(name).launch(8, 128, [n, 2.0, x, y])
        assert (y == 2.0 * x + 1.0).all()
        return
    on_device, result = loom.array(x, device=device), loom.array(y, device=device)
    arguments = [launch_bounds(n), np.float32(2.0), vector(on_device), vector(result)]
    loom.GpuModule(ptx, device=device).kernel(name).launch(8, 128, arguments)
    assert (result.numpy() == 2.0 * x + 1.0).all()


@needs_nvcc
def test_fused_functions_become_machine_code_by_nvcc(tmp_path):
    normalised(np.ones((3, 5), np.float32))
    (group,) = normalised.groups
    assert compiled(tmp_path, group.cuda(), "cubin").startswith(b"\x7fELF")
