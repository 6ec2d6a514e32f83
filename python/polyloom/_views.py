"""Arrays as gradients see them: elements in memory, whatever library they are of and whatever device they are on.

An array of vectors is one of their components here, an array of structs has one for each field, and a gradient lies in
its memory as the array does in its own, so that a part of an array has a gradient which is a part of the array's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._arrays import array, from_cuda_interface, shared
from polyloom._memory import clear, layout

Storage = np.ndarray[Any, Any]

# Buffers begin at addresses that leave the same rest as those of what they lie beside: kernels ask no more.
ALIGNMENT = 64


class View(_native.ViewBase):
    """Where the elements of an array are.

    Attributes
    ----------
    storage : numpy.ndarray
        How they lie; on a device there is nothing behind it.
    memory : DeviceMemory, optional
        The memory of a device that they are in.
    lo, hi : int
        The address of the first byte, and of the one past the last.
    device : str
        The name of the device.
    key : tuple
        What two views of the same elements have in common.
    is_float : bool
        Whether there are derivatives with respect to the elements.
    """

    __slots__ = ()

    def leaves(self) -> list[View]:
        """An array for each field of its structs that is no struct itself; the array alone if it has none."""
        if self.storage.dtype.names is None:
            return [self]
        fields = [View(self.storage[name], self.memory) for name in self.storage.dtype.names]
        return [leaf for field in fields for leaf in field.leaves()]

    def field(self, path: Sequence[str]) -> View:
        """Of structs the field that a path of names leads to; the array itself for an empty one."""
        if not path:
            return self
        storage = self.storage
        for name in path:
            storage = storage[name]
        return View(storage, self.memory)

    def numbers(self) -> list[View]:
        """Those of its leaves that there are derivatives with respect to."""
        return [leaf for leaf in self.leaves() if leaf.is_float]

    @property
    def is_dense(self) -> bool:
        """Whether the elements follow each other in memory, row by row."""
        return self.storage.flags.c_contiguous

    @property
    def coincides(self) -> bool:
        """Whether elements at different indices may be the same memory, as where a stride is zero."""
        storage = self.storage
        if storage.flags.c_contiguous:
            return False
        axes = [(abs(step), n) for step, n in zip(storage.strides, storage.shape, strict=True) if n > 1]
        reach = storage.itemsize
        for step, n in sorted(axes):
            if step < reach:
                return storage.size > 0
            reach += step * (n - 1)
        return False

    def argument(self) -> Any:
        """The array as launches take it."""
        return self.storage if self.memory is None else _native.ArrayBase(self.storage, None, self.memory)

    def overlaps(self, other: View) -> bool:
        """Whether two arrays may have elements in common."""
        if self.lo >= other.hi or other.lo >= self.hi or self.device != other.device:
            return False
        try:
            return np.shares_memory(self.storage, other.storage, max_work=1000)  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return True

    def covers(self, other: View) -> bool:
        """Whether all bytes of the other array are seen to be of this one."""
        if self.is_dense and self.lo <= other.lo and other.hi <= self.hi:
            return self.device == other.device
        return self.key == other.key

    def read(self) -> Storage:
        """The elements where the host can read them, perhaps in their own memory."""
        return self.storage if self.memory is None else self.memory.read(self.storage)

    def copy(self) -> View:
        """A copy on the same device."""
        if self.memory is None:
            return View(self.storage.copy(order="K"))
        made = empty(self.storage.shape, self.storage.dtype, self.memory.device)
        made.assign(self)
        return made

    def assign(self, other: View) -> None:
        """Copies the elements of another array of the same shape, which are brought to this one's type."""
        if self.memory is None:
            # An array that came through DLPack may be read-only to NumPy and none the less be written.
            np.copyto(_writable(self.storage), other.read(), casting="unsafe")
        elif other.memory is not None and self.device == other.device and self.storage.dtype == other.storage.dtype:
            if self.storage.size:
                self.memory.copy_from(self.storage, other.memory, other.storage)
        else:
            self.write(other.read())

    def write(self, values: Any) -> None:
        """Sets the elements to those of an array-like that can be broadcast to the shape."""
        if self.memory is None:
            np.copyto(_writable(self.storage), values, casting="unsafe")
        elif self.storage.size:
            given = np.empty(self.storage.shape, self.storage.dtype)
            np.copyto(given, values, casting="unsafe")
            self.memory.write(self.storage, given)

    def zero(self) -> None:
        """Sets the elements to 0."""
        if self.memory is None:
            clear(_writable(self.storage))
        elif self.storage.size:
            self.memory.fill(self.storage, np.zeros((), self.storage.dtype))

    def add(self, other: View) -> None:
        """Adds the elements of another array of the same shape; of structs, the numbers in them. To an element that is
        at several indices all that is there is added."""
        if not self.storage.size:
            return
        if self.storage.dtype.names is not None:
            for number, term in zip(self.numbers(), other.numbers(), strict=True):
                number.add(term)
            return
        both = (self, other)
        if self.memory is not None and self.device == other.device and self.storage.dtype == other.storage.dtype:
            if all(each.is_dense for each in both):
                flat = [View(each.storage.reshape(-1), each.memory).argument() for each in both]
                _native.launch(_add_kernel(), self.storage.size, flat, device=self.device, record_tape=False)
                return
        self.add_values(other.read())

    def add_beside(self, other: View) -> None:
        """Adds the elements of an array that lies in its memory as this one does, each once."""
        if not self.coincides:
            self.add(other)
            return
        for number, term in zip(self.numbers(), other.numbers(), strict=True):
            number.write(number.read() + term.read())

    def add_values(self, values: Any) -> None:
        """Adds an array-like that can be broadcast to the shape, at each index."""
        given = np.asarray(values).astype(self.storage.dtype, copy=False)
        if not self.coincides:
            if self.memory is None:
                to = _writable(self.storage)
                np.add(to, given, out=to)
            else:
                self.write(self.read() + given)
            return
        # On the host every element has its place, whether it is at one index or at several.
        here = self if self.memory is None else Beside(self.lo, self.hi, "cpu").place(self)
        if here is not self:
            here.assign(self)
        indices = np.indices(self.storage.shape, sparse=True)
        np.add.at(_writable(here.storage), tuple(indices), np.broadcast_to(given, self.storage.shape))
        if here is not self:
            self.assign(here)


def _writable(storage: Storage) -> Storage:
    """The array itself, or where NumPy takes it for read-only, another over its memory."""
    if storage.flags.writeable:
        return storage
    return layout(storage.ctypes.data, storage.shape, storage.dtype, storage.strides)


_added: list[Any] = []


def _add_kernel() -> Any:
    """The kernel that adds one array to another, which is compiled when it is needed."""
    if not _added:
        from polyloom._builtins import tid
        from polyloom._kernel import kernel

        @kernel
        def add(a: array(dtype=Any), b: array(dtype=Any)):  # type: ignore[no-untyped-def, valid-type]
            i = tid()
            a[i] = a[i] + b[i]

        _added.append(add)
    return _added[0]


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], device: str) -> View:
    """An uninitialised array."""
    if device == "cpu":
        return View(np.empty(shape, dtype))
    n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = _native.DeviceMemory(device, n_bytes)
    return View(layout(memory.address, shape, dtype, None), memory)


def zeros_like(view: View) -> View:
    """An array of zeros, dense, on the same device."""
    if view.memory is None:
        return View(np.zeros(view.storage.shape, view.storage.dtype))
    made = empty(view.storage.shape, view.storage.dtype, view.device)
    if made.memory is not None:
        made.memory.clear()
    return made


def view_of(value: Any, device: str = "cpu") -> View | None:
    """Where the elements of what a launch on a device takes for an array are; None for what is no array."""
    if isinstance(value, _native.ArrayBase):
        return View(value._storage, value._memory)
    if isinstance(value, np.ndarray):
        return View(value)
    if value is None or isinstance(value, np.generic):
        return None
    if device.startswith("cuda:") and hasattr(value, "__cuda_array_interface__"):
        return view_of(from_cuda_interface(value))
    if hasattr(value, "__array_interface__"):
        return View(np.asarray(value))
    if hasattr(value, "__dlpack__"):
        return View(shared(value))
    return None


class _Bytes:
    """The bytes of an array in the host's memory, which NumPy's arrays over them keep."""

    def __init__(self, view: View) -> None:
        self.kept = view.storage
        self.__array_interface__ = {
            "data": (view.lo, False),
            "shape": (view.hi - view.lo,),
            "typestr": "|u1",
            "version": 3,
        }


class Beside:
    """Memory beside another range of addresses: what lies in one has its place in the other."""

    def __init__(self, lo: int, hi: int, device: str, zero: bool = True) -> None:
        n_bytes = hi - lo + ALIGNMENT
        self._lo = lo
        self.n_bytes = hi - lo
        self._memory: _native.DeviceMemory | None = None
        if device == "cpu":
            self._raw: Any = (np.zeros if zero else np.empty)(n_bytes, np.uint8)
            self._raw_address = self._first = _native.address_of(self._raw)
        else:
            self._memory = _native.DeviceMemory(device, n_bytes)
            self._first = self._memory.address
            if zero:
                self._memory.clear()
        self._first += (lo - self._first) % ALIGNMENT

    @classmethod
    def over(cls, view: View, lo: int) -> Beside:
        """The memory of an array as that beside what begins at an address."""
        self = cls.__new__(cls)
        self._lo, self._memory, self._first, self.n_bytes = lo, view.memory, view.lo, view.hi - view.lo
        if view.memory is None:
            self._raw = np.asarray(_Bytes(view)) if view.storage.size else view.storage
            self._raw_address = _native.address_of(self._raw)
        return self

    def place(self, view: View) -> View:
        """The array that lies here as a view does there."""
        return self._at(view.storage, view.storage.dtype)

    def _at(self, storage: Storage, dtype: np.dtype[Any]) -> View:
        if not storage.size:
            return View(np.empty(storage.shape, dtype))
        address = self._first + _native.address_of(storage) - self._lo
        if self._memory is not None:
            return View(layout(address, storage.shape, dtype, storage.strides), self._memory)
        offset = address - self._raw_address
        return View(np.ndarray(storage.shape, dtype, self._raw, offset, storage.strides))

    def clear(self) -> None:
        """Sets all bytes to 0."""
        if self._memory is None:
            clear(self._raw)
        else:
            self._memory.clear()

    def elements(self, dtype: np.dtype[Any], phase: int, lo: int, hi: int) -> View:
        """What lies here as the numbers there do between two addresses, as one array; the first number is at an address
        that leaves the rest `phase`."""
        skipped = lo - self._lo + (phase - lo) % dtype.itemsize
        n = (hi - self._lo - skipped) // dtype.itemsize
        first = self._first + skipped
        if self._memory is not None:
            return View(layout(first, (n,), dtype, None), self._memory)
        return View(np.ndarray((n,), dtype, self._raw, first - self._raw_address))
