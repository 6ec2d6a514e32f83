"""Binary search, here among integers."""

import numpy as np
import polyloom as loom


@loom.kernel
def search(
    sequence: loom.array(dtype=int),
    wanted: loom.array(dtype=int),
    index: loom.array(dtype=int),
    found: loom.array(dtype=bool),
):
    i = loom.tid()
    low = 0
    high = sequence.shape[0]
    while low < high:
        middle = (low + high) // 2
        if sequence[middle] < wanted[i]:
            low = middle + 1
        else:
            high = middle
    index[i] = low
    found[i] = low < sequence.shape[0] and sequence[low] == wanted[i]


def arguments(random):
    return np.sort(random.integers(0, 50, 30)).astype(np.int32), random.integers(-2, 52, 40).astype(np.int32)


def twin(sequence, wanted):
    index, found = np.zeros(40, np.int32), np.zeros(40, bool)
    loom.launch(search, 40, [sequence, wanted, index, found])
    return index, found


def expected(sequence, wanted):
    return np.searchsorted(sequence, wanted), np.isin(wanted, sequence)
