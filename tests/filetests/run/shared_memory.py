# test run
import polyloom as loom


@loom.kernel(block_dim=4)
def reverse(a: loom.array(dtype=int)):
    tile = loom.shared_array(shape=4, dtype=int)
    t = loom.thread_idx()
    i = loom.tid()
    tile[t] = a[i]
    loom.sync_threads()
    a[i] = tile[-1 - t]


# run: @reverse[8]([1, 2, 3, 4, 5, 6, 7, 8]) == [4, 3, 2, 1, 8, 7, 6, 5]


@loom.func
def swap(tile: loom.array(dtype=loom.vec2), t: int):
    """The element of the neighbour: each pair of threads."""
    loom.sync_threads()
    value = tile[t ^ 1]
    loom.sync_threads()
    return value


@loom.kernel(block_dim=(2, 2))
def functions(v: loom.array(dtype=loom.vec2), n: loom.array(dtype=int)):
    tile = loom.shared_array(shape=(4,), dtype=loom.vec2)
    t = loom.thread_idx(0) + loom.thread_idx(1) * loom.block_dim()
    tile[t] = v[t]
    v[t] = swap(tile, t)
    tile[t][1] = 2.0
    tile[t] += loom.vec2(1.0, 1.0)
    v[t] += swap(tile, t)
    n[0] = tile.shape[0]


# run: @functions[4]([[1, 2], [3, 4], [5, 6], [7, 8]], [0]) == [[7, 7], [3, 5], [15, 11], [11, 9]], [4]


@loom.func
def total(values: loom.array(dtype=float), n: int):
    """A sum over an array, wherever it is."""
    s = float(0.0)
    for i in range(n):
        s += values[i]
    return s


@loom.kernel(block_dim=8)
def block_sum(a: loom.array(dtype=float), out: loom.array(dtype=float)):
    part = loom.shared_array(shape=8)
    t = loom.thread_idx(axis=0)
    part[t] = a[loom.tid()]
    half = 4
    while half > 0:
        loom.sync_threads()
        if t < half:
            part[t] += part[t + half]
        half = half // 2
    loom.sync_threads()
    if t == 0:
        out[loom.block_idx()] = part[0]
        loom.atomic_add(out, 2, total(part, 1), scope="block", order="acq_rel")
        loom.atomic_add(out, 3, total(a, 2))


# run: @block_sum[16]([1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0]) == _, [36, 8, 44, 6]


@loom.kernel(block_dim=32)
def scan(a: loom.array(dtype=int)):
    i = loom.tid()
    lane = loom.lane_id()
    value = a[i]
    delta = 1
    while delta < 32:
        before = loom.shuffle_up(value, delta)
        if lane >= delta:
            value += before
        delta *= 2
    a[i] = value


# run: @scan[6]([1, 2, 3, 4, 5, 6]) == [1, 3, 6, 10, 15, 21]


@loom.kernel(block_dim=4, shared_bytes=32)
def dynamic(out: loom.array(dtype=int), n: int):
    first = loom.dynamic_shared(shape=n, dtype=int)
    second = loom.dynamic_shared(shape=(n, 1), dtype=int, offset=4 * n)
    t = loom.thread_idx()
    first[t] = t
    second[t, 0] = 10 * t
    loom.sync_threads()
    out[t] = first[n - 1 - t] + second[t, 0] + first.shape[0] * 100


# run: @dynamic[4]([0, 0, 0, 0], 4) == [403, 412, 421, 430]


@loom.kernel(block_dim=64)
def warps(out: loom.array(dtype=loom.uint32)):
    t = loom.thread_idx()
    if loom.warp_id() == 1:
        out[0] = loom.ballot(t >= 62)
    if t // 32 == 0:
        out[1] = loom.uint32(loom.warp_reduce_add(t))
    if t < 32:
        out[2] = loom.match_any(t % 2)
    n = loom.sync_threads_count(t > 10)
    if n > 50:
        loom.sync_threads()
        out[3] = loom.uint32(n)


# run: @warps[64]([0, 0, 0, 0]) == [3221225472, 496, 2863311530, 53]


@loom.kernel
def bounds(out: loom.array(dtype=int)):
    tile = loom.shared_array(shape=4, dtype=int)
    tile[loom.thread_idx() + 3] = 1


# run: @bounds[2]([0]) fails index 4 is outside axis 0 of extent 4 in thread 1
