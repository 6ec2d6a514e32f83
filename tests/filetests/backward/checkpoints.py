# test backward
# option checkpoints
# The same by segments, of which each runs again from what the loop carried into it.
import polyloom as loom


@loom.kernel
def checkpoints(x: loom.array(dtype=float), n: int, out: loom.array(dtype=float)):
    i = loom.tid()
    v = x[i]
    for _ in range(n):
        v = v * v
    out[i] = v
