"""A histogram: each block counts in shared memory, where additions are cheap, and adds its counts up at the end."""

from __future__ import annotations

import numpy as np
import polyloom as loom

BLOCK = 128
BINS = 256


@loom.kernel(block_dim=BLOCK)
def count(values: loom.array(dtype=loom.uint8), counts: loom.array(dtype=int)):
    own = loom.shared_array(shape=BINS, dtype=int)
    for b in range(loom.thread_idx(), BINS, BLOCK):
        own[b] = 0
    loom.sync_threads()
    for i in range(loom.tid(), values.shape[0], BLOCK * loom.grid_dim()):
        loom.atomic_add(own, int(values[i]), 1, scope="block")
    loom.sync_threads()
    for b in range(loom.thread_idx(), BINS, BLOCK):
        if own[b] > 0:
            loom.atomic_add(counts, b, own[b])


def histogram(values: np.ndarray, device: str = "cpu") -> np.ndarray:
    """How often each byte comes."""
    counts = np.zeros(BINS, np.int32)
    loom.launch(count, grid=min(16, values.size // BLOCK + 1), inputs=[values], outputs=[counts], device=device)
    return counts


if __name__ == "__main__":
    values = np.random.default_rng(0).binomial(255, 0.3, 100_000).astype(np.uint8)
    print("equal to NumPy's:", np.array_equal(histogram(values), np.bincount(values, minlength=BINS)))
