"""Kernels as functions that PyTorch differentiates; needs the package `torch`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyloom import _native
from polyloom._arrays import shared
from polyloom._functions import Bound, Extents, KernelFunction, kept, run, run_backward

__all__ = ["function"]

torch: Any = importlib.import_module("torch")


def function(
    kernel: _native.Kernel, outputs: str | Sequence[str] | Mapping[str, Extents], dim: Extents = None
) -> Callable[..., Any]:
    """A kernel as a function of tensors, with a gradient.

    Parameters
    ----------
    kernel : Kernel
        What runs. It only reads its inputs.
    outputs : str, sequence of str, or mapping
        The names of the kernel's last parameters, which are the results. With a mapping, each with its extents: a
        tuple, the name of an input that has the same, or a function of the inputs that gives them. They begin as zeros.
        By default the extents are those of the first input with as many dimensions.
    dim : int, tuple, str or callable, optional
        The extents of the launch, likewise; by default those of the first result.

    Returns
    -------
    callable
        It takes the kernel's other arguments: tensors of one device for arrays, and for numbers and vectors tensors or
        values. It gives a tensor, or as many as there are outputs.

    Raises
    ------
    TypeError, ValueError
        Here if the outputs are not the kernel's last parameters. In a call, if an argument does not fit its parameter,
        or the kernel writes an input or takes structs.
    CompileError
        In a call whose gradient is asked for, if the kernel has none.

    Examples
    --------
    >>> import torch, polyloom as loom, polyloom.torch
    >>> @loom.kernel
    ... def scale(s: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     y[i] = s * x[i] * x[i]
    >>> scaled = loom.torch.function(scale, outputs="y")
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> scaled(3.0, x).sum().backward()
    >>> x.grad
    tensor([ 6., 12.])
    """
    of_arrays = KernelFunction(kernel, outputs, dim)

    def call(*inputs: Any) -> Any:
        results = _Call.apply(of_arrays, *inputs)
        return results[0] if len(results) == 1 else results

    call.__name__ = call.__qualname__ = kernel.key
    call.__doc__ = f"Kernel '{kernel.signature}' as a function of ({', '.join(of_arrays.inputs)})."
    return call


def _device(inputs: Sequence[Any]) -> str:
    found = {str(each.device) for each in inputs if isinstance(each, torch.Tensor) and each.ndim}
    if len(found) > 1:
        listed = " and ".join(sorted(found))
        raise ValueError(f"tensors are on one device, not on {listed}: bring them to one with .to(…)")
    return found.pop() if found else "cpu"


def _given(bound: Bound, inputs: Sequence[Any]) -> list[Any]:
    """The inputs as launches take them: tensors for arrays, numbers and NumPy's arrays for what is no array."""
    given = []
    for value, (ndim, _, _, _) in zip(inputs, bound.kernel._parameters, strict=False):
        if isinstance(value, torch.Tensor):
            value = value.detach().resolve_neg()
            if not ndim:
                value = shared(value.cpu()) if value.ndim else value.item()
        given.append(_array(value))
    return given


def _array(value: Any) -> Any:
    """An array as launches take it: those of PyTorch's types that DLPack hands to NumPy, and bfloat16 on the host."""
    is_handed = not isinstance(value, torch.Tensor) or value.dtype is not torch.bfloat16 or value.device.type != "cpu"
    return value if is_handed else shared(value)


class _Call(torch.autograd.Function):  # type: ignore[misc]
    """A call, as PyTorch's autograd has it."""

    @staticmethod
    def forward(ctx: Any, of_arrays: KernelFunction, *inputs: Any) -> tuple[Any, ...]:
        bound = of_arrays.bind(inputs)
        device = _device(inputs)
        outputs = [
            torch.zeros(each.shape, dtype=getattr(torch, each.dtype.name), device=device) for each in bound.outputs
        ]
        run(bound, _given(bound, inputs), [_array(each) for each in outputs], device)
        ctx.bound, ctx.device = bound, device
        ctx.tensors = [isinstance(each, torch.Tensor) for each in inputs]
        ctx.save_for_backward(*(each for each in inputs if isinstance(each, torch.Tensor)))
        # PyTorch knows when a tensor has changed, and of nothing else.
        others = [None if isinstance(each, torch.Tensor) else each for each in inputs]
        ctx.others = kept(bound, others, device) if any(ctx.needs_input_grad) else others
        ctx.mark_non_differentiable(*(each for each in outputs if not each.dtype.is_floating_point))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        tensors = iter(ctx.saved_tensors)
        inputs = [
            next(tensors) if is_tensor else other for is_tensor, other in zip(ctx.tensors, ctx.others, strict=True)
        ]
        with torch.no_grad():
            results = _gradients(ctx, inputs, gradients)
        if torch.is_grad_enabled():
            # They are to be differentiated, perhaps, and that would leave this part out.
            name = ctx.bound.kernel.key
            moving = [each for each in (*inputs, *gradients) if isinstance(each, torch.Tensor) and each.requires_grad]
            results = [None if each is None else _Gradient.apply(name, each, *moving) for each in results]
        return (None, *results)


def _gradients(ctx: Any, inputs: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
    """The gradients of the inputs that have one."""
    wanted: list[Any] = []
    facts = ctx.bound.kernel._parameters
    for value, needs, (ndim, _, _, _) in zip(inputs, ctx.needs_input_grad[1:], facts, strict=False):
        # Of what is no array, the gradient is an array of one element.
        shape = (() if ndim else (1,)) + tuple(value.shape) if needs else None
        wanted.append(torch.empty(shape, dtype=value.dtype, device=ctx.device) if needs else None)
    adjoints = [gradient.detach().contiguous() for gradient in gradients]
    run_backward(ctx.bound, _given(ctx.bound, inputs), wanted, adjoints, ctx.device)
    return [
        None if gradient is None else gradient.reshape(value.shape).to(value.device)
        for gradient, value in zip(wanted, inputs, strict=True)
    ]


class _Gradient(torch.autograd.Function):  # type: ignore[misc]
    """A gradient, which is not differentiated again."""

    @staticmethod
    def forward(ctx: Any, name: str, gradient: Any, *moving: Any) -> Any:
        ctx.name = name
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            f"kernel '{ctx.name}' has no second derivatives in PyTorch: use polyloom.jvp under a polyloom.Tape"
        )
