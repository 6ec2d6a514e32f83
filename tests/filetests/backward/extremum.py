# test backward
# One of the threads whose value stayed takes the gradient: the kernel is given what was left.
import polyloom as loom


@loom.kernel
def extremum(x: loom.array(dtype=float), low: loom.array(dtype=float)):
    i = loom.tid()
    loom.atomic_min(low, 0, x[i] * x[i])
