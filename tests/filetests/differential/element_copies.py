# test differential
# seed 7: C++ text copied places of composites and bytes of truth values, and gave templates places
# rank 1 | f32 | vector/f32/3:1:read vector/f32/3:1:own matrix/f16/2/2:1:own+ bool:1:own+ bool:1:own+
import polyloom as loom


@loom.kernel
def kernel(
    x: float,
    a0: loom.array(dtype=loom.vec3, ndim=1),
    a1: loom.array(dtype=loom.vec3, ndim=1),
    a2: loom.array(dtype=loom.mat22h, ndim=1),
    a3: loom.array(dtype=loom.bool, ndim=1),
    a4: loom.array(dtype=loom.bool, ndim=1),
):
    i = loom.tid()
    a1[i] = a0[0]
    a2[i] = a2[i]
    a3[i] = a4[i]
    a1[i] = loom.max(loom.abs(a1[i]), a0[0])
    if not (a1[i] == loom.vec3(x)):
        a4[i] = a3[i]
    a4[i] = a3[i] if x > 2.0 else a4[i]
