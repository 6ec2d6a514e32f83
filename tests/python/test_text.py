"""C++ and CUDA C++ text: every kernel of the file tests compiles without a warning, and computes what it should."""

import ctypes
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest
from nvidia import Nvrtc, find

FILE_TESTS = Path(__file__).parent.parent / "filetests"
CXX_FLAGS = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-x", "c++"]


def texts(target):
    """The texts of the kernels of the file tests but the generic ones, which have none before types are given."""
    found = []
    for folder in ("run", "differential", "cpp", "cuda"):
        for path in sorted((FILE_TESTS / folder).glob("*.py")):
            names = runpy.run_path(str(path)).values()
            for kernel in (k for k in names if isinstance(k, loom.Kernel) and not k.is_generic):
                try:
                    found.append(getattr(kernel, target)())
                except RuntimeError as error:
                    assert target == "cpp" and "needs CUDA C++" in str(error)
    assert len(found) > 60
    return found


@pytest.fixture(scope="module")
def nvrtc():
    path = find("lib/libnvrtc.so.13")
    if path is None:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    return Nvrtc(path)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cuda_text_compiles_without_a_warning(nvrtc, arch, tmp_path):
    ptxas = find("bin/ptxas")
    for text in texts("cuda"):
        log, ptx = nvrtc.compile(text, arch)
        assert log.strip("\n \0") == "", f"{log}\n{text}"
        assert "_cuda_kernel_forward" in ptx
    if ptxas is None:
        pytest.skip("nvidia-cuda-nvcc is not installed")
    # One is enough: what NVRTC writes, ptxas takes.
    (tmp_path / "kernel.ptx").write_text(ptx)
    subprocess.run([ptxas, f"-arch={arch}", tmp_path / "kernel.ptx", "-o", tmp_path / "kernel.cubin"], check=True)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_cpp_text_compiles_without_a_warning(compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    # Each in a namespace of its own, and includes before all of them.
    units = ["#include <cstdio>\n"]
    for number, text in enumerate(texts("cpp")):
        text = text.replace("#include <cstdio>\n", "").replace("namespace polyloom", f"namespace unit_{number}")
        units.append(re.sub(r"\b(\w+)_cpu_kernel_forward\(", rf"\1_{number}(", text))
    (tmp_path / "kernels.cpp").write_text("\n".join(units))
    done = subprocess.run(
        [compiler, *CXX_FLAGS, "-fsyntax-only", tmp_path / "kernels.cpp"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:4000]


@loom.kernel
def axpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]


def test_a_compiled_text_runs(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    (tmp_path / "axpy.cpp").write_text(axpy.cpp())
    library = tmp_path / "axpy.so"
    subprocess.run(["g++", *CXX_FLAGS, "-fPIC", "-shared", tmp_path / "axpy.cpp", "-o", library], check=True)

    class LaunchBounds(ctypes.Structure):
        _fields_ = [("shape", ctypes.c_uint64 * 4), ("report", ctypes.c_uint64)]

    class Array(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.c_int64 * 1), ("strides", ctypes.c_int64 * 1)]

    def array(values):
        return Array(values.ctypes.data, values.shape, values.strides)

    x, y = np.arange(10, dtype=np.float32), np.ones(10, dtype=np.float32)
    kernel = ctypes.CDLL(str(library)).axpy_cpu_kernel_forward
    bounds = LaunchBounds((10, 1, 1, 1), 0)
    kernel(bounds, ctypes.c_float(2.0), array(x), array(y), ctypes.c_uint64(0), ctypes.c_uint64(10))
    np.testing.assert_array_equal(y, 2 * np.arange(10) + 1)


def test_comments_are_lines_of_the_source():
    assert "// y[i] = a * x[i] + y[i]\n" in axpy.cuda(comments=True)
    assert "// y[i]" not in axpy.cuda()


# Kernels of texts take arrays by value, with addresses in them: this one makes them of pointers.
WRAPPER = """
namespace polyloom {
extern "C" __global__ void run(float16 *a, float16 *b, float *bias, float *c) {
    const launch_bounds dim = {{128, 1, 1, 1}, 0};
    const array<float16, 2> a_view = {a, {32, 32}, {64, 2}};
    const array<float16, 2> b_view = {b, {32, 32}, {64, 2}};
    const array<float, 1> bias_view = {bias, {32}, {4}};
    const array<float, 2> c_view = {c, {32, 32}, {128, 4}};
    matmul(dim, a_view, b_view, bias_view, c_view);
}
}
"""


def test_tensor_core_text_computes_the_interpreters_bits(nvrtc):
    matmul = runpy.run_path(str(FILE_TESTS / "cuda" / "tensor_core.py"))["matmul"]
    entry = r'extern "C" __global__ void __launch_bounds__\(32\) matmul_cuda_kernel_forward\('
    text, n = re.subn(entry, "__device__ void matmul(", matmul.cuda())
    assert n == 1
    log, ptx = nvrtc.compile(text + WRAPPER, "sm_80")
    assert "mma.sync" in ptx and "cp.async.cg" in ptx and "ld.global.nc" in ptx, log
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    bias, c = rng.standard_normal(32).astype(np.float32), rng.standard_normal((32, 32)).astype(np.float32)
    expected = c.copy()
    loom.launch(matmul, grid=(2, 2), inputs=[a, b, bias], outputs=[expected])
    loom.sim.Module(ptx).kernel("run").launch((2, 2), 32, [a, b, bias, c])
    np.testing.assert_array_equal(c.view(np.int32), expected.view(np.int32))
