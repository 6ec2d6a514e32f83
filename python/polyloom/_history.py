"""What a tape knows of memory: what the way back will ask for, and whether somebody has changed it meanwhile.

Memory is known by regions: an array with all views of it, or a device's allocation. What the way back reads is kept
where a recorded operation overwrites it. Whatever else writes to a region is found out, where it can be, and refused:
launches and assignments that are not recorded say where they write, and what is written by other means shows in a
checksum of the bytes. Memory that nobody but the package can write to has none.

Design: `docs/design/tape.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyloom import _native
from polyloom._arrays import array
from polyloom._grad import owners
from polyloom._intervals import Intervals
from polyloom._memory import is_unseen, layout, root_of
from polyloom._views import Beside, View, view_of

BYTE = np.dtype(np.uint8)

INTEGERS = "memory that is written as integers and seen as numbers with gradients is not recorded: use two arrays"

# The type of numbers, and the rest that addresses of them leave when divided by its size.
Kind = tuple[np.dtype[Any], int]


class Needed:
    """Elements that the way back reads as they are, until they are overwritten."""

    __slots__ = ("hi", "kept", "lo", "view")

    def __init__(self, view: View) -> None:
        self.view, self.lo, self.hi = view, view.lo, view.hi
        # The arrays whose elements have been kept since these were last asked for.
        self.kept: set[Any] = set()


class Place:
    """Where an array has its gradient."""

    __slots__ = ("array", "grad", "hi", "lo")

    def __init__(self, grad: View, array: View) -> None:
        self.grad, self.array, self.lo, self.hi = grad, array, grad.lo, grad.hi


class Region(_native.RegionState):
    """Memory that recorded operations read or write.

    What each launch changes of it is in its native base, so that launches which are recorded again do so without a
    frame of Python.

    Attributes
    ----------
    device : str
        Where it is.
    lo, hi : int
        Its addresses.
    is_written : bool
        Whether a recorded operation writes to it.
    owners : dict
        Arrays in it that have a gradient of their own, by identity.
    gradient : Beside, optional
        The gradients of what was in it at the beginning.
    changed : str
        What has changed it without being recorded; empty if nothing has.
    is_current : bool
        Whether it has not become part of another region.
    is_single : bool
        Whether all that is needed and overwritten is one array; `is_needed` then says whether the way back reads it as
        it is.
    lost : str
        What has overwritten without being recorded what the way back needs; empty if nothing has.
    """

    # Once there are several, those that are needed.
    _needed: Intervals[Needed]
    _by_key: dict[Any, Needed]

    def __init__(self, device: str, lo: int, hi: int, keep: Any) -> None:
        self.device, self.lo, self.hi = device, lo, hi
        self.keep = [keep]
        # The array that is needed and overwritten.
        self._only: View | None = None
        self.is_written = False
        self.owners: dict[int, array] = {}
        self.gradient: Beside | None = None
        # The arrays of numbers in it that have been seen, by their keys, and those that are written as integers.
        self._numbers: dict[Kind, dict[Any, View]] = {}
        self._integers: dict[Any, View] = {}
        # The arrays that have been looked at for such, and whether they are written.
        self._seen: set[tuple[Any, bool]] = set()
        self.lost = ""
        # True if it has been found that nobody else can; whoever hands an array out says so.
        self._is_unseen = False

    def watch(self, lo: int, hi: int) -> None:
        """Notes that operations are given an array at these addresses."""
        if self._is_unseen:
            return
        if self.is_watched:
            first, end = self.span()
            if first <= lo and hi <= end:
                return
            self.look()
            lo, hi = min(first, lo), max(end, hi)
        elif all(isinstance(root, np.ndarray) and is_unseen(root) for root in self.keep):
            self._is_unseen = True
            return
        if self.device == "cpu":
            self.watch_bytes(lo, hi - lo)

    @property
    def is_watched(self) -> bool:
        """Whether it shows what changes it."""
        return self.watched is not None

    def span(self) -> tuple[int, int]:
        """The addresses of what is watched; all of them if nothing is."""
        if self.watched is None:
            return self.lo, self.hi
        lo, n_bytes = self.watched
        return lo, lo + n_bytes

    def watch_all(self) -> None:
        """Notes that somebody else may write to it from now on."""
        self._is_unseen = False
        self.watch(self.lo, self.hi)

    def look(self) -> None:
        """Looks whether it holds what recorded operations have left there."""
        if not self.changed and not self.is_intact():
            self.changed = "something that is not recorded, such as an assignment to a NumPy array,"
            self.lost = self.changed if self.has_needed else ""

    def accept(self) -> None:
        """Takes what it holds now for what was meant to be there."""
        self.changed = ""
        self.mark()

    def see(self, view: View, is_written: bool) -> None:
        """Notes what numbers are in it: no byte is of numbers of two types."""
        if (view.key, is_written) in self._seen:
            return
        for leaf in view.leaves():
            if leaf.is_float:
                kind = leaf.storage.dtype, leaf.lo % leaf.storage.itemsize
                self._see(leaf, self._numbers.setdefault(kind, {}))
            elif is_written:
                self._see(leaf, self._integers)
        self._seen.add((view.key, is_written))

    def _see(self, leaf: View, alike: dict[Any, View]) -> None:
        if leaf.key in alike:
            return
        for others in (*self._numbers.values(), self._integers):
            if others is alike or not any(leaf.overlaps(other) for other in others.values()):
                continue
            if self._integers in (others, alike):
                raise TypeError(INTEGERS)
            types = " and ".join(str(next(iter(each.values())).storage.dtype) for each in (others, {0: leaf}))
            raise TypeError(
                f"memory that is seen as numbers of the types {types} has no gradient: a tape takes arrays of one type"
            )
        alike[leaf.key] = leaf

    def add(self, to: Beside, part: Beside) -> None:
        """Adds the numbers in memory beside the region to those in other such memory."""
        for (dtype, phase), seen in self._numbers.items():
            total, term = (each.elements(dtype, phase, self.lo, self.hi) for each in (to, part))
            if len(self._numbers) == 1:
                total.add(term)
                continue
            # Between them are numbers of other types.
            first, size = self.lo + (phase - self.lo) % dtype.itemsize, dtype.itemsize
            are_seen = np.zeros(total.storage.shape, np.bool_)
            for view in seen.values():
                storage = view.storage
                strides = tuple(step // size for step in storage.strides)
                place = (int(storage.ctypes.data) - first) // size
                np.ndarray(storage.shape, np.bool_, are_seen, place, strides)[...] = True
            values = total.read().copy()
            values[are_seen] += term.read()[are_seen]
            total.write(values)

    def is_only(self, view: View) -> bool:
        """Whether all that is needed and overwritten is this array."""
        if not self.is_single:
            return False
        if self._only is None:
            self._only = view
        return self._only.key == view.key

    def settle(self) -> None:
        """Notes that more than one array is needed or overwritten."""
        if not self.is_single:
            return
        self._needed, self._by_key = Intervals(), {}
        if self.is_needed and self._only is not None:
            needed = self._by_key[self._only.key] = Needed(self._only)
            self._needed.add(needed)
        self.is_single = self.is_needed = False

    @property
    def has_needed(self) -> bool:
        """Whether the way back reads something of it as it is."""
        return self.is_needed if self.is_single else bool(self._by_key)

    def needed_between(self, lo: int, hi: int) -> list[View]:
        """The arrays with addresses between `lo` and `hi` that the way back reads as they are."""
        if self.is_single:
            is_between = self._only is not None and self._only.lo < hi and lo < self._only.hi
            return [self._only] if self._only is not None and self.is_needed and is_between else []
        return [needed.view for needed in self._needed.overlapping(lo, hi)]

    def need(self, view: View) -> None:
        """Notes elements that the way back reads as they are now."""
        if self.is_only(view):
            self.is_needed = True
            return
        self.settle()
        known = self._by_key.get(view.key)
        if known is None:
            known = self._by_key[view.key] = Needed(view)
            self._needed.add(known)
        known.kept.clear()

    def overwrite(self, view: View) -> bool:
        """Notes that elements are about to be overwritten, and says whether to keep them for the way back."""
        self.is_written = True
        if self.is_only(view):
            is_kept, self.is_needed = self.is_needed, False
            return is_kept
        self.settle()
        is_kept = False
        for needed in self._needed.overlapping(view.lo, view.hi):
            if not needed.view.overlaps(view):
                continue
            is_kept |= view.key not in needed.kept
            if view.covers(needed.view):
                self._needed.remove(needed)
                del self._by_key[needed.view.key]
            else:
                needed.kept.add(view.key)
        return is_kept

    def is_all(self, view: View) -> bool:
        """Whether a view is all there is of the region."""
        return view.is_dense and (view.lo, view.hi) == (self.lo, self.hi)

    def roots(self) -> list[View]:
        """The bytes of all that is known to be in it."""
        views = []
        for each in self.keep:
            if isinstance(each, np.ndarray):
                lo, n_bytes = _native.span(each)
                views.append(View(layout(lo, (n_bytes,), BYTE, None)))
            else:
                views.append(View(layout(each.address, (each.n_bytes,), BYTE, None), each))
        return views

    def copy(self) -> Beside:
        """A copy of what it holds."""
        made = Beside(self.lo, self.hi, self.device, zero=False)
        for root in self.roots():
            made.place(root).assign(root)
        return made

    def owner_of_all(self) -> array | None:
        """The array whose own gradient is the region's, if that is one and no other array has one."""
        if len(self.owners) != 1:
            return None
        (owner,) = self.owners.values()
        view, grad = view_of(owner), owner.grad
        if view is None or grad is None or not (view.is_dense and grad.is_contiguous):
            return None
        return owner if self.is_all(view) else None


class History:
    """The regions that recorded operations read or write."""

    def __init__(self) -> None:
        self._regions: dict[str, Intervals[Region]] = {}
        # By device and addresses, the regions that have been found since there was a new one.
        self._found: dict[tuple[str, int, int], Region] = {}
        # The structs that launches were given, by identity, with the gradients of their numbers by the names of fields.
        self.structs: dict[int, tuple[Any, dict[tuple[str, ...], Any]]] = {}

    def __iter__(self) -> Any:
        for regions in self._regions.values():
            yield from regions

    def find(self, view: View) -> Region | None:
        """The region that a view is of, if it is known."""
        place = view.device, view.lo, view.hi
        known = self._found.get(place)
        if known is not None:
            return known
        regions = self._regions.get(view.device)
        found = regions.overlapping(view.lo, view.hi) if regions is not None else []
        if len(found) != 1 or view.lo < found[0].lo or found[0].hi < view.hi:
            return None
        self._found[place] = found[0]
        return found[0]

    def around(self, view: View) -> Region | None:
        """The region that a view is of, which becomes larger if it is known of a part of the view alone."""
        regions = self._regions.get(view.device)
        known = regions is not None and any(regions.overlapping(view.lo, view.hi))
        return self.region(view) if known else None

    def find_owners(self) -> None:
        """Finds the arrays with a gradient that are in its regions, whether operations were given them or not."""
        for owner in owners():
            view = View(owner._storage, owner._memory)
            regions = self._regions.get(view.device)
            if view.is_float and regions is not None and regions.overlapping(view.lo, view.hi):
                self.region(view, owner).see(view, False)

    def check_gradients(self) -> None:
        """Refuses gradients that share memory with each other, or with what the way back reads."""
        known: dict[str, Intervals[Place]] = {}
        for region in self:
            for each, owner in list(region.owners.items()):
                grad = owner.grad
                if grad is None or not grad.size:
                    continue
                place = Place(View(grad._storage, grad._memory), View(owner._storage, owner._memory))
                places = known.setdefault(place.grad.device, Intervals())
                if self._shares(place, places):
                    # The same array over again.
                    del region.owners[each]
                else:
                    places.add(place)

    def _shares(self, place: Place, places: Intervals[Place]) -> bool:
        """Whether an array and its gradient are those of another object; refuses gradients that share memory."""
        for other in places.overlapping(place.lo, place.hi):
            if (other.grad.key, other.array.key) == (place.grad.key, place.array.key):
                return True
            if other.grad.overlaps(place.grad):
                raise ValueError("two arrays have gradients that share memory: let each have a `grad` of its own")
        regions = self._regions.get(place.grad.device)
        for region in regions.overlapping(place.lo, place.hi) if regions is not None else []:
            if any(needed.overlaps(place.grad) for needed in region.needed_between(place.lo, place.hi)):
                raise ValueError(
                    "the `grad` of an array shares memory with an array that a recorded operation needs on the way "
                    "back: give it one of its own, or give the operation a copy"
                )
        return False

    def region(self, view: View, value: Any = None) -> Region:
        """The region that a view is of; `value` is the array as somebody gave it."""
        region = self.find(view) or self._made(view)
        region.watch(view.lo, view.hi)
        while isinstance(value, array):
            if value._requires_grad and value._has_derivatives():
                region.owners[id(value)] = value
            value = value._parent
        return region

    def depend(self, view: View, way_back: str) -> None:
        """Notes an array that has been computed from others by a way back."""
        if view.storage.size:
            self.region(view).changed = f"{way_back}, of which there are no second derivatives,"

    def _made(self, view: View) -> Region:
        """A new region, with those that lie within it."""
        if view.memory is None:
            root = root_of(view.storage)
            keep: Any = root
            lo, hi = min(View(root).lo, view.lo), max(View(root).hi, view.hi)
        else:
            keep = view.memory
            lo, hi = view.memory.address, view.memory.address + view.memory.n_bytes
        regions = self._regions.setdefault(view.device, Intervals())
        within = regions.overlapping(lo, hi)
        lo, hi = min([lo, *(each.lo for each in within)]), max([hi, *(each.hi for each in within)])
        made = Region(view.device, lo, hi, keep)
        for each in within:
            each.look()
            regions.remove(each)
            _move(each, made)
        regions.add(made)
        if within:
            self._found.clear()
        return made

    def outside(self, device: str, lo: int, hi: int, what: str) -> None:
        """Notes that something which is not recorded has written here."""
        regions = self._regions.get(device)
        for region in regions.overlapping(lo, hi) if regions is not None else []:
            region.changed = region.changed or what
            if region.needed_between(lo, hi):
                region.lost = region.lost or what

    def handed_out(self, root: np.ndarray[Any, Any]) -> None:
        """Notes that somebody else may write to a NumPy array from now on."""
        for region in self._regions.get("cpu", Intervals[Region]()):
            if any(each is root for each in region.keep):
                region.watch_all()

    def check(self) -> None:
        """Refuses to go back over what has been lost."""
        for region in self:
            if region.has_needed:
                region.look()
        self.check_lost()

    def check_lost(self) -> None:
        """Refuses to go back over what is known to have been lost."""
        for region in self:
            if region.lost:
                raise RuntimeError(
                    f"{region.lost} has overwritten an array that a recorded operation needs on the way back: let it "
                    "write to another array, or have it recorded"
                )


def _move(old: Region, new: Region) -> None:
    """Makes one region part of another."""
    old.is_current = False
    old.settle()
    new.settle()
    new.keep += old.keep
    new.watch(*old.span())
    for needed in old._needed:
        new._needed.add(needed)
    new._by_key |= old._by_key
    new.is_written |= old.is_written
    new.owners |= old.owners
    new.changed, new.lost = new.changed or old.changed, new.lost or old.lost
    for seen in old._numbers.values():
        for view in seen.values():
            new.see(view, False)
    for view in old._integers.values():
        new.see(view, True)
    if old.gradient is not None:
        if new.gradient is None:
            new.gradient = Beside(new.lo, new.hi, new.device)
        old.add(new.gradient, old.gradient)
