"""A convolution without a border."""

import numpy as np
import polyloom as loom


@loom.kernel
def conv2d(image: loom.array2d(dtype=float), window: loom.array2d(dtype=float), y: loom.array2d(dtype=float)):
    i, j = loom.tid()
    total = 0.0
    for a in range(window.shape[0]):
        for b in range(window.shape[1]):
            total += image[i + a, j + b] * window[a, b]
    y[i, j] = total


def arguments(random):
    return random.random((9, 10), dtype=np.float32), random.random((3, 2), dtype=np.float32)


def twin(image, window):
    y = np.zeros((7, 9), np.float32)
    loom.launch(conv2d, y.shape, [image, window, y])
    return y


def expected(image, window):
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), window.shape)
    return (windows * window).sum((2, 3))
