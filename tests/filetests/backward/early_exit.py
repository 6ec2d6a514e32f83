# test backward
# An early exit becomes data: how often the loop ran is on a tape.
import polyloom as loom


@loom.kernel
def early_exit(x: loom.array(dtype=float), n: int, out: loom.array(dtype=float)):
    i = loom.tid()
    v = x[i]
    for _ in range(n):
        if v > 10.0:
            break
        v = v * v
    out[i] = v
