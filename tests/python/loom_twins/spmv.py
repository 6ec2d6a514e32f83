"""A sparse matrix times a vector."""

import numpy as np
import polyloom as loom


@loom.kernel
def spmv(
    first: loom.array(dtype=int),
    column: loom.array(dtype=int),
    value: loom.array(dtype=loom.float64),
    x: loom.array(dtype=loom.float64),
    y: loom.array(dtype=loom.float64),
):
    i = loom.tid()
    total = loom.float64(0.0)
    for e in range(first[i], first[i + 1]):
        total += value[e] * x[column[e]]
    y[i] = total


def arguments(random):
    counts = random.integers(0, 5, 10)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    column = random.integers(0, 8, first[-1]).astype(np.int32)
    return first, column, random.random(first[-1]), random.random(8), 10


def twin(first, column, value, x, m):
    y = np.zeros(m)
    loom.launch(spmv, m, [first, column, value, x, y])
    return y


def expected(first, column, value, x, m):
    dense = np.zeros((m, len(x)))
    for i in range(m):
        np.add.at(dense[i], column[first[i] : first[i + 1]], value[first[i] : first[i + 1]])
    return dense @ x
