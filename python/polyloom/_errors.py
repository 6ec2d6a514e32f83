"""The exceptions and warnings of the package. The extension module raises them; nothing else does."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Diagnostic:
    """One finding of the compiler.

    Attributes
    ----------
    code : str
        Stable code, `PL0101`; `docs/errors` has a page for each.
    severity : str
        `"error"` or `"warning"`.
    message : str
        What is wrong, in one phrase.
    help : str or None
        What to write instead.
    file : str
        Path of the source file.
    line, column, end_line, end_column : int
        Where, from 1; columns count characters.
    text : str
        The source text that it is about.
    """

    code: str
    severity: str
    message: str
    help: str | None
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = ""


class CompileError(SyntaxError, RuntimeError):
    """A kernel was rejected.

    It is a `SyntaxError`, so tracebacks, notebooks and editors show the kernel's own line; and a `RuntimeError`, since
    a generic kernel is rejected where it is launched. The text has every finding, with carets and help; `diagnostics`
    has them as objects. Warp's names for such errors, `WarpCodegenError` and the others, are names of this class.

    Attributes
    ----------
    diagnostics : list of Diagnostic
        All findings, errors and warnings, in source order.
    rendered : str
        All findings as the command line prints them.
    """

    def __new__(cls, diagnostics: list[Diagnostic], *_: Any) -> CompileError:
        first = next((d for d in diagnostics if d.severity == "error"), None)
        code = first.code if cls is CompileError and first is not None else ""
        return super().__new__(_BY_CODE.get(code, cls))

    def __init__(self, diagnostics: list[Diagnostic], rendered: str, text: str | None) -> None:
        first = next((d for d in diagnostics if d.severity == "error"), None)
        self.diagnostics = diagnostics
        self.rendered = rendered
        if first is None:
            super().__init__(rendered)
        else:
            where = (first.file, first.line, first.column, text, first.end_line, first.end_column)
            super().__init__(_beside_the_line(first, diagnostics, rendered), where)
            # The last line is what a reader of a log sees first.
            self._text = f"{rendered.rstrip()}\n\n{first.message}"

    def __str__(self) -> str:
        # A `SyntaxError` adds file and line to its last line, which here is a help line; the findings have them.
        return getattr(self, "_text", str(self.msg))


class UndefinedNameError(CompileError, KeyError):
    """A kernel was rejected for a name that is not defined, which is a `KeyError` as in Warp."""


class TypeMismatchError(CompileError, TypeError, ValueError):
    """A kernel was rejected for a value of another type than is needed, which in Warp is a `TypeError` or a
    `ValueError`."""


_BY_CODE: dict[str, type[CompileError]] = {"PL0201": UndefinedNameError, "PL0101": TypeMismatchError}


def _beside_the_line(first: Diagnostic, diagnostics: list[Diagnostic], rendered: str) -> str:
    """What a traceback says below the line and the caret that it shows itself: no finding twice."""
    head = f"{first.message} [{first.code}]"
    findings = rendered.rstrip().split("\n\n")
    index = diagnostics.index(first)
    # A finding with labels shows more than the traceback does: place, margin, line and caret with margins make five.
    plain = 6 if first.help is None else 7
    if len(findings) != len(diagnostics) or len(findings[index].splitlines()) != plain:
        return f"{head}\n\n{rendered.rstrip()}"
    if first.help is not None:
        head += f"\n  = help: {first.help}"
    return "\n\n".join([head, *findings[:index], *findings[index + 1 :]])


class InternalError(RuntimeError):
    """The compiler failed at what it should be able to do, or to refuse: a fault of Polyloom, not of the program.

    Attributes
    ----------
    what : str
        What failed, and where in Polyloom.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"internal error in Polyloom: {what}\n"
            "This is a fault of Polyloom, not of your program. Please report it, with the kernel that shows it."
        )
        self.what = what


class ArgumentError(TypeError, RuntimeError):
    """The arguments of a launch are not of the parameters' types, or not as many.

    It is a `TypeError` as for a call of Python's, and a `RuntimeError` as for a launch of Warp's.
    """


class StructError(TypeError, RuntimeError):
    """A class cannot be a struct: a `TypeError` by what it is, and a `RuntimeError` as in Warp."""


class ArgumentOverflowError(OverflowError, RuntimeError):
    """An integer is too large for the type that it takes beside the other arguments of a call."""


class LaunchError(RuntimeError):
    """A thread of a launch would access an array outside its extents, or a checked kernel failed while it ran: an index
    out of bounds, a division by zero, an assertion.

    Attributes
    ----------
    kernel : str
        Name of the kernel.
    file : str
        Path of its source file.
    line, column : int
        The failing expression, from 1.
    index, extent : int or None
        The index and the extent of its axis, where an access was or would be out of bounds.
    thread : tuple of int
        Coordinates of the failing thread; of a launch that was refused, those of the first that would fail.
    """

    def __init__(
        self,
        message: str,
        kernel: str,
        file: str,
        line: int,
        column: int,
        index: int | None,
        extent: int | None,
        thread: tuple[int, ...],
    ) -> None:
        super().__init__(message)
        self.kernel = kernel
        self.file = file
        self.line = line
        self.column = column
        self.index = index
        self.extent = extent
        self.thread = thread


class DeviceError(RuntimeError):
    """A device is not there, has too little memory, or fails.

    Where NVIDIA's driver fails, the message has the driver's own words.
    """


class StreamWarning(UserWarning):
    """A stream waits for another one because of an array that both use, which `config.check` tells. The program may
    want an event there, or the array in one stream."""


def warn_of_wait(message: str) -> None:
    """Warns of a wait at the line of the program that made it necessary."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "polyloom":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, StreamWarning, stacklevel=level)


# A kernel that is wrong in several ways is one error, of which Warp would tell the first.
WarpCodegenError = WarpCodegenTypeError = WarpCodegenValueError = CompileError
WarpCodegenAttributeError = WarpCodegenIndexError = WarpCodegenKeyError = CompileError

# Tracebacks show where users find them.
for _class in (ArgumentError, Diagnostic, CompileError, DeviceError, LaunchError, StreamWarning):
    _class.__module__ = "polyloom"


@dataclass(frozen=True)
class Finding:
    """One thing that the simulator found.

    Attributes
    ----------
    kind : str
        `"data race"`, `"out-of-bounds access"`, `"divergent barrier"` and the like.
    kernel : str
        Name of the kernel's entry.
    message : str
        What happened, with all numbers.
    file : str or None
    line : int or None
        The line of source, if the code names it.
    threads : list of tuple
        Who: coordinates of block and thread of each, at most 32; of a race the other thread comes last.
    address : int or None
        The address in the simulator's memory, of an access.
    other : tuple of str and int, or None
        File and line of the other access of a race, or of the other barrier that threads wait at.
    """

    kind: str
    kernel: str
    message: str
    file: str | None
    line: int | None
    threads: list[tuple[tuple[int, int, int], tuple[int, int, int]]]
    address: int | None
    other: tuple[str, int] | None


class SanitizerError(RuntimeError):
    """The simulator found something wrong with a kernel that ran on it.

    Attributes
    ----------
    findings : list of Finding
        All there is, at least one.
    """

    def __init__(self, message: str, findings: list[Finding]) -> None:
        super().__init__(message)
        self.findings = findings
