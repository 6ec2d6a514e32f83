"""Blocks, warps and shared memory on the CPU, against NumPy."""

from __future__ import annotations

import numpy as np
import polyloom as loom
import pytest

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


@loom.kernel
def block_sums(a: loom.array(dtype=loom.float64), sums: loom.array(dtype=loom.float64)):
    part = loom.shared_array(shape=32, dtype=loom.float64)
    i = loom.tid()
    warp_sum = loom.warp_reduce_add(a[i])
    if loom.lane_id() == 0:
        part[loom.warp_id()] = warp_sum
    loom.sync_threads()
    if loom.warp_id() == 0:
        x = loom.float64(0.0)
        if loom.lane_id() < loom.block_dim() // 32:
            x = part[loom.lane_id()]
        total = loom.warp_reduce_add(x)
        if loom.lane_id() == 0:
            sums[loom.block_idx()] = total


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


@loom.kernel
def dynamic(out: loom.array(dtype=int), n: int):
    part = loom.dynamic_shared(shape=n, dtype=int)
    t = loom.thread_idx()
    part[t] = t
    loom.sync_threads()
    out[loom.tid()] = part[n - 1 - t]


def test_dynamic_shared_memory():
    out = np.zeros(8, np.int32)
    loom.launch(dynamic, grid=2, block=4, shared_bytes=16, inputs=[out, 4])
    np.testing.assert_array_equal(out, [3, 2, 1, 0] * 2)
    with pytest.raises(RuntimeError, match="the buffer ends"):
        loom.launch(dynamic, grid=2, block=4, shared_bytes=8, inputs=[out, 4])


def test_what_a_launch_cannot_be():
    out = np.zeros(8, np.int32)
    with pytest.raises(TypeError, match="not both"):
        loom.launch(dynamic, dim=4, grid=2, inputs=[out, 4])
    with pytest.raises(TypeError, match="dim is missing"):
        loom.launch(dynamic, inputs=[out, 4])
    with pytest.raises(ValueError, match="up to 1024 threads"):
        loom.launch(dynamic, dim=4, block_dim=2000, inputs=[out, 4])
    with pytest.raises(ValueError, match="positive"):
        loom.launch(dynamic, grid=(1, 0), inputs=[out, 4])


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
