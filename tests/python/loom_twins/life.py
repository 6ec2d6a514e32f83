"""Conway's game of life, 32 cells in a word."""

import numpy as np
import polyloom as loom


@loom.func
def alive(words: loom.array2d(dtype=loom.uint32), row: int, column: int) -> loom.uint32:
    h, w = words.shape[0], words.shape[1]
    r = (row + h) % h
    c = (column + 32 * w) % (32 * w)
    return (words[r, c >> 5] >> loom.uint32(c & 31)) & loom.uint32(1)


@loom.kernel
def generation(cells: loom.array2d(dtype=loom.uint32), following: loom.array2d(dtype=loom.uint32)):
    r, c = loom.tid()
    word = loom.uint32(0)
    for bit in range(32):
        column = 32 * c + bit
        neighbours = loom.uint32(0)
        for a in range(-1, 2):
            for b in range(-1, 2):
                if a != 0 or b != 0:
                    neighbours += alive(cells, r + a, column + b)
        three, two = neighbours == loom.uint32(3), neighbours == loom.uint32(2)
        if three or (two and alive(cells, r, column) == loom.uint32(1)):
            word = word | (loom.uint32(1) << loom.uint32(bit))
    following[r, c] = word


def arguments(random):
    return random.integers(0, 1 << 32, (5, 2)).astype(np.uint32), 3


def twin(start, generations):
    cells, following = start.copy(), np.zeros_like(start)
    for _ in range(generations):
        loom.launch(generation, cells.shape, [cells, following])
        cells[:] = following
    return cells, following


def expected(start, generations):
    bits = np.arange(32, dtype=np.uint32)
    cells = ((start[:, :, None] >> bits) & 1).reshape(len(start), -1)
    for _ in range(generations):
        shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
        neighbours = sum(np.roll(cells, shift, (0, 1)) for shift in shifts)
        cells = ((neighbours == 3) | (neighbours == 2) & (cells == 1)).astype(np.uint32)
    words = (cells.reshape(*start.shape, 32) << bits).sum(2).astype(np.uint32)
    return words, words
