"""Functions that programs written for Warp call at module level, where Polyloom has little to do."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["constant", "init", "static", "synchronize"]

T = TypeVar("T")


def constant(value: T) -> T:
    """`value`: what a kernel captures is a constant of it anyway.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.constant(loom.vec2(1, 2))
    vec2([1.0, 2.0])
    """
    return value


def static(value: T) -> T:
    """`value`, which in a kernel must be a constant."""
    return value


def init() -> None:
    """Nothing: importing the package is enough."""


def synchronize() -> None:
    """Nothing: a launch on the CPU returns when it is done."""
