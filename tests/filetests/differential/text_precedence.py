# test differential
# seed 3: C++ text wrote what g++ takes for something else: no parentheses, `0.0f - float(x)`, a declaration
# rank 1 | i32 f32 | bf16:1:read i32:1:own u64:1:own f32:1:own
import polyloom as loom


@loom.kernel
def kernel(
    n: int,
    x: float,
    a0: loom.array(dtype=loom.bfloat16, ndim=1),
    a1: loom.array(dtype=int, ndim=1),
    a2: loom.array(dtype=loom.uint64, ndim=1),
    a3: loom.array(dtype=float, ndim=1),
):
    i = loom.tid()
    a1[i] = n - 3 * (i // 2)
    a2[i] = -(loom.uint64(11) // loom.uint64(4))
    v = loom.vector(a0[0], length=5, dtype=loom.bfloat16)
    a3[i] = float(v[n & 7]) if n > 0 else 0.0 - float(i < 0)
    if loom.max(loom.vec3i(i, n, 2)) - 1 < 0:
        a1[i] = 0
    if (i < n) == (x > 0.5):
        a1[i] += 2
    h = loom.float16(x)
    if h // h != h and loom.min(h, h) == h:
        a1[i] += 1
