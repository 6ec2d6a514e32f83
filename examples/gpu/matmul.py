"""A product of matrices by tiles: each block computes one, and reads the elements of the factors once for all of it."""

from __future__ import annotations

import numpy as np
import polyloom as loom

TILE = 16


@loom.kernel(block_dim=(TILE, TILE))
def multiply(
    a: loom.array(dtype=float, ndim=2),
    b: loom.array(dtype=float, ndim=2),
    c: loom.array(dtype=float, ndim=2),
):
    tile_a = loom.shared_array(shape=(TILE, TILE), dtype=float)
    tile_b = loom.shared_array(shape=(TILE, TILE), dtype=float)
    tx, ty = loom.thread_idx(0), loom.thread_idx(1)
    row = loom.block_idx(1) * TILE + ty
    col = loom.block_idx(0) * TILE + tx
    total = 0.0
    for start in range(0, a.shape[1], TILE):
        # Zeros past the edges add nothing.
        tile_a[ty, tx] = 0.0
        tile_b[ty, tx] = 0.0
        if row < a.shape[0] and start + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, start + tx]
        if start + ty < b.shape[0] and col < b.shape[1]:
            tile_b[ty, tx] = b[start + ty, col]
        loom.sync_threads()
        for k in range(TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        # Nobody loads the next tiles before all are done with these.
        loom.sync_threads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


def product(a: np.ndarray, b: np.ndarray, device: str = "cpu") -> np.ndarray:
    """a @ b of matrices of float32."""
    c = np.empty((a.shape[0], b.shape[1]), np.float32)
    grid = (-(-c.shape[1] // TILE), -(-c.shape[0] // TILE))
    loom.launch(multiply, grid=grid, inputs=[a, b], outputs=[c], device=device)
    return c


if __name__ == "__main__":
    random = np.random.default_rng(0)
    a, b = random.random((100, 70)).astype(np.float32), random.random((70, 90)).astype(np.float32)
    print("largest error:", np.abs(product(a, b) - a.astype(np.float64) @ b).max())
