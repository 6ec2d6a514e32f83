"""PyTorch's kernels for tensor ops: what the backends `CPU_TORCH` and `GPU_TORCH` run.

`kernels()` has a function for each op that PyTorch can compute, by the op's name, with the arguments that
`_numpy_kernels` describes. PyTorch is imported when it is called first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Axes = Sequence[int] | None


@functools.cache
def dtypes() -> dict[str, Any]:
    """PyTorch's element types by NumPy's names for them: those in which it computes."""
    import torch

    names = ["float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"]
    return {name: getattr(torch, name) for name in names}


def dtype_of(dtype: Any) -> Any:
    """PyTorch's element type for one of NumPy's.

    Raises
    ------
    NotImplementedError
        PyTorch does not compute in it.
    """
    name = np.dtype(dtype).name
    if name not in dtypes():
        raise NotImplementedError(f"PyTorch does not compute with {name}")
    return dtypes()[name]


def _pair(values: Axes, n: int, otherwise: int) -> list[int]:
    given = list(values) if values else [otherwise]
    return given * n if len(given) == 1 else given


@functools.cache
def kernels() -> dict[str, Callable[..., Any]]:
    """The kernels by names of ops."""
    import torch
    from torch.nn import functional

    def floating(x: Any) -> Any:
        return x if x.is_floating_point() else x.to(torch.float64)

    def axes_of(x: Any, axes: Axes) -> list[int]:
        return list(range(x.dim())) if axes is None else list(axes)

    def reduction(function: Any) -> Callable[[Any, Axes, bool], Any]:
        def reduced(x: Any, axes: Axes, keepdims: bool) -> Any:
            found = axes_of(x, axes)
            # PyTorch takes no axes for all of them.
            return function(x, found, keepdims) if found else x

        return reduced

    def one_by_one(function: Any) -> Callable[[Any, Axes, bool], Any]:
        def reduced(x: Any, axes: Axes, keepdims: bool) -> Any:
            for axis in reversed(axes_of(x, axes)):
                x = function(x, axis, keepdims)
            return x

        return reduced

    def total(x: Any, axes: list[int], keepdims: bool) -> Any:
        return torch.sum(x, axes, keepdim=keepdims)

    def var(x: Any, axes: Axes, keepdims: bool, correction: int) -> Any:
        return torch.var(floating(x), axes_of(x, axes), correction=correction, keepdim=keepdims)

    def std(x: Any, axes: Axes, keepdims: bool, correction: int) -> Any:
        return torch.std(floating(x), axes_of(x, axes), correction=correction, keepdim=keepdims)

    def argument(function: Any) -> Callable[[Any, int | None, bool], Any]:
        def found(x: Any, axis: int | None, keepdims: bool) -> Any:
            if axis is None and keepdims:
                return function(x).reshape([1] * x.dim())
            return function(x) if axis is None else function(x, axis, keepdim=keepdims)

        return found

    def cast(x: Any, dtype: Any) -> Any:
        to = dtype_of(dtype)
        if x.is_floating_point() and not to.is_floating_point and to is not torch.bool:
            raise NotImplementedError("PyTorch leaves casts of numbers out of range to the machine")
        return x.to(to)

    def layer_norm(x: Any, weight: Any, bias: Any, axis: int, epsilon: float) -> Any:
        return functional.layer_norm(x, x.shape[axis:], weight, bias, epsilon)

    def rms_norm(x: Any, weight: Any, axis: int, epsilon: float) -> Any:
        return functional.rms_norm(x, x.shape[axis:], weight, epsilon)

    def group_norm(x: Any, weight: Any, bias: Any, groups: int, epsilon: float) -> Any:
        return functional.group_norm(x, groups, weight, bias, epsilon)

    def sort(x: Any, axis: int, descending: bool) -> Any:
        return torch.sort(x, axis, descending=descending)[0]

    def sliced(x: Any, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Any:
        for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
            if step > 0 or size < 2:
                stop = start + max(size - 1, 0) * max(step, 1) + (size > 0)
                x = x[(slice(None),) * axis + (slice(start, stop, max(step, 1)),)]
            else:
                lowest = start + (size - 1) * step
                x = torch.flip(x[(slice(None),) * axis + (slice(lowest, start + 1, -step),)], [axis])
        return x

    def windows(x: Any, axes: Axes, sizes: Axes, steps: Axes, dilations: Axes) -> Any:
        for axis, size, step, dilation in zip(axes or (), sizes or (), steps or (), dilations or (), strict=True):
            x = x.unfold(axis, (size - 1) * dilation + 1, step)[..., ::dilation]
        return x

    def nearest(index: Any, extent: int) -> Any:
        index = index.long()
        return torch.where(index < 0, index + extent, index).clamp(0, extent - 1)

    def gather(x: Any, index: Any, axis: int) -> Any:
        return torch.gather(x, axis, nearest(index, x.shape[axis]))

    def take(x: Any, index: Any, axis: int) -> Any:
        flat = torch.index_select(x, axis, nearest(index, x.shape[axis]).reshape(-1))
        return flat.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])

    def pad(x: Any, widths: Sequence[int], value: float) -> Any:
        pairs = np.reshape(widths, (-1, 2))[::-1].reshape(-1).tolist()
        return functional.pad(x, pairs, value=value)

    def concat(*arguments: Any) -> Any:
        return torch.cat(arguments[:-1], dim=arguments[-1])

    def stack(*arguments: Any) -> Any:
        return torch.stack(arguments[:-1], dim=arguments[-1])

    def letters(labels: Sequence[int]) -> str:
        return "".join(chr(ord("a") + label) for label in labels)

    def contract(a: Any, b: Any, a_labels: Sequence[int], b_labels: Sequence[int], labels: Sequence[int]) -> Any:
        return torch.einsum(f"{letters(a_labels)},{letters(b_labels)}->{letters(labels)}", a, b)

    def einsum(*arguments: Any) -> Any:
        *operands, equation = arguments
        return torch.einsum(equation, *[each for each in operands if each is not None])

    def attention(q: Any, k: Any, v: Any, causal: bool, scale: float | None) -> Any:
        mask = None
        if causal:
            n, m = q.shape[-2], k.shape[-2]
            mask = torch.ones(n, m, dtype=torch.bool, device=q.device).tril(m - n)
        return functional.scaled_dot_product_attention(q, k, v, mask, scale=scale)

    def padded(x: Any, padding: Axes, n: int, value: float) -> Any:
        widths = _pair(padding, n, 0)
        pairs = [(w, w) for w in widths] if len(widths) == n else list(zip(widths[::2], widths[1::2], strict=True))
        return functional.pad(x, [w for pair in reversed(pairs) for w in pair], value=value) if any(widths) else x

    def convolution(n: int) -> Callable[..., Any]:
        function = functional.conv1d if n == 1 else functional.conv2d

        def convolved(x: Any, weight: Any, bias: Any, stride: Axes, padding: Axes, dilation: Axes, groups: int) -> Any:
            x = padded(x, padding, n, 0)
            return function(x, weight, bias, _pair(stride, n, 1), 0, _pair(dilation, n, 1), groups)

        return convolved

    def max_pool2d(x: Any, size: Axes, stride: Axes, padding: Axes, dilation: Axes) -> Any:
        x, sizes = padded(floating(x), padding, 2, -math.inf), _pair(size, 2, 1)
        return functional.max_pool2d(x, sizes, _pair(stride, 2, 1) if stride else sizes, 0, _pair(dilation, 2, 1))

    def avg_pool2d(x: Any, size: Axes, stride: Axes, padding: Axes, count_padding: bool) -> Any:
        sizes = _pair(size, 2, 1)
        steps = _pair(stride, 2, 1) if stride else sizes
        x = floating(x)
        totals = functional.avg_pool2d(padded(x, padding, 2, 0), sizes, steps, divisor_override=1)
        if count_padding:
            return totals / math.prod(sizes)
        ones = padded(torch.ones(1, 1, *x.shape[-2:], dtype=x.dtype, device=x.device), padding, 2, 0)
        return totals / functional.avg_pool2d(ones, sizes, steps, divisor_override=1)

    same = (
        "add subtract multiply divide floor_divide remainder negative absolute sign square reciprocal maximum minimum "
        "floor ceil trunc round copysign sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan "
        "atan2 sinh cosh tanh asinh acosh atanh erf erfc hypot isnan isinf isfinite logical_and logical_or logical_xor "
        "logical_not bitwise_and bitwise_or bitwise_xor where sigmoid matmul permute"
    )
    compared = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt"}
    return {
        **{name: getattr(torch, name) for name in same.split()},
        **{name: getattr(torch, short) for name, short in compared.items()},
        "greater_equal": torch.ge,
        "power": torch.pow,
        "invert": torch.bitwise_not,
        "clip": lambda x, lower, upper: torch.minimum(torch.maximum(x, lower), upper),
        "cast": cast,
        "bitcast": lambda x, dtype: x.view(dtype_of(dtype)),
        "relu": functional.relu,
        "leaky_relu": functional.leaky_relu,
        "gelu": lambda x, approximate: functional.gelu(x, approximate=approximate),
        "silu": functional.silu,
        "softplus": lambda x: torch.logaddexp(x, torch.zeros((), dtype=x.dtype, device=x.device)),
        "sum": reduction(total),
        "prod": one_by_one(lambda x, axis, keepdims: torch.prod(x, axis, keepdim=keepdims)),
        "mean": reduction(lambda x, axes, keepdims: torch.mean(floating(x), axes, keepdim=keepdims)),
        "max": reduction(lambda x, axes, keepdims: torch.amax(x, axes, keepdim=keepdims)),
        "min": reduction(lambda x, axes, keepdims: torch.amin(x, axes, keepdim=keepdims)),
        "all": one_by_one(lambda x, axis, keepdims: torch.all(x, axis, keepdim=keepdims)),
        "any": one_by_one(lambda x, axis, keepdims: torch.any(x, axis, keepdim=keepdims)),
        "argmax": argument(torch.argmax),
        "argmin": argument(torch.argmin),
        "var": var,
        "std": std,
        "logsumexp": reduction(lambda x, axes, keepdims: torch.logsumexp(floating(x), axes, keepdim=keepdims)),
        "norm": reduction(lambda x, axes, keepdims: torch.linalg.vector_norm(floating(x), 2, axes, keepdim=keepdims)),
        "softmax": lambda x, axis: torch.softmax(floating(x), axis),
        "log_softmax": lambda x, axis: torch.log_softmax(floating(x), axis),
        "layer_norm": layer_norm,
        "rms_norm": rms_norm,
        "group_norm": group_norm,
        "cumsum": torch.cumsum,
        "cumprod": torch.cumprod,
        "cummax": lambda x, axis: torch.cummax(x, axis)[0],
        "cummin": lambda x, axis: torch.cummin(x, axis)[0],
        "sort": sort,
        "argsort": lambda x, axis, descending: torch.argsort(x, dim=axis, descending=descending, stable=True),
        "reshape": torch.reshape,
        "transpose": torch.transpose,
        "slice": sliced,
        "flip": lambda x, axes: torch.flip(x, axes_of(x, axes)),
        "windows": windows,
        "broadcast_to": torch.broadcast_to,
        "contiguous": lambda x: x.contiguous(),
        "gather": gather,
        "take": take,
        "embedding": lambda weight, index: take(weight, index, 0),
        "concat": concat,
        "stack": stack,
        "pad": pad,
        "tile": torch.tile,
        "contract": contract,
        "einsum": einsum,
        "linear": functional.linear,
        "attention": attention,
        "conv1d": convolution(1),
        "conv2d": convolution(2),
        "max_pool2d": max_pool2d,
        "avg_pool2d": avg_pool2d,
    }
