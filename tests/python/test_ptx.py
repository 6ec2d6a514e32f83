"""PTX of kernels: made without a GPU, and assembled by NVIDIA's own assembler."""

import pathlib
import re
import runpy
import subprocess

import numpy as np
import polyloom as loom
import pytest
from nvidia import ptxas
from sources import define

ARCHES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"]


def assemble(ptx: str, arch: str, tmp_path: pathlib.Path) -> str:
    """What ptxas says of the code, which it must accept."""
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    command = [ptxas(), "-arch", arch, "-v", str(source), "-o", str(tmp_path / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + ptx
    return done.stderr


@loom.kernel
def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]


@loom.kernel
def transformed(
    m: loom.array(dtype=loom.mat33), x: loom.array(dtype=loom.vec3), out: loom.array(dtype=loom.vec3, ndim=2)
):
    i, j = loom.tid()
    out[i, j] = m[i] * x[j] * loom.sin(x[j][0]) + loom.vec3(loom.erf(x[j][1]))


@loom.kernel
def halves(x: loom.array(dtype=loom.float16), y: loom.array(dtype=loom.bfloat16), z: loom.array(dtype=loom.float64)):
    i = loom.tid()
    z[i] = loom.float64(x[i] * x[i]) + loom.exp(z[i]) + loom.float64(y[i] + y[i])
    y[i] = loom.bfloat16(z[i])


@loom.kernel
def integers(x: loom.array(dtype=loom.int64), y: loom.array(dtype=loom.uint8), n: loom.int32, flag: bool):
    i = loom.tid()
    total = loom.int64(0)
    for k in range(n):
        total += x[k] // loom.int64(y[i]) + loom.min(x[k], x[i]) % loom.int64(7)
        if flag and total > loom.int64(100):
            break
    x[i] = total


@loom.kernel
def atomics(
    x: loom.array(dtype=float),
    n: loom.array(dtype=int),
    d: loom.array(dtype=loom.float64),
    u: loom.array(dtype=loom.uint64),
):
    i = loom.tid()
    loom.atomic_add(x, 0, x[i])
    loom.atomic_max(x, 1, x[i])
    n[i] = loom.atomic_add(n, 0, 1)
    loom.atomic_xor(n, 1, i)
    loom.atomic_cas(n, 2, i, i + 1)
    loom.atomic_sub(d, 0, d[i])
    loom.atomic_min(d, 1, d[i])
    loom.atomic_max(u, 0, u[i])


@loom.kernel(check=True)
def checked(x: loom.array(dtype=float), k: int):
    i = loom.tid()
    assert k < 5, "too far"
    x[i + k] = x[i] / float(k // i)


@loom.kernel
def printing(x: loom.array(dtype=float), n: int):
    i = loom.tid()
    loom.printf("%d: %5.2f %s %c%%\n", i, x[i], x[i] > 0.0, n)
    print(x[i])


KERNELS = [saxpy, transformed, halves, integers, atomics, checked, printing]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dense", [False, True], ids=["any", "dense"])
def test_every_architecture_is_assembled(kernel, dense, tmp_path):
    for arch in ARCHES:
        ptx = kernel.ptx(arch, dense=dense, grid_stride=dense)
        assert re.search(rf"^\.target {arch}$", ptx, re.M)
        assemble(ptx, arch, tmp_path)


def test_a_launch_is_one_thread_for_each_element():
    ptx = saxpy.ptx()
    assert ".visible .entry saxpy_cuda_kernel_forward(" in ptx
    assert ptx.count("%tid.x") == 1 and "%nctaid" not in ptx
    assert "%nctaid.x" in saxpy.ptx(grid_stride=True)


def test_strict_arithmetic_is_not_contracted():
    assert "mul.rn.f32" in saxpy.ptx() and "fma" not in saxpy.ptx()

    @loom.kernel(float_mode="contract")
    def contracted(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = a * x[i] + y[i]

    assert "fma.rn.f32" in contracted.ptx()


def test_lines_of_the_source_are_named():
    line = saxpy_line = None
    for number, text in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1):
        if text == "    y[i] = a * x[i] + y[i]" and saxpy_line is None:
            line = saxpy_line = number
    ptx = saxpy.ptx()
    assert re.search(rf"\.loc\t1 {line} ", ptx)
    assert re.search(r'\.file\t1 ".*test_ptx\.py"', ptx)


def test_neighbouring_elements_are_loaded_together():
    @loom.kernel
    def scaled(x: loom.array(dtype=loom.vec4), y: loom.array(dtype=loom.vec4)):
        i = loom.tid()
        y[i] = x[i] * 2.0

    ptx = scaled.ptx(dense=True)
    assert re.search(r"ld\.global(\.nc)?\.v4", ptx) and "st.global.v4" in ptx


@loom.kernel
def fours(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    for k in range(4):
        y[4 * i + k] = x[4 * i + k] * 2.0


@loom.kernel
def pairs(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    a = x[2 * i]
    b = x[2 * i + 1]
    y[2 * i] = a + b
    y[2 * i + 1] = a - b


@loom.kernel
def rows(x: loom.array2d(dtype=float), y: loom.array2d(dtype=float)):
    i, j = loom.tid()
    for k in range(4):
        y[i, 4 * j + k] = x[i, 4 * j + k] + 1.0


@pytest.mark.parametrize("grid_stride", [False, True])
@pytest.mark.parametrize(("kernel", "width"), [(fours, 4), (pairs, 2)])
def test_elements_at_multiples_of_the_thread_are_accessed_together(kernel, width, grid_stride):
    ptx = kernel.ptx(dense=True, grid_stride=grid_stride)
    assert re.search(rf"ld\.global(\.nc)?\.v{width}\.b32", ptx) and re.search(rf"st\.global\.v{width}\.b32", ptx)
    assert ".v2" not in kernel.ptx(grid_stride=grid_stride) and ".v4" not in kernel.ptx(grid_stride=grid_stride)
    x, y = np.arange(400 * width, dtype=np.float32), np.zeros(400 * width, np.float32)
    loom.sim.configure(sanitize="all")
    try:
        entry = loom.sim.Module(ptx).kernel(f"{kernel.key}_cuda_kernel_forward")
        entry.launch(2 if grid_stride else 4, 128, [400, x, y])
    finally:
        loom.sim.configure(sanitize="default")
    a, b = x[::2], x[1::2]
    np.testing.assert_array_equal(y, 2 * x if width == 4 else np.stack([a + b, a - b], axis=1).ravel())


def test_rows_are_accessed_together():
    ptx = rows.ptx(dense=True)
    # The address is that of a row, whose bytes need not be a multiple of 16.
    assert ".v4" not in ptx


def test_float_sums_are_single_instructions():
    ptx = atomics.ptx()
    assert re.search(r"(atom|red)(\.relaxed)?(\.gpu)?\.global(\.gpu)?\.add\.f32", ptx)
    assert re.search(r"(atom|red)(\.relaxed)?(\.gpu)?\.global(\.gpu)?\.add\.f64", ptx)
    assert ".sys" not in ptx


def test_the_version_of_ptx():
    assert ".version 7.0\n" in saxpy.ptx("sm_80")
    assert ".version 8.0\n" in saxpy.ptx("sm_90a")
    assert ".version 8.3\n" in saxpy.ptx("sm_80", ptx_version="8.3")


def test_what_cannot_be_had_is_said():
    with pytest.raises(ValueError, match="no architecture `sm_81`"):
        saxpy.ptx("sm_81")
    with pytest.raises(ValueError, match="PTX version"):
        saxpy.ptx("sm_80", ptx_version="new")
    with pytest.raises(RuntimeError, match="PTX 7.0 does not know sm_90a, which needs PTX 8.0"):
        saxpy.ptx("sm_90a", ptx_version="7.0")
    with pytest.raises(RuntimeError, match="PTX 12.0 cannot be written"):
        saxpy.ptx("sm_90a", ptx_version="12.0")


@loom.func(inline=False)
def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@loom.func(inline=False)
def turned(v: loom.vec3h, angle: float) -> loom.vec3h:
    return loom.vec3h(v[1], loom.float16(loom.sin(angle)) * v[0], v[2] * v[2])


@loom.kernel
def device_functions(n: loom.array(dtype=int), v: loom.array(dtype=loom.vec3h)):
    i = loom.tid()
    n[i] = collatz(i + 1) + collatz(2 * i + 7)
    v[i] = turned(turned(v[i], 0.5), float(n[i]))


def test_functions_that_are_not_inlined_are_functions_of_ptx():
    code = device_functions.ptx(arch="sm_80")
    assert code.count(".func  (") >= 2 and code.count("collatz") >= 3 and code.count("turned") >= 3
    results = []
    for device in ("cpu", "sim:0"):
        n, v = np.zeros(100, np.int32), np.arange(300, dtype=np.float16).reshape(100, 3) / 100
        loom.launch(device_functions, 100, inputs=[n, v], device=device)
        results.append((n, v))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1].view(np.int16), results[1][1].view(np.int16))


@loom.func(inline=False)
def vprintf(x: int) -> int:
    return 3 * x


@loom.func(inline=False)
def WARP_SZ(x: int) -> int:  # noqa: N802
    return x + 1


@loom.kernel
def called_like_others(x: loom.array(dtype=int)):
    i = loom.tid()
    x[i] = vprintf(WARP_SZ(x[i]))
    loom.printf("%d\n", x[i])


def test_functions_may_have_names_of_ptx(capfd):
    for device in ("cpu", "sim:0"):
        x = np.arange(3, dtype=np.int32)
        loom.launch(called_like_others, 3, [x], device=device)
        np.testing.assert_array_equal(x, [3, 6, 9])
        assert sorted(capfd.readouterr().out.split()) == ["3", "6", "9"]


WEIGHTS = np.array([1.0, 4.0, 6.0, 4.0, 1.0, -2.5, 0.125, 8.0, 16.0], np.float32)
PRIMES = np.array([[2, 3, 5, 7], [11, 13, 17, 19], [23, 29, 31, 37]], np.int64)


@loom.kernel
def from_tables(out: loom.array(dtype=float), primes: loom.array(dtype=loom.int64, ndim=2)):
    i, j = loom.tid()
    if j == 0:
        out[i] = WEIGHTS[i] + WEIGHTS[-1 - i % 9]
    primes[i, j] = PRIMES[i % 3, j % 4]


def test_small_arrays_from_outside_are_constant_memory():
    code = from_tables.ptx(arch="sm_80")
    assert ".const .align" in code and "ld.const" in code
    text = from_tables.cuda()
    assert "__constant__ float WEIGHTS[9] = {" in text and "lookup(constants::WEIGHTS, " in text
    # Weights past the last are 0.
    weights = np.append(WEIGHTS, np.zeros(3, np.float32))
    for device in ("cpu", "sim:0"):
        out, primes = np.zeros(12, np.float32), np.zeros((12, 8), np.int64)
        loom.launch(from_tables, (12, 8), inputs=[out, primes], device=device)
        np.testing.assert_array_equal(out, weights + WEIGHTS[-1 - np.arange(12) % 9])
        np.testing.assert_array_equal(primes, PRIMES[np.arange(12) % 3][:, np.arange(8) % 4])


def test_arrays_that_are_too_large_to_be_constants_are_an_error(define):
    with pytest.raises(loom.CompileError, match="arrays of up to 1024 numbers"):
        define(
            """
            large = np.zeros(2000)
            @loom.kernel
            def k(out: loom.array(dtype=loom.float64)):
                out[loom.tid()] = large[loom.tid()]
            """
        )


def with_matrices(n_matrices):
    """A kernel whose matrices of float64 take 2048 bytes each."""
    names = [f"m{number}" for number in range(n_matrices)]
    parameters = ", ".join(f"{name}: Matrix" for name in names)
    total = " + ".join(f"{name}[0, 1]" for name in names)
    source = f"""
Matrix = loom.types.matrix(shape=(16, 16), dtype=loom.float64)


@loom.kernel
def sums(x: loom.array(dtype=loom.float64), {parameters}):
    x[loom.tid()] = {total}
"""
    return define(source)["sums"]


def test_many_parameters_take_a_later_version(tmp_path):
    small, large = with_matrices(2), with_matrices(3)
    assert ".version 7.0" in small.ptx("sm_80") and ".version 8.1" in large.ptx("sm_80")
    for arch in ("sm_75", "sm_80", "sm_90"):
        assemble(large.ptx(arch), arch, tmp_path)
    with pytest.raises(loom.CompileError, match=r"the kernel has 6208 B of parameters: PTX 8.0 allows 4352 B"):
        large.ptx("sm_80", ptx_version="8.0")
    matrices = [np.full((16, 16), float(n + 1)) for n in range(3)]
    x = np.zeros(4)
    loom.launch(large, 4, [x, *matrices], device="sim:0")
    np.testing.assert_array_equal(x, 6.0)


def test_more_parameters_than_gpus_allow_are_an_error():
    too_many = with_matrices(16)
    for make in (too_many.ptx, too_many.cuda):
        with pytest.raises(loom.CompileError, match="B of parameters: GPUs allow at most 32764 B") as raised:
            make()
        assert "sums" in str(raised.value)
    assert "sums_cpu_kernel_forward" in too_many.cpp()


def test_files_with_quotes_in_their_names(tmp_path):
    file = tmp_path / 'a "b" \\c.py'
    file.write_text("import polyloom as loom\n\n\n@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[0] = 1.0\n")
    assemble(runpy.run_path(str(file))["k"].ptx("sm_80"), "sm_80", tmp_path)
