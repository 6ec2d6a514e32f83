"""The heat equation on a plate."""

import numpy as np
import polyloom as loom


@loom.kernel
def step(plate: loom.array2d(dtype=float), following: loom.array2d(dtype=float), rate: float):
    i, j = loom.tid()
    if i > 0 and j > 0 and i < plate.shape[0] - 1 and j < plate.shape[1] - 1:
        around = plate[i - 1, j] + plate[i + 1, j] + plate[i, j - 1] + plate[i, j + 1]
        following[i, j] = plate[i, j] + rate * (around - 4.0 * plate[i, j])


def arguments(random):
    return random.random((8, 9), dtype=np.float32), 0.2, 5


def twin(start, rate, steps):
    plate, following = start.copy(), start.copy()
    for _ in range(steps):
        loom.launch(step, plate.shape, [plate, following, rate])
        plate[:] = following
    return plate, following


def expected(start, rate, steps):
    plate = start.astype(np.float64)
    for _ in range(steps):
        inner = plate[1:-1, 1:-1]
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate[1:-1, 1:-1] = inner + rate * (around - 4 * inner)
    return plate, plate
