"""The builtins as names, so that `loom.sin` exists outside kernels: for editors, help, imports, and calls.

Inside a kernel the compiler reads the name and this module plays no part. The list comes from the compiler's op
table.
"""

from __future__ import annotations

from typing import Any

from polyloom import _native

__all__ = ["cast", "printf", "tid"]


class Builtin:
    """A function of the kernel language. Those whose results depend on their arguments alone are called anywhere.

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
        return _native.call_builtin(self.__name__, args, keywords)

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
