"""A product of float16 matrices on tensor cores: warps multiply fragments while the next tiles are copied.

A block computes 32 rows and columns with four warps, each a quarter of them. Tiles of the factors come to shared memory
by asynchronous copies, two buffers taking turns.
"""

from __future__ import annotations

import numpy as np
import polyloom as loom

TILE = 32
DEPTH = 16
BLOCK = 128
# Rows of shared tiles have 8 elements more than are used: they begin at different banks, and at multiples of 16 bytes.
PAD = 8


@loom.func
def begin_copies(
    a: loom.array(dtype=loom.float16, ndim=2),
    b: loom.array(dtype=loom.float16, ndim=2),
    tiles_a: loom.array(dtype=loom.float16, ndim=2),
    tiles_b: loom.array(dtype=loom.float16, ndim=2),
    row: int,
    col: int,
    step: int,
):
    """Each thread copies 8 elements: half of the block those of one factor, half those of the other."""
    t = loom.thread_idx()
    depth = step * DEPTH
    buffer = step % 2
    if t < 64:
        i = t // 2
        j = t % 2 * 8
        loom.async_copy(tiles_a[buffer * TILE + i, j], a[row + i, depth + j], count=8)
    else:
        i = (t - 64) // 4
        j = t % 4 * 8
        loom.async_copy(tiles_b[buffer * DEPTH + i, j], b[depth + i, col + j], count=8)
    loom.async_commit()


@loom.kernel(block_dim=BLOCK)
def multiply(
    a: loom.array(dtype=loom.float16, ndim=2),
    b: loom.array(dtype=loom.float16, ndim=2),
    c: loom.array(dtype=float, ndim=2),
):
    tiles_a = loom.shared_array(shape=(2 * TILE, DEPTH + PAD), dtype=loom.float16)
    tiles_b = loom.shared_array(shape=(2 * DEPTH, TILE + PAD), dtype=loom.float16)
    row = loom.block_idx(1) * TILE
    col = loom.block_idx(0) * TILE
    warp_row = loom.warp_id() // 2 * 16
    warp_col = loom.warp_id() % 2 * 16
    total = loom.types.vector(length=8, dtype=float)()
    n_steps = a.shape[1] // DEPTH
    begin_copies(a, b, tiles_a, tiles_b, row, col, 0)
    for step in range(n_steps):
        if step + 1 < n_steps:
            begin_copies(a, b, tiles_a, tiles_b, row, col, step + 1)
            loom.async_wait(1)
        else:
            loom.async_wait()
        loom.sync_threads()
        buffer = step % 2
        part_a = loom.mma_load_a(tiles_a, buffer * TILE + warp_row, 0)
        part_b = loom.mma_load_b(tiles_b, buffer * DEPTH, warp_col)
        total = loom.mma(part_a, part_b, total)
        # The tiles are free for the copies of the step after the next.
        loom.sync_threads()
    loom.mma_store(c, row + warp_row, col + warp_col, total)


def padded(a: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """The matrix with zeros up to multiples of so many rows and columns."""
    return np.pad(a, ((0, -a.shape[0] % rows), (0, -a.shape[1] % cols)))


def product(a: np.ndarray, b: np.ndarray, device: str = "cpu") -> np.ndarray:
    """a @ b of matrices of float16, in float32."""
    whole_a, whole_b = padded(a, TILE, DEPTH), padded(b, DEPTH, TILE)
    c = np.empty((whole_a.shape[0], whole_b.shape[1]), np.float32)
    grid = (c.shape[1] // TILE, c.shape[0] // TILE)
    loom.launch(multiply, grid=grid, inputs=[whole_a, whole_b], outputs=[c], device=device)
    return c[: a.shape[0], : b.shape[1]]


if __name__ == "__main__":
    a, b = np.random.default_rng(0).normal(size=(2, 100, 100)).astype(np.float16)
    print("largest error:", np.abs(product(a, b) - a.astype(np.float64) @ b.astype(np.float64)).max())
