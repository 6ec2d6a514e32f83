"""The program's own kernels as ops: functions of arrays that make their results, alone or in a group."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from polyloom import _native
from polyloom._arrays import array, uninitialised
from polyloom._devices import get_device
from polyloom._functions import Extents, KernelFunction, run
from polyloom._scalars import dtype_of

__all__ = ["KernelOp", "op"]


class KernelOp:
    """A kernel as an op: a function of the parameters that it reads, which makes the arrays that it writes.

    Attributes
    ----------
    kernel : Kernel
        What runs.
    outputs : list of str
        The parameters that it makes.
    """

    # The kernel kind of the table of ops.
    kind = "custom"

    def __init__(
        self, kernel: _native.Kernel, outputs: str | Sequence[str] | Mapping[str, Extents], dim: Extents = None
    ) -> None:
        self._function = KernelFunction(kernel, outputs, dim)
        self.kernel = kernel
        self.outputs = self._function.outputs
        self.__name__ = self.__qualname__ = kernel.key
        self.__doc__ = f"Kernel '{kernel.signature}' as a function of ({', '.join(self._function.inputs)})."

    def __call__(self, *inputs: Any) -> Any:
        if any(isinstance(each, _native.TracedBase) for each in inputs):
            raise TypeError(
                f"`{self.__name__}` is a kernel of the program, which has no gradient as an op: write it by ops, or "
                "record its launch on a loom.Tape"
            )
        is_torch = any(type(each).__module__.partition(".")[0] == "torch" for each in inputs)
        bound = self._function.bind(inputs)
        device = next((each.device for each in inputs if isinstance(each, array) and each.device != "cpu"), "cpu")
        if device != "cpu":
            on_device = [uninitialised(each.shape, dtype_of(each.dtype), get_device(device)) for each in bound.outputs]
            run(bound, inputs, on_device, device)
            return on_device[0] if len(on_device) == 1 else tuple(on_device)
        # Memory of the pool, as results of other ops are in.
        made = [_native.new_result(each.shape, each.dtype) for each in bound.outputs]
        run(bound, inputs, made, "cpu")
        results = made
        if is_torch:
            torch: Any = importlib.import_module("torch")
            results = [torch.from_numpy(each) for each in made]
        elif any(isinstance(each, array) for each in inputs):
            results = [array(each, copy=False) for each in made]
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self) -> str:
        return f"polyloom.op({self.__name__}, shape=…)"


def _outputs_of(kernel: _native.Kernel, shape: Extents | Mapping[str, Extents]) -> Mapping[str, Extents]:
    if isinstance(shape, Mapping):
        return shape
    written = [
        name
        for name, (_, _, _, is_written) in zip(kernel.parameter_names, kernel._parameters, strict=True)
        if is_written
    ]
    return dict.fromkeys(written, shape)


@overload
def op(kernel: _native.Kernel, *, shape: Extents | Mapping[str, Extents] = ..., dim: Extents = ...) -> KernelOp: ...
@overload
def op(*, shape: Extents | Mapping[str, Extents] = ..., dim: Extents = ...) -> Callable[[_native.Kernel], KernelOp]: ...
def op(
    kernel: _native.Kernel | None = None, *, shape: Extents | Mapping[str, Extents] = None, dim: Extents = None
) -> Any:
    """A kernel as an op, with a rule for the shape of its result: a function, or a decorator above `kernel`.

    The parameters that the kernel writes are its last. The op makes them, and takes the others.

    Parameters
    ----------
    kernel : Kernel
        What runs, once for each element of the first result.
    shape : str, tuple, callable, or mapping
        The extents of the result: those of the input of this name, a tuple, or a function of the inputs that gives
        them; of several results, by name. By default those of the first input with as many dimensions.
    dim : int, tuple, str or callable, optional
        The extents of the launch, likewise; by default those of the first result.

    Returns
    -------
    KernelOp
        A function of arrays and numbers. In a group of calls it runs as a launch of its own, as an op of the kind
        `custom`.

    Raises
    ------
    ValueError
        If the kernel writes a parameter that is not among its last.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> @loom.op(shape=lambda x: (x.shape[0] - 1,))
    ... @loom.kernel
    ... def differences(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     y[i] = x[i + 1] - x[i]
    >>> differences(np.array([1, 4, 9, 16], np.float32))
    array([3., 5., 7.], dtype=float32)
    """
    if kernel is None:
        return lambda decorated: op(decorated, shape=shape, dim=dim)
    return KernelOp(kernel, _outputs_of(kernel, shape), dim)
