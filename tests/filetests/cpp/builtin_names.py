# test cpp
import polyloom as loom


@loom.kernel
def named_like_what_it_calls(x: loom.array(dtype=float), y: loom.array(dtype=float), p: loom.array(dtype=loom.vec3)):
    i = loom.tid()
    atomic_min = x[i]
    loom.atomic_min(y, 0, atomic_min)
    atomicMax = atomic_min + 1.0
    loom.atomic_max(y, 1, atomicMax)
    atomic_add = loom.vec3(atomicMax, atomic_min, 1.0)
    loom.atomic_add(p, 0, atomic_add)
    sqrt = loom.sqrt(loom.abs(atomicMax))
    abs = loom.abs(atomic_min)
    min = loom.min(abs, sqrt)
    max = loom.max(min, 0.5)
    clamp = loom.clamp(max, 0.0, abs)
    length = loom.length(atomic_add)
    lower_bound = loom.lower_bound(x, clamp)
    loom.atomic_add(y, 2, length + float(lower_bound))
