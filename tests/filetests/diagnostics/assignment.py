# test diagnostics
import polyloom as loom


@loom.kernel
def k(n: int, a: loom.array(dtype=float), b: loom.array(dtype=float)):
    a.x = 1.0
    a = b
    if n > 0:
        c = a
    d = b
    d = a
    loom.randf(3)
