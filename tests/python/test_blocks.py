"""Blocks, warps and shared memory on the CPU, against NumPy."""

from __future__ import annotations

import signal

import numpy as np
import polyloom as loom
import pytest
from block_kernels import (
    Particle,
    block_sums,
    dynamic_particles,
    matmul_f16,
    matmul_i8,
    particles,
    particles_and_swapped,
    reversed_parts,
)

TILE = 8


@loom.kernel(block_dim=(TILE, TILE))
def transpose(a: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)):
    tile = loom.shared_array(shape=(TILE, TILE + 1), dtype=float)
    x = loom.block_idx(0) * TILE + loom.thread_idx(0)
    y = loom.block_idx(1) * TILE + loom.thread_idx(1)
    if y < a.shape[0] and x < a.shape[1]:
        tile[loom.thread_idx(1), loom.thread_idx(0)] = a[y, x]
    loom.sync_threads()
    x = loom.block_idx(1) * TILE + loom.thread_idx(0)
    y = loom.block_idx(0) * TILE + loom.thread_idx(1)
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[loom.thread_idx(0), loom.thread_idx(1)]


def test_a_tiled_transpose_over_a_grid():
    a = np.random.default_rng(1).random((13, 22)).astype(np.float32)
    out = np.zeros((22, 13), np.float32)
    loom.launch(transpose, grid=(3, 2), inputs=[a], outputs=[out])
    np.testing.assert_array_equal(out, a.T)


@pytest.mark.parametrize("block", [32, 256, 1024])
def test_block_sums(block: int):
    a = np.random.default_rng(2).random(2048)
    sums = np.zeros(2048 // block)
    loom.launch(block_sums, dim=2048, inputs=[a], outputs=[sums], block_dim=block)
    np.testing.assert_allclose(sums, a.reshape(-1, block).sum(axis=1), rtol=1e-14)
    again = loom.launch(block_sums, dim=2048, inputs=[a], outputs=[sums], block_dim=block, record_cmd=True)
    sums[:] = 0
    again.launch()
    np.testing.assert_allclose(sums, a.reshape(-1, block).sum(axis=1), rtol=1e-14)


def test_dynamic_shared_memory():
    out = np.zeros(8, np.int32)
    loom.launch(reversed_parts, grid=2, block=4, shared_bytes=16, inputs=[out, 4])
    np.testing.assert_array_equal(out, [3, 2, 1, 0] * 2)
    with pytest.raises(
        RuntimeError, match="dynamic shared memory is too small for this view: launch with more shared_bytes"
    ):
        loom.launch(reversed_parts, grid=2, block=4, shared_bytes=8, inputs=[out, 4])


@pytest.fixture
def sanitized():
    yield
    loom.sim.configure(arch="sm_80", sanitize="default")


@pytest.mark.parametrize("arch", [None, "sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("kernel", [particles, dynamic_particles])
def test_shared_arrays_of_structs(kernel, arch, sanitized):
    given, expected = particles_and_swapped()
    if arch is not None:
        loom.sim.configure(arch=arch, sanitize="all")
    loom.launch(kernel, 64, inputs=given, device="cpu" if arch is None else "sim:0")
    for a, b in zip(given, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_dynamic_shared_memory_of_structs_is_as_large_as_their_fields():
    given, _ = particles_and_swapped()
    with pytest.raises(RuntimeError, match="dynamic shared memory is too small for this view"):
        loom.launch(dynamic_particles, 64, inputs=given, shared_bytes=8 + 32 * 23 - 1)


@loom.kernel(block_dim=16)
def reversed_particles(a: loom.array(dtype=Particle)):
    tile = loom.shared_array(shape=16, dtype=a.dtype)
    t = loom.thread_idx()
    tile[t] = a[loom.tid()]
    a[loom.tid()] = tile[15 - t]


def test_a_race_on_a_field_in_shared_memory_is_found(sanitized):
    a = loom.zeros(16, dtype=Particle, device="sim:0")
    loom.sim.configure(arch="sm_80", sanitize="races")
    with pytest.raises(loom.SanitizerError, match="data race"):
        loom.launch(reversed_particles, 16, inputs=[a], device="sim:0")


def test_what_a_launch_cannot_be():
    out = np.zeros(8, np.int32)
    with pytest.raises(TypeError, match="not both"):
        loom.launch(reversed_parts, dim=4, grid=2, inputs=[out, 4])
    with pytest.raises(TypeError, match="dim is missing"):
        loom.launch(reversed_parts, inputs=[out, 4])
    with pytest.raises(ValueError, match=r"up to 1024 threads, and \(2000, 1, 1\) are 2000"):
        loom.launch(reversed_parts, dim=4, block_dim=2000, inputs=[out, 4])
    for shared_bytes in (-5, 1 << 32, "16"):
        with pytest.raises(ValueError, match="shared_bytes is an integer from 0 to 4294967295, not"):
            loom.launch(reversed_parts, grid=2, block=4, shared_bytes=shared_bytes, inputs=[out, 4])
    with pytest.raises(RuntimeError, match="a block shares at most 268435456 bytes, not 536870912"):
        loom.launch(reversed_parts, grid=2, block=4, shared_bytes=1 << 29, inputs=[out, 4])
    a = np.zeros((16, 16), np.float32)
    for device in ("cpu", "sim:0"):
        with pytest.raises(
            ValueError, match=r"`transpose` is made for blocks of \(8, 8, 1\) threads, not \(64, 1, 1\)"
        ):
            loom.launch(transpose, grid=4, block=64, inputs=[a], outputs=[a.copy()], device=device)
    with pytest.raises(ValueError, match="positive"):
        loom.launch(reversed_parts, grid=(1, 0), inputs=[out, 4])


@loom.kernel
def alone(out: loom.array(dtype=int)):
    out[loom.tid()] = loom.block_dim()


def test_a_kernel_that_only_asks_for_the_block_has_blocks_of_one_thread():
    out = np.zeros(4, np.int32)
    loom.launch(alone, dim=4, inputs=[out], block_dim=64)
    np.testing.assert_array_equal(out, 1)


def test_a_divergent_barrier_is_an_error():
    with pytest.raises(loom.CompileError, match="not reached by all threads of a block"):

        @loom.kernel
        def wrong(a: loom.array(dtype=float)):
            if loom.thread_idx() < 3:
                loom.sync_threads()


def test_outside_kernels_there_are_no_blocks():
    with pytest.raises(TypeError):
        loom.thread_idx()


@loom.kernel(block_dim=32)
def matmul_tf32(
    a: loom.array(dtype=float, ndim=2), b: loom.array(dtype=float, ndim=2), c: loom.array(dtype=float, ndim=2)
):
    part_a = loom.mma_load_a(a, 0, 0, layout="col")
    part_b = loom.mma_load_b(b, 0, 0, n=8)
    loom.mma_store(c, 0, 0, loom.mma(part_a, part_b, loom.vec4(1.0)))


def test_tensor_core_products():
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 8, (32, 32)).astype(np.float16) / 4 for _ in range(2))
    c = np.ones((32, 32), np.float32)
    loom.launch(matmul_f16, grid=(2, 2), inputs=[a, b], outputs=[c])
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64) + 1)

    a, b = rng.random((16, 16)).astype(np.float32), rng.random((16, 8)).astype(np.float32)
    c = np.zeros((16, 8), np.float32)
    loom.launch(matmul_tf32, grid=1, inputs=[a, b], outputs=[c])
    tf32 = [(x.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64) for x in (a, b)]
    np.testing.assert_allclose(c, tf32[0].T @ tf32[1] + 1, rtol=1e-6)

    a, b = rng.integers(-128, 128, (16, 16)).astype(np.int8), rng.integers(-128, 128, (8, 16)).astype(np.int8)
    c = np.zeros((16, 8), np.int32)
    loom.launch(matmul_i8, grid=1, inputs=[a, b], outputs=[c])
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32).T)


@loom.kernel(block_dim=64, check=True)
def beyond(a: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    tile[t] = a[loom.tid()]
    loom.sync_threads()
    a[loom.tid()] = tile[t + loom.block_idx()]


@loom.kernel(block_dim=32, check=True)
def asserts(a: loom.array(dtype=int)):
    s = loom.warp_reduce_add(a[loom.tid()])
    assert s < 32 or loom.lane_id() < 5, "too many"


def test_a_failed_check_names_the_thread():
    a = np.zeros(192, np.float32)
    # Of the last block two threads fail, and the launch reports the first; of two blocks, either.
    with pytest.raises(
        loom.LaunchError, match=r"index 64 is out of bounds for axis 0 of `tile` with extent 64"
    ) as error:
        loom.launch(beyond, dim=128, inputs=[a])
    assert "thread [127]" in str(error.value)
    with pytest.raises(loom.LaunchError, match=r"thread \[(127|190)\]"):
        loom.launch(beyond, dim=192, inputs=[a])
    counts = np.zeros(96, np.int32)
    counts[40:80] = 1
    with pytest.raises(loom.LaunchError, match=r"too many.*thread \[37\]"):
        counts[64:] = 0
        counts[32:64] = 1
        loom.launch(asserts, dim=96, inputs=[counts])


@loom.kernel
def rounds(a: loom.array(dtype=loom.uint32), n: int):
    x = loom.uint32(loom.tid())
    for _i in range(n):
        x = loom.shuffle_xor(x, 1) * loom.uint32(1664525) + loom.uint32(1013904223)
        loom.sync_threads()
    a[loom.tid()] = x


def test_a_long_launch_can_be_interrupted():
    a = np.zeros(1 << 20, np.uint32)
    # Tests that are started in the background ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        # Minutes, if it were not.
        loom.launch(rounds, dim=1 << 20, inputs=[a, 1_000_000])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, before)


@loom.kernel(block_dim=64)
def sum_in_last_block(
    a: loom.array(dtype=loom.int64),
    partial: loom.array(dtype=loom.int64),
    count: loom.array(dtype=loom.uint32),
    total: loom.array(dtype=loom.int64),
):
    ticket = loom.shared_array(shape=1, dtype=loom.uint32)
    sums = loom.shared_array(shape=2, dtype=loom.int64)
    s = loom.warp_reduce_add(a[loom.tid()])
    if loom.lane_id() == 0:
        sums[loom.warp_id()] = s
    loom.sync_threads()
    if loom.thread_idx() == 0:
        partial[loom.block_idx()] = sums[0] + sums[1]
        loom.thread_fence()
        ticket[0] = loom.atomic_inc(count, 0, loom.uint32(loom.grid_dim() - 1), order="acq_rel")
    loom.sync_threads()
    if ticket[0] == loom.uint32(loom.grid_dim() - 1):
        s = loom.int64(0)
        for i in range(loom.thread_idx(), loom.grid_dim(), 64):
            s += partial[i]
        loom.atomic_add(total, 0, s)


def test_the_last_block_sees_what_all_blocks_wrote():
    a = np.random.default_rng(4).integers(-1000, 1000, 1 << 16)
    partial, count, total = np.zeros(1 << 10, np.int64), np.zeros(1, np.uint32), np.zeros(1, np.int64)
    for _ in range(5):
        total[0] = 0
        partial[:] = 1 << 40
        loom.launch(sum_in_last_block, dim=1 << 16, inputs=[a, partial, count, total])
        assert total[0] == a.sum()
        assert count[0] == 0


@loom.kernel(block_dim=32)
def swapped(mask: loom.array(dtype=loom.uint32), x: loom.array(dtype=int), out: loom.array(dtype=int)):
    parts = loom.shared_array(shape=32, dtype=int)
    i = loom.tid()
    lane = loom.lane_id()
    parts[lane] = x[i]
    loom.sync_warp(mask[lane])
    out[i] = parts[lane ^ 5]


@pytest.mark.parametrize("sanitize", ["none", "all"])
@pytest.mark.parametrize(
    ("masks", "finding"),
    [
        # Each lane waits for its half of the warp, in which the other is.
        ([0xFFFF] * 16 + [0xFFFF0000] * 16, None),
        ([0xFF << lane // 8 * 8 for lane in range(32)], None),
        ([3 << lane // 2 * 2 for lane in range(32)], "data race"),
        ([1 << lane // 2 for lane in range(32)], "lanes outside the member mask"),
        ([0] * 32, "lanes outside the member mask"),
    ],
)
def test_lanes_of_a_warp_may_wait_for_some(masks, finding, sanitize):
    x = np.arange(64, dtype=np.int32)
    expected = x.reshape(2, 32)[:, np.arange(32) ^ 5].ravel()
    given = np.array(masks, np.uint32)
    for device in ("cpu", "sim:0"):
        out = np.zeros(64, np.int32)
        loom.sim.configure(sanitize=sanitize)
        try:
            if device == "sim:0" and sanitize == "all" and finding is not None:
                with pytest.raises(loom.SanitizerError, match=finding):
                    loom.launch(swapped, 64, [given, x], [out], device=device)
                continue
            loom.launch(swapped, 64, [given, x], [out], device=device)
        finally:
            loom.sim.configure(sanitize="default")
        np.testing.assert_array_equal(out, expected)
