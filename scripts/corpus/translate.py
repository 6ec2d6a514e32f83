"""Gives Polyloom a Warp program's functions: their text as it is, with Polyloom's names for Warp's.

What a changed import does for a whole program, this does for one kernel and the functions, types and values it refers
to, so that one unsupported definition of a module costs nothing but what uses it.
"""

from __future__ import annotations

import ast
import enum
import textwrap
import time
import types as python_types
import typing
from typing import Any

import numpy as np
import polyloom
import warp
from polyloom import _kernel, _native
from warp._src import codegen, context, types


class Untranslatable(Exception):
    """What Polyloom has no counterpart for."""


class _Proxy:
    """An object of a Warp program, whose attributes are translated as they are asked for."""

    def __init__(self, translator: Translator, of: Any) -> None:
        self.__dict__.update(_translator=translator, _of=of)

    def __getattr__(self, name: str) -> Any:
        return self._translator.value(getattr(self._of, name))


class _ModuleProxy(python_types.ModuleType):
    """The same for a module."""

    def __init__(self, translator: Translator, of: Any) -> None:
        super().__init__(of.__name__)
        self.__dict__.update(_translator=translator, _of=of)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._translator.value(getattr(self._of, name))
        except Untranslatable as error:
            raise AttributeError(str(error)) from None


class Translator:
    """Polyloom's counterparts of Warp's objects."""

    def __init__(self) -> None:
        # The Warp object is kept with its counterpart, so that its id stays its own.
        self._known: dict[int, tuple[Any, Any]] = {}
        # Functions that are being made: the overloads made so far.
        self._open: dict[int, Any] = {}
        # Spent in the compiler, not in here.
        self.seconds = 0.0

    def value(self, of: Any) -> Any:
        known = self._known.get(id(of))
        if known is not None:
            return known[1]
        if self._open.get(id(of)) is not None:
            return self._open[id(of)]
        made = self._translate(of)
        self._known[id(of)] = (of, made)
        return made

    def kernel(self, kernel: Any) -> Any:
        """The kernel that Polyloom makes of a Warp kernel's function, for the types that an instance of it has."""
        known = self._known.get(id(kernel.func))
        if known is None:
            bounds = kernel.options.get("launch_bounds")
            arguments = _kernel._call("kernel", {"launch_bounds": bounds}) if bounds else None
            made = self._define(_native.Kernel, kernel.func, kernel.adj, arguments)
            known = self._known[id(kernel.func)] = (kernel.func, made)
        made = known[1]
        if not getattr(made, "is_generic", False):
            return made
        start = time.perf_counter()
        try:
            return made.overload([self.type(kind) for kind in kernel.adj.arg_types.values()])
        finally:
            self.seconds += time.perf_counter() - start

    def _translate(self, of: Any) -> Any:
        if isinstance(of, python_types.ModuleType):
            return self._module(of)
        if isinstance(of, context.Function):
            return self._function(of)
        if isinstance(of, codegen.Struct):
            return self.struct(of)
        if isinstance(of, codegen.StructInstance):
            made = self.struct(of._cls)()
            for name in of._cls.vars:
                setattr(made, name, self.value(getattr(of, name)))
            return made
        if isinstance(of, (bool, int, float, str, bytes, np.generic, enum.Enum)) or of is None or of is typing.Any:
            return of
        if isinstance(of, typing.TypeVar):
            return self._named(of.__name__, of)
        if types.is_array(of) and getattr(of, "ptr", None) is None:
            return self.array_type(of)
        if isinstance(of, types.Reference):
            return polyloom.ref[self.type(of.dtype)]
        if isinstance(of, type):
            return self.type(of) if of.__module__.split(".")[0] == "warp" else of
        if hasattr(type(of), "_wp_generic_type_str_"):
            return self.type(type(of))(np.array(of))
        if isinstance(of, types.scalar_base):
            return self.type(type(of))(of.value)
        if isinstance(of, (tuple, list)):
            return type(of)(self.value(item) for item in of)
        if isinstance(of, dict):
            return {self.value(key): self.value(item) for key, item in of.items()}
        if isinstance(of, python_types.FunctionType):
            name = of.__name__
            if of.__module__.startswith("warp._src") and getattr(warp, name, None) is of:
                return self._named(name, of)
            return of
        if isinstance(of, (context.Kernel, python_types.BuiltinFunctionType)):
            return of
        return _Proxy(self, of) if type(of).__module__.split(".")[0] in ("warp", "types") else of

    def _module(self, of: Any) -> Any:
        if of is warp:
            return polyloom
        if of is warp.types:
            return polyloom.types
        if of.__name__.split(".")[0] not in ("warp", "__main__"):
            return of
        return _ModuleProxy(self, of)

    def _named(self, name: str, of: Any) -> Any:
        found = getattr(polyloom, name, None)
        if found is None:
            raise Untranslatable(f"no `{name}`")
        return found

    def type(self, of: Any) -> Any:
        """The counterpart of a class: a scalar type, or one of vectors, matrices, …"""
        if of in (float, int, bool) or of is typing.Any:
            return of
        if isinstance(of, typing.TypeVar):
            return self._named(of.__name__, of)
        if isinstance(of, codegen.Struct):
            return self.struct(of)
        if types.is_array(of):
            return self.array_type(of)
        if of in types.scalar_types or of is types.bool:
            return self._named(of.__name__, of)
        kind = getattr(of, "_wp_generic_type_str_", None)
        if kind is not None:
            scalar = self.type(of._wp_scalar_type_)
            if kind == "vec_t":
                return polyloom.types.vector(of._shape_[0], scalar)
            if kind == "mat_t":
                return polyloom.types.matrix(of._shape_, scalar)
            return polyloom.types.quaternion(scalar) if kind == "quat_t" else polyloom.types.transformation(scalar)
        return self._named(of.__name__, of) if getattr(warp, of.__name__, None) is of else _Proxy(self, of)

    def array_type(self, of: Any) -> Any:
        """The counterpart of an array annotation."""
        is_array = types.matches_array_class(of, warp.array)
        if not is_array and types.matches_array_class(of, warp.indexedarray):
            return polyloom.indexedarray(dtype=self.type(of.dtype), ndim=of.ndim)
        if not is_array:
            kind = getattr(of, "_concrete_cls", type(of)).__name__
            raise Untranslatable(f"no `{kind}`")
        return polyloom.array(dtype=self.type(of.dtype), ndim=of.ndim)

    def struct(self, of: Any) -> Any:
        """The counterpart of a struct."""
        known = self._known.get(id(of))
        if known is None:
            if not hasattr(polyloom, "struct"):
                raise Untranslatable("no `struct`")
            names = {"__annotations__": {name: self.type(var.type) for name, var in of.vars.items()}}
            names["__module__"] = of.cls.__module__
            made = polyloom.struct(type(of.cls.__name__, (), names))
            known = self._known[id(of)] = (of, made)
        return known[1]

    def _function(self, of: Any) -> Any:
        if of.is_builtin():
            return self._named(of.key, of)
        if id(of) in self._open:
            raise Untranslatable(f"`{of.key}` calls itself")
        self._open[id(of)] = None
        try:
            overloads = [*of.user_templates.values(), *of.user_overloads.values()] or [of]
            # Instances of a generic function are no overloads of their own.
            functions = {overload.func: overload.adj for overload in overloads if overload.func is not None}
            made = None
            for function, adj in functions.items():
                before, made = made, self._define(_native.Function, function, adj)
                if before is not None:
                    made.add_overloads_of(before)
                self._open[id(of)] = made
            return made
        finally:
            del self._open[id(of)]

    def _define(self, make: Any, function: Any, adj: Any, arguments: str | None = None) -> Any:
        # Not the tree of `adj`, in which values have taken the place of `static(…)`.
        names = _names_in(ast.parse(textwrap.dedent(adj.source)))
        cells = _annotated(function, adj)
        closure = {**codegen.get_closure_vars(function), **function.__dict__.get("_closure_when_made", {})}
        cells |= {name: value for name, value in closure.items() if name in names}
        # What has been deleted since the function was made is what it was.
        scope = {**function.__dict__.get("_globals_when_made", {}), **function.__globals__}
        scope = {name: value for name, value in scope.items() if name in names}
        is_path = scope.get("warp") is warp and "warp.tests" in adj.source
        cells, scope = self._scope(cells), self._scope(scope)
        if is_path or "warp._src" in adj.source:  # what Warp itself generates, or what is in another of its modules
            scope["warp"] = _ModuleProxy(self, warp)
        if function.__name__ != "<lambda>":
            try:
                unit, line = _kernel._unit_of(function), function.__code__.co_firstlineno
                return self._made(make, unit, line, function, scope, cells, arguments)
            except (OSError, RuntimeError):  # the text is no longer in its file
                pass
        scope["Any"] = typing.Any
        unit = _native.SourceUnit(adj.filename, _generic(adj.source))
        return self._made(make, unit, 1, function, scope, cells, arguments)

    def _made(self, make: Any, unit: Any, line: int, function: Any, *rest: Any) -> Any:
        start = time.perf_counter()
        try:
            return make(unit, line, function, *rest)
        finally:
            self.seconds += time.perf_counter() - start

    def _scope(self, of: dict[str, Any]) -> dict[str, Any]:
        return {name: self.value(value) for name, value in of.items()}


def _generic(text: str) -> str:
    """The text of a function, with `Any` as the type of parameters that have none, as Warp takes lambdas."""
    tree = ast.parse(textwrap.dedent(text))
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or all(a.annotation for a in definition.args.args):
        return text
    for argument in definition.args.args:
        argument.annotation = argument.annotation or ast.Name("Any")
    return ast.unparse(tree)


def _names_in(tree: Any) -> set[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    # Annotations may be text.
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isprintable():
            try:
                names |= {n.id for n in ast.walk(ast.parse(node.value, mode="eval")) if isinstance(n, ast.Name)}
            except SyntaxError:
                continue
    return names


def _annotated(function: Any, adj: Any) -> dict[str, Any]:
    """Names that annotations alone use: locals of the function around the definition, which no closure keeps."""
    found: dict[str, Any] = {}
    scope = function.__globals__

    def match(node: Any, value: Any) -> None:
        if isinstance(node, ast.Name):
            # Text is what `from __future__ import annotations` leaves: its names are looked up as others are.
            if not isinstance(value, str):
                found[node.id] = value
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if not isinstance(scope.get(node.value.id), python_types.ModuleType):
                holder = found.setdefault(node.value.id, python_types.SimpleNamespace())
                setattr(holder, node.attr, value)
        elif isinstance(node, ast.Subscript) and types.is_array(value):
            match(node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice, value.dtype)
        elif isinstance(node, ast.Call) and types.is_array(value):
            for argument in [*node.args[:1], *(k.value for k in node.keywords if k.arg == "dtype")]:
                match(argument, value.dtype)

    definition = ast.parse(textwrap.dedent(adj.source)).body[0]
    assert isinstance(definition, ast.FunctionDef)
    arguments = definition.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        if argument.annotation is not None and argument.arg in function.__annotations__:
            match(argument.annotation, function.__annotations__[argument.arg])
    if definition.returns is not None and "return" in function.__annotations__:
        match(definition.returns, function.__annotations__["return"])
    return {name: value for name, value in found.items() if scope.get(name) is not value and name not in _BUILTIN}


_BUILTIN = {"float", "int", "bool", "str", "tuple"}
