# test differential
# seed 1009707: llvm gave NaN for a `min` of a `max` with one NaN operand, all of them uniform
# rank 2 | f32 | u8:2:read f32:2:own f32:3:read f32:2:own i64:1:shared
import polyloom as loom
@loom.kernel
def kernel(p0: loom.float32, a0: loom.array(dtype=loom.uint8, ndim=2), a1: loom.array(dtype=loom.float32, ndim=2), a2: loom.array(dtype=loom.float32, ndim=3), a3: loom.array(dtype=loom.float32, ndim=2), a4: loom.array(dtype=loom.int64, ndim=1)):
    i, j = loom.tid()
    v10 = loom.atomic_max(a3, i, j, loom.float32(loom.float32(loom.float32(loom.clamp(loom.float32(loom.float32(loom.int32(i))), loom.float32(loom.log10(loom.float32(p0))), loom.float32((loom.float32(p0) * -0.25)))))))
