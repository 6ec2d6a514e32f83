"""Kernels as functions of arrays, for libraries that differentiate functions: what they take and what they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polyloom import _native, _scalars
from polyloom._arrays import array
from polyloom._gradients import check_kernel, launch_backward
from polyloom._operations import kept_value
from polyloom._tangents import jvp
from polyloom._tape import paused
from polyloom._views import View, view_of, zeros_like

# How extents are told: as they are, by the name of an input that has the same, or computed from the inputs.
Extents = int | Sequence[int] | str | Callable[..., Any] | None


class Output(NamedTuple):
    """An array to make."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Bound(NamedTuple):
    """A function with the types and extents of its arguments."""

    kernel: _native.Kernel
    dim: tuple[int, ...]
    outputs: list[Output]


class KernelFunction:
    """A kernel as a function of its first parameters, which gives arrays for its last.

    Parameters
    ----------
    kernel : Kernel
        What runs. It only reads its inputs.
    outputs : str, sequence of str, or mapping
        The names of the parameters that are made, the kernel's last. With a mapping, each with its extents, those of
        its components left out: a tuple, the name of an input that has the same, or a function of the inputs that
        gives them; by default they are as those of the first input with as many dimensions.
    dim : int, tuple, str or callable, optional
        The extents of the launch, likewise; by default those of the first output.
    """

    def __init__(
        self, kernel: _native.Kernel, outputs: str | Sequence[str] | Mapping[str, Extents], dim: Extents
    ) -> None:
        check_kernel(kernel, "function")
        names = kernel.parameter_names
        given: Mapping[str, Extents]
        if isinstance(outputs, Mapping):
            given = outputs
        else:
            given = dict.fromkeys([outputs] if isinstance(outputs, str) else outputs)
        n = len(names) - len(given)
        if not given or set(names[n:]) != set(given):
            raise ValueError(
                f"the outputs of kernel '{kernel.key}' are its last parameters, of ({', '.join(names)}); given are "
                f"({', '.join(given)})"
            )
        self.kernel = kernel
        self.inputs, self.outputs = names[:n], names[n:]
        self._extents = [given[name] for name in self.outputs]
        self._dim = dim

    def bind(self, inputs: Sequence[Any]) -> Bound:
        """What is launched for these inputs, arrays or anything with `shape` and `dtype`, or numbers."""
        if len(inputs) != len(self.inputs):
            given = f"({', '.join(self.inputs)}), {len(inputs)} given"
            raise TypeError(f"kernel '{self.kernel.key}' is a function of {len(self.inputs)} arguments {given}")
        kernel = self._specialised(inputs)
        if kernel._flat is not kernel:
            raise TypeError(
                f"kernel '{kernel.key}' has structs among its parameters, and is to be a function of arrays and "
                "numbers: take the fields as parameters of their own, or record a launch with polyloom.Tape"
            )
        facts = kernel._parameters
        n = len(inputs)
        for name, (_, _, _, is_written) in zip(self.inputs, facts, strict=False):
            if is_written:
                raise ValueError(
                    f"kernel '{kernel.key}' writes its input '{name}': an array that it writes is an output"
                )
        for name, value, of_parameter in zip(self.inputs, inputs, facts, strict=False):
            _check_like(kernel.key, name, value, of_parameter)
        extents = []
        for name, wanted, (ndim, _, _, _) in zip(self.outputs, self._extents, facts[n:], strict=True):
            if not ndim:
                raise ValueError(f"the output '{name}' of kernel '{kernel.key}' is no array")
            found = self._resolved(wanted, inputs, facts, ndim)
            if len(found) != ndim:
                raise ValueError(
                    f"the output '{name}' of kernel '{kernel.key}' has {ndim} dimensions, not {len(found)}"
                )
            extents.append(found)
        outputs = [
            Output((*outer, *inner), getattr(_scalars, "bool_" if scalar == "bool" else scalar).numpy)
            for outer, (_, scalar, inner, _) in zip(extents, facts[n:], strict=True)
        ]
        dim = extents[0] if self._dim is None else self._resolved(self._dim, inputs, facts, 0)
        return Bound(kernel, dim, outputs)

    def _specialised(self, inputs: Sequence[Any]) -> _native.Kernel:
        if not self.kernel.is_generic:
            return self.kernel
        # The types of the arguments choose, of which there are elements of each here; an output is as the first input.
        samples = [_sample(each) for each in inputs]
        like = next((each for each in samples if isinstance(each, np.ndarray)), np.zeros(1, np.float32))
        return self.kernel.for_arguments([*samples, *(like for _ in self.outputs)])

    def _resolved(self, wanted: Extents, inputs: Sequence[Any], facts: Sequence[Any], ndim: int) -> tuple[int, ...]:
        """Extents as numbers."""
        if wanted is None or isinstance(wanted, str):
            for name, value, (rank, _, _, _) in zip(self.inputs, inputs, facts, strict=False):
                if name == wanted or wanted is None and rank == ndim:
                    return tuple(value.shape[:rank])
            told = "say the extents of its outputs" if wanted is None else f"it has no input '{wanted}'"
            raise ValueError(f"kernel '{self.kernel.key}': {told}")
        if callable(wanted):
            wanted = wanted(*inputs)
        return (int(wanted),) if isinstance(wanted, (int, np.integer)) else tuple(map(int, wanted))  # type: ignore[arg-type]


def _sample(value: Any) -> Any:
    """What has the type of an argument, for the choice of a generic kernel."""
    like = _extents_and_type(value)
    if like is None or isinstance(value, array):
        return value
    shape, name = like
    found = getattr(_scalars, "bool_" if name == "bool" else name).numpy
    return np.zeros(shape, found) if shape else found.type()


def _extents_and_type(value: Any) -> tuple[tuple[int, ...], str] | None:
    """The extents of an array, those of components among them, and the name of its scalar type; of others None."""
    view = view_of(value) if isinstance(value, array) else None
    if view is not None:
        scalar = getattr(value.dtype, "_wp_scalar_type_", value.dtype)
        return view.storage.shape, getattr(scalar, "name", str(value.dtype))
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return None if shape is None or dtype is None else (tuple(shape), str(dtype).removeprefix("torch."))


def _check_like(kernel: str, name: str, value: Any, facts: tuple[int, str, Sequence[int], bool]) -> None:
    """Refuses an array of another type, or with other dimensions, than a parameter has."""
    ndim, scalar, inner, _ = facts
    like = _extents_and_type(value)
    if like is None:
        if ndim:
            raise TypeError(f"kernel '{kernel}': its argument '{name}' is an array, not {type(value).__name__}")
        return
    found, given = like
    components = f", of which the last are {tuple(inner)}" if inner else ""
    if len(found) != ndim + len(inner) or found[ndim:] != tuple(inner):
        what = f"an array of {ndim + len(inner)} dimensions{components}" if ndim or inner else "a number"
        raise ValueError(f"kernel '{kernel}': its argument '{name}' is {what}, not an array of shape {found}")
    if ndim and given != scalar:
        raise TypeError(f"kernel '{kernel}': its argument '{name}' is an array of {scalar}, not of {given}")


def check_backward(bound: Bound, inputs: Sequence[Any]) -> None:
    """Refuses functions whose kernel has no gradient, as far as that is known of inputs with `shape` and `dtype`."""
    facts = bound.kernel._parameters
    active = [scalar.startswith(("float", "bfloat")) for _, scalar, _, _ in facts]
    shapes = [getattr(value, "shape", None) for value in inputs] + [each.shape for each in bound.outputs]
    known = [
        list(shape) if ndim and shape is not None else None for shape, (ndim, *_) in zip(shapes, facts, strict=True)
    ]
    bound.kernel.backward(active, bound.dim, known=known)


def run(bound: Bound, inputs: Sequence[Any], outputs: Sequence[Any], device: str) -> None:
    """Launches a function's kernel."""
    with paused():
        _native.launch(bound.kernel, bound.dim, [*inputs], [*outputs], device, record_tape=False)


def run_forward(
    bound: Bound, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any], device: str
) -> None:
    """Launches a function's kernel and carries a direction through it, as `polyloom.jvp` does."""
    with paused():
        jvp(bound.kernel, bound.dim, inputs, outputs, tangents=tangents, device=device)


def kept(bound: Bound, inputs: Sequence[Any], device: str) -> list[Any]:
    """The inputs as they are now, for the way back."""
    views = [
        view_of(value, device) if ndim else None
        for value, (ndim, _, _, _) in zip(inputs, bound.kernel._parameters, strict=False)
    ]
    return [
        kept_value(value) if view is None else view.copy().argument() for value, view in zip(inputs, views, strict=True)
    ]


def run_backward(
    bound: Bound, inputs: Sequence[Any], wanted: Sequence[Any], adjoints: Sequence[Any], device: str
) -> None:
    """Computes the gradients of the inputs.

    Parameters
    ----------
    bound : Bound
        What ran.
    inputs : sequence
        What it was given.
    wanted : sequence
        For each input the array that its gradient is written to, or None.
    adjoints : sequence
        For each output the gradient with respect to it, an array that stays as it is.
    """
    views = [
        view_of(value, device) if facts[0] else None
        for value, facts in zip(inputs, bound.kernel._parameters, strict=False)
    ]
    args: list[Any] = [value if view is None else view for value, view in zip(inputs, views, strict=True)]
    given: list[View | None] = [None if each is None else view_of(each, device) for each in wanted]
    known = [view for view in views if view is not None]
    for adjoint in adjoints:
        view = view_of(adjoint, device)
        assert view is not None
        if any(view.overlaps(other) for other in known):
            view = view.copy()
        known.append(view)
        # The kernel found zeros there.
        args.append(zeros_like(view))
        given.append(view if view.is_float else None)
    with paused():
        launch_backward(bound.kernel, bound.dim, args, given, device, accumulate=False, keep_seeds=True)
