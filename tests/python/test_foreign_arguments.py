"""Arguments of kernels in PTX, whoever wrote it: structs, what Polyloom's own kernels take, arrays on the simulator."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest
from nvidia import Nvrtc, find

SOURCE = r"""
struct Particles {
    float* x;
    const float* v;
    short n;
    struct { double step[2]; char sign; } how;
    unsigned long long* count;
};

extern "C" __global__ void advance(Particles p, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n) return;
    p.x[i] += scale * p.how.sign * (float)(p.how.step[0] + p.how.step[1]) * p.v[i];
    atomicAdd(p.count, 1ull);
}

struct Pair { const int* a; int* b; };
extern "C" __global__ void shift(Pair p, int n) {
    int i = threadIdx.x;
    if (i < n) p.b[i] = p.a[i];
}
"""


@pytest.fixture(autouse=True)
def all_checks():
    loom.sim.configure(sanitize="all")
    yield
    loom.sim.configure(arch="sm_80", sanitize="none")


@pytest.fixture(scope="module")
def module():
    library = find("lib/libnvrtc.so*")
    if library is None:
        pytest.skip("NVRTC is not installed (PyPI: nvidia-cuda-nvrtc)")
    log, ptx = Nvrtc(library).compile(SOURCE, "sm_80")
    assert ptx, log
    return loom.sim.Module(ptx)


def particles(n=100):
    random = np.random.default_rng(5)
    x, v = random.normal(size=(2, n)).astype(np.float32)
    count = np.zeros(1, np.uint64)
    how = (np.float64(0.25), np.float64(0.5)), np.int8(-2)
    return x, v, count, (x, v, np.int16(n), how, count)


def test_tuples_are_structs(module):
    kernel = module.kernel("advance")
    x, v, count, given = particles()
    expected = x - np.float32(3) * v
    kernel.launch(2, 64, [given, 2.0])
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    assert count[0] == 100


def test_arrays_in_structs_are_those_of_the_caller(module):
    kernel = module.kernel("shift")
    # Two arrays over one memory, of which the kernel's threads touch different halves.
    memory = np.arange(64, dtype=np.int32)
    kernel.launch(1, 32, [(memory, memory[32:]), 32])
    np.testing.assert_array_equal(memory, np.tile(np.arange(32), 2))
    fixed = np.zeros(32, np.int32)
    fixed.flags.writeable = False
    kernel.launch(1, 32, [(memory, fixed), 32])
    assert not fixed.any()
    with pytest.raises(loom.SanitizerError, match=r"past the end of `shift_param_0\.1` \(128 bytes"):
        kernel.launch(1, 64, [(np.zeros(64, np.int32), np.zeros(32, np.int32)), 64])


def test_what_is_no_such_struct_is_refused(module):
    kernel = module.kernel("advance")
    x, v, count, given = particles()
    with pytest.raises(TypeError, match="'advance_param_0' has 56 bytes, the struct that is given 48"):
        kernel.launch(1, 1, [given[:-1], 2.0])
    with pytest.raises(TypeError, match=r"has 100 in it, .*: write np\.int32\(100\)"):
        kernel.launch(1, 1, [(x, v, 100, given[3], count), 2.0])
    with pytest.raises(TypeError, match=r"write np\.float32\(0\.5\)"):
        kernel.launch(1, 1, [(x, v, np.int16(1), ((0.5, 0.5), np.int8(1)), count), 2.0])
    with pytest.raises(TypeError, match=r"write np\.bool_\(True\)"):
        kernel.launch(1, 1, [(True,), 2.0])
    with pytest.raises(ValueError, match="not contiguous"):
        kernel.launch(1, 1, [(x[::2], *given[1:]), 2.0])
    with pytest.raises(TypeError, match="'advance_param_0' has 56 bytes, where an address has 8"):
        kernel.launch(1, 1, [x, 2.0])
    with pytest.raises(TypeError, match="'advance_param_0' is .b8 of 56 bytes: pass a tuple for a struct"):
        kernel.launch(1, 1, [3, 2.0])


@loom.kernel
def outer(a: float, x: loom.array(dtype=float), y: loom.array2d(dtype=float)):
    i, j = loom.tid()
    y[i, j] = a * x[i] + float(j)


@loom.kernel
def doubled(x: loom.array(dtype=loom.vec3)):
    i = loom.tid()
    x[i] = 2.0 * x[i]


def own(kernel):
    return loom.sim.Module(kernel.ptx()).kernel(f"{kernel.key}_cuda_kernel_forward")


def test_kernels_of_polyloom_take_arrays_of_any_strides():
    x, y = np.arange(8, dtype=np.float32), np.zeros((5, 4), np.float32)
    own(outer).launch(1, 32, [(4, 5), 10.0, x[::-2], y.T])
    np.testing.assert_array_equal(y.T, np.float32(10) * x[::-2, None] + np.arange(5, dtype=np.float32))


def test_kernels_of_polyloom_run_over_the_grid():
    x = np.arange(192, dtype=np.float32).reshape(64, 3)
    expected = 2 * x
    own(doubled).launch(2, 32, [x])
    np.testing.assert_array_equal(x, expected)
    own(doubled).launch(2, 32, [10, x])
    np.testing.assert_array_equal(x[:10], 2 * expected[:10])
    np.testing.assert_array_equal(x[10:], expected[10:])
    with pytest.raises(TypeError, match=r"has 40 bytes, .* array of 1 dimensions has 24"):
        own(doubled).launch(2, 32, [x[:, 0]])
    with pytest.raises(TypeError, match="at most four extents"):
        own(doubled).launch(2, 32, [(1, 1, 1, 1, 1), x])
    with pytest.raises(TypeError, match="fewer than 2"):
        own(doubled).launch(2, 32, [-1, x])


def test_scalars_of_any_type_are_arguments():
    @loom.kernel
    def scalars(h: loom.float16, flag: bool, small: loom.int8, wide: loom.float64, out: loom.array(dtype=loom.float64)):
        if flag:
            out[0] = loom.float64(h)
            out[1] = loom.float64(small)
            out[2] = wide

    out = np.zeros(3)
    own(scalars).launch(1, 32, [1, np.float16(0.5), True, -3, 0.1, out])
    assert out.tolist() == [0.5, -3.0, 0.1]


def test_cuda_text_of_polyloom_takes_the_same():
    library = find("lib/libnvrtc.so*")
    if library is None:
        pytest.skip("NVRTC is not installed (PyPI: nvidia-cuda-nvrtc)")
    log, ptx = Nvrtc(library).compile(outer.cuda(), "sm_80")
    assert ptx, log
    x, y = np.arange(8, dtype=np.float32), np.zeros((5, 4), np.float32)
    loom.sim.Module(ptx).kernel("outer_cuda_kernel_forward").launch(1, 32, [(4, 5), 10.0, x[::-2], y.T])
    np.testing.assert_array_equal(y.T, np.float32(10) * x[::-2, None] + np.arange(5, dtype=np.float32))


def test_arrays_on_the_simulator_are_used_where_they_are(module):
    kernel = module.kernel("shift")
    a, b = loom.array(np.arange(32), dtype=int, device="sim:0"), loom.zeros(32, dtype=int, device="sim:0")
    kernel.launch(1, 32, [(a, b), 32])
    np.testing.assert_array_equal(b.numpy(), np.arange(32))
    host = np.zeros(32, np.int32)
    kernel.launch(1, 32, [(a, host), 32])
    np.testing.assert_array_equal(host, np.arange(32))
    with pytest.raises(loom.SanitizerError, match=r"past the end of `shift_param_0\.1` \(128 bytes"):
        kernel.launch(1, 64, [(loom.zeros(64, dtype=int, device="sim:0"), b), 64])
    # Strides too.
    x, y = loom.array(np.arange(8), dtype=float, device="sim:0"), loom.zeros((4, 5), dtype=float, device="sim:0")
    own(outer).launch(1, 32, [(4, 5), 10.0, x[::2], y])
    np.testing.assert_array_equal(y.numpy(), 20 * np.arange(4)[:, None] + np.arange(5))


def test_arrays_of_polyloom_on_the_cpu_are_arrays(module):
    a, b = loom.array(np.arange(32), dtype=int), loom.zeros(32, dtype=int)
    module.kernel("shift").launch(1, 32, [(a, b), 32])
    np.testing.assert_array_equal(b.numpy(), np.arange(32))


class OnCuda:
    """Like a tensor on a GPU."""

    __cuda_array_interface__ = {"shape": (4,), "typestr": "<i4", "data": (4096, False), "version": 3}


def test_arrays_on_gpus_are_refused(module):
    with pytest.raises(TypeError, match=r"'shift_param_0' is on a CUDA device, .* pass a copy on the host"):
        module.kernel("shift").launch(1, 1, [(OnCuda(), None), 4])


def test_a_forked_process_loads_its_modules_anew(tmp_path):
    program = """
import os, numpy as np, polyloom as loom
@loom.kernel
def doubled(x: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = 2.0 * x[i]
kernel = loom.sim.Module(doubled.ptx()).kernel("doubled_cuda_kernel_forward")
def check():
    x = loom.array(np.arange(32), dtype=float, device="sim:0")
    kernel.launch(1, 32, [x])
    assert (x.numpy() == 2 * np.arange(32)).all()
check()
child = os.fork()
if child == 0:
    try:
        check()
    except BaseException:
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    (tmp_path / "program.py").write_text(program)
    subprocess.run([sys.executable, str(tmp_path / "program.py")], check=True, timeout=120)


def test_tapes_are_told_what_such_a_kernel_writes():
    @loom.kernel
    def squares(x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = x[i] * x[i]

    x = loom.ones(32, dtype=float, requires_grad=True)
    y = loom.zeros(32, dtype=float, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(squares, 32, [x, y])
    own(squares).launch(1, 32, [y, x])
    y.grad.fill_(1.0)
    with pytest.raises(RuntimeError, match=r"a kernel of `loom\.sim\.Module` has overwritten"):
        tape.backward()
