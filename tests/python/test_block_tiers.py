"""Kernels of blocks on every engine of the CPU: the file tests, whose results the interpreter's definition gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

FILES = Path(__file__).parents[1] / "filetests" / "run"

RUN = """
import importlib.util, re, sys
import numpy as np
import polyloom as loom

path = sys.argv[1]
spec = importlib.util.spec_from_file_location("kernels", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
n_runs = 0
for line in open(path, encoding="utf-8"):
    found = re.match(r"# run: @(\\w+)\\[([\\d, ]+)\\]\\((.*?)\\) == (.*)$", line)
    if not found:
        continue
    name, dim, arguments, expected = found.groups()
    values = eval(f"[{arguments}]", {"true": True, "false": False})
    types = re.findall(r"dtype=(\\w+)", getattr(module, name).signature)
    numbers = {"vec2": np.float32}
    types = iter([numbers.get(element) or getattr(np, element) for element in types])
    arguments = [np.array(value, dtype=next(types)) if isinstance(value, list) else value for value in values]
    loom.launch(getattr(module, name), dim=eval(f"({dim},)"), inputs=arguments)
    arrays = [value for value in arguments if isinstance(value, np.ndarray)]
    for array, want in zip(arrays, eval(f"[{expected}]", {"_": None}), strict=True):
        if want is not None:
            np.testing.assert_array_equal(array, np.array(want, dtype=array.dtype), err_msg=line)
    n_runs += 1
print(n_runs)
"""


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
@pytest.mark.parametrize("name", ["barriers.py", "narrow_loops.py", "shared_memory.py"])
def test_file_tests_of_blocks(name: str, tier: str, on_tier: Callable[..., str]):
    path = FILES / name
    n_runs = len(re.findall(r"^# run: .* == ", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert int(on_tier(tier, RUN, path).split()[-1]) == n_runs
