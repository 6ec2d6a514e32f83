# test backward
# option stages
# option overwriting
# The threads' own elements and what is gathered are written, and what was computed is left as it is.
import polyloom as loom


@loom.kernel
def written(x: loom.array(dtype=float), y: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    out[i] = x[i] * y[i] + x[i + 1]
