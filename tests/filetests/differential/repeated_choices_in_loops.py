# test differential
# seed 17011225: as in repeated_choices.py, in a loop of a thread
# rank 1 | f32 | f32:2:own+
import polyloom as loom


@loom.kernel
def kernel(p0: loom.float32, a0: loom.array(dtype=loom.float32, ndim=2)):
    i = loom.tid()
    print(p0)
    for j in range(a0.shape[1]):
        p = p0
        for _n in range(3):
            v = loom.radians(loom.expm1(2.0)) + 1.5 / loom.min(p, 1e-3, p)
            if not p >= v / -0.25:
                p = (v + loom.copysign(p, p)) + v * loom.atanh(-0.25)
        a0[i, j] = loom.atanh(-loom.expm1(p))
