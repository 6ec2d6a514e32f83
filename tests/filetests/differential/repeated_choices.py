# test differential
# seed 17011225: LLVM's vectoriser takes hours over values that several choices in a row leave the same in all threads
# rank 1 | f32 | f32:1:own+
import polyloom as loom


@loom.kernel
def kernel(p0: loom.float32, a0: loom.array(dtype=loom.float32, ndim=1)):
    i = loom.tid()
    for _n in range(3):
        v = loom.radians(loom.expm1(2.0)) + 1.5 / loom.min(p0, 1e-3, p0)
        if not p0 >= v / -0.25:
            p0 = (v + loom.copysign(p0, p0)) + v * loom.atanh(-0.25)
    a0[i] = loom.atanh(-loom.expm1(p0))
