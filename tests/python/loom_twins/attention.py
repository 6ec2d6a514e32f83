"""Attention in two passes."""

import numpy as np
import polyloom as loom


@loom.kernel
def attend(
    q: loom.array2d(dtype=float),
    k: loom.array2d(dtype=float),
    v: loom.array2d(dtype=float),
    o: loom.array2d(dtype=float),
    weights: loom.array2d(dtype=float),
):
    i = loom.tid()
    n = k.shape[0]
    scale = 1.0 / loom.sqrt(loom.float32(q.shape[1]))
    greatest = -1.0e30
    for j in range(n):
        score = 0.0
        for c in range(q.shape[1]):
            score += q[i, c] * k[j, c]
        weights[i, j] = score * scale
        greatest = loom.max(greatest, score * scale)
    total = 0.0
    for j in range(n):
        weights[i, j] = loom.exp(weights[i, j] - greatest)
        total += weights[i, j]
    for j in range(n):
        weights[i, j] /= total
    for e in range(v.shape[1]):
        value = 0.0
        for j in range(n):
            value += weights[i, j] * v[j, e]
        o[i, e] = value


def arguments(random):
    return tuple(random.random(shape, dtype=np.float32) for shape in ((5, 8), (11, 8), (11, 6)))


def twin(q, k, v):
    o, weights = np.zeros((5, 6), np.float32), np.zeros((5, 11), np.float32)
    loom.launch(attend, 5, [q, k, v, o, weights])
    return o, weights


def expected(q, k, v):
    scores = q.astype(np.float64) @ k.T / np.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    return weights @ v, weights
