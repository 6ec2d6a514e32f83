"""A launch's arguments as its kernel's HIR has them: leaves in place of structs, each with what it is of.

The gradient of a struct has the fields of the struct: numbers, which launches are given by value, so that whoever goes
back adds up their derivatives, and arrays, whose gradients are in memory as those of other arrays.

Design: `docs/design/tape.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polyloom import _native, _scalars
from polyloom._structs import Struct, plain
from polyloom._views import View, view_of

_FLOATS = ("bfloat16", "float16", "float32", "float64")

Path = tuple[str, ...]


class Leaf(NamedTuple):
    """An argument, or a field of one that is a struct or an array of structs.

    Attributes
    ----------
    value : object
        What a launch of the flat kernel takes.
    view : View, optional
        Where its elements are, if it is an array.
    array : object
        The array that it is, or whose elements have the field, as somebody gave it.
    struct : Struct, optional
        The argument, if that is a struct.
    path : tuple of str
        The names of fields that lead to the leaf from the argument.
    """

    value: Any
    view: View | None
    array: Any
    struct: Struct | None
    path: Path


class KernelFacts:
    """What tapes ask of a kernel each time that it is launched.

    Attributes
    ----------
    flat : Kernel
        The kernel that takes leaves in place of structs.
    parameters : list
        What differentiation goes by, of each of its parameters.
    names : list of str
        The names of these.
    writes : list of bool
        Whether the kernel writes them.
    needs : dict
        What the ways back of launches need, by all that this depends on: for `_operations.Launched`.
    """

    def __init__(self, kernel: _native.Kernel) -> None:
        self.flat = kernel._flat
        self.parameters = self.flat._parameters
        self.names = self.flat.parameter_names
        self.writes = [is_written for *_, is_written in self.parameters]
        self.needs: dict[Any, Any] = {}


def facts_of(kernel: _native.Kernel) -> KernelFacts:
    """What tapes ask of a kernel, which is found out once."""
    kept: dict[str, Any] = kernel.__dict__
    found = kept.get("_facts")
    if found is None:
        found = kept["_facts"] = KernelFacts(kernel)
    return found


def leaves_of(kernel: _native.Kernel, args: Sequence[Any], device: str) -> list[list[Leaf]]:
    """For each argument its leaves.

    Raises
    ------
    TypeError, ValueError
        If there are not as many arguments as parameters, or one for a struct is none.
    """
    of_kernel = facts_of(kernel)
    flat = of_kernel.flat
    if flat is kernel and len(args) == len(of_kernel.parameters):
        return [[_plain_leaf(kernel, arg, each, device)] for arg, each in zip(args, of_kernel.parameters, strict=True)]
    facts, names = iter(of_kernel.parameters), iter(of_kernel.names)
    found = []
    for arg, values in zip(args, kernel._leaves(list(args), device), strict=True):
        leaves = []
        for value in values:
            (ndim, scalar, _, _), name = next(facts), next(names)
            path = () if flat is kernel else tuple(name.split(".")[1:])
            view = view_of(value, device) if ndim else None
            _check_type(kernel, view, scalar)
            array = None if view is None else followed(arg, path)[0]
            struct = arg if isinstance(arg, Struct) else None
            leaves.append(Leaf(value, view, array, struct, path))
        found.append(leaves)
    return found


def _plain_leaf(kernel: _native.Kernel, value: Any, facts: tuple[int, str, list[int], bool], device: str) -> Leaf:
    """The one leaf of an argument that is no struct."""
    view = view_of(value, device) if facts[0] else None
    _check_type(kernel, view, facts[1])
    return Leaf(value, view, None if view is None else value, None, ())


def _check_type(kernel: _native.Kernel, view: View | None, scalar: str) -> None:
    if view is not None and scalar == "bfloat16" and not view.is_float:
        raise TypeError(f"kernel '{kernel.key}': gradients of bfloat16 arrays need the package ml_dtypes")


def followed(value: Any, path: Path) -> tuple[Any, Path]:
    """What a path leads to that is no struct, and the rest of the path, which is of the elements of an array."""
    while path and isinstance(value, Struct):
        value, path = getattr(value, path[0]), path[1:]
    return value, path


def place_for(facts: tuple[int, str, list[int], bool]) -> View | None:
    """An array of one zero, for the adjoint of a parameter that is no array; None if it has no derivative."""
    ndim, scalar, inner, _ = facts
    if ndim or scalar not in _FLOATS:
        return None
    return View(np.zeros((1, *inner), getattr(_scalars, scalar).numpy))


def add_to_field(value: Any, path: Path, number: Any) -> None:
    """Adds to a number or a vector that is a field of a struct."""
    value, _ = followed(value, path[:-1])
    setattr(value, path[-1], np.asarray(plain(getattr(value, path[-1]))) + number)


def clear_field(value: Any, path: Path) -> None:
    """Sets a number or a vector that is a field of a struct to zero."""
    value, _ = followed(value, path[:-1])
    setattr(value, path[-1], np.zeros_like(plain(getattr(value, path[-1]))))


def check_like(value: Struct, other: Any) -> None:
    """Refuses what is no struct of the same type, as a gradient or tangent of it."""
    if not isinstance(other, Struct) or type(other)._type != type(value)._type:
        name = type(value).__name__
        raise TypeError(f"what belongs to a struct {name} is another {name}, not {type(other).__name__}")
