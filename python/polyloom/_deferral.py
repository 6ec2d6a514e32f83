"""Which kernels and functions that cannot be compiled where they are defined are given the time until they are used."""

from __future__ import annotations

import ast
import builtins
import dis
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from polyloom._absent import Absent
from polyloom._config import config
from polyloom._errors import CompileError, Diagnostic

# Codes of findings about names that mean nothing, or nothing that a kernel can use.
_ABOUT_NAMES = ("PL0201", "PL0206")
# The code of what programs written for Warp do, and Polyloom does not have yet.
_NOT_SUPPORTED_YET = "PL0006"
# The code of a path through a function that returns nothing.
_NO_RETURN = "PL0107"
# CPython makes these of a body that does nothing.
_OPCODES_OF_STUBS = {"LOAD_CONST", "NOP", "RESUME", "RETURN_CONST", "RETURN_VALUE"}
# Names that a module gives a meaning somewhere, by the list of lines of its text.
_defined: dict[str, tuple[list[str], frozenset[str]]] = {}


@dataclass(frozen=True)
class Deferral:
    """Why what is wrong with a definition is told where it is used.

    Attributes
    ----------
    warning : str or None
        What the user is told at the definition.
    """

    warning: str | None = None


def deferral(
    error: CompileError, decorator: str, function: Callable[..., Any], cells: dict[str, Any], lines: list[str]
) -> Deferral | None:
    """Why an error in a definition waits until the definition is used; None if it does not.

    It waits if the program is about to give a meaning to the names that have none, if what is missing is a part of Warp
    or of its language that Polyloom does not have, and if the program asks for that.
    """
    errors = [found for found in error.diagnostics if found.severity == "error"]
    missing = next((value for found in errors if (value := _absent_value(found, function, cells))), None)
    used = "launched" if decorator == "kernel" else "called"
    if missing is not None:
        return Deferral(f"{decorator} '{function.__name__}' is refused where it is {used}: {missing.__doc__}")
    # Other errors beside it may follow from it; the whole diagnostic is that of the use.
    not_yet = next((found for found in errors if found.code == _NOT_SUPPORTED_YET), None)
    if not_yet is not None:
        return Deferral(f"{decorator} '{function.__name__}' is refused where it is {used}: {not_yet.message}")
    # What is wrong beside a name that has no meaning yet may follow from it.
    later = {found.line for found in errors if _is_defined_later(found, function, cells, lines)}
    if errors and all(found.line in later for found in errors):
        return Deferral()
    if decorator == "func" and all(found.code == _NO_RETURN for found in errors) and _is_stub(function):
        return Deferral()
    # Warp looks at annotations where a definition is, too.
    if config.errors == "launch" and not any(found.message.startswith("Union type annotations") for found in errors):
        first = f"{errors[0].message} [{errors[0].code}]" if errors else str(error)
        return Deferral(f"{decorator} '{function.__name__}' is refused where it is {used}: {first}")
    return None


def _is_stub(function: Callable[..., Any]) -> bool:
    """Whether the body is `...` or `pass`, as in a class that says what functions others have."""
    code = function.__code__
    does = {instruction.opname for instruction in dis.get_instructions(code)}
    return does <= _OPCODES_OF_STUBS and set(code.co_consts) <= {None, function.__doc__}


def not_there(error: CompileError) -> str | None:
    """What Polyloom does not have that an error is about, in a sentence; None if it is about something else."""
    for found in error.diagnostics:
        if found.severity == "error" and found.code == _NOT_SUPPORTED_YET:
            return found.message
        value = _value_of(found, _modules_of(found.file)) if found.severity == "error" else None
        if isinstance(value, Absent):
            return str(value.__doc__)
    return None


def _path(found: Diagnostic) -> list[str]:
    """The dotted name that what is wrong begins with."""
    name = re.match(r"[^\W\d]\w*(\.[^\W\d]\w*)*", found.text)
    return name[0].split(".") if name else []


def _scopes(found: Diagnostic, function: Callable[..., Any], cells: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Where names of the text of a finding are looked up, which may be in a function of another module."""
    if found.file == function.__code__.co_filename:
        yield cells
        yield function.__globals__
    else:
        yield from _modules_of(found.file)


def _modules_of(file: str) -> Iterator[dict[str, Any]]:
    """The names of the modules that are loaded from a file."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file:
            yield vars(module)


def _value_of(found: Diagnostic, scopes: Iterable[dict[str, Any]]) -> Any:
    """The value that the text of a finding names in the first scope that has it."""
    root, *rest = _path(found) or [""]
    for scope in scopes:
        if root in scope:
            value = scope[root]
            for name in rest:
                value = getattr(value, name, None)
            return value
    return None


def _absent_value(found: Diagnostic, function: Callable[..., Any], cells: dict[str, Any]) -> Absent | None:
    """What of Warp's the text of a finding names that Polyloom does not have."""
    value = _value_of(found, _scopes(found, function, cells))
    return value if isinstance(value, Absent) else None


def _is_defined_later(found: Diagnostic, function: Callable[..., Any], cells: dict[str, Any], lines: list[str]) -> bool:
    """Whether the text of a finding begins with a name that has no meaning yet and is given one in the file."""
    file = function.__code__.co_filename
    root = next(iter(_path(found)), None)
    if root is None or found.file != file or found.code not in _ABOUT_NAMES:
        return False
    if root in cells:
        return _is_empty(cells[root])
    if root in function.__globals__ or hasattr(builtins, root):
        return False
    known = _defined.get(file)
    if known is None or known[0] is not lines:
        known = _defined[file] = (lines, frozenset(_names_set(ast.parse("".join(lines)).body)))
    return root in known[1]


def _is_empty(cell: Any) -> bool:
    if type(cell).__name__ != "cell":
        return False
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _names_set(statements: list[ast.stmt]) -> Iterator[str]:
    """The names that statements of a module give a meaning, but not those of functions and classes in it."""
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.alias):
                yield (node.asname or node.name).partition(".")[0]
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield node.name
