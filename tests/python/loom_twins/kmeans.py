"""Points in clusters, by Lloyd."""

import numpy as np
import polyloom as loom


@loom.kernel
def choose(points: loom.array(dtype=loom.vec2), centres: loom.array(dtype=loom.vec2), cluster: loom.array(dtype=int)):
    i = loom.tid()
    best = 0
    for c in range(1, centres.shape[0]):
        if loom.length_sq(centres[c] - points[i]) < loom.length_sq(centres[best] - points[i]):
            best = c
    cluster[i] = best


@loom.kernel
def move(points: loom.array(dtype=loom.vec2), centres: loom.array(dtype=loom.vec2), cluster: loom.array(dtype=int)):
    c = loom.tid()
    total = loom.vec2()
    count = 0.0
    for i in range(points.shape[0]):
        if cluster[i] == c:
            total += points[i]
            count += 1.0
    if count > 0.0:
        centres[c] = total / count


def arguments(random):
    groups = [random.random((10, 2), dtype=np.float32) + corner for corner in ((0, 0), (2, 1), (0, 3))]
    points = np.concatenate(groups).astype(np.float32)
    return loom.array(points, dtype=loom.vec2), loom.array(points[[3, 8, 29]], dtype=loom.vec2), 6


def twin(points, first, rounds):
    centres, cluster = loom.array(first.numpy(), dtype=loom.vec2), loom.zeros(len(points), dtype=int)
    for _ in range(rounds):
        loom.launch(choose, len(points), [points, centres, cluster])
        loom.launch(move, len(centres), [points, centres, cluster])
    return centres, cluster


def expected(points, first, rounds):
    points, centres = points.numpy().astype(np.float64), first.numpy().astype(np.float64)
    for _ in range(rounds):
        cluster = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
        centres = np.array([points[cluster == c].mean(0) for c in range(len(centres))])
    return centres, cluster
