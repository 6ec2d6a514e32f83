"""Races in global memory, of the threads of a block and between blocks."""

import numpy as np
import polyloom as loom

from planted import RACE, numbers, plant, zeros


def smooth_in_place(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    if i > 0 and i < x.shape[0] - 1:
        x[i] = 0.5 * (x[i - 1] + x[i + 1])  # BUG


def smooth_in_place_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    if i > 0 and i < x.shape[0] - 1:
        out[i] = 0.5 * (x[i - 1] + x[i + 1])


plant(RACE, smooth_in_place, smooth_in_place_twin, [numbers(64), zeros(64)])


def exchange(scratch: loom.array(dtype=float), out: loom.array(dtype=float)):
    t = loom.thread_idx()
    scratch[t] = float(t)  # BUG
    out[t] = scratch[t ^ 1]  # BUG


def exchange_twin(scratch: loom.array(dtype=float), out: loom.array(dtype=float)):
    t = loom.thread_idx()
    scratch[t] = float(t)
    loom.sync_threads()
    out[t] = scratch[t ^ 1]


plant(RACE, exchange, exchange_twin, [zeros(64), zeros(64)])


def total(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    out[0] = out[0] + x[i]  # BUG


def total_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    out[0] += x[i]


plant(RACE, total, total_twin, [numbers(64), zeros(1)])


def neighbour_block(x: loom.array(dtype=float), sums: loom.array(dtype=float), out: loom.array(dtype=float)):
    block = loom.block_idx()
    s = loom.warp_reduce_add(x[loom.tid()])
    if loom.lane_id() == 0:
        sums[block] = s  # BUG
        if block > 0:
            out[block] = s + sums[block - 1]  # BUG


def neighbour_block_twin(x: loom.array(dtype=float), sums: loom.array(dtype=float), out: loom.array(dtype=float)):
    block = loom.block_idx()
    s = loom.warp_reduce_add(x[loom.tid()])
    if loom.lane_id() == 0:
        loom.atomic_add(out, block, s)
        if block < loom.grid_dim() - 1:
            loom.atomic_add(out, block + 1, s)


plant(RACE, neighbour_block, neighbour_block_twin, [numbers(128), zeros(4), zeros(4)], grid=4, block=32)


def last_block(sums: loom.array(dtype=float), counter: loom.array(dtype=loom.uint32), out: loom.array(dtype=float)):
    n = loom.grid_dim()
    block = loom.block_idx()
    sums[block] = float(block)  # BUG
    if loom.atomic_add(counter, 0, loom.uint32(1)) == loom.uint32(n - 1):
        total = 0.0
        for k in range(n):
            total += sums[k]  # BUG
        out[0] = total


def last_block_twin(
    sums: loom.array(dtype=float), counter: loom.array(dtype=loom.uint32), out: loom.array(dtype=float)
):
    n = loom.grid_dim()
    block = loom.block_idx()
    sums[block] = float(block)
    loom.thread_fence()
    if loom.atomic_add(counter, 0, loom.uint32(1)) == loom.uint32(n - 1):
        loom.thread_fence()
        total = 0.0
        for k in range(n):
            total += sums[k]
        out[0] = total


plant(RACE, last_block, last_block_twin, [zeros(8), zeros(1, dtype=np.uint32), zeros(1)], grid=8, block=1)


def narrow_scope(counts: loom.array(dtype=int)):
    t = loom.thread_idx()
    loom.atomic_add(counts, t % 2, 1, scope="block")  # BUG


def narrow_scope_twin(counts: loom.array(dtype=int)):
    t = loom.thread_idx()
    loom.atomic_add(counts, t % 2, 1, scope="device")


plant(RACE, narrow_scope, narrow_scope_twin, [zeros(2, dtype=np.int32)], grid=2)


def overlapping_tiles(out: loom.array(dtype=float)):
    t = loom.thread_idx()
    begin = loom.block_idx() * 31
    out[begin + t] = float(loom.block_idx() + 1)  # BUG


def overlapping_tiles_twin(out: loom.array(dtype=float)):
    t = loom.thread_idx()
    begin = loom.block_idx() * 32
    out[begin + t] = float(loom.block_idx() + 1)


plant(RACE, overlapping_tiles, overlapping_tiles_twin, [zeros(128)], grid=4, block=32)


def lock(state: loom.array(dtype=int), total: loom.array(dtype=int)):
    while loom.atomic_cas(state, 0, 0, 1) != 0:
        loom.nanosleep(20)
    total[0] = total[0] + 1  # BUG
    loom.atomic_exch(state, 0, 0)


def lock_twin(state: loom.array(dtype=int), total: loom.array(dtype=int)):
    while loom.atomic_cas(state, 0, 0, 1, order="acquire") != 0:
        loom.nanosleep(20)
    total[0] = total[0] + 1
    loom.atomic_exch(state, 0, 0, order="release")


plant(RACE, lock, lock_twin, [zeros(1, dtype=np.int32), zeros(1, dtype=np.int32)], grid=3, block=1)


def message(flag: loom.array(dtype=int), value: loom.array(dtype=float), out: loom.array(dtype=float)):
    if loom.block_idx() == 0:
        value[0] = 42.0  # BUG
        loom.atomic_exch(flag, 0, 1)
    else:
        while loom.atomic_add(flag, 0, 0) == 0:
            loom.nanosleep(20)
        out[0] = value[0]  # BUG


def message_twin(flag: loom.array(dtype=int), value: loom.array(dtype=float), out: loom.array(dtype=float)):
    if loom.block_idx() == 0:
        value[0] = 42.0
        loom.atomic_exch(flag, 0, 1, order="release")
    else:
        while loom.atomic_add(flag, 0, 0, order="acquire") == 0:
            loom.nanosleep(20)
        out[0] = value[0]


plant(RACE, message, message_twin, [zeros(1, dtype=np.int32), zeros(1), zeros(1)], grid=2, block=1)


def transpose_in_place(a: loom.array(dtype=float, ndim=2)):
    i, j = loom.thread_idx(1), loom.thread_idx(0)
    if i != j:
        upper = a[i, j]  # BUG
        lower = a[j, i]  # BUG
        a[j, i] = upper  # BUG
        a[i, j] = lower  # BUG


def transpose_in_place_twin(a: loom.array(dtype=float, ndim=2)):
    i, j = loom.thread_idx(1), loom.thread_idx(0)
    if i < j:
        upper = a[i, j]
        lower = a[j, i]
        a[j, i] = upper
        a[i, j] = lower


plant(RACE, transpose_in_place, transpose_in_place_twin, [numbers(8, 8)], block=(8, 8))


def barrier_between_blocks(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    n = x.shape[0]
    x[i] = 2.0 * x[i]  # BUG
    loom.sync_threads()
    out[i] = x[n - 1 - i]  # BUG


def barrier_between_blocks_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    n = x.shape[0]
    out[i] = 2.0 * x[n - 1 - i]


plant(RACE, barrier_between_blocks, barrier_between_blocks_twin, [numbers(128), zeros(128)], grid=2)


def compact(x: loom.array(dtype=float), count: loom.array(dtype=int), out: loom.array(dtype=float)):
    i = loom.tid()
    if x[i] > 32.0:
        at = count[0]  # BUG
        count[0] = at + 1  # BUG
        out[at] = x[i]  # BUG


def compact_twin(x: loom.array(dtype=float), count: loom.array(dtype=int), out: loom.array(dtype=float)):
    i = loom.tid()
    if x[i] > 32.0:
        at = loom.atomic_add(count, 0, 1)
        out[at] = x[i]


plant(RACE, compact, compact_twin, [numbers(64), zeros(1, dtype=np.int32), zeros(64)])
