"""Ranges of addresses, found by what they overlap."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Range(Protocol):
    """What has addresses `lo` to `hi`, the last of which it does not have."""

    lo: int
    hi: int


T = TypeVar("T", bound=Range)


class Intervals(Generic[T]):
    """Objects by the addresses that they have.

    They are kept apart by powers of two of their length, each sorted by its first address: those that overlap others
    of about their own length are then next to each other, whatever else there is.
    """

    def __init__(self) -> None:
        self._by_length: dict[int, list[tuple[int, int, T]]] = {}

    def add(self, item: T) -> None:
        """Adds an object, which is not empty."""
        insort(self._by_length.setdefault((item.hi - item.lo).bit_length(), []), (item.lo, id(item), item))

    def remove(self, item: T) -> None:
        """Takes an object out that is in."""
        of_length = self._by_length[(item.hi - item.lo).bit_length()]
        del of_length[bisect_left(of_length, (item.lo, id(item)))]

    def overlapping(self, lo: int, hi: int) -> list[T]:
        """Those with addresses between `lo` and `hi`."""
        found = []
        for n_bits, of_length in self._by_length.items():
            index = bisect_left(of_length, (lo - (1 << n_bits),))
            while index < len(of_length) and of_length[index][0] < hi:
                item = of_length[index][2]
                if item.hi > lo:
                    found.append(item)
                index += 1
        return found

    def __iter__(self) -> Iterator[T]:
        for of_length in self._by_length.values():
            for _, _, item in of_length:
                yield item
