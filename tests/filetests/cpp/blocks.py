# test cpp
# option comments
# Kernels whose threads work together, as loops over the threads of a block.
import polyloom as loom


@loom.kernel(block_dim=128)
def block_sums(a: loom.array(dtype=float), sums: loom.array(dtype=float)):
    partial = loom.shared_array(shape=128, dtype=float)
    i = loom.tid()
    t = loom.thread_idx()
    partial[t] = a[i]
    loom.sync_threads()
    half = 64
    while half > 0:
        if t < half:
            partial[t] += partial[t + half]
        loom.sync_threads()
        half = half // 2
    if t == 0:
        sums[loom.block_idx()] = partial[0]


@loom.func
def squared(x: float):
    return x * x


@loom.kernel(block_dim=(8, 4))
def tiles(a: loom.array(dtype=float, ndim=2), b: loom.array(dtype=float, ndim=2), p: loom.vec3):
    tile = loom.shared_array(shape=(4, 8), dtype=float)
    x, y = loom.thread_idx(0), loom.thread_idx(1)
    i, j = loom.tid()
    value = squared(a[i, j]) + p[1]
    tile[y, x] = value
    loom.sync_threads()
    b[i, j] = value - tile[3 - y, 7 - x]


@loom.kernel(block_dim=64)
def warp_sums(a: loom.array(dtype=float), sums: loom.array(dtype=float)):
    total = loom.warp_reduce_add(a[loom.tid()])
    positive = loom.ballot(a[loom.tid()] > 0.0)
    below = loom.shuffle_down(total, 1)
    if loom.lane_id() == 0:
        sums[loom.block_idx() * 2 + loom.warp_id()] = total + below + float(positive)


@loom.kernel
def any_size(counts: loom.array(dtype=int), keys: loom.array(dtype=int)):
    histogram = loom.dynamic_shared(shape=16, dtype=int)
    t = loom.thread_idx()
    if t < 16:
        histogram[t] = 0
    loom.sync_threads()
    loom.atomic_add(histogram, keys[loom.tid()] & 15, 1)
    loom.sync_threads()
    if t < 16:
        loom.atomic_add(counts, t, histogram[t])


@loom.kernel(block_dim=32, check=True)
def checked(a: loom.array(dtype=int), order: loom.array(dtype=int)):
    i = loom.tid()
    n = loom.sync_threads_count(a[i] > 0)
    if n < 10 and a[i] >= 0:
        a[i] = order[a[i]] + n
