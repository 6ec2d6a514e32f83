"""The builtins as names, so that `loom.sin` exists outside kernels: for editors, help and imports.

Inside a kernel the compiler reads the name and this module plays no part. The list comes from the compiler's op
table.
"""

from __future__ import annotations

from typing import Any, NoReturn

from polyloom import _native

__all__ = ["cast", "printf", "tid"]


class Builtin:
    """A function of the kernel language."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"polyloom.{self.__name__} is a function of the kernel language: call it inside a kernel")

    def __repr__(self) -> str:
        return f"<kernel builtin polyloom.{self.__name__}>"


tid = Builtin("tid", "The thread's index; unpacked to two, three or four names, its coordinates.")
printf = Builtin("printf", "Prints by a C format string.")
cast = Builtin("cast", "The bits of `x` read as another type of the same size.")

for _name, _doc in _native.builtins():
    globals()[_name] = Builtin(_name, _doc)
    __all__.append(_name)
