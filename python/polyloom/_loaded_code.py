"""Compares the text of a file with the code that was loaded from it.

The compiler reads text at the line number of loaded code. A file that is edited after its module was loaded may hold
another function there, so the two are compared before the text is used.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

# Files last changed before this were loaded as they are now. The margin covers the coarse clocks of file systems.
_STARTED = time.time() - 2.0

# pytest compiles `assert` to code of its own, which names this.
_REWRITTEN = "@pytest_ar"

# The code objects of files changed since the start, with the lines they were compiled from.
_compiled: dict[tuple[str, int], tuple[list[str], list[CodeType]]] = {}


def check_unchanged(function: Callable[..., Any], lines: list[str]) -> None:
    """Raises `RuntimeError` if the lines of a function's file are not those that its code was compiled from.

    Only files that changed while this process runs are compared, so that importing a module costs nothing.
    """
    loaded = function.__code__
    try:
        status = os.stat(loaded.co_filename)
    except OSError:  # a notebook cell, whose text never changes
        return
    if max(status.st_mtime, status.st_ctime) < _STARTED:
        return
    # The code around a definition has its annotations and its decorators' arguments.
    around = _code_around(loaded)
    expected = loaded if around is None or around.co_name == "<module>" else around
    candidates = _code_of(loaded, lines)
    if not any(_is_same(expected, found) for found in candidates if found.co_firstlineno == expected.co_firstlineno):
        raise RuntimeError(
            f"{loaded.co_filename} has changed since it was loaded, so the text of {function.__qualname__!r} is no "
            "longer what Python runs: reload the module or start again"
        )


def _code_around(code: CodeType) -> CodeType | None:
    frame = sys._getframe(1)
    while frame is not None and not any(constant is code for constant in frame.f_code.co_consts):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else frame.f_code


def _code_of(loaded: CodeType, lines: list[str]) -> list[CodeType]:
    """Every code object of the text, compiled with the `__future__` features that the loaded code has."""
    future = loaded.co_flags & 0x1FF0000
    known = _compiled.get((loaded.co_filename, future))
    if known is None or known[0] is not lines:
        try:
            module = compile("".join(lines), loaded.co_filename, "exec", flags=future, dont_inherit=True)
        except (SyntaxError, ValueError):
            return []
        known = _compiled[loaded.co_filename, future] = (lines, list(_nested(module)))
    return known[1]


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _is_same(loaded: CodeType, found: CodeType) -> bool:
    def signature(code: CodeType) -> tuple[object, ...]:
        return code.co_name, code.co_argcount, code.co_kwonlyargcount, code.co_varnames[: code.co_argcount]

    if signature(loaded) != signature(found):
        return False
    if any(_REWRITTEN in code.co_names for code in _nested(loaded)):
        return True

    def names(code: CodeType) -> tuple[object, ...]:
        return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars

    if names(loaded) != names(found) or len(loaded.co_consts) != len(found.co_consts):
        return False
    return all(
        _is_same(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else repr(a) == repr(b)
        for a, b in zip(loaded.co_consts, found.co_consts, strict=True)
    )
