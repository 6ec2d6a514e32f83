"""Gradients: recording launches and playing them back.

The backward kernel of a kernel carries derivatives from what the kernel wrote to what it read. A `Tape` records
launches, keeps what arrays held where a later launch overwrites it, and runs the backward kernels in reverse order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from polyloom import _native, _scalars
from polyloom._arrays import array

__all__ = ["Tape"]

Storage = np.ndarray[Any, Any]


def _storage(value: Any) -> Storage | None:
    """How the elements of an argument lie, if it is an array."""
    if isinstance(value, array):
        return value._storage
    if isinstance(value, np.ndarray):
        return value
    return None


def _storages(kernel: _native.Kernel, args: Sequence[Any], device: str) -> list[Storage | None]:
    """How the elements of each argument lie, of launches that can be differentiated."""
    if device != "cpu" or any(isinstance(arg, array) and not arg.device.is_cpu for arg in args):
        raise ValueError(f"kernel '{kernel.key}': launches on the CPU alone are differentiated; say record_tape=False")
    storages = [_storage(arg) for arg in args]
    for arg, storage in zip(args, storages, strict=True):
        if storage is None and (hasattr(arg, "__dlpack__") or hasattr(arg, "__array_interface__")):
            given = type(arg).__name__
            if not isinstance(arg, np.generic):
                raise TypeError(f"kernel '{kernel.key}': gradients are of arrays of NumPy and polyloom, not of {given}")
    return storages


def _has_gradient(storage: Storage | None) -> bool:
    """Whether derivatives with respect to elements of this type make sense; `bfloat16` is no type of NumPy's own."""
    return storage is not None and (storage.dtype.kind == "f" or storage.dtype.name == "bfloat16")


def _root(storage: Storage) -> Storage:
    """The array that a view is of."""
    while isinstance(storage.base, np.ndarray):
        storage = storage.base
    return storage


def _same_place(storage: Storage, root: Storage, other: Storage) -> Any:
    """The view of `other`, which lies as `root` does, that `storage` is of `root`."""
    if storage is root:
        return other
    offset = storage.ctypes.data - root.ctypes.data
    dense = other if other.flags.c_contiguous else other.T
    memory: Any = dense.reshape(-1).view(np.uint8)
    return np.ndarray(storage.shape, storage.dtype, memory, offset, storage.strides)


def launch_backward(
    kernel: _native.Kernel, dim: Sequence[int], args: Sequence[Any], adjoints: Sequence[Any], device: str
) -> None:
    """Runs the backward kernel of a kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel that was launched.
    dim : sequence of int
        The extents of that launch.
    args : sequence
        Its arguments; arrays as they were before the launch.
    adjoints : sequence
        For each argument the array of its adjoint, or None. Of a scalar, an array of one element.
    device : str
        Where the launch was.
    """
    storages = _storages(kernel, args, device)
    pairs = zip(adjoints, storages, strict=True)
    active = [adjoint is not None or _has_gradient(storage) for adjoint, storage in pairs]
    backward = kernel.backward(active, len(dim))
    _check_aliases(kernel, storages, backward.writes)
    given: list[Any] = []
    added: list[tuple[Storage, Storage]] = []
    for index in backward.adjoints:
        adjoint, storage = _storage(adjoints[index]), storages[index]
        if adjoint is None:
            # Derivatives flow through arrays whose gradients nobody asks for.
            adjoint = np.zeros_like(storage)
        elif any(_overlap(adjoint, other) for other in given):
            # What the arrays have in common is of both: a part by itself is added in the end.
            part = np.zeros_like(adjoint)
            added.append((adjoint, part))
            adjoint = part
        given.append(adjoint)
    tapes: list[Any] = []
    if backward.sizes is not None:
        counting, n_sizes = backward.sizes
        sizes = np.zeros(n_sizes, np.int32)
        _native.launch(counting, dim, [*_copied(args, backward.writes), sizes], None, device)
        n_threads = math.prod(dim)
        for number, shape, dtype in backward.tapes:
            element = getattr(_scalars, "bool_" if dtype == "bool" else dtype).numpy
            tapes.append(np.empty((max(1, sizes[number]), n_threads, *shape), element))
        tapes.append(n_threads)
    _native.launch(backward.kernel, dim, [*_copied(args, backward.replayed), *given, *tapes], None, device)
    for adjoint, part in added:
        adjoint += part


def _overlap(a: Storage, b: Storage) -> bool:
    """Whether two arrays may have elements in common."""
    try:
        return np.shares_memory(a, b, max_work=1000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _check_aliases(kernel: _native.Kernel, storages: Sequence[Storage | None], writes: Sequence[bool]) -> None:
    """An array that is written through one parameter and read through another is not what differentiation assumes."""
    for index, written in enumerate(storages):
        if written is None or not writes[index]:
            continue
        for other, storage in enumerate(storages):
            if other != index and storage is not None and _overlap(written, storage):
                raise ValueError(
                    f"kernel '{kernel.key}' writes its argument {index}, which has elements in common with argument "
                    f"{other}: a launch that is differentiated takes a copy"
                )


def _copied(args: Sequence[Any], which: Sequence[bool]) -> list[Any]:
    """Arguments for a kernel that writes some of the arrays again."""
    return [arg.copy() if written else arg for arg, written in zip(args, which, strict=True)]


def launch_adjoint(
    kernel: _native.Kernel,
    dim: Sequence[int],
    args: Sequence[Any],
    adj_inputs: Sequence[Any],
    adj_outputs: Sequence[Any],
    device: str,
) -> None:
    """What `launch(…, adjoint=True)` does."""
    adjoints = [*adj_inputs, *adj_outputs]
    if len(adjoints) != len(args):
        message = f"adj_inputs and adj_outputs are one for each argument, or None: {len(args)}, not {len(adjoints)}"
        raise ValueError(message)
    for arg, adjoint in zip(args, adjoints, strict=True):
        mine, other = _storage(arg), _storage(adjoint)
        if mine is not None and other is not None and (mine.shape, mine.dtype) != (other.shape, other.dtype):
            raise ValueError(
                f"the gradient of an array of shape {mine.shape} and type {mine.dtype} is an array like it, not one of "
                f"shape {other.shape} and type {other.dtype}"
            )
    launch_backward(kernel, dim, args, adjoints, device)


@dataclass
class _Recorded:
    """A launch, with the versions of its arrays."""

    kernel: _native.Kernel
    dim: Sequence[int]
    args: Sequence[Any]
    versions: Sequence[int | None]
    device: str


class Gradients(Mapping[Any, Any]):
    """The gradients of a tape, by array: those of the package, of NumPy, and views of them."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getitem__(self, key: Any) -> Any:
        storage = _storage(key)
        found = None if storage is None else self._tape._gradient_of(storage)
        if found is None:
            raise KeyError("the tape has recorded no launch with this array")
        return key._view(found, key.dtype) if isinstance(key, array) else found

    def __iter__(self) -> Iterator[Any]:
        return iter([root for root, _ in self._tape._gradients.values()])

    def __len__(self) -> int:
        return len(self._tape._gradients)


class Tape:
    """Records launches and carries derivatives back through them.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> @loom.kernel
    ... def square(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     y[i] = x[i] * x[i]
    >>> x = np.array([1.0, 2.0, 3.0], np.float32)
    >>> y = np.zeros(3, np.float32)
    >>> with loom.Tape() as tape:
    ...     loom.launch(square, 3, [x], [y])
    >>> tape.backward(grads=[(y, np.ones(3, np.float32))])
    >>> tape.gradients[x]
    array([2., 4., 6.], dtype=float32)
    """

    def __init__(self) -> None:
        self._launches: list[_Recorded] = []
        # By the `id` of an array that is no view: the array, and how often launches have written it.
        self._roots: dict[int, Storage] = {}
        self._versions: dict[int, int] = {}
        # Which versions the way back asks for, and those of them that have been overwritten.
        self._needed: set[tuple[int, int]] = set()
        self._saved: dict[tuple[int, int], Storage] = {}
        self._gradients: dict[int, tuple[Any, Storage]] = {}
        self._outer: Tape | None = None

    @property
    def gradients(self) -> Gradients:
        """The gradients of the arrays that were launched with."""
        return Gradients(self)

    def __enter__(self) -> Tape:
        self._outer = _set_active(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _set_active(self._outer)

    def record_launch(self, kernel: Any, dim: Sequence[int], args: Sequence[Any], device: str = "cpu") -> None:
        """Notes a launch that is about to run, and keeps what it is going to overwrite and the way back needs.

        Parameters
        ----------
        kernel : Kernel
            What runs.
        dim : sequence of int
            The extents of the launch.
        args : sequence
            The kernel's arguments.
        """
        storages = _storages(kernel, args, device)
        backward = kernel.backward([_has_gradient(storage) for storage in storages], len(dim))
        _check_aliases(kernel, storages, backward.writes)
        versions: list[int | None] = [None] * len(args)
        written: dict[int, Storage] = {}
        for index, storage in enumerate(storages):
            if storage is None:
                continue
            root = _root(storage)
            version = versions[index] = self._versions.setdefault(id(root), 0)
            self._roots[id(root)] = root
            if backward.reads[index]:
                self._needed.add((id(root), version))
            if backward.writes[index]:
                written[id(root)] = root
        for key, root in written.items():
            version = self._versions[key]
            if (key, version) in self._needed:
                self._saved[key, version] = root.copy(order="K")
            self._versions[key] = version + 1
        self._launches.append(_Recorded(kernel, tuple(dim), tuple(args), versions, device))

    def backward(self, loss: Any = None, grads: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> None:
        """Plays the launches back, the last first, and adds to `gradients`.

        Parameters
        ----------
        loss : array, optional
            An array of one element: its gradient begins at one.
        grads : mapping or sequence of pairs, optional
            Arrays, and the gradients that they begin with.
        """
        seeds: list[tuple[Any, Any]] = list(grads.items() if isinstance(grads, Mapping) else grads)
        if loss is not None:
            storage = _storage(loss)
            if storage is None or storage.size != 1:
                raise ValueError("loss is an array of one element; for larger arrays, give grads=[(array, gradient)]")
            seeds.append((loss, 1))
        if not seeds:
            raise ValueError("backward() needs a loss, or grads of what was computed")
        for key, value in seeds:
            storage = _storage(key)
            gradient = None if storage is None else self._gradient_of(storage, make=True)
            if gradient is None:
                raise ValueError("gradients are of arrays of floating-point numbers")
            gradient[...] = value.numpy() if isinstance(value, array) else value
        for launch in reversed(self._launches):
            self._play_back(launch)

    def _play_back(self, launch: _Recorded) -> None:
        args: list[Any] = []
        adjoints: list[Any] = []
        for arg, version in zip(launch.args, launch.versions, strict=True):
            storage = _storage(arg)
            if storage is None or version is None:
                args.append(arg)
                adjoints.append(None)
                continue
            root = _root(storage)
            held = self._saved.get((id(root), version))
            args.append(storage if held is None else _same_place(storage, root, held))
            adjoints.append(self._gradient_of(storage, make=True))
        launch_backward(launch.kernel, launch.dim, args, adjoints, launch.device)

    def _gradient_of(self, storage: Storage, make: bool = False) -> Any:
        if not _has_gradient(storage):
            return None
        root = _root(storage)
        known = self._gradients.get(id(root))
        if known is None:
            if not make:
                return None
            known = self._gradients[id(root)] = (root, np.zeros_like(root))
        return _same_place(storage, root, known[1])

    def zero(self) -> None:
        """Sets all gradients to zero."""
        for _, gradient in self._gradients.values():
            gradient.fill(0)

    def reset(self) -> None:
        """Forgets the launches and what was kept for them, and sets all gradients to zero."""
        self._launches.clear()
        self._versions.clear()
        self._roots.clear()
        self._needed.clear()
        self._saved.clear()
        self.zero()


_active: Tape | None = None


def _set_active(tape: Tape | None) -> Tape | None:
    """Makes `tape` the one that launches are recorded by, and gives the one before."""
    global _active
    before, _active = _active, tape
    _native.set_recording(tape is not None)
    return before


def record(kernel: Any, dim: Sequence[int], args: Sequence[Any], device: str) -> None:
    """Called by a launch while a tape is active."""
    if _active is not None:
        _active.record_launch(kernel, dim, args, device)
