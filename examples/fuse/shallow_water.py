"""Waves in shallow water, in array notation: each step is two kernels over the grid, however many slices it takes.

    python examples/fuse/shallow_water.py [SIDE] [STEPS] [GRAPH.svg]

Prints the time of a step against NumPy's, how much water there is before and after, and writes the graph of a step.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops

GRAVITY, DEPTH, STEP = 9.81, 1.0, 0.1


@loom.fuse
def velocities(u, v, height):
    """Velocities on the edges between cells, after a step. Those of the walls stay 0."""
    slope_x = ops.subtract(ops.slice(height, (1,), (None,)), ops.slice(height, (0,), (-1,)))
    slope_y = ops.subtract(ops.slice(height, (0, 1), (None, None)), ops.slice(height, (0, 0), (None, -1)))
    return (
        ops.subtract(u, ops.multiply(slope_x, GRAVITY * STEP)),
        ops.subtract(v, ops.multiply(slope_y, GRAVITY * STEP)),
    )


@loom.fuse
def heights(u, v, height):
    """Heights of cells after a step: what flows in over the edges less what flows out."""
    across = ops.pad(u, (1, 1, 0, 0))
    along = ops.pad(v, (0, 0, 1, 1))
    outflow_x = ops.subtract(ops.slice(across, (1,), (None,)), ops.slice(across, (0,), (-1,)))
    outflow_y = ops.subtract(ops.slice(along, (0, 1), (None, None)), ops.slice(along, (0, 0), (None, -1)))
    return ops.subtract(height, ops.multiply(ops.add(outflow_x, outflow_y), DEPTH * STEP))


def step(u: Any, v: Any, height: Any) -> tuple[Any, Any, Any]:
    u, v = velocities(u, v, height)
    return u, v, heights(u, v, height)


def numpy_step(u: Any, v: Any, height: Any) -> tuple[Any, Any, Any]:
    f = np.float32
    u = u - (height[1:] - height[:-1]) * f(GRAVITY * STEP)
    v = v - (height[:, 1:] - height[:, :-1]) * f(GRAVITY * STEP)
    across, along = np.pad(u, ((1, 1), (0, 0))), np.pad(v, ((0, 0), (1, 1)))
    outflow = across[1:] - across[:-1] + along[:, 1:] - along[:, :-1]
    return u, v, height - outflow * f(DEPTH * STEP)


def run(function: Any, side: int, steps: int) -> tuple[Any, float]:
    """The heights after so many steps from a drop in still water, and the seconds of a step."""
    x = np.linspace(-1, 1, side, dtype=np.float32)
    height = (1 + 0.2 * np.exp(-40 * (x[:, None] ** 2 + x**2))).astype(np.float32)
    u, v = np.zeros((side - 1, side), np.float32), np.zeros((side, side - 1), np.float32)
    for _ in range(20):
        function(u, v, height)
    started = time.perf_counter()
    for _ in range(steps):
        u, v, height = function(u, v, height)
    return height, (time.perf_counter() - started) / steps


def main(side: int = 1024, steps: int = 200, graph: str = "shallow_water.svg") -> None:
    height, own = run(step, side, steps)
    expected, theirs = run(numpy_step, side, steps)
    print(f"mean height {height.mean(dtype=np.float64):.6f}, from {height.min():.3f} to {height.max():.3f}")
    print(f"largest difference from NumPy's {np.abs(height - expected).max():.1e}")
    print(f"a step of {side} x {side} cells: {own * 1e3:.2f} ms, NumPy {theirs * 1e3:.2f} ms, {theirs / own:.1f} times")
    Path(graph).write_text(heights.graph())


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:3]), *sys.argv[3:4])
