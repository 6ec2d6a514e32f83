"""The builtins as names, so that `loom.sin` exists outside kernels: for editors, help, imports, and calls.

Inside a kernel the compiler reads the name and this module plays no part. The list comes from the compiler's op
table.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._config import config
from polyloom._scalars import TypedConstant

__all__ = ["cast", "printf", "tid"]


def _expect(name: str, is_met: Any, a: Any, b: Any) -> None:
    if not is_met:
        sys.stdout.write(f"Error, {name}() failed:\n\t Expected: {b}\n\t Actual: {a}\n")


def _expect_eq(a: Any, b: Any) -> None:
    _expect("expect_eq", a == b, a, b)


def _expect_neq(a: Any, b: Any) -> None:
    _expect("expect_neq", a != b, a, b)


def _expect_near(a: Any, b: Any, tolerance: float = 1e-6) -> None:
    # Not above it, so that NaN is told.
    _expect("expect_near", bool(np.all(np.abs(np.asarray(a) - np.asarray(b)) <= tolerance)), a, b)


def _transform_set_translation(xform: Any, p: Any) -> None:
    xform.p = p


def _transform_set_rotation(xform: Any, q: Any) -> None:
    xform.q = q


# Builtins that print, or change an argument, as they are outside kernels.
_WITH_EFFECT: dict[str, Callable[..., None]] = {
    "expect_eq": _expect_eq,
    "expect_near": _expect_near,
    "expect_neq": _expect_neq,
    "transform_set_rotation": _transform_set_rotation,
    "transform_set_translation": _transform_set_translation,
}


class Builtin:
    """A function of the kernel language. Those whose results depend on their arguments alone are called anywhere,
    and so are `expect_eq` and its like, and those that set a part of a transformation.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.cross(loom.vec3(1, 0, 0), loom.vec3(0, 1, 0))
    vec3([0.0, 0.0, 1.0])
    >>> loom.length(loom.vec2(3, 4))
    5.0
    """

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if self.__name__ in _WITH_EFFECT:
            run = _WITH_EFFECT[self.__name__]
            try:
                inspect.signature(run).bind(*args, **keywords)
            except TypeError as error:
                raise TypeError(f"no overload of `polyloom.{self.__name__}` takes these arguments: {error}") from None
            return run(*args, **keywords)
        found = _native.call_builtin(self.__name__, args, keywords)
        if config.legacy_scalar_return_types and isinstance(found, TypedConstant):
            return found.value
        return found

    def __repr__(self) -> str:
        return f"<kernel builtin polyloom.{self.__name__}>"


tid = Builtin("tid", "The thread's index; unpacked to two, three or four names, its coordinates.")
printf = Builtin("printf", "Prints by a C format string.")
cast = Builtin("cast", "The bits of `x` read as another type of the same size.")

_CONSTRUCTORS = {
    "vector": "A vector of these components, or of `length` that are all one number; `dtype` is their type.",
    "matrix": "A matrix of these components, row by row, or of `shape` all one number; `dtype` is their type.",
    "matrix_from_rows": "The matrix with these vectors as rows.",
    "matrix_from_cols": "The matrix with these vectors as columns.",
    "identity": "The identity matrix of `n` rows and columns; `dtype` is the type of its components.",
    "quat_identity": "The quaternion of no rotation.",
    "transform_identity": "The transformation that moves nothing.",
    "quaternion": "A quaternion of x, y, z and the real part; `dtype` is the type of its components.",
    "transformation": "A transformation of a translation and a rotation; `dtype` is the type of its components.",
}

for _name, _doc in [*_CONSTRUCTORS.items(), *_native.builtins()]:
    globals()[_name] = Builtin(_name, _doc)
    __all__.append(_name)
