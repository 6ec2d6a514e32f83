"""Tensor-core products, asynchronous copies and read-only loads: the simulated GPU gives the interpreter's bits."""

from typing import Any

import numpy as np
import polyloom as loom
import pytest

N_ROWS = 32


@pytest.fixture(autouse=True)
def sanitized():
    loom.sim.configure(arch="sm_80", sanitize="all")
    yield
    loom.sim.configure(arch="sm_80", sanitize="default")


def launched(kernel, inputs, outputs, **shape):
    """What the outputs are after a launch on the CPU and after one on the simulated GPU."""
    results = []
    for device in ("cpu", "sim:0"):
        copies = [output.copy() for output in outputs]
        moved = [x.to(device) if isinstance(x, loom.array) else x for x in inputs]
        loom.launch(kernel, inputs=moved, outputs=copies, device=device, **shape)
        results.append(copies)
    return results


@loom.kernel(block_dim=32)
def product(a: loom.array(dtype=Any, ndim=2), b: loom.array(dtype=Any, ndim=2), c: loom.array(dtype=Any, ndim=2)):
    row = loom.block_idx(0) * 16
    col = loom.block_idx(1) * 16
    total = loom.mma_load_c(c, row, col)
    for k in range(a.shape[1] // 16):
        total = loom.mma(loom.mma_load_a(a, row, k * 16), loom.mma_load_b(b, k * 16, col), total)
    loom.mma_store(c, row, col, total)


@loom.kernel(block_dim=32)
def product_by_columns(
    a: loom.array(dtype=Any, ndim=2), b: loom.array(dtype=Any, ndim=2), c: loom.array(dtype=Any, ndim=2)
):
    row = loom.block_idx(0) * 16
    col = loom.block_idx(1) * 8
    total = loom.mma_load_c(c, row, col, n=8, layout="col")
    for k in range(a.shape[0] // 16):
        part_a = loom.mma_load_a(a, row, k * 16, layout="col")
        part_b = loom.mma_load_b(b, k * 16, col, n=8, layout="col")
        total = loom.mma(part_a, part_b, total)
    loom.mma_store(c, row, col, total, layout="col")


def matrices(rng, dtype):
    if np.issubdtype(dtype, np.integer):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a, b = (rng.integers(low, high + 1, (N_ROWS, N_ROWS)).astype(dtype) for _ in range(2))
        return a, b, rng.integers(-(2**31), 2**31, (N_ROWS, N_ROWS)).astype(np.int32)
    # Of many sizes, so that sums are rounded.
    a, b, c = ((rng.standard_normal((N_ROWS, N_ROWS)) * 2.0 ** rng.integers(-6, 6)) for _ in range(3))
    return a.astype(dtype), b.astype(dtype), c.astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint8])
def test_products_have_the_bits_of_the_interpreter(dtype):
    rng = np.random.default_rng(5)
    a, b, c = matrices(rng, dtype)
    (cpu,), (sim,) = launched(product, [a, b], [c], grid=(2, 2))
    np.testing.assert_array_equal(cpu.view(np.int32), sim.view(np.int32))
    (by_columns,), (sim,) = launched(product_by_columns, [a.T.copy(), b.T.copy()], [c.T.copy()], grid=(2, 4))
    np.testing.assert_array_equal(by_columns.T.view(np.int32), cpu.view(np.int32))
    np.testing.assert_array_equal(by_columns.view(np.int32), sim.view(np.int32))
    if np.issubdtype(dtype, np.integer):
        exact = a.astype(np.int64) @ b.astype(np.int64) + c
        np.testing.assert_array_equal(cpu, exact.astype(np.int32))
    else:
        kept = [(x.view(np.uint32) & 0xFFFFE000).view(np.float32) if dtype == np.float32 else x for x in (a, b)]
        exact = kept[0].astype(np.float64) @ kept[1].astype(np.float64) + c
        np.testing.assert_allclose(cpu, exact, rtol=1e-5, atol=1e-3)


def test_the_oldest_architecture_has_products_of_halves():
    loom.sim.configure(arch="sm_75")
    test_products_have_the_bits_of_the_interpreter(np.float16)


@loom.kernel(block_dim=32)
def product_of_halves(a: loom.array(dtype=loom.float16, ndim=2), c: loom.array(dtype=float, ndim=2)):
    factor = loom.mma_load_a(a, 0, 0)
    loom.mma_store(c, 0, 0, loom.mma(factor, loom.mma_load_b(a, 0, 0), loom.mma_load_c(c, 0, 0)))


def test_the_oldest_architecture_has_products_since_ptx_6_5():
    assert ".version 6.5" in product_of_halves.ptx("sm_75", ptx_version="6.5")
    with pytest.raises(loom.CompileError, match="`mma` needs PTX 6.5 or later, not PTX 6.3") as error:
        product_of_halves.ptx("sm_75", ptx_version="6.3")
    assert "loom.mma(factor" in str(error.value)


@pytest.mark.parametrize("name", ["bfloat16", "float32", "int8", "uint8"])
def test_the_oldest_architecture_has_no_other_products(name):
    dtype = getattr(loom, name)
    c = np.int32 if "int" in name else np.float32
    a, b = (loom.zeros((32, 32), dtype=dtype, device="sim:0") for _ in range(2))
    loom.sim.configure(arch="sm_75")
    with pytest.raises(loom.CompileError, match=f"`mma` of `{name}` needs sm_80 or later, not sm_75"):
        loom.launch(product, grid=(2, 2), inputs=[a, b, np.zeros((32, 32), c)], device="sim:0")


@loom.kernel(block_dim=32)
def first_of_product(a: loom.array(dtype=loom.bfloat16, ndim=2), out: loom.array(dtype=float)):
    d = loom.mma(loom.mma_load_a(a, 0, 0), loom.mma_load_b(a, 0, 0, n=8), loom.vec4(0.5))
    if loom.lane_id() == 0:
        out[0] = d[0]


def test_all_lanes_make_a_product_of_which_one_uses_the_result():
    # bfloat16 as NumPy has it: 1.5 is 0x3fc0.
    a = loom.array(np.full((16, 16), 1.5), dtype=loom.bfloat16)
    (cpu,), (sim,) = launched(first_of_product, [a], [np.zeros(1, np.float32)], grid=1)
    assert cpu[0] == sim[0] == 16 * 2.25 + 0.5


@loom.kernel(block_dim=32)
def staged(
    a: loom.array(dtype=loom.int8, ndim=2),
    b: loom.array(dtype=loom.float64),
    out: loom.array(dtype=loom.int8, ndim=2),
    out_b: loom.array(dtype=loom.float64),
):
    rows = loom.shared_array(shape=(8, 64), dtype=loom.int8)
    doubles = loom.shared_array(shape=64, dtype=loom.float64)
    t = loom.thread_idx()
    loom.async_copy(rows[t // 4, t % 4 * 16], a[t // 4, t % 4 * 16], count=16)
    loom.async_commit()
    loom.async_copy(doubles[t * 2], b[t * 2 - 64], count=2, cache="l2")
    loom.async_commit()
    loom.async_wait(1)
    loom.sync_threads()
    for i in range(16):
        out[t % 8, t // 8 * 16 + i] = rows[t % 8, t // 8 * 16 + i]
    loom.async_wait()
    loom.sync_threads()
    out_b[t] = doubles[63 - t]
    out_b[t + 32] = doubles[31 - t]


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("step", [1, 2])
def test_copies_of_any_alignment_and_stride(shift, step):
    rng = np.random.default_rng(6)
    a = rng.integers(-128, 128, (8, 160)).astype(np.int8)[:, shift::step][:, :64]
    b = rng.standard_normal(128)[::step][:64]
    outputs = [np.zeros((8, 64), np.int8), np.zeros(64)]
    for got, got_b in launched(staged, [a, b], outputs, grid=1):
        np.testing.assert_array_equal(got, a)
        np.testing.assert_array_equal(got_b, b[::-1])


@loom.kernel(block_dim=32, check=True)
def copied_too_far(a: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=128, dtype=float)
    t = loom.thread_idx()
    loom.async_copy(tile[t * 4], a[t * 4], count=4)
    loom.async_commit()
    loom.async_wait()
    out[t] = tile[t * 4]


def test_the_last_element_of_a_copy_is_checked():
    out = np.zeros(32, np.float32)
    for device in ("cpu", "sim:0"):
        loom.launch(copied_too_far, grid=1, inputs=[np.ones(128, np.float32)], outputs=[out], device=device)
        with pytest.raises(loom.LaunchError, match="index 127 is out of bounds for axis 0 of `a` with extent 126"):
            loom.launch(copied_too_far, grid=1, inputs=[np.ones(126, np.float32)], outputs=[out], device=device)


@loom.kernel
def gathered(table: loom.array(dtype=float), flags: loom.array(dtype=bool), out: loom.array(dtype=float)):
    i = loom.tid()
    if loom.load_readonly(flags, i):
        out[i] = loom.load_readonly(table, -1 - i)


def test_read_only_loads():
    table, flags = np.arange(8, dtype=np.float32), np.array([1, 0] * 4, np.bool_)
    for (out,) in launched(gathered, [table, flags], [np.zeros(8, np.float32)], dim=8):
        np.testing.assert_array_equal(out, np.where(flags, table[::-1], 0))
    assert gathered.ptx(arch="sm_80").count("ld.global.nc") == 2
