"""The softmax of each row, a block for a row: its greatest element, the sum of exponentials, the quotients."""

from __future__ import annotations

import numpy as np
import polyloom as loom

BLOCK = 64
WARPS = BLOCK // 32


@loom.func
def block_max(x: float, partial: loom.array(dtype=float)):
    """The greatest of the block's values, in all its threads."""
    x = loom.warp_reduce_max(x)
    if loom.lane_id() == 0:
        partial[loom.warp_id()] = x
    loom.sync_threads()
    x = partial[0]
    for warp in range(1, WARPS):
        x = loom.max(x, partial[warp])
    loom.sync_threads()
    return x


@loom.func
def block_sum(x: float, partial: loom.array(dtype=float)):
    """The sum of the block's values, in all its threads."""
    x = loom.warp_reduce_add(x)
    if loom.lane_id() == 0:
        partial[loom.warp_id()] = x
    loom.sync_threads()
    x = partial[0]
    for warp in range(1, WARPS):
        x += partial[warp]
    loom.sync_threads()
    return x


@loom.kernel(block_dim=BLOCK)
def softmax_rows(x: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)):
    partial = loom.shared_array(shape=WARPS, dtype=float)
    row = loom.block_idx()
    t = loom.thread_idx()
    greatest = -loom.inf
    for j in range(t, x.shape[1], BLOCK):
        greatest = loom.max(greatest, x[row, j])
    greatest = block_max(greatest, partial)
    total = 0.0
    for j in range(t, x.shape[1], BLOCK):
        e = loom.exp(x[row, j] - greatest)
        out[row, j] = e
        total += e
    total = block_sum(total, partial)
    for j in range(t, x.shape[1], BLOCK):
        out[row, j] = out[row, j] / total


def softmax(x: np.ndarray, device: str = "cpu") -> np.ndarray:
    """The softmax of each row of a matrix of float32."""
    out = np.empty_like(x)
    loom.launch(softmax_rows, grid=x.shape[0], inputs=[x], outputs=[out], device=device)
    return out


if __name__ == "__main__":
    x = np.random.default_rng(0).normal(size=(20, 300)).astype(np.float32)
    e = np.exp(x.astype(np.float64))
    print("largest error:", np.abs(softmax(x) - e / e.sum(axis=1, keepdims=True)).max())
