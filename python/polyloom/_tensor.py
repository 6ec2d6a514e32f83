"""`Tensor`: annotations that declare the element type and the shape of a fused function's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

__all__ = ["Tensor"]


def _type_name(dtype: Any) -> str:
    """The name of an element type of NumPy, PyTorch or the package."""
    if isinstance(dtype, type) and dtype in (bool, int, float):
        return np.dtype(dtype).name
    return str(getattr(dtype, "__name__", dtype)).rpartition(".")[2]


class TensorAnnotation:
    """What `Tensor[...]` gives: an element type, and the extents if they are declared.

    Attributes
    ----------
    dtype : str
        The name of the element type.
    shape : tuple of int and str, or None
        The extents: numbers, or names that stand for one number in all arguments. None if any shape will do.
    """

    def __init__(self, dtype: str, shape: tuple[int | str, ...] | None) -> None:
        self.dtype, self.shape = dtype, shape

    def __repr__(self) -> str:
        extents = "" if self.shape is None else "".join(f", {extent!r}" for extent in self.shape)
        return f"Tensor[{self.dtype}{extents}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorAnnotation) and (self.dtype, self.shape) == (other.dtype, other.shape)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))


class Tensor:
    """Declares arguments of a fused function: `Tensor[float32]`, or with extents `Tensor[float32, "n", 128]`.

    A number is the extent that an axis has, a name the same extent wherever it stands. Each call is checked.

    Raises
    ------
    TypeError
        An argument is no tensor, or of another element type.
    ValueError
        An argument has another shape.

    Examples
    --------
    >>> import numpy as np
    >>> import polyloom as loom
    >>> from polyloom import ops
    >>> @loom.fuse
    ... def scaled(x: loom.Tensor[loom.float32, "n", 3], s: loom.Tensor[loom.float32, "n"]):
    ...     return ops.multiply(x, ops.reshape(s, (-1, 1)))
    >>> scaled(np.ones((2, 3), np.float32), np.ones(4, np.float32))
    Traceback (most recent call last):
        ...
    ValueError: `scaled`: `s` has shape (4,), and `n` is 2 by `x`
    """

    def __class_getitem__(cls, item: Any) -> TensorAnnotation:
        dtype, *extents = item if isinstance(item, tuple) else (item,)
        for extent in extents:
            is_number = isinstance(extent, int) and not isinstance(extent, bool) and extent >= 0
            if not is_number and not isinstance(extent, str):
                raise TypeError(f"an extent of a Tensor is a number or a name, not {extent!r}")
        return TensorAnnotation(_type_name(dtype), tuple(extents) if extents else None)


class ArgumentCheck:
    """Compares the arguments of a function with what their annotations declare."""

    def __init__(self, function: str, declared: Sequence[tuple[str, TensorAnnotation]]) -> None:
        self.function = function
        self.names = [name for name, _ in declared]
        self.annotations = dict(declared)
        self._last: Any = None

    def __call__(self, *values: Any) -> None:
        # Arguments are mostly like those of the call before.
        try:
            seen = [(value.dtype, value.shape) for value in values]
        except AttributeError:
            seen = None
        if seen is not None and seen == self._last:
            return
        self._compare(values)
        self._last = seen

    def _compare(self, values: Sequence[Any]) -> None:
        extents: dict[str, tuple[int, str]] = {}
        for name, annotation, value in zip(self.names, self.annotations.values(), values, strict=True):
            where = f"`{self.function}`: `{name}`"
            shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
            if shape is None or dtype is None:
                raise TypeError(f"{where} is {annotation}, and a {type(value).__name__!r} is no tensor")
            if _type_name(dtype) != annotation.dtype:
                raise TypeError(f"{where} is {annotation}, and {_type_name(dtype)} is given")
            if annotation.shape is None:
                continue
            shape = tuple(int(extent) for extent in shape)
            if len(shape) != len(annotation.shape):
                raise ValueError(f"{where} is {annotation}, and has shape {shape}")
            for declared, extent in zip(annotation.shape, shape, strict=True):
                if isinstance(declared, int):
                    if extent != declared:
                        raise ValueError(f"{where} is {annotation}, and has shape {shape}")
                    continue
                known, by = extents.setdefault(declared, (extent, name))
                if known != extent:
                    raise ValueError(f"{where} has shape {shape}, and `{declared}` is {known} by `{by}`")


def argument_check(function: FunctionType) -> ArgumentCheck | None:
    """The check of a function whose annotations declare tensors."""
    declared = []
    for name, annotation in inspect.get_annotations(function).items():
        if isinstance(annotation, str):
            annotation = _evaluated(annotation, function)
        if name != "return" and isinstance(annotation, TensorAnnotation):
            declared.append((name, annotation))
    return ArgumentCheck(function.__name__, declared) if declared else None


def _evaluated(text: str, function: Callable[..., Any]) -> Any:
    """What an annotation that is kept as text means; nothing if its names are not there."""
    try:
        return eval(text, function.__globals__)
    except Exception:
        return None
