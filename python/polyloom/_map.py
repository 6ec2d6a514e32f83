"""`map`: a function over the elements of arrays.

It writes a kernel's text, one call of the function per thread, and has it compiled. What type the results have the
compiler says, and whether a kernel made before is right for a function: by all that the function captures.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from polyloom import _native
from polyloom._annotations import name_of
from polyloom._arrays import array
from polyloom._builtins import Builtin, tid  # type: ignore[attr-defined]
from polyloom._composites import Composite, CompositeClass
from polyloom._creation import empty
from polyloom._devices import Device, DeviceLike, get_device
from polyloom._errors import CompileError
from polyloom._indexed import IndexedArray
from polyloom._kernel import _cells, _make, _unit_of
from polyloom._loaded_code import check_unchanged
from polyloom._scalars import DType, TypedConstant, bfloat16, dtype_of, type_of
from polyloom._views import view_of

__all__ = ["map"]

# Kernels that are kept for the next call, the one longest unused going first.
_N_KEPT = 256
_kept: OrderedDict[Any, Any] = OrderedDict()


class _Operand(NamedTuple):
    """An argument of `map` as far as the kernel's text depends on it."""

    # Element type of an array, type of a value.
    type: Any
    # Of an array, along which axes of the result it has elements; None for a value.
    axes: tuple[bool, ...] | None

    def annotation(self, name: str) -> str:
        return name if self.axes is None else f"array(dtype={name}, ndim={len(self.axes)})"

    def element(self, name: str, n_axes: int) -> str:
        if self.axes is None:
            return name
        first = n_axes - len(self.axes)
        indices = [f"i{first + axis}" if varies else "0" for axis, varies in enumerate(self.axes)]
        return f"{name}[{', '.join(indices)}]"


def map(  # noqa: A001 - Warp's name
    func: Callable[..., Any],
    *inputs: Any,
    out: array | Sequence[array] | None = None,
    return_kernel: bool = False,
    block_dim: int | None = None,
    device: DeviceLike = None,
) -> Any:
    """Calls a function for the elements of arrays, element by element, in a kernel.

    Arrays of different shapes are broadcast as NumPy's are. A value that is no array goes into every call.

    Parameters
    ----------
    func : callable
        A builtin, a function under `@func`, a Python function whose parameters have annotations, or a lambda.
    *inputs : array or value
        The function's arguments; at least one is an array.
    out : array or sequence of array, optional
        Where results go, one array for each that the function returns; new arrays by default.
    return_kernel : bool
        Return the kernel, which takes inputs and outputs, instead of running it.
    block_dim : int, optional
        Without effect.
    device : str, optional
        Where the arrays are; by default that says where it runs.

    Returns
    -------
    array or list of array
        The results: several if the function returns several.

    Examples
    --------
    >>> import polyloom as loom
    >>> a = loom.array([1.0, 2.0, 3.0])
    >>> loom.map(lambda x, y: x + 2.0 * y, a, 0.5).numpy()
    array([2., 3., 4.], dtype=float32)
    >>> loom.map(loom.length, loom.array([[3, 4], [6, 8]], dtype=loom.vec2)).numpy()
    array([ 5., 10.], dtype=float32)
    """
    inputs = tuple(each.contiguous() if isinstance(each, IndexedArray) else each for each in inputs)
    arrays = [each for each in inputs if isinstance(each, (array, np.ndarray))]
    if not arrays:
        raise ValueError("map requires at least one warp.array input")
    where = _device_of(arrays) if device is None else get_device(device)
    given = [array(each, copy=False, device=where) if isinstance(each, np.ndarray) else each for each in inputs]
    shape = _broadcast([each.shape for each in given if isinstance(each, array)])
    stored = [getattr(each.dtype, "_wp_scalar_type_", each.dtype) for each in given if isinstance(each, array)]
    scalars = {each for each in stored if isinstance(each, DType)}
    operands = tuple(_operand(each, shape, scalars) for each in given)
    given_out = [out] if isinstance(out, (array, IndexedArray)) else out
    kernel, result_types = _compiled(func, operands, shape, given_out)
    if return_kernel:
        return kernel
    if given_out is None:
        # A result has a gradient where what it is computed from has one, so that tapes carry it on.
        needs_grad = any(each.requires_grad for each in given if isinstance(each, array))
        outputs = [empty(shape, each, where, needs_grad) for each in result_types]
    else:
        outputs = list(given_out)
        for index, (each, wanted) in enumerate(zip(outputs, result_types, strict=True)):
            if each.dtype is not wanted and wanted is not None:
                which, names = f" {index}" if len(outputs) > 1 else "", (name_of(each.dtype), name_of(wanted))
                raise TypeError(f"Output array{which} dtype {names[0]} does not match expected dtype {names[1]}")
            if each.shape != shape:
                which = f" {index}" if len(outputs) > 1 else ""
                raise TypeError(f"Output array{which} shape {each.shape} does not match expected shape {shape}")
    if math.prod(shape):
        # No thread reads what another has written; and what a kernel writes it cannot also be given to read, if the
        # launch is to be differentiated.
        is_shared = given_out is not None and (
            any(isinstance(each, IndexedArray) for each in outputs)
            or _share(given, outputs, _native.recording_level() == 2)
        )
        written = [empty(shape, each.dtype, each.device) for each in outputs] if is_shared else outputs
        _native.launch(kernel, shape, [*given, *written], device=where)
        if is_shared:
            for each, result in zip(outputs, written, strict=True):
                each.assign(result)
    if out is not None:
        return out
    return outputs[0] if len(outputs) == 1 else outputs


def _share(inputs: Sequence[Any], outputs: Sequence[array], is_recorded: bool) -> bool:
    """Whether an element of a result is one of another result, of an input, or is at several indices. Unless the launch
    is recorded, elements that one thread alone comes to do not count."""
    read, written = ([view_of(each) for each in part if isinstance(each, array)] for part in (inputs, outputs))
    for index, view in enumerate(written):
        if view is None:
            continue
        others = [other for other in (*read, *written[:index]) if other and (is_recorded or other.key != view.key)]
        if is_recorded and view.coincides or any(view.overlaps(other) for other in others):
            return True
    return False


def _device_of(arrays: list[Any]) -> Device:
    """The device of the first array that is on one: that all are there, the launch checks."""
    return next((each.device for each in arrays if isinstance(each, array)), get_device("cpu"))


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(shape) for shape in shapes)
        raise ValueError(f"Shapes {listed} are not broadcastable") from None


def _operand(value: Any, shape: tuple[int, ...], scalars: set[DType]) -> _Operand:
    if isinstance(value, array):
        extents = shape[len(shape) - value.ndim :]
        return _Operand(value.dtype, tuple(a == b for a, b in zip(value.shape, extents, strict=True)))
    if isinstance(value, Composite):
        return _Operand(type(value), None)
    if isinstance(value, TypedConstant):
        return _Operand(type_of(value), None)
    if type(value) in (float, int):
        # A Python number is of the arrays' own type where they have one of its kind.
        kinds = "f" if type(value) is float else "iu"
        alike = {each for each in scalars if ("f" if each is bfloat16 else each.numpy.kind) in kinds}
        if len(alike) == 1:
            return _Operand(alike.pop(), None)
    try:
        return _Operand(dtype_of(value.dtype if isinstance(value, np.generic) else type(value)), None)
    except TypeError:
        raise TypeError(f"map() takes arrays, numbers, vectors and the like, not {type(value).__name__}") from None


def _compiled(
    function: Any, operands: tuple[_Operand, ...], shape: tuple[int, ...], out: Sequence[array] | None
) -> Any:
    """The kernel for operands of these types, and the types of the results."""
    n_axes = len(shape)
    source = _source(function)
    captures = None if source is None else _native.Captures(*source)
    n_out = None if out is None else len(out)
    key = (captures or function, operands, n_axes, n_out)
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    callee = function
    if source is not None:
        is_lambda = function.__name__ == "<lambda>"
        callee = _native.Function(*source, None) if is_lambda else _make(_native.Function, function, {})
    try:
        results = _native.result_types(callee, [operand.type for operand in operands])
    except CompileError as error:
        # In the call of the function, not in what it does.
        if isinstance(callee, _native.Function) and all(found.file == "<map>" for found in error.diagnostics):
            raise TypeError(_misfit(function, operands)) from error
        raise
    if not results:
        raise TypeError("map() makes arrays of what the function returns. The provided function must return a value")
    if out is not None and len(out) != len(results) and len(out) > 1:
        raise TypeError(
            f"Number of provided output arrays ({len(out)}) does not match expected number of function outputs "
            f"({len(results)})"
        )
    if out is not None and len(out) != len(results):
        dtypes = ", ".join("float32" if each is None else name_of(each) for _, each in results)
        raise TypeError(
            f"the function returns {len(results)} values, and `out` has {len(out)} arrays. Invalid output provided, "
            f"expected {len(results)} Warp arrays with shape {shape} and dtypes ({dtypes})"
        )
    types = []
    for index, (name, each) in enumerate(results):
        if each is None and out is None:
            raise TypeError(f"map() makes no arrays of {name}: give them as `out`")
        types.append(each if out is None or each is not None else out[index].dtype)
    made = (_kernel(callee, operands, n_axes, types), types)
    if captures is None or captures.is_complete:
        _kept[key] = made
        while len(_kept) > _N_KEPT:
            _kept.popitem(last=False)
    return made


def _misfit(function: Any, operands: tuple[_Operand, ...]) -> str:
    """What is wrong with a call of the function for operands of these types."""
    python = getattr(function, "func", function)
    n = len(inspect.signature(python).parameters)
    if n != len(operands):
        return f"Number of input arguments ({len(operands)}) does not match expected number of function arguments ({n})"
    name = re.sub(r"\W", "_", python.__qualname__)
    types = ", ".join(name_of(operand.type) for operand in operands)
    return f"Function {name} does not support the provided argument types {types}"


_lambdas: OrderedDict[tuple[str, CodeType], _native.SourceUnit] = OrderedDict()


def _source(function: Any) -> tuple[_native.SourceUnit, int, Any, dict[str, Any], dict[str, Any]] | None:
    """What the compiler makes a Python function of: the file, the line, the object itself and the names it sees. None
    for what the compiler knows already."""
    if isinstance(function, (Builtin, _native.Function, CompositeClass, DType)):
        return None
    if not isinstance(function, FunctionType):
        raise TypeError(f"map() takes a function, not {type(function).__name__}")
    code = function.__code__
    if function.__name__ != "<lambda>":
        return _unit_of(function), code.co_firstlineno, function, function.__globals__, _cells(function)
    key = (code.co_filename, code)
    unit = _lambdas.get(key)
    if unit is None:
        found = _lambda(function)
        names = [argument.arg for argument in found.args.args]
        text = f"def function({', '.join(f'{name}: Any' for name in names)}):\n    return {ast.unparse(found.body)}\n"
        file = f"<lambda of line {code.co_firstlineno} of {code.co_filename}>"
        unit = _lambdas[key] = _native.SourceUnit(file, text)
        while len(_lambdas) > _N_KEPT:
            _lambdas.popitem(last=False)
    return unit, 1, function, function.__globals__, _cells(function) | {"Any": Any}


def _lambda(function: FunctionType) -> ast.Lambda:
    """The text of a lambda: of those that begin in its line, the one with its code."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise OSError(f"the text of a lambda is not available (it came from {code.co_filename!r}): use a function")
    check_unchanged(function, lines)
    found = [
        node for node in ast.walk(_tree(lines)) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    texts = {ast.unparse(node): node for node in found}
    same = [node for node in texts.values() if len(texts) == 1 or _is_code_of(node, code)]
    if len(same) != 1:
        raise OSError(
            f"which lambda of line {code.co_firstlineno} is meant is not clear: put each in a line of its own"
        )
    arguments = same[0].args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
        raise TypeError("a lambda for kernels has plain parameters alone")
    return same[0]


_trees: OrderedDict[int, tuple[list[str], ast.Module]] = OrderedDict()


def _tree(lines: list[str]) -> ast.Module:
    """The syntax tree of a file: linecache hands out the same list until the file changes."""
    known = _trees.get(id(lines))
    if known is None or known[0] is not lines:
        known = _trees[id(lines)] = (lines, ast.parse("".join(lines)))
        while len(_trees) > 8:
            _trees.popitem(last=False)
    return known[1]


def _is_code_of(node: ast.Lambda, code: CodeType) -> bool:
    # Names of an enclosing function are loaded by other instructions than globals, so names and constants decide.
    compiled = compile(ast.Expression(node), "", "eval")
    inner = next(constant for constant in compiled.co_consts if isinstance(constant, CodeType))
    names = set(inner.co_names) | set(inner.co_freevars)
    if inner.co_varnames != code.co_varnames or names != set(code.co_names) | set(code.co_freevars):
        return False
    if [(type(c), c) for c in inner.co_consts] != [(type(c), c) for c in code.co_consts]:
        return False
    return bool(code.co_freevars) or inner.co_code == code.co_code


def _kernel(callee: Any, operands: tuple[_Operand, ...], n_axes: int, result_types: list[Any]) -> Any:
    scope: dict[str, Any] = {"function": callee, "array": array, "tid": tid}
    scope.update((f"T{index}", operand.type) for index, operand in enumerate(operands))
    parameters = [f"a{index}: {operand.annotation(f'T{index}')}" for index, operand in enumerate(operands)]
    axes = [f"i{axis}" for axis in range(n_axes)]
    for index, each in enumerate(result_types):
        scope[f"R{index}"] = each
        parameters.append(f"out{index}: array(dtype=R{index}, ndim={n_axes})")
    arguments = ", ".join(operand.element(f"a{index}", n_axes) for index, operand in enumerate(operands))
    results = [f"r{index}" for index in range(len(result_types))]
    stores = [f"    out{index}[{', '.join(axes)}] = {result}" for index, result in enumerate(results)]
    lines = [
        f"def map_kernel({', '.join(parameters)}):",
        f"    {', '.join(axes)} = tid()",
        f"    {', '.join(results)} = function({arguments})",
        *stores,
    ]
    return _native.Kernel(_native.SourceUnit("<map>", "\n".join(lines) + "\n"), 1, callee, scope, {}, None)
