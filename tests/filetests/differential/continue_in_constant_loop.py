# test differential
# seed 1065: llvm could not compile a constant loop that every lane may leave by `continue`
# rank 3 | f32 f16 | u64:3:read f32:3:own f16:3:read
import polyloom as loom
@loom.kernel
def kernel(p0: loom.float32, p1: loom.float16, a0: loom.array(dtype=loom.uint64, ndim=3), a1: loom.array(dtype=loom.float32, ndim=3), a2: loom.array(dtype=loom.float16, ndim=3)):
    i, j, k = loom.tid()
    p0 += a1[i, j, k]
    for n6 in range(0, -2, -1):
        if loom.bool(loom.float32((loom.float32(0.0) / p0))):
            continue
        v7 = loom.atomic_add(a1, i, j, k, loom.float32(loom.sin(loom.float32(p0))))
