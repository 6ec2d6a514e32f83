# test cuda
# Products of the tensor core from tiles that are copied in the background, and read-only loads.
import polyloom as loom


@loom.kernel(block_dim=32)
def matmul(
    a: loom.array(dtype=loom.float16, ndim=2),
    b: loom.array(dtype=loom.float16, ndim=2),
    bias: loom.array(dtype=float),
    c: loom.array(dtype=float, ndim=2),
):
    tile = loom.shared_array(shape=(16, 16), dtype=loom.float16)
    row = loom.block_idx(0) * 16
    col = loom.block_idx(1) * 16
    lane = loom.lane_id()
    total = loom.mma_load_c(c, row, col)
    for k in range(a.shape[1] // 16):
        loom.async_copy(tile[lane // 2, lane % 2 * 8], a[row + lane // 2, k * 16 + lane % 2 * 8], count=8, cache="l2")
        loom.async_commit()
        part_b = loom.mma_load_b(b, k * 16, col, layout="col")
        loom.async_wait(0)
        loom.sync_threads()
        total = loom.mma(loom.mma_load_a(tile, 0, 0), part_b, total)
        loom.sync_threads()
    shift = loom.load_readonly(bias, col)
    for i in range(8):
        total[i] = total[i] + shift
    loom.mma_store(c, row, col, total)


@loom.kernel(block_dim=32)
def others(
    a: loom.array(dtype=float, ndim=2),
    i: loom.array(dtype=loom.int8, ndim=2),
    u: loom.array(dtype=loom.uint8, ndim=2),
    h: loom.array(dtype=loom.bfloat16, ndim=2),
    v: loom.array(dtype=loom.vec3h),
    flags: loom.array(dtype=bool),
    out: loom.array(dtype=float, ndim=2),
    out_i: loom.array(dtype=int, ndim=2),
):
    loom.mma_store(out, 0, 0, loom.mma(loom.mma_load_a(a, 0, 0), loom.mma_load_b(a, 0, 0, n=8), loom.vec4(0.5)))
    d = loom.mma(loom.mma_load_a(h, 0, 0, layout="col"), loom.mma_load_b(h, 0, 0), loom.mma_load_c(out, 0, 0))
    if loom.load_readonly(flags, loom.lane_id()):
        d[0] = float(loom.load_readonly(v, -1)[2])
    loom.mma_store(out, 0, 0, d, layout="col")
    e = loom.mma(loom.mma_load_a(i, 0, 0), loom.mma_load_b(i, 0, 0, n=8), loom.mma_load_c(out_i, 0, 0, n=8))
    loom.mma_store(out_i, 0, 0, loom.mma(loom.mma_load_a(u, 0, 0), loom.mma_load_b(u, 0, 0, n=8), e))
