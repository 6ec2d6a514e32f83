"""Kernels on the simulator, device `sim:0`: the results of the CPU, what it finds, what it counts, foreign PTX."""

import pathlib
import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def plain_settings():
    yield
    loom.sim.configure(arch="sm_80", sanitize="default", counters=False)


@loom.kernel
def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]


@loom.kernel
def rotated(m: loom.array(dtype=loom.mat33), x: loom.array(dtype=loom.vec3), out: loom.array(dtype=loom.vec3, ndim=2)):
    i, j = loom.tid()
    out[i, j] = m[i] * x[j] * loom.sin(x[j][0]) + loom.vec3(loom.exp(x[j][1]))


@loom.kernel
def halves(x: loom.array(dtype=loom.float16), z: loom.array(dtype=loom.float64), n: loom.array(dtype=loom.int8)):
    i = loom.tid()
    z[i] = loom.float64(x[i] * x[i]) + loom.log(z[i]) + loom.float64(n[i] // loom.int8(3))
    x[i] = loom.float16(z[i])
    n[i] = n[i] * n[i] << loom.int8(1)


@loom.kernel
def histogram(x: loom.array(dtype=int), bins: loom.array(dtype=int)):
    loom.atomic_add(bins, x[loom.tid()] % 16, 1)


@loom.kernel(check=True)
def shifted(x: loom.array(dtype=float), k: int):
    i = loom.tid()
    x[i + k] = x[i]


@loom.kernel
def same_element(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    out[0] = x[loom.tid()] + float(loom.tid())


@loom.kernel
def unchecked_shift(x: loom.array(dtype=float), k: int):
    i = loom.tid()
    x[i + k] = 1.0


@loom.kernel
def block_sums(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(128, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[loom.tid()]
    loom.sync_threads()
    half = loom.int32(64)
    while half > 0:
        if t < half:
            tile[t] = tile[t] + tile[t + half]
        loom.sync_threads()
        half = half // 2
    if t == 0:
        out[loom.block_idx()] = tile[0]


@loom.kernel
def racy_sums(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(128, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[loom.tid()]
    out[loom.tid()] = tile[127 - t]


@loom.kernel
def warp_sums(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    out[loom.tid()] = loom.warp_reduce_add(x[loom.tid()])


def both(kernel, dim, args, **options):
    """The arrays after a launch on the CPU and after one on the simulator."""
    results = []
    for device in ("cpu", "sim:0"):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        loom.launch(kernel, dim, copies, device=device, **options)
        results.append([a for a in copies if isinstance(a, np.ndarray)])
    return zip(*results, strict=True)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_the_bits_are_those_of_the_cpu(arch):
    loom.sim.configure(arch=arch)
    random = np.random.default_rng(7)
    x, y = random.normal(size=(2, 1000)).astype(np.float32)
    for cpu, sim in both(saxpy, 1000, [0.3, x, y]):
        np.testing.assert_array_equal(cpu, sim)
    m = random.normal(size=(5, 3, 3)).astype(np.float32)
    v = random.normal(size=(7, 3)).astype(np.float32)
    for cpu, sim in both(rotated, (5, 7), [m, v, np.zeros((5, 7, 3), np.float32)]):
        np.testing.assert_array_equal(cpu, sim)
    h = random.normal(size=300).astype(np.float16)
    z = random.random(300)
    n = random.integers(-128, 128, 300).astype(np.int8)
    for cpu, sim in both(halves, 300, [h, z, n]):
        np.testing.assert_array_equal(cpu, sim)
    values = random.integers(0, 1000, 5000).astype(np.int32)
    for cpu, sim in both(histogram, 5000, [values, np.zeros(16, np.int32)]):
        np.testing.assert_array_equal(cpu, sim)


def test_strides_and_overlap_are_those_of_the_host():
    buffer = np.arange(4000, dtype=np.float32)
    expected = buffer.copy()
    expected[0:2000:2] = 2 * expected[3000:2000:-1] + expected[0:2000:2]
    loom.launch(saxpy, 1000, [2.0, buffer[3000:2000:-1], buffer[0:2000:2]], device="sim:0")
    np.testing.assert_array_equal(buffer, expected)


def test_blocks_and_warps():
    x = np.random.default_rng(1).random(1024).astype(np.float32)
    loom.sim.configure(sanitize="all")
    for cpu, sim in both(block_sums, 1024, [x, np.zeros(8, np.float32)], block_dim=128):
        np.testing.assert_array_equal(cpu, sim)
    for cpu, sim in both(warp_sums, 1000, [x[:1000], np.zeros(1000, np.float32)]):
        np.testing.assert_array_equal(cpu, sim)


def test_a_race_is_found_with_its_line():
    loom.sim.configure(sanitize="races")
    x = np.zeros(128, np.float32)
    with pytest.raises(loom.SanitizerError, match="data race") as caught:
        loom.launch(racy_sums, 128, [x, x.copy()], block_dim=128, device="sim:0")
    finding = caught.value.findings[0]
    assert finding.kind == "data race" and finding.file == __file__
    source = open(__file__, encoding="utf-8").read().splitlines()
    assert "tile" in source[finding.line - 1]
    assert len(finding.threads) >= 2
    # By the names of the source, not those of the PTX.
    assert "in kernel `racy_sums`" in str(caught.value) and "of `tile` (" in str(caught.value)


def test_an_access_out_of_bounds_is_found_without_checks():
    x = np.zeros(100, np.float32)
    with pytest.raises(loom.SanitizerError, match="out-of-bounds access") as caught:
        loom.launch(unchecked_shift, 100, [x, 8], device="sim:0", unchecked=True)
    assert caught.value.findings[0].line is not None
    assert "0 bytes past the end of `x` (400 bytes at 0x" in str(caught.value)


def test_bounds_are_a_check_that_can_be_off():
    x = np.arange(1.0, 101.0, dtype=np.float32)
    expected = np.concatenate([x[:8], np.ones(92, np.float32)])
    for checks in ("no-bounds", "none", ["all", "no-bounds", "no-races"]):
        loom.sim.configure(sanitize=checks)
        y = x.copy()
        loom.launch(unchecked_shift, 100, [y, 8], device="sim:0")
        np.testing.assert_array_equal(y, expected)
    loom.sim.configure(sanitize=["no-alignment", "barriers"])
    with pytest.raises(loom.SanitizerError, match="out-of-bounds access"):
        loom.launch(unchecked_shift, 100, [x, 8], device="sim:0", unchecked=True)


@loom.kernel
def byte_at(x: loom.array(dtype=loom.int8), k: int):
    x[k] = loom.int8(1)


@loom.kernel
def add_at(x: loom.array(dtype=loom.int8), k: int):
    loom.atomic_add(x, k, loom.int8(1))


@pytest.mark.parametrize("on_device", [False, True])
def test_bounds_are_those_of_the_elements(on_device):
    # Of nine bytes, the second and third word are not whole.
    bytes_of = np.zeros(16, np.int8)
    x = loom.array(bytes_of[3:12], device="sim:0") if on_device else bytes_of[3:12]
    for outside in (9, 10, 11, 12):
        for kernel in (byte_at, add_at):
            with pytest.raises(loom.SanitizerError, match=rf"{outside - 9} bytes past the end of `x` \(9 bytes at 0x"):
                loom.launch(kernel, 1, [x, outside], device="sim:0", unchecked=True)
    if not on_device:
        with pytest.raises(loom.SanitizerError, match=r"1 bytes before `x` \(9 bytes at 0x"):
            loom.launch(byte_at, 1, [x, -10], device="sim:0", unchecked=True)
    for k in range(9):
        loom.launch(add_at, 1, [x, k], device="sim:0")
    np.testing.assert_array_equal(x.numpy() if on_device else x, np.ones(9, np.int8))


def test_reports_are_of_launches_that_found_something_too():
    x = np.zeros(100, np.float32)
    loom.sim.configure(counters=True)
    loom.launch(unchecked_shift, 1, [x, 0], device="sim:0")
    before = loom.sim.last_report()["thread_instructions"]
    with pytest.raises(loom.SanitizerError):
        loom.launch(unchecked_shift, 64, [x, 90], device="sim:0", unchecked=True)
    after = loom.sim.last_report()["thread_instructions"]
    assert after not in (0, before)


def test_the_arrays_of_a_finding_are_named_wherever_they_are():
    loom.sim.configure(sanitize="all")
    x = loom.zeros(64, device="sim:0")
    with pytest.raises(loom.SanitizerError, match=r"0 bytes past the end of `x` \(256 bytes at 0x"):
        loom.launch(unchecked_shift, 32, [x[32:], 1], device="sim:0", unchecked=True)
    with pytest.raises(loom.SanitizerError, match=r"byte \d+ of `out` \(4 bytes at 0x"):
        loom.launch(same_element, 32, [x, np.zeros(1, np.float32)], device="sim:0")


def test_a_failed_check_is_reported_as_on_the_cpu():
    x = np.zeros(10, np.float32)
    messages = []
    for device in ("cpu", "sim:0"):
        with pytest.raises(loom.LaunchError) as caught:
            loom.launch(shifted, 10, [x, 1], device=device)
        messages.append((str(caught.value), caught.value.index, caught.value.extent, caught.value.thread))
    assert messages[0] == messages[1] and messages[0][1:] == (10, 10, (9,))


def test_what_an_architecture_lacks_is_a_compile_error():
    @loom.kernel
    def large(a: loom.array(dtype=float)):
        tile = loom.shared_array(shape=100_000, dtype=float)
        tile[loom.thread_idx()] = a[loom.tid()]

    with pytest.raises(loom.CompileError, match="it needs 400000 B, sm_80 allows 166912 B") as caught:
        loom.launch(large, 32, [np.zeros(32, np.float32)], block_dim=32, device="sim:0")
    assert caught.value.diagnostics[0].code == "PL0602"


def test_what_is_counted():
    loom.sim.configure(counters=True)
    x = np.zeros(256, np.float32)
    loom.launch(saxpy, 256, [2.0, x, x.copy()], device="sim:0")
    report = loom.sim.last_report()
    assert report["global_loads"] == 16 and report["global_stores"] == 8
    assert report["coalescing"] == 1.0 and report["divergent_branches"] == 0
    assert "global stores" in report["table"]


def test_prints_reach_sys_stdout(capsys):
    @loom.kernel
    def speaking(x: loom.array(dtype=int)):
        loom.printf("%d is %d\n", loom.tid(), x[loom.tid()])

    loom.launch(speaking, 2, [np.array([5, 7], np.int32)], device="sim:0")
    assert sorted(capsys.readouterr().out.splitlines()) == ["0 is 5", "1 is 7"]


@loom.kernel
def say_strings(b: loom.array(dtype=bool), x: loom.array(dtype=float), n: loom.array(dtype=loom.uint64)):
    i = loom.tid()
    loom.printf("%.2s|%6.3s|%.2s|%.1s\n", b[i], b[i], x[i], n[i])


def test_strings_are_cut_off_and_numbers_are_whole(capsys):
    arrays = [np.array([True]), np.array([1.25], np.float32), np.array([65], np.uint64)]
    loom.launch(say_strings, 1, arrays, device="sim:0")
    assert capsys.readouterr().out == "Tr|   Tru|1.25|65\n"


def test_settings_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="no architecture"):
        loom.sim.configure(arch="sm_12")
    with pytest.raises(ValueError, match="sanitize: there is no check .race.: there are bounds, alignment"):
        loom.sim.configure(sanitize="race")
    with pytest.raises(ValueError, match="not available"):
        loom.launch(saxpy, 1, [1.0, np.zeros(1, np.float32), np.zeros(1, np.float32)], device="gpu")


FOREIGN = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 a, .param .u32 n) {
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x];
    ld.param.f32 %f1, [a];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 ret;
    mul.wide.u32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f2, [%rd3];
    mul.rn.f32 %f3, %f2, %f1;
    st.global.f32 [%rd3], %f3;
    ret;
}
"""


def test_modules_are_refused_by_devices_they_are_not_for():
    module = loom.sim.Module(FOREIGN.replace("sm_80", "sm_90a"))
    x = np.ones(1, np.float32)
    for arch in ("sm_80", "sm_100"):
        loom.sim.configure(arch=arch)
        with pytest.raises(ValueError, match=f"the module is for sm_90a, the device is {arch}"):
            module.kernel("scale").launch(1, 1, [x, 2.0, 1])
    loom.sim.configure(arch="sm_90")
    module.kernel("scale").launch(1, 1, [x, 2.0, 1])
    assert x.tolist() == [2.0]


def test_barriers_wait_for_no_thread_past_the_end():
    @loom.kernel(block_dim=64)
    def doubled(a: loom.array(dtype=float)):
        tile = loom.shared_array(shape=64, dtype=float)
        t = loom.thread_idx()
        tile[t] = 2.0 * a[loom.tid()]
        loom.sync_threads()
        a[loom.tid()] = tile[t]

    loom.sim.configure(sanitize="all")
    a = np.arange(100, dtype=np.float32)
    loom.launch(doubled, 100, [a], device="sim:0")
    np.testing.assert_array_equal(a, 2 * np.arange(100))


def test_foreign_ptx_runs():
    module = loom.sim.Module(FOREIGN)
    assert module.kernels == ["scale"]
    kernel = module.kernel("scale")
    x = np.arange(100, dtype=np.float32)
    kernel.launch(grid=2, block=64, args=[x, 0.5, 100])
    np.testing.assert_array_equal(x, np.arange(100) / 2)
    with pytest.raises(TypeError, match="takes 3 arguments"):
        kernel.launch(1, 1, [x])
    with pytest.raises(TypeError, match=r"parameter 'a' is \.f32"):
        kernel.launch(1, 1, [x, "half", 3])
    with pytest.raises(loom.SanitizerError, match="out-of-bounds access in kernel `scale`: .* past the end of `x` "):
        kernel.launch(2, 64, [x, 0.5, 128])
    assert loom.sim.Module(str(module)).kernels == ["scale"]
    x = np.arange(100, dtype=np.float32)
    kernel.launch(np.int64(1), (np.int32(64), 1), [x, 2.0, 100])
    np.testing.assert_array_equal(x[:65], [*range(0, 128, 2), 64])
    with pytest.raises(ValueError, match="block is one to three positive integers, not 0"):
        kernel.launch(1, 0, [x, 2.0, 100])
    with pytest.raises(ValueError, match="a block has at most 1024 threads"):
        kernel.launch(1, (2**31, 2**31, 4), [x, 2.0, 100])


def test_cooperative_launches_synchronise_the_grid():
    text = (ROOT / "crates/polyloom-ptx/tests/ptx/nvrtc_groups.ptx").read_text()
    kernel = loom.sim.Module(text).kernel("grid_sums")
    values, out = np.zeros((2, 128), np.int32)
    kernel.launch(4, 32, [values, out], cooperative=True)
    np.testing.assert_array_equal(out, 128 * (128 * 129 // 2))
    with pytest.raises(loom.SanitizerError, match="the kernel asks for the workspace of a cooperative launch"):
        kernel.launch(4, 32, [values, out])
    with pytest.raises(ValueError, match="a cooperative launch has all its blocks at once: sm_80 holds .*, not 5000"):
        kernel.launch(5000, 32, [values, out], cooperative=True)


class MadeOnAccess:
    """Like an image of PIL, which says what it holds with memory made for the one who asks."""

    @property
    def __array_interface__(self):
        data = np.full(4096, 7, np.float32).tobytes()
        return {"shape": (4096,), "typestr": "<f4", "version": 3, "data": data}


def test_memory_that_only_the_argument_holds_lives_through_the_launch():
    text = FOREIGN.replace(".param .f32 a", ".param .u64 a").replace("ld.param.f32 %f1, [a]", "ld.param.u64 %rd1, [a]")
    text = text.replace(
        "mul.rn.f32 %f3, %f2, %f1", "ld.param.u64 %rd1, [x]; add.s64 %rd3, %rd1, %rd2; mov.f32 %f3, %f2"
    )
    out = np.zeros(4096, np.float32)
    loom.sim.Module(text).kernel("scale").launch(4, 1024, [out, MadeOnAccess(), 4096])
    np.testing.assert_array_equal(out, 7)


def test_arguments_that_share_memory_share_it_in_the_simulator():
    text = FOREIGN.replace(".param .f32 a", ".param .u64 a").replace("ld.param.f32 %f1, [a]", "ld.param.u64 %rd1, [a]")
    text = text.replace(
        "mul.rn.f32 %f3, %f2, %f1", "ld.param.u64 %rd1, [x]; add.s64 %rd3, %rd1, %rd2; mov.f32 %f3, %f2"
    )
    kernel = loom.sim.Module(text).kernel("scale")
    memory = np.arange(65, dtype=np.float32)
    kernel.launch(2, 32, [memory[:64], memory[1:], 64])
    np.testing.assert_array_equal(memory, [*range(1, 65), 64])


def test_registers_have_no_sign():
    text = FOREIGN.replace("ld.param.f32 %f1, [a]", "cvt.rn.f32.s32 %f1, %r1").replace("setp.ge.u32", "setp.ge.s32")
    text = text.replace("@%p1 ret;", "").replace(
        "ld.param.u32 %r1, [n];", "ld.param.u32 %r1, [n]; cvt.rn.f32.s32 %f1, %r1;"
    )
    kernel = loom.sim.Module(text).kernel("scale")
    for given in (-3, np.int32(-3), 2**32 - 3):
        x = np.ones(1, np.float32)
        kernel.launch(1, 1, [x, 0.0, given])
        assert x[0] == -3
    for given in (-(2**31) - 1, 2**32, 0.5):
        with pytest.raises(TypeError, match=r"parameter 'n' is \.u32"):
            kernel.launch(1, 1, [x, 0.0, given])
    with pytest.raises(loom.SanitizerError, match="null|out-of-bounds"):
        kernel.launch(1, 1, [None, 0.0, 1])


ATOMICS = [
    ("int8", "atomic_add"),
    ("uint8", "atomic_max"),
    ("int16", "atomic_add"),
    ("uint16", "atomic_min"),
    ("float16", "atomic_add"),
    ("uint64", "atomic_inc"),
]


@pytest.mark.parametrize("dtype, name", ATOMICS, ids=[name for name, _ in ATOMICS])
def test_no_check_reports_an_atomic_update_of_a_narrow_element(dtype, name):
    in_numpy = np.dtype(dtype)
    dtype, update = getattr(loom, dtype), getattr(loom, name)

    @loom.kernel(block_dim=64)
    def updates(x: loom.array(dtype=dtype), value: dtype):
        shared = loom.shared_array(shape=8, dtype=dtype)
        t = loom.thread_idx()
        if t == 2:
            shared[3] = dtype(0)
        loom.sync_threads()
        if t == 1:
            shared[2] = value
        update(shared, 3, value)
        if t == 0:
            x[0] = value
        update(x, 1, value)
        loom.sync_threads()
        if t == 0:
            x[2] = shared[3]

    expected = np.zeros(3, in_numpy)
    loom.launch(updates, grid=1, block=64, inputs=[expected, dtype(1)])
    loom.sim.configure(sanitize="all")
    try:
        got = np.zeros(3, in_numpy)
        loom.launch(updates, grid=1, block=64, inputs=[got, dtype(1)], device="sim:0")
    finally:
        loom.sim.configure(sanitize="default")
    np.testing.assert_array_equal(got, expected)


def test_instructions_are_counted_by_the_threads_that_execute_them():
    kernel = loom.sim.Module(FOREIGN).kernel("scale")
    x = np.ones(64, np.float32)
    counts = []
    for n in (64, 40, 0):
        kernel.launch(1, 64, [x, np.float32(2.0), n])
        counts.append(loom.sim.last_report()["thread_instructions"])
    # Six instructions stand behind the exit.
    before = counts[2]
    assert before > 0 and before % 64 == 0
    assert counts == [before + 64 * 6, before + 40 * 6, before]


def test_what_is_wrong_with_ptx_is_said_with_its_place():
    with pytest.raises(ValueError, match="^9:5: expected"):
        loom.sim.Module(FOREIGN.replace("    .reg .f32 %f<4>;", "    .reg .f32 %f<4"))


@loom.kernel
def ones(y: loom.array(dtype=loom.float64)):
    y[loom.tid()] = loom.float64(1.0)


@loom.kernel(block_dim=(4, 2))
def ones_in_blocks(y: loom.array(dtype=loom.float64)):
    y[loom.tid()] = loom.float64(1.0)


@loom.kernel
def columns(y: loom.array(dtype=loom.float64)):
    y[loom.tid()] = loom.float64(1 + loom.thread_idx(1))


@pytest.mark.parametrize("block", [(4, 2), (4, 2, 1), (8, 1), (1, 8), (2, 2, 2)])
def test_blocks_of_several_dimensions_leave_out_no_thread(block):
    for n in (24, 240, 1001):
        y = np.zeros(n)
        loom.launch(ones, n, [y], device="sim:0", block_dim=block)
        assert y.all()
        if block == (4, 2):
            y = np.zeros(n)
            loom.launch(ones_in_blocks, n, [y], device="sim:0")
            assert y.all()
        y = np.zeros(n)
        loom.launch(columns, n, [y], device="sim:0", block_dim=block)
        np.testing.assert_array_equal(y, 1 + np.arange(n) // block[0] % block[1])
    y = np.zeros(60)
    loom.launch(ones, grid=(3, 5), block=(2, 2), inputs=[y], device="sim:0")
    assert y.all()


STORE = """.version 8.0
.target sm_80
.visible .entry k(.param .u64 o) { .reg .u64 p; ld.param.u64 p, [o]; st.global.u32 [p], 5; ret; }"""


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(["text", None], dtype=object), "holds Python objects"),
        (np.zeros(2, ">i4"), "bytes are in another order"),
        (np.zeros(2, np.dtype([("a", ">i4"), ("b", "i4")])), "bytes are in another order"),
        (np.zeros(2, np.dtype([("a", "O")])), "holds Python objects"),
    ],
)
def test_elements_that_kernels_have_no_type_for_are_refused(array, message):
    kernel = loom.sim.Module(STORE).kernel("k")
    before = array.tobytes()
    with pytest.raises(TypeError, match=f"the array for parameter 'o' .*{message}"):
        kernel.launch(1, 1, [array])
    assert array.tobytes() == before
    struct = loom.sim.Module(STORE.replace(".param .u64 o", ".param .align 8 .b8 o[8]")).kernel("k")
    with pytest.raises(TypeError, match=message):
        struct.launch(1, 1, [(array,)])


@pytest.mark.parametrize("shared_bytes", [-1, 1 << 32])
def test_shared_memory_is_of_so_many_bytes(shared_bytes):
    with pytest.raises(ValueError, match=f"shared_bytes is an integer from 0 to 4294967295, not {shared_bytes}"):
        loom.sim.Module(STORE).kernel("k").launch(1, 1, [np.zeros(1, np.int32)], shared_bytes=shared_bytes)


@pytest.mark.parametrize("arguments", [[], ["--kernel", "f"]])
def test_ptx_without_a_kernel_is_said_to_have_none(tmp_path, arguments):
    file = tmp_path / "none.ptx"
    file.write_text(".version 8.0\n.target sm_80\n.visible .func f() { ret; }\n")
    command = [sys.executable, "-m", "polyloom", "run", str(file), "--grid", "1", "--block", "1", *arguments]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1
    assert "none.ptx has no kernel: a `.entry` whose parameters can be laid out" in run.stderr
