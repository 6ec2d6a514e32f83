"""Edges of an image."""

import numpy as np
import polyloom as loom

WEIGHTS = loom.mat33(-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0)


@loom.kernel
def sobel(image: loom.array2d(dtype=float), size: loom.array2d(dtype=float), eighth: loom.array2d(dtype=int)):
    i, j = loom.tid()
    if i == 0 or j == 0 or i == image.shape[0] - 1 or j == image.shape[1] - 1:
        return
    gradient = loom.vec2(0.0, 0.0)
    for a in range(3):
        for b in range(3):
            gradient += loom.vec2(WEIGHTS[a, b], WEIGHTS[b, a]) * image[i + a - 1, j + b - 1]
    size[i, j] = loom.length(gradient)
    eighth[i, j] = loom.int32(loom.round(loom.atan2(gradient.y, gradient.x) * 4.0 / loom.pi)) & 7


def arguments(random):
    return (random.random((9, 8), dtype=np.float32),)


def twin(image):
    size, eighth = np.zeros_like(image), np.zeros(image.shape, np.int32)
    loom.launch(sobel, image.shape, [image, size, eighth])
    return size, eighth


def expected(image):
    weights = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (3, 3))
    x, y = (windows * weights).sum((2, 3)), (windows * weights.T).sum((2, 3))
    return np.pad(np.hypot(x, y), 1), np.pad(np.round(np.arctan2(y, x) * 4 / np.pi).astype(int) & 7, 1)
