# test hir
import polyloom as loom


# Where the arrays' memory is, a function on its own does not know.
@loom.func
def begin_copy(tile: loom.array(dtype=float), a: loom.array(dtype=float), t: int):
    loom.async_copy(tile[t], a[t])
    loom.async_commit()


@loom.kernel(block_dim=32)
def copied(a: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=32, dtype=float)
    t = loom.thread_idx()
    begin_copy(tile, a, t)
    loom.async_wait()
    out[t] = tile[t]
