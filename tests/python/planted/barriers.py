"""Barriers and warp operations that not all their threads reach together: refused when the kernel is defined."""

import polyloom as loom

from planted import COMPILE, numbers, plant, zeros


def in_branch(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t < 32:
        tile[t] = x[t]
        loom.sync_threads()  # BUG
        x[t] = tile[31 - t]


def in_branch_twin(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t < 32:
        tile[t] = x[t]
    loom.sync_threads()
    if t < 32:
        x[t] = tile[31 - t]


plant(COMPILE, in_branch, in_branch_twin, [numbers(64)])


def in_uneven_loop(x: loom.array(dtype=float)):
    t = loom.thread_idx()
    for k in range(t):
        x[t] = x[t] + float(k)
        loom.sync_threads()  # BUG


def in_uneven_loop_twin(x: loom.array(dtype=float)):
    t = loom.thread_idx()
    for k in range(64):
        if k < t:
            x[t] = x[t] + float(k)
        loom.sync_threads()


plant(COMPILE, in_uneven_loop, in_uneven_loop_twin, [numbers(64)])


def behind_return(x: loom.array(dtype=float), n: int):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t >= n:
        return
    tile[t] = x[t]
    loom.sync_threads()  # BUG
    x[t] = tile[n - 1 - t]


def behind_return_twin(x: loom.array(dtype=float), n: int):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if t < n:
        tile[t] = x[t]
    loom.sync_threads()
    if t < n:
        x[t] = tile[n - 1 - t]


plant(COMPILE, behind_return, behind_return_twin, [numbers(64), 50])


def half_a_warp(x: loom.array(dtype=float)):
    i = loom.tid()
    if loom.lane_id() < 16:
        x[i] = loom.shuffle_xor(x[i], 1)  # BUG


def half_a_warp_twin(x: loom.array(dtype=float)):
    i = loom.tid()
    other = loom.shuffle_xor(x[i], 1)
    if loom.lane_id() < 16:
        x[i] = other


plant(COMPILE, half_a_warp, half_a_warp_twin, [numbers(64)])


def until_done(x: loom.array(dtype=float)):
    t = loom.thread_idx()
    while x[t] > 1.0:
        x[t] = 0.5 * x[t]
        loom.sync_threads()  # BUG


def until_done_twin(x: loom.array(dtype=float)):
    t = loom.thread_idx()
    while loom.sync_threads_or(x[t] > 1.0):
        if x[t] > 1.0:
            x[t] = 0.5 * x[t]


plant(COMPILE, until_done, until_done_twin, [numbers(64)])


@loom.func
def exchange(tile: loom.array(dtype=float), t: int, value: float):
    tile[t] = value
    loom.sync_threads()
    return tile[63 - t]


def in_callee(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    if x[t] > 3.0:
        x[t] = exchange(tile, t, x[t])  # BUG


def in_callee_twin(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    other = exchange(tile, t, x[t])
    if x[t] > 3.0:
        x[t] = other


plant(COMPILE, in_callee, in_callee_twin, [numbers(64)])


def one_of_two(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    t = loom.thread_idx()
    if t % 2 == 0:
        loom.sync_threads()  # BUG
    else:
        loom.sync_threads()  # BUG
    out[t] = x[t]


def one_of_two_twin(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    t = loom.thread_idx()
    loom.sync_threads()
    out[t] = x[t]


plant(COMPILE, one_of_two, one_of_two_twin, [numbers(64), zeros(64)])


def ballot_in_loop(x: loom.array(dtype=int)):
    t = loom.thread_idx()
    n = 0
    while n < x[t]:
        n += 1
        if loom.ballot(n == 3) != loom.uint32(0):  # BUG
            break
    x[t] = n


def ballot_in_loop_twin(x: loom.array(dtype=int)):
    t = loom.thread_idx()
    n = 0
    while loom.warp_any(n < x[t]):
        n += 1
        if loom.ballot(n == 3) != loom.uint32(0):
            break
    x[t] = n


plant(COMPILE, ballot_in_loop, ballot_in_loop_twin, [numbers(64).astype("int32")])
