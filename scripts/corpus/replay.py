"""Compiles recorded kernels with Polyloom, repeats their launches and compares what they wrote."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polyloom

from corpus import inputs
from corpus.recorder import FrozenArray, FrozenComposite, FrozenIndexed, FrozenStruct, LaunchRecord, Unit
from corpus.translate import Translator, Untranslatable

# Largest difference that counts as the same result, as a share of the largest number of the array. Warp takes its
# mathematical functions from the C library.
TOLERANCES = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 2e-5, "float64": 1e-12}


class Outcome(dict[str, Any]):
    """What became of a unit: its `stage` is `compile`, `launch`, `check`, `differ`, `agree` or `compiled`."""


def replay(translator: Translator, unit: Unit, note: Callable[[Outcome], None]) -> Outcome:
    """Compiles the unit's kernel and repeats its launches.

    `note` takes what the outcome is if nothing more comes of it: generated arguments may make a kernel run forever.
    """
    polyloom.config.check = True
    try:
        kernel = translator.kernel(unit.kernel)
        kernel.compile()
    except Exception as error:
        return _failure("compile", error)
    if unit.launches:
        return _compare(translator, kernel, unit, unit.launches)
    note(Outcome(stage="compiled", reason="it does not end with the generated arguments", pending=True))
    return _with_generated(translator, kernel, unit)


def _with_generated(translator: Translator, kernel: Any, unit: Unit) -> Outcome:
    """The outcome for a kernel that is launched nowhere: with generated arguments, if checks find nothing wrong."""
    try:
        record = inputs.generate(unit.kernel)
        args, _ = _arguments(translator, record)
        polyloom.launch(kernel, record.dim, args)
    except inputs.NoInputs as error:
        return Outcome(stage="compiled", reason=str(error))
    except polyloom.LaunchError:
        return Outcome(stage="compiled", reason="the generated arguments are out of its bounds")
    except polyloom.CompileError as error:
        return _failure("compile", error)
    except Exception as error:
        return Outcome(stage="compiled", reason=f"no launch: {type(error).__name__}: {error}")
    try:
        inputs.run_warp(unit.kernel, record)
    except Exception as error:
        return Outcome(stage="compiled", reason=f"Warp does not launch it: {type(error).__name__}")
    return Outcome(_compare(translator, kernel, unit, [record]), generated=True)


def _arguments(translator: Translator, record: LaunchRecord) -> tuple[list[Any], dict[int, np.ndarray]]:
    memories = {id(memory): memory.before.copy() for memory in record.memories}
    return [_thaw(translator, arg, memories) for arg in record.args], memories


def _compare(translator: Translator, kernel: Any, unit: Unit, records: list[LaunchRecord]) -> Outcome:
    """The outcome of launches whose results are known."""
    n_compared = 0
    worst = 0.0
    for record in records:
        try:
            args, memories = _arguments(translator, record)
            polyloom.launch(kernel, record.dim, args)
        except polyloom.CompileError as error:
            return _failure("compile", error)
        except polyloom.LaunchError as error:
            if str(error).startswith("assertion failed") and polyloom.config.check:
                # Warp looks at assertions in its debug mode alone.
                polyloom.config.check = False
                translator = Translator()
                return _compare(translator, translator.kernel(unit.kernel), unit, records)
            return _failure("check", error)
        except Exception as error:
            return _failure("launch", error)
        for frozen in record.arrays:
            assert frozen.memory is not None and frozen.memory.after is not None
            expected, got = frozen.view(frozen.memory.after), frozen.view(memories[id(frozen.memory)])
            difference, agrees = _difference(expected, got, frozen)
            if not agrees:
                return Outcome(stage="differ", reason=_described(expected, got), difference=difference)
            worst = max(worst, difference)
            n_compared += 1
    if not records:
        return Outcome(stage="compiled")
    return Outcome(stage="agree", exact=worst == 0, compared=n_compared)


def _failure(stage: str, error: Exception) -> Outcome:
    if isinstance(error, polyloom.CompileError):
        found = [d for d in error.diagnostics if d.severity == "error"]
        if found:
            line = found[0].line
            reasons = [(d.code, d.message, d.help or "") for d in found]
            return Outcome(stage="compile", code=found[0].code, reason=found[0].message, all=reasons, line=line)
    code = "" if isinstance(error, Untranslatable) else type(error).__name__
    return Outcome(stage=stage, code=code, reason=str(error).splitlines()[0] if str(error) else "")


def _thaw(translator: Translator, value: Any, memories: dict[int, np.ndarray]) -> Any:
    if isinstance(value, FrozenArray):
        dtype = translator.type(value.dtype)
        view = value.view(memories[id(value.memory)])
        scalar = getattr(dtype, "_wp_scalar_type_", dtype)
        storage = dtype.numpy_dtype() if hasattr(dtype, "numpy_dtype") else scalar.numpy
        if storage != view.dtype and storage.itemsize == view.dtype.itemsize:
            view = view.view(storage)
        return polyloom.array(view, dtype=dtype, copy=False)
    if isinstance(value, FrozenIndexed):
        data, *indices = (_thaw(translator, part, memories) for part in (value.data, *value.indices))
        return polyloom.indexedarray(data, indices)
    if isinstance(value, FrozenStruct):
        made = translator.struct(value.cls)()
        for name, part in value.fields.items():
            if part is not None:
                setattr(made, name, _thaw(translator, part, memories))
        return made
    if isinstance(value, FrozenComposite):
        return translator.type(value.cls)(value.values)
    if isinstance(value, list):
        return [_thaw(translator, item, memories) for item in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def _fields(values: np.ndarray) -> list[np.ndarray]:
    """The arrays of numbers that an array, perhaps of structs, consists of."""
    if values.dtype.names is None:
        return [values]
    return [part for name in values.dtype.names for part in _fields(values[name])]


def _is_same(expected: np.ndarray, got: np.ndarray) -> np.ndarray:
    same: np.ndarray = (expected == got) | ((expected != expected) & (got != got))
    return same


def _numbers(values: np.ndarray, frozen: FrozenArray) -> np.ndarray:
    """Values that NumPy can subtract: Warp's NumPy type of bfloat16 is that of its bits."""
    if _scalar_name(frozen) == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def _scalar_name(frozen: FrozenArray) -> str:
    return str(getattr(getattr(frozen.dtype, "_wp_scalar_type_", frozen.dtype), "__name__", ""))


def _difference(expected: np.ndarray, got: np.ndarray, frozen: FrozenArray) -> tuple[float, bool]:
    """The largest difference, 0 for the same bits but for zeros' and NaNs', and whether it counts as none."""
    worst, agrees = 0.0, True
    for a, b in zip(_fields(expected), _fields(got), strict=True):
        tolerance = TOLERANCES.get(_scalar_name(frozen)) or TOLERANCES.get(str(a.dtype), 0.0)
        a, b = _numbers(a, frozen), _numbers(b, frozen)
        same = _is_same(a, b)
        if same.all():
            continue
        finite = np.isfinite(a)
        if not (same | finite).all() or not np.isfinite(b[finite]).all():
            return math.inf, False
        scale = max(1.0, float(np.abs(a[finite]).max(initial=0.0)))
        difference = float(np.abs(a.astype(float) - b.astype(float))[finite].max(initial=0.0)) / scale
        worst = max(worst, difference)
        agrees = agrees and difference <= tolerance
    return worst, agrees


def _described(expected: np.ndarray, got: np.ndarray) -> str:
    for a, b in zip(_fields(expected), _fields(got), strict=True):
        wrong = ~_is_same(a, b)
        if wrong.any():
            where = np.argwhere(wrong)[0]
            pair = f"{b[tuple(where)]} for {a[tuple(where)]}"
            return f"{int(wrong.sum())} of {wrong.size} numbers differ, the first at {where.tolist()}: {pair}"
    return "too large a difference"
