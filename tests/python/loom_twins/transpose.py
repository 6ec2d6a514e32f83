"""The transposed matrix by tiles in shared memory."""

import numpy as np
import polyloom as loom


@loom.kernel(block_dim=256)
def transpose(a: loom.array2d(dtype=float), b: loom.array2d(dtype=float)):
    tile = loom.shared_array(shape=(16, 17), dtype=float)
    row = loom.thread_idx() // 16
    column = loom.thread_idx() % 16
    across = (a.shape[1] + 15) // 16
    i = loom.block_idx() // across * 16
    j = loom.block_idx() % across * 16
    if i + row < a.shape[0] and j + column < a.shape[1]:
        tile[row, column] = a[i + row, j + column]
    loom.sync_threads()
    if j + row < a.shape[1] and i + column < a.shape[0]:
        b[j + row, i + column] = tile[column, row]


def arguments(random):
    return (random.random((20, 37), dtype=np.float32),)


def dim(a):
    return -(-a.shape[0] // 16) * -(-a.shape[1] // 16) * 256


def twin(a):
    b = np.zeros((a.shape[1], a.shape[0]), np.float32)
    loom.launch(transpose, dim(a), [a, b])
    return b


def expected(a):
    return a.T
