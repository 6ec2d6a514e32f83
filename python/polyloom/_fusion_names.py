"""Resolves the names of a fused function, and makes the guards that hold them to what they refer to."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from polyloom._fusion_text import FUSION
from polyloom._kernel_op import KernelOp
from polyloom._source_units import lines_of, unit_of

# The modules whose functions have effects that analysis knows by their names.
_LIBRARIES = ("numpy", "math", "typing")

# The types of what modules have as constants: `np.pi`, `np.newaxis`.
_CONSTANTS = (float, int, bool, type(None))

_MISSING = object()


def source_of(function: FunctionType) -> list[str]:
    """The lines of a function's file as they were when its code was loaded.

    Raises `OSError` if there is no text, and `RuntimeError` if the text is another now.
    """
    advice = (
        "functions are fused from their text, so define them in a file or a notebook cell, or call them without `fuse`"
    )
    return lines_of(function, advice)


class NameResolver:
    """Resolves the names of one function; those of its helpers resolve theirs, into the same lists of guards.

    Attributes
    ----------
    guards : list of tuple
        A dictionary with a name, or a cell with `None`, and the object found there.
    absent : list of tuple
        Dictionaries with names that must not be in them.
    functions : list of tuple
        Functions with their code and defaults.
    objects : dict
        Members of modules by dotted path.
    """

    def __init__(
        self, function: FunctionType, around: NameResolver | None = None, others: set[str] | None = None
    ) -> None:
        self.function = function
        # Names that are not taken to be arrays; nothing if NumPy is not captured.
        self.others: set[str] | None = others if around is None else around.others
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self.guards: list[tuple[Any, str | None, Any]] = [] if around is None else around.guards
        self.absent: list[tuple[dict[str, Any], str]] = [] if around is None else around.absent
        self.functions: list[tuple[Any, ...]] = [] if around is None else around.functions
        self.objects: dict[str, Any] = {} if around is None else around.objects

    def name(self, name: str) -> tuple[Any, ...] | None:
        """Resolves a global or a name of the closure: to a kind and what belongs to it, or to nothing."""
        names = self.function.__globals__
        where: tuple[Any, str | None]
        if name in self.cells:
            try:
                value = self.cells[name].cell_contents
            except ValueError:
                return None
            where = (self.cells[name], None)
        elif name in names:
            value, where = names[name], (names, name)
        else:
            value = vars(builtins).get(name, _MISSING)
            if value is _MISSING:
                return None
            self._add(self.absent, (names, name))
            self._add(self.guards, (vars(builtins), name, value))
            return ("builtin",)
        if self.others is not None and type(value) is np.ndarray and name not in self.others:
            # The object may be another at each call.
            return ("array",)
        meaning = self._meaning(value)
        if meaning is not None:
            self._add(self.guards, (*where, value))
        return meaning

    def module_of_global(self, name: str) -> int | None:
        """Which module's global a name is: the same number for all functions of the module."""
        names = self.function.__globals__
        return id(names) if name in names and name not in self.cells else None

    def member(self, path: str, name: str) -> tuple[Any, ...] | None:
        """Resolves a member of a module, likewise."""
        module = sys.modules.get(path)
        if module is None:
            return None
        value = vars(module).get(name, _MISSING)
        if value is _MISSING:
            return None
        meaning = self._meaning(value)
        if meaning is None and self.others is not None and path in _LIBRARIES and type(value) in _CONSTANTS:
            self.objects[f"{path}.{name}"] = value
            meaning = ("path", f"{path}.{name}")
        if meaning is not None:
            self._add(self.guards, (vars(module), name, value))
        return meaning

    def _add(self, known: list[Any], guard: tuple[Any, ...]) -> None:
        if not any(
            len(each) == len(guard)
            and all(a is b or a == b if isinstance(a, str) else a is b for a, b in zip(each, guard, strict=True))
            for each in known
        ):
            known.append(guard)

    def _meaning(self, value: Any) -> tuple[Any, ...] | None:
        if type(value) is ModuleType:
            path = value.__name__
            return ("path", path) if sys.modules.get(path) is value else None
        if type(value) is KernelOp and len(value.outputs) == 1:
            path = f"<kernel>.{id(value)}.{value.__name__}"
            self.objects[path] = value
            return ("path", path)
        if not _has_plain_name(value):
            return None
        name = getattr(value, "__name__", None)
        if not isinstance(name, str):
            return None
        for library in ("polyloom.ops", "polyloom", *_LIBRARIES):
            module = sys.modules.get(library)
            # A function that the table of ops lacks is made of its ops, as `topk` is.
            is_made = library == "polyloom.ops" and type(value) is FunctionType
            if module is not None and not is_made and vars(module).get(name, _MISSING) is value:
                self.objects[f"{library}.{name}"] = value
                return ("path", f"{library}.{name}")
        return self._helper(value) if type(value) is FunctionType else None

    def _helper(self, value: FunctionType) -> tuple[Any, ...] | None:
        fusion = value.__dict__.get(FUSION)
        function = value if fusion is None else fusion.original
        try:
            lines = source_of(function)
            unit = unit_of(function.__code__.co_filename, lines)
        except (OSError, RuntimeError, SyntaxError):
            return None
        self._add(self.functions, (function, function.__code__, function.__defaults__, function.__kwdefaults__))
        return ("helper", unit, function.__code__.co_firstlineno, NameResolver(function, self))


def _has_plain_name(value: Any) -> bool:
    """True if asking an object for its name runs no code of the program."""
    class_ = type(value)
    is_heap_type = bool(class_.__flags__ & 0x200)
    return not is_heap_type or (type(class_) is type and class_.__module__ == "polyloom._native")


def op_of(path: str) -> Callable[..., Any]:
    """The op with a dotted path."""
    module, _, name = path.rpartition(".")
    return getattr(sys.modules[module], name)  # type: ignore[no-any-return]
