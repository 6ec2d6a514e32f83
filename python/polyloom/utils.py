"""Functions over whole arrays, by the names that Warp has in `wp.utils`.

>>> import polyloom as loom
>>> x = loom.array([3, 1, 2], dtype=int)
>>> loom.utils.array_scan(x, x)
>>> x.list()
[3, 4, 6]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyloom._arrays import _scalar, array
from polyloom._compatibility import ScopedTimer
from polyloom._composites import CompositeClass
from polyloom._tape import refuse

__all__ = [
    "ScopedTimer",
    "array_cast",
    "array_inner",
    "array_scan",
    "array_sum",
    "radix_sort_pairs",
    "runlength_encode",
    "segmented_sort_pairs",
]


def _of(values: Any, function: str, parameter: str) -> array:
    """An argument as an array: one of NumPy's is seen in its own memory."""
    if isinstance(values, array):
        return values
    if isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray):
        return array(values, copy=False, device="cpu")  # type: ignore[no-any-return]
    what = type(values).__name__
    raise TypeError(f"{function}() takes arrays: `{parameter}` is a {what}, pass polyloom.array({parameter}), say")


def _along(values: array, axis: int, count: int | None) -> tuple[NDArray[Any], int]:
    """The elements, of which along an axis no more than `count`, and the axis counted from the first."""
    if not -values.ndim <= axis < values.ndim:
        raise ValueError(f"an array of {values.ndim} dimensions has no axis {axis}")
    axis %= values.ndim
    extent = values.shape[axis]
    if count is not None and not 0 <= count <= extent:
        raise ValueError(f"axis {axis} has {extent} elements, not {count}")
    chosen = (slice(None),) * axis + (slice(count),)
    return values._elements()[chosen], axis


def _first(values: array, count: int | None, what: str) -> NDArray[Any]:
    """The first elements, row by row, with their components as further axes."""
    storage = values._elements()
    flat = storage.reshape((values.size, *storage.shape[values.ndim :]))
    if count is None:
        return flat
    if not 0 <= count <= values.size:
        raise ValueError(f"{what} has {values.size} elements, not {count}")
    return flat[:count]


def _write(values: array, count: int, what: str, elements: NDArray[Any]) -> None:
    """Writes the first elements, which they can only be if all follow each other in memory."""
    refuse("what polyloom.utils computes", values)
    if not values.is_contiguous:
        raise ValueError(f"the elements of {what} do not follow each other in memory")
    if not 0 <= count <= values.size:
        raise ValueError(f"{what} has {values.size} elements, not {count}")
    storage = values._storage
    first = storage.reshape((values.size, *storage.shape[values.ndim :]))[:count]
    values._put(first, elements.reshape(first.shape))


def _write_all(values: array, elements: NDArray[Any]) -> None:
    refuse("what polyloom.utils computes", values)
    values._put(values._storage, np.reshape(elements, values._storage.shape))


def _reduced(sums: NDArray[Any], like: array, out: array | None, axis: int | None) -> Any:
    """Sums of components as the result of a reduction."""
    if out is not None:
        _write_all(out, sums)
        return out
    if axis is not None:
        return array._wrap(np.ascontiguousarray(sums), like.dtype).to(like.device)
    if not isinstance(like.dtype, CompositeClass):
        return sums.item()
    element: Any = like.dtype
    return element._of(sums)


def _check_float(values: array) -> None:
    scalar = _scalar(values.dtype)
    if scalar.name not in ("float32", "float64"):
        raise TypeError(f"sums are of float32 or float64, not {scalar.name}")


def array_sum(values: array, out: array | None = None, value_count: int | None = None, axis: int | None = None) -> Any:
    """The sum of an array's elements, or sums along an axis.

    Parameters
    ----------
    values : array
        Elements of `float32`, `float64`, or of vectors and the like of these.
    out : array, optional
        Where the result goes.
    value_count : int, optional
        How many elements to add; all by default. With `axis`, how many along it.
    axis : int, optional
        The axis along which to add, negative from the last; the result has extent 1 along it.

    Returns
    -------
    A number or a vector; with `out` or `axis`, an array.
    """
    values = _of(values, "array_sum", "values")
    _check_float(values)
    if axis is None:
        return _reduced(_first(values, value_count, "the array").sum(axis=0), values, out, axis)
    elements, along = _along(values, axis, value_count)
    return _reduced(elements.sum(axis=along, keepdims=True), values, out, axis)


def array_inner(a: array, b: array, out: array | None = None, count: int | None = None, axis: int | None = None) -> Any:
    """The sum of products of the elements, and of their components, of two arrays of one shape and type.

    Parameters as for `array_sum`; the result is a number, or an array of numbers.
    """
    a, b = _of(a, "array_inner", "a"), _of(b, "array_inner", "b")
    _check_float(a)
    if a.shape != b.shape or a.dtype is not b.dtype:
        raise ValueError(f"inner products are of arrays of one shape and type, not of {a.shape} and {b.shape}")
    within = tuple(range(a.ndim, a._storage.ndim))
    if axis is None:
        products = _first(a, count, "the array") * _first(b, count, "the array")
        sums = products.sum()
    else:
        (left, along), (right, _) = _along(a, axis, count), _along(b, axis, count)
        sums = (left * right).sum(axis=within).sum(axis=along, keepdims=True)
    scalar = _scalar(a.dtype)
    if out is None and axis is not None:
        return array._wrap(np.ascontiguousarray(sums), scalar).to(a.device)
    if out is None:
        return sums.item()
    _write_all(out, sums)
    return out


def array_scan(in_array: array, out_array: array, inclusive: bool = True) -> None:
    """Writes running sums of an array's elements; components are summed each for itself.

    Parameters
    ----------
    in_array, out_array : array
        Of one shape and type, and perhaps the same.
    inclusive : bool
        Whether an element's sum counts the element.
    """
    in_array, out_array = _of(in_array, "array_scan", "in_array"), _of(out_array, "array_scan", "out_array")
    if in_array.shape != out_array.shape or in_array.dtype is not out_array.dtype:
        raise ValueError("running sums go into an array of the same shape and type")
    storage = _first(in_array, None, "the array")
    sums = np.cumsum(storage, axis=0, dtype=storage.dtype)
    if not inclusive:
        sums = np.concatenate([np.zeros_like(storage[:1]), sums[:-1]])
    _write_all(out_array, sums)


def array_cast(in_array: array, out_array: array, count: int | None = None) -> None:
    """Writes an array's numbers as numbers of another type.

    Parameters
    ----------
    in_array, out_array : array
        Of one shape, or with as many numbers.
    count : int, optional
        How many elements to convert; all by default.
    """
    in_array, out_array = _of(in_array, "array_cast", "in_array"), _of(out_array, "array_cast", "out_array")
    target = out_array._storage
    source = in_array._elements() if count is None else _first(in_array, count, "the source")
    inner = math.prod(target.shape[out_array.ndim :])
    room = target.size if count is None else count * inner
    if source.size != room:
        raise ValueError(f"{source.size} numbers do not go into an array of {room}")
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = source.astype(target.dtype)
    if count is None:
        _write_all(out_array, numbers)
    else:
        _write(out_array, count, "the destination", numbers)


def radix_sort_pairs(keys: array, values: array, count: int, begin_bit: int = 0, end_bit: int | None = None) -> None:
    """Sorts the first elements of two arrays by the keys, keeping the order of equal ones.

    Parameters
    ----------
    keys : array
        Of `int32`, `uint32`, `int64`, `uint64`, `float32` or `float64`.
    values : array
        What goes with the keys.
    count : int
        How many elements to sort. As for Warp, both arrays have room for twice as many.
    begin_bit, end_bit : int, optional
        Of the keys' bits, counted from the lowest, those that decide; all by default.
    """
    keys, values = _of(keys, "radix_sort_pairs", "keys"), _of(values, "radix_sort_pairs", "values")
    if min(keys.size, values.size) < 2 * count:
        raise ValueError(f"to sort {count} pairs both arrays need room for {2 * count}")
    bits = _ordered_bits(_first(keys, count, "the array of keys"))
    n_bits = bits.dtype.itemsize * 8
    end = n_bits if end_bit is None else end_bit
    if not 0 <= begin_bit <= end <= n_bits:
        raise ValueError(f"bits {begin_bit} to {end} are no bits of a key of {n_bits}")
    mask = (1 << end) - (1 << begin_bit)
    order = np.argsort(bits & bits.dtype.type(mask), kind="stable")
    for each in (keys, values):
        _write(each, count, "an array to sort", _first(each, count, "an array to sort")[order])


def segmented_sort_pairs(
    keys: array,
    values: array,
    count: int,
    segment_start_indices: array,
    segment_end_indices: array | None = None,
) -> None:
    """Sorts pairs by the keys within segments, keeping the order of equal keys.

    Parameters
    ----------
    keys : array
        Of `int32`, `uint32`, `int64`, `uint64`, `float32` or `float64`.
    values : array
        What goes with the keys.
    count : int
        How many pairs there are. As for Warp, both arrays have room for twice as many.
    segment_start_indices : array
        Of `int32`: where each segment begins.
    segment_end_indices : array, optional
        Of `int32`: where each ends, which is the first pair after it. Without, each ends where the next begins, and the
        last number of `segment_start_indices` is the end of the last segment.

    Examples
    --------
    >>> import polyloom as loom
    >>> keys = loom.array([3, 1, 2, 0, 0, 0, 0, 0], dtype=int)
    >>> values = loom.array([10, 11, 12, 13, 0, 0, 0, 0], dtype=int)
    >>> loom.utils.segmented_sort_pairs(keys, values, 4, loom.array([0, 2, 4], dtype=int))
    >>> keys.list()[:4], values.list()[:4]
    ([1, 3, 0, 2], [11, 10, 13, 12])
    """
    function = "segmented_sort_pairs"
    keys, values = _of(keys, function, "keys"), _of(values, function, "values")
    if min(keys.size, values.size) < 2 * count:
        raise ValueError(f"to sort {count} pairs both arrays need room for {2 * count}")
    starts = _of(segment_start_indices, function, "segment_start_indices")._elements()
    if segment_end_indices is None:
        starts, ends = starts[:-1], starts[1:]
    else:
        ends = _of(segment_end_indices, function, "segment_end_indices")._elements()
    if starts.dtype != np.int32 or ends.dtype != np.int32 or starts.shape != ends.shape or starts.ndim != 1:
        raise TypeError("segments begin and end at the indices of two arrays of int32, equally long")
    bits = _ordered_bits(_first(keys, count, "the array of keys"))
    order = np.arange(count)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if not 0 <= start <= count or not 0 <= end <= count:
            raise ValueError(f"the segment from {start} to {end} is not within {count} pairs")
        # Segments are sorted one after another, so that they may overlap.
        order[start:end] = order[start:end][np.argsort(bits[order[start:end]], kind="stable")]
    for each in (keys, values):
        _write(each, count, "an array to sort", _first(each, count, "an array to sort")[order])


def _ordered_bits(keys: NDArray[Any]) -> NDArray[Any]:
    """The keys' bits changed so that unsigned integers of them are ordered as the keys are."""
    if keys.dtype.kind not in "iuf" or keys.dtype.itemsize not in (4, 8):
        raise TypeError(f"keys are integers or floats of 32 or 64 bits, not {keys.dtype}")
    unsigned = np.dtype(f"u{keys.dtype.itemsize}")
    top = unsigned.type(1 << (keys.dtype.itemsize * 8 - 1))
    bits: NDArray[Any] = keys.view(unsigned)
    if keys.dtype.kind == "i":
        bits = bits ^ top
    elif keys.dtype.kind == "f":
        bits = np.where(bits & top, ~bits, bits | top)
    return bits


def runlength_encode(
    values: array,
    run_values: array,
    run_lengths: array,
    run_count: array | None = None,
    value_count: int | None = None,
) -> Any:
    """Writes each run of equal values once, with its length.

    Parameters
    ----------
    values, run_values, run_lengths : array
        Of `int32`; the last two are as long as the first.
    run_count : array, optional
        Gets the number of runs.
    value_count : int, optional
        How many values there are; all by default.

    Returns
    -------
    int or array
        The number of runs, in `run_count` if that is given.
    """
    found = _first(values, value_count, "the array")
    starts = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]])) if len(found) else np.zeros(0, int)
    n = len(starts)
    if min(run_values.size, run_lengths.size) < len(found):
        raise ValueError(f"the runs of {len(found)} values need arrays as long")
    _write(run_values, n, "the array of runs", found[starts])
    _write(run_lengths, n, "the array of lengths", np.diff(np.append(starts, len(found))))
    if run_count is None:
        return n
    run_count[0] = n
    return run_count
