"""What tapes record, and the way back through it.

An operation keeps what it overwrites where the way back asks for it. The way back goes through the operations in
reverse order and puts what each has kept into a copy of the memory it is of, so that the copy holds what the memory
held before the operation.
"""

from __future__ import annotations

import copy as _copy
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from polyloom import _native
from polyloom._arrays import array
from polyloom._gradients import check_aliases, known_of, repeatable_backward
from polyloom._history import History, Region
from polyloom._leaves import Leaf, facts_of, place_for
from polyloom._structs import Struct
from polyloom._views import Beside, Storage, View, view_of

# Arguments that stay what they are.
IMMUTABLE = (int, float, bool, str, np.generic, type(None))


# Launches of a kernel that are known to have a way back, and what it needs, are kept up to so many.
MOST_NEEDS = 256


class Operation:
    """What a tape has recorded.

    Attributes
    ----------
    name : str
        The kernel's name, or what else it is.
    saved : int
        Bytes that are kept of what the operation overwrote.
    loops : int
        Bytes that the tapes of the kernel's loops took when the operation was played back last; 0 before.
    arrays : list
        The arrays it reads or writes, with what somebody gave for them.
    needed, written : list of View
        Those that the way back reads as they were before, and those that it overwrites.
    needed_after : list of View
        Those that the way back reads as the operation has left them.
    kept : list
        What it overwrote, with copies.
    structs : list of Struct
        The structs that it was given.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.saved = self.loops = 0
        self.arrays: list[tuple[View, Any]] = []
        self.needed: list[View] = []
        self.needed_after: list[View] = []
        self.written: list[View] = []
        self.kept: list[tuple[View, View]] = []
        self.structs: list[Struct] = []

    # Whether all elements of the array that it writes are replaced.
    replaces = False

    def play_back(self, playback: Playback, times: int) -> None:
        """Carries derivatives back, so many times. What has failed and was not finished carries none."""

    def __repr__(self) -> str:
        return f"<{self.name}: {self.saved} bytes saved, {self.loops} for loops>"


class Needs(NamedTuple):
    """What the way back of a launch needs: numbers of its arguments.

    Attributes
    ----------
    is_active : bool
        Whether derivatives flow through it.
    written : list of int
        The arrays that it writes.
    writes : list of bool
        The same for each argument, for the backward kernel.
    before, after : list of int
        Those that are read as they were before it, and as it has left them.
    """

    is_active: bool
    written: list[int]
    writes: list[bool]
    before: list[int]
    after: list[int]


class Launched(Operation):
    """A launch, of a kernel that takes leaves in place of structs."""

    def __init__(
        self, kernel: _native.Kernel, dim: Sequence[int], leaves: Sequence[Leaf], device: str, block: Any
    ) -> None:
        super().__init__(kernel.key)
        facts = facts_of(kernel)
        self._kernel, self._dim, self._device, self._block = kernel, tuple(dim), device, block
        self._args = [kept_value(leaf.value) if leaf.view is None else leaf.view for leaf in leaves]
        self.structs = [leaf.struct for leaf in leaves if leaf.struct is not None]
        if self.structs:
            arrays: dict[int, tuple[View | None, Any]] = {}
            for leaf in leaves:
                if leaf.view is not None and id(leaf.array) not in arrays:
                    whole = leaf.view if leaf.array is leaf.value else view_of(leaf.array, device)
                    arrays[id(leaf.array)] = whole, leaf.array
            self.arrays = [(view, each) for view, each in arrays.values() if view is not None]
        else:
            self.arrays = [(leaf.view, leaf.array) for leaf in leaves if leaf.view is not None]
        # Maps a parameter to the struct of which it is a number with a derivative.
        self._fields = (
            [
                leaf if leaf.struct is not None and place_for(of_parameter) is not None else None
                for leaf, of_parameter in zip(leaves, facts.parameters, strict=True)
            ]
            if self.structs
            else [None] * len(leaves)
        )
        # All that what the way back needs depends on.
        asked = (
            self._dim,
            tuple([field is not None for field in self._fields]) if self.structs else None,
            tuple(
                [
                    leaf.view.key[2:]
                    if leaf.view is not None
                    else leaf.value
                    if isinstance(leaf.value, (int, np.integer))
                    else None
                    for leaf in leaves
                ]
            ),
        )
        needs = facts.needs.get(asked)
        if needs is None:
            if len(facts.needs) >= MOST_NEEDS:
                facts.needs.clear()
            needs = facts.needs[asked] = self._needs_of(kernel, [leaf.view for leaf in leaves], facts.writes)
        self._needs = needs
        views = [leaf.view for leaf in leaves]
        self.written = [view for view in [views[index] for index in needs.written] if view is not None]
        for index in needs.written if needs.is_active else ():
            written = views[index]
            for other, view in enumerate(views):
                if other != index and view is not None and written is not None and written.touches(view):
                    check_aliases(kernel, views, needs.writes)
        self.needed = [view for view in [views[index] for index in needs.before] if view is not None]
        self.needed_after = [view for view in [views[index] for index in needs.after] if view is not None]

    def _needs_of(self, kernel: _native.Kernel, views: Sequence[View | None], writes: Sequence[bool]) -> Needs:
        """What the way back of the launch needs."""
        written = [index for index, view in enumerate(views) if view is not None and writes[index]]
        floats = [view is not None and view.is_float for view in views]
        # A kernel that writes integers alone is not differentiated: nothing flows back through it.
        if not any(floats[index] for index in written):
            return Needs(False, written, list(writes), [], [])
        active = [field is not None or is_float for is_float, field in zip(floats, self._fields, strict=True)]
        coinciding = [view is not None and view.coincides for view in views]
        backward = kernel.backward(active, self._dim, coinciding, known=known_of(self._args))
        check_aliases(kernel, views, backward.writes)
        reads = list(enumerate(zip(views, backward.reads, backward.left, strict=True)))
        before = [index for index, (view, is_read, left) in reads if view is not None and is_read and not left]
        after = [index for index, (view, is_read, left) in reads if view is not None and is_read and left]
        return Needs(True, written, backward.writes, before, after)

    def repeatable(self, history: History) -> tuple[Any, ...] | None:
        """What there is to note when the launch is recorded again: for `LaunchLog` of the extension module."""
        regions: dict[int, Region] = {}
        for view in [view for view, _ in self.arrays if view.storage.size]:
            region = history.find(view)
            if region is None or view.device != "cpu":
                return None
            regions[id(view)] = region

        def singles(views: Sequence[View]) -> list[tuple[Region, View]] | None:
            found = [(regions[id(view)], view) for view in views if view.storage.size]
            return found if all(region.is_only(view) for region, view in found) else None

        needed, written, after = singles(self.needed), singles(self.written), singles(self.needed_after)
        if self.structs or needed is None or written is None or after is None:
            return None
        return (
            self.again([], None) if self.kept else self,
            list({id(region): region for region in regions.values()}.values()),
            [region for region, _ in needed],
            [(region, view, view.storage) for region, view in written],
            [region for region, _ in after],
        )

    def pattern(self) -> tuple[Any, ...] | None:
        """What there is to note when the kernel is launched on other arrays of the same layout: for `LaunchLog`."""
        needs = self._needs
        return None if self.structs else (self, needs.is_active, (needs.before, needs.written, needs.after))

    def alike(self, kept: list[tuple[View, Storage]], args: Sequence[Any], views: Sequence[View | None]) -> Launched:
        """The same launch on other arrays: arguments with their views."""
        made = self.again(kept, None)
        made._args = [arg if view is None else view for arg, view in zip(args, views, strict=True)]
        made.arrays = [(view, arg) for arg, view in zip(args, views, strict=True) if view is not None]
        needs, made.loops = self._needs, 0
        made.written = [view for view in [views[index] for index in needs.written] if view is not None]
        made.needed = [view for view in [views[index] for index in needs.before] if view is not None]
        made.needed_after = [view for view in [views[index] for index in needs.after] if view is not None]
        return made

    def again(self, kept: list[tuple[View, Storage]], args: Sequence[Any] | None) -> Launched:
        """The same launch, which has overwritten something else, perhaps with other numbers."""
        made: Launched = Launched.__new__(Launched)
        made.__dict__.update(self.__dict__)
        made.kept = [(view, View(held)) for view, held in kept]
        made.saved = sum([held.nbytes for _, held in kept])
        if args is not None:
            made._args = [own if isinstance(own, View) else arg for own, arg in zip(self._args, args, strict=True)]
        return made

    def play_back(self, playback: Playback, times: int) -> None:
        if not self._needs.is_active:
            return
        repeat = playback.repeat_of(self._args)
        if repeat is not None:
            repeat.run(times)
            return
        args = [playback.argument(arg) if isinstance(arg, View) else arg for arg in self._args]
        numbers = (
            [
                None if field is None else place_for(facts)
                for field, facts in zip(self._fields, facts_of(self._kernel).parameters, strict=True)
            ]
            if self.structs
            else [None] * len(args)
        )
        adjoints = [
            playback.adjoint(arg) if isinstance(arg, View) else number
            for arg, number in zip(self._args, numbers, strict=True)
        ]
        for _ in range(times):
            self.loops, repeat = repeatable_backward(
                self._kernel, self._dim, args, adjoints, self._device, self._block, has_left=True
            )
            if repeat is not None and not self.structs and not self.needed_after:
                playback.keep_repeat(self._args, repeat)
                repeat.run(times - 1)
                return
        for field, number in zip(self._fields, numbers, strict=True):
            if field is not None and number is not None:
                playback.add_to_field(field, number.storage[0])


def kept_value(value: Any) -> Any:
    """An argument that is no array, as it is now."""
    return value if isinstance(value, IMMUTABLE) else _copy.deepcopy(value)


def _kept_part(part: Any) -> Any:
    """A part of a key, as it is now."""
    return part if part is None or part is Ellipsis or isinstance(part, (int, slice)) else np.array(part)


class Assigned(Operation):
    """Elements that are replaced by those of another array or, without one, by constants; of the target's elements
    those that a key chooses, if there is one."""

    def __init__(self, target: View, to: array, value: Any, source: View | None, key: Any = None) -> None:
        super().__init__("fill" if source is None else "copy")
        self._key = None if key is None else tuple(_kept_part(part) for part in key)
        self.replaces = key is None
        if source is not None and source.is_float and target.is_float and target.coincides:
            raise ValueError(
                "an array in which several indices are one element holds the last of what is assigned to them, which "
                "is not differentiated: assign to an array in which each has its own, such as array.contiguous()"
            )
        self.arrays = [(target, None), (View(to._storage, to._memory), to)]
        self.written = [target]
        if source is not None and source.is_float and target.is_float:
            self.arrays.append((source, value))
        # The fields of structs are assigned in order, whatever their names.
        targets, sources = target.leaves(), [] if source is None else source.leaves()
        self._copied = [
            (to, part if len(targets) == len(sources) and part is not None and part.is_float else None)
            for to, part in zip_longest(targets, sources[: len(targets)])
            if to.is_float
        ]

    def play_back(self, playback: Playback, times: int) -> None:
        for target, part in self._copied * times:
            self._carry_back(playback, target, part)

    def _carry_back(self, playback: Playback, target: View, part: View | None) -> None:
        adjoint = playback.adjoint(target)
        if adjoint is None:
            return
        if self._key is not None:
            adjoint.storage[self._key] = 0
            return
        source = None if part is None else playback.adjoint(part)
        if source is not None and source.storage.shape == adjoint.storage.shape and not source.overlaps(adjoint):
            source.add(adjoint)
            adjoint.zero()
            return
        # The two may have elements in common, which first are those that were replaced.
        values = np.array(adjoint.read())
        adjoint.zero()
        if source is not None:
            source.add_values(_gathered(values, source.storage.shape))


def _gathered(values: Any, shape: tuple[int, ...]) -> Any:
    """The adjoint of an array of this shape that has been broadcast, or brought into the shape that `values` has."""
    if values.size == int(np.prod(shape)):
        return values.reshape(shape)
    n_more = values.ndim - len(shape)
    axes = [axis for axis, extent in enumerate(shape) if extent == 1 and values.shape[axis + n_more] != 1]
    summed = values.sum(axis=tuple(range(n_more)))
    return summed.sum(axis=tuple(axes), keepdims=True)


class Called(Operation):
    """A function of the program's own for the way back."""

    def __init__(self, function: Callable[[], Any], given: Sequence[array]) -> None:
        super().__init__(getattr(function, "__name__", "function"))
        self._function, self._given = function, list(given)
        views = [view_of(each) for each in given]
        self.needed = [view for view in views if view is not None]
        self.arrays = list(zip(self.needed, given, strict=True))

    def play_back(self, playback: Playback, times: int) -> None:
        for _ in range(times):
            self._call(playback)

    def _call(self, playback: Playback) -> None:
        from polyloom._tape import watched

        # It goes by what the arrays and their `grad` hold.
        exchanged: list[tuple[View, View]] = []
        gradients: list[tuple[View, View]] = []
        for view, each in zip(self.needed, self._given, strict=True):
            before, adjoint, grad = playback.before(view), playback.adjoint(view), view_of(each.grad)
            if before is not view:
                exchanged.append((view, view.copy()))
                view.assign(before)
            if adjoint is not None and grad is not None and adjoint.key != grad.key:
                exchanged.append((grad, grad.copy()))
                gradients.append((adjoint, grad))
                grad.assign(adjoint)
        try:
            with watched():
                self._function()
            for adjoint, grad in gradients:
                adjoint.assign(grad)
        finally:
            for view, held in exchanged:
                view.assign(held)
        playback.check()


class Playback:
    """One way back through a tape."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._adjoints: dict[Region, Beside] = {}
        # Maps an array to where its adjoint is in these.
        self._places: dict[Any, View] = {}
        self._before: dict[Region, Beside] = {}
        # Maps an array that operations have kept to where it is in these.
        self._put_back: dict[Any, View] = {}
        self._finished: set[Region] = set()
        # Arrays as the operation that is played back has left them, where it asks for that.
        self._after: dict[Any, View] = {}
        # By the identity of a launch's list of arguments, what goes its way back again, and how many regions were in
        # `_before` then.
        self._repeats: dict[int, tuple[_native.BackwardRepeat, int]] = {}

    def put_back(self, operation: Operation) -> None:
        """Makes the arrays what they were before an operation."""
        self._after = (
            {view.key: self.before(view).copy() for view in operation.needed_after} if operation.needed_after else {}
        )
        for view, held in operation.kept:
            place = self._put_back.get(view.key)
            if place is None:
                region = self._history.find(view)
                if region is None:
                    continue
                if region not in self._before:
                    self._before[region] = region.copy()
                place = self._put_back[view.key] = self._before[region].place(view)
            place.assign(held)

    def check(self) -> None:
        """Refuses to go on if something has overwritten what is needed."""
        self._history.check_lost()

    def before(self, view: View) -> View:
        """The array as it was before the operation that is played back."""
        region = self._history.find(view) if view.storage.size else None
        held = None if region is None else self._before.get(region)
        return view if held is None else held.place(view)

    def argument(self, view: View) -> View:
        """The array as the backward kernel of the launch that is played back takes it."""
        return self._after.get(view.key) or self.before(view)

    def keep_repeat(self, args: list[Any], repeat: _native.BackwardRepeat) -> None:
        """Keeps what goes the way back of a launch with these arguments again."""
        self._repeats[id(args)] = repeat, len(self._before)

    def repeat_of(self, args: list[Any]) -> _native.BackwardRepeat | None:
        """What goes the way back of a launch with these arguments again, if that was gone before, with the arrays where
        they are now."""
        repeat, n_before = self._repeats.get(id(args), (None, 0))
        return repeat if n_before == len(self._before) else None

    def adjoint(self, view: View) -> View | None:
        """The array of the adjoint of an array."""
        if not view.is_float:
            return None
        region = self._history.find(view) if view.storage.size else None
        if region is None:
            return View(np.zeros(view.storage.shape, view.storage.dtype))
        place = self._places.get(view.key)
        if place is None:
            if region not in self._adjoints:
                self._adjoints[region] = self._begun(region)
            place = self._places[view.key] = self._adjoints[region].place(view)
        return place

    def _begun(self, region: Region) -> Beside:
        """Memory for the adjoints of a region's arrays."""
        if not region.is_written:
            # What is only added to may be added to right where the sum is wanted.
            self._finished.add(region)
            if not region.owners or region.owner_of_all() is not None:
                return gradient_of(region)
            self._finished.remove(region)
        return Beside(region.lo, region.hi, region.device)

    def add_to_field(self, leaf: Leaf, number: Any) -> None:
        """Adds to the gradient of a number in a struct."""
        _, fields = self._history.structs.setdefault(id(leaf.struct), (leaf.struct, {}))
        fields[leaf.path] = fields[leaf.path] + number if leaf.path in fields else number.copy()

    def finish(self) -> None:
        """Adds what has come about to the gradients."""
        for region, made in self._adjoints.items():
            if region in self._finished:
                continue
            whole = region.owner_of_all()
            if whole is None and region.gradient is None:
                region.gradient = made
            elif whole is None and region.gradient is not None:
                region.add(region.gradient, made)
            for owner in region.owners.values():
                view, grad = view_of(owner), view_of(owner.grad)
                if view is not None and grad is not None and view.is_float:
                    grad.add_beside(made.place(view))


def gradient_of(region: Region) -> Beside:
    """The gradients of a region's arrays."""
    owner = region.owner_of_all()
    if owner is not None:
        grad = view_of(owner.grad)
        assert grad is not None
        return Beside.over(grad, region.lo)
    if region.gradient is None:
        region.gradient = Beside(region.lo, region.hi, region.device)
    return region.gradient
