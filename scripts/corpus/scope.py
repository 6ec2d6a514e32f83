"""Which kernels are core kernels, by what they call and by the types of their parameters."""

from __future__ import annotations

import ast
from typing import Any

import warp as wp
from warp._src import codegen, context, types

# Groups of builtins that are no part of the core, and what the report calls them.
GROUPS = {
    "Tile Primitives": "tiles",
    "Geometry": "meshes, BVHs, hash grids",
    "Volumes": "volumes",
    "Textures": "textures",
}
# Warp's own: those that tests add are native code.
OWN_BUILTINS = set(context.builtin_functions)
# Builtins that operators of kernels stand for.
OPERATORS = {"add", "sub", "mul", "div", "mod", "neg"}
# Builtins of other groups that belong to those.
TILE_BUILTINS = {"dense_chol", "dense_gemm", "dense_subs", "dense_solve", "dense_gemm_batched", "dense_chol_batched"}


def out_of_scope(kernel: Any) -> str | None:
    """Why a kernel is no core kernel; None if it is one."""
    for kind in kernel.adj.arg_types.values():
        reason = _type_reason(kind)
        if reason is not None:
            return reason
    if ".fem" in (kernel.func.__module__ or ""):
        return "FEM"
    if not kernel.uses_warp_entry_point_abi:
        return "native code"
    return _calls_reason(kernel.adj, set())


def called(kernel: Any) -> list[str]:
    """Names of the builtins that a kernel calls, itself or through functions; a function that has an operator's name
    is among them with `def` before it."""
    names: set[str] = set()

    def collect(adj: Any) -> bool:
        for function in _calls(adj):
            if isinstance(function, context.Function) and function.is_builtin():
                names.add(function.key)
        # What is called so is an operator to Warp, wherever the function is defined in the module.
        defined = {name for name in OPERATORS if isinstance(adj.func.__globals__.get(name), context.Function)}
        names.update(f"def {name}" for name in defined)
        return False

    _any_function(kernel.adj, set(), collect)
    return sorted(names)


def uses_gradients(kernel: Any) -> bool:
    """Whether a kernel asks for gradients itself."""
    return _any_function(kernel.adj, set(), _asks_gradients)


def has_custom_gradient(kernel: Any) -> bool:
    """Whether a kernel calls functions whose gradients are written out."""
    return _any_function(kernel.adj, set(), lambda adj: False, _is_custom)


def _type_reason(kind: Any) -> str | None:
    if isinstance(kind, codegen.Struct):
        for var in kind.vars.values():
            reason = _type_reason(var.type)
            if reason is not None:
                return reason
        return None
    if types.matches_array_class(kind, wp.fabricarray) or types.matches_array_class(kind, wp.indexedfabricarray):
        return "Fabric arrays"
    if types.is_array(kind):
        return _type_reason(kind.dtype)
    name = getattr(kind, "__name__", "")
    if name.startswith("Texture"):
        return "textures"
    if name.startswith(("MeshQuery", "HashGrid", "BvhQuery")):
        return GROUPS["Geometry"]
    if types.is_native_type(kind):
        return "native code"
    if types.is_tile(kind):
        return "tiles"
    return None


def _calls(adj: Any) -> list[Any]:
    called = []
    for node in ast.walk(adj.tree):
        if not isinstance(node, ast.Call):
            continue
        try:
            function = codegen.resolve_reference_call_func(adj, node, getattr(adj, "callable_arg_values", None) or {})
        except Exception:
            continue
        called.append(function)
        # Functions that are passed on.
        for argument in node.args:
            if isinstance(argument, ast.Name):
                value = adj.resolve_external_reference(argument.id)
                if isinstance(value, context.Function):
                    called.append(value)
    return called


def _overloads(function: Any) -> list[Any]:
    known = [*getattr(function, "user_overloads", {}).values(), *getattr(function, "user_templates", {}).values()]
    return known or [function]


def _calls_reason(adj: Any, seen: set[int]) -> str | None:
    if id(adj) in seen:
        return None
    seen.add(id(adj))
    for function in _calls(adj):
        name = getattr(function, "__name__", "")
        if isinstance(function, type) and name.startswith("Texture"):
            return "textures"
        if not isinstance(function, context.Function):
            continue
        if function.is_builtin():
            if function.group in GROUPS:
                return GROUPS[function.group]
            if function.key in TILE_BUILTINS:
                return "tiles"
            if function.key not in OWN_BUILTINS:
                return "native code"
            continue
        if function.native_snippet is not None:
            return "native code"
        if ".fem" in (function.func.__module__ or ""):
            return "FEM"
        for overload in _overloads(function):
            if overload.native_snippet is not None:
                return "native code"
            reason = _calls_reason(overload.adj, seen)
            if reason is not None:
                return reason
    return None


def _asks_gradients(adj: Any) -> bool:
    for node in ast.walk(adj.tree):
        if isinstance(node, ast.Attribute) and node.attr in ("grad", "adjoint"):
            value = node.value
            if isinstance(value, ast.Name) and adj.resolve_external_reference(value.id) is wp:
                return True
    return False


def _is_custom(function: Any) -> bool:
    return function.custom_grad_func is not None or function.custom_replay_func is not None


def _any_function(adj: Any, seen: set[int], of_adjoint: Any, of_function: Any = lambda _: False) -> bool:
    if id(adj) in seen:
        return False
    seen.add(id(adj))
    if of_adjoint(adj):
        return True
    for function in _calls(adj):
        if not isinstance(function, context.Function) or function.is_builtin():
            continue
        for overload in _overloads(function):
            if of_function(overload) or _any_function(overload.adj, seen, of_adjoint, of_function):
                return True
    return False


def warp_rejects(kernel: Any) -> str | None:
    """Why Warp itself does not take a kernel, found by generating its code."""
    module = kernel.module
    try:
        options = module.resolve_options(wp.config)
        hasher = context.ModuleHasher([kernel], options)
        context.ModuleBuilder(module, options, hasher, target="cpu").codegen("cpu")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
