# test diagnostics
import polyloom as loom


@loom.kernel(block_dim=32)
def wrong(
    d: loom.array(dtype=loom.float64, ndim=2),
    h: loom.array(dtype=loom.float16, ndim=2),
    row: loom.array(dtype=loom.float16),
    c: loom.array(dtype=float, ndim=2),
):
    a = loom.mma_load_a(d, 0, 0)
    b = loom.mma_load_b(h, 0, 0, n=12)
    a = loom.mma_load_a(row, 0, 0)
    sums = loom.mma_load_c(h, 0, 0)
    loom.mma_store(c, 0, 0, c[0, 0])
    loom.mma_store(c, 0, 0, loom.vec3(1.0))


@loom.kernel(block_dim=2000)
def too_many(a: loom.array(dtype=float)):
    loom.sync_threads()


@loom.kernel
def from_cuda(a: loom.array(dtype=float)):
    a[loom.threadIdx()] = loom.__shfl_down_sync(a[0], 1)
    loom.__syncthreads()
