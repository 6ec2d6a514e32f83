# test diagnostics
import polyloom as loom


@loom.kernel(block_dim=64)
def divergent(a: loom.array(dtype=float), n: int):
    t = loom.thread_idx()
    tile = loom.shared_array(shape=64, dtype=float)
    if t < n:
        loom.sync_threads()
    if a[t] > 0.0:
        return
    tile[t] = loom.warp_reduce_add(a[t])


@loom.func
def waits(x: float):
    loom.sync_threads()
    return x


@loom.kernel
def loops(a: loom.array(dtype=float), n: int):
    t = loom.thread_idx()
    for i in range(t, n):
        a[i] = waits(a[i])
    while a[0] > 1.0:
        loom.sync_threads()
        a[0] = 0.0
    for i in range(n):
        loom.sync_threads()
