"""`polyloom build --fuse`: functions of tensors as graphs, which the command compiles.

A function is called with tensors that have no values in the place of its arrays, as `loom.grad` does; where callers
choose an extent, once for each of its values. The command starts this module with what it has parsed as one argument of
JSON, and reads JSON from its standard output.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._array_trees import leaves_of
from polyloom._config import config
from polyloom._plan_command import CommandError, _function, _number
from polyloom._tensor_gradients import _original
from polyloom._traced_tensor import TracedTensor

# The most values of an extent that callers choose.
MAX_EXTENTS = 4096


class ChosenExtent:
    """An extent that callers choose: its name, and its values."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        found = re.fullmatch(r"(\d+)(?:\.\.|-)(\d+)", text)
        if found is None:
            raise CommandError(f"--extent {name}={text}: a range is written as {name}=1..64")
        self.values = range(int(found[1]), int(found[2]) + 1)
        if not self.values or self.values[0] < 1:
            raise CommandError(f"--extent {name}={text}: the least value is at least 1, and not above the greatest")
        if len(self.values) > MAX_EXTENTS:
            raise CommandError(
                f"--extent {name}={text}: the function is planned for each value, {MAX_EXTENTS} at most: give a "
                "smaller range"
            )


class BuiltFunction:
    """A function that is built, with the shapes of its arguments."""

    def __init__(self, name: str, function: Any, given: dict[str, Any], extents: dict[str, ChosenExtent]) -> None:
        self.name, self.numbers = name, given["numbers"]
        original = _original(function)
        self.function, self.check = original.function, original.check_arguments
        self.float_mode = original.float_mode
        self.parameters = inspect.signature(self.function).parameters
        self.shapes: dict[str, list[int | str]] = {}
        for where, text in given["shapes"].items():
            if where.split(".")[0] in self.parameters:
                self.shapes[where] = _shape(where, text, extents)
        self.dtypes = {where: _dtype(where, given["dtypes"].get(where, "float32")) for where in self.shapes}
        self.chosen = next((each for shape in self.shapes.values() for each in shape if isinstance(each, str)), None)
        self.extents = extents

    def arguments(self, extent: int | None) -> dict[str, Any]:
        """The values of the parameters, in their order: arrays without memory, numbers, and dictionaries of both."""
        found: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            own = {where for where in (*self.shapes, *self.numbers) if where.split(".")[0] == name}
            for where in (each for each in (*self.shapes, *self.numbers) if each in own):
                *path, last = where.split(".")
                entries = found
                for part in path:
                    entries = entries.setdefault(part, {})
                    if not isinstance(entries, dict):
                        raise CommandError(f"`{where}` is an entry of `{part}`, which has a value of its own")
                entries[last] = self._value(where, extent)
            if not own and parameter.default is inspect.Parameter.empty:
                raise CommandError(
                    f"`{name}` of `{self.name}` has no value: give --shape {name}=4x5 or --number {name}=2, and of a "
                    f"dictionary each entry, as --shape {name}.w=4x5"
                )
        return found

    def _value(self, where: str, extent: int | None) -> Any:
        if where in self.numbers:
            return _number(where, self.numbers[where])
        # Where an extent has a name, there is one that is chosen.
        shape = [(extent or 0) if isinstance(each, str) else each for each in self.shapes[where]]
        return np.broadcast_to(np.zeros((), self.dtypes[where]), shape)

    def variant(self, extent: int | None) -> tuple[dict[str, Any], list[str], list[str]]:
        """The graph for an extent, and the names of its inputs and results."""
        values = self.arguments(extent)
        if self.check is not None:
            self.check.of_call([], values)
        trace = _native.GraphTrace()
        inputs: list[str] = []
        traced = {name: self._traced(trace, name, value, inputs) for name, value in values.items()}
        try:
            results = self.function(**traced)
        except CommandError:
            raise
        except Exception as error:
            at = f" of extent {self.chosen}={extent}" if extent is not None else ""
            message, line = f"`{self.name}` cannot be built{at}: {type(error).__name__}: {error}", _users_line(error)
            raise CommandError(message if line in message else f"{message}\n  {line}") from error
        finally:
            trace.close()
        tensors, names = [], []
        for path, leaf in leaves_of(results):
            if not (isinstance(leaf, TracedTensor) and leaf._trace is trace):
                raise CommandError(
                    f"`{self.name}` cannot be built: its result{path} is {type(leaf).__name__}, which no op computes "
                    "from its arguments"
                )
            tensors.append(leaf)
            names.append(_result_name(path))
        if not tensors:
            raise CommandError(f"`{self.name}` cannot be built: it gives no tensor")
        graph, seen = trace.graph_of(tensors)
        if len(seen) > len(inputs):
            other = seen[len(inputs)]
            raise CommandError(
                f"`{self.name}` cannot be built: it reads an array {getattr(other, 'dtype', '')}"
                f"[{', '.join(map(str, getattr(other, 'shape', ())))}] that is none of its arguments: pass it as one"
            )
        return {"extent": extent, "graph": graph}, inputs, names

    def _traced(self, trace: Any, name: str, value: Any, inputs: list[str]) -> Any:
        if isinstance(value, dict):
            return {key: self._traced(trace, f"{name}_{key}", item, inputs) for key, item in value.items()}
        if not isinstance(value, np.ndarray):
            return value
        inputs.append(name)
        return trace.input(value)

    def json(self, is_planned: bool) -> dict[str, Any]:
        """The function as the command reads it."""
        values: list[int | None] = [None] if self.chosen is None else list(self.extents[self.chosen].values)
        variants, inputs, outputs = [], [], []
        for number, extent in enumerate(values):
            variant, names, results = self.variant(extent)
            if number == 0:
                inputs, outputs = names, results
            elif results != outputs:
                raise CommandError(f"`{self.name}` cannot be built: its results are others for other extents")
            if is_planned:
                is_measured, variant["recipe"] = _native.measured_recipe(variant["graph"], self.float_mode)
                if not is_measured:
                    at = "" if extent is None else f" and {self.chosen}={extent}"
                    raise CommandError(
                        f"--planned: nothing is measured of `{self.name}` for these shapes{at} in the benchmark "
                        f"database ({_native.database_place()}): measure by `polyloom plan explain --measure "
                        "--backend CPU_NATIVE`"
                    )
            variants.append(variant)
        return {
            "name": self.name.rpartition(".")[2],
            "signature": self._signature(),
            "float_mode": self.float_mode,
            "inputs": inputs,
            "outputs": outputs,
            "chosen": self._chosen_place(),
            "variants": variants,
        }

    def _leaves(self) -> Iterator[str]:
        """The arrays in the order of the inputs."""
        for name in self.parameters:
            yield from (where for where in self.shapes if where.split(".")[0] == name)

    def _chosen_place(self) -> dict[str, Any] | None:
        for number, where in enumerate(self._leaves()):
            for axis, each in enumerate(self.shapes[where]):
                if isinstance(each, str):
                    return {"name": each, "input": number, "axis": axis}
        return None

    def _signature(self) -> str:
        arrays = [
            f"{where}: {self.dtypes[where].name}[{', '.join(map(str, self.shapes[where]))}]" for where in self._leaves()
        ]
        numbers = [f"{where}={text}" for where, text in self.numbers.items() if where.split(".")[0] in self.parameters]
        return f"{self.name}({', '.join([*arrays, *numbers])})"


def _users_line(error: BaseException) -> str:
    """The innermost line of an error that is not of the package."""
    package = os.path.dirname(__file__)
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(package)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


def _shape(where: str, text: str, extents: dict[str, ChosenExtent]) -> list[int | str]:
    shape: list[int | str] = []
    for each in text.split("x"):
        if each in extents:
            shape.append(each)
        elif each.isdecimal():
            shape.append(int(each))
        elif each:
            if each.isidentifier():
                raise CommandError(f"--shape {where}={text}: give the values of `{each}`, as --extent {each}=1..64")
            raise CommandError(f"--shape {where}={text}: a shape is written as 4x5, of one axis as 4")
    if len({each for each in shape if isinstance(each, str)}) > 1:
        raise CommandError(f"--shape {where}={text}: callers choose one extent, and others are numbers")
    return shape


def _dtype(where: str, name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        raise CommandError(f"--dtype {where}={name}: there is no such type; `float32` is one") from None


def _result_name(path: str) -> str:
    """The name of a result, of how it is reached: `out`, `out0`, `loss`."""
    words = re.findall(r"\w+", path)
    if not words:
        return "out"
    name = "_".join(words)
    return f"out{name}" if name[0].isdigit() else name


def _found(files: list[str], name: str) -> Any:
    """The function of this name in the first file that has it."""
    for path in files:
        try:
            return _function(f"{path}:{name}")
        except CommandError as error:
            if "has no function" not in str(error):
                raise
    raise CommandError(f"no file has a function `{name}`")


def build(given: dict[str, Any]) -> dict[str, Any]:
    """The functions as graphs."""
    # The mode of functions that do not say.
    config.float_mode = given["float"]
    extents = {name: ChosenExtent(name, text) for name, text in given["extents"].items()}
    if len(extents) > 1:
        raise CommandError("--extent: callers choose one extent")
    files = [path for path in given["files"] if Path(path).suffix == ".py"]
    functions = [BuiltFunction(name, _found(files, name), given, extents) for name in given["functions"]]
    for where in {**given["shapes"], **given["dtypes"], **given["numbers"]}:
        if not any(where.split(".")[0] in function.parameters for function in functions):
            raise CommandError(f"no function that is built has a parameter `{where}`")
    for name in extents:
        if not any(function.chosen == name for function in functions):
            raise CommandError(f"--extent {name}: no --shape has an extent `{name}`")
    return {"functions": [function.json(given["planned"]) for function in functions]}


def main() -> int:
    given = json.loads(sys.argv[1])
    # What functions print goes to standard error, because the command reads standard output.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        if given.get("database"):
            _native.set_database(given["database"])
        made = json.dumps(build(given))
    except CommandError as error:
        print(f"polyloom: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    answer.write(made)
    answer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
