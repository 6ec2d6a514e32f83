# test diagnostics
# Constant indices past static shared arrays and the like, which are found in kernels that are otherwise right.
import polyloom as loom


@loom.kernel(block_dim=32)
def no_lanes(a: loom.array(dtype=float)):
    loom.sync_warp(0)
    a[loom.tid()] = 0.0


@loom.kernel(block_dim=32)
def past_shared_arrays(a: loom.array(dtype=float)):
    tile = loom.shared_array(shape=(4, 8), dtype=float)
    points = loom.shared_array(shape=4, dtype=loom.vec3)
    tile[4, 0] = 1.0
    tile[0, -9] += 1.0
    loom.atomic_add(tile, 3, 8, 1.0)
    points[-5] = loom.vec3(0.0)
    loom.async_copy(tile[0, 9], a[0])
    a[loom.tid()] = tile[3, 7] + tile[-4, -8] + points[4][0]


@loom.kernel(block_dim=32)
def over_the_end(a: loom.array(dtype=loom.float16, ndim=2), c: loom.array(dtype=float, ndim=2)):
    first = loom.mma_load_a(a, -16, -8)
    second = loom.mma_load_b(a, 0, -8, n=8)
    third = loom.mma_load_c(c, -1, -7, n=8)
    loom.mma_store(c, -20, -15, loom.mma_load_c(c, 0, 0))
    loom.mma_store(c, 0, 0, loom.mma(first, second, third))
