# test differential
# seed 400019544: lanes that leave a loop of atomics one by one wait for each other at the wrong shuffles
# rank 1 | i32 u64 u8 u8 u8 u8 u8 | vector/u64/2:3:read vector/f32/3:1:own vector/u8/5:1:read+ vector/u8/5:1:shared
import polyloom as loom
T0 = loom.types.vector(length=5, dtype=loom.uint8)
@loom.kernel(block_dim=128, shared_bytes=2048)
def kernel(p0: loom.int32, p1: loom.uint64, c0: T0, a0: loom.array(dtype=loom.vec2ul, ndim=3), a1: loom.array(dtype=loom.vec3, ndim=1), a2: loom.array(dtype=T0, ndim=1), a3: loom.array(dtype=T0, ndim=1)):
    i = loom.tid()
    loom.atomic_sub(a3, loom.min(i, a3.shape[0] - 1), loom.bit_xor(c0[:5], loom.vector(loom.uint8(11), length=5, dtype=loom.uint8)))
    v12 = loom.warp_reduce_xor(loom.uint8(loom.uint8(loom.uint64(loom.abs(loom.uint64(p1))))))
