"""Reads of shared and global memory that nobody wrote."""

import numpy as np
import polyloom as loom

from planted import UNINITIALISED, Unset, numbers, plant, zeros


def guarded_load(x: loom.array(dtype=float), n: int, out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t < n:
        tile[t] = x[t]
    loom.sync_threads()
    out[t] = tile[63 - t]  # BUG


def guarded_load_twin(x: loom.array(dtype=float), n: int, out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t < n:
        tile[t] = x[t]
    else:
        tile[t] = 0.0
    loom.sync_threads()
    out[t] = tile[63 - t]


plant(UNINITIALISED, guarded_load, guarded_load_twin, [numbers(64), 50, zeros(64)])


def counts_not_cleared(x: loom.array(dtype=int), counts: loom.array(dtype=int)):
    own = loom.shared_array(shape=8, dtype=int)
    t = loom.thread_idx()
    loom.atomic_add(own, x[t], 1)  # BUG
    loom.sync_threads()
    if t < 8:
        counts[t] = own[t]


def counts_not_cleared_twin(x: loom.array(dtype=int), counts: loom.array(dtype=int)):
    own = loom.shared_array(shape=8, dtype=int)
    t = loom.thread_idx()
    if t < 8:
        own[t] = 0
    loom.sync_threads()
    loom.atomic_add(own, x[t], 1)
    loom.sync_threads()
    if t < 8:
        counts[t] = own[t]


plant(
    UNINITIALISED,
    counts_not_cleared,
    counts_not_cleared_twin,
    [np.arange(64, dtype=np.int32) % 8, zeros(8, dtype=np.int32)],
)


def too_many_parts(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    partial = loom.shared_array(shape=32, dtype=float)
    s = loom.warp_reduce_add(x[loom.tid()])
    if loom.lane_id() == 0:
        partial[loom.warp_id()] = s
    loom.sync_threads()
    if loom.warp_id() == 0:
        total = loom.warp_reduce_add(partial[loom.lane_id()])  # BUG
        if loom.lane_id() == 0:
            out[0] = total


def too_many_parts_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    partial = loom.shared_array(shape=32, dtype=float)
    s = loom.warp_reduce_add(x[loom.tid()])
    if loom.lane_id() == 0:
        partial[loom.warp_id()] = s
    loom.sync_threads()
    if loom.warp_id() == 0:
        part = 0.0
        if loom.lane_id() < loom.block_dim() // 32:
            part = partial[loom.lane_id()]
        total = loom.warp_reduce_add(part)
        if loom.lane_id() == 0:
            out[0] = total


plant(UNINITIALISED, too_many_parts, too_many_parts_twin, [numbers(64), zeros(1)])


def dynamic_tail(x: loom.array(dtype=float)):
    tile = loom.dynamic_shared(shape=96, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]
    loom.sync_threads()
    x[t] = tile[t] + tile[t + 32]  # BUG


def dynamic_tail_twin(x: loom.array(dtype=float)):
    tile = loom.dynamic_shared(shape=96, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]
    if t < 32:
        tile[t + 64] = 0.0
    loom.sync_threads()
    x[t] = tile[t] + tile[t + 32]


plant(UNINITIALISED, dynamic_tail, dynamic_tail_twin, [numbers(64)], shared_bytes=384)


def no_corners(x: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)):
    tile = loom.shared_array(shape=(10, 10), dtype=float)
    i, j = loom.thread_idx(1), loom.thread_idx(0)
    tile[i + 1, j + 1] = x[i + 1, j + 1]
    if i == 0:
        tile[0, j + 1] = x[0, j + 1]
        tile[9, j + 1] = x[9, j + 1]
    if j == 0:
        tile[i + 1, 0] = x[i + 1, 0]
        tile[i + 1, 9] = x[i + 1, 9]
    loom.sync_threads()
    out[i, j] = tile[i, j] + tile[i + 2, j + 2]  # BUG


def no_corners_twin(x: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)):
    tile = loom.shared_array(shape=(10, 10), dtype=float)
    i, j = loom.thread_idx(1), loom.thread_idx(0)
    for e in range(i * 8 + j, 100, 64):
        tile[e // 10, e % 10] = x[e // 10, e % 10]
    loom.sync_threads()
    out[i, j] = tile[i, j] + tile[i + 2, j + 2]


plant(UNINITIALISED, no_corners, no_corners_twin, [numbers(10, 10), zeros(8, 8)], block=(8, 8))


def sum_not_cleared(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    total = loom.shared_array(shape=1, dtype=float)
    t = loom.thread_idx()
    for k in range(64):
        if t == k:
            total[0] = total[0] + x[k]  # BUG
        loom.sync_threads()
    out[t] = total[0]


def sum_not_cleared_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    total = loom.shared_array(shape=1, dtype=float)
    t = loom.thread_idx()
    if t == 0:
        total[0] = 0.0
    loom.sync_threads()
    for k in range(64):
        if t == k:
            total[0] = total[0] + x[k]
        loom.sync_threads()
    out[t] = total[0]


plant(UNINITIALISED, sum_not_cleared, sum_not_cleared_twin, [numbers(64), zeros(64)])


def add_to_nothing(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    out[i] = out[i] + x[i]  # BUG


def add_to_nothing_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    out[i] = x[i]


plant(UNINITIALISED, add_to_nothing, add_to_nothing_twin, [numbers(64), Unset(64)])


def scratch_tail(x: loom.array(dtype=float), scratch: loom.array(dtype=float), n: int, out: loom.array(dtype=float)):
    i = loom.tid()
    if i < n:
        scratch[i] = 2.0 * x[i]
    loom.sync_threads()
    out[i] = scratch[63 - i]  # BUG


def scratch_tail_twin(
    x: loom.array(dtype=float), scratch: loom.array(dtype=float), n: int, out: loom.array(dtype=float)
):
    i = loom.tid()
    if i < n:
        scratch[i] = 2.0 * x[i]
    loom.sync_threads()
    if 63 - i < n:
        out[i] = scratch[63 - i]


plant(UNINITIALISED, scratch_tail, scratch_tail_twin, [numbers(64), Unset(64), 50, zeros(64)])
