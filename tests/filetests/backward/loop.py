# test backward
# A loop that runs as often as an argument says keeps on a tape what its derivative asks for.
import polyloom as loom


@loom.kernel
def loop(x: loom.array(dtype=float), n: int, out: loom.array(dtype=float)):
    i = loom.tid()
    v = x[i]
    for _ in range(n):
        v = v * v
    out[i] = v
