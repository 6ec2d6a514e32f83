# test diagnostics
import polyloom as loom


@loom.kernel
def too_many(x: loom.array(dtype=loom.mat22, ndim=3), y: loom.array4d[loom.vec3]):
    x[0, 0, 0] = x[1, 1, 1]


@loom.kernel
def exchanged(q: loom.quat, p: loom.vec3):
    t = loom.transform(q, p)
