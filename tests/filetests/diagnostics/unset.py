# test diagnostics
import polyloom as loom

COUNT = 3
LIMIT = 10


@loom.kernel
def k(n: int, a: loom.array(dtype=float)):
    if n > 0:
        x = 1.0
    a[0] = x + x
    for i in range(n):
        y = 2.0
    a[1] = y
    a[2] = float(i)
    while n > 0:
        z = 1.0
        n -= 1
    a[3] = z
    a[4] = w
    w = 1.0
    for j in range(5):
        if j > 2:
            break
        v = 1.0
    a[5] = v
    COUNT += 1
    a[6] = float(LIMIT)
    LIMIT = 3
    u: float
    a[7] = u


# Everything here is set wherever it is read.
@loom.kernel
def fine(n: int, a: loom.array(dtype=float)):
    if n > 0:
        x = 1.0
    elif n < 0:
        return
    else:
        x = 2.0
    for i in range(3):
        y = x
    a[0] = y + float(i)
    while True:
        z = y
        if z > 0.0:
            break
    a[1] = z
    for j in range(n):
        if j == 2:
            w = 1.0
            break
    else:
        w = 2.0
    if True:
        v = 1.0
    a[2] = w + v
