"""The text of functions as it was when their code was loaded, and files parsed from it."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from polyloom import _native
from polyloom._loaded_code import check_unchanged

# Parsed files by name, with the list of lines they were parsed from: linecache hands out the same list until the file
# changes.
_units: dict[str, tuple[list[str], _native.SourceUnit]] = {}


def lines_of(function: Callable[..., Any], advice: str) -> list[str]:
    """The lines of a function's file.

    Raises `OSError`, which ends with the advice, if there is no text, and `RuntimeError` if the text is another now.
    """
    file = function.__code__.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, function.__globals__)
    if not lines:
        raise OSError(
            f"the source text of {function.__qualname__!r} is not available (it came from {file!r}): {advice}"
        )
    check_unchanged(function, lines)
    return lines


def unit_of(file: str, lines: list[str]) -> _native.SourceUnit:
    """A file, parsed once from these lines."""
    known = _units.get(file)
    if known is None or known[0] is not lines:
        known = _units[file] = (lines, _native.SourceUnit(file, "".join(lines)))
    return known[1]


def parsed_lines(file: str) -> list[str]:
    """The lines that a file was parsed from."""
    return _units[file][0]


def forget(file: str) -> None:
    """Drops a file that is gone."""
    _units.pop(file, None)
