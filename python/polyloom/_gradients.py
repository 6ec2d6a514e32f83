"""Gradients: the backward kernel of a launch.

The backward kernel of a kernel carries derivatives from what the kernel wrote to what it read. It is launched with the
kernel's arguments, with an array for each gradient, and with tapes for what its loops carried, which are as long as a
launch of their own finds out.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polyloom import _native
from polyloom._arrays import array
from polyloom._config import config
from polyloom._leaves import Leaf, add_to_field, check_like, clear_field, followed, leaves_of, place_for
from polyloom._structs import Struct
from polyloom._views import View, view_of


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
    loops, _ = repeatable_backward(
        kernel, dim, args, adjoints, device, block, has_left=has_left, accumulate=accumulate, keep_seeds=keep_seeds
    )
    return loops


def repeatable_backward(
    kernel: _native.Kernel,
    dim: Sequence[int],
    args: Sequence[Any],
    adjoints: Sequence[View | None],
    device: str,
    block: Any,
    *,
    has_left: bool,
    accumulate: bool = True,
    keep_seeds: bool = False,
) -> tuple[int, _native.BackwardRepeat | None]:
    """What `launch_backward` does and gives, and what does it again, if that takes no more than the launches of a
    kernel."""
    return _native.launch_backward(
        kernel,
        dim,
        [arg.argument() if isinstance(arg, View) else arg for arg in args],
        [None if adjoint is None else adjoint.argument() for adjoint in adjoints],
        device,
        block,
        accumulate=accumulate,
        keep_seeds=keep_seeds,
        has_left=has_left,
        tape_bytes=config.tape_memory,
        n_cores=config.num_threads,
    )


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
    if _native.recording_level():
        gradients = [each for each in given if each is not None]
        _tape.have_gone_back(gradients, f"the backward kernel of '{kernel.key}'")
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
