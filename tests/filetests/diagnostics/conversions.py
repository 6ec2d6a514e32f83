# test diagnostics
import polyloom as loom


@loom.kernel
def quotients(n: int, a: loom.array(dtype=float), d: loom.array(dtype=loom.float64)):
    i = loom.tid()
    a[i] = i / len(a)
    a[i] = 2 * (i / n) + 1
    a[i] = (i + 1) / n * a[i]
    d[i] = 1 / n
    h = 1 / n
    a[i] = h * 2.0
    k = i / n
    k = 0.5
    a[i] = i // n


@loom.kernel
def sums(a: loom.array(dtype=float), d: loom.array(dtype=loom.float64), n: loom.array(dtype=loom.int64)):
    s = 0.0
    for j in range(len(d)):
        s += d[j]
    t = 0
    for j in range(len(a)):
        t = t + a[j]
    u = 0
    for j in range(len(n)):
        u += n[j]
    v = 0.5
    d[0] = v * d[1]
    w = 0
    a[0] = w * a[1]
    x = 0.0
    x = d[0]
    y = 0.0
    y = a[y]
