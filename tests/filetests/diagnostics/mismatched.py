# test diagnostics
import polyloom as loom


@loom.kernel
def k(a: loom.array(dtype=float)):
    print(a[0)
    a[0] = 3.0 +
