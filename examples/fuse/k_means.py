"""Lloyd's algorithm for k-means: distances by a product of matrices, the nearest centre, and sums of points by centre.

    python examples/fuse/k_means.py [POINTS] [GRAPH.svg]

Checks a round in float64, and prints the time of one against NumPy and JAX, as far as it is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops
from timing import compare, jax_or_none

WIDTH, CENTRES = 32, 64


@loom.fuse
def moved(points, centres):
    """The means of the points that are nearest to each centre, and the sum of squared distances."""
    n = points.shape[0]
    squares = ops.sum(ops.square(centres), 1)
    # The square of a point itself is the same for all centres.
    distances = ops.subtract(squares, ops.multiply(ops.matmul(points, ops.transpose(centres)), 2))
    nearest = ops.argmin(distances, 1)
    least = ops.add(ops.min(distances, 1), ops.sum(ops.square(points), 1))
    zeros = ops.multiply(centres, 0)
    sums = ops.scatter_add(zeros, ops.reshape(nearest, (n, 1)), points, 0)
    counts = ops.sum(ops.one_hot(nearest, CENTRES), 0)
    means = ops.divide(sums, ops.reshape(ops.maximum(counts, 1), (CENTRES, 1)))
    return means, ops.sum(least)


def moved_by(xp: Any, points: Any, centres: Any) -> tuple[Any, Any]:
    """The same by a library with NumPy's functions."""
    distances = (centres**2).sum(1) - 2 * (points @ centres.T)
    nearest = distances.argmin(1)
    least = distances.min(1) + (points**2).sum(1)
    member = (nearest[:, None] == xp.arange(CENTRES)).astype(points.dtype)
    return (member.T @ points) / xp.maximum(member.sum(0), 1)[:, None], least.sum()


def main(n: int = 20_000, graph: str = "k_means.svg") -> None:
    g = np.random.default_rng(0)
    middle = g.normal(size=(CENTRES, WIDTH))
    points = (middle[g.integers(0, CENTRES, n)] + 0.2 * g.normal(size=(n, WIDTH))).astype(np.float32)
    start = centres = points[g.choice(n, CENTRES, replace=False)]
    exact = moved_by(np, points.astype(np.float64), start.astype(np.float64))[0]
    print(f"means within {np.abs(moved(points, start)[0] - exact).max():.1e} of float64")
    for step in range(10):
        centres, distance = moved(points, centres)
        print(f"round {step}: mean squared distance {float(distance) / n:.4f}")
    peers = {"NumPy": lambda: moved_by(np, points, start)}
    if (jax := jax_or_none()) is not None:
        compiled = jax.jit(lambda points, centres: moved_by(jax.numpy, points, centres))
        peers["JAX"] = lambda: jax.block_until_ready(compiled(points, start))
    compare(f"a round of {n} points", lambda: moved(points, start), peers)
    Path(graph).write_text(moved.graph())


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]), *sys.argv[2:3])
