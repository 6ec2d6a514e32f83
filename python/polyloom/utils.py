"""Functions over whole arrays, by the names that Warp has in `wp.utils`; their errors are of Warp's classes.

>>> import polyloom as loom
>>> x = loom.array([3, 1, 2], dtype=int)
>>> loom.utils.array_scan(x, x)
>>> x.list()
[3, 4, 6]
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyloom import _native
from polyloom._absent import absent_members
from polyloom._arrays import _scalar, array
from polyloom._compatibility import Module, ScopedTimer, get_module
from polyloom._map import _source
from polyloom._scalars import int32
from polyloom._tape import refuse

__all__ = [
    "ScopedTimer",
    "array_cast",
    "array_inner",
    "array_scan",
    "array_sum",
    "create_warp_function",
    "radix_sort_pairs",
    "runlength_encode",
    "segmented_sort_pairs",
]

__getattr__ = absent_members(
    __name__,
    {
        "AllocatorRmm",
        "GraphColoringAlgorithm",
        "graph_coloring_assign",
        "graph_coloring_balance",
        "graph_coloring_get_groups",
    },
)


def _of(values: Any, function: str, parameter: str) -> array:
    """An argument as an array: one of NumPy's is seen in its own memory."""
    if isinstance(values, array):
        return values
    if isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray):
        return array(values, copy=False, device="cpu")  # type: ignore[no-any-return]
    what = type(values).__name__
    raise TypeError(f"{function}() takes arrays: `{parameter}` is a {what}, pass polyloom.array({parameter}), say")


def _along(function: str, values: array, axis: int, count: int | None) -> tuple[NDArray[Any], int]:
    """The elements, of which along an axis no more than `count`, and the axis counted from the first."""
    if not -values.ndim <= axis < values.ndim:
        raise IndexError(f"{function}() axis {axis} is out of bounds: the array has {values.ndim} dimensions")
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


def _reduced(sums: NDArray[Any], dtype: Any, like: array, out: array | None, axis: int | None) -> Any:
    """Sums as the result of a reduction, whose elements have the type `dtype`."""
    if out is not None:
        shape = (1,) if axis is None else sums.shape[: like.ndim]
        if out.dtype is not dtype:
            raise RuntimeError(f"out array should have type {_name(dtype)}")
        if out.shape != shape:
            raise RuntimeError(f"out array should have shape {shape}")
        _write_all(out, sums)
        return out
    if axis is not None:
        return array._wrap(np.ascontiguousarray(sums), dtype).to(like.device)
    return sums[()]


def _check_float(values: array) -> None:
    if _scalar(values.dtype).name not in ("float32", "float64"):
        raise RuntimeError(f"sums are of float32 and float64. Unsupported data type: {_name(values.dtype)}")


def _name(dtype: Any) -> str:
    return str(getattr(dtype, "__name__", dtype))


def _check_contiguous(function: str, **arrays: array) -> None:
    for name, each in arrays.items():
        if not each.is_contiguous:
            raise RuntimeError(f"{function}() requires a contiguous {name} array: pass {name}.contiguous()")


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
    A number of NumPy's, or an array of NumPy's of the components' sums; with `out` or `axis`, an array.

    Raises
    ------
    RuntimeError
        If the elements are of another type, or `out` is not as the result.
    IndexError
        If there is no such axis.
    """
    values = _of(values, "array_sum", "values")
    _check_float(values)
    if axis is None:
        return _reduced(_first(values, value_count, "the array").sum(axis=0), values.dtype, values, out, axis)
    elements, along = _along("array_sum", values, axis, value_count)
    return _reduced(elements.sum(axis=along, keepdims=True), values.dtype, values, out, axis)


def array_inner(a: array, b: array, out: array | None = None, count: int | None = None, axis: int | None = None) -> Any:
    """The sum of products of the elements, and of their components, of two arrays of one shape and type.

    Parameters as for `array_sum`; the result is a number, or an array of numbers.
    """
    a, b = _of(a, "array_inner", "a"), _of(b, "array_inner", "b")
    _check_float(a)
    if a.shape != b.shape:
        raise ValueError(f"array_inner() arguments must have the same shape, got {a.shape} and {b.shape}")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"A and b array data types do not match ({_name(a.dtype)} vs {_name(b.dtype)})")
    within = tuple(range(a.ndim, a._storage.ndim))
    if axis is None:
        products = _first(a, count, "the array") * _first(b, count, "the array")
        sums = products.sum()
    else:
        (left, along), (right, _) = (_along("array_inner", each, axis, count) for each in (a, b))
        sums = (left * right).sum(axis=within).sum(axis=along, keepdims=True)
    return _reduced(sums, _scalar(a.dtype), a, out, axis)


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
    if in_array.size != out_array.size:
        raise RuntimeError(f"In and out array storage sizes do not match ({in_array.size} vs {out_array.size})")
    if in_array.dtype is not out_array.dtype:
        names = f"{_name(in_array.dtype)} vs {_name(out_array.dtype)}"
        raise RuntimeError(f"In and out array data types do not match ({names})")
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
        Of one shape. If they have different numbers of dimensions or of components, all their numbers are taken, row
        by row.
    count : int, optional
        How many elements of `in_array` to convert, if it has one dimension; all by default.

    Raises
    ------
    RuntimeError
        If the shapes differ, or one array has fewer elements than are to be converted.
    """
    in_array, out_array = _of(in_array, "array_cast", "in_array"), _of(out_array, "array_cast", "out_array")
    source, target = in_array._elements(), out_array._storage
    components = source.shape[in_array.ndim :]
    if in_array.ndim == out_array.ndim and components == target.shape[out_array.ndim :]:
        n_in, n_out, is_one_axis = in_array.size, out_array.size, in_array.ndim == 1
        inner = math.prod(components)
    else:
        n_in, n_out, is_one_axis, inner = source.size, target.size, True, 1
        count = None if count is None else count * math.prod(components)
    count = n_in if count is None else count
    if not is_one_axis and count < n_in:
        raise RuntimeError("Partial cast is not supported for arrays with more than one dimension")
    if not is_one_axis and in_array.shape != out_array.shape:
        raise RuntimeError(f"Array shapes do not match ({in_array.shape} vs {out_array.shape})")
    if not 0 <= count <= min(n_in, n_out):
        raise RuntimeError(f"Cast count ({count}) exceeds the input size ({n_in}) or output size ({n_out})")
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = source.reshape(-1)[: count * inner].astype(target.dtype)
    if numbers.size == target.size:
        _write_all(out_array, numbers)
        return
    refuse("what polyloom.utils computes", out_array)
    _check_contiguous("array_cast", out_array=out_array)
    out_array._put(target.reshape(-1)[: numbers.size], numbers)


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
        raise RuntimeError("Keys and values array storage must be large enough to contain 2*count elements")
    for name, each in (("keys", keys), ("values", values)):
        if not each.is_contiguous:
            raise RuntimeError(
                f"radix_sort_pairs() requires a contiguous {name} array, got non-contiguous {name} with data types: "
                f"{_name(keys.dtype)}, {_name(values.dtype)}"
            )
    bits = _ordered_bits(_first(keys, count, "the array of keys"))
    n_bits = bits.dtype.itemsize * 8
    end = n_bits if end_bit is None else end_bit
    if not 0 <= begin_bit <= end <= n_bits:
        raise RuntimeError(f"Invalid radix sort bit range [{begin_bit}, {end}) for {n_bits}-bit keys")
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
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"count must be an integer, got {count!r}")
    count = operator.index(count)
    if count < 0:
        raise ValueError(f"count must be non-negative, got {count}")
    if count > 0x7FFFFFFF:
        raise ValueError(f"count must not exceed {0x7FFFFFFF}, got {count}")
    if count == 0:
        return
    if min(keys.size, values.size) < 2 * count:
        raise RuntimeError("Array storage must be large enough to contain 2*count elements")
    _check_contiguous(function, keys=keys, values=values)
    starts = _segment_indices(segment_start_indices, "segment_start_indices")
    if segment_end_indices is None:
        starts, ends = starts[:-1], starts[1:]
    else:
        ends = _segment_indices(segment_end_indices, "segment_end_indices")
    if len(starts) != len(ends):
        sizes = f"{len(starts)} vs {len(ends)}"
        raise RuntimeError(f"segment_start_indices and segment_end_indices must have the same size ({sizes})")
    bits = _ordered_bits(_first(keys, count, "the array of keys"))
    order = np.arange(count)
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if not 0 <= start <= end <= count:
            raise ValueError(f"Invalid segment range at index {i}: from {start} to {end}, of {count} pairs")
        # Segments are sorted one after another, so that they may overlap.
        order[start:end] = order[start:end][np.argsort(bits[order[start:end]], kind="stable")]
    for each in (keys, values):
        _write(each, count, "an array to sort", _first(each, count, "an array to sort")[order])


def _segment_indices(values: Any, name: str) -> NDArray[Any]:
    indices = _of(values, "segmented_sort_pairs", name)
    if _scalar(indices.dtype).name != "int32":
        raise RuntimeError(f"{name} array must be of type int32")
    if indices.ndim != 1:
        raise RuntimeError(f"{name} must be one-dimensional, got {indices.ndim} dimensions")
    _check_contiguous("segmented_sort_pairs", **{name: indices})
    return indices._elements()


def create_warp_function(func: Any) -> tuple[Any, Module]:
    """A function of kernels made of a Python function or a lambda, whose parameters take every type, and its module.

    Examples
    --------
    >>> import polyloom as loom
    >>> double, _ = loom.utils.create_warp_function(lambda x: x + x)
    >>> double(2.0)
    4.0
    """
    source = _source(func)
    if source is None:
        return func, get_module(str(getattr(func, "__module__", "polyloom")))
    made = _native.Function(*source, None)
    return made, get_module(f"map_{made.key}")


def _ordered_bits(keys: NDArray[Any]) -> NDArray[Any]:
    """The keys' bits changed so that unsigned integers of them are ordered as the keys are."""
    if keys.dtype.kind not in "iuf" or keys.dtype.itemsize not in (4, 8):
        raise RuntimeError(f"keys are integers or floats of 32 or 64 bits. Unsupported data type: {keys.dtype}")
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
    values, run_values : array
        Of one type, and the second has room for all of the first.
    run_lengths : array
        Of `int32`, with as much room.
    run_count : array, optional
        Of `int32`: gets the number of runs.
    value_count : int, optional
        How many values there are; all by default.

    Returns
    -------
    int or array
        The number of runs, in `run_count` if that is given.
    """
    function = "runlength_encode"
    values, run_values = _of(values, function, "values"), _of(run_values, function, "run_values")
    run_lengths = _of(run_lengths, function, "run_lengths")
    if value_count is not None and value_count < 0:
        raise RuntimeError(f"value_count must be non-negative, got {value_count}")
    n_values = values.size if value_count is None else value_count
    if min(run_values.size, run_lengths.size) < n_values:
        raise RuntimeError(f"Output array storage sizes must be at least equal to value_count ({n_values})")
    if values.dtype is not run_values.dtype:
        names = f"{_name(values.dtype)} vs {_name(run_values.dtype)}"
        raise RuntimeError(f"values and run_values data types do not match ({names})")
    for name, each in (("run_lengths", run_lengths), ("run_count", run_count)):
        if each is not None and each.dtype is not int32:
            raise RuntimeError(f"{name} array must be of type int32")
    found = _first(values, value_count, "the array")
    starts = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]])) if len(found) else np.zeros(0, int)
    n = len(starts)
    _write(run_values, n, "the array of runs", found[starts])
    _write(run_lengths, n, "the array of lengths", np.diff(np.append(starts, len(found))))
    if run_count is None:
        return n
    run_count[0] = n
    return run_count
