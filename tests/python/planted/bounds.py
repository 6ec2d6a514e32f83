"""Indices past the ends of arrays, and addresses that are no multiples of what is accessed."""

import numpy as np
import polyloom as loom

from planted import BOUNDS, CHECK, MISALIGNED, numbers, plant, zeros


def one_too_many(x: loom.array(dtype=float), n: int):
    i = loom.tid()
    if i <= n:
        x[i] = 0.0  # BUG


def one_too_many_twin(x: loom.array(dtype=float), n: int):
    i = loom.tid()
    if i < n:
        x[i] = 0.0


plant(BOUNDS, one_too_many, one_too_many_twin, [zeros(50), 50])


def next_element(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    out[i] = x[i + 1] - x[i]  # BUG


def next_element_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    if i < x.shape[0] - 1:
        out[i] = x[i + 1] - x[i]


plant(BOUNDS, next_element, next_element_twin, [numbers(64), zeros(64)])


def no_guard(x: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = 2.0 * x[i]  # BUG


def no_guard_twin(x: loom.array(dtype=float)):
    i = loom.tid()
    if i < x.shape[0]:
        x[i] = 2.0 * x[i]


plant(BOUNDS, no_guard, no_guard_twin, [numbers(100)], grid=2)


def swapped(a: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)):
    row, col = loom.thread_idx(1), loom.thread_idx(0)
    out[row, col] = a[col, row]  # BUG


def swapped_twin(a: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)):
    row, col = loom.thread_idx(1), loom.thread_idx(0)
    out[row, col] = a[row, col]


plant(BOUNDS, swapped, swapped_twin, [numbers(3, 7), zeros(3, 7)], block=(7, 3))


def gather(x: loom.array(dtype=float), indices: loom.array(dtype=int), out: loom.array(dtype=float)):
    i = loom.tid()
    out[i] = x[indices[i]]  # BUG


def gather_twin(x: loom.array(dtype=float), indices: loom.array(dtype=int), out: loom.array(dtype=float)):
    i = loom.tid()
    if indices[i] < x.shape[0]:
        out[i] = x[indices[i]]


plant(BOUNDS, gather, gather_twin, [numbers(10), np.arange(64, dtype=np.int32) % 11, zeros(64)])


def last_bin(x: loom.array(dtype=float), counts: loom.array(dtype=int)):
    i = loom.tid()
    b = int(x[i] * 8.0)
    loom.atomic_add(counts, b, 1)  # BUG


def last_bin_twin(x: loom.array(dtype=float), counts: loom.array(dtype=int)):
    i = loom.tid()
    b = loom.min(int(x[i] * 8.0), 7)
    loom.atomic_add(counts, b, 1)


plant(BOUNDS, last_bin, last_bin_twin, [np.linspace(0, 1, 64, dtype=np.float32), zeros(8, dtype=np.int32)])


def tail_rows(a: loom.array(dtype=float, ndim=2)):
    col = loom.thread_idx()
    for k in range(4):
        row = loom.block_idx() * 4 + k
        a[row, col] = 1.0  # BUG


def tail_rows_twin(a: loom.array(dtype=float, ndim=2)):
    col = loom.thread_idx()
    for k in range(4):
        row = loom.block_idx() * 4 + k
        if row < a.shape[0]:
            a[row, col] = 1.0


plant(BOUNDS, tail_rows, tail_rows_twin, [zeros(6, 32)], grid=2, block=32)


def shared_end(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    tile[t + 1] = x[t]  # BUG
    loom.sync_threads()
    out[t] = tile[63 - t]


def shared_end_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=65, dtype=float)
    t = loom.thread_idx()
    tile[t + 1] = x[t]
    loom.sync_threads()
    out[t] = tile[64 - t]


plant(BOUNDS, shared_end, shared_end_twin, [numbers(64), zeros(64)])


def dynamic_end(x: loom.array(dtype=float)):
    tile = loom.dynamic_shared(shape=64, dtype=float)
    t = loom.thread_idx()
    tile[t] = x[t]  # BUG
    loom.sync_threads()
    x[t] = tile[63 - t]


plant(BOUNDS, dynamic_end, dynamic_end, [numbers(64)], shared_bytes=128, twin_shared_bytes=256)


def own_array(x: loom.array(dtype=float, ndim=2)):
    t = loom.thread_idx()
    taps = loom.zeros(shape=4, dtype=float)
    for k in range(x.shape[1]):
        taps[k] = x[t, k]  # BUG
    x[t, 0] = taps[0] + taps[3]


def own_array_twin(x: loom.array(dtype=float, ndim=2)):
    t = loom.thread_idx()
    taps = loom.zeros(shape=5, dtype=float)
    for k in range(x.shape[1]):
        taps[k] = x[t, k]
    x[t, 0] = taps[0] + taps[3]


plant(CHECK, own_array, own_array_twin, [numbers(64, 5)])


def odd_offset(out: loom.array(dtype=float), first: int):
    bytes_first = loom.dynamic_shared(shape=3, dtype=loom.uint8)
    values = loom.dynamic_shared(shape=64, dtype=float, offset=first)
    t = loom.thread_idx()
    if t < 3:
        bytes_first[t] = loom.uint8(t)
    values[t] = float(t)  # BUG
    loom.sync_threads()
    out[t] = values[63 - t]


def odd_offset_twin(out: loom.array(dtype=float), first: int):
    bytes_first = loom.dynamic_shared(shape=3, dtype=loom.uint8)
    values = loom.dynamic_shared(shape=64, dtype=float, offset=first + 1)
    t = loom.thread_idx()
    if t < 3:
        bytes_first[t] = loom.uint8(t)
    values[t] = float(t)
    loom.sync_threads()
    out[t] = values[63 - t]


plant(MISALIGNED, odd_offset, odd_offset_twin, [zeros(64), 3], shared_bytes=260)
