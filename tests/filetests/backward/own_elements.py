# test backward
# What a thread reads of its own is added to plainly, what it stored is taken, and a number gets a sum of all threads.
import polyloom as loom


@loom.kernel
def own_elements(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i]
    out[i] = loom.sin(y[i])
