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
        n_bytes = math.prod(extents) * scalar.itemsize
    else:
        n_bytes = scalar.itemsize + sum(step * (extent - 1) for step, extent in zip(strides, extents, strict=True))
    memory: Any = (ctypes.c_byte * n_bytes).from_address(address)
    return np.ndarray(extents, scalar, memory, 0, strides)


def reach(storage: NDArray[Any]) -> int:
    """Bytes from an array's first to its last, of one without negative strides."""
    steps = zip(storage.strides, storage.shape, strict=True)
    return storage.itemsize + sum(step * (extent - 1) for step, extent in steps) if storage.size else 0
