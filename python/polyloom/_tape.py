"""Tapes: recording launches and array operations, and playing them back."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import TracebackType
from typing import Any

import numpy as np

from polyloom import _arrays, _native
from polyloom._arrays import array
from polyloom._gradients import TapeMemory
from polyloom._history import History, Region
from polyloom._indexed import IndexedArray
from polyloom._leaves import Leaf, Path, leaves_of
from polyloom._operations import IMMUTABLE, Assigned, Called, Launched, Operation, Playback, gradient_of
from polyloom._structs import Struct, copy_of
from polyloom._views import Storage, View, view_of

__all__ = ["Tape"]


class Gradients(Mapping[Any, Any]):
    """The gradients of a tape, by array: those of the package, of NumPy, of other libraries, and views of them; and by
    struct that launches were given."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Struct):
            known = self._tape._history.structs.get(id(key)) or self._tape._reset_structs.get(id(key))
            if known is None:
                raise KeyError("the tape has recorded nothing with this struct")
            return self._of_struct(key, known[1], ())
        view = view_of(key)
        if view is None or not view.is_float:
            raise KeyError(f"gradients are of arrays of floating-point numbers, not {_described(key, view)}")
        if not view.storage.size:
            return key
        region = self._tape._history.around(view)
        if region is None:
            raise KeyError("the tape has recorded nothing with this array")
        if isinstance(key, array):
            own = key.grad
            if own is not None and any(each in region.owners for each in _identities(key)):
                return own
        found = gradient_of(region).place(view)
        if isinstance(key, array):
            return array._wrap(found.storage, key.dtype, found.memory)
        return found.storage if found.memory is None else array._wrap(found.storage, None, found.memory)

    def _of_struct(self, value: Struct, numbers: Mapping[Path, Any], path: Path) -> Any:
        """The gradient of a struct: zero and None where a field has none. An indexed array keeps its indices."""
        made = copy_of(value) if isinstance(value, IndexedArray) else type(value)()
        for name in type(value)._fields:
            field, here = getattr(value, name), (*path, name)
            if isinstance(field, Struct):
                setattr(made, name, self._of_struct(field, numbers, here))
            elif here in numbers:
                setattr(made, name, numbers[here])
            elif (view := view_of(field)) is not None and view.is_float and field in self:
                setattr(made, name, self[field])
            elif isinstance(field, array) and field.requires_grad:
                # A reset tape knows of the array no more.
                setattr(made, name, field.grad)
        return made

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._tape._given.values()))

    def __len__(self) -> int:
        return len(self._tape._given)


def _described(value: Any, view: View | None) -> str:
    """What has no gradient."""
    return type(value).__name__ if view is None else f"of {view.storage.dtype}"


def _identities(value: array | None) -> Iterator[int]:
    while value is not None:
        yield id(value)
        value = value._parent


class Tape:
    """Records launches and array operations, and carries derivatives back through them.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> @loom.kernel
    ... def square(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     y[i] = x[i] * x[i]
    >>> x = np.array([1.0, 2.0, 3.0], np.float32)
    >>> y = np.zeros(3, np.float32)
    >>> with loom.Tape() as tape:
    ...     loom.launch(square, 3, [x], [y])
    >>> tape.backward(grads=[(y, np.ones(3, np.float32))])
    >>> tape.gradients[x]
    array([2., 4., 6.], dtype=float32)
    """

    def __init__(self) -> None:
        self._is_recording = False
        self._scopes: list[str] = []
        # The structs of what a reset has forgotten, whose numbers have gradients of zero.
        self._reset_structs: dict[int, tuple[Struct, dict[Path, Any]]] = {}
        self._forget()
        with _lock:
            _tapes.add(self)

    def _forget(self) -> None:
        self._operations: list[Operation] = []
        self._marks: list[tuple[int, str | None, Any]] = []
        self._history = History()
        # The arrays that were given to operations, by what they are views of.
        self._given: dict[Any, Any] = {}
        self._log = _native.LaunchLog(self._operations)

    @property
    def gradients(self) -> Gradients:
        """The gradients of the arrays that were recorded, by array or struct: `tape.gradients[x]` is like `x`.

        Raises
        ------
        KeyError
            By the mapping, for an array that nothing was recorded with, or not one of floating-point numbers.
        """
        return Gradients(self)

    @property
    def launches(self) -> list[Operation]:
        """What has been recorded, in order: launches, copies and the like, with the memory that each takes."""
        return list(self._operations)

    @property
    def memory(self) -> TapeMemory:
        """What the tape takes, in bytes."""
        gradients = sum(region.gradient.n_bytes for region in self._history if region.gradient is not None)
        saved = sum(each.saved for each in self._operations)
        return TapeMemory(saved, gradients, max((each.loops for each in self._operations), default=0))

    def __enter__(self) -> Tape:
        if self._is_recording:
            raise RuntimeError("the tape is recording already")
        self._is_recording = True
        _thread.active.append(self)
        _update_level()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self not in _thread.active:
            raise RuntimeError("the tape is not recording in this thread")
        _thread.active.remove(self)
        self._is_recording = False
        _update_level()

    def record_func(self, backward: Callable[[], Any], arrays: Sequence[array]) -> None:
        """Records a function that is called on the way back.

        Parameters
        ----------
        backward : callable
            Carries derivatives by hand: takes the `grad` of what was computed and adds to the `grad` of what it was
            computed from. If that overwrote an array, it sets the array's `grad` to zero. The arrays hold what they
            hold now.
        arrays : sequence of array
            The arrays that it uses, which have a `grad`.

        Raises
        ------
        TypeError
            If `backward` cannot be called.
        ValueError
            If an array has no `grad`.

        Examples
        --------
        >>> import polyloom as loom
        >>> x = loom.array([3.0], dtype=float, requires_grad=True)
        >>> y = loom.zeros(1, requires_grad=True)
        >>> def doubled_backward():
        ...     x.grad.assign(x.grad + 2.0 * y.grad)
        ...     y.grad.zero_()
        >>> with loom.Tape() as tape:
        ...     made = y.assign(2.0 * x.numpy())
        ...     tape.record_func(doubled_backward, [x, y])
        >>> tape.backward(y)
        >>> x.grad
        array([2.], dtype=float32)
        """
        if not callable(backward):
            raise TypeError(f"record_func() takes a function without parameters, not {type(backward).__name__}")
        for each in arrays:
            if not isinstance(each, array) or each.grad is None:
                raise ValueError("record_func() takes arrays of the package that have requires_grad=True")
        self._begin(operation := Called(backward, arrays))
        self._end(operation, True)

    def record_scope_begin(self, scope_name: str, metadata: Any = None) -> None:
        """Begins a named part of the recording: what is recorded in it is shown with that name in `launches`.

        Parameters
        ----------
        scope_name : str
            The name.
        metadata
            Kept in `scopes`.

        Examples
        --------
        >>> import polyloom as loom
        >>> x = loom.zeros(2, requires_grad=True)
        >>> tape = loom.Tape()
        >>> with tape:
        ...     tape.record_scope_begin("setup")
        ...     _ = x.fill_(1.0)
        ...     tape.record_scope_end()
        >>> tape.launches
        [<setup/fill: 0 bytes saved, 0 for loops>]
        """
        self._scopes.append(str(scope_name))
        self._marks.append((len(self._operations), str(scope_name), {} if metadata is None else metadata))
        self._log.clear()

    def record_scope_end(self) -> None:
        """Ends the part that `record_scope_begin` has begun last.

        Raises
        ------
        RuntimeError
            If none has begun.
        """
        if not self._scopes:
            raise RuntimeError(
                "ended tape scope, but scope not present: call record_scope_begin() before record_scope_end()"
            )
        self._scopes.pop()
        if self._marks and self._marks[-1][0] == len(self._operations) and self._marks[-1][1] is not None:
            # Nothing was recorded in it.
            self._marks.pop()
        else:
            self._marks.append((len(self._operations), None, None))
        self._log.clear()

    @property
    def scopes(self) -> list[tuple[int, str | None, Any]]:
        """Where parts of the recording begin, with name and metadata, and end, with None: the number of the operation
        that comes next. Parts in which nothing was recorded are left out."""
        return list(self._marks)

    def visualize(self, filename: str | None = None, simplify_graph: bool = True, **options: Any) -> str:
        """A drawing of what was recorded in Graphviz' language: operations, and the arrays that they read and write.

        Parameters
        ----------
        filename : str, optional
            A file that it is written to, too.
        simplify_graph : bool
            Draw an operation that was recorded several times in a row once.
        **options
            Without effect.

        Examples
        --------
        >>> import polyloom as loom
        >>> x = loom.zeros(2, requires_grad=True)
        >>> with loom.Tape() as tape:
        ...     _ = x.fill_(1.0)
        >>> "fill" in tape.visualize()
        True
        """
        from polyloom._drawing import drawing_of

        text = drawing_of(self._operations, self._marks, simplify_graph)
        if filename is not None:
            with open(filename, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def _begin(self, operation: Operation) -> None:
        """Keeps what an operation is going to overwrite and the way back needs."""
        regions: dict[int, Region] = {}
        for view, value in operation.arrays:
            if not view.storage.size:
                continue
            region = regions[id(view)] = self._history.region(view, value)
            region.see(view, False)
            region.look()
            is_replaced = operation.replaces and view is operation.written[0] and region.is_all(view)
            if is_replaced or isinstance(operation, Called):
                region.accept()
            if region.changed:
                raise RuntimeError(
                    f"{region.changed} has changed an array between operations of a tape, which would make gradients "
                    "wrong: let it write to another array, or assign with array.assign() and the like"
                )

        def region_of(view: View) -> Region:
            # Regions may have become one since it was found.
            known = regions.get(id(view))
            return known if known is not None and known.is_current else self._history.region(view)

        for view in operation.written:
            if view.storage.size:
                region_of(view).see(view, True)
        for view in operation.needed:
            if view.storage.size:
                region_of(view).need(view)
        for view in operation.written:
            if view.storage.size and region_of(view).overwrite(view):
                held = view.copy()
                operation.saved += held.storage.nbytes
                operation.kept.append((view, held))

    def _end(self, operation: Operation, is_done: bool) -> None:
        """Notes that an operation is over."""
        for view in operation.written:
            region = self._history.find(view) if view.storage.size else None
            if region is None:
                continue
            if is_done:
                region.mark()
            elif region.is_watched:
                # It may have failed before it wrote anything.
                region.look()
            else:
                region.changed = f"'{operation.name}', which has failed,"
        if not is_done:
            if not operation.kept:
                return
            failed = Operation(operation.name)
            failed.saved, failed.kept = operation.saved, operation.kept
            operation = failed
        operation.name = "/".join([*self._scopes, operation.name])
        self._operations.append(operation)
        for view in operation.needed_after:
            if view.storage.size:
                self._history.region(view).need(view)
        for view, value in operation.arrays:
            if view.is_float and value is not None:
                self._given.setdefault(view.key, value)
        for struct in operation.structs:
            self._history.structs.setdefault(id(struct), (struct, {}))
            self._given.setdefault(id(struct), struct)

    def backward(self, loss: Any = None, grads: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None = None) -> None:
        """Plays back what was recorded, the last first, and adds to the gradients.

        Parameters
        ----------
        loss : array, optional
            An array of one element: its gradient begins at one.
        grads : mapping or sequence of pairs, optional
            Arrays, and the gradients that they begin with. Without either, what was computed begins with its `grad`,
            which is zero afterwards.

        Raises
        ------
        RuntimeError
            If something that was not recorded has overwritten what the way back needs, or what it begins with.
        ValueError
            If there is nothing to begin with, a gradient has another shape than its array, or two arrays have a `grad`
            in one memory.
        TypeError
            If a gradient is not of real numbers.
        """
        seeds = _pairs(grads)
        if loss is not None:
            view = view_of(loss)
            if view is None or view.storage.size != 1 or view.storage.dtype.names is not None:
                raise ValueError("loss is an array of one element; for larger arrays, give grads=[(array, gradient)]")
            seeds.append((loss, 1))
        with _lock:
            self._history.check()
            self._history.find_owners()
            self._history.check_gradients()
        with paused():
            playback = Playback(self._history)
            if seeds:
                self._begin_with(playback, seeds)
            else:
                self._begin_with_own(playback)
            retained: dict[Any, tuple[array, View]] = {}
            # A launch that was recorded again as it was is the same operation.
            for operation, repeats in groupby(reversed(self._operations)):
                playback.put_back(operation)
                self._retain(playback, operation, retained)
                operation.play_back(playback, sum(1 for _ in repeats))
            playback.finish()
            for value, adjoint in retained.values():
                grad = view_of(value.grad)
                if grad is not None:
                    grad.add(adjoint)
        have_gone_back(self._gradients(), "the way back of a tape")

    def _retain(self, playback: Playback, operation: Operation, retained: dict[Any, tuple[array, View]]) -> None:
        """Keeps the adjoints that an operation is about to use up, of the last values of arrays with `retain_grad`."""
        written = {view.key for view in operation.written}
        for view, value in operation.arrays:
            if view.key in written and view.key not in retained and isinstance(value, array) and value.retain_grad:
                adjoint = playback.adjoint(view)
                if adjoint is not None:
                    retained[view.key] = value, adjoint.copy()

    def _gradients(self) -> list[View]:
        """The memory of all gradients there are."""
        own = [region.gradient.place(each) for region in self._history if region.gradient for each in region.roots()]
        owners = [owner for region in self._history for owner in region.owners.values()]
        return own + [grad for owner in owners if (grad := view_of(owner.grad)) is not None]

    def _begin_with(self, playback: Playback, seeds: Iterable[tuple[Any, Any]]) -> None:
        for key, value in seeds:
            view = view_of(key)
            if view is None or not view.is_float:
                raise ValueError(f"gradients are of arrays of floating-point numbers, not {_described(key, view)}")
            if view.storage.size and self._history.find(view) is None:
                raise ValueError(
                    "the tape has recorded nothing with the array that the way back is to begin with: launch what "
                    "computes it inside `with` the tape"
                )
            self._check_unchanged(view)
            given = _seed_of(view, value)
            adjoint = playback.adjoint(view)
            if adjoint is not None and isinstance(given, View):
                adjoint.add(given)
            elif adjoint is not None:
                adjoint.add_values(given)

    def _check_unchanged(self, view: View) -> None:
        """Refuses to begin with an array that is not what was recorded."""
        region = self._history.find(view) if view.storage.size else None
        if region is None:
            return
        region.look()
        if region.changed:
            raise RuntimeError(
                f"{region.changed} has changed an array that the way back is to begin with: have that recorded, or let "
                "it write to another array"
            )

    def _begin_with_own(self, playback: Playback) -> None:
        owners = [(region, owner) for region in self._history for owner in region.owners.values() if region.is_written]
        if not owners:
            # As Warp does, because programs go back whether or not something has a gradient.
            message = "backward() has nothing to begin with: give it a loss, or grads of what was computed"
            warnings.warn(message, stacklevel=3)
        for _, owner in owners:
            view, grad = view_of(owner), view_of(owner.grad)
            adjoint = None if view is None else playback.adjoint(view)
            if view is not None and adjoint is not None and grad is not None:
                if any(number.read().any() for number in grad.numbers()):
                    self._check_unchanged(view)
                adjoint.add_beside(grad)
                grad.zero()

    def zero(self) -> None:
        """Sets all gradients to zero."""
        with _lock:
            self._history.find_owners()
        with paused():
            for region in self._history:
                if region.gradient is not None:
                    region.gradient.clear()
                for owner in region.owners.values():
                    grad = view_of(owner.grad)
                    if grad is not None:
                        grad.zero()
            for _, numbers in self._history.structs.values():
                numbers.clear()
        with _lock:
            for each in self._gradients():
                _tell(each.device, each.lo, each.hi, "zero() of a tape")
        _update_level()

    def reset(self) -> None:
        """Sets all gradients to zero, and forgets what was recorded."""
        self.zero()
        self._reset_structs = {key: (struct, {}) for key, (struct, _) in self._history.structs.items()}
        self._forget()
        _update_level()


def _pairs(grads: Any) -> list[tuple[Any, Any]]:
    """The arrays and gradients that somebody has given a way back to begin with."""
    if grads is None:
        return []
    if isinstance(grads, Mapping):
        return list(grads.items())
    pairs = [] if view_of(grads) is not None else list(grads)
    if view_of(grads) is not None or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise TypeError("grads is a mapping of arrays to gradients, or pairs of them: grads=[(array, gradient)]")
    return [(key, value) for key, value in pairs]


def _seed_of(view: View, value: Any) -> Any:
    """The gradient that an array begins with: an array like it, or a number for all its elements."""
    given = view_of(value)
    if view.storage.dtype.names is not None:
        if given is None or given.storage.dtype != view.storage.dtype or given.storage.shape != view.storage.shape:
            raise ValueError("the gradient of an array of structs is an array of the same structs")
        return given
    values = given.storage if given is not None else np.asarray(value)
    if values.dtype.kind not in "iuf" and values.dtype.name != "bfloat16":
        raise TypeError(f"a gradient is of real numbers, not {type(value).__name__} of {values.dtype}")
    if values.shape not in (view.storage.shape, ()):
        raise ValueError(
            f"the gradient of an array of shape {view.storage.shape} is an array like it or a number, not one of shape "
            f"{values.shape}"
        )
    return given if given is not None and values.shape == view.storage.shape else values


class _Thread(threading.local):
    """What a Python thread records: launches and assignments of one are nothing to the tapes of another."""

    def __init__(self) -> None:
        # The tapes that record.
        self.active: list[Tape] = []
        self.n_pauses = 0


_thread = _Thread()
# All tapes of all threads, which tell each other where they write.
_tapes: weakref.WeakSet[Tape] = weakref.WeakSet()
_lock = threading.RLock()


def _update_level() -> None:
    """Says what launches and assignments have to tell: nothing, where they write, or, those of this thread, all."""
    with _lock:
        # Whether a set of weak references is empty takes less than to go through it.
        n_used = sum(1 for tape in _tapes if tape._operations or tape._is_recording) if len(_tapes) else 0
    here = False if _thread.n_pauses else True if _thread.active else None
    log = _thread.active[0]._log if here and len(_thread.active) == 1 else None
    _native.set_recording(n_used > 0, here, log, n_used > 1)


@contextmanager
def paused() -> Iterator[None]:
    """Lets nothing that this thread does be recorded or watched."""
    _thread.n_pauses += 1
    _update_level()
    try:
        yield
    finally:
        _thread.n_pauses -= 1
        _update_level()


@contextmanager
def watched() -> Iterator[None]:
    """Lets what this thread does while it is paused be watched, but not recorded."""
    n_pauses, active = _thread.n_pauses, _thread.active
    _thread.n_pauses, _thread.active = 0, []
    _update_level()
    try:
        yield
    finally:
        _thread.n_pauses, _thread.active = n_pauses, active
        _update_level()


class _Recording:
    """An operation that the active tapes are about to record."""

    def __init__(self, make: Callable[[], Operation]) -> None:
        self._begun: list[tuple[Tape, Operation]] = []
        try:
            for tape in _thread.active:
                operation = make()
                with _lock:
                    tape._begin(operation)
                self._begun.append((tape, operation))
        except BaseException:
            self.finish(False)
            raise

    def finish(self, is_done: bool) -> None:
        """Says that the operation is over, and whether it has come to its end."""
        with _lock:
            for tape, operation in self._begun:
                tape._end(operation, is_done)
            others = [tape for tape in _tapes if tape not in _thread.active] if len(_tapes) > len(self._begun) else []
            for _, operation in self._begun[:1]:
                for tape in others:
                    for view in operation.written:
                        tape._history.outside(view.device, view.lo, view.hi, f"'{operation.name}', recorded elsewhere,")

    def pattern(self) -> tuple[Any, ...] | None:
        """What there is to note when a launch like this is recorded, if one tape has recorded it."""
        if len(self._begun) != 1 or not isinstance(self._begun[0][1], Launched):
            return None
        return self._begun[0][1].pattern()

    def repeatable(self) -> tuple[Any, ...] | None:
        """What there is to note when the same launch is recorded again, if one tape has recorded it."""
        if len(self._begun) != 1:
            return None
        ((tape, operation),) = self._begun
        with _lock:
            return operation.repeatable(tape._history) if isinstance(operation, Launched) else None


def record(
    kernel: _native.Kernel, dim: Sequence[int], args: Sequence[Any], device: str, block: Sequence[int] | None
) -> _Recording:
    """Called by a launch while tapes record, before it runs."""
    leaves = [leaf for of_argument in leaves_of(kernel, args, device) for leaf in of_argument]
    return record_leaves(kernel._flat, dim, leaves, device, block)


def know(value: Any, is_touched: bool, is_written: bool) -> tuple[Any, ...] | None:
    """Called when a launch like one that was recorded before is given another array: its view, its region, and whether
    it is all that is needed and overwritten there, if the way back reads it or the launch writes it."""
    (tape,) = _thread.active
    view = view_of(value)
    if view is None or not view.storage.size:
        return None
    with _lock:
        region = tape._history.region(view, value)
        region.see(view, False)
        if is_written:
            region.see(view, True)
            region.is_written = True
        if view.is_float:
            tape._given.setdefault(view.key, value)
        return view, view.storage, region, is_touched and region.is_only(view)


def repeat_failed(operation: Launched) -> None:
    """Called by a launch like one that was recorded before, when it has failed."""
    for tape in _thread.active:
        failed = Operation(operation.name.removeprefix("".join([f"{scope}/" for scope in tape._scopes])))
        failed.saved, failed.kept, failed.written = operation.saved, operation.kept, operation.written
        with _lock:
            tape._end(failed, False)


def record_leaves(
    kernel: _native.Kernel, dim: Sequence[int], leaves: Sequence[Leaf], device: str, block: Any
) -> _Recording:
    """Called before a launch of a kernel that takes leaves in place of structs."""
    return _Recording(lambda: Launched(kernel, dim, leaves, device, block))


def overwritten(device: str, lo: int, hi: int, what: str) -> None:
    """Called by whatever writes without being recorded while there are tapes."""
    with _lock:
        _tell(device, lo, hi, what)
    _update_level()


def _tell(device: str, lo: int, hi: int, what: str) -> None:
    """Tells all tapes where something has written without being recorded."""
    for tape in _tapes if len(_tapes) else ():
        tape._history.outside(device, lo, hi, what)


def handed_out(root: Storage) -> None:
    """Called while there are tapes when somebody is given a NumPy array that was the package's own."""
    with _lock:
        for tape in _tapes:
            tape._history.handed_out(root)


def have_gone_back(views: Sequence[View], way_back: str) -> None:
    """Called when a way back has added to arrays."""
    with _lock:
        for view in views:
            _tell(view.device, view.lo, view.hi, way_back)
        for tape in _thread.active if _native.recording_level() == 2 else ():
            for view in views:
                tape._history.depend(view, way_back)
    _update_level()


@contextmanager
def assigning(to: array, part: Storage, value: Any, key: Any = None) -> Iterator[None]:
    """Around an assignment of `value` to a part of an array while there are tapes; with a key, to the elements of the
    part that it chooses."""
    target = View(part, to._memory)
    if _native.recording_level() < 2:
        yield
        overwritten(target.device, target.lo, target.hi, "an assignment that is not recorded")
        return
    source = None if isinstance(value, IMMUTABLE) else view_of(value)
    if source is not None and source.is_float and key is not None:
        raise ValueError("assignments of arrays to chosen elements are not recorded: write them as a kernel")
    recording = _Recording(lambda: Assigned(target, to, value, source, key))
    is_done = False
    try:
        yield
        is_done = True
    finally:
        recording.finish(is_done)


def put(to: array, key: Any, value: Any) -> None:
    """Assigns to the elements of an array in the host's memory that a key chooses, while there are tapes."""
    storage = to._storage
    parts = key if isinstance(key, tuple) else (key,)
    part = storage[parts if any(each is Ellipsis for each in parts) else (*parts, Ellipsis)]
    if np.may_share_memory(part, storage):
        to._put(part, value)
        return
    # Arrays of indices or of truth values choose elements that are no part with strides.
    with assigning(to, storage, value, parts):
        storage[parts] = _arrays._elements_for(storage, value, to.dtype)


def copied(made: array, source: Any) -> bool:
    """Called when an array has been made of the elements of another while tapes record; says whether that is recorded.

    What is made of the host's memory, which no tape knows, is where derivatives end.
    """
    target, view = View(made._storage, made._memory), view_of(source)
    if view is None or not view.is_float or not target.is_float or target.overlaps(view):
        return False
    with _lock:
        is_known = isinstance(source, array) or any(tape._history.find(view) for tape in _thread.active)
    if is_known:
        _Recording(lambda: Assigned(target, made, source, view)).finish(True)
    return is_known


def refuse(what: str, target: array) -> None:
    """Refuses an operation on whole arrays that has no derivative, while tapes record."""
    if _native.recording_level() == 2 and View(target._storage).is_float:
        raise ValueError(f"{what} is not differentiated: call it while no tape records, or write it as a kernel")
