"""How arrays lie in memory, the host's or a device's."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from polyloom import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fewer bytes are not worth a call that looks for other threads.
_LEAST_SHARED = 1 << 20


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


def clear(storage: NDArray[Any]) -> None:
    """Sets the elements of an array in the host's memory to 0: where they are many, by all threads."""
    if storage.nbytes >= _LEAST_SHARED and storage.flags.c_contiguous and storage.flags.writeable:
        _native.clear_memory(storage)
    else:
        storage[...] = 0
