"""Asynchronous copies: waits that are missing or too few, barriers that are missing beside them, ends of arrays."""

import polyloom as loom

from planted import ASYNC, BOUNDS, RACE, numbers, plant, zeros


def no_wait(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    loom.async_copy(tile[t], x[t])
    loom.async_commit()
    out[t] = tile[t]  # BUG


def no_wait_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    loom.async_copy(tile[t], x[t])
    loom.async_commit()
    loom.async_wait()
    out[t] = tile[t]


plant(ASYNC, no_wait, no_wait_twin, [numbers(64), zeros(64)])


def pipeline(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tiles = loom.shared_array(shape=(2, 64), dtype=float)
    t = loom.thread_idx()
    total = 0.0
    loom.async_copy(tiles[0, t], x[t])
    loom.async_commit()
    for step in range(4):
        if step < 3:
            loom.async_copy(tiles[(step + 1) % 2, t], x[(step + 1) * 64 + t])
            loom.async_commit()
        loom.async_wait(1)
        total += tiles[step % 2, t]  # BUG
    out[t] = total


def pipeline_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tiles = loom.shared_array(shape=(2, 64), dtype=float)
    t = loom.thread_idx()
    total = 0.0
    loom.async_copy(tiles[0, t], x[t])
    loom.async_commit()
    for step in range(4):
        if step < 3:
            loom.async_copy(tiles[(step + 1) % 2, t], x[(step + 1) * 64 + t])
            loom.async_commit()
            loom.async_wait(1)
        else:
            loom.async_wait()
        total += tiles[step % 2, t]
    out[t] = total


plant(ASYNC, pipeline, pipeline_twin, [numbers(256), zeros(64)])


def wait_of_others(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    loom.async_copy(tile[t], x[t])  # BUG
    loom.async_commit()
    loom.async_wait()
    out[t] = tile[63 - t]  # BUG


def wait_of_others_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    loom.async_copy(tile[t], x[t])
    loom.async_commit()
    loom.async_wait()
    loom.sync_threads()
    out[t] = tile[63 - t]


plant(RACE, wait_of_others, wait_of_others_twin, [numbers(64), zeros(64)])


def barrier_but_no_wait(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t < 16:
        loom.async_copy(tile[t * 4], x[t * 4], count=4)
    loom.async_commit()
    loom.sync_threads()
    out[t] = tile[t]  # BUG


def barrier_but_no_wait_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t < 16:
        loom.async_copy(tile[t * 4], x[t * 4], count=4)
    loom.async_commit()
    loom.async_wait()
    loom.sync_threads()
    out[t] = tile[t]


plant(ASYNC, barrier_but_no_wait, barrier_but_no_wait_twin, [numbers(64), zeros(64)])


def copied_over(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    total = 0.0
    for step in range(2):
        loom.async_copy(tile[t], x[step * 64 + t])  # BUG
        loom.async_commit()
        loom.async_wait()
        loom.sync_threads()
        total += tile[63 - t]  # BUG
    out[t] = total


def copied_over_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    total = 0.0
    for step in range(2):
        loom.async_copy(tile[t], x[step * 64 + t])
        loom.async_commit()
        loom.async_wait()
        loom.sync_threads()
        total += tile[63 - t]
        loom.sync_threads()
    out[t] = total


plant(RACE, copied_over, copied_over_twin, [numbers(128), zeros(64)])


def past_the_end(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t < 16:
        loom.async_copy(tile[t * 4], x[t * 4], count=4)  # BUG
    loom.async_commit()
    loom.async_wait()
    loom.sync_threads()
    if t < x.shape[0]:
        out[t] = tile[t]


def past_the_end_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t * 4 + 4 <= x.shape[0]:
        loom.async_copy(tile[t * 4], x[t * 4], count=4)
    elif t * 4 < x.shape[0]:
        for k in range(t * 4, x.shape[0]):
            tile[k] = x[k]
    loom.async_commit()
    loom.async_wait()
    loom.sync_threads()
    if t < x.shape[0]:
        out[t] = tile[t]


plant(BOUNDS, past_the_end, past_the_end_twin, [numbers(62), zeros(62)])
