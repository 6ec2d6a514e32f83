# test differential
# seed 41607: a GPU flushes a subnormal sum in global memory, and what is divided by it follows
# rank 1 | f32 f32 | f32:3:read f32:1:own i32:1:read+ f32:3:read f32:1:own f32:1:read+ u64:2:shared
from typing import Any, Callable

import polyloom as loom

K0 = 3
K1 = 0.5

@loom.func
def f1(x0: loom.int32, x1: loom.float32):
    b2 = loom.zeros(shape=(2, 3), dtype=loom.float32)
    if (loom.float32(x1) >= 3.0):
        return loom.float32(1e-3), loom.float32(x1)
    return loom.float32((-loom.float32(loom.min(loom.float32(x1), x1, x1)))), loom.float32((loom.float32(x1) ** 3))

@loom.func
def h3(x0: loom.Float, x1):
    for n4 in range(loom.clamp(loom.int32((loom.int32(loom.abs(loom.int32(3))) | 1)), -3, 5)):
        s5 = loom.rand_init(5, (-loom.int32(loom.abs(loom.int32(n4)))))
        v6 = loom.sample_unit_ring(s5)
        x0 *= (type(x0)(x0) - loom.abs(type(x0)((type(x0)(x1) ** 1))))
    return type(x0)(x0)
@loom.func
def f12(x0: loom.float32):
    return loom.float32((loom.float32((-loom.float32(3.0))) + (loom.float32(x0) * 0.5))), loom.float32(x0)
@loom.kernel(block_dim=64, shared_bytes=2048)
def kernel(p0: loom.float32, p1: loom.float32, a0: loom.array(dtype=loom.float32, ndim=3), a1: loom.array(dtype=loom.float32, ndim=1), a2: loom.array(dtype=loom.int32, ndim=1), a3: loom.array(dtype=loom.float32, ndim=3), a4: loom.array(dtype=loom.float32, ndim=1), a5: loom.array(dtype=loom.float32, ndim=1), a6: loom.array(dtype=loom.uint64, ndim=2)):
    i = loom.tid()
    b = loom.block_idx()
    live = loom.min(64, a1.shape[0] - b * loom.block_dim())
    lane = loom.lane_id()
    a4[i] += loom.float32(loom.where((loom.int32(b) <= (loom.int32((-10)) ^ (-3))), loom.float32(a4[i]), a3[loom.clamp(loom.int32(lane), -a3.shape[0], a3.shape[0] - 1), loom.min(i, a3.shape[1] - 1), loom.clamp(loom.int32((loom.int32(10) / b)), -a3.shape[2], a3.shape[2] - 1)]))
    v21, v22 = f12(loom.float32((loom.float32(loom.float32(loom.int32(live))) % a4[i])))
    a4[i] += loom.float32(loom.float32(loom.float32((loom.float32(loom.lerp(loom.float32(p1), loom.float32(loom.static(K1)), loom.float32(-1.0))) % h3(loom.float32(v21), loom.float32(p0))))))
