"""NumPy's kernels for tensor ops: what the backend `CPU_NUMPY` runs.

`KERNELS` has a function for each op that NumPy can compute, by the op's name in the table of tensor ops. It is given
the operands, which are arrays or NumPy's scalars, and then the attributes in the order of the table and in canonical
form: axes ascending and not negative, shapes without -1. An optional operand that is absent is None. Whoever calls it
casts the result to the type that the graph says, so that sums need not say theirs. An op that is not here has no kernel
of NumPy: random numbers are Polyloom's own, and shifts beyond the width mean something else in C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Axes = Sequence[int] | None


def _axes(axes: Axes) -> tuple[int, ...] | None:
    return None if axes is None else tuple(axes)


def _divide(a: Any, b: Any) -> Any:
    return np.true_divide(a, b)


def _power(a: Any, b: Any) -> Any:
    if np.result_type(a, b).kind in "iu" and np.result_type(b).kind == "i":
        return np.where(np.less(b, 0), 0, np.power(a, np.maximum(b, 0)))
    return np.power(a, b)


def _cast(x: Any, dtype: Any) -> Any:
    x = np.asarray(x)
    if x.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        # Polyloom saturates, and NaN is 0; NumPy leaves both to the machine.
        limits = np.iinfo(dtype)
        whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0))
        inside = np.clip(whole, float(limits.min), np.nextafter(float(limits.max), 0.0)).astype(dtype)
        inside = np.where(whole >= float(limits.max), limits.max, inside)
        return np.where(whole <= float(limits.min), limits.min, inside).astype(dtype)
    return x.astype(dtype)


def _gelu(x: Any, approximate: str) -> Any:
    if approximate != "tanh":
        raise NotImplementedError("NumPy has no error function")
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + np.tanh(inner))


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(np.less(x, 0), e, 1) / (1 + e)


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _var(x: Any, axes: Axes, keepdims: bool, correction: int) -> Any:
    return np.var(x, axis=_axes(axes), keepdims=keepdims, ddof=correction)


def _std(x: Any, axes: Axes, keepdims: bool, correction: int) -> Any:
    return np.std(x, axis=_axes(axes), keepdims=keepdims, ddof=correction)


def _logsumexp(x: Any, axes: Axes, keepdims: bool) -> Any:
    most = np.max(x, axis=_axes(axes), keepdims=True)
    most = np.where(np.isfinite(most), most, 0)
    total = np.log(np.sum(np.exp(x - most), axis=_axes(axes), keepdims=True)) + most
    return total if keepdims else np.squeeze(total, axis=_axes(axes))


def _norm(x: Any, axes: Axes, keepdims: bool) -> Any:
    return np.sqrt(np.sum(np.square(x), axis=_axes(axes), keepdims=keepdims))


def _softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _log_softmax(x: Any, axis: int) -> Any:
    centred = x - np.max(x, axis=axis, keepdims=True)
    return centred - np.log(np.sum(np.exp(centred), axis=axis, keepdims=True))


def _scaled(x: Any, weight: Any, bias: Any, axis: int) -> Any:
    """Multiplies by a weight and adds a bias of the axes from one on."""
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


def _layer_norm(x: Any, weight: Any, bias: Any, axis: int, epsilon: float) -> Any:
    axes = tuple(range(axis, np.ndim(x)))
    centred = x - np.mean(x, axis=axes, keepdims=True)
    return _scaled(
        centred / np.sqrt(np.mean(np.square(centred), axis=axes, keepdims=True) + epsilon), weight, bias, axis
    )


def _rms_norm(x: Any, weight: Any, axis: int, epsilon: float) -> Any:
    axes = tuple(range(axis, np.ndim(x)))
    return _scaled(x / np.sqrt(np.mean(np.square(x), axis=axes, keepdims=True) + epsilon), weight, None, axis)


def _group_norm(x: Any, weight: Any, bias: Any, groups: int, epsilon: float) -> Any:
    grouped = np.reshape(x, (x.shape[0], groups, -1))
    centred = grouped - np.mean(grouped, axis=2, keepdims=True)
    normal = centred / np.sqrt(np.mean(np.square(centred), axis=2, keepdims=True) + epsilon)
    per_channel = (-1,) + (1,) * (x.ndim - 2)
    shaped = [None if each is None else np.reshape(each, per_channel) for each in (weight, bias)]
    return _scaled(normal.reshape(x.shape), shaped[0], shaped[1], 1)


def _accumulated(ufunc: Any) -> Callable[[Any, int], Any]:
    return lambda x, axis: ufunc.accumulate(x, axis=axis)


def _linear_recurrence(a: Any, b: Any, axis: int) -> Any:
    a, b = np.broadcast_arrays(a, b)
    states = np.array(b)
    rows, factors = np.moveaxis(states, axis, 0), np.moveaxis(a, axis, 0)
    for i in range(1, len(rows)):
        rows[i] += factors[i] * rows[i - 1]
    return states


def _sort(x: Any, axis: int, descending: bool) -> Any:
    if descending:
        raise NotImplementedError("NumPy sorts in ascending order")
    return np.sort(x, axis=axis)


def _argsort(x: Any, axis: int, descending: bool) -> Any:
    if descending:
        raise NotImplementedError("NumPy sorts in ascending order")
    return np.argsort(x, axis=axis, kind="stable")


def _slice(x: Any, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Any:
    index = []
    for start, size, step in zip(starts, sizes, steps, strict=True):
        stop = start + size * step
        index.append(slice(start, None if stop < 0 else stop, step) if size else slice(0, 0))
    return x[tuple(index)]


def _windows(x: Any, axes: Sequence[int], sizes: Sequence[int], steps: Sequence[int], dilations: Sequence[int]) -> Any:
    shape, strides = list(x.shape), list(x.strides)
    for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        shape[axis] = (shape[axis] - (size - 1) * dilation - 1) // step + 1
        shape.append(size)
        strides.append(strides[axis] * dilation)
        strides[axis] *= step
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def _nearest(index: Any, extent: int) -> Any:
    """Indices from the end become those from the start, and those out of range the nearest."""
    index = index.astype(np.int64)
    return np.clip(np.where(index < 0, index + extent, index), 0, extent - 1)


def _gather(x: Any, index: Any, axis: int) -> Any:
    return np.take_along_axis(x, _nearest(index, x.shape[axis]), axis)


def _take(x: Any, index: Any, axis: int) -> Any:
    return np.take(x, _nearest(index, x.shape[axis]), axis)


def _scatter_add(x: Any, index: Any, updates: Any, axis: int) -> Any:
    index = index.astype(np.int64)
    index = np.where(index < 0, index + x.shape[axis], index)
    is_inside = (index >= 0) & (index < x.shape[axis])
    places = list(np.indices(index.shape))
    places[axis] = np.where(is_inside, index, 0)
    result = np.array(x)
    np.add.at(result, tuple(places), np.where(is_inside, updates, 0).astype(result.dtype))
    return result


def _one_hot(index: Any, classes: int, dtype: Any) -> Any:
    return (index[..., None] == np.arange(classes)).astype(dtype)


def _pad(x: Any, widths: Sequence[int], value: float) -> Any:
    return np.pad(x, np.reshape(widths, (-1, 2)), constant_values=value)


def _iota(shape: Sequence[int], axis: int, dtype: Any) -> Any:
    along = np.arange(shape[axis], dtype=dtype).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(along, shape)


def _contract(a: Any, b: Any, a_labels: Sequence[int], b_labels: Sequence[int], labels: Sequence[int]) -> Any:
    return np.einsum(a, list(a_labels), b, list(b_labels), list(labels), optimize=True)


def _einsum(*arguments: Any) -> Any:
    *operands, equation = arguments
    return np.einsum(equation, *[each for each in operands if each is not None], optimize=True)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return _scaled(np.matmul(x, np.swapaxes(weight, -1, -2)), None, bias, -1)


def _attention(q: Any, k: Any, v: Any, causal: bool, scale: float | None) -> Any:
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        n, m = scores.shape[-2:]
        scores = np.where(np.arange(m) > np.arange(n)[:, None] + m - n, -np.inf, scores)
    return np.matmul(_softmax(scores, -1), v)


def _pair(values: Sequence[int] | None, n: int, otherwise: int) -> list[int]:
    given = [otherwise] if not values else list(values)
    return given * n if len(given) == 1 else given


def _padded(x: Any, padding: Sequence[int] | None, n: int, value: float) -> Any:
    """Adds elements around the last `n` axes: one width, one for each axis, or two for each."""
    widths = _pair(padding, n, 0)
    pairs = [(w, w) for w in widths] if len(widths) == n else list(zip(widths[::2], widths[1::2], strict=True))
    if not any(map(any, pairs)):
        return x
    return np.pad(x, [(0, 0)] * (x.ndim - n) + pairs, constant_values=value)


def _convolution(n: int) -> Callable[..., Any]:
    def convolution(x: Any, weight: Any, bias: Any, stride: Axes, padding: Axes, dilation: Axes, groups: int) -> Any:
        x = _padded(x, padding, n, 0)
        spatial = list(range(2, 2 + n))
        windows = _windows(x, spatial, weight.shape[2:], _pair(stride, n, 1), _pair(dilation, n, 1))
        batch, places = windows.shape[0], windows.shape[2 : 2 + n]
        windows = windows.reshape(batch, groups, -1, *places, *weight.shape[2:])
        weights = weight.reshape(groups, -1, *weight.shape[1:])
        # Batch 0, group 1, channel 2, output 3, then places and offsets.
        at, offset = list(range(4, 4 + n)), list(range(4 + n, 4 + 2 * n))
        result = np.einsum(windows, [0, 1, 2, *at, *offset], weights, [1, 3, 2, *offset], [0, 1, 3, *at], optimize=True)
        result = result.reshape(batch, -1, *places)
        return result if bias is None else result + np.reshape(bias, (-1, *[1] * n))

    return convolution


def _max_pool2d(x: Any, size: Axes, stride: Axes, padding: Axes, dilation: Axes) -> Any:
    lowest = -np.inf if x.dtype.kind == "f" else False if x.dtype.kind == "b" else np.iinfo(x.dtype).min
    x, sizes = _padded(x, padding, 2, lowest), _pair(size, 2, 1)
    axes = [x.ndim - 2, x.ndim - 1]
    return np.max(
        _windows(x, axes, sizes, _pair(stride, 2, 0) if stride else sizes, _pair(dilation, 2, 1)), axis=(-2, -1)
    )


def _avg_pool2d(x: Any, size: Axes, stride: Axes, padding: Axes, count_padding: bool) -> Any:
    sizes = _pair(size, 2, 1)
    steps, axes = _pair(stride, 2, 0) if stride else sizes, [x.ndim - 2, x.ndim - 1]
    totals = np.sum(_windows(_padded(x, padding, 2, 0), axes, sizes, steps, [1, 1]), axis=(-2, -1))
    if count_padding:
        return totals / math.prod(sizes)
    ones = _padded(np.ones(x.shape[-2:], totals.dtype), padding, 2, 0)
    return totals / np.sum(_windows(ones, [0, 1], sizes, steps, [1, 1]), axis=(-2, -1))


def _reduction(function: Any) -> Callable[[Any, Axes, bool], Any]:
    return lambda x, axes, keepdims: function(x, axis=_axes(axes), keepdims=keepdims)


def _sum_of(function: Any) -> Callable[[Any, Axes, bool], Any]:
    def total(x: Any, axes: Axes, keepdims: bool) -> Any:
        # Halves are added up in 32 bits, as Polyloom does.
        x = np.asarray(x)
        dtype = np.float32 if x.dtype == np.float16 else None
        return function(x, axis=_axes(axes), keepdims=keepdims, dtype=dtype)

    return total


KERNELS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(np, name)
        for name in (
            "add",
            "subtract",
            "multiply",
            "floor_divide",
            "remainder",
            "negative",
            "absolute",
            "sign",
            "square",
            "reciprocal",
            "maximum",
            "minimum",
            "floor",
            "ceil",
            "trunc",
            "copysign",
            "sqrt",
            "cbrt",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "hypot",
            "isnan",
            "isinf",
            "isfinite",
            "equal",
            "not_equal",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
            "logical_and",
            "logical_or",
            "logical_xor",
            "logical_not",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "invert",
            "where",
            "matmul",
        )
    },
    "divide": _divide,
    "power": _power,
    "round": np.rint,
    "clip": lambda x, lower, upper: np.minimum(np.maximum(x, lower), upper),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cast": _cast,
    "bitcast": lambda x, dtype: np.asarray(x).view(dtype),
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, negative_slope: np.where(np.greater(x, 0), x, x * negative_slope),
    "gelu": _gelu,
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "sum": _sum_of(np.sum),
    "prod": _sum_of(np.prod),
    "mean": _sum_of(np.mean),
    "max": _reduction(np.max),
    "min": _reduction(np.min),
    "all": _reduction(np.all),
    "any": _reduction(np.any),
    "argmax": lambda x, axis, keepdims: np.argmax(x, axis=axis, keepdims=keepdims),
    "argmin": lambda x, axis, keepdims: np.argmin(x, axis=axis, keepdims=keepdims),
    "var": _var,
    "std": _std,
    "logsumexp": _logsumexp,
    "norm": _norm,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "cumsum": _accumulated(np.add),
    "cumprod": _accumulated(np.multiply),
    "cummax": _accumulated(np.maximum),
    "cummin": _accumulated(np.minimum),
    "linear_recurrence": _linear_recurrence,
    "sort": _sort,
    "argsort": _argsort,
    "reshape": lambda x, shape: np.reshape(x, shape),
    "permute": lambda x, axes: np.transpose(x, axes),
    "transpose": lambda x, axis1, axis2: np.swapaxes(x, axis1, axis2),
    "slice": _slice,
    "flip": lambda x, axes: np.flip(x, _axes(axes)),
    "windows": _windows,
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "contiguous": np.ascontiguousarray,
    "gather": _gather,
    "take": _take,
    "embedding": lambda weight, index: _take(weight, index, 0),
    "scatter_add": _scatter_add,
    "one_hot": _one_hot,
    "concat": lambda *arguments: np.concatenate(arguments[:-1], axis=arguments[-1]),
    "stack": lambda *arguments: np.stack(arguments[:-1], axis=arguments[-1]),
    "pad": _pad,
    "tile": lambda x, repeats: np.tile(x, repeats),
    "iota": _iota,
    "contract": _contract,
    "einsum": _einsum,
    "linear": _linear,
    "attention": _attention,
    "conv1d": _convolution(1),
    "conv2d": _convolution(2),
    "max_pool2d": _max_pool2d,
    "avg_pool2d": _avg_pool2d,
}
