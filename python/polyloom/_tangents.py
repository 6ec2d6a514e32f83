"""Forward-mode derivatives: how what a kernel writes moves when its arguments move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from polyloom import _native, _tape
from polyloom._arrays import array
from polyloom._devices import get_device
from polyloom._gradients import check_aliases, check_kernel, extents_of, known_of
from polyloom._leaves import Leaf, check_like, followed, leaves_of, place_for
from polyloom._structs import Struct
from polyloom._tensor_gradients import tangents_of
from polyloom._views import view_of, zeros_like

__all__ = ["jvp"]


@overload
def jvp(
    kernel: _native.Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any],
    outputs: Sequence[Any] = (),
    *,
    tangents: Sequence[Any],
    device: Any = None,
    block_dim: int | Sequence[int] | None = None,
) -> None: ...
@overload
def jvp(kernel: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any], /) -> tuple[Any, Any]: ...
def jvp(
    kernel: Any,
    dim: Any,
    inputs: Any = None,
    outputs: Sequence[Any] = (),
    *,
    tangents: Any = None,
    device: Any = None,
    block_dim: int | Sequence[int] | None = None,
) -> Any:
    """Launches a kernel and carries a direction through it: a Jacobian-vector product.

    Of a function of tensors, as `grad` takes it, `jvp(f, args, tangents)` gives `(outputs, tangents of the outputs)`:
    how the results move when the arguments move along the tangents, which have their structures, types and shapes. The
    tangent of a result that is no float is None.

    The kernel's arrays are written as by `launch`. The arrays in `tangents` hold the direction in which their
    arguments move, and then that in which what the kernel has left in them moves.

    A launch of `jvp` under a `Tape` is recorded as any other, so that the gradient of a directional derivative, a
    Hessian-vector product, is found by playing it back.

    Parameters
    ----------
    kernel : Kernel
        What runs.
    dim : int or sequence of int
        The extents of the launch.
    inputs, outputs : sequence
        The kernel's arguments, as for `launch`.
    tangents : sequence
        For each argument, how it moves: an array like it, a number or value for a scalar or composite, a struct of the
        same type whose fields say how each moves, or None where it does not move.
    device : optional
        Where the kernel runs.
    block_dim : int or sequence of int, optional
        Threads of a block, as for `launch`.

    Raises
    ------
    CompileError
        Where the kernel has no derivative, or threads of the launch race: what to write instead.
    ValueError
        If the tangents are not like the arguments, or what the kernel writes has elements in common with anything else.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> @loom.kernel
    ... def square(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     y[i] = x[i] * x[i]
    >>> x, y = np.array([1.0, 2.0, 3.0], np.float32), np.zeros(3, np.float32)
    >>> dot_x, dot_y = np.array([1.0, 0.0, 0.5], np.float32), np.zeros(3, np.float32)
    >>> loom.jvp(square, 3, [x], [y], tangents=[dot_x, dot_y])
    >>> dot_y
    array([2., 0., 3.], dtype=float32)

    >>> from polyloom import ops
    >>> loom.jvp(lambda x: ops.sin(x), [np.zeros(2)], [np.array([1.0, 2.0])])
    (array([0., 0.]), array([1., 2.]))
    """
    is_function = callable(kernel) and not isinstance(kernel, (_native.Kernel, _native.Function))
    if is_function and (inputs is None) != (tangents is None):
        return tangents_of(kernel, dim, inputs if tangents is None else tangents)
    check_kernel(kernel, "jvp")
    if inputs is None:
        raise TypeError("jvp(kernel, dim, inputs, outputs, tangents=[…]) of a kernel takes its inputs")
    args = [*inputs, *outputs]
    if not isinstance(tangents, Sequence):
        raise TypeError(f"tangents are a list with one for each argument, or None, not {type(tangents).__name__}")
    if len(tangents) != len(args):
        raise ValueError(f"tangents are one for each argument, or None: {len(args)}, not {len(tangents)}")
    for index, (arg, tangent) in enumerate(zip(args, tangents, strict=True)):
        if isinstance(arg, Struct) and tangent is not None:
            check_like(arg, tangent)
        elif tangent is not None and _kind(arg) != _kind(tangent):
            raise ValueError(
                f"argument {index} is {_described(arg)}; its tangent is one like it, not {_described(tangent)}"
            )
    extents = extents_of(dim)
    kernel = kernel.for_arguments(args)
    device = device if device is not None else kernel.device
    place = str(device) if device is not None else str(get_device())
    groups = leaves_of(kernel, args, place)
    leaves = [leaf for of_argument in groups for leaf in of_argument]
    directions = [
        None if tangent is None else _direction(leaf, tangent, place)
        for of_argument, tangent in zip(groups, tangents, strict=True)
        for leaf in of_argument
    ]
    one = kernel._flat
    for name, leaf, direction, facts in zip(one.parameter_names, leaves, directions, one._parameters, strict=True):
        if leaf.view is None and leaf.struct is None and direction is not None and place_for(facts) is None:
            raise ValueError(
                f"kernel '{one.key}': its argument '{name}' is no floating-point number, and does not move: its "
                "tangent is None"
            )
    known = known_of([leaf.value if leaf.view is None else leaf.view for leaf in leaves])
    moving, which, after = one.tangent([direction is not None for direction in directions], extents, known)
    given = [directions[index] or _still(leaves[index]) for index in which]
    if after:
        # Which value is the extremum is known when all threads have been through, and found again in the mode strict.
        left = [leaf.value if leaf.view is None else leaf.view.copy().argument() for leaf in leaves]
        _native.launch(one._strict, extents, left, None, device, record_tape=False, block_dim=block_dim)
        given += [Leaf(left[index], view_of(left[index]), left[index], None, ()) for index in after]
    everything = [*leaves, *given]
    check_aliases(moving, [leaf.view for leaf in everything], [is_written for *_, is_written in moving._parameters])
    values = [leaf.value for leaf in everything]
    if _native.recording_level() < 2:
        _native.launch(moving, extents, values, None, device, block_dim=block_dim)
        return
    recording = _tape.record_leaves(moving, extents, everything, place, block_dim)
    is_done = False
    try:
        with _tape.paused():
            _native.launch(moving, extents, values, None, device, block_dim=block_dim)
        is_done = True
    finally:
        recording.finish(is_done)


def _direction(leaf: Leaf, tangent: Any, device: str) -> Leaf | None:
    """How a leaf moves, of an argument that moves; None where an array of a struct does not."""
    value, rest = followed(tangent, leaf.path)
    struct = tangent if isinstance(tangent, Struct) else None
    if leaf.view is None:
        return Leaf(value, None, None, struct, leaf.path)
    whole = view_of(value, device)
    if whole is None:
        return None
    if struct is not None and _kind(leaf.array) != _kind(value):
        raise ValueError(
            f"the field '{'.'.join(leaf.path)}' is {_described(leaf.array)}; its tangent is one like it, not "
            f"{_described(value)}"
        )
    part = whole.field(rest)
    return Leaf(part.argument() if rest else value, part, value, struct, leaf.path)


def _kind(value: Any) -> Any:
    """What the tangent of an argument has to have in common with it."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return (tuple(shape), dtype) if _is_array(value) and shape is not None else None


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, array)) or hasattr(value, "__dlpack__")


def _described(value: Any) -> str:
    if _is_array(value):
        return f"an array of shape {tuple(value.shape)} and type {getattr(value.dtype, '__name__', value.dtype)}"
    return f"no array but {type(value).__name__}"


def _still(leaf: Leaf) -> Leaf:
    """The tangent of an array that does not move, where the kernel makes it move."""
    assert leaf.view is not None
    view = zeros_like(leaf.view)
    made = view.argument()
    return Leaf(made, view, made, None, ())
