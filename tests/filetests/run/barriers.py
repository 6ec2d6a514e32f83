# test run
# Control flow around barriers and warp operations, and threads that leave early where they may.
import polyloom as loom


@loom.kernel(block_dim=4)
def leave_iterations(a: loom.array(dtype=int), n: int):
    """Odd threads skip the end of each iteration, after its last barrier."""
    tile = loom.shared_array(shape=4, dtype=int)
    t = loom.thread_idx()
    total = int(0)
    for i in range(n):
        tile[t] = t + i
        loom.sync_threads()
        total += tile[3 - t]
        loom.sync_threads()
        if t % 2 == 1:
            continue
        total += 100
    a[t] = total


# run: @leave_iterations[4]([0, 0, 0, 0], 2) == [207, 5, 203, 1]
# run: @leave_iterations[4]([9, 9, 9, 9], 0) == [0, 0, 0, 0]


@loom.kernel(block_dim=4)
def leave_branches(a: loom.array(dtype=int), n: int):
    """Some threads end in a branch with a barrier; the others go on behind it."""
    tile = loom.shared_array(shape=4, dtype=int)
    t = loom.thread_idx()
    x = int(1)
    if n > 0:
        tile[t] = t * 10
        loom.sync_threads()
        x = tile[3 - t]
        if t > 1:
            a[t] = -x
            return
        x += 1
    else:
        x = 7
    a[t] = x


# run: @leave_branches[4]([0, 0, 0, 0], 1) == [31, 21, -10, 0]
# run: @leave_branches[4]([0, 0, 0, 0], 0) == [7, 7, 7, 7]


@loom.func
def until(tile: loom.array(dtype=int), t: int, n: int):
    """Leaves early after a barrier; inlined, a block that threads leave one by one."""
    if n > 2:
        loom.sync_threads()
        if tile[t] > 1:
            return tile[t]
        tile[t] = 5
    return n


@loom.kernel(block_dim=4)
def leave_blocks(a: loom.array(dtype=int), n: int):
    tile = loom.shared_array(shape=4, dtype=int)
    t = loom.thread_idx()
    tile[3 - t] = t
    x = until(tile, t, n)
    loom.sync_threads()
    a[t] = x * 100 + tile[(t + 1) % 4]


# run: @leave_blocks[4]([0, 0, 0, 0], 3) == [302, 205, 305, 303]
# run: @leave_blocks[4]([0, 0, 0, 0], 2) == [202, 201, 200, 203]


@loom.kernel(block_dim=4)
def leave_together(a: loom.array(dtype=int), n: int):
    """All threads leave a loop, and then the kernel, at the same time."""
    tile = loom.shared_array(shape=1, dtype=int)
    t = loom.thread_idx()
    i = int(0)
    while True:
        if t == 0:
            tile[0] = i * i
        loom.sync_threads()
        if loom.sync_threads_or(tile[0] > n):
            break
        i += 1
    if i == 3:
        return
    loom.sync_threads()
    a[t] = i


# run: @leave_together[4]([-1, -1, -1, -1], 20) == [5, 5, 5, 5]
# run: @leave_together[4]([-1, -1, -1, -1], 8) == [-1, -1, -1, -1]


@loom.kernel(block_dim=4)
def own_counters(a: loom.array(dtype=int)):
    """A loop that begins elsewhere for each thread, and goes round as often."""
    tile = loom.shared_array(shape=8, dtype=int)
    t = loom.thread_idx()
    total = int(0)
    for i in range(t, t + 5, 2):
        tile[i] = t
        loom.sync_threads()
        total = total * 10 + tile[i]
        loom.sync_threads()
    a[t] = total


# run: @own_counters[4]([0, 0, 0, 0]) == [0, 111, 222, 333]


@loom.kernel(block_dim=4)
def nested(a: loom.array(dtype=int), n: int):
    tile = loom.shared_array(shape=4, dtype=int)
    t = loom.thread_idx()
    x, y = t, 2 * t
    for i in range(n):
        for j in range(i + 1):
            tile[t] = x
            loom.sync_threads()
            x, y = y, tile[(t + j) % 4]
            loom.sync_threads()
    a[t] = x * 1000 + y


# run: @nested[4]([0, 0, 0, 0], 2) == [1, 2002, 4003, 6000]


@loom.kernel(block_dim=64)
def leave_warps(a: loom.array(dtype=int)):
    """A whole warp ends; the other goes on with what a warp does together."""
    w = loom.warp_id()
    s = loom.warp_reduce_add(1)
    if w == 1:
        a[1] = s
        return
    t = loom.warp_reduce_max(loom.thread_idx())
    a[0] = t + s


# run: @leave_warps[64]([0, 0]) == [63, 32]
# run: @leave_warps[40]([0, 0]) == [63, 8]


@loom.kernel(block_dim=64)
def leave_warps_in_branch(a: loom.array(dtype=int), n: int):
    """Behind the branch that one warp has not come out of, threads are not counted."""
    x = int(0)
    if n > 0:
        loom.sync_threads()
        if loom.warp_id() == 0:
            return
        x = loom.shuffle_xor(loom.lane_id(), 1)
    loom.atomic_add(a, 0, 1)
    if loom.thread_idx() == 34:
        a[1] = x


# run: @leave_warps_in_branch[64]([0, 0], 1) == [32, 3]
# run: @leave_warps_in_branch[64]([0, 0], 0) == [64, 0]


@loom.kernel(block_dim=64)
def warps_apart(a: loom.array(dtype=int)):
    """What a warp computes outlives it, and loops run differently often in warps."""
    w = loom.warp_id()
    lane = loom.lane_id()
    total = int(0)
    for _i in range(w + 1):
        total += loom.shuffle_down(lane, 1)
    first = loom.shuffle(total, 0)
    same = loom.match_any(lane // 16)
    loom.sync_threads()
    if lane == 31:
        a[w] = first * 100 + total
        a[2 + w] = loom.int32(same)


# run: @warps_apart[64]([0, 0, 0, 0]) == [131, 262, -65536, -65536]


@loom.kernel(block_dim=2)
def in_order(a: loom.array(dtype=int), n: int):
    """Prints come barrier by barrier, and in them thread by thread."""
    t = loom.thread_idx()
    print(t)
    loom.sync_threads()
    if t < n:
        print(t + 10)
    if loom.sync_threads_and(t < n):
        print(t + 20)


# run: @in_order[2]([0], 1) prints "0\n1\n10\n"
# run: @in_order[2]([0], 2) prints "0\n1\n10\n11\n20\n21\n"


@loom.kernel(block_dim=8)
def updates(a: loom.array(dtype=int), h: loom.array(dtype=loom.float16)):
    """Atomic updates of shared memory, and those that count in an argument's."""
    counts = loom.shared_array(shape=8, dtype=int)
    halves = loom.shared_array(shape=2, dtype=loom.float16)
    t = loom.thread_idx()
    loom.sync_threads()
    loom.atomic_add(counts, 0, t)
    loom.atomic_sub(counts, 1, t)
    loom.atomic_max(counts, 2, t)
    loom.atomic_or(counts, 3, 1 << t)
    loom.atomic_cas(counts, 4, t, t + 1)
    old = loom.atomic_exch(counts, 5, t)
    loom.atomic_inc(counts, 6, 4)
    loom.atomic_dec(counts, 7, 5)
    loom.atomic_add(halves, 0, loom.float16(0.5))
    loom.atomic_min(halves, 1, loom.float16(-t))
    loom.atomic_inc(a, 8, 6)
    loom.atomic_dec(a, 9, 6)
    loom.sync_threads()
    a[t] = counts[t]
    if t == 7:
        a[10] = old
        h[0] = halves[0]
        h[1] = halves[1]


# run: @updates[8]([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0]) == [28, -28, 7, 255, 8, 7, 3, 4, 1, 6, 6], [4.0, -7.0]


@loom.kernel(block_dim=(4, 2), shared_bytes=64)
def coordinates(a: loom.array(dtype=int)):
    """Coordinates in loops over threads and over lanes, and where the last block is not whole."""
    tile = loom.dynamic_shared(shape=(2, 4), dtype=int, offset=4)
    x = loom.thread_idx(0)
    y = loom.thread_idx(1)
    tile[y, x] = x * 10 + y
    loom.sync_threads()
    z = tile[1 - y, 3 - x]
    lane = loom.shuffle_xor(x + y * 100, 1)
    a[loom.tid()] = z * 1000 + lane + loom.thread_idx(2)


# run: @coordinates[11]([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]) == [31001, 21000, 11003, 1002, 30101, 20100, 10103, 102, 1, 0, 2]
