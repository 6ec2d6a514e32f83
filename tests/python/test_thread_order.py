"""Kernels that walk down columns run in tiles: each thread once, whatever the sizes, as `polyloom` orders them."""

from __future__ import annotations

import numpy as np
import polyloom as loom
import pytest


@loom.kernel
def flat(x: loom.array(dtype=float), y: loom.array(dtype=float), width: int, height: int):
    i = loom.tid()
    y[i] = y[i] + x[i % height * width + i // height]


@loom.kernel
def loads(x: loom.array(dtype=float, ndim=2), y: loom.array(dtype=float, ndim=2)):
    i, j = loom.tid()
    y[i, j] = y[i, j] + x[j, i]


@loom.kernel
def stores(x: loom.array(dtype=float, ndim=2), y: loom.array(dtype=float, ndim=2)):
    i, j = loom.tid()
    y[j, i] = y[j, i] + x[i, j]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("height", "width"), [(3, 5), (256, 33), (300, 700), (1025, 511), (70_000, 3)])
def test_transpositions(height, width, threads):
    before = loom.config.num_threads
    loom.config.num_threads = threads
    try:
        x = np.random.default_rng(2).random((height, width), np.float32)
        for kernel in (flat, loads, stores):
            y = np.zeros((width, height), np.float32)
            # Launches of any age: the first, hot ones, and those that measure.
            for _ in range(5):
                if kernel is flat:
                    loom.launch(kernel, x.size, [x.ravel(), y.ravel(), width, height])
                else:
                    loom.launch(kernel, (height, width) if kernel is stores else (width, height), [x, y])
            total = np.zeros_like(y)
            for _ in range(5):
                total += x.T
            np.testing.assert_array_equal(y, total)
    finally:
        loom.config.num_threads = before


@loom.kernel(float_mode="fast")
def fast(x: loom.array(dtype=float), y: loom.array(dtype=float), height: int):
    i = loom.tid()
    y[i] = x[i % height] + x[i // height]


def test_rows_of_quotients_are_seen_in_fast_arithmetic_too():
    """Integers are the same in all modes, so that their remainders are no calls."""
    assert "call" not in fast.hir(prepared=True)
