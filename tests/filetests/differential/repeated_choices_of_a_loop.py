# test differential
# seed 23001710: a loop of two iterations is written out, with a choice behind each that all threads of a row share
# rank 2 | f64 f64 f64 | f64:2:own
import polyloom as loom


@loom.kernel
def kernel(p0: loom.float64, p1: loom.float64, c0: loom.float64, a1: loom.array(dtype=loom.float64, ndim=2)):
    i, j = loom.tid()
    w = loom.int32(0)
    while w < 2 and loom.float64(i) != c0:
        w += 1
        p0 *= p0 - loom.sinh(p0 / p0)
    v = loom.sin(loom.atan(loom.fma(p0, p1, p0)))
    a1[i, j] = loom.sinh(v * 2.0)
