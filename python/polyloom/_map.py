"""`map`: a function over the elements of arrays.

It writes a kernel's text, one call of the function per thread, and has it compiled. What type the results have the
compiler says, of a kernel that only makes the call.
"""

from __future__ import annotations

import ast
import linecache
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from polyloom import _composite_names, _native, _scalars, types
from polyloom._arrays import array, empty
from polyloom._builtins import Builtin, tid  # type: ignore[attr-defined]
from polyloom._composites import Composite, CompositeClass
from polyloom._devices import DeviceLike, get_device
from polyloom._errors import CompileError
from polyloom._kernel import _cells, func
from polyloom._scalars import DType, TypedConstant, bfloat16, dtype_of

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
        Without effect on the CPU.
    device : str, optional
        `"cpu"`.

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
    get_device(device)
    arrays = [each for each in inputs if isinstance(each, (array, np.ndarray))]
    if not arrays:
        raise TypeError("map() needs an array among its inputs")
    given = [array(each, copy=False) if isinstance(each, np.ndarray) else each for each in inputs]
    shape = _broadcast([each.shape for each in given if isinstance(each, array)])
    stored = [getattr(each.dtype, "_wp_scalar_type_", each.dtype) for each in given if isinstance(each, array)]
    scalars = {each for each in stored if isinstance(each, DType)}
    operands = tuple(_operand(each, shape, scalars) for each in given)
    n_out = None if out is None else 1 if isinstance(out, array) else len(out)
    kernel, result_types = _compiled(func, operands, len(shape), n_out)
    if return_kernel:
        return kernel
    if out is None:
        outputs = [empty(shape, each) for each in result_types]
    else:
        outputs = [out] if isinstance(out, array) else list(out)
        for each in outputs:
            if each.shape != shape:
                raise ValueError(f"the results have the shape {shape}, and `out` has {each.shape}")
    if math.prod(shape):
        _native.launch(kernel, shape, [*given, *outputs])
    if out is not None:
        return out
    return outputs[0] if len(outputs) == 1 else outputs


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(str(shape) for shape in shapes)
        raise ValueError(f"arrays of shapes {listed} cannot be broadcast to one shape") from None


def _operand(value: Any, shape: tuple[int, ...], scalars: set[DType]) -> _Operand:
    if isinstance(value, array):
        extents = shape[len(shape) - value.ndim :]
        return _Operand(value.dtype, tuple(a == b for a, b in zip(value.shape, extents, strict=True)))
    if isinstance(value, Composite):
        return _Operand(type(value), None)
    if isinstance(value, TypedConstant):
        return _Operand(value.dtype, None)
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


def _compiled(function: Any, operands: tuple[_Operand, ...], n_axes: int, n_out: int | None) -> tuple[Any, list[Any]]:
    """The kernel for operands of these types, and the types of the results."""
    key = _key(function, operands, n_axes, n_out)
    if key is not None and key in _kept:
        _kept.move_to_end(key)
        return _kept[key]  # type: ignore[no-any-return]
    callee = _callee(function)
    result_types = _result_types(callee, operands)
    if n_out is not None and n_out != len(result_types):
        raise ValueError(f"the function returns {len(result_types)} values, and `out` has {n_out} arrays")
    made = (_kernel(callee, operands, n_axes, result_types), result_types)
    if key is not None:
        _kept[key] = made
        while len(_kept) > _N_KEPT:
            _kept.popitem(last=False)
    return made


def _key(function: Any, operands: tuple[_Operand, ...], n_axes: int, n_out: int | None) -> Any:
    """What a kernel may be found by again; None where what a function captures cannot be compared."""
    if not isinstance(function, FunctionType):
        return (function, operands, n_axes, n_out)
    captured = tuple(sorted(_cells(function).items()))
    named = tuple((name, function.__globals__.get(name)) for name in function.__code__.co_names)
    try:
        hash((captured, named))
    except TypeError:
        return None
    # 1 and 1.0 and True are equal, and are other constants.
    kinds = tuple(type(value) for _, value in captured + named)
    return (function.__code__, captured, named, kinds, operands, n_axes, n_out)


def _callee(function: Any) -> Any:
    """The function as kernels can call it."""
    if isinstance(function, (Builtin, _native.Function, CompositeClass, DType)):
        return function
    if not isinstance(function, FunctionType):
        raise TypeError(f"map() takes a function, not {type(function).__name__}")
    if function.__name__ != "<lambda>":
        return func(function)
    found = _lambda(function)
    names = [argument.arg for argument in found.args.args]
    text = f"def function({', '.join(f'{name}: Any' for name in names)}):\n    return {ast.unparse(found.body)}\n"
    file = f"<lambda of line {function.__code__.co_firstlineno} of {function.__code__.co_filename}>"
    cells = _cells(function) | {"Any": Any}
    return _native.Function(_native.SourceUnit(file, text), 1, function, function.__globals__, cells, None)


def _lambda(function: FunctionType) -> ast.Lambda:
    """The text of a lambda: of those that begin in its line, the one with its code."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise OSError(f"the text of a lambda is not available (it came from {code.co_filename!r}): use a function")
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


def _parameters(operands: tuple[_Operand, ...], scope: dict[str, Any], elements: bool) -> list[str]:
    parameters = []
    for index, operand in enumerate(operands):
        scope[f"T{index}"] = operand.type
        written = f"T{index}" if elements else operand.annotation(f"T{index}")
        parameters.append(f"a{index}: {written}")
    return parameters


def _result_types(callee: Any, operands: tuple[_Operand, ...]) -> list[Any]:
    """The types of what the function returns for elements of these types."""
    scope: dict[str, Any] = {"function": callee, "array": array}
    parameters = ", ".join(_parameters(operands, scope, elements=True))
    call = f"function({', '.join(f'a{index}' for index in range(len(operands)))})"

    def typed(n: int) -> list[str]:
        results = ", ".join(f"r{index}" for index in range(n))
        kernel = _define(f"def results({parameters}):\n    {results} = {call}\n", callee, scope)
        line = kernel.ast().rstrip().splitlines()[-1].strip()
        return [line.split(f"r{index}: ", 1)[1] for index in range(n)]

    try:
        texts = typed(1)
    except CompileError as error:
        # Its result is a tuple, and how long it is the message says.
        words = error.diagnostics[0].message.split()
        if words[:2] != ["this", "gives"] or not words[2].isdigit():
            raise
        texts = typed(int(words[2]))
    return [_type_named(text) for text in texts]


def _type_named(text: str) -> Any:
    """The type that stands at the beginning of a text."""
    n_open = end = 0
    while end < len(text) and n_open >= 0 and (n_open or text[end] not in ", "):
        n_open += (text[end] == "(") - (text[end] == ")")
        end += n_open >= 0
    scope = {**vars(_composite_names), **vars(types), **_scalars._BY_NAME}
    try:
        return eval(text[:end], {"__builtins__": {}}, scope)  # noqa: S307 - the compiler's own text
    except (NameError, SyntaxError):
        raise TypeError(f"map() makes no arrays of {text[:end]}: give them as `out`") from None


def _kernel(callee: Any, operands: tuple[_Operand, ...], n_axes: int, result_types: list[Any]) -> Any:
    scope: dict[str, Any] = {"function": callee, "array": array, "tid": tid}
    parameters = _parameters(operands, scope, elements=False)
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
    return _define("\n".join(lines) + "\n", callee, scope)


def _define(text: str, callee: Any, scope: dict[str, Any]) -> Any:
    return _native.Kernel(_native.SourceUnit("<map>", text), 1, callee, scope, {}, None)
