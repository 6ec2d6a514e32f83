"""Counts by bins."""

import numpy as np
import polyloom as loom


@loom.kernel
def histogram(x: loom.array(dtype=float), bins: int, counts: loom.array(dtype=int)):
    i = loom.tid()
    loom.atomic_add(counts, loom.clamp(loom.int32(x[i] * loom.float32(bins)), 0, bins - 1), 1)


def arguments(random):
    return random.random(100, dtype=np.float32), 8


def twin(x, bins):
    counts = np.zeros(bins, np.int32)
    loom.launch(histogram, len(x), [x, bins, counts])
    return counts


def expected(x, bins):
    return np.histogram(x, bins, (0, 1))[0]
