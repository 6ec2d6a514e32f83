# test diagnostics
# option lint
import polyloom as loom


@loom.kernel
def different(n: int, a: loom.array(dtype=int), x: loom.array(dtype=float), u: loom.array(dtype=loom.uint32)):
    i = loom.tid()
    a[i] = -7 % 2
    a[i] = n % 2
    a[i] = n / 2
    a[i] /= 2
    x[i] = x[i] % 1.0
    x[i] = round(x[i])
    b = n or 3
    c = n and i > 2
    if b and c:
        n -= 1
    for j in range(n, n + 3):
        a[j] = j % 4
    d = loom.zeros(shape=(3,), dtype=int)
    e = d
    e[0] = d[1]


@loom.kernel
def the_same(n: int, a: loom.array(dtype=int), x: loom.array(dtype=float), u: loom.array(dtype=loom.uint32)):
    i = loom.tid()
    a[i] = i % 4
    a[i] = (i * 3 + 1) % a.shape[0]
    a[i] = n // 2
    u[i] = u[i] % loom.uint32(3)
    x[i] = x[i] / 2.0
    x[i] = loom.rint(x[i])
    b = i > 2 or n > 3
    if n or b:
        x[i] = 1.0
    while n and not b:
        n -= 1
    for j in range(10):
        a[j] = j % 4
    for j in range(9, -1, -1):
        a[j] = j % 4
    step = 0
    step += i
    a[i] = step % 5
