"""Arguments for kernels that Warp's tests and examples make but do not launch: small numbers of the right types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import warp as wp
from warp._src import codegen, context, types

from corpus.recorder import FrozenArray, FrozenComposite, FrozenMemory, FrozenStruct, LaunchRecord

# Extents of arrays of 1 to 4 dimensions, and of the grid, which is smaller: threads look at their neighbours.
_EXTENTS = {1: (64,), 2: (16, 16), 3: (8, 8, 8), 4: (6, 6, 6, 6)}
_GRID = 4


class NoInputs(Exception):
    """Why there are no arguments for a kernel."""


def generate(kernel: Any) -> LaunchRecord:
    """A launch of a kernel that is not generic."""
    rng = np.random.default_rng(1)
    record = LaunchRecord((_GRID,) * max(1, kernel.adj.kernel_dim or 1), [], [], [])
    record.args = [_value(kind, record, rng) for kind in kernel.adj.arg_types.values()]
    return record


def _value(kind: Any, record: LaunchRecord, rng: Any) -> Any:
    if types.is_array(kind):
        return _array(kind, record, rng)
    if isinstance(kind, codegen.Struct):
        return FrozenStruct(kind, {name: _value(var.type, record, rng) for name, var in kind.vars.items()})
    shape = getattr(kind, "_shape_", None)
    if shape is not None and hasattr(kind, "_wp_scalar_type_"):
        return FrozenComposite(kind, _numbers(kind, kind._wp_scalar_type_, shape, rng))
    if kind is bool or kind is types.bool:
        return True
    if kind in (int, float) or kind in types.scalar_types:
        return 0.5 if kind is float or kind in types.float_types else 2
    raise NoInputs(f"a parameter is of type {getattr(kind, '__name__', kind)}")


def _array(kind: Any, record: LaunchRecord, rng: Any) -> FrozenArray:
    dtype = kind.dtype
    if not types.matches_array_class(kind, wp.array) or isinstance(dtype, codegen.Struct) or kind.ndim > 4:
        raise NoInputs("a parameter is an array of structs, or of another kind")
    scalar, inner = getattr(dtype, "_wp_scalar_type_", dtype), getattr(dtype, "_shape_", ())
    element = np.dtype(types.type_typestr(scalar))
    extents = _EXTENTS[kind.ndim]
    values = _numbers(dtype, scalar, extents + inner, rng)
    if scalar is wp.bfloat16:
        values = (values.view(np.uint32) >> 16).astype(np.uint16)
    memory = FrozenMemory(0, np.ascontiguousarray(values).view(np.uint8).reshape(-1))
    size = element.itemsize * math.prod(inner)
    strides = tuple(size * math.prod(extents[axis + 1 :]) for axis in range(kind.ndim))
    record.memories.append(memory)
    record.arrays.append(FrozenArray(dtype, 0, extents, strides, element, inner, memory))
    return record.arrays[-1]


def _numbers(dtype: Any, scalar: Any, shape: tuple[int, ...], rng: Any) -> np.ndarray:
    if scalar in (bool, types.bool):
        return rng.integers(0, 2, shape).astype(np.bool_)
    if scalar is int or scalar in types.int_types:
        return rng.integers(0, 4, shape).astype(np.dtype(types.type_typestr(scalar)))
    values = rng.uniform(0.25, 1.75, shape)
    kind = getattr(dtype, "_wp_generic_type_str_", "")
    if kind == "quat_t":
        values /= np.linalg.norm(values, axis=-1, keepdims=True)
    elif kind == "transform_t":
        values[..., 3:] /= np.linalg.norm(values[..., 3:], axis=-1, keepdims=True)
    name = "float32" if scalar in (float, wp.bfloat16) else scalar.__name__
    return values.astype(name)


_n_modules = 0


def run_warp(kernel: Any, record: LaunchRecord) -> None:
    """Launches a kernel under Warp, alone in a module, and keeps what the arrays hold after it."""
    global _n_modules
    _n_modules += 1
    module = context.Module(f"generated_{_n_modules}", None)
    made = context.Kernel(kernel.func, key=kernel.key, module=module, source=kernel.adj.source)
    if kernel.generic_parent is not None:
        made = made.add_overload(list(kernel.adj.arg_types.values()))
    held: dict[int, Any] = {}
    wp.launch(made, record.dim, [_thaw(arg, held) for arg in record.args], device="cpu")
    for frozen in record.arrays:
        assert frozen.memory is not None
        frozen.memory.after = np.ascontiguousarray(held[id(frozen)].numpy()).view(np.uint8).reshape(-1).copy()


def _thaw(value: Any, held: dict[int, Any]) -> Any:
    if isinstance(value, FrozenArray):
        assert value.memory is not None
        held[id(value)] = wp.array(value.view(value.memory.before.copy()), dtype=value.dtype, device="cpu")
        return held[id(value)]
    if isinstance(value, FrozenStruct):
        made = value.cls()
        for name, part in value.fields.items():
            setattr(made, name, _thaw(part, held))
        return made
    if isinstance(value, FrozenComposite):
        return value.cls(*value.values.ravel().tolist())
    return value
