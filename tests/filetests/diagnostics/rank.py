# test diagnostics
import polyloom as loom


@loom.kernel
def k(a: loom.array(dtype=float), b: loom.array(dtype=float, ndim=3)):
    i, j = loom.tid()
    a[i, j] = 1.0
    b[i] = 1.0
    b[i][j] = a[i][j]
    a[i] = float(b.shape[3])
    a[()] = 0.0
    a[i] = float(a.shape[1])
    b.shape[0] = 3
    c, d, e, f, g = loom.tid()
    loom.printf("%d %d\n", i)
    a(i)
