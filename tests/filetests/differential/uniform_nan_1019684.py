# test differential
# seed 1019684: llvm differs in a1[16] (f32): 0x7fc00000 (NaN), the interpreter has 0x3f4051f6 (7.512506246566772e-1)
# rank 2 | f32 | f32:1:read f32:2:own f32:1:read u64:2:own
import polyloom as loom
@loom.kernel
def kernel(p0: loom.float32, a0: loom.array(dtype=loom.float32, ndim=1), a1: loom.array(dtype=loom.float32, ndim=2), a2: loom.array(dtype=loom.float32, ndim=1), a3: loom.array(dtype=loom.uint64, ndim=2)):
    i, j = loom.tid()
    a1[i, j] = (-loom.float32((loom.float32(loom.clamp(loom.float32(p0), loom.float32(-7.5), loom.float32(p0))) * loom.sinh(loom.float32(0.1)))))
