# test diagnostics
import polyloom as loom


@loom.kernel
def k(n: int, a: loom.array(dtype=float)):
    for i in range(n):
        if i == 3:
            continue
            a[0] = 1.0
        break
    while True:
        a[1] += 1.0
        if n > 3:
            return
    a[2] = 1.0
    a[3] = 1.0
