"""Gradients: the backward kernel of a launch.

The backward kernel of a kernel carries derivatives from what the kernel wrote to what it read. It is launched with the
kernel's arguments, with an array for each gradient, and with tapes for what its loops carried, which are as long as a
launch of their own finds out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polyloom import _native, _scalars
from polyloom._arrays import array
from polyloom._config import config
from polyloom._leaves import Leaf, add_to_field, check_like, clear_field, followed, leaves_of, place_for
from polyloom._structs import Struct
from polyloom._views import View, empty, view_of, zeros_like

# How often a loop is counted to run that runs as often or more.
_LONGEST = 2**31 - 1


class TapeMemory(NamedTuple):
    """What a tape, or the way back of one launch, takes, in bytes.

    Attributes
    ----------
    saved : int
        What operations overwrote and the way back asks for.
    gradients : int
        Gradients that no array has as its `grad`.
    loops : int
        The tapes of kernels' loops, at most at a time, when it was played back last.
    """

    saved: int
    gradients: int
    loops: int


def launch_backward(
    kernel: _native.Kernel,
    dim: Sequence[int],
    args: Sequence[Any],
    adjoints: Sequence[View | None],
    device: str,
    block: Any = None,
    has_left: bool = False,
    accumulate: bool = True,
    keep_seeds: bool = False,
) -> int:
    """Runs the backward kernel of a kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel that was launched; it takes leaves in place of structs.
    dim : sequence of int
        The extents of that launch.
    args : sequence
        Its arguments; a `View` of each array, as it was before the launch.
    adjoints : sequence
        For each argument the array of its adjoint, or None. Of a scalar, an array of one element.
    device : str
        Where the launch was.
    block : int or sequence of int, optional
        The threads of its blocks, where somebody has said how many.
    has_left : bool
        Whether the arrays that replays read (`Backward.left`) are given as the launch has left them.
    accumulate : bool
        Whether the adjoints of what the kernel only reads are added to and those of what it only writes are taken.
        Otherwise the former are written, whatever they held, and the latter are left as they are.
    keep_seeds : bool
        Whether, without `accumulate`, the adjoints of what the kernel both reads and writes are left as they are, too.

    Returns
    -------
    int
        How many bytes the tapes of the kernel's loops have taken.
    """
    views = [arg if isinstance(arg, View) else None for arg in args]
    # Derivatives flow through arrays that the kernel writes, whether anybody asks for their gradients or not.
    active = [
        adjoint is not None or (view is not None and view.is_float and is_written)
        for adjoint, view, (_, _, _, is_written) in zip(adjoints, views, kernel._parameters, strict=True)
    ]
    coinciding = [
        any(each is not None and each.coincides for each in both) for both in zip(views, adjoints, strict=True)
    ]
    backward = kernel.backward(active, dim, coinciding, known=known_of(args))
    if any(backward.left) and not has_left:
        names = [name for name, is_left in zip(kernel.parameter_names, backward.left, strict=True) if is_left]
        listed = " and ".join(f"'{name}'" for name in names)
        raise ValueError(
            f"kernel '{kernel.key}' calls functions with replays, which read {listed} as the launch has left it: "
            "record the launch with polyloom.Tape, which keeps that"
        )
    check_aliases(kernel, views, backward.writes)
    _check_adjoints(kernel, views, adjoints, backward.adjoints)
    given: list[View] = []
    added: list[tuple[View, View]] = []
    for index in backward.adjoints:
        adjoint, view = adjoints[index], views[index]
        if adjoint is None:
            if view is None:
                raise TypeError(f"kernel '{kernel.key}': its argument {index} is no array that has a gradient")
            adjoint = zeros_like(view)
        elif any(adjoint.overlaps(other) for other in given):
            # What the arrays have in common is of both: a part by itself is added in the end.
            part = zeros_like(adjoint)
            if not accumulate:
                adjoint.zero()
            added.append((adjoint, part))
            adjoint = part
        given.append(adjoint)
    if backward.after:
        left = _copied(args, backward.writes)
        # The backward kernel compares them with what it finds, in the mode strict.
        _run(kernel._strict, dim, left, device, block)
        given += [left[index] for index in backward.after]
    n_bytes = 0
    extents = [None if adjoint.coincides else adjoint.storage.shape for adjoint in given[: len(backward.adjoints)]]
    if accumulate:
        launches = [] if backward.takes_part else backward.launches(dim, extents)
    else:
        launches, cleared, copied = backward.overwriting_launches(dim, extents)
        for number in cleared:
            given[number].zero()
        for number in [*copied, *(backward.replaced if keep_seeds else [])]:
            given[number] = given[number].copy()
    if backward.takes_part:
        backward, plan = _plan(kernel, backward, active, coinciding, dim, args, device, block)
        n_bytes = _run_parts(backward, plan, dim, [*_copied(args, backward.replayed), *given], device, block)
    else:
        arrays = [*_copied(args, backward.replayed), *given]
        for launched, shape, numbers in launches:
            _run(launched, shape, [*arrays, *numbers], device, block)
    for adjoint, part in added:
        adjoint.add(part)
    return n_bytes


def check_kernel(kernel: Any, name: str) -> None:
    """Refuses what is no kernel, as `launch` does."""
    if not isinstance(kernel, _native.Kernel):
        raise TypeError(f"{name}() needs a kernel (a function under @polyloom.kernel), not {type(kernel).__name__}")


def extents_of(dim: Any) -> tuple[int, ...]:
    """The extents of a launch, as it is given them."""
    try:
        extents = tuple(operator.index(extent) for extent in (dim if hasattr(dim, "__iter__") else (dim,)))
    except TypeError:
        raise TypeError(f"dim must be an integer or a tuple of integers, not {dim!r}") from None
    if any(extent < 0 for extent in extents):
        raise ValueError(f"dim must not be negative, and is {dim}")
    return extents


def known_of(args: Sequence[Any]) -> list[int | list[int] | None]:
    """What decides about the races of a launch with these arguments: integers, and the extents of each `View`."""
    return [
        list(arg.storage.shape)
        if isinstance(arg, View)
        else int(arg)
        if isinstance(arg, (int, np.integer)) and -(2**63) <= int(arg) < 2**63
        else None
        for arg in args
    ]


def _plan(
    kernel: _native.Kernel,
    backward: _native.Backward,
    active: Sequence[bool],
    coinciding: Sequence[bool],
    dim: Sequence[int],
    args: Sequence[Any],
    device: str,
    block: Any,
) -> tuple[_native.Backward, _native.TapePlan]:
    """The backward kernel that is launched, and what a launch of it needs."""
    limits = config.tape_memory, config.num_threads if device == "cpu" else None

    def planned(backward: _native.Backward) -> tuple[_native.Backward, _native.TapePlan]:
        lengths = _lengths(kernel.key, backward, dim, args, device, block)
        return backward, backward.plan(lengths, math.prod(dim), *limits)

    found = planned(backward)
    if not found[1].is_cramped:
        return found
    # Rows may be longer than what is read of them.
    kept = (False, True) if backward.records_rows else (False,)
    plans = [planned(kernel.backward(active, dim, coinciding, checkpoints=True, rows=rows)) for rows in kept]
    return min(plans, key=lambda found: found[1].per_place)


def _lengths(
    name: str, backward: _native.Backward, dim: Sequence[int], args: Sequence[Any], device: str, block: Any
) -> list[int]:
    """How long the loops of a launch are."""
    if backward.sizes is None:
        return [length or 0 for length in backward.lengths]
    lengths = np.zeros(len(backward.lengths), np.int32)
    counted = (1,) * len(dim) if backward.lengths_are_uniform else dim
    _run(backward.sizes, counted, [*_copied(args, backward.writes), lengths], device, block)
    if lengths.max(initial=0) == _LONGEST:
        raise ValueError(
            f"kernel '{name}': a loop that has to be recorded runs {_LONGEST} times or more, which is not "
            "differentiated: split it into two loops, or use jvp"
        )
    return [int(length) for length in lengths]


def _run_parts(
    backward: _native.Backward,
    plan: _native.TapePlan,
    dim: Sequence[int],
    args: Sequence[Any],
    device: str,
    block: Any,
) -> int:
    """Launches a backward kernel over as many threads at a time as have a place on its tapes."""
    types = [getattr(_scalars, "bool_" if name == "bool" else name).numpy for _, name in plan.tapes]
    tapes = [empty(tuple(shape), dtype, device) for (shape, _), dtype in zip(plan.tapes, types, strict=True)]
    n_threads = math.prod(dim)
    for first in range(0, n_threads, plan.n_places):
        part = (min(plan.n_places, n_threads - first),)
        _run(backward.kernel, part, [*args, *tapes, *plan.segments, first, *dim[1:]], device, block)
    return plan.bytes


def _run(kernel: _native.Kernel, dim: Sequence[int], args: Sequence[Any], device: str, block: Any) -> None:
    given = [arg.argument() if isinstance(arg, View) else arg for arg in args]
    _native.launch(kernel, dim, given, None, device, record_tape=False, block_dim=block)


def check_aliases(kernel: _native.Kernel, views: Sequence[View | None], writes: Sequence[bool]) -> None:
    """An array that is written through one parameter and read through another is not what differentiation assumes."""
    for index, written in enumerate(views):
        if written is None or not writes[index]:
            continue
        if written.coincides:
            name = kernel.parameter_names[index]
            raise ValueError(
                f"kernel '{kernel.key}' writes its argument '{name}', a view in which several indices are one "
                "element: a launch that is differentiated takes an array in which each has its own"
            )
        for other, view in enumerate(views):
            if other != index and view is not None and written.overlaps(view):
                names = kernel.parameter_names
                raise ValueError(
                    f"kernel '{kernel.key}' writes its argument '{names[index]}', which has elements in common with "
                    f"argument '{names[other]}': a launch that is differentiated takes a copy"
                )


def _check_adjoints(
    kernel: _native.Kernel, views: Sequence[View | None], adjoints: Sequence[View | None], which: Sequence[int]
) -> None:
    """Refuses an adjoint in the memory of an argument, and one of what the kernel writes, which is taken, in that of
    another adjoint. Others are added to, and may have elements in common."""
    facts = kernel._parameters
    for index in which:
        adjoint, (_, _, _, is_written) = adjoints[index], facts[index]
        if adjoint is None:
            continue
        if is_written and adjoint.coincides:
            name = kernel.parameter_names[index]
            raise ValueError(
                f"kernel '{kernel.key}': the gradient of '{name}', which the kernel writes, is a view in which several "
                "indices are one element: give an array in which each has its own"
            )
        shared = [("the argument", other) for other, view in enumerate(views) if _overlap(adjoint, view)]
        if is_written:
            others = [other for other in which if other != index and _overlap(adjoint, adjoints[other])]
            shared += [("the gradient of", other) for other in others]
        if shared:
            names, (what, other) = kernel.parameter_names, shared[0]
            raise ValueError(
                f"kernel '{kernel.key}': the gradient of '{names[index]}' has elements in common with {what} "
                f"'{names[other]}': give it an array of its own"
            )


def _overlap(view: View, other: View | None) -> bool:
    return other is not None and view.overlaps(other)


def _copied(args: Sequence[Any], which: Sequence[bool]) -> list[Any]:
    """Arguments for a kernel that writes some of the arrays again."""
    return [arg.copy() if written and isinstance(arg, View) else arg for arg, written in zip(args, which, strict=True)]


def launch_adjoint(
    kernel: _native.Kernel,
    dim: Sequence[int],
    args: Sequence[Any],
    n_inputs: int,
    adj_inputs: Sequence[Any] | None,
    adj_outputs: Sequence[Any] | None,
    accumulate: bool,
    device: str,
    block: Any,
) -> TapeMemory:
    """What `launch(…, adjoint=True)` does, and gives."""
    from polyloom import _tape

    for listed in (adj_inputs, adj_outputs):
        if not (listed is None or isinstance(listed, (list, tuple))):
            raise TypeError(f"adj_inputs and adj_outputs are lists of gradients, not {type(listed).__name__}")
    leaves = leaves_of(kernel, args, device)
    n_outputs = len(args) - n_inputs
    # Without a list of outputs, all may be among the inputs, and so may their gradients.
    adjoints = [*(adj_inputs or [None] * n_inputs), *(adj_outputs or [None] * n_outputs)]
    if adj_inputs and not adj_outputs and len(adj_inputs) == len(args):
        adjoints = list(adj_inputs)
    if len(adjoints) != len(args):
        message = f"adj_inputs and adj_outputs are one for each argument, or None: {len(args)}, not {len(adjoints)}"
        raise ValueError(message)
    held = [leaf for of_argument in leaves for leaf in of_argument]
    wanted = [adjoint for adjoint, of in zip(adjoints, leaves, strict=True) for _ in of]
    flat = kernel._flat
    numbers = [
        place_for(facts) if isinstance(adjoint, Struct) and leaf.struct is not None else None
        for leaf, adjoint, facts in zip(held, wanted, flat._parameters, strict=True)
    ]
    given = [
        _adjoint_of(leaf, adjoint, facts, device) if number is None else number
        for leaf, adjoint, facts, number in zip(held, wanted, flat._parameters, numbers, strict=True)
    ]
    with _tape.paused():
        values = [leaf.value if leaf.view is None else leaf.view for leaf in held]
        loops = launch_backward(flat, dim, values, given, device, block, accumulate=accumulate)
    fields = [
        (adjoint, leaf.path, number)
        for leaf, adjoint, number in zip(held, wanted, numbers, strict=True)
        if number is not None
    ]
    for adjoint, path, _ in fields if not accumulate else ():
        clear_field(adjoint, path)
    for adjoint, path, number in fields:
        add_to_field(adjoint, path, number.storage[0])
    for each in given if _native.recording_level() else ():
        if each is not None:
            _tape.gone_back(each, f"the backward kernel of '{kernel.key}'")
    return TapeMemory(0, 0, loops)


def _adjoint_of(leaf: Leaf, adjoint: Any, facts: tuple[int, str, list[int], bool], device: str) -> View | None:
    """The array that somebody gave for the adjoint of a leaf, or that is its array's `grad`."""
    if leaf.struct is not None and adjoint is not None:
        check_like(leaf.struct, adjoint)
    if leaf.struct is None and leaf.view is None:
        return _adjoint_of_number(adjoint, place_for(facts), device)
    adjoint, rest = followed(adjoint, leaf.path)
    if leaf.struct is not None and leaf.view is None:
        return None
    if adjoint is None and leaf.view is not None and leaf.view.is_float and isinstance(leaf.array, array):
        adjoint, rest = leaf.array.grad, followed(leaf.struct, leaf.path)[1]
    whole = view_of(adjoint, device)
    if whole is None and adjoint is not None:
        raise TypeError(f"a gradient is an array, not {type(adjoint).__name__}")
    own = view_of(leaf.array, device) if leaf.path else leaf.view
    if own is not None and whole is not None and _type(own) != _type(whole):
        raise ValueError(
            f"the gradient of an array of shape {own.storage.shape} and type {own.storage.dtype} is an array "
            f"like it, not one of shape {whole.storage.shape} and type {whole.storage.dtype}"
        )
    return None if whole is None else whole.field(rest)


def _adjoint_of_number(adjoint: Any, like: View | None, device: str) -> View | None:
    """The array that somebody gave for the adjoint of an argument that is no array."""
    if like is None or isinstance(adjoint, (int, float, np.generic, type(None))):
        # As for Warp, a number stands for the gradient of one that nobody asks for.
        return None
    view = view_of(adjoint, device)
    if view is None:
        raise TypeError(f"the gradient of a number or vector is an array of one element, not {type(adjoint).__name__}")
    if _type(view) != _type(like):
        raise ValueError(
            f"the gradient of a number or vector is an array of one element, of shape {like.storage.shape} and type "
            f"{like.storage.dtype}, not of shape {view.storage.shape} and type {view.storage.dtype}"
        )
    return view


def _type(view: View) -> tuple[Any, ...]:
    return view.storage.shape, view.storage.dtype
