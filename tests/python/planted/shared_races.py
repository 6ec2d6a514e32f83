"""Races between the threads of a block, in shared memory: mostly barriers that are missing."""

import numpy as np
import polyloom as loom

from planted import RACE, numbers, plant, zeros


def reverse(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]  # BUG
    out[t] = tile[63 - t]  # BUG


def reverse_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]
    loom.sync_threads()
    out[t] = tile[63 - t]


plant(RACE, reverse, reverse_twin, [numbers(64), zeros(64)])


def tree(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=128, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]
    loom.sync_threads()
    half = 64
    while half > 0:
        if t < half:
            tile[t] = tile[t] + tile[t + half]  # BUG
        half = half // 2
    loom.sync_threads()
    if t == 0:
        out[0] = tile[0]


def tree_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=128, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]
    loom.sync_threads()
    half = 64
    while half > 0:
        if t < half:
            tile[t] = tile[t] + tile[t + half]
        half = half // 2
        loom.sync_threads()
    if t == 0:
        out[0] = tile[0]


plant(RACE, tree, tree_twin, [numbers(128), zeros(1)], block=128)


def tile_loop(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    total = 0.0
    for start in range(0, 256, 64):
        tile[t] = x[start + t]  # BUG
        loom.sync_threads()
        for k in range(64):
            total += tile[k]  # BUG
    out[t] = total


def tile_loop_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    total = 0.0
    for start in range(0, 256, 64):
        tile[t] = x[start + t]
        loom.sync_threads()
        for k in range(64):
            total += tile[k]
        loom.sync_threads()
    out[t] = total


plant(RACE, tile_loop, tile_loop_twin, [numbers(256), zeros(64)])


def lanes(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=32, dtype=float)
    lane = loom.lane_id()
    tile[lane] = x[lane]  # BUG
    out[lane] = tile[(lane + 1) % 32]  # BUG


def lanes_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=32, dtype=float)
    lane = loom.lane_id()
    tile[lane] = x[lane]
    loom.sync_warp()
    out[lane] = tile[(lane + 1) % 32]


plant(RACE, lanes, lanes_twin, [numbers(32), zeros(32)], block=32)


def bins(x: loom.array(dtype=int), counts: loom.array(dtype=int)):
    own = loom.shared_array(shape=8, dtype=int)
    t = loom.thread_idx()
    if t < 8:
        own[t] = 0
    loom.sync_threads()
    own[x[t]] = own[x[t]] + 1  # BUG
    loom.sync_threads()
    if t < 8:
        counts[t] = own[t]


def bins_twin(x: loom.array(dtype=int), counts: loom.array(dtype=int)):
    own = loom.shared_array(shape=8, dtype=int)
    t = loom.thread_idx()
    if t < 8:
        own[t] = 0
    loom.sync_threads()
    own[x[t]] += 1
    loom.sync_threads()
    if t < 8:
        counts[t] = own[t]


plant(RACE, bins, bins_twin, [np.arange(64, dtype=np.int32) % 8, zeros(8, dtype=np.int32)])


def broadcast(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    first = loom.shared_array(shape=1, dtype=float)
    t = loom.thread_idx()
    if t == 0:
        first[0] = x[0]  # BUG
    out[t] = x[t] - first[0]  # BUG


def broadcast_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    first = loom.shared_array(shape=1, dtype=float)
    t = loom.thread_idx()
    if t == 0:
        first[0] = x[0]
    loom.sync_threads()
    out[t] = x[t] - first[0]


plant(RACE, broadcast, broadcast_twin, [numbers(64), zeros(64)])


def clear_and_count(x: loom.array(dtype=int), counts: loom.array(dtype=int)):
    own = loom.shared_array(shape=4, dtype=int)
    t = loom.thread_idx()
    if t >= 60:
        own[t - 60] = 0  # BUG
    loom.atomic_add(own, x[t], 1)  # BUG
    loom.sync_threads()
    if t < 4:
        counts[t] = own[t]


def clear_and_count_twin(x: loom.array(dtype=int), counts: loom.array(dtype=int)):
    own = loom.shared_array(shape=4, dtype=int)
    t = loom.thread_idx()
    if t >= 60:
        own[t - 60] = 0
    loom.sync_threads()
    loom.atomic_add(own, x[t], 1)
    loom.sync_threads()
    if t < 4:
        counts[t] = own[t]


plant(RACE, clear_and_count, clear_and_count_twin, [np.arange(64, dtype=np.int32) % 4, zeros(4, dtype=np.int32)])


def halo(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=66, dtype=float)
    t = loom.thread_idx()
    tile[t + 1] = x[t + 1]
    loom.sync_threads()
    if t == 0:
        tile[0] = x[0]
    if t == 1:
        tile[65] = x[65]  # BUG
    out[t] = tile[t] + tile[t + 2]  # BUG


def halo_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=66, dtype=float)
    t = loom.thread_idx()
    tile[t + 1] = x[t + 1]
    if t == 0:
        tile[0] = x[0]
    if t == 1:
        tile[65] = x[65]
    loom.sync_threads()
    out[t] = tile[t] + tile[t + 2]


plant(RACE, halo, halo_twin, [numbers(66), zeros(64)])


def one_buffer(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    buffers = loom.shared_array(shape=(2, 64), dtype=float)
    t = loom.thread_idx()
    total = 0.0
    for step in range(4):
        buffers[step // 2, t] = x[step * 64 + t]  # BUG
        loom.sync_threads()
        total += buffers[step // 2, 63 - t]  # BUG
    out[t] = total


def one_buffer_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    buffers = loom.shared_array(shape=(2, 64), dtype=float)
    t = loom.thread_idx()
    total = 0.0
    for step in range(4):
        buffers[step % 2, t] = x[step * 64 + t]
        loom.sync_threads()
        total += buffers[step % 2, 63 - t]
    out[t] = total


plant(RACE, one_buffer, one_buffer_twin, [numbers(256), zeros(64)])


def shift(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=65, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]
    if t == 0:
        tile[64] = x[0]
    loom.sync_threads()
    tile[t] = tile[t + 1]  # BUG
    loom.sync_threads()
    x[t] = tile[t]


def shift_twin(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=65, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]
    if t == 0:
        tile[64] = x[0]
    loom.sync_threads()
    value = tile[t + 1]
    loom.sync_threads()
    tile[t] = value
    loom.sync_threads()
    x[t] = tile[t]


plant(RACE, shift, shift_twin, [numbers(64)])


def scan(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]
    loom.sync_threads()
    distance = 1
    while distance < 64:
        below = 0.0
        if t >= distance:
            below = tile[t - distance]  # BUG
        tile[t] = tile[t] + below  # BUG
        loom.sync_threads()
        distance = distance * 2
    x[t] = tile[t]


def scan_twin(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]
    loom.sync_threads()
    distance = 1
    while distance < 64:
        below = 0.0
        if t >= distance:
            below = tile[t - distance]
        loom.sync_threads()
        tile[t] = tile[t] + below
        loom.sync_threads()
        distance = distance * 2
    x[t] = tile[t]


plant(RACE, scan, scan_twin, [numbers(64)])
