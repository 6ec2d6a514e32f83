"""How many steps points of the plane take to escape."""

import numpy as np
import polyloom as loom


@loom.kernel
def mandelbrot(height: int, width: int, limit: int, steps: loom.array2d(dtype=int)):
    i, j = loom.tid()
    cx = 3.0 * loom.float32(j) / loom.float32(width) - 2.0
    cy = 2.0 * loom.float32(i) / loom.float32(height) - 1.0
    x = 0.0
    y = 0.0
    n = 0
    while n < limit and x * x + y * y < 4.0:
        following = x * x - y * y + cx
        y = 2.0 * x * y + cy
        x = following
        n += 1
    steps[i, j] = n


def arguments(random):
    return 12, 18, 30


def twin(height, width, limit):
    steps = np.zeros((height, width), np.int32)
    loom.launch(mandelbrot, steps.shape, [height, width, limit, steps])
    return steps
