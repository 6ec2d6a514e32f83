"""Attention with a running maximum."""

import numpy as np
import polyloom as loom

from . import attention


@loom.kernel
def attend(
    q: loom.array2d(dtype=float),
    k: loom.array2d(dtype=float),
    v: loom.array2d(dtype=float),
    o: loom.array2d(dtype=float),
):
    i, e = loom.tid()
    greatest = -1.0e30
    total = 0.0
    value = 0.0
    for j in range(k.shape[0]):
        score = 0.0
        for c in range(q.shape[1]):
            score += q[i, c] * k[j, c]
        higher = loom.max(greatest, score)
        shrink = loom.exp(greatest - higher)
        weight = loom.exp(score - higher)
        total = total * shrink + weight
        value *= shrink
        value += weight * v[j, e]
        greatest = higher
    o[i, e] = value / total


def arguments(random):
    return tuple(random.random(shape, dtype=np.float32) for shape in ((5, 4), (7, 4), (7, 3)))


def twin(q, k, v):
    o = np.zeros((5, 3), np.float32)
    loom.launch(attend, o.shape, [q, k, v, o])
    return o


def expected(q, k, v):
    # Without the scale of the other form.
    return attention.expected(q * np.sqrt(np.float64(q.shape[1])), k, v)[0]
