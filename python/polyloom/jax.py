"""Kernels as functions that JAX differentiates; needs the package `jax`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._functions import Bound, Extents, KernelFunction, check_backward, run, run_backward

__all__ = ["function"]

jax: Any = importlib.import_module("jax")


def function(
    kernel: _native.Kernel, outputs: str | Sequence[str] | Mapping[str, Extents], dim: Extents = None
) -> Callable[..., Any]:
    """A kernel as a function of JAX's arrays, with a gradient in reverse mode.

    It runs on the CPU, also under `jax.jit`.

    Parameters
    ----------
    kernel : Kernel
        What runs. It only reads its inputs.
    outputs : str, sequence of str, or mapping
        The names of the kernel's last parameters, which are the results. With a mapping, each with its extents: a
        tuple, the name of an input that has the same, or a function of the inputs' shapes and types that gives them.
        They begin as zeros. By default the extents are those of the first input with as many dimensions.
    dim : int, tuple, str or callable, optional
        The extents of the launch, likewise; by default those of the first result.

    Returns
    -------
    callable
        It takes the kernel's other arguments, arrays and numbers, and gives an array, or as many as there are outputs.

    Raises
    ------
    TypeError, ValueError
        Here if the outputs are not the kernel's last parameters. In a call, if an argument does not fit its parameter,
        or the kernel writes an input or takes structs.
    CompileError
        In a call whose gradient is asked for, if the kernel has none.

    Examples
    --------
    >>> import jax, polyloom as loom, polyloom.jax
    >>> @loom.kernel
    ... def scale(s: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     y[i] = s * x[i] * x[i]
    >>> scaled = loom.jax.function(scale, outputs="y")
    >>> jax.grad(lambda x: scaled(3.0, x).sum())(jax.numpy.array([1.0, 2.0]))
    Array([ 6., 12.], dtype=float32)
    """
    of_arrays = KernelFunction(kernel, outputs, dim)

    def bound_of(inputs: Sequence[Any]) -> Bound:
        for name, value in zip(of_arrays.inputs, inputs, strict=False):
            if isinstance(value, (list, tuple, dict)):
                raise TypeError(
                    f"kernel '{kernel.key}': its argument '{name}' is an array or a number, not {type(value).__name__}"
                )
        return of_arrays.bind(inputs)

    def refused(primals: Any, tangents: Any) -> Any:
        raise TypeError(
            f"kernel '{kernel.key}' as a function of JAX has first derivatives in reverse mode alone: for others write "
            "what it computes in JAX, or record polyloom.jvp with polyloom.Tape"
        )

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def launched(*inputs: Any) -> Any:
        bound = bound_of(inputs)

        def on_host(*values: Any) -> tuple[Any, ...]:
            made = [np.zeros(each.shape, each.dtype) for each in bound.outputs]
            run(bound, _given(bound, values), made, "cpu")
            return tuple(made)

        shapes = tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in bound.outputs)
        results = jax.pure_callback(on_host, shapes, *inputs, vmap_method="sequential")
        return results[0] if len(results) == 1 else tuple(results)

    launched.defjvp(refused)

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def call(*inputs: Any) -> Any:
        return launched(*inputs)

    def forward(*inputs: Any) -> Any:
        check_backward(bound_of(inputs), inputs)
        return launched(*inputs), inputs

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def went_back(inputs: Any, given: Any) -> Any:
        bound = bound_of(inputs)
        are_float = [jax.numpy.issubdtype(jax.numpy.result_type(each), jax.numpy.floating) for each in inputs]

        def on_host(*values: Any) -> tuple[Any, ...]:
            arguments, cotangents = values[: len(inputs)], values[len(inputs) :]
            wanted = []
            for value, is_float, (ndim, _, _, _) in zip(arguments, are_float, bound.kernel._parameters, strict=False):
                # Of what is no array, the gradient is an array of one element.
                shape = np.shape(value) if ndim else (1, *np.shape(value))
                wanted.append(np.empty(shape, np.asarray(value).dtype) if is_float else None)
            adjoints = _adjoints(bound, cotangents)
            run_backward(bound, _given(bound, arguments), wanted, adjoints, "cpu")
            results = zip(wanted, arguments, strict=True)
            return tuple(each.reshape(np.shape(value)) for each, value in results if each is not None)

        shapes = [jax.ShapeDtypeStruct(np.shape(each), jax.numpy.result_type(each)) for each in inputs]
        wanted_shapes = tuple(shape for shape, is_float in zip(shapes, are_float, strict=True) if is_float)
        return jax.pure_callback(on_host, wanted_shapes, *inputs, *given, vmap_method="sequential")

    went_back.defjvp(refused)

    def backward(inputs: Any, gradients: Any) -> Any:
        given = gradients if isinstance(gradients, tuple) else (gradients,)
        found = iter(went_back(inputs, tuple(_zeros_if_none(each) for each in given)))
        # Integers have gradients of a type without values.
        return tuple(
            next(found)
            if jax.numpy.issubdtype(jax.numpy.result_type(each), jax.numpy.floating)
            else np.zeros(np.shape(each), jax.dtypes.float0)
            for each in inputs
        )

    call.defvjp(forward, backward)
    call.__name__ = kernel.key
    call.__doc__ = f"Kernel '{kernel.signature}' as a function of ({', '.join(of_arrays.inputs)})."
    return call  # type: ignore[no-any-return]


def _zeros_if_none(gradient: Any) -> Any:
    """A gradient that can be handed to the host: those of integers have no values."""
    return np.zeros(gradient.shape, np.int8) if gradient.dtype == jax.dtypes.float0 else gradient


def _adjoints(bound: Bound, cotangents: Sequence[Any]) -> list[Any]:
    """Gradients of the outputs as launches take them."""
    return [np.ascontiguousarray(each, output.dtype) for each, output in zip(cotangents, bound.outputs, strict=True)]


def _given(bound: Bound, values: Sequence[Any]) -> list[Any]:
    """The inputs as launches take them."""
    given = []
    for value, (ndim, _, _, _) in zip(values, bound.kernel._parameters, strict=False):
        host = np.asarray(value)
        given.append(host if ndim or host.ndim else host[()])
    return given
