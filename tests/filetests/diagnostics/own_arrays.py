# test diagnostics
import polyloom as loom


@loom.func
def change(a: loom.array(dtype=float), b: loom.array(dtype=float)):
    a[0] = 1.0
    b[0] = 2.0


@loom.kernel
def k(n: int, x: loom.array2d(dtype=float), out: loom.array(dtype=float)):
    a = loom.zeros(shape=(n,), dtype=float)
    b = loom.zeros(shape=(40, 40), dtype=float)
    c = loom.zeros(dtype=float)
    d = loom.zeros(shape=(2, 3), dtype=float)
    e = loom.zeros(3, dtype=float)
    out[0] = d[0]
    out[0] = d[5, 0]
    out[0] = d[0, 0, 0]
    d[0] = 1.0
    e = loom.zeros(4, dtype=float)
    n = loom.zeros(4, dtype=float)
    change(e, e)
    loom.atomic_add(e, 0, 1.0)
    out[0] = loom.zeros(3, dtype=float)[0]
    r = x[n]
    r = 3.0
    out[1] = x[n] + 1.0
    x[n] = 1.0
    for i in range(2):
        out[i] = r[0]
        r = x[i]


@loom.struct
class Pair:
    first: loom.array(dtype=float)
    scale: float


@loom.kernel
def kept(x: loom.array2d(dtype=float), out: loom.array(dtype=float)):
    p = Pair()
    p.first = x[0]
    q = Pair()
    q.first = loom.zeros(3, dtype=float)
    a = b = x[0]
    c, d = x[0], x[1]
    e = loom.zeros(3, dtype=float)
    r = Pair(e, 1.0)
    if out[0] > 0.0:
        f = x[0]
    out[0] = f[0]
