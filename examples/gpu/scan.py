"""Running sums: warps scan by shuffles, blocks add what their warps have, and sums of blocks are scanned in turn."""

from __future__ import annotations

import numpy as np
import polyloom as loom

BLOCK = 128
WARPS = BLOCK // 32


@loom.func
def warp_scan(x: float):
    """The sum of the lanes up to this one."""
    for step in range(5):
        distance = 1 << step
        below = loom.shuffle_up(x, distance)
        if loom.lane_id() >= distance:
            x += below
    return x


@loom.kernel(block_dim=BLOCK)
def scan_blocks(x: loom.array(dtype=float), out: loom.array(dtype=float), sums: loom.array(dtype=float)):
    warp_sums = loom.shared_array(shape=WARPS, dtype=float)
    i = loom.tid()
    value = 0.0
    if i < x.shape[0]:
        value = x[i]
    value = warp_scan(value)
    if loom.lane_id() == 31:
        warp_sums[loom.warp_id()] = value
    loom.sync_threads()
    before = 0.0
    for warp in range(loom.warp_id()):
        before += warp_sums[warp]
    value += before
    if i < x.shape[0]:
        out[i] = value
    if loom.thread_idx() == BLOCK - 1:
        sums[loom.block_idx()] = value


@loom.kernel(block_dim=BLOCK)
def add_to_blocks(out: loom.array(dtype=float), sums: loom.array(dtype=float)):
    i = loom.tid()
    block = loom.block_idx()
    if block > 0 and i < out.shape[0]:
        out[i] = out[i] + sums[block - 1]


def running_sums(x: np.ndarray, device: str = "cpu") -> np.ndarray:
    """What numpy.cumsum gives for an array of float32."""
    out = np.zeros_like(x)
    n_blocks = -(-x.size // BLOCK)
    sums = np.zeros(n_blocks, np.float32)
    loom.launch(scan_blocks, grid=n_blocks, inputs=[x], outputs=[out, sums], device=device)
    if n_blocks > 1:
        sums = running_sums(sums, device)
        loom.launch(add_to_blocks, grid=n_blocks, inputs=[out, sums], device=device)
    return out


if __name__ == "__main__":
    x = np.random.default_rng(0).random(100_000).astype(np.float32)
    print("largest error:", np.abs(running_sums(x) - x.cumsum(dtype=np.float64)).max())
