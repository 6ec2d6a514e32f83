# test diagnostics
# One mistake gives one message: what is built on a rejected expression is not reported again.
import polyloom as loom


@loom.kernel
def k(n: int, a: loom.array(dtype=float), b: unknown):
    x = undefined + 1
    y = x * 2.0
    z = loom.sin(y) + loom.max(y, n) + b[0]
    a[0] = z
    for i in range(x):
        a[i] = y if x else z
    x += 1
    a[x] = -x
