# test diagnostics
import polyloom as loom


@loom.kernel
def k(a: loom.array(dtype=float)):
    a[0] = 1 +
    for i in range(3)
        a[i] = (2.0
