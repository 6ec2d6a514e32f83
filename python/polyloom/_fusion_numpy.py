"""NumPy's calls in fused functions: what each is in Python, and what NumPy says of its result."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

# Ops whose results share memory with their argument in NumPy, or may.
VIEWS = ("reshape", "transpose", "permute", "slice")


def callee_of(path: str, objects: Mapping[str, Any]) -> Callable[..., Any]:
    """Returns the function that a path of a plan names."""
    module, _, name = path.rpartition(".")
    if module == "operator":
        return getattr(operator, name)  # type: ignore[no-any-return]
    if module == "ndarray.attribute":
        return operator.attrgetter(name)
    if module == "ndarray":
        return lambda array, *arguments, **named: getattr(array, name)(*arguments, **named)
    found = objects.get(path)
    return getattr(sys.modules[module], name) if found is None else found  # type: ignore[no-any-return]


def has_name(path: str) -> bool:
    """True if the callee is a member of a module, which may come to be another."""
    return path.startswith(("numpy.", "builtins.", "polyloom.", "warp."))


def index_of(text: str) -> Any:
    """The index of literals that a text is."""

    class Taker:
        def __getitem__(self, index: Any) -> Any:
            return index

    return eval(f"taker[{text}]", {"__builtins__": {}}, {"taker": Taker()})


def array_names(function: FunctionType, arguments: tuple[Any, ...], named: dict[str, Any]) -> set[str]:
    """The parameters that are exactly arrays in a call."""
    code = function.__code__
    n_positional = code.co_argcount
    names = code.co_varnames[: n_positional + code.co_kwonlyargcount]
    values = dict(zip(names[:n_positional], arguments, strict=False))
    defaults = function.__defaults__ or ()
    for name, value in [
        *zip(names[n_positional - len(defaults) : n_positional], defaults, strict=True),
        *(function.__kwdefaults__ or {}).items(),
        *named.items(),
    ]:
        if name in named or name not in values:
            values[name] = value
    return {name for name in names if type(values.get(name)) is np.ndarray}


def parameters_of(function: FunctionType) -> list[str]:
    """The names of all parameters but `*` and `**`."""
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def assumed_numbers(function: FunctionType) -> set[str]:
    """The parameters that are not taken for arrays before the first call: those with defaults that are none."""
    code = function.__code__
    defaults = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    with_defaults = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    with_defaults.update(function.__kwdefaults__ or {})
    return {name for name, value in with_defaults.items() if type(value) is not np.ndarray}


# The native group calls these when it makes a plan.


def stand_in(dtype: str, extents: Sequence[int], is_result: bool, is_view: bool) -> Any:
    """A small array in place of an operand of these extents; with `is_view` one of the same extents."""
    if not extents:
        return np.dtype(dtype).type(1) if is_result else np.ones((), dtype)
    if is_view:
        return np.broadcast_to(np.ones((), dtype), extents)
    return np.ones([min(extent, 1) for extent in extents], dtype)


def result_form(callee: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> tuple[str, tuple[int, ...]]:
    """Element type and shape of what NumPy gives. Raises `TypeError` if that is neither an array nor its number."""
    with np.errstate(all="ignore"):
        result = callee(*arguments, **named)
    is_number = isinstance(result, np.generic)
    if not is_number and (type(result) is not np.ndarray or not result.shape):
        raise TypeError("the result is no array with axes")
    return result.dtype.name, result.shape


def has_plain_errors() -> bool:
    """True if floating-point errors are ignored or warned of."""
    return all(action in ("ignore", "warn") for action in np.geterr().values())
