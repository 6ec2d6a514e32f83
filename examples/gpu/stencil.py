"""Heat in a plate: a step of the five-point stencil, from a tile in shared memory with a rim of neighbours (a halo)."""

from __future__ import annotations

import numpy as np
import polyloom as loom

TILE = 16
HALO = TILE + 2


@loom.kernel(block_dim=(TILE, TILE))
def heat_step(t: loom.array(dtype=float, ndim=2), rate: float, out: loom.array(dtype=float, ndim=2)):
    tile = loom.shared_array(shape=(HALO, HALO), dtype=float)
    tx, ty = loom.thread_idx(0), loom.thread_idx(1)
    row = loom.block_idx(1) * TILE
    col = loom.block_idx(0) * TILE
    # There are more elements than threads. Past the edge of the plate it is as warm as at the edge.
    for e in range(ty * TILE + tx, HALO * HALO, TILE * TILE):
        r = loom.clamp(row + e // HALO - 1, 0, t.shape[0] - 1)
        c = loom.clamp(col + e % HALO - 1, 0, t.shape[1] - 1)
        tile[e // HALO, e % HALO] = t[r, c]
    loom.sync_threads()
    if row + ty < t.shape[0] and col + tx < t.shape[1]:
        centre = tile[ty + 1, tx + 1]
        around = tile[ty, tx + 1] + tile[ty + 2, tx + 1] + tile[ty + 1, tx] + tile[ty + 1, tx + 2]
        out[row + ty, col + tx] = centre + rate * (around - 4.0 * centre)


def heat(t: np.ndarray, rate: float, steps: int, device: str = "cpu") -> np.ndarray:
    """Temperatures after some steps; `rate` is below 0.25."""
    now, then = t.copy(), np.empty_like(t)
    grid = (-(-t.shape[1] // TILE), -(-t.shape[0] // TILE))
    for _ in range(steps):
        loom.launch(heat_step, grid=grid, inputs=[now, rate], outputs=[then], device=device)
        now, then = then, now
    return now


if __name__ == "__main__":
    t = np.zeros((50, 70), np.float32)
    t[20:30, 30:40] = 100.0
    print("heat before and after:", t.sum(), heat(t, 0.2, 100).sum())
