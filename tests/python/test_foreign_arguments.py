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

struct Vectors { char a; float2 b; char c; double2 d; char e; float4 f; uchar4 g; char h; float3 i; };
extern "C" __global__ void vectors(Vectors v, double* out) {
    out[0] = v.a; out[1] = v.b.x; out[2] = v.b.y; out[3] = v.c; out[4] = v.d.x; out[5] = v.d.y; out[6] = v.e;
    out[7] = v.f.x; out[8] = v.f.w; out[9] = v.g.w; out[10] = v.h; out[11] = v.i.z;
}
extern "C" __global__ void one_vector(float2 v, double* out) { out[0] = v.x; out[1] = v.y; }

struct Ten { int a[10]; };
extern "C" __global__ void ten(Ten t, int* out) { for (int i = 0; i < 10; i++) out[i] = t.a[i]; }

struct Number { int n; float* out; };
extern "C" __global__ void number(Number p) { p.out[0] = p.n; }
"""


@pytest.fixture(autouse=True)
def all_checks():
    loom.sim.configure(sanitize="all")
    yield
    loom.sim.configure(arch="sm_80", sanitize="default")


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


def test_vectors_lie_as_those_of_cuda(module):
    i8, f32 = np.int8, np.float32
    given = (
        *(i8(1), loom.vec2(2, 3), i8(4), loom.vec2d(5, 6), i8(7), loom.vec4(8, 0, 0, 9), loom.vec4ub(0, 0, 0, 10)),
        *(i8(11), loom.vec3(0, 0, 12)),
    )
    by_hand = (
        *(i8(1), loom.sim.aligned(8, f32(2), f32(3)), i8(4), np.complex128(5 + 6j), i8(7)),
        *(loom.sim.aligned(16, f32(8), f32(0), f32(0), f32(9)), loom.sim.aligned(4, *map(np.uint8, (0, 0, 0, 10)))),
        *(i8(11), (f32(0), f32(0), loom.float32(12))),
    )
    for struct in (given, by_hand):
        out = np.zeros(12)
        module.kernel("vectors").launch(1, 1, [struct, out])
        assert out.tolist() == list(range(1, 13))
    for vector in (loom.vec2(1, 2), np.complex64(1 + 2j), (loom.float32(1), loom.float32(2))):
        module.kernel("one_vector").launch(1, 1, [vector, out])
        assert out[:2].tolist() == [1, 2]
    with pytest.raises(TypeError, match="3 is no alignment"):
        module.kernel("one_vector").launch(1, 1, [loom.sim.aligned(3, f32(1), f32(2)), out])


def test_only_kernels_of_polyloom_are_told_what_is_launched(module):
    out = np.zeros(10, np.int32)
    module.kernel("ten").launch(1, 1, [tuple(np.arange(10, dtype=np.int32)), out])
    np.testing.assert_array_equal(out, np.arange(10))
    for given in (7, ()):
        with pytest.raises(TypeError, match="40 bytes"):
            module.kernel("ten").launch(1, 1, [given, out])
    with pytest.raises(TypeError, match=r"has 1 in it, .*: write np\.int32\(1\)"):
        module.kernel("ten").launch(1, 1, [(1, 2, 3), out])
    with pytest.raises(TypeError, match="takes 2 arguments"):
        module.kernel("ten").launch(1, 1, [out])


def test_members_of_no_size_are_refused_with_what_to_write(module):
    kernel = module.kernel("number")
    out = np.zeros(1, np.float32)
    kernel.launch(1, 1, [(loom.int32(5), out)])
    assert out[0] == 5
    for given, message in [
        ("abc", "write a number of NumPy's, a vector"),
        ([1, 2], "write a number of NumPy's, a vector"),
        (np.str_("ab"), "of no size that C knows"),
        (np.datetime64("2020"), "of no size that C knows"),
        (loom.mat22(1, 2, 3, 4), "of no size that C knows"),
        (np.array(3), r"write array\[\(\)\] for its number"),
    ]:
        with pytest.raises(TypeError, match=message):
            kernel.launch(1, 1, [(given, out)])
    with pytest.raises(TypeError, match=r"'shift_param_1' is \.u32, not an array: pass a number, such as array\.item"):
        module.kernel("shift").launch(1, 1, [(out, out), np.array(1)])


def test_structs_are_at_most_64_deep(module):
    given = (np.int32(3), np.zeros(1, np.float32))
    for _ in range(63):
        given = (given,)
    module.kernel("number").launch(1, 1, [given])
    for _ in range(100_000):
        given = (given,)
    with pytest.raises(TypeError, match="more than 64 deep"):
        module.kernel("number").launch(1, 1, [given])


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
    own(doubled).launch(2, 32, [(np.int64(10),), x])
    np.testing.assert_array_equal(x[:10], 4 * expected[:10])
    for given, message in [
        ((1, 1, 1, 1, 1), "one to four extents, not 5"),
        ((), "one to four extents, not 0"),
        (-1, "extents are not negative"),
        ((65536, 65536), r"fewer than 2\^31 threads"),
        (2**64, "does not take 18446744073709551616"),
        (True, "does not take True"),
        (2.0, "does not take 2.0"),
    ]:
        with pytest.raises(TypeError, match=message):
            own(doubled).launch(2, 32, [given, x])
    with pytest.raises(TypeError, match=r"_param_0_launch' is left out: a launch has fewer than 2\^31 threads"):
        own(doubled).launch((1 << 22, 1 << 9), 1, [x])


def test_kernels_of_polyloom_update_elements_of_8_bits():
    @loom.kernel
    def counts(x: loom.array(dtype=loom.int8)):
        loom.atomic_add(x, 2, loom.int8(1))

    x = np.zeros(9, np.int8)
    own(counts).launch(1, 32, [x[:3]])
    own(counts).launch(1, 32, [5, x[4:7]])
    assert x.tolist() == [0, 0, 32, 0, 0, 0, 5, 0, 0]


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
    kernel = loom.sim.Module(ptx).kernel("outer_cuda_kernel_forward")
    kernel.launch(1, 32, [(4, 5), 10.0, x[::-2], y.T])
    expected = np.float32(10) * x[::-2, None] + np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(y.T, expected)
    # As many threads as the grid has: a column.
    kernel.launch(1, 4, [20.0, x[::-2], y.T])
    expected[:, 0] *= 2
    np.testing.assert_array_equal(y.T, expected)


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
    # What is refused writes nothing.
    for grid, args in ((1, [y, 3.0]), (0, [y, x]), (1, [(y, x), x])):
        with pytest.raises((TypeError, ValueError)):
            own(squares).launch(grid, 32, args)
    y.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(32, 2.0))
    with loom.Tape() as tape:
        loom.launch(squares, 32, [x, y])
    own(squares).launch(1, 32, [y, x])
    with pytest.raises(RuntimeError, match=r"a kernel of `loom\.sim\.Module` has overwritten"):
        tape.backward()


class GivesOneCapsule:
    """An object whose `__dlpack__` knows no versions and gives the same capsule whenever it is asked."""

    def __init__(self, array):
        self.capsule = array.__dlpack__()

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_a_kernel_that_writes_asks_for_no_second_capsule_of_one(device):
    @loom.kernel
    def fill(x: loom.array(dtype=float)):
        x[loom.tid()] = 2.0

    x = np.zeros(3, np.float32)
    loom.launch(fill, 3, [GivesOneCapsule(x)], device=device)
    assert x.tolist() == [2.0] * 3
