"""Runs a program as a kernel and by CPython, and says what differs."""

from __future__ import annotations

import ast
import copy
import dataclasses
import itertools
import linecache
import random
import warnings
from typing import Any

import numpy as np
import polyloom as loom

from . import model, rewrite
from .generate import ARRAYS, FLOATS, N_LOG, N_OUTPUTS, STRUCTS, Program

_files = itertools.count(1)


@dataclasses.dataclass
class Difference:
    """What a program computes otherwise as a kernel than CPython does."""

    program: Program
    reason: str

    def __str__(self) -> str:
        return f"program {self.program.seed}: {self.reason}\n\n{self.program.source}"


def first_difference(program: Program) -> Difference | None:
    """Runs the program both ways on one set of inputs; gives what differs first, if anything does."""
    inputs = _inputs(program)
    expected = _by_python(program, copy.deepcopy(inputs))
    try:
        found = _by_polyloom(program, inputs)
    except (loom.CompileError, loom.LaunchError) as error:
        return Difference(program, f"{type(error).__name__}: {error}")
    for name, wanted in expected.items():
        got = found[name]
        places = np.flatnonzero([_bits(a) != _bits(b) for a, b in zip(got.flat, wanted.flat, strict=True)])
        if len(places):
            at = places[0]
            return Difference(program, f"{name} at {at} is {got.flat[at]!r}, by CPython {wanted.flat[at]!r}")
    return None


def _bits(value: Any) -> Any:
    """What two results are compared by: one NaN is as good as another."""
    return "nan" if value != value else value.tobytes()


# ---- inputs ---------------------------------------------------------------------------------------------------------


def _inputs(program: Program) -> dict[str, Any]:
    """Arguments by name: flat lists of numbers for arrays (of structs, of dictionaries), numbers for scalars."""
    draw = random.Random(program.seed ^ 0x5EED)
    values: dict[str, Any] = {}
    for name, (element, shape) in ARRAYS.items():
        values[name] = [_element(draw, element) for _ in range(int(np.prod(shape)))]
    for name, scalar in program.scalars.items():
        values[name] = _number(draw, scalar, extreme=0.5)
    return values


def _number(draw: random.Random, scalar: str, extreme: float = 0.1) -> Any:
    t = model.SCALAR_TYPES[scalar]
    if scalar in FLOATS:
        return t.numpy.type(draw.choice((draw.uniform(-8, 8), draw.randint(-4, 4), 0.0, -0.0)))
    if draw.random() < extreme:
        low, high = t.lowest, t.highest
        return draw.choice(
            (low, low + 1, high, high - 1, t.wrapped(1 << 31), t.wrapped(1 << 32), t.wrapped((1 << 32) + 1))
        )
    return draw.randint(max(t.lowest, -9), min(t.highest, 9))


def _element(draw: random.Random, element: str) -> Any:
    if element in STRUCTS:
        return {name: _element(draw, field) for name, field in STRUCTS[element].items()}
    if element in model.COMPOSITE_TYPES:
        t = model.COMPOSITE_TYPES[element]
        return [_number(draw, t.scalar.name) for _ in range(t.size)]
    return _number(draw, element)


# ---- by CPython -----------------------------------------------------------------------------------------------------


def _by_python(program: Program, inputs: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    names = rewrite.load(program.source)
    arrays = {name: _model_array(names, element, shape, inputs[name]) for name, (element, shape) in ARRAYS.items()}
    outputs = {
        "log": model.Array(model.INT32, np.zeros(N_LOG + 1, np.int32)),
        "oi": model.Array(model.SCALAR_TYPES["int64"], np.zeros(N_OUTPUTS, np.int64)),
        "of": model.Array(model.SCALAR_TYPES["float64"], np.zeros(N_OUTPUTS)),
    }
    scalars = {name: model.SCALAR_TYPES[t](inputs[name]) for name, t in program.scalars.items()}
    names["k"](**arrays, **outputs, **scalars)
    results = {name: array.data for name, array in outputs.items()}
    for name, array in arrays.items():
        results[name] = _flat_structs(array.data) if ARRAYS[name][0] in STRUCTS else array.data.reshape(-1)
    return results


def _model_array(names: dict[str, Any], element: str, shape: tuple[int, ...], values: list[Any]) -> model.Array:
    if element in STRUCTS:
        data = np.empty(shape, object)
        data[...] = np.array([_model_struct(names, element, value) for value in values], object).reshape(shape)
        return model.Array(names[element], data)
    if element in model.COMPOSITE_TYPES:
        t = model.COMPOSITE_TYPES[element]
        return model.Array(t, np.array(values, t.scalar.numpy).reshape(*shape, *t.shape))
    scalar = model.SCALAR_TYPES[element]
    return model.Array(scalar, np.array(values, scalar.numpy).reshape(shape))


def _model_struct(names: dict[str, Any], struct: str, value: dict[str, Any]) -> Any:
    fields = {}
    for name, field in STRUCTS[struct].items():
        if field in STRUCTS:
            fields[name] = _model_struct(names, field, value[name])
        elif field in model.COMPOSITE_TYPES:
            fields[name] = model.COMPOSITE_TYPES[field](*value[name])
        else:
            fields[name] = model.SCALAR_TYPES[field](value[name])
    return names[struct](**fields)


def _flat_structs(structs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    numbers: list[Any] = []

    def collect(value: Any) -> None:
        if isinstance(value, model.Struct):
            for name in value.type.fields:
                collect(getattr(value, name))
        elif isinstance(value, model.Composite):
            numbers.extend(value.data.flat)
        else:
            numbers.append(value.raw)

    for struct in structs.flat:
        collect(struct)
    return np.array(numbers, np.float64)


# ---- by Polyloom ----------------------------------------------------------------------------------------------------


def _by_polyloom(program: Program, inputs: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    file = f"<random program {program.seed}, {next(_files)}>"
    linecache.cache[file] = (len(program.source), None, program.source.splitlines(True), file)
    names: dict[str, Any] = {"__name__": file}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(program.source, file, "exec", dont_inherit=True), names)
    finally:
        del linecache.cache[file]
    arrays = {name: _array(names, element, shape, inputs[name]) for name, (element, shape) in ARRAYS.items()}
    outputs = {"log": np.zeros(N_LOG + 1, np.int32), "oi": np.zeros(N_OUTPUTS, np.int64), "of": np.zeros(N_OUTPUTS)}
    scalars = [getattr(np, t)(inputs[name]) for name, t in program.scalars.items()]
    loom.launch(names["k"], 1, [*arrays.values(), *outputs.values(), *scalars])
    results: dict[str, np.ndarray[Any, Any]] = dict(outputs)
    for name, array in arrays.items():
        results[name] = _flat_records(array) if ARRAYS[name][0] in STRUCTS else array.reshape(-1)
    return results


def _array(names: dict[str, Any], element: str, shape: tuple[int, ...], values: list[Any]) -> np.ndarray[Any, Any]:
    if element in STRUCTS:
        return np.array([_record(element, value) for value in values], names[element].numpy_dtype()).reshape(shape)
    if element in model.COMPOSITE_TYPES:
        t = model.COMPOSITE_TYPES[element]
        return np.array(values, t.scalar.numpy).reshape(*shape, *t.shape)
    return np.array(values, element).reshape(shape)


def _record(struct: str, value: dict[str, Any]) -> tuple[Any, ...]:
    fields = []
    for name, field in STRUCTS[struct].items():
        if field in STRUCTS:
            fields.append(_record(field, value[name]))
        elif field in model.COMPOSITE_TYPES:
            fields.append(np.reshape(value[name], model.COMPOSITE_TYPES[field].shape).tolist())
        else:
            fields.append(value[name])
    return tuple(fields)


def _flat_records(records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if records.dtype.names is None:
        return records.astype(np.float64)
    parts = []
    for record in records.reshape(-1):
        for name in records.dtype.names:
            value = record[name]
            nested = isinstance(value, np.void)
            parts.append(
                _flat_records(np.array([value], value.dtype)) if nested else np.ravel(value).astype(np.float64)
            )
    return np.concatenate(parts)


# ---- smaller programs ----------------------------------------------------------------------------------------------


def reduced(difference: Difference, most_trials: int = 400) -> Difference:
    """The program without statements that the difference does not need, as far as so many trials get."""
    program = difference.program
    kind = _kind(difference.reason)
    tree = ast.parse(program.source)
    n_trials, changed = 0, True
    while changed:
        changed = False
        for body in [getattr(node, field) for node in ast.walk(tree) for field in ("body", "orelse")
                     if isinstance(getattr(node, field, None), list)]:  # fmt: skip
            # Runs of statements first, ever shorter ones.
            length = len(body)
            while length:
                for i in range(len(body) - length, -1, -length):
                    removed = body[i : i + length]
                    del body[i : i + length]
                    n_trials += 1
                    smaller = _still_differs(program, tree, kind)
                    if smaller:
                        difference, changed = smaller, True
                    else:
                        body[i:i] = removed
                    if n_trials == most_trials:
                        return difference
                length //= 2
    return difference


def _kind(reason: str) -> str:
    """What a smaller program has to share with the larger one: the code of an error, or that a value differs."""
    return reason.splitlines()[0].rpartition("[")[2] if "Error:" in reason else "value"


def _still_differs(program: Program, tree: ast.Module, kind: str) -> Difference | None:
    try:
        source = ast.unparse(tree) + "\n"
        compile(source, "<program>", "exec")
        difference = first_difference(dataclasses.replace(program, source=source))
    except Exception:  # The smaller program is none: CPython cannot run it.
        return None
    return difference if difference and _kind(difference.reason) == kind else None
