# test differential
# seed 17000280: C++ text differs in a1[91] (bool): 0x82, the interpreter has 0x1
# rank 3 |  | i32:2:read bool:3:own bool:3:read+ i32:3:own i64:3:shared
import polyloom as loom


@loom.kernel
def kernel(
    a0: loom.array(dtype=loom.int32, ndim=2),
    a1: loom.array(dtype=loom.bool, ndim=3),
    a2: loom.array(dtype=loom.bool, ndim=3),
    a3: loom.array(dtype=loom.int32, ndim=3),
    a4: loom.array(dtype=loom.int64, ndim=3),
):
    i, j, k = loom.tid()
    a1[i, j, k] = a1[i, j, k] if loom.bool(loom.int32(loom.float16(0.5))) else a1[i, j, k]
