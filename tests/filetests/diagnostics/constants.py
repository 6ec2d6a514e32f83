# test diagnostics
import polyloom as loom

HUGE = 10**30


@loom.kernel
def k(a: loom.array(dtype=loom.uint8), b: loom.array(dtype=loom.float16), c: loom.array(dtype=float)):
    a[0] = 256
    a[0] = -1
    a[0] = a[0] * 1000
    b[0] = 70000.0
    c[0] = 1e39
    x = 3000000000
    y = 99999999999999999999999
    z = HUGE
    w = 2**200
    for i in range(0, 10, 0):
        pass
    c[0] = 10**400
