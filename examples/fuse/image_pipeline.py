"""Develops a picture: black level, white balance, sharpening, a tone curve and gamma, with Python's own `if` between.

    python examples/fuse/image_pipeline.py [SIDE] [GRAPH.svg]

Prints what fuses and the time against NumPy's, and writes the graph of the function.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops


@loom.fuse
def develop(raw, gains, sharpens):
    """A picture of 16-bit numbers, rows x columns x 3, as bytes."""
    light = ops.multiply(ops.subtract(ops.cast(raw, np.float32), 512.0), 1 / 15871)
    balanced = ops.clip(ops.multiply(light, gains), 0.0, 1.0)
    if sharpens:
        inner = ops.slice(balanced, (1, 1), (-1, -1))
        north, south = ops.slice(balanced, (0, 1), (-2, -1)), ops.slice(balanced, (2, 1), (None, -1))
        west, east = ops.slice(balanced, (1, 0), (-1, -2)), ops.slice(balanced, (1, 2), (-1, None))
        around = ops.add(ops.add(north, south), ops.add(west, east))
        balanced = ops.add(inner, ops.multiply(ops.subtract(inner, ops.multiply(around, 0.25)), 0.6))
    curve = ops.divide(balanced, ops.add(ops.multiply(balanced, 0.6), 0.4))
    encoded = ops.power(ops.clip(curve, 0.0, 1.0), 1 / 2.2)
    return ops.cast(ops.add(ops.multiply(encoded, 255.0), 0.5), np.uint8)


def numpy_develop(raw: Any, gains: Any, sharpens: bool) -> Any:
    f = np.float32
    balanced = np.clip((raw.astype(f) - f(512)) * f(1 / 15871) * gains, f(0), f(1))
    if sharpens:
        inner = balanced[1:-1, 1:-1]
        around = (balanced[:-2, 1:-1] + balanced[2:, 1:-1]) + (balanced[1:-1, :-2] + balanced[1:-1, 2:])
        balanced = inner + (inner - around * f(0.25)) * f(0.6)
    curve = balanced / (balanced * f(0.6) + f(0.4))
    return (np.clip(curve, f(0), f(1)) ** f(1 / 2.2) * f(255) + f(0.5)).astype(np.uint8)


def seconds(function: Callable[[], Any]) -> float:
    """The shortest of some runs, after those that compile."""
    started = time.perf_counter()
    while time.perf_counter() - started < 0.5:
        function()
    times = []
    for _ in range(5):
        before = time.perf_counter()
        function()
        times.append(time.perf_counter() - before)
    return min(times)


def main(side: int = 1024, graph: str = "image_pipeline.svg") -> None:
    g = np.random.default_rng(5)
    raw = g.integers(512, 16383, (side, side, 3)).astype(np.uint16)
    gains = np.array([1.9, 1.0, 1.6], np.float32)
    for sharpens in (False, True):
        picture, expected = develop(raw, gains, sharpens), numpy_develop(raw, gains, sharpens)
        difference = np.abs(picture.astype(int) - expected).max()
        own = seconds(lambda sharpens=sharpens: develop(raw, gains, sharpens))
        theirs = seconds(lambda sharpens=sharpens: numpy_develop(raw, gains, sharpens))
        print(f"{'sharpened' if sharpens else 'plain'}, within {difference} of NumPy's bytes: ", end="")
        print(f"{own * 1e3:.2f} ms, NumPy {theirs * 1e3:.2f} ms, {theirs / own:.1f} times")
    print(develop.explain())
    Path(graph).write_text(develop.graph())


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]), *sys.argv[2:3])
