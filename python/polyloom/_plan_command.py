"""`polyloom plan` and `polyloom profile`: they load functions and call libraries, so that they are Python.

The command starts this module with what it has parsed as one argument of JSON.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._backends import Backend
from polyloom._fuse import fuse
from polyloom._fusion_text import FUSION
from polyloom._plan_report import PlanReport
from polyloom._planner import Policy
from polyloom._planner import policy as set_policy


class CommandError(Exception):
    """What the command says when it fails."""


def _function(place: str) -> Any:
    """The function that FILE:FUNCTION names, fused."""
    path, _, name = place.rpartition(":")
    if not path or not name:
        raise CommandError(f"`{place}` is no FILE:FUNCTION, such as `model.py:forward`")
    if not Path(path).is_file():
        raise CommandError(f"cannot read {path}: there is no such file")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path} is no file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(Path(path).resolve().parent))
    spec.loader.exec_module(module)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{path} has no function `{name}`")
        found = getattr(found, part)
    if FUSION in getattr(found, "__dict__", {}):
        return found
    if not inspect.isfunction(found):
        raise CommandError(f"`{name}` of {path} is no function of tensors, but {type(found).__name__}")
    return fuse(found)


def _arguments(
    function: Any, shapes: dict[str, str], dtypes: dict[str, str], numbers: dict[str, str]
) -> dict[str, Any]:
    """Values for the parameters: random arrays of the shapes that are given or annotated, numbers, and defaults.

    `layer.w` names the entry `w` of a parameter that is a dictionary.
    """
    generator = np.random.default_rng(1)
    found: dict[str, Any] = {}
    parameters = inspect.signature(function.__wrapped__).parameters
    for given in {**shapes, **dtypes, **numbers}:
        if given.split(".")[0] not in parameters:
            raise CommandError(f"the function has no parameter `{given}`: it has {', '.join(parameters)}")
    for given in {**shapes, **numbers}:
        *path, last = given.split(".")
        entries = found
        for part in path:
            entries = entries.setdefault(part, {})
            if not isinstance(entries, dict):
                raise CommandError(f"`{given}` is an entry of `{part}`, which has a value of its own")
        entries[last] = _number(given, numbers[given]) if given in numbers else _array(given, shapes, dtypes, generator)
    for name, parameter in parameters.items():
        if name not in found and parameter.default is inspect.Parameter.empty:
            raise CommandError(
                f"`{name}` has no value: give --shape {name}=4x5 or --number {name}=2, and of a dictionary each entry, "
                f"as --shape {name}.w=4x5"
            )
    return found


def _number(name: str, text: str) -> int | float:
    try:
        return float(text) if any(each in text for each in ".en") else int(text)
    except ValueError:
        raise CommandError(f"--number {name}={text}: `{text}` is no number") from None


def _array(name: str, shapes: dict[str, str], dtypes: dict[str, str], generator: np.random.Generator) -> np.ndarray:
    try:
        shape = [int(extent) for extent in shapes[name].split("x") if extent != ""]
    except ValueError:
        raise CommandError(f"--shape {name}={shapes[name]}: a shape is written as 4x5, of one axis as 4") from None
    if any(extent < 0 for extent in shape):
        raise CommandError(f"--shape {name}={shapes[name]}: an extent is at least 0")
    try:
        dtype = np.dtype(dtypes.get(name, "float32"))
    except TypeError:
        raise CommandError(f"--dtype {name}={dtypes[name]}: there is no such type; `float32` is one") from None
    if dtype.kind == "f":
        return generator.random(shape).astype(dtype)
    if dtype.kind == "b":
        return generator.random(shape) < 0.5
    return generator.integers(0, 4, shape).astype(dtype)


def _policy(given: dict[str, Any]) -> Policy:
    backends = given.get("backends") or None
    try:
        named = None if backends is None else [Backend[each] for each in backends]
    except KeyError as error:
        raise CommandError(
            f"there is no backend {error}: there are {', '.join(each.name for each in Backend)}"
        ) from None
    return Policy(given.get("policy") or "fastest", tolerance=given.get("tolerance"), backends=named)


def plan(given: dict[str, Any]) -> None:
    """Prints the candidates of a function, what is chosen and why."""
    function = _function(given["function"])
    values = _arguments(function, given["shapes"], given["dtypes"], given["numbers"])
    with set_policy(_policy(given)):
        try:
            report: PlanReport = function.plan(
                **values, measure=given["budget"] if given["measure"] else False, n_paths=given["n_paths"]
            )
        except Exception as error:
            raise CommandError(f"the function fails with these arguments: {type(error).__name__}: {error}") from error
    if given["json"]:
        print(json.dumps(report.json(), indent=2))
    elif given["lists"]:
        for group in report.groups:
            print(f"{group['name']}({', '.join(group.get('inputs', []))})")
            for number, each in enumerate(group["candidates"]):
                kept = "bits" if each["keeps_bits"] else "mathematics"
                print(f"  {number:3} {each['hash'][:16]} {kept:<11} {each['path']}")
            print(f"  the search ended: {group.get('stopped', '-')}")
    else:
        print(report)


def profile(given: dict[str, Any]) -> None:
    """Calibrates the cost model, or works through the benchmark database."""
    is_terminal = sys.stderr.isatty()

    def say(line: str, end: str = "") -> None:
        if is_terminal:
            sys.stderr.write(f"\r{line}\x1b[K{end}")
            sys.stderr.flush()

    if given["calibrate"]:
        _import_torch()
        place, rates = _native.calibrate_machine(lambda backend: say(f"measuring {backend}"))
        say("")
        if given["json"]:
            print(rates)
            return
        print(f"the rates of this machine are in {place}")
        for name, each in json.loads(rates)["backends"].items():
            if each["source"] == "calibrated":
                launch, product = each["launch_ns"] / 1e3, each["product_flops_per_ns"]
                print(
                    f"  {name:<10} launch {launch:.2f} µs, memory {each['bytes_per_ns']:.1f} GB/s, cache "
                    f"{each['cached_bytes_per_ns']:.1f} GB/s, products {product:.1f} GFLOP/s"
                )
        return
    _import_torch()
    begin = time.monotonic()

    def report(n_done: int, n_failed: int, n_waiting: int, n_traces: int, current: str) -> bool:
        n_all = n_done + n_failed + n_waiting + bool(current)
        filled = "#" * (30 * (n_done + n_failed) // max(n_all, 1))
        say(f"[{filled:<30}] {n_done + n_failed} of {n_all} computations, {n_traces} measurements; {current}")
        return True

    done, failed, traces = _native.profile_database(
        given["budget"], given["graphs"], given["per_graph"], given["allows_rounding"], report
    )
    say("")
    seconds = time.monotonic() - begin
    if given["json"]:
        print(json.dumps({"n_done": done, "n_failed": failed, "n_measurements": traces, "seconds": round(seconds, 3)}))
    else:
        print(f"{done} computations profiled, {failed} failed, {traces} measurements in {seconds:.1f} s")
        if done + failed == 0:
            print("no computation waits in the database: programs enter theirs when they run with POLYLOOM_RECORD=1")


def _import_torch() -> None:
    """Imports PyTorch if it is installed, so that its kernels take part."""
    if importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch")


def main() -> int:
    given = json.loads(sys.argv[1])
    if given.get("database"):
        _native.set_database(given["database"])
    try:
        {"plan": plan, "profile": profile}[given["command"]](given)
    except CommandError as error:
        print(f"polyloom: {error}", file=sys.stderr)
        return 1
    except (OSError, RuntimeError) as error:
        print(f"polyloom: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
