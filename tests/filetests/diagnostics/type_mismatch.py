# test diagnostics
import polyloom as loom


@loom.func
def scale(x: float, n: int) -> float:
    return x


@loom.kernel
def k(n: int, x: float, d: loom.float64, flag: bool, a: loom.array(dtype=float), b: loom.array(dtype=int)):
    i = loom.tid()
    a[i] = x + i
    a[i] = d
    a[i] = d * x
    b[i] = 1.5
    b[i] = n * 2.0
    b[x] = n
    b[2.0] = n
    a[i] = a + 1.0
    a[i] = flag + 1
    a[i] = x & 1
    a[i] = ~x
    a[i] = -flag
    n[0] = 1
    a[i] = scale(x, x)
    a[i] = x if flag else n
    y: float = n
    for j in range(x):
        pass
    for j in range(n, loom.int64(3)):
        pass
    if loom.vec2(x):
        pass
    b[i] = n**n
    a[i] = loom.float64(a)
    b[i] = len(n)
    b[i] = loom.cast(d, loom.int32)
    loom.printf("%d %f\n", x, n)
    u, v = n
    u, v = 1, 2, 3
