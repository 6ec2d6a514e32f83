"""How arrays lie in memory, the host's or a device's."""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from polyloom import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fewer bytes are not worth a call that looks for other threads.
_LEAST_SHARED = 1 << 20


# NumPy arrays of the package's own that nobody else has been given, nor a view of them, by identity: what is in their
# memory, nothing but the package changes.
_unseen: weakref.WeakValueDictionary[int, NDArray[Any]] = weakref.WeakValueDictionary()


# The types of elements that have been asked for, and whether there are derivatives with respect to such.
_floats: dict[np.dtype[Any], bool] = {}


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether derivatives with respect to elements of this type, or to some of their fields, make sense."""
    known = _floats.get(dtype)
    if known is not None:
        return known
    if dtype.names is not None:
        found = any(is_float(dtype[name].base) for name in dtype.names)
    else:
        # `bfloat16` is no type of NumPy's own.
        found = dtype.kind == "f" or dtype.name == "bfloat16"
    _floats[dtype] = found
    return found


def own(storage: NDArray[Any]) -> NDArray[Any]:
    """Notes that a NumPy array has just been made and that nobody else has it, and gives it."""
    root = root_of(storage)
    if root.flags.owndata:
        _unseen[id(root)] = root
    return storage


def is_unseen(root: NDArray[Any]) -> bool:
    """Whether nobody but the package has been given this NumPy array or a view of it."""
    return _unseen.get(id(root)) is root


def hand_out(storage: NDArray[Any]) -> None:
    """Notes that somebody is given a NumPy array, or may write to its memory by other means from now on."""
    root = root_of(storage)
    if _unseen.pop(id(root), None) is not None and _native.recording_level():
        from polyloom import _tape

        _tape.handed_out(root)


def root_of(storage: NDArray[Any]) -> NDArray[Any]:
    """The NumPy array of which this one is a view, of a view …; itself if it is of none."""
    while isinstance(storage.base, np.ndarray):
        storage = storage.base
    return storage


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
