"""A bitonic sorting network, a launch for each distance."""

import numpy as np
import polyloom as loom


@loom.kernel
def compare(y: loom.array(dtype=float), stage: int, distance: int):
    block, i = loom.tid()
    a = 2 * distance * block + i
    b = a + distance
    least, most = loom.min(y[a], y[b]), loom.max(y[a], y[b])
    if (a >> stage) & 1 == 0:
        y[a] = least
        y[b] = most
    else:
        y[a] = most
        y[b] = least


def arguments(random):
    return random.random(32, dtype=np.float32), 5


def twin(x, stages):
    y = x.copy()
    for stage in range(1, stages + 1):
        for step in reversed(range(stage)):
            loom.launch(compare, (len(x) >> (step + 1), 1 << step), [y, stage, 1 << step])
    return y


def expected(x, stages):
    return np.sort(x)
