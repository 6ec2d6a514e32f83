# test differential
# seed 300349: llvm divided by the zero that a select had replaced by 1
# rank 1 | i32 | i32:3:read u64:1:own u64:1:read u64:1:own i32:1:shared
import polyloom as loom

@loom.func
def f1(x0: loom.uint16):
    s2 = loom.rand_init((-2147483647), (loom.int32((loom.int32(2147483647) ^ 0)) // (loom.int32(3) + (-2147483647))))
    v3 = loom.randi(s2)
    if False:
        return loom.int32((loom.int32((loom.int32(2) | 2147483647)) // 4))
    return loom.int32(loom.where(False, loom.int32((loom.int32((-2147483647)) ^ 2)), 2147483647))

@loom.kernel
def kernel(p0: loom.int32, a0: loom.array(dtype=loom.int32, ndim=3), a1: loom.array(dtype=loom.uint64, ndim=1), a2: loom.array(dtype=loom.uint64, ndim=1), a3: loom.array(dtype=loom.uint64, ndim=1), a4: loom.array(dtype=loom.int32, ndim=1)):
    i = loom.tid()
    s4 = loom.rand_init(p0, loom.int32(loom.uint64((-loom.uint64(6)))))
    v5 = loom.randn(s4)
    v6 = f1(loom.uint16((loom.uint16((~loom.uint16(2))) ^ (loom.uint16(8) + 4))))
    a3[i] = (loom.uint64(loom.uint64(loom.int32((loom.int32(p0) >> i)))) % (loom.uint64(7) << a3[i]))
    v6 = (loom.int32(loom.int32(loom.int32(p0))) >> (loom.int32((~loom.int32(v6))) / loom.int32(loom.int32(i))))
    a1[i] += 2147483647
    a3[i] = (-loom.uint64(loom.uint64(loom.uint16(8))))
