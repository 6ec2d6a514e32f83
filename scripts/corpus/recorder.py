"""Runs a module of Warp's under Warp and records the kernels it makes and the launches it does.

A launch is kept as the values of its arguments before and of its arrays after. Gradients are not computed, so that
Warp compiles less: `Tape.backward` does nothing, and tests go on where assertions fail.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import inspect
import math
import runpy
import sys
import unittest
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp
from warp._src import codegen, context, types

# Kept per kernel or instance of a generic kernel.
MAX_LAUNCHES = 3
# Arrays of one launch, together.
MAX_BYTES = 64 << 20


class NotRecorded(Exception):
    """Why a launch cannot be replayed."""


@dataclass
class FrozenMemory:
    """Memory that arrays of a launch share, before and after it."""

    start: int
    before: np.ndarray
    after: np.ndarray | None = None


@dataclass
class FrozenArray:
    """An array of a launch."""

    dtype: Any
    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    # What NumPy takes its elements for; their components are further axes.
    element: np.dtype
    inner: tuple[int, ...]
    memory: FrozenMemory | None = None

    def view(self, memory: np.ndarray) -> np.ndarray:
        """The array in a copy of its memory."""
        assert self.memory is not None
        within = tuple(self.element.itemsize * math.prod(self.inner[axis + 1 :]) for axis in range(len(self.inner)))
        offset = self.ptr - self.memory.start
        return np.ndarray(self.shape + self.inner, self.element, memory.data, offset, self.strides + within)


@dataclass
class FrozenStruct:
    cls: Any
    fields: dict[str, Any]


@dataclass
class FrozenComposite:
    cls: Any
    values: np.ndarray


@dataclass
class FrozenIndexed:
    """An indexed array of a launch."""

    data: FrozenArray
    indices: list[FrozenArray | None]


@dataclass
class LaunchRecord:
    dim: tuple[int, ...]
    args: list[Any]
    arrays: list[FrozenArray]
    memories: list[FrozenMemory]


@dataclass
class Unit:
    """A kernel, or an instance of a generic one."""

    kernel: Any
    launches: list[LaunchRecord] = field(default_factory=list)
    n_launches: int = 0
    not_recorded: str | None = None
    error: str | None = None


def _keep_closure(function: Any) -> None:
    """Keeps what a function's closure holds now, and the globals it names: the program goes on to change them."""
    if inspect.isfunction(function):
        with contextlib.suppress(Exception):
            function.__dict__.setdefault("_closure_when_made", dict(codegen.get_closure_vars(function)))
            scope = function.__globals__
            named = {name: scope[name] for name in function.__code__.co_names if name in scope}
            function.__dict__.setdefault("_globals_when_made", named)


class Recorder:
    """Kernels and launches of this process, from the time it is installed."""

    def __init__(self) -> None:
        self.units: dict[Any, Unit] = {}
        self._launch = context.launch

    def install(self) -> None:
        make = context.Kernel.__init__

        @functools.wraps(make)
        def made(kernel: Any, *args: Any, **keywords: Any) -> None:
            make(kernel, *args, **keywords)
            _keep_closure(kernel.func)
            self.units[id(kernel)] = Unit(kernel)

        make_function = context.Function.__init__

        @functools.wraps(make_function)
        def made_function(function: Any, *args: Any, **keywords: Any) -> None:
            make_function(function, *args, **keywords)
            _keep_closure(getattr(function, "func", None))

        context.Kernel.__init__ = made
        context.Function.__init__ = made_function
        context.launch = wp.launch = self.launch
        wp.clear_kernel_cache = context.clear_kernel_cache = lambda *_, **__: None
        wp.Tape.backward = lambda *_, **__: None

    def launch(self, kernel: Any, dim: Any, inputs: Any = (), outputs: Any = (), *args: Any, **keywords: Any) -> Any:
        given = [*inputs, *outputs]
        record = None
        reason = None
        if isinstance(kernel, context.Kernel) and not (keywords.get("adjoint") or keywords.get("record_cmd")):
            try:
                record = self._before(kernel, dim, given)
            except NotRecorded as error:
                reason = str(error)
            except Exception as error:  # what cannot be seen as arguments is Warp's to reject
                reason = f"arguments not understood: {type(error).__name__}"
        try:
            result = self._launch(kernel, dim, inputs, outputs, *args, **keywords)
        except Exception as error:
            if isinstance(kernel, context.Kernel):
                unit = self._unit(kernel, given)
                if unit is not None and not unit.n_launches:
                    unit.error = f"{type(error).__name__}: {error}"
            raise
        if not isinstance(kernel, context.Kernel) or keywords.get("adjoint"):
            return result
        unit = self._unit(kernel, given)
        if unit is None:
            return result
        unit.n_launches += 1
        unit.error = None
        if reason is not None:
            unit.not_recorded = reason
        if record is not None and len(unit.launches) < MAX_LAUNCHES:
            for memory in record.memories:
                memory.after = _bytes(memory.start, len(memory.before))
            unit.launches.append(record)
        return result

    def _unit(self, kernel: Any, args: list[Any]) -> Unit | None:
        if kernel.is_generic:
            try:
                kernel = kernel.get_overload(kernel.infer_argument_types(args))
            except Exception:
                return None
            if kernel is None:
                return None
        return self.units.setdefault(id(kernel), Unit(kernel))

    def _before(self, kernel: Any, dim: Any, args: list[Any]) -> LaunchRecord | None:
        unit = self._unit(kernel, args)
        if unit is not None and len(unit.launches) >= MAX_LAUNCHES:
            return None
        shape = (dim,) if isinstance(dim, (int, np.integer)) else tuple(int(extent) for extent in dim)
        if context.runtime._apic_capture is not None:
            raise NotRecorded("the launch is captured, not run")
        arrays: list[FrozenArray] = []
        frozen = [self._freeze(arg, arrays) for arg in args]
        return LaunchRecord(shape, frozen, arrays, _memories(arrays))

    def _freeze(self, value: Any, arrays: list[FrozenArray]) -> Any:
        if isinstance(value, wp.array):
            if type(value).__ctype__ is not wp.array.__ctype__:
                raise NotRecorded("an array that Warp is told to find elsewhere")
            arrays.append(_array(value))
            return arrays[-1]
        if isinstance(value, wp.indexedarray):
            return FrozenIndexed(
                self._freeze(value.data, arrays), [self._freeze(i, arrays) for i in value.indices[: value.ndim]]
            )
        if isinstance(value, (wp.fabricarray, wp.indexedfabricarray)):
            raise NotRecorded(f"an argument is of type {type(value).__name__}")
        if isinstance(value, codegen.StructInstance):
            fields = {name: self._freeze(getattr(value, name), arrays) for name in value._cls.vars}
            return FrozenStruct(value._cls, fields)
        if isinstance(value, np.ndarray):
            return value.copy()
        if hasattr(type(value), "_wp_generic_type_str_"):
            return FrozenComposite(type(value), np.array(value))
        if isinstance(value, types.scalar_base):
            return value.value
        if value is None or isinstance(value, (bool, int, float, str, np.generic)):
            return value
        if isinstance(value, (tuple, list)):
            return [self._freeze(item, arrays) for item in value]
        raise NotRecorded(f"an argument is of type {type(value).__name__}")

    def all_units(self) -> list[Unit]:
        """Kernels that are not generic, and instances of those that are."""
        found = dict(self.units)
        for unit in list(self.units.values()):
            for overload in unit.kernel.overloads.values():
                found.setdefault(id(overload), Unit(overload))
        return [unit for unit in found.values() if not unit.kernel.is_generic]


def _array(value: Any) -> FrozenArray:
    dtype = value.dtype
    inner: tuple[int, ...] = ()
    if isinstance(dtype, codegen.Struct):
        if _holds_arrays(dtype):
            raise NotRecorded("an array of structs that hold arrays")
        element = np.dtype(dtype.numpy_dtype())
    else:
        inner = getattr(dtype, "_shape_", ())
        element = np.dtype(types.type_typestr(getattr(dtype, "_wp_scalar_type_", dtype)))
    return FrozenArray(dtype, value.ptr or 0, value.shape, value.strides, element, inner)


def _memories(arrays: list[FrozenArray]) -> list[FrozenMemory]:
    """The pieces of memory that the arrays lie in; arrays that overlap share one."""
    pieces: list[tuple[int, int, list[FrozenArray]]] = []
    for array in arrays:
        size = array.element.itemsize * math.prod(array.inner)
        if any(stride < 0 for stride in array.strides):
            raise NotRecorded("negative strides")
        reach = sum(stride * (extent - 1) for stride, extent in zip(array.strides, array.shape, strict=True))
        end = array.ptr + reach + size if math.prod(array.shape) else array.ptr
        pieces.append((array.ptr, end, [array]))
    pieces.sort(key=lambda piece: piece[:2])
    joined: list[tuple[int, int, list[FrozenArray]]] = []
    for start, end, held in pieces:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]), joined[-1][2] + held)
        else:
            joined.append((start, end, held))
    if sum(end - start for start, end, _ in joined) > MAX_BYTES:
        raise NotRecorded("arrays larger than the limit")
    made = []
    for start, end, held in joined:
        made.append(FrozenMemory(start, _bytes(start, end - start)))
        for array in held:
            array.memory = made[-1]
    return made


def _bytes(start: int, n: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_char * n).from_address(start), np.uint8).copy() if n else np.zeros(0, np.uint8)


def _holds_arrays(struct: Any) -> bool:
    kinds = [var.type for var in struct.vars.values()]
    return any(types.is_array(kind) or isinstance(kind, codegen.Struct) and _holds_arrays(kind) for kind in kinds)


class TimeLimit(BaseException):
    """Raised by the alarm."""


def run_module(name: str, is_example: bool) -> str | None:
    """Runs a module of tests, or an example; what stopped it, if something did."""
    try:
        if is_example:
            _run_example(name)
        else:
            _run_tests(name)
    except TimeLimit:
        return "time limit"
    except BaseException as error:  # an example may exit
        return None if isinstance(error, SystemExit) and not error.code else f"{type(error).__name__}: {error}"
    return None


def _run_tests(name: str) -> None:
    module = importlib.import_module(name)
    _forgive(unittest.TestCase)
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromModule(module)
    for test in _flat(suite):
        result = unittest.TestResult()
        with contextlib.suppress(unittest.SkipTest):
            test.run(result)


def _flat(suite: Any) -> list[Any]:
    return [test for item in suite for test in (_flat(item) if isinstance(item, unittest.TestSuite) else [item])]


def _forgive(case: type) -> None:
    """Makes assertions about values do nothing, so that the launches after them take place."""
    for name in dir(case):
        if name.startswith("assert") and not name.startswith(
            ("assertRaises", "assertWarns", "assertLogs", "assertNoLogs")
        ):
            setattr(case, name, lambda *_, **__: None)
    for name in dir(np.testing):
        if name.startswith("assert_") and name not in ("assert_raises", "assert_raises_regex", "assert_warns"):
            with contextlib.suppress(AttributeError):
                setattr(np.testing, name, lambda *_, **__: None)


# What examples may take on their command line, of which each gets what it knows.
_EXAMPLE_OPTIONS = {
    "--headless": [],
    "--device": ["cpu"],
    "--num-frames": ["2"],
    "--num-steps": ["2"],
    "--train-iters": ["2"],
    "--stage-path": ["None"],
}


def _run_example(name: str) -> None:
    text = inspect.getsource(sys.modules[name]) if name in sys.modules else _text_of(name)
    argv = [name]
    for option, values in _EXAMPLE_OPTIONS.items():
        if f'"{option}"' in text:
            argv += [option, *values]
    sys.argv = argv
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _text_of(name: str) -> str:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    with open(spec.origin) as file:
        return file.read()
