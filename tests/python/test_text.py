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
from block_kernels import dynamic_particles, particles, particles_and_swapped
from nvidia import Nvrtc, find, ptxas

FILE_TESTS = Path(__file__).parent.parent / "filetests"
CXX_FLAGS = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-x", "c++"]


GPU_EXAMPLES = Path(__file__).parents[2] / "examples" / "gpu"


def kernels():
    """The kernels of the file tests and of the examples for GPUs, but generic ones, which need types first."""
    paths = [
        path for folder in ("run", "differential", "cpp", "cuda") for path in sorted((FILE_TESTS / folder).glob("*.py"))
    ]
    for path in [*paths, *sorted(GPU_EXAMPLES.glob("*.py"))]:
        names = runpy.run_path(str(path)).values()
        yield from (k for k in names if isinstance(k, loom.Kernel) and not k.is_generic)


def texts(target):
    found = [getattr(kernel, target)() for kernel in kernels()]
    assert len(found) > 70
    return found


def backward_texts(target, **options):
    """Those of the backward kernels of all that have one."""
    found = []
    for kernel in kernels():
        try:
            found.append(getattr(kernel, target)(backward=True, **options))
        except loom.CompileError as error:
            assert "PL0701" in str(error)
    assert len(found) > 40
    return found


@pytest.fixture(scope="module")
def nvrtc():
    path = find("lib/libnvrtc.so.13")
    if path is None:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    return Nvrtc(path)


@pytest.fixture(scope="module")
def assemble(tmp_path_factory):
    program = ptxas()
    folder = tmp_path_factory.mktemp("ptx")

    def assemble(ptx, arch):
        (folder / "kernel.ptx").write_text(ptx)
        command = [program, f"-arch={arch}", folder / "kernel.ptx", "-o", folder / "kernel.cubin"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stderr}\n{ptx}"

    return assemble


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cuda_text_compiles_without_a_warning(nvrtc, arch, assemble):
    for text in texts("cuda"):
        log, ptx = nvrtc.compile(text, arch)
        assert log.strip("\n \0") == "", f"{log}\n{text}"
        assert "_cuda_kernel_forward" in ptx
    # One is enough: what NVRTC writes, ptxas takes.
    assemble(ptx, arch)


def test_backward_cuda_text_compiles_without_a_warning(nvrtc):
    for text in backward_texts("cuda"):
        log, ptx = nvrtc.compile(text, "sm_80")
        assert log.strip("\n \0") == "", f"{log}\n{text}"
        assert "_cuda_kernel_backward" in ptx


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvcc_takes_cuda_text_without_a_warning(arch, tmp_path):
    nvcc = find("bin/nvcc") or shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed (PyPI: nvidia-cuda-nvcc)")
    # All kernels in one file would share a namespace: a text for each, in one call.
    found = texts("cuda")
    chosen = [next(text for text in found if "printf" in text), *found[:: len(found) // 4]]
    for number, text in enumerate(chosen):
        (tmp_path / f"kernel_{number}.cu").write_text(text)
        command = [nvcc, f"-arch={arch}", "-ptx", f"kernel_{number}.cu", "-Werror", "all-warnings"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), f"{done.stderr}\n{text}"


def test_ptx_of_every_kernel_is_assembled(assemble):
    for kernel in kernels():
        assemble(kernel.ptx("sm_90"), "sm_90")
    for ptx in backward_texts("ptx", arch="sm_90"):
        assemble(ptx, "sm_90")


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
        [compiler, *CXX_FLAGS, "-c", tmp_path / "kernels.cpp", "-o", tmp_path / "kernels.o"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[:4000]


def functions_as_static(text):
    """A text that compilers warn of: its functions seem to be of this file alone, so each has to be called."""
    return re.sub(r"^(__device__ )?inline ", r"static \1", text, flags=re.MULTILINE)


@pytest.mark.skipif(shutil.which("clang++") is None, reason="no clang++, which warns of unused templates")
@pytest.mark.parametrize("found", [texts, backward_texts], ids=["forward", "backward"])
def test_cpp_text_has_no_function_that_nothing_calls(found, tmp_path):
    units = ["#include <cstdio>\n"]
    for number, text in enumerate(found("cpp")):
        text = text.replace("#include <cstdio>\n", "").replace("namespace polyloom", f"namespace unit_{number}")
        text = re.sub(r"\b(\w+)_cpu_kernel_(forward|backward)\(", rf"\1_{number}(", text)
        units.append(functions_as_static(text))
    (tmp_path / "kernels.cpp").write_text("\n".join(units))
    warnings = ["-Wunused-function", "-Wunused-template", "-Werror", "-ferror-limit=0"]
    command = ["clang++", "-std=c++17", "-fsyntax-only", *warnings, tmp_path / "kernels.cpp"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


@pytest.mark.parametrize("found", [texts, backward_texts], ids=["forward", "backward"])
def test_cuda_text_has_no_function_that_nothing_calls(nvrtc, found):
    for text in found("cuda"):
        # "Declared but never referenced", of functions that are no templates.
        log, _ = nvrtc.compile(functions_as_static(text), "sm_80")
        assert log.strip("\n \0") == "", f"{log}\n{text}"
        templates = re.findall(r"^template <.*>\n__device__ inline .*?(\w+)\(", text, flags=re.MULTILINE)
        for name in templates:
            n_calls = len(re.findall(rf"\b{name}\b", text)) - templates.count(name)
            assert n_calls > 0, f"{name}\n{text}"


@loom.kernel
def axpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]


class LaunchBounds(ctypes.Structure):
    _fields_ = [("shape", ctypes.c_uint64 * 4), ("report", ctypes.c_uint64)]


class LaunchBlocks(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_int * 3), ("block", ctypes.c_int * 3), ("shared_bytes", ctypes.c_int)]


def array(values):
    extents = ctypes.c_int64 * values.ndim
    fields = [("data", ctypes.c_void_p), ("shape", extents), ("strides", extents)]
    return type("Array", (ctypes.Structure,), {"_fields_": fields})(values.ctypes.data, values.shape, values.strides)


def compiled(kernel, tmp_path, flags=(), **options):
    """A kernel's C++ text as a function."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    (tmp_path / "kernel.cpp").write_text(kernel.cpp(**options))
    library = tmp_path / "kernel.so"
    command = ["g++", *CXX_FLAGS, *flags, "-fPIC", "-shared", tmp_path / "kernel.cpp", "-o", library]
    subprocess.run(command, check=True)
    return getattr(ctypes.CDLL(str(library)), f"{kernel.__name__}_cpu_kernel_forward")


def test_a_compiled_text_runs(tmp_path):
    x, y = np.arange(10, dtype=np.float32), np.ones(10, dtype=np.float32)
    kernel = compiled(axpy, tmp_path)
    bounds = LaunchBounds((10, 1, 1, 1), 0)
    kernel(bounds, ctypes.c_float(2.0), array(x), array(y), ctypes.c_uint64(0), ctypes.c_uint64(10))
    np.testing.assert_array_equal(y, 2 * np.arange(10) + 1)


@loom.kernel
def parts(p: loom.array(dtype=loom.vec3), y: loom.array(dtype=float)):
    i = loom.tid()
    v = p[i]
    y[i] = v[0] * v[1] + v[2] * v[0]


def test_a_compiled_backward_text_runs(tmp_path):
    """Adjoints of components are added one by one; text that named no component left them out."""
    text = parts.cpp(backward=True)
    body = text[text.index("parts_cpu_kernel_backward") :]
    assert "adj_v[0] = adj_v[0] + " in body and "with_component" not in text
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    (tmp_path / "kernel.cpp").write_text(text)
    library = tmp_path / "kernel.so"
    subprocess.run(["g++", *CXX_FLAGS, "-fPIC", "-shared", tmp_path / "kernel.cpp", "-o", library], check=True)
    backward = ctypes.CDLL(str(library)).parts_cpu_kernel_backward
    p = np.random.default_rng(3).random((10, 3), dtype=np.float32)
    y, adj_p, adj_y = np.zeros(10, np.float32), np.zeros_like(p), np.ones(10, np.float32)
    bounds = LaunchBounds((10, 1, 1, 1), 0)
    backward(bounds, *map(array, (p, y, adj_p, adj_y)), ctypes.c_uint64(0), ctypes.c_uint64(10))
    np.testing.assert_allclose(adj_p, np.stack([p[:, 1] + p[:, 2], p[:, 0], p[:, 0]], axis=1), rtol=1e-6)


@loom.kernel
def reversed_blocks(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    tile = loom.dynamic_shared(shape=64, dtype=float)
    i = loom.tid()
    t = loom.thread_idx()
    tile[t] = x[i]
    loom.sync_threads()
    here = loom.min(loom.block_dim(), x.shape[0] - loom.block_idx() * loom.block_dim())
    y[i] = tile[here - 1 - t] + loom.warp_reduce_max(x[i])


@pytest.mark.parametrize("size", [16, 40])
def test_a_compiled_text_runs_a_block_at_a_time(size, tmp_path):
    x = np.random.default_rng(size).random(100, dtype=np.float32)
    y, expected = np.zeros_like(x), np.zeros_like(x)
    loom.launch(reversed_blocks, 100, inputs=[x, expected], block=size, shared_bytes=256)
    n_blocks = -(-100 // size)
    kernel = compiled(reversed_blocks, tmp_path)
    bounds, blocks = LaunchBounds((100, 1, 1, 1), 0), LaunchBlocks((n_blocks, 1, 1), (size, 1, 1), 256)
    for block in reversed(range(n_blocks)):
        kernel(bounds, blocks, array(x), array(y), ctypes.c_uint64(block), ctypes.c_uint64(block + 1))
    np.testing.assert_array_equal(y.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize(("kernel", "shared_bytes"), [(particles, 0), (dynamic_particles, 8 + 32 * 23)])
def test_texts_with_shared_structs_run(kernel, shared_bytes, tmp_path, nvrtc):
    given, expected = particles_and_swapped()
    on_cpu, on_gpu = ([a.copy() for a in given] for _ in range(2))
    bounds, blocks = LaunchBounds((64, 1, 1, 1), 0), LaunchBlocks((2, 1, 1), (32, 1, 1), shared_bytes)
    compiled(kernel, tmp_path)(bounds, blocks, *map(array, on_cpu), ctypes.c_uint64(0), ctypes.c_uint64(2))
    log, ptx = nvrtc.compile(kernel.cuda(), "sm_80")
    assert log.strip("\n \0") == "", log
    entry = loom.sim.Module(ptx).kernel(f"{kernel.__name__}_cuda_kernel_forward")
    entry.launch(2, 32, [64, *on_gpu], shared_bytes=shared_bytes)
    for found in (on_cpu, on_gpu):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_comments_are_lines_of_the_source():
    assert "// y[i] = a * x[i] + y[i]\n" in axpy.cuda(comments=True)
    assert "// y[i]" not in axpy.cuda()


@loom.kernel
def sign(x: loom.array(dtype=float), out: loom.array(dtype=int)):
    i = loom.tid()
    if x[i] > 0.0:
        out[i] = 1
    elif x[i] < 0.0:
        out[i] = -1


def test_comments_keep_else_if():
    assert "} else if (x[i] < 0.0f) {  // elif x[i] < 0.0:\n" in sign.cuda(comments=True)


def scaled_by(weights):
    @loom.func
    def scaled(x: float, k: int):
        return x * weights[k]

    return scaled


vec9 = loom.types.vector(length=9, dtype=float)
weights = vec9(*range(9))
doubled, negated = scaled_by(vec9(*range(0, 18, 2))), scaled_by(vec9(*range(0, -9, -1)))


@loom.kernel
def weighted(x: loom.array(dtype=float), k: int):
    i = loom.tid()
    x[i] = weights[k] * doubled(x[i], k) * negated(x[i], k) + weights[i]


def test_tables_are_named_as_captured():
    text = weighted.cuda()
    tables = dict(re.findall(r"__constant__ float (\w+)\[9\] = \{([^}]*)\}", text))
    first = {name: values.split()[1] for name, values in tables.items()}
    assert first == {"weights": "1.0f,", "weights_2": "2.0f,", "weights_3": "-1.0f,"}
    assert "lookup(constants::weights, wrap_place(k, 9))" in text


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


def test_tensor_core_text_for_the_oldest_architecture(nvrtc, assemble):
    @loom.kernel(block_dim=32)
    def square(a: loom.array(dtype=loom.float16, ndim=2), c: loom.array(dtype=float, ndim=2)):
        loom.mma_store(c, 0, 0, loom.mma(loom.mma_load_a(a, 0, 0), loom.mma_load_b(a, 0, 0), loom.mma_load_c(c, 0, 0)))

    entry = r'extern "C" __global__ void __launch_bounds__\(32\) square_cuda_kernel_forward\('
    text, n = re.subn(entry, "__device__ void square(", square.cuda())
    wrapper = """
namespace polyloom {
extern "C" __global__ void run(float16 *a, float *c) {
    square({{32, 1, 1, 1}, 0}, array<float16, 2>{a, {16, 16}, {32, 2}}, array<float, 2>{c, {16, 16}, {64, 4}});
}
}
"""
    rng = np.random.default_rng(8)
    a, c = rng.standard_normal((16, 16)).astype(np.float16), rng.standard_normal((16, 16)).astype(np.float32)
    expected = c.copy()
    loom.launch(square, grid=1, inputs=[a], outputs=[expected])
    for arch, shape, other in (("sm_75", "m16n8k8", "m16n8k16"), ("sm_80", "m16n8k16", "m16n8k8")):
        log, ptx = nvrtc.compile(text + wrapper, arch)
        assert n == 1 and f"mma.sync.aligned.{shape}." in ptx and f".{other}." not in ptx, log
        found = c.copy()
        loom.sim.Module(ptx).kernel("run").launch(1, 32, [a, found])
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))
        assemble(ptx, arch)
        assemble(square.ptx(arch), arch)


def test_bounds_of_launches_and_registers_stand_in_cuda_text(nvrtc):
    @loom.kernel(launch_bounds=128, max_registers=40)
    def bounded(x: loom.array(dtype=float)):
        x[loom.tid()] = 1.0

    @loom.kernel(max_registers=40)
    def small(x: loom.array(dtype=float)):
        x[loom.tid()] = 1.0

    # CUDA takes one or the other.
    text = bounded.cuda()
    assert "void __launch_bounds__(128) bounded_cuda_kernel_forward" in text and "--maxrregcount=40." in text
    log, ptx = nvrtc.compile(text, "sm_80")
    assert ".maxntid 128" in ptx and not log
    log, ptx = nvrtc.compile(small.cuda(), "sm_80")
    assert ".maxnreg 40" in ptx and not log
    # The blocks of a launch that does not say how large they are respect the bound.
    x = np.zeros(300, np.float32)
    loom.launch(bounded, 300, [x], device="sim:0")
    np.testing.assert_array_equal(x, 1.0)


def test_what_no_architecture_has_is_no_cuda_text():
    @loom.kernel(block_dim=256)
    def hoards(x: loom.array(dtype=float)):
        cache = loom.shared_array(shape=16384, dtype=float)
        cache[loom.thread_idx() * 64] = x[loom.tid()]
        loom.sync_threads()
        x[loom.tid()] = cache[(255 - loom.thread_idx()) * 64]

    with pytest.raises(loom.CompileError) as raised:
        hoards.cuda()
    assert "it needs 65536 B, GPUs allow at most 232448 B opt-in / 49152 B static" in str(raised.value)
    assert "test_text.py:" in str(raised.value) and "def hoards" in str(raised.value)
    assert "cache" in hoards.cpp()


@loom.kernel
def continued(x: loom.array(dtype=float)):
    i = loom.tid()
    # What ends in a backslash, or ??/
    x[i] = x[i] + 1.0
    if x[i] > 2.0 and x[i] < 7.0:
        x[i] = x[i] * 10.0  # \


def test_comments_end_with_their_line(nvrtc, tmp_path):
    # A comment that a backslash ends takes the line below for one of its own.
    for language in ("cpp", "cuda"):
        text = getattr(continued, language)(comments=True)
        assert not re.search(r"(\\|\?\?/)\s*\n", text)
    log, _ = nvrtc.compile(continued.cuda(comments=True), "sm_80")
    assert not log
    kernel = compiled(continued, tmp_path, comments=True)
    x = np.arange(10, dtype=np.float32)
    kernel(LaunchBounds((10, 1, 1, 1), 0), array(x), ctypes.c_uint64(0), ctypes.c_uint64(10))
    expected = np.arange(1, 11, dtype=np.float32)
    expected[(expected > 2) & (expected < 7)] *= 10
    np.testing.assert_array_equal(x, expected)


@loom.kernel
def announced(x: loom.array(dtype=float)):
    i = loom.tid()
    loom.printf('größe "%g" \\ \a\x1b7 what??! 100%%\n', x[i])


def test_text_that_is_printed(nvrtc, tmp_path, capfd):
    log, _ = nvrtc.compile(announced.cuda(), "sm_80")
    assert not log
    # Standards before C++17 knew other spellings of signs, which begin with two question marks.
    kernel = compiled(announced, tmp_path, flags=["-std=c++11"])
    x = np.full(1, 1.5, np.float32)
    kernel(LaunchBounds((1, 1, 1, 1), 0), array(x), ctypes.c_uint64(0), ctypes.c_uint64(1))
    ctypes.CDLL(None).fflush(None)
    printed = capfd.readouterr().out
    assert printed == 'größe "1.5" \\ \a\x1b7 what??! 100%\n'
    loom.launch(announced, 1, [x])
    assert capfd.readouterr().out == printed


@loom.kernel
def counted(
    small: loom.array(dtype=loom.uint32), large: loom.array(dtype=loom.uint64), tiny: loom.array(dtype=loom.uint8)
):
    i = loom.tid()
    loom.printf("%d %i %d %d %x %s\n", small[i], small[i], large[i], tiny[i], small[i], large[i])


def test_unsigned_numbers_that_are_printed(nvrtc, tmp_path, capfd):
    log, ptx = nvrtc.compile(counted.cuda(), "compute_80")
    assert not log
    arrays = [np.array([3_000_000_000], np.uint32), np.array([2**63 + 5], np.uint64), np.array([200], np.uint8)]
    kernel = compiled(counted, tmp_path)
    kernel(LaunchBounds((1, 1, 1, 1), 0), *map(array, arrays), ctypes.c_uint64(0), ctypes.c_uint64(1))
    ctypes.CDLL(None).fflush(None)
    expected = "3000000000 3000000000 9223372036854775813 200 b2d05e00 9223372036854775813\n"
    assert capfd.readouterr().out == expected
    for text in (ptx, counted.ptx("sm_80")):
        loom.sim.Module(text).kernel("counted_cuda_kernel_forward").launch(1, 1, [1, *arrays])
        assert capfd.readouterr().out == expected


@loom.kernel
def rotated(v: loom.vec3, v_0: float, v_1_2: int, x: loom.array(dtype=float)):
    next_a = x[0]
    a = x[1]
    b = x[2]
    for _ in range(v_1_2):
        a, b, next_a = b, next_a, a
    w = v
    w[0], w[1] = w[1], w[0] + v_0
    x[0] = next_a + w[0]
    x[1] = a + w[1]
    x[2] = b + w[2]


def test_names_that_the_text_makes_up_are_no_variables(nvrtc, tmp_path):
    log, _ = nvrtc.compile(rotated.cuda(), "sm_80")
    assert not log
    kernel = compiled(rotated, tmp_path)
    given = np.array([1.0, 2.0, 4.0], np.float32)
    expected = given.copy()
    loom.launch(rotated, 1, [loom.vec3(8.0, 16.0, 32.0), 64.0, 1, expected])
    floats = [ctypes.c_float(value) for value in (8.0, 16.0, 32.0, 64.0)]
    kernel(
        LaunchBounds((1, 1, 1, 1), 0), *floats, ctypes.c_int(1), array(given), ctypes.c_uint64(0), ctypes.c_uint64(1)
    )
    np.testing.assert_array_equal(given, expected)


@loom.kernel(check=True)
def beyond(x: loom.array(dtype=float), k: int):
    x[loom.tid() + k] = 1.0


def test_a_failed_check_stops_a_launch_that_has_no_report(nvrtc):
    _, ptx = nvrtc.compile(beyond.cuda(), "compute_80")
    for text in (ptx, beyond.ptx("sm_80")):
        kernel = loom.sim.Module(text).kernel("beyond_cuda_kernel_forward")
        x = np.zeros(8, np.float32)
        kernel.launch(1, 8, [8, x, 0])
        np.testing.assert_array_equal(x, np.ones(8, np.float32))
        with pytest.raises(loom.SanitizerError, match="trap"):
            kernel.launch(1, 8, [8, x, 3])
    text = beyond.cpp()
    assert "__builtin_trap();" in text


@loom.kernel
def größe(x: loom.array(dtype=float)):
    x[loom.tid()] = 1.0


@loom.kernel
def a__b(x: loom.array(dtype=float)):
    x[loom.tid()] = 1.0


@loom.kernel
def __main(x: loom.array(dtype=float)):
    x[loom.tid()] = 1.0


@pytest.mark.parametrize("kernel, name", [(größe, "gruf6udfe"), (a__b, "a__b"), (__main, "__main")])
def test_entries_of_text_and_ptx_have_one_name(kernel, name, nvrtc, assemble, tmp_path):
    entry = f"{name}_cuda_kernel_forward"
    assert f"void {entry}(" in kernel.cuda() and f".entry {entry}(" in kernel.ptx()
    assert kernel.gpu_metadata()["entry_points"] == [entry]
    log, ptx = nvrtc.compile(kernel.cuda(), "sm_80")
    assert not log and f".entry {entry}(" in ptx
    assemble(kernel.ptx(), "sm_80")
    x = np.zeros(5, np.float32)
    loom.launch(kernel, 5, [x], device="sim:0")
    np.testing.assert_array_equal(x, 1.0)
