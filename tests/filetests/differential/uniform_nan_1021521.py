# test differential
# seed 1021521: llvm differs in a1[18] (f32): 0x7fc00000 (NaN), the interpreter has 0xbfc00000 (-1.5e0)
# rank 3 |  | i32:3:read f32:3:own f32:3:own u8:1:shared
import polyloom as loom
@loom.func
def f1(x0: loom.float32, x1: loom.int32):
    return loom.float32(x0)
@loom.kernel
def kernel(a0: loom.array(dtype=loom.int32, ndim=3), a1: loom.array(dtype=loom.float32, ndim=3), a2: loom.array(dtype=loom.float32, ndim=3), a3: loom.array(dtype=loom.uint8, ndim=1)):
    i, j, k = loom.tid()
    v7 = loom.float32(loom.clamp(loom.float32(2), loom.float32(-1.0), loom.float32(loom.float32(loom.int32((loom.int32(i) if False else 2))))))
    v7 -= loom.float32(loom.float32(loom.acos(loom.float32(v7))))
    v13 = f1(loom.float32((loom.float32(loom.float32(loom.float32(1.0))) + v7)), loom.int32(loom.clamp(loom.int32(k), loom.int32(loom.int32(loom.int32((-2147483647)))), loom.int32(a0[loom.clamp(loom.int32((loom.int32(j) - k)), -a0.shape[0], a0.shape[0] - 1), 0, loom.clamp(loom.int32(j), -a0.shape[2], a0.shape[2] - 1)]))))
    a1[i, j, k] = loom.clamp(loom.float32(f1(loom.float32(v13), loom.int32(a0[loom.clamp(loom.int32(k), -a0.shape[0], a0.shape[0] - 1), loom.clamp(loom.int32(j), -a0.shape[1], a0.shape[1] - 1), 0]))), loom.float32((loom.float32(loom.float32(loom.float32(-7.5))) % 2.0)), loom.float32(v13))
