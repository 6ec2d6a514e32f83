"""Functions that make arrays and copy them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polyloom._arrays import ElementTypeLike, Shape, _element_type, _extents, _inner, _numpy, array, uninitialised
from polyloom._composites import matrix, vector
from polyloom._devices import Device, DeviceLike, get_device
from polyloom._host_methods import check_unmasked
from polyloom._indexed import IndexedArray
from polyloom._memory import own
from polyloom._scalars import dtype_of, float32
from polyloom._streams import StreamScope

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "clone",
    "copy",
    "empty",
    "empty_like",
    "from_numpy",
    "from_ptr",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def _shape_given(function: str, shape: Shape | None, dtype: Any, n: int | None) -> Shape:
    if shape is None:
        shape = n
    if shape is None:
        raise TypeError(f"{function}() takes a shape: {function}((2, 3))")
    if isinstance(dtype, int):
        raise TypeError(f"{function}() takes the extents as one tuple: {function}(({shape}, {dtype}))")
    if min(_extents(shape), default=0) < 0:
        raise ValueError(f"Array shapes must be non-negative: {function}() of {shape}")
    return shape


def _with_gradient(made: array, requires_grad: bool, retain_grad: bool) -> array:
    if requires_grad:
        made.requires_grad = True
    if retain_grad:
        made.retain_grad = True
    return made


def _strided(shape: Shape, dtype: Any, strides: Sequence[int], device: Device) -> array:
    """An array of zeros whose neighbours lie so many bytes apart."""
    extents, steps, inner, scalar = _extents(shape), _extents(strides), _inner(dtype), _numpy(dtype)
    if not device.is_cpu:
        raise ValueError(f"arrays on {device} are made without strides: take a slice of a larger one")
    if len(steps) != len(extents):
        raise ValueError(f"Invalid number of strides, expected {len(extents)} strides, got {len(steps)}")
    if min(steps, default=0) < 0:
        raise NotImplementedError("Negative strides of a new array: make one with others, and take a slice of it")
    within = np.empty(inner, scalar).strides
    size = scalar.itemsize * math.prod(inner)
    reach = sum((extent - 1) * step for extent, step in zip(extents, steps, strict=True))
    n_bytes = reach + size if math.prod(extents) else 0
    memory = own(np.zeros(n_bytes, np.uint8))
    return array._wrap(np.ndarray(extents + inner, scalar, memory, 0, steps + within), dtype)


def empty(
    shape: Shape | None = None,
    dtype: ElementTypeLike = float32,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    strides: Sequence[int] | None = None,
) -> array:
    """An uninitialised array.

    Parameters
    ----------
    shape : int or tuple of int
        Extents, 1 to 4 of them; `n` is another name for it.
    dtype : scalar type or class such as `vec3`
        Element type.
    device : str, optional
        Where the elements are: `"cpu"`, `"sim:0"` or `"cuda:0"`; by default the device that `set_device` names.
    requires_grad : bool
        Whether the array has an array `grad` like it, to which `Tape.backward` adds.
    pinned : bool
        Whether memory on the CPU is pinned for copies from and to a GPU, if there is one.
    retain_grad : bool
        Whether `grad` is kept where the way back goes through what computed the array.
    strides : sequence of int, optional
        Distances in bytes between neighbours along each axis, on the CPU; those of elements one after another by
        default.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.empty((2, 3)).shape
    (2, 3)
    """
    shape = _shape_given("empty", shape, dtype, n)
    where, wanted = get_device(device), _element_type(dtype)
    made = uninitialised(shape, wanted, where, pinned) if strides is None else _strided(shape, wanted, strides, where)
    return _with_gradient(made, requires_grad, retain_grad)


def zeros(
    shape: Shape | None = None,
    dtype: ElementTypeLike = float32,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
    strides: Sequence[int] | None = None,
) -> array:
    """An array of zeros; parameters as for `empty`.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.zeros(3, dtype=int).numpy()
    array([0, 0, 0], dtype=int32)
    """
    shape = _shape_given("zeros", shape, dtype, n)
    where, wanted = get_device(device), _element_type(dtype)
    if strides is not None:
        made = _strided(shape, wanted, strides, where)
    elif where.is_cpu and pinned:
        made = uninitialised(shape, wanted, where, True)
        made._storage[...] = np.zeros((), made._storage.dtype)
    elif where.is_cpu:
        made = array._wrap(own(np.zeros(_extents(shape) + _inner(wanted), _numpy(wanted))), wanted)
    else:
        made = uninitialised(shape, wanted, where)
        if made._memory is not None:
            made._memory.clear()
    return _with_gradient(made, requires_grad, retain_grad)


def ones(
    shape: Shape | None = None,
    dtype: ElementTypeLike = float32,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
) -> array:
    """An array of ones; parameters as for `empty`."""
    return full(_shape_given("ones", shape, dtype, n), 1, dtype, device, requires_grad, pinned, retain_grad)


def _type_of(value: Any) -> Any:
    """The type of elements that are all `value`: sequences are vectors, sequences of rows matrices."""
    if isinstance(value, (list, tuple)) or isinstance(value, np.ndarray) and value.ndim:
        components = np.asarray(value)
        scalar = type(components[0].item()) if isinstance(value, (list, tuple)) and components.ndim == 1 else None
        dtype = dtype_of(components.dtype if scalar is None else scalar)
        if components.ndim == 1:
            return vector(components.shape[0], dtype)
        if components.ndim == 2:
            return matrix(components.shape, dtype)
    return type(value)


def full(
    shape: Shape | None = None,
    value: Any = 0,
    dtype: ElementTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
) -> array:
    """An array filled with `value`; `float32`, `int32` or `vec3` by the value's type unless `dtype` says otherwise.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.full(2, 1.5).numpy()
    array([1.5, 1.5], dtype=float32)
    """
    shape = _shape_given("full", shape, None, n)
    made = empty(shape, _type_of(value) if dtype is None else dtype, device, requires_grad, pinned, retain_grad)
    # Nothing that a tape would record: what was there before is nothing.
    made._set(made._storage, value)
    return made


def from_numpy(
    arr: NDArray[Any],
    dtype: ElementTypeLike | None = None,
    shape: Shape | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> array:
    """An array over a NumPy array's own memory; copied only if `dtype` asks for another element type.

    Parameters
    ----------
    arr : numpy.ndarray
        The elements.
    dtype : scalar type or class such as `vec3`, optional
        Element type; that of `arr` by default. If it is not given but `shape` is, the axes of `arr` that `shape` leaves
        over are an element's: one makes vectors, two make matrices.
    shape : int or tuple of int, optional
        Extents.
    device, requires_grad
        As for `empty`; on another device than the CPU it is a copy.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> x = np.zeros(2, np.float32)
    >>> _ = loom.from_numpy(x).fill_(7)
    >>> x
    array([7., 7.], dtype=float32)
    """
    if dtype is None and shape is not None:
        inner = np.shape(arr)[len(_extents(shape)) :]
        if len(inner) in (1, 2) and np.shape(arr) == _extents(shape) + inner:
            scalar = dtype_of(arr.dtype)
            dtype = vector(inner[0], scalar) if len(inner) == 1 else matrix(inner, scalar)
    return array(  # type: ignore[no-any-return]
        arr, dtype=dtype, shape=shape, copy=False, device=device, requires_grad=requires_grad
    )


def from_ptr(
    ptr: int,
    length: int,
    dtype: ElementTypeLike | None = None,
    shape: Shape | None = None,
    device: DeviceLike = None,
) -> array:
    """An array over memory at an address, which must outlive it.

    Parameters
    ----------
    ptr : int
        Address of the first element.
    length : int
        Number of elements, unless `shape` is given.
    dtype : scalar type or class such as `vec3`, optional
        Element type; `float32` by default.
    shape : int or tuple of int, optional
        Extents.
    device : str, optional
        The device whose memory it is; as for `empty`.
    """
    wanted = length if shape is None else shape
    return array(ptr=ptr, dtype=dtype, shape=wanted, device=device)  # type: ignore[no-any-return]


def empty_like(
    src: Any,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """An uninitialised array with the shape and type of `src`, on its device unless another is given."""
    if isinstance(src, IndexedArray):
        where = src.device if device is None else device
        return empty(src.shape, src.dtype, where, bool(requires_grad), bool(pinned), retain_grad)
    if not isinstance(src, array):
        src = array(src, copy=False, device="cpu")
        device = get_device(device)
    needs_grad = src.requires_grad if requires_grad is None else requires_grad
    where = src.device if device is None else device
    is_pinned = (src.pinned and get_device(where).is_cpu) if pinned is None else pinned
    return empty(src.shape, src.dtype, where, needs_grad, is_pinned, retain_grad)


def zeros_like(
    src: Any,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """An array of zeros with the shape and type of `src`."""
    made = empty_like(src, device, requires_grad, pinned, retain_grad)
    made._set(made._storage, np.zeros((), made._storage.dtype))
    return made


def ones_like(
    src: Any,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """An array of ones with the shape and type of `src`."""
    return full_like(src, 1, device, requires_grad, pinned, retain_grad)


def full_like(
    src: Any,
    value: Any,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """An array filled with `value` with the shape and type of `src`."""
    made = empty_like(src, device, requires_grad, pinned, retain_grad)
    made._set(made._storage, value)
    return made


def clone(
    src: Any,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """A new array with the elements of `src`, on its device unless another is given."""
    if not isinstance(src, array):
        return array(  # type: ignore[no-any-return]
            src, device=device, requires_grad=bool(requires_grad), pinned=bool(pinned)
        )
    return empty_like(src, device, requires_grad, pinned, retain_grad).assign(src)


def copy(dest: Any, src: Any, dest_offset: int = 0, src_offset: int = 0, count: int = 0, stream: Any = None) -> None:
    """Copies elements of `src` into `dest`, from one device to another if they are on two.

    Arrays of the same shape are copied whole. Otherwise, and with offsets or a count, elements are counted row by row,
    however they lie in memory.

    Parameters
    ----------
    dest, src : array or numpy.ndarray
        Where to, and where from.
    dest_offset, src_offset : int
        Elements to skip.
    count : int
        Number of elements; all of `src` that follow its offset if it is 0.
    stream : Stream, optional
        A stream of the device of one of them, by default the current one. Copies from and to pinned memory of the
        host may be done after the call, all others of the host are done before.

    Examples
    --------
    >>> import polyloom as loom
    >>> x = loom.zeros(4)
    >>> loom.copy(x, loom.array([1.0, 2.0, 3.0]), dest_offset=1, src_offset=1)
    >>> x.numpy()
    array([0., 2., 3., 0.], dtype=float32)
    """
    if stream is not None:
        devices = [each.device for each in (dest, src) if isinstance(each, (array, IndexedArray))]
        with StreamScope(stream, *devices):
            copy(dest, src, dest_offset, src_offset, count)
        return
    check_unmasked(src, "copy()")
    numbers = {"Destination offset": dest_offset, "Source offset": src_offset, "count": count}
    for name, number in numbers.items():
        if not hasattr(number, "__index__"):
            raise RuntimeError(f"offsets and count must be integers: {name} is {number!r}")
        if number < 0:
            raise RuntimeError(f"{name} must be non-negative, not {number}")
    if any(numbers.values()) and (isinstance(src, IndexedArray) or isinstance(dest, IndexedArray)):
        raise RuntimeError("indexed or Fabric arrays are copied whole, without offsets and count")
    if isinstance(src, IndexedArray):
        src = src.contiguous()
    if isinstance(dest, IndexedArray):
        dest.assign(src)
        return
    dest = dest if isinstance(dest, array) else from_numpy(dest, device="cpu")
    src = src if isinstance(src, array) else from_numpy(np.asarray(src), device="cpu")
    if not (dest_offset or src_offset or count) and dest.shape == src.shape:
        dest.assign(src)
        return
    n = count or src.size - src_offset
    for name, each, offset in (("source", src, src_offset), ("destination", dest, dest_offset)):
        if offset + n > each.size or n < 0:
            raise RuntimeError(f"copying {n} elements from number {offset} exceeds the {name} size, {each.size}")
    if not n:
        return
    part = _in_a_row(src)[src_offset : src_offset + n]
    if dest.ndim == 1 or dest.is_contiguous:
        _in_a_row(dest)[dest_offset : dest_offset + n].assign(part)
        return
    whole = dest.copy()
    whole.flatten()[dest_offset : dest_offset + n].assign(part)
    dest.assign(whole)


def _in_a_row(source: array) -> array:
    """The elements of an array in one dimension: over its memory where that can be, else a copy."""
    return source if source.ndim == 1 else source.contiguous().flatten()
