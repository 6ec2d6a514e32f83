"""Kernels with `module="unique"`: a definition with the text, options and captured values of an earlier one is it.

Programs that make kernels in functions define the same one again and again; so it is compiled once.
"""

from __future__ import annotations

import inspect
import itertools
import re
import textwrap
import weakref
from collections.abc import Callable, Iterator
from types import CellType, CodeType, ModuleType
from typing import Any

from polyloom import _native
from polyloom._annotations import ArrayAnnotation
from polyloom._composites import GenericComposite

# How far a name with dots is followed: `settings.solver.tolerance`.
_DEPTH = 3
_kernels: weakref.WeakValueDictionary[Any, _native.Kernel] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


class UniqueIdentity:
    """What tells the definition of a kernel from others.

    Values are compared if they are numbers, strings or collections of such, and are the same objects otherwise. The
    kernel keeps these objects, because another could have the identity of one that is gone.
    """

    def __init__(self, function: Callable[..., Any], cells: dict[str, Any], options: dict[str, Any]) -> None:
        self.number = next(_numbers)
        self._objects: list[Any] = []
        names = list(_names_of(function.__code__))
        text = _text(function)
        # Of the locals around the definition, the text decides which it is about; the decorator's own names are values
        # of the options.
        own = text[text.find("def ") :]
        cells = {name: value for name, value in cells.items() if re.search(rf"\b{name}\b", own)}
        captured = {name: function.__globals__[name] for name in names if name in function.__globals__} | cells
        self._key: Any = (
            function.__module__,
            function.__qualname__,
            own,
            self._frozen({name: value for name, value in options.items() if value not in (None, False)}, 0, ()),
            self._frozen(dict(function.__annotations__), 0, ()),
            self._frozen(captured, 0, names),
        )

    def known(self) -> _native.Kernel | None:
        """The kernel that an earlier definition made."""
        return _kernels.get(self._key)

    def keep(self, made: _native.Kernel) -> None:
        """Notes the kernel that this definition has made."""
        vars(made)["_captured"] = self._objects
        _kernels[self._key] = made

    def _frozen(self, value: Any, depth: int, names: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            # 1, 1.0 and True are equal, and 0.0 and -0.0.
            return type(value), repr(value)
        if isinstance(value, ArrayAnnotation):
            return ArrayAnnotation, self._frozen(value.dtype, depth, ()), value.ndim
        if isinstance(value, GenericComposite):
            return GenericComposite, value.kind, self._frozen(value.dtype, depth, ()), value.shape
        if isinstance(value, CellType):
            return "empty"
        if isinstance(value, (list, tuple)):
            return type(value), tuple(self._frozen(each, depth, names) for each in value)
        if isinstance(value, dict):
            return dict, tuple((self._frozen(k, depth, ()), self._frozen(v, depth, names)) for k, v in value.items())
        self._objects.append(value)
        attributes: Any = ()
        is_own = isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "polyloom"
        if depth < _DEPTH and not is_own and not isinstance(value, type):
            held = getattr(value, "__dict__", {})
            attributes = tuple((n, self._frozen(held[n], depth + 1, names)) for n in names if n in held)
        return id(value), attributes


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)


def _text(function: Callable[..., Any]) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, SyntaxError):
        # Code objects within have their addresses in the text, so that nothing is taken for the same.
        code = function.__code__
        return repr((code.co_code, code.co_consts, code.co_names))
