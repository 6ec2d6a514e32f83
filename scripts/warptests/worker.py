"""Runs one of Warp's test modules in this process, with `warp` meaning Polyloom, on the CPU.

Each test's end is written as a line of JSON as soon as it is known, so that a crash loses no more than one.

usage: python -m warptests.worker MODULE OUTPUT [--tolerant] [--seconds N] [--skip TEST]… [--only TEXT]
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import signal
import sys
import tempfile
import traceback
import types
import unittest
import warnings
from pathlib import Path
from typing import Any

import polyloom
from polyloom import _composite_names, _scalars
from polyloom._annotations import ReferenceAnnotation
from polyloom._builtins import Builtin

from warptests.scope import PUBLIC_INTERNALS, ModuleText, bound_names, reason_of
from warptests.suites import tests_of

FLOATS = (polyloom.float16, polyloom.bfloat16, polyloom.float32, polyloom.float64)
INTEGERS = (
    *(polyloom.int8, polyloom.uint8, polyloom.int16, polyloom.uint16),
    *(polyloom.int32, polyloom.uint32, polyloom.int64, polyloom.uint64),
)


def strides_from_shape(shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    """The strides in bytes of an array of this shape whose elements follow each other."""
    size = polyloom.types.type_size_in_bytes(dtype)
    return tuple(size * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def user_cache_dir(application: str, author: str = "", version: str = "") -> str:
    """A folder for what an application keeps; here one that is thrown away with the run."""
    return str(Path(tempfile.gettempdir(), application, author, version))


# What Warp's tests and packages take from Warp's inside: mostly tables, to go over all types.
TABLES = {
    "Any": Any,
    "builtin_functions": {name: value for name, value in vars(polyloom).items() if isinstance(value, Builtin)},
    "float_types": FLOATS,
    "int_types": INTEGERS,
    "scalar_types": (*INTEGERS, *FLOATS),
    "vector_types": tuple(getattr(polyloom, name) for name in _composite_names.__all__),
    "np_dtype_to_warp_type": {dtype.numpy: dtype for dtype in (polyloom.bool, *INTEGERS, *FLOATS)},
    "scalar_base": _scalars.ArithmeticConstant,
    "float_base": _scalars.FloatConstant,
    "int_base": _scalars.IntegerConstant,
    "non_atomic_types": (polyloom.int8, polyloom.uint8, polyloom.int16, polyloom.uint16),
    "Reference": ReferenceAnnotation,
    "strides_from_shape": strides_from_shape,
    "user_cache_dir": user_cache_dir,
    "type_scalar_type": lambda dtype: getattr(dtype, "_wp_scalar_type_", dtype),
}
TESTS = Path(importlib.util.find_spec("warp").origin).parent / "tests"  # type: ignore[union-attr,arg-type]


class OutOfScope:
    """Stands for what Warp's tests take from the inside of Warp; any use of it is an error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> OutOfScope:
        if name.startswith("__"):
            raise AttributeError(name)
        return OutOfScope(f"{self._name}.{name}")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        raise NotImplementedError(f"{self._name} is of Warp's inside")


class Internals(types.ModuleType):
    """A module of `warp._src`: public things under another name, and stand-ins for the rest."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "warp._src":
            return importlib.import_module(f"warp._src.{name}")
        if name in PUBLIC_INTERNALS:
            if name in TABLES:
                return TABLES[name]
            for module in (polyloom.types, polyloom, _scalars):
                try:
                    return getattr(module, name)
                except AttributeError:
                    continue
            raise AttributeError(f"polyloom has no {name!r}")
        return OutOfScope(f"{self.__name__}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `warp` and its submodules in Polyloom, `warp.tests` in Warp, and stand-ins for `warp._src`."""

    def __init__(self, is_tolerant: bool) -> None:
        self.is_tolerant = is_tolerant
        self.dropped: list[tuple[int, str, str]] = []

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != "warp" and not name.startswith("warp."):
            return None
        if name.startswith("warp.tests"):
            file = TESTS.joinpath(*name.split(".")[2:])
            if (file / "__init__.py").exists():
                return importlib.util.spec_from_file_location(
                    name, file / "__init__.py", loader=self, submodule_search_locations=[str(file)]
                )
            file = file.with_suffix(".py")
            return importlib.util.spec_from_file_location(name, file, loader=self) if file.exists() else None
        if name.startswith("warp._src"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return importlib.machinery.ModuleSpec(name, self)

    def get_code(self, name: str) -> types.CodeType:
        """As `runpy` asks for it."""
        spec = self.find_spec(name, None)
        assert spec is not None and spec.origin is not None
        return compile(Path(spec.origin).read_text(), spec.origin, "exec", dont_inherit=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        name = spec.name
        if name.startswith("warp.tests"):
            return None
        if name.startswith("warp._src"):
            return Internals(name)
        return importlib.import_module(name.replace("warp", "polyloom", 1))

    def exec_module(self, module: types.ModuleType) -> None:
        if not module.__name__.startswith("warp.tests"):
            return
        file = module.__file__
        assert file is not None
        text = Path(file).read_text()
        scope = ModuleText(text)
        lost: set[str] = set()
        flags = 0
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                for name in statement.names:
                    flags |= getattr(__import__("__future__"), name.name).compiler_flag
            code = compile(ast.Module([statement], []), file, "exec", flags, dont_inherit=True)
            try:
                exec(code, module.__dict__)
            except unittest.SkipTest:
                raise
            except Exception as error:
                segment = scope.segment(statement)
                named = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name)}
                is_outside = bool(reason_of(segment, scope.internals)) or bool(named & lost)
                if not (is_outside or self.is_tolerant):
                    raise
                lost.update(bound_names(statement))
                self.dropped.append((statement.lineno, segment.split("\n")[0], first_line(error)))


def first_line(error: BaseException) -> str:
    text = "".join(traceback.format_exception_only(error)).strip() if not isinstance(error, SyntaxError) else ""
    text = text or f"{type(error).__name__}: {error}"
    return text.split("\n")[0][:300]


def place_of(error: BaseException, file: str) -> str:
    """The last line of the test's own module that the error went through."""
    places = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{Path(file).name}:{places[-1]}" if places else ""


class TimeOut(BaseException):
    """A test took too long."""


class Result(unittest.TestResult):
    def __init__(self, output: Any, file: str) -> None:
        super().__init__()
        self.output = output
        self.file = file

    def told(self, test: Any, verdict: str, error: BaseException | None = None, reason: str = "") -> None:
        key = f"{type(test).__name__}.{getattr(test, '_testMethodName', test)}"
        end = {"test": key, "verdict": verdict}
        if error is not None:
            end |= {"error": first_line(error), "place": place_of(error, self.file)}
            end["trace"] = "".join(traceback.format_exception(error))[-4000:]
        if reason:
            end["error"] = reason
        self.output.write(json.dumps(end) + "\n")
        self.output.flush()

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.told(test, "started")
        self.n_bad = 0

    def addSuccess(self, test: Any) -> None:
        self.told(test, "passed")

    def addFailure(self, test: Any, error: Any) -> None:
        self.told(test, "failed", error[1])

    def addError(self, test: Any, error: Any) -> None:
        self.told(test, "error", error[1])

    def addSkip(self, test: Any, reason: str) -> None:
        self.told(test, "skipped", reason=reason)

    def addExpectedFailure(self, test: Any, error: Any) -> None:
        self.told(test, "passed")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.told(test, "failed")

    def addSubTest(self, test: Any, subtest: Any, error: Any) -> None:
        if error is not None:
            is_failure = issubclass(error[0], test.failureException)
            self.told(test, "failed" if is_failure else "error", error[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("output", type=Path)
    parser.add_argument("--tolerant", action="store_true")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    finder = Finder(options.tolerant)
    sys.meta_path.insert(0, finder)
    polyloom._src = Internals("warp._src")  # type: ignore[attr-defined]
    warnings.simplefilter("ignore", SyntaxWarning)
    os.environ["MPLBACKEND"] = "agg"

    def on_alarm(number: int, frame: Any) -> None:
        raise TimeOut(f"longer than {options.seconds} s")

    signal.signal(signal.SIGALRM, on_alarm)
    with open(options.output, "a") as output:
        try:
            module = importlib.import_module(f"warp.tests.{options.module}")
        except Exception as error:
            file = str(TESTS.joinpath(*options.module.split(".")).with_suffix(".py"))
            told = {
                "import": first_line(error),
                "place": place_of(error, file),
                "trace": traceback.format_exc()[-4000:],
            }
            output.write(json.dumps(told) + "\n")
            return
        output.write(json.dumps({"dropped": finder.dropped}) + "\n")
        assert module.__file__ is not None
        result = Result(output, module.__file__)
        skipped = set(options.skip)
        by_class: dict[type, list[unittest.TestCase]] = {}
        for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
            key = f"{type(test).__name__}.{test._testMethodName}"
            if key not in skipped and options.only in key:
                by_class.setdefault(type(test), []).append(test)
        for tests in by_class.values():
            for test in tests:
                signal.alarm(options.seconds)
                try:
                    # As a suite of one, so that what its class sets up is set up.
                    unittest.TestSuite([test]).run(result)
                except TimeOut as error:
                    result.told(test, "timeout", error)
                finally:
                    signal.alarm(0)


if __name__ == "__main__":
    main()
