"""What is known of a kernel's accesses of arrays."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["KernelAccess"]


class KernelAccess(NamedTuple):
    """An index of an access of an array, and what verifies it.

    Attributes
    ----------
    array : str or None
        The parameter of the kernel that is accessed, a leaf such as `s.x` for an array of structs; None for an array in
        shared memory.
    axis : int
        The axis that is indexed.
    text : str
        The access as the source has it.
    line : int
        Its line, from 1.
    checked : "launch", "run" or None
        Who compares the index with the extent: every launch before anything runs, the kernel as it runs since it is
        compiled with checks, or nobody.
    reason : str or None
        Why nobody does.
    """

    array: str | None
    axis: int
    text: str
    line: int
    checked: Literal["launch", "run"] | None
    reason: str | None

    def __str__(self) -> str:
        by = {"launch": "verified by every launch", "run": "checked while the kernel runs"}
        verified = by[self.checked] if self.checked else f"unchecked: {self.reason}"
        return f"line {self.line}: axis {self.axis} of {self.text}: {verified}"
