"""Lists the tests that Warp's modules register on the CPU, with their scope, by importing them under Warp itself.

usage: python -m warptests.listing OUTPUT MODULE…
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
import types
import unittest
from pathlib import Path

from warptests.scope import ModuleText, reason_of
from warptests.suites import tests_of


def function_of(test: unittest.TestCase) -> str:
    """The name of the function that a test runs: of its own, or of the one, or the kernel, it was made of."""
    method = getattr(type(test), test._testMethodName)
    made_of = getattr(method, "__wrapped__", method)
    for cell in getattr(made_of, "__closure__", None) or ():
        if hasattr(cell.cell_contents, "func") and hasattr(cell.cell_contents, "adj"):
            return cell.cell_contents.func.__name__
    while getattr(made_of, "__wrapped__", None) is not None:
        made_of = made_of.__wrapped__
    if isinstance(made_of, types.FunctionType):
        return made_of.__qualname__.partition(".")[0]
    return ""


def main() -> None:
    output, names = Path(sys.argv[1]), sys.argv[2:]
    listed = json.loads(output.read_text()) if output.exists() else {}
    for name in names:
        try:
            module = importlib.import_module(f"warp.tests.{name}")
        except Exception:
            traceback.print_exc()
            continue
        text = ModuleText(Path(module.__file__).read_text())
        tests = {}
        for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
            key = f"{type(test).__name__}.{test._testMethodName}"
            of_test = text.of_test(type(test).__name__, test._testMethodName, function_of(test))
            tests[key] = reason_of(of_test, text.internals)
        listed[name] = tests
    output.write_text(json.dumps(listed, indent=1))


if __name__ == "__main__":
    main()
