"""Launches for later: `Launch`, which is the compiler's, and launches of gradients."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from polyloom import _graphs, _native
from polyloom._devices import DeviceLike, get_device
from polyloom._gradients import TapeMemory, launch_adjoint


class AdjointLaunch:
    """A recorded launch of a kernel's gradient: `launch()` runs it.

    Parameters
    ----------
    kernel, dim, args, n_inputs, adj_inputs, adj_outputs, accumulate, device, block
        As of `launch(…, adjoint=True)`, with the inputs before the outputs in `args`.
    """

    def __init__(
        self,
        kernel: _native.Kernel,
        dim: Sequence[int],
        args: Sequence[Any],
        n_inputs: int,
        adj_inputs: Sequence[Any] | None,
        adj_outputs: Sequence[Any] | None,
        accumulate: bool,
        device: str,
        block: Any,
    ) -> None:
        self._kernel, self._dim = kernel, tuple(dim)
        self._args = kernel._by_value(list(args), False)
        n_outputs = len(args) - n_inputs
        # As for a launch: all may be among the inputs.
        if adj_inputs and not adj_outputs and len(adj_inputs) == len(args):
            self._adjoints = list(adj_inputs)
        else:
            self._adjoints = [*(adj_inputs or [None] * n_inputs), *(adj_outputs or [None] * n_outputs)]
        self._accumulate, self._device, self._block = accumulate, device, block

    def launch(self) -> TapeMemory:
        """Runs the launch, and gives what memory that took.

        While a graph is captured, the graph takes it instead, with the arguments that it has now.
        """
        if _graphs.is_capturing():
            kept = copy.copy(self)
            kept._args, kept._adjoints = self._kernel._by_value(self._args, True), list(self._adjoints)
            _graphs.captured(kept.launch)
            return TapeMemory(0, 0, 0)
        n = len(self._args)
        return launch_adjoint(
            self._kernel, self._dim, self._args, n, self._adjoints, [], self._accumulate, self._device, self._block
        )

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Replaces the argument at a position, or its gradient."""
        n = len(self._args)
        if not 0 <= index < n:
            raise IndexError(f"kernel '{self._kernel.key}' is launched with {n} arguments, there is no {index}")
        if adjoint:
            self._adjoints[index] = value
        else:
            self._args = self._kernel._by_value([*self._args[:index], value, *self._args[index + 1 :]], False)

    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Replaces the argument of the parameter with this name, or its gradient."""
        names = self._kernel.parameter_names
        if name not in names:
            raise ValueError(f"kernel '{self._kernel.key}' has no parameter '{name}'")
        self.set_param_at_index(names.index(name), value, adjoint)

    def set_params(self, values: Sequence[Any]) -> None:
        """Replaces all arguments."""
        if len(values) != len(self._args):
            n = len(self._args)
            raise ValueError(f"kernel '{self._kernel.key}' is launched with {n} arguments, not {len(values)}")
        self._args = self._kernel._by_value(list(values), False)

    def set_dim(self, dim: int | Sequence[int]) -> None:
        """Replaces the grid."""
        self._dim = (dim,) if isinstance(dim, int) else tuple(dim)

    def __repr__(self) -> str:
        return f"<launch of the gradient of {self._kernel.key} over {list(self._dim)}>"


class _LaunchClass(type):
    """The class of `Launch`, whose instances are the compiler's, or launches of gradients."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (_native.Launch, AdjointLaunch))

    def __call__(cls, kernel: _native.Kernel, device: DeviceLike = None, adjoint: bool = False) -> Any:
        args = _zeros(kernel)
        if adjoint:
            return AdjointLaunch(kernel, (0,), args, len(args), None, None, True, str(get_device(device)), None)
        return _native.launch(kernel, 0, args, device=None if device is None else str(device), record_cmd=True)


class Launch(metaclass=_LaunchClass):
    """A launch for later: what `launch(…, record_cmd=True)` gives.

    Called, it makes one over no threads and without arguments: numbers are 0, and arrays are not there until
    `set_param_by_name` or `set_params` gives them.

    Parameters
    ----------
    kernel : Kernel
        A kernel that is not generic and takes no structs.
    device : str, optional
        Where it runs.
    adjoint : bool
        True for a launch of the kernel's gradient.

    Examples
    --------
    >>> import polyloom as loom
    >>> @loom.kernel
    ... def fill(x: loom.array(dtype=float), value: float):
    ...     x[loom.tid()] = value
    >>> x = loom.zeros(2)
    >>> command = loom.Launch(fill)
    >>> command.set_dim(2)
    >>> command.set_params([x, 3.0])
    >>> command.launch()
    >>> x.numpy()
    array([3., 3.], dtype=float32)
    """


def _zeros(kernel: _native.Kernel) -> list[Any]:
    """An argument for each parameter: no array, or zero."""
    if kernel._flat is not kernel:
        raise TypeError(f"Launch() makes no structs, which kernel '{kernel.key}' takes: record it with record_cmd=True")

    def zero(extents: list[int]) -> Any:
        return [zero(extents[1:])] * extents[0] if extents else 0

    return [None if ndim else zero(inner) for ndim, _, inner, _ in kernel._parameters]
