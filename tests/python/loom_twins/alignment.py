"""Edit distances, one anti-diagonal after the other."""

import numpy as np
import polyloom as loom


@loom.kernel
def edges(cost: loom.array2d(dtype=int)):
    i, j = loom.tid()
    if i == 0 or j == 0:
        cost[i, j] = i + j


@loom.kernel
def diagonal(a: loom.array(dtype=loom.uint8), b: loom.array(dtype=loom.uint8), cost: loom.array2d(dtype=int), d: int):
    i = loom.tid() + 1
    j = d - i
    if j >= 1 and j <= b.shape[0]:
        change = 0 if a[i - 1] == b[j - 1] else 1
        cost[i, j] = loom.min(cost[i - 1, j - 1] + change, loom.min(cost[i - 1, j], cost[i, j - 1]) + 1)


def arguments(random):
    return random.integers(0, 4, 23).astype(np.uint8), random.integers(0, 4, 17).astype(np.uint8)


def twin(a, b):
    m, n = len(a), len(b)
    cost = np.zeros((m + 1, n + 1), np.int32)
    loom.launch(edges, cost.shape, [cost])
    for d in range(2, m + n + 1):
        loom.launch(diagonal, m, [a, b, cost, d])
    return cost


def expected(a, b):
    cost = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            if i == 0 or j == 0:
                cost[i, j] = i + j
            else:
                change = cost[i - 1, j - 1] + int(a[i - 1] != b[j - 1])
                cost[i, j] = min(change, cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    return cost
