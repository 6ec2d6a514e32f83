"""Kernels as functions that JAX differentiates; needs the package `jax`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._functions import Bound, Extents, KernelFunction, check_backward, run, run_backward, run_forward

__all__ = ["function"]

jax: Any = importlib.import_module("jax")
importlib.import_module("jax.extend")
ad: Any = importlib.import_module("jax.interpreters.ad")
batching: Any = importlib.import_module("jax.interpreters.batching")
mlir: Any = importlib.import_module("jax.interpreters.mlir")


def function(
    kernel: _native.Kernel, outputs: str | Sequence[str] | Mapping[str, Extents], dim: Extents = None
) -> Callable[..., Any]:
    """A kernel as a function of JAX's arrays, with derivatives in forward and in reverse mode.

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

    def launched(*inputs: Any) -> tuple[Any, ...]:
        bound = bound_of(inputs)

        def on_host(*values: Any) -> tuple[Any, ...]:
            made = [np.zeros(each.shape, each.dtype) for each in bound.outputs]
            run(bound, _given(bound, values), made, "cpu")
            return tuple(made)

        shapes = tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in bound.outputs)
        return tuple(jax.pure_callback(on_host, shapes, *inputs, vmap_method="sequential"))

    def tangents(inputs: Sequence[Any], moves: Sequence[Any]) -> tuple[Any, ...]:
        """How the outputs of floating-point numbers move if such inputs do."""
        bound, floats = bound_of(inputs), _are_float(inputs)

        def on_host(*values: Any) -> tuple[Any, ...]:
            arguments, moving = _given(bound, values[: len(inputs)]), iter(values[len(inputs) :])
            made = [np.zeros(each.shape, each.dtype) for each in bound.outputs]
            moved = [np.zeros_like(each) if _is_float(each.dtype) else None for each in made]
            directions = [next(moving) if is_float else None for is_float in floats]
            given = [
                None if each is None else np.asarray(each) if np.ndim(arg) else np.asarray(each)[()]
                for each, arg in zip(directions, arguments, strict=True)
            ]
            run_forward(bound, arguments, made, [*given, *moved], "cpu")
            return tuple(each for each in moved if each is not None)

        shapes = tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in bound.outputs if _is_float(each.dtype))
        return tuple(jax.pure_callback(on_host, shapes, *inputs, *moves, vmap_method="sequential"))

    def cotangents(inputs: Sequence[Any], weights: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients of inputs of floating-point numbers from those of such outputs."""
        bound, floats = bound_of(inputs), _are_float(inputs)
        check_backward(bound, inputs)

        def on_host(*values: Any) -> tuple[Any, ...]:
            arguments, given = values[: len(inputs)], iter(values[len(inputs) :])
            wanted = []
            for value, is_float, (ndim, _, _, _) in zip(arguments, floats, bound.kernel._parameters, strict=False):
                # Of what is no array, the gradient is an array of one element.
                shape = np.shape(value) if ndim else (1, *np.shape(value))
                wanted.append(np.empty(shape, np.asarray(value).dtype) if is_float else None)
            adjoints = [
                np.ascontiguousarray(next(given), each.dtype)
                if _is_float(each.dtype)
                else np.zeros(each.shape, each.dtype)
                for each in bound.outputs
            ]
            run_backward(bound, _given(bound, arguments), wanted, adjoints, "cpu")
            results = zip(wanted, arguments, strict=True)
            return tuple(each.reshape(np.shape(value)) for each, value in results if each is not None)

        shapes = [jax.ShapeDtypeStruct(np.shape(each), jax.numpy.result_type(each)) for each in inputs]
        of_floats = tuple(shape for shape, is_float in zip(shapes, floats, strict=True) if is_float)
        return tuple(jax.pure_callback(on_host, of_floats, *inputs, *weights, vmap_method="sequential"))

    linear = _LinearMap(kernel.key, tangents, cotangents)

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def call(*inputs: Any) -> Any:
        results = launched(*inputs)
        return results[0] if len(results) == 1 else results

    @call.defjvp  # type: ignore[untyped-decorator]
    def moved(primals: Any, moves: Any) -> Any:
        called = call(*primals)
        results = called if isinstance(called, tuple) else (called,)
        given = [each for each, is_float in zip(moves, _are_float(primals), strict=True) if is_float]
        found = iter(_linear_map.bind(*primals, *given, n_inputs=len(primals), of=linear, is_transposed=False))
        ends = tuple(
            next(found) if _is_float(each.dtype) else np.zeros(each.shape, jax.dtypes.float0) for each in results
        )
        return (called, ends[0]) if len(results) == 1 else (called, ends)

    call.__name__ = kernel.key
    call.__doc__ = f"Kernel '{kernel.signature}' as a function of ({', '.join(of_arrays.inputs)})."
    return call  # type: ignore[no-any-return]


class _LinearMap:
    """The derivative of a function at a point: how outputs move with inputs, and the transpose of that.

    Both take the point and numbers for the inputs, or outputs, that are floating-point numbers, and give numbers for
    the others.
    """

    def __init__(self, name: str, forward: Callable[..., tuple[Any, ...]], transpose: Callable[..., tuple[Any, ...]]):
        self.name, self.forward, self.transpose = name, forward, transpose

    def refuse(self) -> TypeError:
        return TypeError(
            f"kernel '{self.name}' as a function of JAX has first derivatives alone: for others write what it computes "
            "in JAX, or record polyloom.jvp with polyloom.Tape"
        )


def _is_float(dtype: Any) -> bool:
    return bool(jax.numpy.issubdtype(dtype, jax.numpy.floating))


def _are_float(inputs: Sequence[Any]) -> list[bool]:
    return [_is_float(jax.numpy.result_type(each)) for each in inputs]


def _split(args: Sequence[Any], n_inputs: int) -> tuple[Sequence[Any], Sequence[Any]]:
    return args[:n_inputs], args[n_inputs:]


# One primitive is the linear map and, with `is_transposed`, its transpose: each is differentiated and transposed by the
# other's rule.
_linear_map: Any = jax.extend.core.Primitive("polyloom_linear_map")
_linear_map.multiple_results = True


@_linear_map.def_impl  # type: ignore[untyped-decorator]
def _apply(*args: Any, n_inputs: int, of: _LinearMap, is_transposed: bool) -> tuple[Any, ...]:
    return (of.transpose if is_transposed else of.forward)(*_split(args, n_inputs))


@_linear_map.def_abstract_eval  # type: ignore[untyped-decorator]
def _shapes(*args: Any, **parameters: Any) -> list[Any]:
    shapes = jax.eval_shape(lambda *given: _apply(*given, **parameters), *args)
    return [jax.core.ShapedArray(each.shape, each.dtype) for each in shapes]


def _jvp(args: Sequence[Any], moves: Sequence[Any], *, n_inputs: int, of: _LinearMap, is_transposed: bool) -> Any:
    """It is linear in its last arguments; how it moves with the point would be a second derivative."""
    point, numbers = _split(moves, n_inputs)
    if any(type(each) is not ad.Zero and jax.numpy.result_type(each) != jax.dtypes.float0 for each in point):
        raise of.refuse()
    given = [ad.instantiate_zeros(each) for each in numbers]
    same = {"n_inputs": n_inputs, "of": of, "is_transposed": is_transposed}
    return _linear_map.bind(*args, **same), _linear_map.bind(*args[:n_inputs], *given, **same)


def _transpose(weights: Sequence[Any], *args: Any, n_inputs: int, of: _LinearMap, is_transposed: bool) -> list[Any]:
    point, _ = _split(args, n_inputs)
    if any(ad.is_undefined_primal(each) for each in point):
        raise of.refuse()
    given = [ad.instantiate_zeros(each) for each in weights]
    found = _linear_map.bind(*point, *given, n_inputs=n_inputs, of=of, is_transposed=not is_transposed)
    return [None] * n_inputs + list(found)


def _batched(args: Sequence[Any], axes: Sequence[Any], **parameters: Any) -> Any:
    """One element of the batch after the other."""
    moving = [jax.numpy.moveaxis(arg, axis, 0) for arg, axis in zip(args, axes, strict=True) if axis is not None]

    def one(elements: Any) -> Any:
        each = iter(elements)
        given = [arg if axis is None else next(each) for arg, axis in zip(args, axes, strict=True)]
        return _linear_map.bind(*given, **parameters)

    results = jax.lax.map(one, moving)
    return results, [0] * len(results)


ad.primitive_jvps[_linear_map] = _jvp
ad.primitive_transposes[_linear_map] = _transpose
batching.primitive_batchers[_linear_map] = _batched
mlir.register_lowering(_linear_map, mlir.lower_fun(_apply, multiple_results=True))


def _given(bound: Bound, values: Sequence[Any]) -> list[Any]:
    """The inputs as launches take them."""
    given = []
    for value, (ndim, _, _, _) in zip(values, bound.kernel._parameters, strict=False):
        host = np.asarray(value)
        given.append(host if ndim or host.ndim else host[()])
    return given
