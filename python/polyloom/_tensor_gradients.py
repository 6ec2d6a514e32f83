"""Gradients of functions of tensors: a function is traced at each call, and its trace runs as one plan."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from polyloom import _native
from polyloom._array_trees import check_like, flattened, leaves_of, rebuilt
from polyloom._arrays import array
from polyloom._config import config
from polyloom._fusion_text import FUSION
from polyloom._tensor import ArgumentCheck
from polyloom._traced_tensor import TracedTensor

__all__ = ["grad", "value_and_grad", "vjp"]

# No bound.
_MAX_BYTES = 2**64 - 1


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Makes the function that gives the gradients of another, which gives one number.

    The function is called with tensors that have no values in place of the arrays it is differentiated by. What it does
    with them through `ops`, operators, and those functions and methods of NumPy that are ops, is one graph; the way
    back is added, and both run as one plan, in which what is cheap to compute again is not stored. It is traced at each
    call, so that an `if` on a shape, a global or another argument is decided each time; plans are found again by their
    graphs and layouts.

    In kernels, `grad(f)(x, y)` gives the derivatives of the number that `f`, a function under `@func`, gives for `x`
    and `y`: one for each parameter that is a floating-point number or a vector or the like of such. Arrays among the
    parameters are constants.

    Parameters
    ----------
    function : callable
        A function under `@fuse`, whose `float_mode` holds, or any other; it gives one floating-point number: a tensor
        of shape `()`. In a kernel one under `@func`, which reads memory at most.
    argnums : int or sequence of int
        The arguments by position that it is differentiated by: floating-point arrays of NumPy, PyTorch or the package,
        on any one device, or dictionaries, lists, tuples, named tuples and dataclasses of such. Others are passed on as
        they are.
    has_aux : bool
        The function gives `(loss, aux)`; `aux`, any structure of tensors and other objects, is given beside the
        gradients.

    Returns
    -------
    callable
        Takes what the function takes. Gives the gradients like the argument, in its structure and arrays of its
        package; with several `argnums` a tuple of them; with `has_aux` `(gradients, aux)`. Its `explain(*args)`
        gives the kernels of the plan, as text.

    Raises
    ------
    TypeError
        At the call, of arguments that are not floating-point numbers, of a loss that is not one such number, and where
        the function asks for the value of a tensor, as `if` and `float` do. The message names the line.
    CompileError
        In a kernel, if the function has no derivative, or one that loops would have to be recorded for.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> from polyloom import ops
    >>> @loom.fuse
    ... def loss(w, x, y):
    ...     return ops.mean(ops.square(ops.subtract(ops.matmul(x, w), y)))
    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    >>> loom.grad(loss)(np.zeros(2, np.float32), x, np.array([1.0, -1.0], np.float32))
    array([2., 2.], dtype=float32)

    Within kernels:

    >>> @loom.func
    ... def sphere(p: loom.vec3, radius: float):
    ...     return loom.length(p) - radius
    >>> @loom.kernel
    ... def normals(p: loom.array(dtype=loom.vec3), n: loom.array(dtype=loom.vec3)):
    ...     i = loom.tid()
    ...     n[i], _ = loom.grad(sphere)(p[i], 1.0)
    >>> p, n = np.array([[0.0, 3.0, 4.0]], np.float32), np.zeros((1, 3), np.float32)
    >>> loom.launch(normals, 1, [p, n])
    >>> n
    array([[0. , 0.6, 0.8]], dtype=float32)
    """
    known = _Differentiated(function, "grad", argnums, has_aux)

    @_like(function, "gradient")
    def gradient(*args: Any, **named: Any) -> Any:
        _, aux, gradients = known.gradients(args, named, has_value=False)
        return (gradients, aux) if has_aux else gradients

    gradient.__dict__["explain"] = functools.partial(known.explain, has_value=False)
    return gradient


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Makes the function that gives what another gives, one number, and its gradients.

    Parameters
    ----------
    function, argnums, has_aux
        As for `grad`.

    Returns
    -------
    callable
        Gives `(value, gradients)`; with `has_aux` `((value, aux), gradients)`. The value is an array of shape `()`.

    Raises
    ------
    TypeError
        As `grad` does.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> from polyloom import ops
    >>> def loss(p):
    ...     return ops.sum(p["a"] * ops.exp(p["b"]))
    >>> value, gradients = loom.value_and_grad(loss)({"a": np.array([1.0, 2.0]), "b": np.zeros(2)})
    >>> float(value), gradients["a"], gradients["b"]
    (3.0, array([1., 1.]), array([1., 2.]))
    """
    known = _Differentiated(function, "value_and_grad", argnums, has_aux)

    @_like(function, "value and gradient")
    def value_and_gradient(*args: Any, **named: Any) -> Any:
        value, aux, gradients = known.gradients(args, named, has_value=True)
        return ((value, aux), gradients) if has_aux else (value, gradients)

    value_and_gradient.__dict__["explain"] = functools.partial(known.explain, has_value=True)
    return value_and_gradient


def vjp(
    function: Callable[..., Any], *args: Any, max_bytes: int | None = None
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Calls a function and gives its results, and the function that carries cotangents back: vector-Jacobian products.

    Parameters
    ----------
    function : callable
        As for `grad`, but with results of any shapes, in any structure.
    *args
        Its arguments, all of which it is differentiated by.
    max_bytes : int, optional
        The most memory that `pullback` may keep beside the arguments. Where more would be needed, those values are
        computed again that take the least time for their size; with 0, all of them. Without it, `pullback` keeps what
        the way back needs and what is not cheap to compute again.

    Returns
    -------
    outputs : Any
        What the function gives.
    pullback : callable
        Takes cotangents in the structure of the results, each of its type and shape, and gives a tuple with the
        gradients by each argument. Those of results that are no floats are not looked at. It keeps the arguments, which
        must not be written to before it is called, and beside them `pullback.n_bytes` bytes.

    Raises
    ------
    TypeError
        As `grad` does, and of a cotangent of another type.
    ValueError
        Of a cotangent of another shape or structure.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> from polyloom import ops
    >>> y, pullback = loom.vjp(lambda x: ops.square(x), np.array([1.0, 2.0, 3.0]))
    >>> pullback(np.array([1.0, 0.0, 10.0]))
    (array([ 2.,  0., 60.]),)
    """
    run = _Run(function, "vjp", args, range(len(args)))
    outputs = run.call({})
    values, tensors = run.outputs_of(outputs)
    limit = _MAX_BYTES if max_bytes is None else min(max(max_bytes, 0), _MAX_BYTES)
    results = run.results("forward", tensors, max_bytes=limit)
    shown, kept = iter(results[: len(tensors)]), results[len(tensors) :]
    given = rebuilt(outputs, iter([next(shown) if each is not None else value for each, value in values]))

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        check_like(outputs, cotangents, f"vjp({run.name}): the structure of the cotangents")
        seeds = []
        for (path, leaf), (_, cotangent) in zip(leaves_of(outputs), leaves_of(cotangents), strict=True):
            if isinstance(leaf, TracedTensor) and leaf._trace is run.trace and leaf._is_float:
                seeds.append(_beside(leaf, cotangent, f"vjp({run.name}): the cotangent of result{path}"))
        return tuple(run.gradients_of(run.results("backward", tensors, [*kept, *seeds], max_bytes=limit)))

    pullback.__dict__["n_bytes"] = sum(getattr(each, "nbytes", 0) for each in kept)
    return given, pullback


def tangents_of(function: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The results of a function of tensors, and how they move as its arguments do: `jvp` of such."""
    if not isinstance(args, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("jvp(f, args, tangents) takes the arguments and their tangents as tuples or lists")
    if len(args) != len(tangents):
        raise ValueError(f"tangents are one for each argument: {len(args)}, not {len(tangents)}")
    run = _Run(function, "jvp", args, range(len(args)))
    outputs = run.call({})
    values, tensors = run.outputs_of(outputs)
    given = []
    for number, (arg, tangent) in enumerate(zip(args, tangents, strict=True)):
        where = f"jvp({run.name}): the tangent of argument {number}"
        check_like(arg, tangent, where)
        own = [leaf for _, leaf in leaves_of(run.traced[number])]
        for tensor, (path, leaf) in zip(own, leaves_of(tangent), strict=True):
            given.append(_beside(tensor, leaf, where + path))
    results = run.results("tangent", tensors, given)
    primal, moved = iter(results[: len(tensors)]), iter(results[len(tensors) :])
    made = []
    for tensor, value in values:
        if tensor is None:
            made.append((value, np.zeros_like(value) if isinstance(value, np.ndarray) else None))
        else:
            made.append((next(primal), next(moved) if tensor._is_float else None))
    return rebuilt(outputs, iter([each for each, _ in made])), rebuilt(outputs, iter([each for _, each in made]))


class _Differentiated:
    """A function with the arguments that it is differentiated by, and whether it gives something beside the loss."""

    def __init__(self, function: Any, name: str, argnums: int | Sequence[int], has_aux: bool) -> None:
        check_function(function, name)
        self.function, self.name, self.has_aux = function, name, has_aux
        self.is_single = isinstance(argnums, int)
        self.argnums = [argnums] if isinstance(argnums, int) else list(argnums)
        if not all(isinstance(each, int) for each in self.argnums):
            raise TypeError(f"argnums of {name} is the place of an argument, or a list of places, not {argnums!r}")

    def explain(self, *args: Any, has_value: bool, **named: Any) -> str:
        """Traces the function with these arguments, and shows the kernels of the plan, forward and backward, with their
        sizes, and what the planner has weighed. No kernel runs."""
        run, tensor, _, tensors = self._traced(args, named)
        first = 0 if has_value else 1
        return "\n".join(run.results("gradient", [tensor, *tensors], first=first, explains=True)) + "\n"

    def _traced(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[_Run, TracedTensor, Any, Any]:
        """The call, its loss, what the function gives beside it, and the tensors in that."""
        run = _Run(self.function, self.name, args, self.argnums)
        loss, aux = run.call(named), None
        if self.has_aux:
            if not isinstance(loss, tuple) or len(loss) != 2:
                raise TypeError(f"{run.what} with has_aux=True gives a pair, (loss, aux), not {_described(loss)}")
            loss, aux = loss
        return run, run.loss_of(loss), aux, run.outputs_of(aux)[1]

    def gradients(self, args: tuple[Any, ...], named: dict[str, Any], has_value: bool) -> tuple[Any, Any, Any]:
        """The value, what the function gives beside it, and the gradients."""
        run, tensor, aux, tensors = self._traced(args, named)
        values, _ = run.outputs_of(aux)
        first = 0 if has_value else 1
        results = run.results("gradient", [tensor, *tensors], first=first)
        value = results[0] if has_value else None
        results = results[1 - first :]
        beside = iter(results[: len(tensors)])
        aux = rebuilt(aux, iter([next(beside) if each is not None else other for each, other in values]))
        gradients = run.gradients_of(results[len(tensors) :])
        return value, aux, gradients[0] if self.is_single else tuple(gradients)


class _Original(NamedTuple):
    function: Callable[..., Any]
    float_mode: str
    check_arguments: ArgumentCheck | None


def _original(function: Any) -> _Original:
    """The function as it is written, of one under `fuse`, the mode of its kernels, and the check of its arguments."""
    if isinstance(function, types.MethodType):
        found = _original(function.__func__)
        return found._replace(function=types.MethodType(found.function, function.__self__))
    fusion = getattr(function, "__dict__", {}).get(FUSION)
    if fusion is None:
        return _Original(function, config.float_mode, None)
    return _Original(fusion.original, fusion.float_mode, fusion.check_arguments)


def check_function(function: Any, name: str) -> None:
    """Raises `TypeError` of what no function of tensors is."""
    if isinstance(function, _native.Kernel):
        raise TypeError(f"{name}(f) takes a function of tensors; launches of kernels are recorded with Tape")
    if isinstance(function, _native.Function):
        raise TypeError(
            f"{name}(f)(x) of a function under @func is for kernels; outside of them, record launches with Tape, or "
            "write a function of tensors"
        )
    if not callable(function):
        raise TypeError(f"{name}(f) takes a function, not {type(function).__name__}")


class _Run:
    """A call of a function with traced tensors in the place of what it is differentiated by."""

    def __init__(self, function: Any, caller: str, args: Sequence[Any], argnums: Sequence[int]) -> None:
        check_function(function, caller)
        self.function, self.float_mode, self.check_arguments = _original(function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self.what = f"{caller}: `{self.name}`"
        self.trace = _native.GraphTrace()
        self.args = list(args)
        self.leaves: list[Any] = []
        self.inputs: list[TracedTensor] = []
        self.traced: list[Any] = []
        self.argnums: list[int] = []
        for number in argnums:
            place = number + len(args) if number < 0 else number
            if not 0 <= place < len(args):
                raise TypeError(f"{self.what} is called with {len(args)} arguments by position, there is no {number}")
            if place in self.argnums:
                raise ValueError(f"{self.what} is differentiated by argument {place} twice")
            where = f"argument {place} of {self.what}"
            leaves: list[Any] = []
            flattened(args[place], leaves)
            if not all(type(leaf) is np.ndarray and leaf.dtype.kind == "f" for leaf in leaves):
                leaves = [self._leaf(leaf, where + path) for path, leaf in leaves_of(args[place])]
            inputs = [self.trace.input(leaf) for leaf in leaves]
            self.leaves += leaves
            self.inputs += inputs
            self.argnums.append(place)
            self.traced.append(rebuilt(args[place], iter(inputs)))
            self.args[place] = self.traced[-1]

    @staticmethod
    def _leaf(value: Any, where: str) -> Any:
        """Returns a leaf that is differentiated by as a tensor that ops take."""
        if isinstance(value, float):
            return np.asarray(value)
        if isinstance(value, TracedTensor):
            if value._is_float:
                return value
            _refuse_type(where, value._dtype_name)
        dtype = getattr(value, "dtype", None)
        if dtype is None:
            if isinstance(value, (bool, int)):
                _refuse_type(where, type(value).__name__)
            raise TypeError(
                f"{where} is {type(value).__name__}, which has no gradient: it is an array, or a dictionary, list, "
                "tuple or dataclass of arrays; pass other values as arguments of their own"
            )
        name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2]
        if not name.startswith(("float", "bfloat")):
            _refuse_type(where, name)
        return value

    def call(self, named: dict[str, Any]) -> Any:
        """Calls the function."""
        try:
            if self.check_arguments is not None:
                owner = [self.function.__self__] if isinstance(self.function, types.MethodType) else []
                self.check_arguments.of_call([*owner, *self.args], named)
            return self.function(*self.args, **named)
        finally:
            self.trace.close()

    def loss_of(self, loss: Any) -> TracedTensor:
        """The loss as a tensor of the trace."""
        if not (isinstance(loss, TracedTensor) and loss._trace is self.trace):
            # It does not depend on what it is differentiated by.
            if isinstance(loss, (float, np.floating)):
                loss = np.asarray(loss)
            if not hasattr(loss, "dtype"):
                raise TypeError(f"{self.what} gives {_described(loss)}, and a gradient is of one floating-point number")
            loss = self.trace.input(loss)
        tensor: TracedTensor = loss
        if not tensor._is_float or tuple(tensor.shape) != ():
            raise TypeError(
                f"{self.what} gives {_described(loss)}, and a gradient is of one floating-point number: return "
                "ops.sum(…) or ops.mean(…) of it, or call loom.vjp"
            )
        return tensor

    def outputs_of(self, outputs: Any) -> tuple[list[tuple[TracedTensor | None, Any]], list[TracedTensor]]:
        """The leaves of results, each as a tensor of the trace or as what it is otherwise; and the tensors."""
        values: list[tuple[TracedTensor | None, Any]] = []
        leaves: list[Any] = []
        flattened(outputs, leaves)
        for leaf in leaves:
            is_own = isinstance(leaf, TracedTensor) and leaf._trace is self.trace
            values.append((leaf, None) if is_own else (None, leaf))
        return values, [tensor for tensor, _ in values if tensor is not None]

    def results(
        self,
        request: str,
        outputs: Sequence[TracedTensor],
        given: Sequence[Any] = (),
        first: int = 0,
        max_bytes: int = 0,
        explains: bool = False,
    ) -> list[Any]:
        """Runs the plan of the trace, or adds it to the trace that runs around this one."""
        return _native.trace_results(
            self.trace,
            list(outputs),
            self.inputs,
            request,
            list(given),
            first,
            max_bytes,
            self.name,
            self.float_mode,
            explains,
        )

    def gradients_of(self, gradients: Sequence[Any]) -> list[Any]:
        """Gradients in the structures of the arguments, in arrays of their packages."""
        leaves = iter([_in_package(leaf, each) for leaf, each in zip(self.leaves, gradients, strict=True)])
        return [rebuilt(tree, leaves) for tree in self.traced]


def _in_package(like: Any, value: Any) -> Any:
    """A result as an array of the package that another array is of."""
    if isinstance(like, np.ndarray) and isinstance(value, array):
        return value.numpy()
    return value


def _beside(tensor: TracedTensor, value: Any, what: str) -> Any:
    """A cotangent or tangent, of the type and shape of its tensor."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = np.full(tensor.shape, value, tensor.dtype) if tensor.shape == () else value
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        raise TypeError(f"{what} is {type(value).__name__}, not an array")
    if tuple(shape) != tuple(tensor.shape):
        raise ValueError(f"{what} has the shape {tuple(shape)}, and is of a tensor of shape {tuple(tensor.shape)}")
    name = value._dtype_name if isinstance(value, TracedTensor) else None
    name = name or getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2]
    if name != tensor._dtype_name:
        raise TypeError(f"{what} is of type {name}, and is of a tensor of type {tensor._dtype_name}: convert it")
    return value


def _refuse_type(where: str, name: str) -> NoReturn:
    raise TypeError(
        f"{where} is of type {name}, and gradients are by floating-point numbers: convert it, by .astype(np.float32), "
        "or pass it as an argument that `argnums` leaves out"
    )


def _described(value: Any) -> str:
    if isinstance(value, TracedTensor):
        return f"a tensor {value._dtype_name}[{', '.join(map(str, value.shape))}]"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {tuple(value.shape)} and type {value.dtype}"
    return f"an object of type {type(value).__name__}"


def _like(function: Any, what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a function made of another the other's name and signature."""

    def named(made: Callable[..., Any]) -> Callable[..., Any]:
        if hasattr(function, "__name__"):
            functools.update_wrapper(made, function, updated=())
            made.__doc__ = f"The {what} of `{function.__name__}`, with its arguments."
        return made

    return named
