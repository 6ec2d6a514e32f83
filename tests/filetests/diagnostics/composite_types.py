# test diagnostics
import polyloom as loom

LENGTH = 2.5
G = loom.vec3(1.0, 2.0)
UP = loom.vec3(0.0, 1.0, 0.0)


@loom.func
def many(
    a: loom.types.vector(length=0, dtype=float),
    b: loom.types.vector(length=LENGTH, dtype=float),
    c: loom.types.vector(3),
    d: loom.types.matrix(shape=3, dtype=float),
    e: loom.types.matrix(shape=(40, 40), dtype=float),
    f: loom.types.quaternion(dtype=int),
    g: loom.types.vector(size=3, dtype=float),
    h: loom.types.vector,
    i: loom.types.vector(3, loom.vec3),
    j: loom.types.scalar,
):
    return a


@loom.kernel
def captured(out: loom.array(dtype=float)):
    out[0] = G.x
    out[1] = UP.u
    out[2] = UP
    UP.x = 1.0
