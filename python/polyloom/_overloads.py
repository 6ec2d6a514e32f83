"""Which of several functions of one name a call outside kernels means."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from polyloom import _native
from polyloom._annotations import ArrayAnnotation
from polyloom._builtins import Builtin  # type: ignore[attr-defined]
from polyloom._composites import Composite, CompositeClass, GenericComposite
from polyloom._errors import ArgumentError
from polyloom._scalars import DType, FloatConstant, IntegerConstant, TypedConstant, bool_, dtype_of

# How well an argument fits a parameter: it is of the type, it is of one of several types that a generic parameter
# takes, it is a number that the type can take.
EXACT, GENERIC, CONVERTED = 0, 1, 2


def overload_for(
    functions: Sequence[Callable[..., Any]], args: Sequence[Any], keywords: Mapping[str, Any] | None
) -> Callable[..., Any]:
    """The function whose annotations fit the arguments best, of several that fit equally well the last.

    Raises
    ------
    TypeError
        If none fits.
    """
    found: Callable[..., Any] | None = None
    best: list[int] = []
    for function in reversed(functions):
        fits = _fits(function, args, keywords or {})
        if fits is not None and (
            found is None or (max(fits, default=0), sum(fits)) < (max(best, default=0), sum(best))
        ):
            found, best = function, fits
    if found is not None:
        return found
    name = functions[-1].__name__
    given = ", ".join(type(each).__name__ for each in (*args, *(keywords or {}).values()))
    tried = "".join(f"\n  {name}{inspect.signature(each)}" for each in functions)
    raise TypeError(f"no overload of {name}() takes ({given}): there are{tried}")


def check_functions(function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any] | None) -> None:
    """Refuses what is no function of kernels for parameters that are annotated as such.

    Raises
    ------
    ArgumentError
        If an argument is another object, such as a lambda, which a kernel could not call either.
    """
    try:
        bound = inspect.signature(function).bind(*args, **(keywords or {}))
    except TypeError:
        return  # the call says what is wrong
    for name, value in bound.arguments.items():
        is_function = isinstance(value, (_native.Function, Builtin))
        if function.__annotations__.get(name) is _native.Function and not is_function:
            given = ", ".join(map(repr, bound.args))
            raise ArgumentError(
                f"Error calling function '{function.__name__}', no overload found for arguments ({given}): {name!r} is "
                "a builtin or a function under `@func`"
            )


def _fits(function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> list[int] | None:
    """How well each argument fits, or nothing if one does not."""
    try:
        bound = inspect.signature(function).bind(*args, **keywords)
        annotations = inspect.get_annotations(function, eval_str=True)
    except TypeError:
        return None
    except NameError:  # an annotation in quotes that names a local of the function around it
        annotations = {}
    fits = []
    for name, value in bound.arguments.items():
        fit = _fit(value, annotations.get(name, Any))
        if fit is None:
            return None
        fits.append(fit)
    return fits


def _fit(value: Any, annotation: Any) -> int | None:
    if annotation is Any:
        return GENERIC
    if isinstance(annotation, TypeVar):
        options = annotation.__constraints__
        return GENERIC if not options or any(_fit(value, each) == EXACT for each in options) else None
    if annotation in (bool, int, float) or isinstance(annotation, DType):
        return _fit_of_number(value, dtype_of(annotation))
    if isinstance(annotation, CompositeClass):
        return EXACT if type(value) is annotation else None
    if isinstance(annotation, GenericComposite):
        is_of_kind = isinstance(value, Composite) and type(value)._type.kind == annotation.kind
        return GENERIC if is_of_kind else None
    if isinstance(annotation, ArrayAnnotation):
        if getattr(value, "ndim", None) != annotation.ndim:
            return None
        return EXACT if getattr(value, "dtype", None) == annotation.dtype else GENERIC
    if isinstance(annotation, type):
        return EXACT if isinstance(value, annotation) else None
    return GENERIC


def _fit_of_number(value: Any, dtype: DType) -> int | None:
    if isinstance(value, TypedConstant):
        return EXACT if type(value) is dtype else None
    if isinstance(value, np.generic):
        return EXACT if value.dtype == dtype.numpy else None
    if not isinstance(value, (bool, int, float)) or isinstance(value, bool) != (dtype is bool_):
        return None
    if dtype is dtype_of(type(value)):
        return EXACT
    is_float = issubclass(dtype, FloatConstant)
    return CONVERTED if is_float or (isinstance(value, int) and issubclass(dtype, IntegerConstant)) else None
