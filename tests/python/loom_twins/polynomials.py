"""Polynomials at many points."""

import numpy as np
import polyloom as loom


@loom.struct
class Settings:
    scale: loom.float64
    offset: loom.float64
    classes: int


@loom.kernel
def evaluate(
    coefficients: loom.array(dtype=loom.float64),
    x: loom.array(dtype=loom.float64),
    settings: Settings,
    y: loom.array(dtype=loom.float64),
    following: loom.array(dtype=int),
    wraps: loom.array(dtype=bool),
):
    i = loom.tid()
    at = settings.scale * x[i] + settings.offset
    value = loom.float64(0.0)
    for k in range(coefficients.shape[0] - 1, -1, -1):
        value = value * at + coefficients[k]
    y[i] = value
    root = 0
    while (root + 1) * (root + 1) <= i:
        root += 1
    number = root % settings.classes + 1
    following[i] = 0 if number == settings.classes else number
    wraps[i] = number == settings.classes


def arguments(random):
    settings = Settings()
    settings.scale, settings.offset, settings.classes = 0.5, -0.25, 4
    return np.array([1.0, 0.0, -8.0, 0.0, 8.0]), random.random(30), settings


def twin(coefficients, x, settings):
    y, following, wraps = np.zeros(30), np.zeros(30, np.int32), np.zeros(30, bool)
    loom.launch(evaluate, 30, [coefficients, x, settings, y, following, wraps])
    return y, following, wraps


def expected(coefficients, x, settings):
    roots = np.floor(np.sqrt(np.arange(30))).astype(int)
    # Chebyshev's polynomial of degree 4.
    return np.cos(4 * np.arccos(0.5 * x - 0.25)), (roots % 4 + 1) % 4, roots % 4 == 3
