"""The bilateral filter."""

import numpy as np
import polyloom as loom


@loom.kernel
def bilateral(image: loom.array2d(dtype=float), radius: int, near: float, like: float, y: loom.array2d(dtype=float)):
    i, j = loom.tid()
    centre = image[i, j]
    total = 0.0
    weights = 0.0
    for a in range(-radius, radius + 1):
        row = i + a
        if row < 0 or row >= image.shape[0]:
            continue
        for b in range(-radius, radius + 1):
            column = j + b
            if column < 0 or column >= image.shape[1]:
                continue
            pixel = image[row, column]
            distance = loom.float32(a * a + b * b) / (2.0 * near * near)
            difference = (pixel - centre) ** 2 / (2.0 * like * like)
            weight = loom.exp(-distance - difference)
            total += weight * pixel
            weights += weight
    y[i, j] = total / weights


def arguments(random):
    return random.random((9, 7), dtype=np.float32), 2, 1.5, 0.25


def twin(image, *parameters):
    y = np.zeros_like(image)
    loom.launch(bilateral, image.shape, [image, *parameters, y])
    return y


def expected(image, radius, near, like):
    image = image.astype(np.float64)
    y = np.zeros_like(image)
    for i, j in np.ndindex(image.shape):
        rows, columns = (slice(max(at - radius, 0), at + radius + 1) for at in (i, j))
        a, b = np.mgrid[: image.shape[0], : image.shape[1]][:, rows, columns]
        pixels = image[rows, columns]
        exponents = ((a - i) ** 2 + (b - j) ** 2) / (2 * near**2) + (pixels - image[i, j]) ** 2 / (2 * like**2)
        weights = np.exp(-exponents)
        y[i, j] = (weights * pixels).sum() / weights.sum()
    return y
