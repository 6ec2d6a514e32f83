"""Sums of blocks of 64 elements, by shuffles and shared memory."""

import numpy as np
import polyloom as loom


@loom.kernel(block_dim=64)
def block_sums(x: loom.array(dtype=float), sums: loom.array(dtype=float), largest: loom.array(dtype=float)):
    of_warps = loom.shared_array(shape=2, dtype=float)
    greatest = loom.shared_array(shape=2, dtype=float)
    i = loom.tid()
    value = 0.0
    if i < x.shape[0]:
        value = x[i]
    total = value
    for power in range(5):
        total += loom.shuffle_down(total, 16 >> power)
    most = loom.warp_reduce_max(value)
    if loom.lane_id() == 0:
        of_warps[loom.warp_id()] = total
        greatest[loom.warp_id()] = most
    loom.sync_threads()
    if loom.thread_idx() == 0:
        sums[loom.block_idx()] = of_warps[0] + of_warps[1]
        largest[loom.block_idx()] = loom.max(greatest[0], greatest[1])


def arguments(random):
    return (random.random(150, dtype=np.float32),)


def dim(x):
    return 192


def twin(x):
    results = np.zeros((2, 3), np.float32)
    loom.launch(block_sums, 192, [x, *results])
    return results[0], results[1]


def expected(x):
    blocks = np.zeros(192)
    blocks[: len(x)] = x
    return blocks.reshape(3, 64).sum(1), blocks.reshape(3, 64).max(1)
