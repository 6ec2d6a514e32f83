"""Batcher's bitonic sort: sorted runs, one upwards and one downwards, are merged into runs of twice the length.

A merge compares elements at a distance, then at half of it, down to neighbours. Distances within a block's share are
compared in shared memory, by one launch for all that are left; greater ones take a launch each.
"""

from __future__ import annotations

import numpy as np
import polyloom as loom

BLOCK = 64
SHARE = 2 * BLOCK


@loom.func
def sort_pair(keys: loom.array(dtype=float), low: int, high: int, upwards: bool):
    a = keys[low]
    b = keys[high]
    if (a > b) == upwards:
        keys[low] = b
        keys[high] = a


@loom.func
def lower_of_pair(pair: int, distance: int):
    """The first index of the pair of this number, when the second is `distance`, a power of two, further on."""
    return 2 * pair - (pair & (distance - 1))


@loom.kernel(block_dim=BLOCK)
def merge_in_blocks(keys: loom.array(dtype=float), first_run: int, last_run: int):
    """Merges into runs of lengths from one power of two to another, distances up to a block's share."""
    share = loom.shared_array(shape=SHARE, dtype=float)
    t = loom.thread_idx()
    begin = loom.block_idx() * SHARE
    share[t] = keys[begin + t]
    share[t + BLOCK] = keys[begin + t + BLOCK]
    run = first_run
    while run <= last_run:
        distance = loom.min(run // 2, BLOCK)
        while distance > 0:
            loom.sync_threads()
            low = lower_of_pair(t, distance)
            sort_pair(share, low, low + distance, ((begin + low) & run) == 0)
            distance = distance // 2
        run = run * 2
    loom.sync_threads()
    keys[begin + t] = share[t]
    keys[begin + t + BLOCK] = share[t + BLOCK]


@loom.kernel(block_dim=BLOCK)
def merge_at_distance(keys: loom.array(dtype=float), run: int, distance: int):
    low = lower_of_pair(loom.tid(), distance)
    sort_pair(keys, low, low + distance, (low & run) == 0)


def sorted_array(x: np.ndarray, device: str = "cpu") -> np.ndarray:
    """What numpy.sort gives for an array of float32 without NaNs."""
    length = max(SHARE, 1 << (x.size - 1).bit_length())
    keys = np.full(length, np.inf, np.float32)
    keys[: x.size] = x
    n_blocks = length // SHARE
    loom.launch(merge_in_blocks, grid=n_blocks, inputs=[keys, 2, SHARE], device=device)
    run = 2 * SHARE
    while run <= length:
        distance = run // 2
        while distance >= SHARE:
            loom.launch(merge_at_distance, grid=n_blocks, inputs=[keys, run, distance], device=device)
            distance //= 2
        loom.launch(merge_in_blocks, grid=n_blocks, inputs=[keys, run, run], device=device)
        run *= 2
    return keys[: x.size]


if __name__ == "__main__":
    x = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    print("equal to NumPy's:", np.array_equal(sorted_array(x), np.sort(x)))
