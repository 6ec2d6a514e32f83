# test diagnostics
import polyloom as loom


@loom.kernel
def k(n: int, x: float, a: loom.array(dtype=float), b: loom.array(dtype=float)):
    total = 0
    for j in range(n):
        total += x
    count = 1.0
    count = n
    n = 2.5
    y = loom.float64(x)
    y = x
    for x in range(3):
        pass
    a = b
    c = a
    c = 1.0
    z: int = 3
    z: float = 1.0
    a[0] = total + count + y + z
