"""Compiles recorded kernels with Polyloom, repeats their launches and compares what they wrote."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import polyloom

from corpus.recorder import FrozenArray, FrozenComposite, FrozenStruct, LaunchRecord, Unit
from corpus.translate import Translator, Untranslatable

# Largest difference that counts as the same result, as a share of the largest number of the array. Warp takes its
# mathematical functions from the C library.
TOLERANCES = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 2e-5, "float64": 1e-12}


class Outcome(dict[str, Any]):
    """What became of a unit: its `stage` is `compile`, `launch`, `check`, `differ`, `agree` or `compiled`."""


def replay(translator: Translator, unit: Unit) -> Outcome:
    """Compiles the unit's kernel and repeats its launches."""
    polyloom.config.check = True
    start = time.perf_counter()
    try:
        kernel = translator.kernel(unit.kernel)
        if not _is_generic(kernel):
            kernel.compile()
    except Exception as error:
        return _failure("compile", error)
    outcome = Outcome(stage="compiled", seconds=time.perf_counter() - start)
    n_compared = worst = 0.0
    for record in unit.launches:
        try:
            arrays: dict[int, Any] = {}
            args = [_thaw(translator, arg, arrays) for arg in record.args]
        except Exception as error:
            return _failure("launch", error)
        try:
            polyloom.launch(kernel, record.dim, args)
        except polyloom.CompileError as error:
            return _failure("compile", error)
        except polyloom.LaunchError as error:
            return _failure("check", error)
        except Exception as error:
            return _failure("launch", error)
        for frozen in record.arrays:
            if id(frozen) not in arrays:
                continue
            difference = _difference(frozen, arrays[id(frozen)])
            if difference is None:
                return Outcome(stage="differ", reason=_described(frozen, arrays[id(frozen)]))
            worst = max(worst, difference)
            n_compared += 1
    if unit.launches:
        outcome["stage"] = "agree"
        outcome["exact"] = worst == 0
        outcome["compared"] = n_compared
    return outcome


def _is_generic(kernel: Any) -> bool:
    return bool(getattr(kernel, "is_generic", False))


def _failure(stage: str, error: Exception) -> Outcome:
    if isinstance(error, polyloom.CompileError):
        found = [d for d in error.diagnostics if d.severity == "error"]
        if found:
            line = found[0].line
            reasons = [(d.code, d.message, d.help or "") for d in found]
            return Outcome(stage="compile", code=found[0].code, reason=found[0].message, all=reasons, line=line)
    code = "" if isinstance(error, Untranslatable) else type(error).__name__
    return Outcome(stage=stage, code=code, reason=str(error).splitlines()[0] if str(error) else "")


def _thaw(translator: Translator, value: Any, arrays: dict[int, Any]) -> Any:
    if isinstance(value, FrozenArray):
        if id(value) not in arrays:
            dtype = translator.type(value.dtype)
            arrays[id(value)] = polyloom.array(value.before.copy(), dtype=dtype, copy=False)
        return arrays[id(value)]
    if isinstance(value, FrozenStruct):
        made = translator.struct(value.cls)()
        for name, part in value.fields.items():
            if part is not None:
                setattr(made, name, _thaw(translator, part, arrays))
        return made
    if isinstance(value, FrozenComposite):
        return translator.type(value.cls)(value.values)
    if isinstance(value, list):
        return [_thaw(translator, item, arrays) for item in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def _fields(values: np.ndarray) -> list[np.ndarray]:
    """The arrays of numbers that an array, perhaps of structs, consists of."""
    if values.dtype.names is None:
        return [values]
    return [part for name in values.dtype.names for part in _fields(values[name])]


def _pairs(frozen: FrozenArray, ours: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    assert frozen.after is not None
    expected, got = _fields(frozen.after), _fields(np.asarray(ours.numpy()))
    return [(a, b.reshape(a.shape)) for a, b in zip(expected, got, strict=True)]


def _difference(frozen: FrozenArray, ours: Any) -> float | None:
    """The largest difference, 0 for the same bits but for zeros' and NaNs'; None if it is too large."""
    worst = 0.0
    for expected, got in _pairs(frozen, ours):
        if expected.dtype != got.dtype and expected.dtype.itemsize == got.dtype.itemsize:
            got = got.view(expected.dtype)
        if expected.dtype.kind in "fV":
            expected, got = expected.astype(np.float64), got.astype(np.float64)
        same = (expected == got) | ((expected != expected) & (got != got))
        if same.all():
            continue
        tolerance = TOLERANCES.get(str(ours.dtype).rsplit(".", 1)[-1]) or TOLERANCES.get(str(frozen.before.dtype))
        if tolerance is None or expected.dtype.kind not in "f":
            return None
        finite = np.isfinite(expected)
        if not (same | finite).all() or not np.isfinite(got[finite]).all():
            return None
        scale = max(1.0, float(np.abs(expected[finite]).max(initial=0.0)))
        difference = float(np.abs(expected - got)[finite].max(initial=0.0)) / scale
        if difference > tolerance:
            return None
        worst = max(worst, difference)
    return worst


def _described(frozen: FrozenArray, ours: Any) -> str:
    for expected, got in _pairs(frozen, ours):
        wrong = ~((expected == got) | ((expected != expected) & (got != got)))
        if wrong.any():
            where = np.argwhere(wrong)[0]
            pair = f"{got[tuple(where)]} for {expected[tuple(where)]}"
            return f"{int(wrong.sum())} of {wrong.size} numbers differ, the first at {where.tolist()}: {pair}"
    return "too large a difference"


def same_inputs(record: LaunchRecord) -> bool:
    """Whether a launch wrote nothing."""
    return all(a.after is not None and np.array_equal(a.before, a.after) for a in record.arrays)
