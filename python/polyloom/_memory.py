"""How arrays lie in memory, the host's or a device's."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def layout(
    address: int, extents: tuple[int, ...], scalar: np.dtype[Any], strides: tuple[int, ...] | None
) -> NDArray[Any]:
    """How an array lies in memory: a NumPy array that must not be looked into unless the memory is the host's."""
    if not math.prod(extents):
        return np.empty(extents, scalar)
    if strides is None:
        before, n_bytes = 0, math.prod(extents) * scalar.itemsize
    else:
        before, n_bytes = _around(extents, strides, scalar.itemsize)
    memory: Any = (ctypes.c_byte * n_bytes).from_address(address - before)
    return np.ndarray(extents, scalar, memory, before, strides)


def _around(extents: tuple[int, ...], strides: tuple[int, ...], size: int) -> tuple[int, int]:
    """How many bytes of an array with elements lie before the one with all indices 0, and how many it spans."""
    steps = [step * (extent - 1) for step, extent in zip(strides, extents, strict=True)]
    return -sum(min(step, 0) for step in steps), size + sum(abs(step) for step in steps)


def span(storage: NDArray[Any]) -> tuple[int, int]:
    """The lowest address of an array's elements, and bytes from there to the end of the last; of none, 0 and 0."""
    if not storage.size:
        return 0, 0
    if storage.flags.c_contiguous:
        return storage.ctypes.data, storage.nbytes
    before, n_bytes = _around(storage.shape, storage.strides, storage.itemsize)
    return storage.ctypes.data - before, n_bytes
