"""Warp's loggers: what a program sets is kept, though the package itself says nothing but by Python's warnings."""

from __future__ import annotations

import sys
import warnings
from types import TracebackType
from typing import Any, Protocol

from polyloom._config import config

__all__ = [
    "LOG_DEBUG",
    "LOG_ERROR",
    "LOG_INFO",
    "LOG_WARNING",
    "Logger",
    "ScopedLogLevel",
    "ScopedLogger",
    "get_logger",
    "set_logger",
]

# As those of Python's `logging`.
LOG_DEBUG = 10
LOG_INFO = 20
LOG_WARNING = 30
LOG_ERROR = 40


class Logger(Protocol):
    """What `set_logger` takes: an object with these four methods."""

    def debug(self, message: str) -> None: ...
    def info(self, message: str) -> None: ...
    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None: ...
    def error(self, message: str) -> None: ...


class LoggerBasic:
    """The logger there is at first: messages go to `sys.stdout`, errors to `sys.stderr`, warnings to `warnings`."""

    def debug(self, message: str) -> None:
        sys.stdout.write(f"{message}\n")

    def info(self, message: str) -> None:
        sys.stdout.write(f"{message}\n")

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        warnings.warn(message, category or UserWarning, stacklevel=stacklevel + 1)

    def error(self, message: str) -> None:
        sys.stderr.write(f"{message}\n")


_DEFAULT = LoggerBasic()
_logger: Logger = _DEFAULT


def get_logger() -> Logger:
    """The logger that `set_logger` was given last."""
    return _logger


def set_logger(logger: Logger | None) -> None:
    """Keeps a logger; with `None`, that of the beginning.

    Raises
    ------
    TypeError
        If it lacks one of the methods `debug`, `info`, `warning` and `error`.
    """
    global _logger
    missing = [name for name in ("debug", "info", "warning", "error") if not callable(getattr(logger, name, None))]
    if logger is not None and missing:
        raise TypeError(f"a logger has the methods debug, info, warning and error: this one has no {missing[0]}()")
    _logger = _DEFAULT if logger is None else logger


class ScopedLogger:
    """Sets the logger in the body of a `with` statement."""

    def __init__(self, logger: Logger | None) -> None:
        self.logger = logger

    def __enter__(self) -> ScopedLogger:
        self._before = get_logger()
        set_logger(self.logger)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_logger(self._before)


class ScopedLogLevel:
    """Sets `config.log_level` in the body of a `with` statement.

    Examples
    --------
    >>> import polyloom as loom
    >>> with loom.ScopedLogLevel(loom.LOG_WARNING):
    ...     loom.config.log_level
    30
    """

    def __init__(self, log_level: int) -> None:
        self.log_level = log_level

    def __enter__(self) -> ScopedLogLevel:
        self._before: Any = config.log_level  # type: ignore[attr-defined]
        config.log_level = self.log_level
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        config.log_level = self._before
