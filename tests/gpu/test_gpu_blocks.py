"""Blocks, warps, shared memory and tensor cores."""

import numpy as np
import polyloom as loom
import pytest
from block_kernels import block_sums, matmul_f16, matmul_i8, reversed_parts
from sources import define

TILE = 16


@loom.kernel(block_dim=(TILE, TILE))
def matmul(a: loom.array(dtype=float, ndim=2), b: loom.array(dtype=float, ndim=2), c: loom.array(dtype=float, ndim=2)):
    tile_a = loom.shared_array(shape=(TILE, TILE), dtype=float)
    tile_b = loom.shared_array(shape=(TILE, TILE), dtype=float)
    x, y = loom.thread_idx(0), loom.thread_idx(1)
    row, column = loom.block_idx(1) * TILE + y, loom.block_idx(0) * TILE + x
    total = loom.float32(0.0)
    for k in range(a.shape[1] // TILE):
        tile_a[y, x] = a[row, k * TILE + x]
        tile_b[y, x] = b[k * TILE + y, column]
        loom.sync_threads()
        for i in range(TILE):
            total += tile_a[y, i] * tile_b[i, x]
        loom.sync_threads()
    c[row, column] = total


def test_matmul_through_shared_memory(same_as_cpu):
    random = np.random.default_rng(12)
    a, b = random.random((32, 64)).astype(np.float32), random.random((64, 48)).astype(np.float32)
    *_, c = same_as_cpu(matmul, args=[a, b, np.zeros((32, 48), np.float32)], grid=(3, 2))
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5)


@pytest.mark.parametrize("block", [32, 256, 1024])
def test_reduction(device, block):
    a = np.random.default_rng(13).random(4096)
    sums = loom.zeros(4096 // block, dtype=loom.float64)
    loom.launch(block_sums, 4096, [loom.array(a), sums], block_dim=block)
    np.testing.assert_allclose(sums.numpy(), a.reshape(-1, block).sum(axis=1), rtol=1e-14)


def test_shuffles_votes_and_matches(same_as_cpu):
    @loom.kernel
    def exchange(x: loom.array(dtype=int), out: loom.array(dtype=loom.uint32, ndim=2)):
        i = loom.tid()
        lane = loom.lane_id()
        out[i, 0] = loom.uint32(loom.shuffle_xor(x[i], 5))
        out[i, 1] = loom.uint32(loom.shuffle_up(x[i], 3))
        out[i, 2] = loom.uint32(loom.shuffle_down(x[i], 7))
        out[i, 3] = loom.uint32(loom.shuffle(x[i], 31 - lane))
        out[i, 4] = loom.ballot(x[i] > 40)
        out[i, 5] = loom.where(loom.warp_any(x[i] > 95), loom.uint32(1), loom.uint32(0))
        out[i, 6] = loom.where(loom.warp_all(x[i] < 95), loom.uint32(1), loom.uint32(0))

    x = np.random.default_rng(14).integers(0, 100, 128).astype(np.int32)
    same_as_cpu(exchange, 128, [x, np.zeros((128, 7), np.uint32)], block_dim=64)


@pytest.mark.parametrize("n_bytes", [1024, 60_000])
def test_dynamic_shared_memory(device, n_bytes):
    """More than 48 KiB has to be asked for, which a launch does."""
    out = loom.zeros(512, dtype=int)
    loom.launch(reversed_parts, grid=2, block=256, shared_bytes=n_bytes, inputs=[out, 256])
    np.testing.assert_array_equal(out.numpy(), np.tile(np.arange(256)[::-1], 2))


def test_three_dimensional_blocks(same_as_cpu):
    @loom.kernel
    def where(out: loom.array(dtype=int, ndim=2)):
        i = loom.tid()
        out[i, 0] = loom.thread_idx(0) + 10 * loom.thread_idx(1) + 100 * loom.thread_idx(2)
        out[i, 1] = loom.block_idx(0) + 10 * loom.block_idx(1) + 100 * loom.block_idx(2)
        out[i, 2] = loom.block_dim(0) + 10 * loom.block_dim(1) + 100 * loom.block_dim(2)
        out[i, 3] = loom.grid_dim(0) + 10 * loom.grid_dim(1) + 100 * loom.grid_dim(2)

    same_as_cpu(where, args=[np.zeros((2 * 3 * 2 * 4 * 2 * 2, 4), np.int32)], grid=(2, 3, 2), block=(4, 2, 2))


def test_tensor_cores(device):
    random = np.random.default_rng(15)
    a, b = (random.integers(-8, 8, (32, 32)).astype(np.float16) / 4 for _ in range(2))
    c = loom.ones((32, 32))
    loom.launch(matmul_f16, grid=(2, 2), inputs=[loom.array(a), loom.array(b)], outputs=[c])
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64) @ b.astype(np.float64) + 1)


def test_tensor_cores_fed_by_asynchronous_copies(device):
    random = np.random.default_rng(16)
    a, b = random.integers(-128, 128, (16, 16)).astype(np.int8), random.integers(-128, 128, (8, 16)).astype(np.int8)
    c = loom.zeros((16, 8), dtype=int)
    loom.launch(matmul_i8, grid=1, inputs=[loom.array(a), loom.array(b)], outputs=[c])
    np.testing.assert_array_equal(c.numpy(), a.astype(np.int32) @ b.astype(np.int32).T)


def test_warps_wait_for_each_other_alone(same_as_cpu):
    @loom.kernel(block_dim=128)
    def hand_over(x: loom.array(dtype=float), y: loom.array(dtype=float)):
        t = loom.thread_idx()
        tile = loom.shared_array(shape=128, dtype=float)
        if loom.warp_id() < 2:
            tile[t] = x[loom.tid()] * 2.0
            loom.sync_threads(id=1, count=64)
            y[loom.tid()] = tile[63 - t]
        else:
            tile[t] = x[loom.tid()] * 3.0
            loom.sync_threads(id=2, count=64)
            y[loom.tid()] = tile[191 - t]
        loom.sync_threads()

    x = np.random.default_rng(17).random(128 * 64).astype(np.float32)
    _, y = same_as_cpu(hand_over, x.size, [x, np.zeros_like(x)])
    halves = x.reshape(-1, 2, 64) * np.float32([[[2], [3]]])
    np.testing.assert_array_equal(y.reshape(-1, 2, 64), halves[:, :, ::-1])


@pytest.mark.parametrize("cache", ["default", "l1", "l2", "streaming"])
def test_asynchronous_copies_through_each_cache(same_as_cpu, cache):
    kernel = define(f"""
        @loom.kernel(block_dim=32)
        def k(x: loom.array(dtype=float), y: loom.array(dtype=float)):
            t = loom.thread_idx()
            first = 128 * loom.block_idx()
            tile = loom.shared_array(shape=128, dtype=float)
            loom.async_copy(tile[4 * t], x[first + 4 * t], count=4, cache="{cache}")
            loom.async_commit()
            loom.async_wait()
            loom.sync_threads()
            for i in range(4):
                y[first + 4 * t + i] = tile[127 - 4 * t - i]
    """)["k"]
    x = np.arange(128 * 40, dtype=np.float32)
    _, y = same_as_cpu(kernel, args=[x, np.zeros_like(x)], grid=40)
    np.testing.assert_array_equal(y.reshape(-1, 128), x.reshape(-1, 128)[:, ::-1])
