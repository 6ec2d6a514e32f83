# test diagnostics
import polyloom as loom


@loom.kernel
def k(n: int, v: loom.vec4, m: loom.mat33, a: loom.array(dtype=float), x: loom.array(dtype=loom.vec3)):
    p = v[n:]
    p = v[::0]
    p = v[2:2]
    p = v[0:2, 1]
    p = v[1.5:]
    q = m[0:2, 1:, 0]
    q = m[:2, 5]
    v[0:2] = loom.vec3(1.0)
    v[0:2] = 1
    v[0:2] = n
    (v + v)[0:2] = loom.vec2(1.0)
    a[0:2] = 1.0
    b = a[1:]
    c = x[0:1]
    v = loom.vec4(*n, 1.0, 2.0, 3.0)
    v = loom.vec4(*v, 1.0)
    v = loom.vec4(*a)
    for i in reversed(range(v)):
        pass
    for i in reversed(a):
        pass
    for i in reversed(range(loom.uint32(3))):
        pass
    m[n].w = 1.0
    m[3].x = 1.0
    m[n].x = "x"
    (m + m)[n].x = 1.0
