"""The sum of an array: warps add by shuffles, blocks through shared memory, and a second launch adds up the blocks.

Every sum has a fixed order, so the result has the same bits on every device.
"""

from __future__ import annotations

import numpy as np
import polyloom as loom

BLOCK = 128
WARPS = BLOCK // 32


@loom.func
def warp_sum(x: float):
    """The sum over the warp, in lane 0: after each step a lane has what twice as many lanes had."""
    for step in range(5):
        x += loom.shuffle_down(x, 16 >> step)
    return x


@loom.kernel(block_dim=BLOCK)
def sum_blocks(x: loom.array(dtype=float), sums: loom.array(dtype=float)):
    partial = loom.shared_array(shape=WARPS, dtype=float)
    total = 0.0
    for i in range(loom.tid(), x.shape[0], BLOCK * loom.grid_dim()):
        total += x[i]
    total = warp_sum(total)
    if loom.lane_id() == 0:
        partial[loom.warp_id()] = total
    loom.sync_threads()
    if loom.warp_id() == 0:
        total = 0.0
        if loom.lane_id() < WARPS:
            total = partial[loom.lane_id()]
        total = warp_sum(total)
        if loom.lane_id() == 0:
            sums[loom.block_idx()] = total


def array_sum(x: np.ndarray, device: str = "cpu") -> float:
    """The sum of an array of float32."""
    n_blocks = min(BLOCK, -(-x.size // (4 * BLOCK))) or 1
    sums = np.zeros(n_blocks, np.float32)
    total = np.zeros(1, np.float32)
    loom.launch(sum_blocks, grid=n_blocks, inputs=[x], outputs=[sums], device=device)
    loom.launch(sum_blocks, grid=1, inputs=[sums], outputs=[total], device=device)
    return float(total[0])


if __name__ == "__main__":
    x = np.random.default_rng(0).random(100_000).astype(np.float32)
    print(array_sum(x), "and by NumPy in float64", x.sum(dtype=np.float64))
