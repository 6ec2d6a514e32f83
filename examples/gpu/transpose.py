"""The transpose of a matrix by tiles: rows are read, rows are written, and only shared memory is read by columns."""

from __future__ import annotations

import numpy as np
import polyloom as loom

TILE = 32
ROWS = 8


@loom.kernel(block_dim=(TILE, ROWS))
def transpose(a: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)):
    # One more column than there are threads in a row: the elements of a column lie in different banks.
    tile = loom.shared_array(shape=(TILE, TILE + 1), dtype=float)
    tx, ty = loom.thread_idx(0), loom.thread_idx(1)
    col = loom.block_idx(0) * TILE + tx
    row = loom.block_idx(1) * TILE + ty
    for k in range(0, TILE, ROWS):
        if row + k < a.shape[0] and col < a.shape[1]:
            tile[ty + k, tx] = a[row + k, col]
    loom.sync_threads()
    col = loom.block_idx(1) * TILE + tx
    row = loom.block_idx(0) * TILE + ty
    for k in range(0, TILE, ROWS):
        if row + k < out.shape[0] and col < out.shape[1]:
            out[row + k, col] = tile[tx, ty + k]


def transposed(a: np.ndarray, device: str = "cpu") -> np.ndarray:
    """The transpose of a matrix of float32, a copy."""
    rows, cols = a.shape
    out = np.empty((cols, rows), np.float32)
    loom.launch(transpose, grid=(-(-cols // TILE), -(-rows // TILE)), inputs=[a], outputs=[out], device=device)
    return out


if __name__ == "__main__":
    a = np.random.default_rng(0).random((300, 500)).astype(np.float32)
    print("equal to NumPy's:", np.array_equal(transposed(a), a.T))
