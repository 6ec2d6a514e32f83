"""Small kernels with one bug each, and their corrected twins.

A bug's lines end with the comment `# BUG`: a finding has to name one of them, and of a race both accesses have to be at
such lines.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polyloom as loom

RACE = "data race"
BOUNDS = "out-of-bounds access"
UNINITIALISED = "read of uninitialised memory"
MISALIGNED = "misaligned access"
ASYNC = "missing wait for an asynchronous copy"
# Refused when the kernel is defined.
COMPILE = "compile error"
# A failed check of a kernel compiled with `check=True`.
CHECK = "failed check"


@dataclass(frozen=True)
class Unset:
    """An array of float32 in the simulator's memory that nobody has written."""

    size: int


@dataclass(frozen=True)
class Case:
    """A bug and its twin, and how both are launched."""

    kind: str
    bug: Callable[..., Any]
    twin: Callable[..., Any]
    args: Sequence[Any]
    grid: int | tuple[int, ...] = 1
    block: int | tuple[int, ...] = 64
    shared_bytes: int = 0
    # Of the twin, where memory that is too small is the bug.
    twin_shared_bytes: int | None = None

    def lines(self) -> set[int]:
        """The lines of the bug, by their comments."""
        text, first = inspect.getsourcelines(self.bug)
        return {first + at for at, line in enumerate(text) if line.rstrip().endswith("# BUG")}

    def fresh_args(self) -> list[Any]:
        def fresh(arg: Any) -> Any:
            if isinstance(arg, Unset):
                return loom.empty(arg.size, dtype=float, device="sim:0")
            # A launch has all its arrays on one device.
            wanted = any(isinstance(each, Unset) for each in self.args)
            if isinstance(arg, np.ndarray):
                return loom.array(arg, device="sim:0") if wanted else arg.copy()
            return arg

        return [fresh(arg) for arg in self.args]


CASES: list[Case] = []


def plant(kind: str, bug: Callable[..., Any], twin: Callable[..., Any], args: Sequence[Any], **launch: Any) -> None:
    CASES.append(Case(kind, bug, twin, args, **launch))


def numbers(*shape: int) -> np.ndarray:
    """An array of float32 whose elements all differ."""
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)
