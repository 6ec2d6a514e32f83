# test diagnostics
import polyloom as loom


@loom.func
def marks(a: loom.array(dtype=float), i: int):
    a[i] = 0.0


@loom.kernel
def written(x: loom.array(dtype=float), y: loom.array(dtype=float), z: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = loom.load_readonly(x, i) + loom.load_readonly(z, i)
    marks(y, i)
    x[i] += loom.load_readonly(y, i)
