# test cuda
# option prelude
# Atomic updates that CUDA has no function for are loops at the scope that was asked for, with its fences.
import polyloom as loom


@loom.kernel
def scopes(
    h: loom.array(dtype=loom.float16),
    f: loom.array(dtype=float),
    n: loom.array(dtype=loom.int64),
    v: loom.array(dtype=loom.vec3),
):
    i = loom.tid()
    loom.atomic_add(h, i, h[0], scope="block")
    loom.atomic_max(f, i, f[0], scope="system", order="release")
    loom.atomic_min(f, i, f[0])
    loom.atomic_sub(n, i, n[0], scope="block", order="acq_rel")
    loom.atomic_cas(f, i, f[0], f[1], scope="block", order="acquire")
    loom.atomic_add(v, i, v[0], scope="block")
    loom.atomic_add(f, i, f[1], scope="block")
