"""A median filter."""

import numpy as np
import polyloom as loom

vec9 = loom.types.vector(length=9, dtype=float)


@loom.kernel
def median(image: loom.array2d(dtype=float), y: loom.array2d(dtype=float)):
    i, j = loom.tid()
    pixels = vec9()
    for a in range(3):
        for b in range(3):
            row = loom.clamp(i + a - 1, 0, image.shape[0] - 1)
            column = loom.clamp(j + b - 1, 0, image.shape[1] - 1)
            pixels[3 * a + b] = image[row, column]
    for k in range(5):
        least = k
        for m in range(k + 1, 9):
            if pixels[m] < pixels[least]:
                least = m
        taken = pixels[k]
        pixels[k] = pixels[least]
        pixels[least] = taken
    y[i, j] = pixels[4]


def arguments(random):
    return (random.random((9, 8), dtype=np.float32),)


def twin(image):
    y = np.zeros_like(image)
    loom.launch(median, image.shape, [image, y])
    return y


def expected(image):
    return np.median(np.lib.stride_tricks.sliding_window_view(np.pad(image, 1, "edge"), (3, 3)), (2, 3))
