# test diagnostics
# Constant arguments of GPU primitives that no launch could do anything with.
import polyloom as loom


@loom.kernel(block_dim=32)
def offset_below_zero(a: loom.array(dtype=float)):
    tile = loom.dynamic_shared(shape=4, dtype=float, offset=-4)
    tile[0] = a[0]


@loom.kernel(block_dim=32)
def offset_between_elements(a: loom.array(dtype=float)):
    tile = loom.dynamic_shared(shape=4, dtype=loom.vec3d, offset=12)
    tile[0] = loom.vec3d(1.0)


@loom.kernel(block_dim=32)
def negative_dynamic_extent(a: loom.array(dtype=float)):
    tile = loom.dynamic_shared(shape=(4, -2), dtype=float)
    tile[0, 0] = a[0]


@loom.kernel(block_dim=32)
def no_elements(a: loom.array(dtype=float)):
    tile = loom.shared_array(shape=0, dtype=float)
    tile[0] = a[0]


@loom.kernel(block_dim=32)
def negative_extent(a: loom.array(dtype=float)):
    tile = loom.shared_array(shape=(4, -1), dtype=float)
    tile[0, 0] = a[0]


@loom.kernel(block_dim=32)
def odd_alignment(a: loom.array(dtype=float)):
    tile = loom.shared_array(shape=4, dtype=float, align=24)
    tile[0] = a[0]


@loom.kernel(block_dim=32)
def negative_groups(a: loom.array(dtype=float)):
    loom.async_wait(-1)


@loom.kernel(block_dim=32)
def too_many_groups(a: loom.array(dtype=float)):
    loom.async_wait(256)


@loom.kernel(block_dim=32)
def odd_width(a: loom.array(dtype=float)):
    a[0] = loom.shuffle(a[0], 3, width=12)


@loom.kernel(block_dim=32)
def fourth_axis(a: loom.array(dtype=float)):
    a[loom.thread_idx(3)] = 0.0


@loom.kernel(block_dim=32)
def negative_time(a: loom.array(dtype=float)):
    loom.nanosleep(-5)


@loom.kernel(block_dim=32)
def odd_columns(b: loom.array(dtype=float, ndim=2)):
    loom.mma_store(b, 0, 0, loom.mma_load_c(b, 0, 0, n=12))


@loom.kernel(block_dim=32)
def no_bytes(a: loom.array(dtype=float)):
    tile = loom.shared_array(shape=4, dtype=float)
    loom.async_copy(tile[0], a[0], count=0)
