# test diagnostics
import polyloom as loom


@loom.kernel
def wrong(v: loom.array(dtype=loom.vec3), x: loom.array(dtype=float)):
    i = loom.tid()
    a = loom.vec3(1.0, 2.0)
    p = v[i]
    b = p.w
    c = p[3]
    d = p + x[i]
    e = p + loom.vec2(1.0, 2.0)
    f = loom.dot(p, 1.0)
    g = loom.mat22(1.0, 2.0, 3.0, 4.0)[0, 1, 2]
    x[i] = p
    (v[i] + p).x = 1.0
    loom.mat22(1.0)[0] = loom.vec2(1.0)
    v[i][3] = 1.0
    h = loom.mat22(loom.vec2(1.0), loom.vec2(2.0))
    v[i] = 2.0
    k = loom.identity(n=())
    l = loom.identity(n=(2, 3))
    m = loom.quat_identity(dtype=int)
    o = loom.mat22(1.0) @ 2.0
