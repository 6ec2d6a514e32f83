"""Buys that are filled from offers, one after the other."""

import numpy as np
import polyloom as loom


@loom.kernel
def fill(
    offers: loom.array(dtype=float),
    buys: loom.array(dtype=float),
    wanted: loom.array(dtype=int),
    left: loom.array(dtype=int),
    filled: loom.array(dtype=int),
):
    for b in range(buys.shape[0]):
        size = wanted[b]
        for o in range(offers.shape[0]):
            if size == 0:
                break
            if offers[o] <= buys[b]:
                taken = loom.min(left[o], size)
                left[o] -= taken
                size -= taken
        filled[b] = wanted[b] - size


def arguments(random):
    offers, buys = np.sort(random.random(12, dtype=np.float32)), random.random(9, dtype=np.float32)
    return offers, random.integers(1, 9, 12).astype(np.int32), buys, random.integers(1, 15, 9).astype(np.int32)


def twin(offers, sizes, buys, wanted):
    left, filled = sizes.copy(), np.zeros_like(wanted)
    loom.launch(fill, 1, [offers, buys, wanted, left, filled])
    return left, filled


def expected(offers, sizes, buys, wanted):
    left, filled = sizes.copy(), np.zeros_like(wanted)
    for b, (price, size) in enumerate(zip(buys, wanted, strict=True)):
        for o in np.flatnonzero(offers <= price):
            taken = min(left[o], size - filled[b])
            left[o] -= taken
            filled[b] += taken
    return left, filled
