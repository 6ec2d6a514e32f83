"""The product of two matrices."""

import numpy as np
import polyloom as loom


@loom.kernel
def matmul(a: loom.array2d(dtype=float), b: loom.array2d(dtype=float), c: loom.array2d(dtype=float)):
    i, j = loom.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


def arguments(random):
    return random.random((9, 17), dtype=np.float32), random.random((17, 6), dtype=np.float32)


def twin(a, b):
    c = np.zeros((9, 6), np.float32)
    loom.launch(matmul, c.shape, [a, b, c])
    return c


def expected(a, b):
    return a.astype(np.float64) @ b
