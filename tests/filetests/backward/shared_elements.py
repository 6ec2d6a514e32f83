# test backward
# option stages
# What several threads read is added to atomically, or gathered by the threads of the elements.
import polyloom as loom


@loom.kernel
def shared_elements(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    if i > 0:
        out[i] = x[i] - x[i - 1]
