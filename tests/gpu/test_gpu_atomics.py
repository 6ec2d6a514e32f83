"""Atomic updates: exact where the order does not matter."""

import numpy as np
import polyloom as loom
import pytest

N = 4096


@pytest.mark.parametrize("dtype", [loom.int32, loom.uint32, loom.int64, loom.uint64], ids=lambda dtype: dtype.name)
def test_integers(same_as_cpu, dtype):
    @loom.kernel
    def update(x: loom.array(dtype=dtype), out: loom.array(dtype=dtype)):
        i = loom.tid()
        out[0] += x[i]
        out[1] -= x[i]
        loom.atomic_min(out, 2, x[i])
        loom.atomic_max(out, 3, x[i])
        out[4] ^= x[i]
        out[5] |= x[i]
        out[6] &= x[i]

    x = np.random.default_rng(9).integers(0, 2**31, N).astype(dtype.numpy)
    start = np.array([0, 0, 2**31 - 1, 0, 0, 0, 2**31 - 1], dtype.numpy)
    same_as_cpu(update, N, [x, start])


def test_every_ticket_is_drawn_once(device):
    @loom.kernel
    def draw(counter: loom.array(dtype=int), tickets: loom.array(dtype=int)):
        tickets[loom.tid()] = loom.atomic_add(counter, 0, 1)

    counter, tickets = loom.zeros(1, dtype=int), loom.zeros(N, dtype=int)
    loom.launch(draw, N, [counter, tickets])
    assert counter[0] == N
    np.testing.assert_array_equal(np.sort(tickets.numpy()), np.arange(N))


@pytest.mark.parametrize("dtype", [loom.float16, loom.float32, loom.float64], ids=lambda dtype: dtype.name)
def test_sums_of_floats(device, dtype):
    @loom.kernel
    def total(x: loom.array(dtype=dtype), out: loom.array(dtype=dtype)):
        loom.atomic_add(out, 0, x[loom.tid()])
        loom.atomic_max(out, 1, x[loom.tid()])
        loom.atomic_min(out, 2, x[loom.tid()])

    # Small integers: every order of the sum is exact.
    x = np.random.default_rng(10).integers(-3, 4, 512).astype(dtype.numpy)
    out = loom.zeros(3, dtype=dtype)
    loom.launch(total, 512, [loom.array(x), out])
    assert out.numpy().tolist() == [x.sum(), x.max(), x.min()]


def test_compare_and_swap_makes_a_lock(device):
    @loom.kernel
    def locked(lock: loom.array(dtype=int), total: loom.array(dtype=loom.int64)):
        i = loom.tid()
        done = loom.int32(0)
        while done == 0:
            if loom.atomic_cas(lock, 0, 0, 1) == 0:
                loom.atomic_add(total, 0, loom.int64(i))
                loom.thread_fence()
                loom.atomic_exch(lock, 0, 0)
                done = 1

    lock, total = loom.zeros(1, dtype=int), loom.zeros(1, dtype=loom.int64)
    loom.launch(locked, 256, [lock, total])
    assert total[0] == 255 * 128 and lock[0] == 0


def test_histogram_in_shared_memory(same_as_cpu):
    @loom.kernel(block_dim=128)
    def histogram(x: loom.array(dtype=int), bins: loom.array(dtype=int)):
        part = loom.shared_array(shape=16, dtype=int)
        t = loom.thread_idx()
        if t < 16:
            part[t] = 0
        loom.sync_threads()
        loom.atomic_add(part, x[loom.tid()] % 16, 1)
        loom.sync_threads()
        if t < 16:
            loom.atomic_add(bins, t, part[t])

    x = np.random.default_rng(11).integers(0, 1000, 1024).astype(np.int32)
    (_, bins) = same_as_cpu(histogram, 1024, [x, np.zeros(16, np.int32)])
    np.testing.assert_array_equal(bins, np.bincount(x % 16, minlength=16))
