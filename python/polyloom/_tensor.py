"""`Tensor`: annotations that declare the element type and the shape of a fused function's arguments."""

from __future__ import annotations

import inspect
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
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
    """The value of `Tensor[...]`: an element type, and the extents if they are declared.

    Attributes
    ----------
    dtype : str
        The name of the element type.
    shape : tuple of int and str, or None
        The extents: numbers, or names that stand for one number in all arguments. None if any shape will do.
    is_optional : bool
        None will do as well, as of `Tensor[...] | None`.
    """

    def __init__(self, dtype: str, shape: tuple[int | str, ...] | None, is_optional: bool = False) -> None:
        self.dtype, self.shape, self.is_optional = dtype, shape, is_optional

    def __or__(self, other: Any) -> Any:
        if other is None or other is type(None):
            return TensorAnnotation(self.dtype, self.shape, is_optional=True)
        return NotImplemented

    __ror__ = __or__

    def __repr__(self) -> str:
        extents = "" if self.shape is None else "".join(f", {extent!r}" for extent in self.shape)
        return f"Tensor[{self.dtype}{extents}]" + " | None" * self.is_optional

    def _parts(self) -> tuple[Any, ...]:
        return self.dtype, self.shape, self.is_optional

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorAnnotation) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())


class Tensor:
    """Declares arguments of a fused function: `Tensor[float32]`, or with extents `Tensor[float32, "n", 128]`.

    A number is the extent that an axis has, a name the same extent wherever it stands. The arguments of each call are
    checked, those that `*args` and `**named` collect too. `Tensor[...] | None`, and a default of None, let None pass.

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

    def __init__(
        self, function: FunctionType, declared: Sequence[tuple[str, TensorAnnotation]], collecting: dict[str, str]
    ) -> None:
        self.function = function.__name__
        self.names = [name for name, _ in declared]
        self.annotations = dict(declared)
        self._signature = inspect.signature(function)
        # Parameters that collect arguments, with the stars before their names.
        self._collecting = collecting
        self._last: Any = None

    def of_call(self, args: Sequence[Any], named: dict[str, Any]) -> None:
        """Checks the arguments of a call; what they lack or have too much is for the call to say."""
        try:
            bound = self._signature.bind(*args, **named)
        except TypeError:
            return
        bound.apply_defaults()
        self._compare([bound.arguments[name] for name in self.names])

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
        for name, annotation, value in self._arguments(values):
            where = f"`{self.function}`: `{name}`"
            if value is None and annotation.is_optional:
                continue
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

    def _arguments(self, values: Sequence[Any]) -> Iterator[tuple[str, TensorAnnotation, Any]]:
        """Arguments by name, those that a parameter has collected one by one."""
        for name, value in zip(self.names, values, strict=True):
            annotation = self.annotations[name]
            stars = self._collecting.get(name)
            if stars == "*":
                yield from ((f"{name}[{i}]", annotation, each) for i, each in enumerate(value))
            elif stars == "**":
                yield from ((key, annotation, each) for key, each in value.items())
            else:
                yield name, annotation, value


def argument_check(function: FunctionType) -> ArgumentCheck | None:
    """The check of a function whose annotations declare tensors."""
    declared, collecting = [], {}
    parameters = inspect.signature(function).parameters
    for name, annotation in inspect.get_annotations(function).items():
        if name == "return":
            continue
        if isinstance(annotation, str):
            annotation = _evaluated(name, annotation, function)
        origin: Any = typing.get_origin(annotation)
        if origin is typing.Union or origin is types.UnionType:
            parts = typing.get_args(annotation)
            found = [each for each in parts if isinstance(each, TensorAnnotation)]
            annotation = found[0] | None if len(found) == 1 and set(parts) == {found[0], type(None)} else None
        if not isinstance(annotation, TensorAnnotation):
            continue
        parameter = parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            collecting[name] = "*"
        elif parameter.kind is parameter.VAR_KEYWORD:
            collecting[name] = "**"
        elif parameter.default is None:
            annotation = annotation | None
        declared.append((name, annotation))
    return ArgumentCheck(function, declared, collecting) if declared else None


def _evaluated(name: str, text: str, function: Callable[..., Any]) -> Any:
    """Evaluates an annotation that is kept as text; gives None if its names are not there."""
    try:
        return eval(text, function.__globals__)
    except Exception as error:
        if "Tensor[" in text:
            message = f"the annotation of `{name}`, {text}, declares nothing, because it cannot be read: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=5)
        return None
