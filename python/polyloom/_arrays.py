"""Arrays.

`array` is both the annotation of a kernel parameter (`array(dtype=float32, ndim=2)`) and, given data or a shape, an
array in memory: a thin owner of a NumPy array. An array of vectors or matrices owns an array of their components, the
last axes of which are an element's.

The file is long because `array` is one class, whose methods reach into its storage; what needs no storage is in
`_host_methods.py`.

Of an array in a device's memory, the NumPy array (`_storage`) only says how the elements lie there: there is nothing
behind it that the host could read. Views are made of it as on the host; elements go through `_fetched` and `_put`.

It is one file because it is one class: its methods need its private parts, and what does not is in modules beside it.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import numpy as np

from polyloom import _native
from polyloom._absent import Absent
from polyloom._annotations import ArrayAnnotation, ReferenceAnnotation, name_of
from polyloom._composites import Composite, CompositeClass, GenericComposite, is_open
from polyloom._devices import Device, DeviceLike, get_device
from polyloom._errors import CompileError, DeviceError
from polyloom._host_methods import HostMethods, check_unmasked, operands_text
from polyloom._memory import clear, hand_out, layout, own
from polyloom._scalars import (
    DType,
    DTypeLike,
    TypedConstant,
    bfloat16,
    bool_,
    dtype_of,
    float32,
    in_numpy,
    int32,
    readable,
    stored,
)
from polyloom._streams import Stream, StreamScope, get_stream
from polyloom._structs import StructClass, arrays_of, of_record, records

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["array", "ref"]

# What an array's elements are: a scalar type, a class such as `vec3`, or a struct.
# The level of recording at which a graph takes assignments in place of doing them.
CAPTURED = 3

ElementType = DType | CompositeClass | StructClass
ElementTypeLike = DTypeLike | CompositeClass | StructClass


def _element_type(value: ElementTypeLike) -> ElementType:
    if isinstance(value, (CompositeClass, StructClass)) and hasattr(value, "_type"):
        return value
    return dtype_of(value)


def _scalar(dtype: ElementType) -> DType:
    """The type of what is stored, of an array that is not of structs."""
    if isinstance(dtype, StructClass):
        raise TypeError(f"{dtype.__name__} is a struct, which has no components")
    return dtype._wp_scalar_type_ if isinstance(dtype, CompositeClass) else dtype


def _scalar_name(dtype: ElementType) -> str:
    return "" if isinstance(dtype, StructClass) else _scalar(dtype).name


def _numpy(dtype: ElementType) -> np.dtype[Any]:
    """NumPy's type of what is stored."""
    return dtype.numpy_dtype() if isinstance(dtype, StructClass) else _scalar(dtype).numpy


def _inner(dtype: ElementType) -> tuple[int, ...]:
    """The extents of an element's components."""
    return dtype._shape_ if isinstance(dtype, CompositeClass) else ()


def _elements(value: Any, dtype: ElementType) -> Any:
    """`value`, an element or array-like, as NumPy can store it in an array of `dtype`."""
    check_unmasked(value, "assigning to elements of an array")
    if isinstance(dtype, StructClass):
        return records(value._elements() if isinstance(value, array) else value, dtype)
    given = None
    if isinstance(value, array):
        value, given = value._elements(), _scalar(value.dtype)
    elif isinstance(value, TypedConstant):
        value = in_numpy(value)
    elif isinstance(value, Composite):
        given = type(value)._wp_scalar_type_
        value = np.asarray(value)
    inner = _inner(dtype)
    if inner:
        value = np.asarray(value)
        if len(inner) > 1 and value.shape == (math.prod(inner),):
            # The components of one matrix, row by row.
            value = value.reshape(inner)
        if value.ndim and value.shape[-len(inner) :] != inner:
            raise ValueError(f"values of shape {value.shape} are no elements of type {name_of(dtype)}")
    return stored(value, given, _scalar(dtype))


def _elements_for(storage: NDArray[Any], value: Any, dtype: ElementType) -> Any:
    """`_elements` to be stored in `storage`, with which they share no memory: NumPy copies in any order."""
    values = _elements(value, dtype)
    return values.copy() if isinstance(values, np.ndarray) and np.may_share_memory(values, storage) else values


def _elementwise(storage: NDArray[Any], dtype: ElementType) -> NDArray[Any]:
    """The components of an array's elements, whose last axes are to be those of `dtype`."""
    inner = _inner(dtype)
    if not inner:
        return storage
    rank, n = len(inner), int(np.prod(inner))
    if storage.ndim > rank and storage.shape[-rank:] == inner:
        return storage
    if storage.shape == inner or storage.ndim == 1 and len(storage) % n == 0:
        return storage.reshape(-1, *inner)
    if rank > 1 and storage.shape[-1] == n:
        return storage.reshape(*storage.shape[:-1], *inner)
    if rank == 1 and storage.ndim > 1 and storage.shape[-2:] == (n, 1):
        # Columns, which are vectors.
        return storage.reshape(*storage.shape[:-1])
    if rank == 1 and storage.ndim > 1 and storage.shape[-1] % n == 0:
        # Several elements in each row.
        return storage.reshape(*storage.shape[:-1], -1, *inner)
    message = f"data of shape {storage.shape} has no elements of type {name_of(dtype)}: the last axes must be {inner}"
    raise ValueError(message)


def _elementwise_axes(storage: NDArray[Any], dtype: ElementType) -> NDArray[Any]:
    """The numbers of an array, whose last axes are those of an element of `dtype`."""
    inner = _inner(dtype)
    if inner and (storage.ndim <= len(inner) or storage.shape[-len(inner) :] != inner):
        raise ValueError(
            f"an array of shape {storage.shape} is not seen as {name_of(dtype)}: last axes must be {inner}"
        )
    return storage


# What of an index chooses several elements along an axis.
_INDEX_ARRAYS: tuple[type, ...]


def _none_of(part: Any) -> Any:
    return None if part is None else 0


def _ellipsis_of(part: Any) -> Any:
    return Ellipsis if part is Ellipsis else 0


def _checked_indices(part: Any, extent: int) -> NDArray[np.int32]:
    """Indices along an axis of this extent, counted from its start."""
    check_unmasked(part, "indexing an array")
    given = np.asarray(part._elements() if isinstance(part, array) else part)
    if given.dtype.kind == "b" and given.shape == (extent,):
        given = np.flatnonzero(given)
    if given.dtype.kind not in "iu" and given.size:
        what = f"{given.dtype}"
        if given.dtype.kind == "b":
            what = f"bools of shape {given.shape}: a mask has one for each of the {extent} elements of its axis"
        raise IndexError(f"the indices of elements are integers, not {what}")
    if given.ndim != 1:
        raise IndexError(f"indices along an axis are an array of one dimension, not of {given.ndim}")
    given = given.astype(np.int64)
    outside = given[(given < -extent) | (given >= extent)]
    if outside.size:
        raise IndexError(f"index {outside[0]} is out of bounds for an axis of extent {extent}")
    return np.where(given < 0, given + extent, given).astype(np.int32)


class ref:  # noqa: N801 - the kernel language's name
    """`ref[T]` annotates a parameter of a function that changes the caller's variable.

    Examples
    --------
    >>> import polyloom as loom
    >>> @loom.func
    ... def double(x: loom.ref[float]):
    ...     x *= 2.0
    >>> @loom.kernel
    ... def double_all(a: loom.array(dtype=float)):
    ...     double(a[loom.tid()])
    >>> a = loom.array([1.0, 2.0], dtype=float)
    >>> loom.launch(double_all, a.shape, [a])
    >>> a
    array([2., 4.], dtype=float32)
    """

    def __class_getitem__(cls, dtype: Any) -> ReferenceAnnotation:
        return ReferenceAnnotation(dtype)


_SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "neg": "-",
}


def _power(base: array, exponent: int) -> array:
    """A power of integers, which is a product."""
    result: array | None = None
    while exponent:
        if exponent & 1:
            result = base.copy() if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return base._new(np.ones_like(base._elements()), base.dtype) if result is None else result


def _operator(builtin: str, swapped: bool = False, in_place: bool = False) -> Callable[..., Any]:
    """An operator of arrays: the builtin of this name for each element, as kernels compute it."""

    def operate(self: array, *others: Any) -> Any:
        from polyloom import _builtins
        from polyloom._map import map

        if not all(
            isinstance(each, (int, float, np.generic, array, np.ndarray, Composite, TypedConstant)) for each in others
        ):
            return NotImplemented
        if _scalar(self.dtype).numpy.kind == "f":
            others = tuple(float(each) if type(each) is int else each for each in others)
        operands = (*others, self) if swapped else (self, *others)
        if builtin == "pow" and not swapped and type(others[0]) is int and others[0] >= 0:
            power = _power(self, others[0])
            return self.assign(power) if in_place else power
        try:
            return map(getattr(_builtins, builtin), *operands, out=self if in_place else None)
        except CompileError as error:
            given = operands_text(_SYMBOLS[builtin], operands)
            types = {getattr(each, "dtype", type(each)) for each in operands}
            is_mixed = len(types) > 1
            reason = "the types of operands are not mixed" if is_mixed else "there is no such operation"
            raise TypeError(
                f"{given}: {reason}; convert {'one' if is_mixed else 'it'} with .astype(float), say"
            ) from error

    return operate


class array(HostMethods):  # noqa: N801 - the kernel language's name
    """An array in memory, or the annotation of an array parameter.

    Parameters
    ----------
    data : array_like, optional
        The elements: nested sequences, a NumPy array (shared, not copied, when it has the right type and `copy` is
        false), or anything with `__array_interface__` or DLPack.
    dtype : scalar type or class such as `vec3`, optional
        Element type; that of `data` by default. With vectors or matrices the last axes of `data` are the components of
        an element, and extents and number of dimensions go without them.
    shape : int or tuple of int, optional
        Extents of an uninitialised array, or to bring `data` into.
    ndim : int, optional
        Number of dimensions, 1 to 4, of an annotation; with `data`, that it must have.
    copy : bool
        Whether to copy `data` even when it could be shared.
    device : str, optional
        Where the elements are: `"cpu"`, `"sim:0"` or `"cuda:0"`; by default where those of `data` are or, if it is no
        array of the package's, the device that `set_device` names.
    requires_grad : bool
        Whether the array has an array `grad` like it, to which `Tape.backward` adds.
    pinned : bool
        Whether memory of an array on the CPU is pinned, so that copies between it and a GPU go on while the host does
        something else. Without a GPU it is as other memory.
    ptr : int, optional
        Address of the first element of memory of `device` to see as an array of `shape`; the memory must outlive the
        array.
    strides : int or tuple of int, optional
        With `ptr`, distances in bytes between neighbours along each axis.
    capacity : int, optional
        With `ptr`, the bytes that are there, which must be enough.
    retain_grad : bool
        Whether `grad` is kept where the way back of a tape goes through what computed the array.

    Examples
    --------
    >>> import polyloom as loom
    >>> a = loom.array([1.0, 2.0, 3.0], dtype=float)
    >>> a.shape, a.dtype
    ((3,), polyloom.float32)
    >>> a[1:].numpy()
    array([2., 3.], dtype=float32)
    >>> points = loom.array([[0, 0, 1], [2, 0, 0]], dtype=loom.vec3)
    >>> points.shape, points[1], points.numpy().shape
    ((2,), vec3([2.0, 0.0, 0.0]), (2, 3))
    """

    dtype: ElementType
    # Memory that the host shares with a GPU: pinned, or managed.
    _shared: _native.HostMemory | None = None
    # Of an array of structs, the views of their fields that launches are given, once one has made them.
    _leaves: list[Any] | None
    # The arrays that structs have brought, by where they are, so that they stay alive; of an array that is no view.
    _held: dict[Any, Any] | None = None

    def __new__(
        cls,
        data: Any = None,
        dtype: ElementTypeLike | None = None,
        shape: int | Sequence[int] | None = None,
        ndim: int | None = None,
        copy: bool = True,
        device: DeviceLike = None,
        requires_grad: bool = False,
        pinned: bool = False,
        ptr: int | None = None,
        strides: int | Sequence[int] | None = None,
        capacity: int | None = None,
        retain_grad: bool = False,
    ) -> Any:
        if ptr is not None:
            if data is not None or shape is None:
                raise TypeError("array() over memory at an address takes a shape and no data")
            element = _element_type(float32 if dtype is None else dtype)
            made = _at(ptr, _extents(shape), element, strides, get_device(device))
            if capacity is not None and capacity < made.capacity:
                raise ValueError(f"array() of {made.capacity} bytes over {capacity} bytes of memory")
            made.requires_grad = requires_grad
            return made
        if strides is not None or capacity is not None:
            raise TypeError("array() takes strides and a capacity of memory at an address, ptr, alone")
        if dtype is Any and data is not None:
            dtype = None
        is_on_host = hasattr(data, "__array_interface__") and get_device(device).is_cpu
        if not isinstance(data, array) and hasattr(data, "__cuda_array_interface__") and not is_on_host:
            data = from_cuda_interface(data)
        if device is None and isinstance(data, array):
            device = data.device
        where = get_device(device)
        if data is None and shape is not None:
            made = uninitialised(shape, _element_type(float32 if dtype is None else dtype), where, pinned)
        elif isinstance(data, array) and where == data.device and not where.is_cpu and not copy:
            made = data._seen_as(dtype, shape, ndim)
        else:
            made = cls._made(data, dtype, shape, ndim, copy)
            is_recorded = False
            if _native.recording_level() == 2 and isinstance(made, array):
                from polyloom import _tape

                is_recorded = _tape.copied(made, data)
            if isinstance(made, array) and where != made.device:
                made = made._copied_to(where, is_recorded=is_recorded or isinstance(data, array))
            elif pinned and isinstance(made, array) and copy and where.is_cpu:
                made = made._in_pinned_memory()
        if requires_grad and isinstance(made, array):
            made.requires_grad = True
        if retain_grad and isinstance(made, array):
            made.retain_grad = True
        return made

    @classmethod
    def _made(
        cls,
        data: Any,
        dtype: ElementTypeLike | None,
        shape: int | Sequence[int] | None,
        ndim: int | None,
        copy: bool,
    ) -> Any:
        if shape is None and (is_open(data) or isinstance(data, (type, DType, GenericComposite))):
            # `array(float)` and `array(float, 2)`, as annotations may be written.
            if isinstance(dtype, int):
                dtype, ndim = None, dtype
            if dtype is not None:
                raise TypeError("array() has been given two element types")
            data, dtype = None, data
        if data is None and shape is None:
            if dtype is None:
                raise TypeError("array() needs data, a shape, or, as an annotation, a dtype")
            n = 1 if ndim is None else ndim
            if not 1 <= n <= 4:
                raise ValueError(f"an array has 1 to 4 dimensions, not {n}")
            if isinstance(dtype, Absent):
                return Absent(dtype.__name__, str(dtype.__doc__))
            if not is_open(dtype) and not isinstance(dtype, GenericComposite):
                dtype = _element_type(dtype)
            return ArrayAnnotation(dtype, n)
        source = data
        check_unmasked(source, "array()")
        is_foreign = not isinstance(source, array) and not hasattr(source, "__array_interface__")
        if is_foreign and hasattr(source, "__dlpack__"):
            if dtype is None and is_bfloat16(source):
                dtype = bfloat16
            source = shared(source)
        if dtype is None and isinstance(getattr(source, "dtype", None), (DType, CompositeClass, StructClass)):
            # Of an array, and of an indexed one.
            dtype = source.dtype
        if dtype is None and not hasattr(source, "dtype"):
            # Python numbers mean float32 and int32, as in kernels.
            guess = np.asarray(source).dtype
            dtype = {"f": float32, "i": int32, "b": bool_}.get(guess.kind)
        wanted = None if dtype is None else _element_type(dtype)
        if isinstance(wanted, StructClass):
            source = records(source._elements() if isinstance(source, array) else source, wanted)
        elif wanted is not None:
            given = _scalar(source.dtype) if isinstance(source, array) else None
            source = stored(source._elements() if isinstance(source, array) else source, given, _scalar(wanted))
        element = None if wanted is None else _numpy(wanted)
        storage = own(np.array(source, element)) if copy else np.asarray(source, element)
        inner: tuple[int, ...] = ()
        if wanted is not None:
            inner = _inner(wanted)
            storage = _elementwise(storage, wanted)
        if shape is not None:
            shaped = storage.reshape(_extents(shape) + inner)
            if not copy and storage.size and not np.may_share_memory(shaped, storage):
                raise ValueError(f"data of shape {storage.shape} cannot be seen as {shape} without a copy")
            storage = shaped
        if ndim not in (None, storage.ndim - len(inner)):
            raise ValueError(f"data of shape {storage.shape} has {storage.ndim - len(inner)} dimensions, not {ndim}")
        made = cls._wrap(storage, wanted)
        made._hold(data)
        return made

    def __class_getitem__(cls, key: Any) -> Any:
        """The annotation `array[float]` or `array[float, 2]`."""
        dtype, ndim = key if isinstance(key, tuple) else (key, 1)
        if get_origin(ndim) is Literal:  # type: ignore[comparison-overlap]
            (ndim,) = get_args(ndim)
        if isinstance(dtype, type) and not isinstance(dtype, (CompositeClass, StructClass)):
            try:
                dtype_of(dtype)
            except TypeError:
                # What uses the annotation says so: a module with one that nothing uses is imported.
                return ArrayAnnotation(dtype, ndim)
        return cls(dtype=dtype, ndim=ndim)

    @classmethod
    def _wrap(
        cls, storage: NDArray[Any], dtype: ElementType | None = None, memory: _native.DeviceMemory | None = None
    ) -> array:
        element = dtype._type if isinstance(dtype, CompositeClass) else None
        ndim = storage.ndim - (0 if element is None else len(element.shape))
        if not 1 <= ndim <= 4:
            raise ValueError(f"an array has 1 to 4 dimensions, not {ndim}")
        self: array = _native.ArrayBase.__new__(cls, storage, element, memory)
        self._leaves = None
        self.dtype = dtype_of(storage.dtype) if dtype is None else dtype
        return self

    def _view(self, storage: NDArray[Any], dtype: ElementType | None = None) -> array:
        """An array over some of this one's memory."""
        made = array._wrap(storage, self.dtype if dtype is None else dtype, self._memory)
        made._parent = self
        return made

    @property
    def pinned(self) -> bool:
        """Whether the elements are in memory of the host that is pinned for a GPU."""
        return self._memory is None and self._root()._shared is not None

    def host(self) -> array:
        """An array of the host's over the managed memory of this array, after waiting for the streams that write it."""
        shared = self._root()._shared
        if shared is None or self._memory is None:
            raise ValueError("the array is not in managed memory: make it with polyloom.managed")
        shared.wait()
        made = array._wrap(self._storage, self.dtype)
        made._parent = self
        return made

    def _in_pinned_memory(self) -> array:
        """This array in pinned memory, if there is a GPU to pin it for."""
        made = uninitialised(self.shape, self.dtype, self.device, True)
        made._storage[...] = self._storage
        made._hold(self)
        return made

    def _wait_for_copies(self) -> None:
        """Waits for tasks, and for copies of a GPU's, that write the elements, which the host is about to read."""
        _native.run_recorded_tasks()
        shared = self._root()._shared
        if shared is not None and self._memory is None:
            shared.wait()

    def _root(self) -> array:
        """The array that this one is a view of, or itself."""
        root = self
        while root._parent is not None:
            root = root._parent
        return root

    def _hold(self, value: Any) -> None:
        """Keeps the arrays that structs among its elements hold."""
        if not isinstance(self.dtype, StructClass) or not self.dtype._type.array_within:
            return
        root = self._root()
        if isinstance(value, array):
            found = dict(value._root()._held or {})
        else:
            found = dict(arrays_of(value))
        if found:
            root._held = (root._held or {}) | found

    def _seen_as(self, dtype: Any, shape: Any, ndim: int | None) -> array:
        """This array on a device as one of this type, shape and number of dimensions, over the same memory."""
        made = self if dtype is None or _element_type(dtype) is self.dtype else self.view(dtype)
        if shape is not None:
            made = made.reshape(shape)
        if ndim not in (None, made.ndim):
            raise ValueError(f"data of shape {made.shape} has {made.ndim} dimensions, not {ndim}")
        return made

    def _elements_as(self, dtype: Any) -> array:
        """This array of scalars with its last axes as the components of elements of this type, over the same memory."""
        wanted = _element_type(dtype)
        if _numpy(wanted) != self._storage.dtype:
            raise TypeError(f"elements of type {name_of(self.dtype)} are none of type {name_of(wanted)}")
        return self._view(_elementwise(self._storage, wanted), wanted)

    def _fetched(self, part: NDArray[Any]) -> NDArray[Any]:
        """The elements that a view of `_storage` stands for, where the host can read them."""
        if self._memory is not None:
            _native.run_recorded_tasks()
            return self._memory.read(part)
        self._wait_for_copies()
        return part

    def _put(self, part: NDArray[Any], value: Any) -> None:
        """Writes `value`, an element or array-like, to the elements that a view of `_storage` stands for."""
        level = _native.recording_level()
        if level == CAPTURED:
            from polyloom import _graphs

            _graphs.captured(lambda: self._put(part, value))
        elif level:
            from polyloom import _tape

            with _tape.assigning(self, part, value):
                self._set(part, value)
        else:
            self._set(part, value)

    def _set(self, part: NDArray[Any], value: Any) -> None:
        """`_put`, of which tapes are told."""
        _native.run_recorded_tasks()
        self._hold(value)
        memory = self._memory
        if isinstance(value, array) and self._is_copied_later(part, value):
            return
        if memory is None:
            self._wait_for_copies()
        if memory is None and type(value) is int and value == 0 and part.dtype.names is None:
            clear(part)
        elif memory is None:
            part[...] = _elements_for(part, value, self.dtype)
        elif not (isinstance(value, array) and self._copied_on_device(part, value)):
            values = np.asarray(_elements(value, self.dtype))
            inner = _inner(self.dtype)
            is_filled = values.size == 1 or values.shape == inner
            given = np.empty(inner if is_filled else part.shape, part.dtype)
            given[...] = values.reshape(()) if values.size == 1 else values
            if is_filled:
                memory.fill(part, given)
            else:
                memory.write(part, given)

    def numpy(self) -> NDArray[Any]:
        """The elements as a NumPy array: one that shares their memory or, of an array on a device, a copy.

        Examples
        --------
        >>> import polyloom as loom
        >>> x = loom.zeros(2)
        >>> x.numpy()[1] = 5.0
        >>> x
        array([0., 5.], dtype=float32)
        """
        self._hand_out()
        self._wait_for_copies()
        return self._elements()

    def _hand_out(self) -> None:
        """Has tapes expect from now on that others write to the memory, if it is the host's."""
        _native.run_recorded_tasks()
        if self._memory is None:
            hand_out(self._storage)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self._storage.shape[: self.ndim]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._storage.ndim - len(_inner(self.dtype))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in bytes between neighbours along each axis."""
        return self._storage.strides[: self.ndim]

    @property
    def ptr(self) -> int | None:
        """Address of the first element, in the memory of its device; None if there is no element."""
        if not self._storage.size:
            return None
        self._hand_out()
        return int(self._storage.ctypes.data)

    @property
    def capacity(self) -> int:
        """Bytes from the first element to the end of the last."""
        storage = self._storage
        reach = [step * (extent - 1) for step, extent in zip(storage.strides, storage.shape, strict=True) if step > 0]
        return sum(reach) + storage.itemsize if storage.size else 0

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other in memory."""
        return bool(self._storage.flags.c_contiguous)

    @property
    def device(self) -> Device:
        """Where the elements are."""
        memory = self._memory
        return get_device("cpu") if memory is None else Device(memory.device)

    @property
    def T(self) -> array:  # noqa: N802 - NumPy's name
        """The array with its axes in reverse order, over the same memory."""
        return self.transpose()

    def __len__(self) -> int:
        return len(self._storage)

    def _key(self, index: Any) -> Any:
        """An index of elements as one of components."""
        inner = _inner(self.dtype)
        if not inner:
            return index
        parts = index if isinstance(index, tuple) else (index,)
        rest = () if any(part is Ellipsis for part in parts) else (Ellipsis,)
        return (*parts, *rest, *(slice(None),) * len(inner))

    def _part(self, index: Any) -> Any:
        """What an index of elements chooses of `_storage`."""
        if self._memory is None:
            part = self._storage[self._key(index)]
            if isinstance(part, np.ndarray) and part.base is not None:
                return part
            # It is a copy, of what tasks have yet to write.
            _native.run_recorded_tasks()
            return self._storage[self._key(index)]
        parts = index if isinstance(index, tuple) else (index,)
        for part in parts:
            if not (part is Ellipsis or isinstance(part, (int, np.integer, slice))) or isinstance(part, bool):
                raise TypeError(
                    f"an array on {self.device} is indexed by integers and slices, not by {type(part).__name__}: "
                    "index array.numpy()"
                )
        # With an ellipsis a single element is an array of no dimensions too, which is not looked at.
        key = self._key(index)
        key = key if isinstance(key, tuple) else (key,)
        return self._storage[key if any(part is Ellipsis for part in key) else (*key, Ellipsis)]

    def _chosen(self, index: Any) -> Any:
        """The indexed array that an index with arrays in it stands for; None for one of integers and slices."""
        parts = index if isinstance(index, tuple) else (index,)
        if not any(isinstance(part, _INDEX_ARRAYS) for part in parts):
            return None
        n_given = sum(part is not Ellipsis for part in parts)
        if n_given > self.ndim or sum(part is Ellipsis for part in parts) > 1 or None in map(_none_of, parts):
            raise IndexError(f"an array of {self.ndim} dimensions is indexed by an index for each, not by {index!r}")
        whole = (slice(None),) * (self.ndim - n_given)
        if Ellipsis in map(_ellipsis_of, parts):
            at = [part is Ellipsis for part in parts].index(True)
            parts = (*parts[:at], *whole, *parts[at + 1 :])
        else:
            parts = (*parts, *whole)
        base = self[tuple(slice(None) if isinstance(part, _INDEX_ARRAYS) else part for part in parts)]
        kept = [part for part in parts if not isinstance(part, (int, np.integer))]
        indices = [
            _checked_indices(part, extent) if isinstance(part, _INDEX_ARRAYS) else None
            for part, extent in zip(kept, base.shape, strict=True)
        ]
        from polyloom._indexed import indexedarray

        return indexedarray(base, indices)

    def __getitem__(self, index: Any) -> Any:
        if (chosen := self._chosen(index)) is not None:
            return chosen
        item = self._part(index)
        if isinstance(self.dtype, StructClass):
            if isinstance(item, np.ndarray) and item.ndim:
                return self._view(item)
            return of_record(self.dtype, self._fetched(item), self._root()._held or {})
        if isinstance(self.dtype, CompositeClass):
            if item.ndim == len(self.dtype._shape_):
                return self.dtype(readable(self._fetched(item), self.dtype._wp_scalar_type_))
        elif not isinstance(item, np.ndarray) or not item.ndim:
            return readable(np.asarray(self._fetched(item)), self.dtype)[()]
        return self._view(item)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, array) and index.dtype is bool_:
            index = index._elements()
        if isinstance(index, np.ndarray) and index.dtype == bool and index.ndim > 1:
            # A mask of the whole array.
            self._set_item(index, value)
        elif (chosen := self._chosen(index)) is not None:
            chosen.assign(value)
        else:
            self._set_item(index, value)

    def _set_item(self, index: Any, value: Any) -> None:
        """Assigns to the elements that NumPy's indices choose."""
        if self._memory is not None:
            self._put(self._part(index), value)
        elif level := _native.recording_level():
            from polyloom import _graphs, _tape

            if level == CAPTURED:
                _graphs.captured(lambda: self._set_item(index, value))
            else:
                _tape.put(self, self._key(index), value)
        else:
            _native.run_recorded_tasks()
            self._hold(value)
            self._storage[self._key(index)] = _elements_for(self._storage, value, self.dtype)

    def __str__(self) -> str:
        self._wait_for_copies()
        return str(self._elements())

    def __repr__(self) -> str:
        self._wait_for_copies()
        return (
            f"array({np.array2string(self._elements(), separator=', ', prefix='array(')}, dtype={name_of(self.dtype)})"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The elements as a NumPy array: in new memory, in their own, or in either, as `copy` says."""
        if copy is False and self._memory is not None:
            raise ValueError(f"an array on {self.device} is not seen by the host without a copy")
        elements: NDArray[Any] = self._elements() if copy else self.numpy()
        if copy is False and dtype is not None and np.dtype(dtype) != elements.dtype:
            raise ValueError(f"elements of type {elements.dtype} are not seen as {np.dtype(dtype)} without a copy")
        return np.array(elements, dtype) if copy and self._memory is None else np.asarray(elements, dtype)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self._memory is not None:
            raise AttributeError(f"an array on {self.device} is not in the host's memory")
        self._hand_out()
        return self._storage.__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """How other packages see an array on a CUDA device (CUDA Array Interface, version 3)."""
        if not self.device.is_cuda:
            raise AttributeError(f"an array on {self.device} is not in the memory of a CUDA device")
        storage = self._storage
        return {
            "shape": storage.shape,
            "typestr": storage.dtype.str,
            "descr": storage.dtype.descr,
            "data": (self.ptr if self.size else 0, False),
            "strides": None if self.is_contiguous else storage.strides,
            # What was asked of the array before is done before what is asked of this stream later.
            "stream": self._handed_to(get_stream(self.device)),
            "version": 3,
        }

    def _handed_to(self, stream: Any) -> int:
        """The handle of a stream, which waits for those that have written the array."""
        if self._memory is not None and self.size:
            with StreamScope(stream, self.device):
                self._memory.begin_use(False)
        return stream.cuda_stream or LEGACY_STREAM

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        """A DLPack capsule of the memory, which the array of whoever takes it shares. `stream` is the handle of the
        stream of a GPU in which it is used: 1 and None are the default one, 2 that of the thread, and -1 no stream
        that is to wait."""
        self._check_dlpack()
        self._hand_out()
        storage = self._storage
        if self._memory is not None:
            # NumPy's capsule keeps this array; nobody looks into the memory that it takes for the host's.
            storage = np.asarray(_Held(self)).view(storage.dtype)
            options.pop("dl_device", None)
        elif self.pinned:
            self._wait_for_copies()
        is_bfloat16 = _scalar_name(self.dtype) == "bfloat16"
        capsule = (storage.view(np.uint16) if is_bfloat16 else storage).__dlpack__(**options)
        if is_bfloat16:
            _native.dlpack_bits_as_bfloat16(capsule)
        if self._memory is not None:
            if stream != -1:
                self._handed_to(Stream(self.device, cuda_stream=LEGACY_STREAM if stream is None else stream))
            _native.dlpack_on_cuda(capsule, self.device.ordinal, self._root()._shared is not None)
        return capsule

    def __dlpack_device__(self) -> Any:
        self._check_dlpack()
        if self._memory is None:
            return self._storage.__dlpack_device__()
        return (13 if self._root()._shared is not None else 2, self.device.ordinal)

    def _check_dlpack(self) -> None:
        if self._memory is not None and not self.device.is_cuda:
            raise BufferError(f"an array on {self.device} is not passed on through DLPack: use array.numpy()")

    __add__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = _operator("mul")
    __truediv__ = _operator("div")
    __floordiv__ = _operator("floordiv")
    __mod__ = _operator("mod")
    __pow__ = _operator("pow")
    __radd__ = _operator("add", swapped=True)
    __rsub__ = _operator("sub", swapped=True)
    __rmul__ = _operator("mul", swapped=True)
    __rtruediv__ = _operator("div", swapped=True)
    __rfloordiv__ = _operator("floordiv", swapped=True)
    __rmod__ = _operator("mod", swapped=True)
    __rpow__ = _operator("pow", swapped=True)
    __iadd__ = _operator("add", in_place=True)
    __isub__ = _operator("sub", in_place=True)
    __imul__ = _operator("mul", in_place=True)
    __itruediv__ = _operator("div", in_place=True)
    __ifloordiv__ = _operator("floordiv", in_place=True)
    __imod__ = _operator("mod", in_place=True)
    __ipow__ = _operator("pow", in_place=True)
    __neg__ = _operator("neg")

    def __ctype__(self) -> array:
        """The array, as `set_param_at_index_from_ctype` of a recorded launch takes it."""
        return self

    def __pos__(self) -> array:
        return self.copy()

    def fill_(self, value: Any, stream: Any = None) -> array:
        """Sets every element to `value`, in a stream of the array's device if one is given, and gives the array."""
        if stream is None:
            self._put(self._storage, value)
        else:
            with StreamScope(stream, self.device):
                self._put(self._storage, value)
        return self

    def zero_(self, stream: Any = None) -> array:
        """Sets every element to 0, in a stream of the array's device if one is given, and gives the array."""
        if isinstance(self.dtype, StructClass):
            return self.fill_(np.zeros((), self.dtype.numpy_dtype()), stream)
        return self.fill_(0, stream)

    def assign(self, source: Any, stream: Any = None) -> array:
        """Copies the elements of `source`, of the same shape, into this array, in a stream of the device of one of
        the two if one is given, and gives the array."""
        if stream is None:
            self._put(self._storage, source)
        else:
            with StreamScope(stream, self.device, source.device if isinstance(source, array) else self.device):
                self._put(self._storage, source)
        return self

    def _is_copied_later(self, part: NDArray[Any], source: array) -> bool:
        """Copies elements between pinned memory and a device, if they are of the same type and as many: the copy goes
        on."""
        memory, other = self._memory, source._memory
        if source.dtype is not self.dtype or source._storage.shape != part.shape or (memory is None) == (other is None):
            return False
        if memory is not None and source.pinned and source._storage.flags.c_contiguous:
            memory.write_later(part, source._storage)
            return True
        if other is not None and self.pinned and part.flags.c_contiguous and part.flags.writeable:
            return other.read_later(source._storage, part)
        return False

    def _copied_on_device(self, part: NDArray[Any], source: array) -> bool:
        """Copies the elements of another array on the same device, if they are of the same type, as many, and not
        among those that they are copied to."""
        memory, other = self._memory, source._memory
        if memory is None or other is None or memory.device != other.device:
            return False
        if source.dtype is not self.dtype or source._storage.shape != part.shape:
            return False
        (lo, n_bytes), (other_lo, other_n_bytes) = _native.span(part), _native.span(source._storage)
        if lo < other_lo + other_n_bytes and other_lo < lo + n_bytes:
            return False
        memory.copy_from(part, other, source._storage)
        return True

    def reshape(self, *shape: int | Sequence[int]) -> array:
        """The same elements, over the same memory, with these extents, of which one may be -1: a tuple, or one by one.

        Examples
        --------
        >>> import polyloom as loom
        >>> loom.zeros((2, 6), dtype=loom.vec3).reshape((3, -1)).shape
        (3, 4)
        """
        inner = _inner(self.dtype)
        extents = given = _extents(shape[0] if len(shape) == 1 else shape)  # type: ignore[arg-type]
        known = math.prod(extent for extent in extents if extent >= 0)
        if extents.count(-1) == 1 and known and self.size % known == 0:
            extents = tuple(self.size // known if extent == -1 else extent for extent in extents)
        if min(extents, default=-1) < 0 or math.prod(extents) != self.size:
            size = f" (size {math.prod(given)})" if min(given, default=0) >= 0 else ""
            raise RuntimeError(
                f"cannot reshape array of shape {self.shape} (size {self.size}) into shape {given}{size}"
            )
        if not self.is_contiguous:
            raise ValueError("the elements do not follow each other in memory: reshape array.contiguous()")
        return self._view(self._storage.reshape(extents + inner))

    def flatten(self) -> array:
        """The same elements, over the same memory, along one axis."""
        return self.reshape(self.size)

    def view(self, dtype: ElementTypeLike) -> array:
        """The same memory as elements of another type: one of the same size, or, of components as large, a scalar type
        of vectors and matrices, whose components become axes, or the reverse.

        Examples
        --------
        >>> import polyloom as loom
        >>> loom.ones(1, dtype=float).view(loom.uint32).numpy()
        array([1065353216], dtype=uint32)
        """
        wanted = _element_type(dtype)
        sizes = [_numpy(each).itemsize * math.prod(_inner(each)) for each in (self.dtype, wanted)]
        kinds = [bool(_inner(each)) for each in (self.dtype, wanted)]
        if sizes[0] != sizes[1] and True in kinds and False in kinds:
            scalars = [_scalar(each) for each in (self.dtype, wanted)]
            if scalars[0].numpy.itemsize == scalars[1].numpy.itemsize:
                # Components become axes, or axes become components.
                return self._view(_elementwise_axes(self._storage, wanted).view(_numpy(wanted)), wanted)
            sizes = [each.numpy.itemsize for each in scalars]
        if sizes[0] != sizes[1]:
            given, made = (
                f"{'scalar ' if is_composite else ''}dtype{f' {_scalar(each).name}' if is_composite else ''}"
                for each, is_composite in zip((self.dtype, wanted), kinds, strict=True)
            )
            raise TypeError(
                f"cannot create an array view with dtype {name_of(wanted)} from source dtype {name_of(self.dtype)}: "
                f"source {given} has size {sizes[0]} bytes, but target {made} has size {sizes[1]} bytes"
            )
        if not self.is_contiguous:
            raise ValueError("the elements do not follow each other in memory: view array.contiguous()")
        bits = self._storage.reshape(-1).view(_numpy(wanted))
        return self._view(bits.reshape(self.shape + _inner(wanted)), wanted)

    def contiguous(self) -> array:
        """This array if its elements follow each other in memory, else a copy whose elements do."""
        return self if self.is_contiguous else self._copied_to(self.device)

    def transpose(self, axes: Sequence[int] | None = None) -> array:
        """The array with its axes in another order, by default reversed, over the same memory."""
        n = self.ndim
        order = tuple(range(n))[::-1] if axes is None else tuple(axes)
        if sorted(order) != list(range(n)):
            raise ValueError(f"the axes of an array of {n} dimensions are 0 to {n - 1}, each once, not {order}")
        storage = self._storage
        return self._view(storage.transpose(*order, *range(n, storage.ndim)))

    def list(self) -> list[Any]:
        """The elements, row by row, as Python values."""
        self._wait_for_copies()
        storage = self._elements()
        flat = storage.reshape((self.size, *storage.shape[self.ndim :]))
        if isinstance(self.dtype, StructClass):
            held = self._root()._held or {}
            return [of_record(self.dtype, element, held) for element in flat]
        if isinstance(self.dtype, CompositeClass):
            made: Any = self.dtype
            return [made._of(element) for element in flat]
        return readable(flat, self.dtype).tolist()  # type: ignore[no-any-return]

    def to(self, device: DeviceLike, requires_grad: bool | None = None) -> array:
        """This array if it is on the device, else a copy there.

        Examples
        --------
        >>> import polyloom as loom
        >>> x = loom.array([1.0, 2.0]).to("sim:0")
        >>> x.device, x.numpy()
        ('sim:0', array([1., 2.], dtype=float32))
        """
        where = get_device(device)
        return self if where == self.device else self._copied_to(where, requires_grad)

    def _copied_to(self, device: Device, requires_grad: bool | None = None, is_recorded: bool = True) -> array:
        made = uninitialised(self.shape, self.dtype, device)
        if is_recorded:
            made.assign(self)
        else:
            made._set(made._storage, self)
        made.requires_grad = self.requires_grad if requires_grad is None else requires_grad
        return made


_INDEX_ARRAYS = (array, np.ndarray, list)

Shape = int | Sequence[int]


def _extents(shape: Shape) -> tuple[int, ...]:
    try:
        return tuple(shape)  # type: ignore[arg-type]
    except TypeError:
        return (shape,)  # type: ignore[return-value]


def live_arrays() -> list[array]:
    """All arrays that are alive, views among them."""
    return [each for each in gc.get_objects() if isinstance(each, array)]


def _largest_arrays(device: Device) -> str:
    """The end of a message: the arrays that take most of a device's memory."""
    found: dict[str, list[int]] = {}
    for each in live_arrays():
        if each._parent is None and each._memory is not None and each._memory.device == device:
            entry = found.setdefault(f"{name_of(each.dtype)}{list(each.shape)}", [0, 0])
            entry[0] += each._storage.nbytes
            entry[1] += 1
    largest = sorted(found.items(), key=lambda item: -item[1][0])[:5]
    lines = [f"\n  {n_bytes} bytes in {count} of {text}" for text, (n_bytes, count) in largest]
    return "\nthe largest arrays there:" + "".join(lines) if lines else ""


def uninitialised(shape: Shape, dtype: ElementType, device: Device, pinned: bool = False) -> array:
    """An array whose elements are whatever they are."""
    extents, scalar = _extents(shape) + _inner(dtype), _numpy(dtype)
    n_bytes = math.prod(extents) * scalar.itemsize
    if device.is_cpu and pinned and n_bytes and _native.gpu_available():
        shared = _native.HostMemory.pinned("cuda:0", n_bytes)
        made = array._wrap(np.asarray(shared).view(scalar).reshape(extents), dtype)
        made._shared = shared
        return made
    if device.is_cpu:
        return array._wrap(own(np.empty(extents, scalar)), dtype)
    if not 0 <= n_bytes < 2**63:
        raise MemoryError(f"an array of {n_bytes} bytes is more than a device holds")
    try:
        memory = _native.DeviceMemory(device, n_bytes)
    except DeviceError as error:
        if "out of memory" not in str(error):
            raise
        raise DeviceError(f"{error}{_largest_arrays(device)}") from None
    return array._wrap(layout(memory.address, extents, scalar, None), dtype, memory)


# What the CUDA array interface calls the default stream.
LEGACY_STREAM = 1


class _Held:
    """Memory of an array on a device for NumPy to describe, and to keep."""

    def __init__(self, held: array) -> None:
        storage = held._storage
        self._held = held
        self.__array_interface__ = {
            "shape": storage.shape,
            "typestr": f"|V{storage.dtype.itemsize}" if storage.dtype.kind == "V" else storage.dtype.str,
            "strides": storage.strides,
            "data": (int(storage.ctypes.data), False),
            "version": 3,
        }


# DLPack's numbers of element types, with bits, as NumPy's types.
_DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 6: "?"}


def from_cuda_dlpack(source: Any) -> array:
    """An array over the memory of another package's array on a GPU, through DLPack; what is asked here comes after
    what fills it, as the package has it."""
    _, number = source.__dlpack_device__()
    where = get_device(f"cuda:{number}")
    stream = get_stream(where)
    capsule = source.__dlpack__(stream=stream.cuda_stream or LEGACY_STREAM)
    address, extents, strides, (kind, bits), number = _native.dlpack_of_cuda(capsule)
    if kind == 4 and bits == 16:
        dtype: np.dtype[Any] = bfloat16.numpy
    elif kind in _DLPACK_KINDS:
        dtype = np.dtype("?" if kind == 6 else f"{_DLPACK_KINDS[kind]}{bits // 8}")
    else:
        raise TypeError(f"elements of DLPack's type {kind} with {bits} bits are none of the package's")
    steps = None if strides is None else tuple(step * dtype.itemsize for step in strides)
    storage = layout(address, tuple(extents), dtype, steps)
    start, n_bytes = _native.span(storage)
    # The capsule, which nobody consumes, keeps the memory.
    memory = _native.DeviceMemory(where, n_bytes, start, capsule)
    if n_bytes:
        memory.begin_use(True)
    return array._wrap(storage, None, memory)


class _Bits:
    """An array of bfloat16 as NumPy takes it through DLPack: as bits."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._source.__dlpack__(**options)
        _native.dlpack_bfloat16_as_bits(capsule)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self._source.__dlpack_device__()


def is_bfloat16(source: Any) -> bool:
    """True of another package's array with elements of bfloat16."""
    return str(getattr(source, "dtype", "")).rpartition(".")[2] == "bfloat16"


def check_sign(source: Any) -> None:
    """Refuses a tensor of PyTorch whose memory holds the negatives of its numbers."""
    is_neg = getattr(source, "is_neg", None)
    if is_neg is not None and is_neg():
        raise ValueError(
            "the memory of a tensor with PyTorch's negative bit holds the negatives of its numbers: pass "
            "tensor.resolve_neg()"
        )


def shared(source: Any) -> np.ndarray[Any, Any]:
    """NumPy's array over the memory of another package's array on the CPU. That of bfloat16 has the type of
    `polyloom.bfloat16.numpy`.

    Raises
    ------
    ValueError
        For a tensor of PyTorch whose memory holds the negatives of its numbers.
    """
    check_sign(source)
    if not is_bfloat16(source):
        return np.from_dlpack(source)
    return np.from_dlpack(_Bits(source)).view(bfloat16.numpy)


def from_cuda_interface(source: Any) -> array:
    """An array over the memory of another package's array on a GPU, which it keeps."""
    interface = source.__cuda_array_interface__
    address, is_read_only = interface["data"]
    if is_read_only:
        raise ValueError("is read-only memory of a GPU, which kernels cannot tell from other memory: pass a copy")
    strides = interface.get("strides")
    # The interface has no name for bfloat16: PyTorch says that its elements are 2 bytes of anything.
    dtype = bfloat16.numpy if is_bfloat16(source) else np.dtype(interface["typestr"])
    storage = layout(address or 0, tuple(interface["shape"]), dtype, strides)
    device = getattr(source, "device", None)
    # PyTorch says `index`, CuPy `id`.
    numbers = [getattr(device, name, None) for name in ("index", "id")]
    number = next((each for each in numbers if isinstance(each, int)), 0)
    where, stream = get_device(f"cuda:{number}"), interface.get("stream")
    start, n_bytes = _native.span(storage)
    memory = _native.DeviceMemory(where, n_bytes, start, source)
    if stream is not None and n_bytes:
        # What fills the array is in that stream, and what is asked here comes after it.
        current = get_stream(where)
        if stream != (current.cuda_stream or LEGACY_STREAM):
            current.wait_stream(Stream(where, cuda_stream=stream))
            with StreamScope(current, where):
                memory.begin_use(True)
    return array._wrap(storage, None, memory)


def _at(
    ptr: int, extents: tuple[int, ...], dtype: ElementType, strides: int | Sequence[int] | None, device: Device
) -> array:
    """The array of these extents at an address of a device."""
    scalar, inner = _numpy(dtype), _inner(dtype)
    within = tuple(scalar.itemsize * math.prod(inner[axis + 1 :]) for axis in range(len(inner)))
    size = scalar.itemsize * math.prod(inner)
    if strides is None:
        steps = tuple(size * math.prod(extents[axis + 1 :]) for axis in range(len(extents)))
    else:
        steps = _extents(strides)
        if len(steps) != len(extents):
            raise ValueError(f"Invalid number of strides, expected {len(extents)} strides, got {len(steps)}")
        if min(steps, default=0) < 0:
            raise ValueError("strides of memory at an address are not negative")
    if math.prod(extents) and not ptr:
        raise ValueError("there is no array at address 0")
    storage = layout(ptr, extents + inner, scalar, steps + within)
    if device.is_cpu:
        return array._wrap(storage, dtype)
    _, n_bytes = _native.span(storage)
    return array._wrap(storage, dtype, _native.DeviceMemory(device, n_bytes, ptr))
