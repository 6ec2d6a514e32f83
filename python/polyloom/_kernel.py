"""The decorators: they capture source text, names and values, and hand them to the compiler.

The compiler reads the decorated function's text from its file; the function itself is never run.
"""

from __future__ import annotations

import ast
import copyreg
import inspect
import keyword
import pickle
import sys
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType, ModuleType, SimpleNamespace
from typing import Any, TypeVar, overload

from polyloom import _native
from polyloom._absent import Absent
from polyloom._annotations import ArrayAnnotation
from polyloom._arrays import array
from polyloom._compatibility import Module, checked_module_options, module_of_kernel
from polyloom._composites import GenericComposite
from polyloom._config import config
from polyloom._deferral import Deferral, deferral, not_there
from polyloom._errors import CompileError
from polyloom._scalars import DType
from polyloom._source_units import lines_of, parsed_lines, unit_of
from polyloom._unique import UniqueIdentity

F = TypeVar("F", bound=Callable[..., Any])

# Of these are the values that annotations consist of: types, modules and arrays that have them, and extents.
_IN_ANNOTATIONS = (type, DType, array, ArrayAnnotation, GenericComposite, ModuleType, TypeVar, int, Absent)


def _unit_of(function: Callable[..., Any]) -> _native.SourceUnit:
    advice = "kernels are compiled from text, so define them in a file or a notebook cell"
    return unit_of(function.__code__.co_filename, lines_of(function, advice))


def _cells(function: Callable[..., Any]) -> dict[str, Any]:
    values = _enclosing_types(function)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:
            # The enclosing function has not set it yet: its name means nothing until then, not even a global.
            values[name] = cell
    return values


def _enclosing_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns what annotations may name of the locals around the definition, which no closure keeps."""
    if not function.__annotations__ or "<locals>" not in function.__qualname__:
        return {}
    scopes: list[FrameType] = []
    frame = _frame_of(function.__code__, sys._getframe(1))
    while frame is not None:
        scopes.append(frame)
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            break
        # The locals of a class body are without those of the function around it, which has called it.
        frame = _frame_of(frame.f_code, frame.f_back)
    found = {
        name: value for scope in reversed(scopes) for name, value in scope.f_locals.items() if _is_in_annotations(value)
    }
    return found if frame is not None else _solved(function) | found


def _frame_of(code: CodeType, frame: FrameType | None) -> FrameType | None:
    """Returns the innermost frame, from this one outwards, whose code defines the given one."""
    while frame is not None and code not in frame.f_code.co_consts:
        frame = frame.f_back
    return frame


def _is_in_annotations(value: Any) -> bool:
    return value is Any or value is None or isinstance(value, _IN_ANNOTATIONS)


def _solved(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns what annotations name of the locals of a function that has returned, as their values tell."""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, ValueError):
        return {}
    names: dict[str, Any] = {}

    def solve(text: ast.expr | None, value: Any) -> None:
        match text:
            case ast.Name(name) if name not in function.__globals__:
                if value is not None and _is_in_annotations(value):
                    names[name] = value
            case ast.Attribute(ast.Name(name), member) if name not in function.__globals__:
                namespace = names.setdefault(name, SimpleNamespace())
                if isinstance(namespace, SimpleNamespace) and _is_in_annotations(value):
                    setattr(namespace, member, value)
            case ast.Subscript(_, inner):
                solve(inner, getattr(value, "dtype", None))
            case ast.Call(_, arguments, keywords):
                for inner, member in zip(arguments, ("dtype", "ndim"), strict=False):
                    solve(inner, getattr(value, member, None))
                for keyword_ in keywords:
                    solve(keyword_.value, getattr(value, str(keyword_.arg), None))

    if isinstance(definition, ast.FunctionDef):
        arguments = definition.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            solve(argument.annotation, function.__annotations__.get(argument.arg))
        solve(definition.returns, function.__annotations__.get("return"))
    return names


@overload
def kernel(function: Callable[..., Any], /) -> _native.Kernel: ...
@overload
def kernel(**options: Any) -> Callable[[Callable[..., Any]], _native.Kernel]: ...
def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compiles a function into a kernel, run once per thread of a launch.

    Every parameter has an annotation: a scalar type, one such as `vec3`, or `array(dtype=…, ndim=…)`. With
    `typing.Any`, `Float`, `Int` or `Scalar` among them the kernel is generic: compiled for the types of the arguments
    it is launched with. Names that are not parameters or locals are captured by value now, when the kernel is defined.

    Parameters
    ----------
    check : bool
        Check array bounds, integer division and `assert` while running; a failure raises `LaunchError`.
    float_mode : {"strict", "contract", "fast"}
        How floating-point arithmetic may be compiled; `strict` by default.
    **options
        The other kernel metadata and execution constraints; the user guide lists them.

    Raises
    ------
    CompileError
        With all that is wrong with the kernel, at the lines where it is wrong.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> @loom.kernel
    ... def double(x: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     x[i] = 2.0 * x[i]
    >>> x = np.arange(3, dtype=np.float32)
    >>> loom.launch(double, 3, [x])
    >>> x
    array([0., 2., 4.], dtype=float32)
    """
    if function is None:
        return lambda function: _make(_native.Kernel, function, options)
    return _make(_native.Kernel, function, options)


@overload
def func(function: F, /) -> F: ...
@overload
def func(**options: Any) -> Callable[[F], F]: ...
def func(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function callable from kernels.

    A parameter without an annotation, or annotated `typing.Any`, takes every type, functions among them, and the
    function is compiled for the types of each call; so it is for parameters annotated `Float` and the like. Several
    definitions of one name are overloads.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> @loom.func
    ... def square(x: float):
    ...     return x * x
    >>> @loom.kernel
    ... def squares(x: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     x[i] = square(x[i])
    >>> x = np.arange(3, dtype=np.float32)
    >>> loom.launch(squares, 3, [x])
    >>> x
    array([0., 1., 4.], dtype=float32)
    """
    if function is None:
        return lambda function: _add_overload(function, options)
    return _add_overload(function, options)


def specialise(
    kernel: _native.Kernel | Callable[..., Any], types: Sequence[Any] | Mapping[str, Any] | None = None
) -> _native.Kernel:
    """The kernel that a generic kernel is for parameters of these types.

    Launches find it themselves; with it, a program compiles before it launches, or looks at the code. As a decorator of
    a function without a body, `@overload`, it takes the types from the annotations and gives back the generic kernel of
    the function's name.

    Parameters
    ----------
    kernel : Kernel
        A kernel with parameters annotated `Any`, `Float` and the like.
    types : sequence or mapping
        A type for each parameter, or for the generic ones by name.

    Examples
    --------
    >>> import polyloom as loom
    >>> from typing import Any
    >>> @loom.kernel
    ... def scale(x: loom.array(dtype=Any), s: Any):
    ...     i = loom.tid()
    ...     x[i] = s * x[i]
    >>> loom.overload(scale, [loom.array(dtype=loom.float64), loom.float64])
    <kernel scale(x: array(dtype=float64), s: float64)>
    """
    if isinstance(kernel, _native.Kernel):
        return _overload(kernel, types)
    if not hasattr(kernel, "__code__"):
        raise TypeError(f"overload() takes a kernel and types, not {kernel!r}")
    frame = sys._getframe(1)
    annotations = inspect.get_annotations(kernel, eval_str=True, locals=dict(frame.f_locals))
    if annotations.pop("return", None) not in (None, type(None)):
        raise TypeError("Return annotations are not allowed on @wp.overload stubs, because kernels give no value")
    known = frame.f_locals.get(kernel.__name__, kernel.__globals__.get(kernel.__name__))
    if not isinstance(known, _native.Kernel):
        known = _generic_kernel(kernel)
    if known is None:
        raise TypeError(f"@overload finds no kernel {kernel.__name__!r}: define the generic kernel first")
    _overload(known, annotations)
    return known


# Where a module keeps its generic kernels by the names of their functions and their own, for `@overload` of one whose
# name means something else by then.
_GENERIC = "__polyloom_generic_kernels__"


def _note_generic(kernel: _native.Kernel, function: Callable[..., Any]) -> None:
    if kernel.is_generic:
        is_local = "<locals>" in function.__qualname__
        of_function = function.__globals__.setdefault(_GENERIC, {}).setdefault(function.__qualname__, {})
        of_function[kernel.key] = None if is_local else kernel


def _generic_kernel(function: Callable[..., Any]) -> _native.Kernel | None:
    """The generic kernel of the function of this name in the module."""
    found = function.__globals__.get(_GENERIC, {}).get(function.__qualname__, {})
    if len(found) > 1:
        keys = ", ".join(repr(key) for key in found)
        raise RuntimeError(f"Ambiguous kernel lookup: {function.__qualname__} is the function of the kernels {keys}")
    return next(iter(found.values()), None)


def _overload(kernel: _native.Kernel, types: Sequence[Any] | Mapping[str, Any] | None) -> _native.Kernel:
    try:
        return kernel.overload(types)
    except CompileError as error:
        missing = not_there(error)
        if missing is None and config.errors != "launch":
            raise
        # It is compiled again where it is launched.
        text = f"kernel '{kernel.key}' is refused where it is launched with these types: {missing or error.msg}"
        warnings.warn(text, SyntaxWarning, stacklevel=3)
        return kernel


class _KernelClass(type):
    """The class of `Kernel`, whose instances are the compiler's."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _native.Kernel)

    def __call__(cls, func: Callable[..., Any], key: str | None = None, module: Any = None, options: Any = None) -> Any:
        made = _make(_native.Kernel, func, dict(options or {}))
        vars(made)["module"] = module_of_kernel(module, func)
        return made


class Kernel(metaclass=_KernelClass):
    """What `@kernel` makes of a function; called with a function, `Kernel(func)` is `kernel(func)`.

    Parameters
    ----------
    func : callable
        The function.
    options : dict, optional
        The arguments of the decorator.
    key, module
        Taken for programs written for Warp; `module` is what the kernel's attribute says, `key` is without effect.

    Examples
    --------
    >>> import polyloom as loom
    >>> def fill(x: loom.array(dtype=float)):
    ...     x[loom.tid()] = 1.0
    >>> loom.Kernel(func=fill, key="fill")
    <kernel fill(x: array(dtype=float32))>
    """


def _constant(value: Any) -> str:
    """A decorator argument as text; what is no constant as `...`, which no argument takes."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_constant, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_constant(k)}: {_constant(v)}" for k, v in value.items()) + "}"
    return "..."


def _call(decorator: str, options: dict[str, Any]) -> str | None:
    """The options as the text of a call of the decorator, which is how the compiler takes them."""
    for name in options:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise TypeError(f"{decorator}() has no argument {name!r}")
    # The compiler has no use for the object.
    options = {name: value for name, value in options.items() if not isinstance(value, Module)}
    arguments = ", ".join(f"{name}={_constant(value)}" for name, value in options.items())
    return f"{decorator}({arguments})" if options else None


def _check_options(decorator: str, function: Callable[..., Any], options: dict[str, Any]) -> None:
    """Refuses values of the arguments that the compiler is not told."""
    name, inline = options.get("name"), options.get("inline")
    if name is not None and not (isinstance(name, str) and name.isascii() and name.isidentifier()):
        raise ValueError(f"@{decorator} for {function.__name__!r}: name {name!r} is not a valid C++ identifier")
    if inline is not None and not isinstance(inline, bool):
        raise TypeError(f"@{decorator} for {function.__name__!r}: inline must be a bool, not {inline!r}")


def _make(make: Any, function: Callable[..., Any], options: dict[str, Any]) -> Any:
    decorator = "kernel" if make is _native.Kernel else "func"
    if isinstance(function, (_native.Kernel, _native.Function)):
        raise TypeError(f"@{decorator} takes a Python function, and {function!r} is compiled already: decorate it once")
    if not hasattr(function, "__code__"):
        raise TypeError(f"@{decorator} takes a Python function, not {function!r}")
    if function.__name__ == "<lambda>":
        raise TypeError(f"@{decorator} takes no lambda: write it as a function with `def`")
    if hasattr(function, "__wrapped__"):
        raise TypeError(
            f"@{decorator} compiles the text of {function.__qualname__!r}, so it cannot follow another decorator that "
            "wraps it: remove that one"
        )
    _check_options(decorator, function, options)
    module_options = checked_module_options(function.__name__, options)
    options = {name: value for name, value in options.items() if name != "module_options"}
    unit, cells = _unit_of(function), _cells(function)
    identity = None
    if make is _native.Kernel and options.get("module") == "unique":
        identity = UniqueIdentity(function, cells, {**options, "module_options": module_options})
        if (known := identity.known()) is not None:
            return known
    given = (unit, function.__code__.co_firstlineno, function, function.__globals__, cells, _call(decorator, options))
    try:
        made = make(*given)
    except CompileError as error:
        waits = deferral_of(error, decorator, function, cells)
        if waits is None:
            raise
        made = make(*given, deferred=True)
        warn_deferred(function, waits)
    vars(made).update(__doc__=function.__doc__, __module__=function.__module__, __qualname__=function.__qualname__)
    if make is _native.Function:
        vars(made).update(module=module_of_kernel(options.get("module"), function))
    if make is _native.Kernel:
        module = module_of_kernel(options.get("module"), function)
        if identity is not None:
            module.name += f"_{identity.number}"
            module.options.update(module_options)
            identity.keep(made)
        vars(made).update(options={k: v for k, v in options.items() if k != "module"}, module=module)
        if options.get("name") is not None:
            vars(made)["_key"] = options["name"]
        _note_generic(made, function)
    for found in getattr(made, "warnings", ()):
        text = f"{found.message} [{found.code}]" + (f": {found.help}" if found.help else "")
        _warn(function, found.file, found.line, text)
    return made


def deferral_of(
    error: CompileError, decorator: str, function: Callable[..., Any], cells: dict[str, Any] | None = None
) -> Deferral | None:
    """Why an error in a definition waits until the definition is used; None if it does not."""
    lines = parsed_lines(function.__code__.co_filename)
    return deferral(error, decorator, function, _cells(function) if cells is None else cells, lines)


def warn_deferred(function: Callable[..., Any], waits: Deferral) -> None:
    """Tells the user at the definition what waits."""
    if waits.warning is not None:
        _warn(function, function.__code__.co_filename, function.__code__.co_firstlineno, waits.warning)


def _warn(function: Callable[..., Any], file: str, line: int, text: str) -> None:
    registry = function.__globals__.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, SyntaxWarning, file, line, function.__module__, registry)


def _add_overload(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    made = _make(_native.Function, function, options)
    # Two frames up is the code that uses the decorator, with or without arguments.
    scope = sys._getframe(2).f_locals
    before = scope.get(function.__name__)
    if isinstance(before, _native.Function):
        made.add_overloads_of(before)
    return made


def _pickled(made: Any) -> str:
    """How a kernel or function is pickled: by the name that leads to it in its module."""
    kind = "kernel" if isinstance(made, _native.Kernel) else "function"
    module, name = vars(made).get("__module__"), str(vars(made).get("__qualname__", made.__name__))
    found: Any = sys.modules.get(str(module))
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not made:
        raise pickle.PicklingError(
            f"{kind} {made.__name__!r} is pickled by its name in a module, and {module}.{name} is not it"
        )
    return name


copyreg.pickle(_native.Kernel, _pickled)
copyreg.pickle(_native.Function, _pickled)
