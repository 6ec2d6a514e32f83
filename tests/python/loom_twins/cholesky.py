"""The Cholesky factor, column by column."""

import numpy as np
import polyloom as loom


@loom.kernel
def pivot(a: loom.array2d(dtype=loom.float64), factor: loom.array2d(dtype=loom.float64), k: int):
    rest = a[k, k]
    for j in range(k):
        rest -= factor[k, j] * factor[k, j]
    factor[k, k] = loom.sqrt(rest)


@loom.kernel
def column(a: loom.array2d(dtype=loom.float64), factor: loom.array2d(dtype=loom.float64), k: int):
    i = k + 1 + loom.tid()
    total = a[i, k]
    for j in range(k):
        total -= factor[i, j] * factor[k, j]
    factor[i, k] = total / factor[k, k]


def arguments(random):
    m = random.random((9, 9))
    return (m @ m.T + np.eye(9),)


def twin(a):
    n = len(a)
    factor = np.zeros((n, n))
    for k in range(n):
        loom.launch(pivot, 1, [a, factor, k])
        if k + 1 < n:
            loom.launch(column, n - k - 1, [a, factor, k])
    return factor


def expected(a):
    return np.linalg.cholesky(a)
