"""Kernels of the tests of queues and streams: one that takes long, and one that reads what another array has."""

import polyloom as loom


@loom.kernel
def spin(x: loom.array(dtype=float), n: int):
    i = loom.tid()
    v = x[i]
    for _ in range(n):
        v = v * 0.999 + 0.001
    x[i] = v


@loom.kernel
def double(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = 2.0 * x[i]
