# test differential
# seed 8: more results of a call than there are registers for them
# rank 1 | f32 | matrix/f32/3/3:1:read matrix/f32/3/3:1:own vector/f32/3:1:own
import polyloom as loom
@loom.kernel
def kernel(p0: loom.float32, a0: loom.array(dtype=loom.mat33, ndim=1), a1: loom.array(dtype=loom.mat33, ndim=1), a2: loom.array(dtype=loom.vec3, ndim=1)):
    i = loom.tid()
    u, s, v = loom.svd3(p0 * a0[loom.min(i, a0.shape[0] - 1)])
    q, r = loom.qr3(a1[i])
    a1[i] = u * q + v * r
    a2[i] = s
