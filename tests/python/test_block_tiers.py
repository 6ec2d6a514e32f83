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


ROWS = """
import numpy as np
import polyloom as loom

loom.config.check = True


def made(block, dtype):
    @loom.kernel(block_dim=block)
    def total_of_row(x: loom.array2d(dtype=dtype), last: loom.array(dtype=dtype), out: loom.array2d(dtype=dtype)):
        row, t = loom.block_idx(0), loom.thread_idx(0)
        total = dtype(0)
        for k in range(t, x.shape[1], block):
            total += x[row, k] * dtype(2)
            if k == x.shape[1] - 1:
                last[row] = x[row, k]
        out[row, t] = total

    return total_of_row


n_rows = 0
for block in (32, 64, 128, 256):
    for dtype in (loom.uint8, loom.int16, loom.float32, loom.float64):
        kernel = made(block, dtype)
        numbers = np.dtype(dtype.numpy)
        for n in (1, 31, 64, 65, 127, 128, 129, 300, 1000):
            x = (np.arange(3 * n).reshape(3, n) % 7).astype(numbers)
            last, out = np.zeros(3, numbers), np.zeros((3, block), numbers)
            loom.launch(kernel, grid=3, block=block, inputs=[x, last, out])
            padded = np.zeros((3, -(-n // block) * block), numbers)
            padded[:, :n] = x
            np.testing.assert_array_equal(out, 2 * padded.reshape(3, -1, block).sum(axis=1, dtype=numbers))
            np.testing.assert_array_equal(last, x[:, -1])
            n_rows += 3


@loom.kernel(block_dim=256)
def outside(x: loom.array(dtype=loom.uint8), out: loom.array(dtype=loom.uint8)):
    t = loom.thread_idx(0)
    for k in range(t, 256, 256):
        if t == 200:
            out[k] = x[k]


try:
    loom.launch(outside, grid=1, block=256, inputs=[np.zeros(200, np.uint8), np.zeros(256, np.uint8)])
except loom.LaunchError as error:
    assert "index 200" in str(error) and "[200]" in str(error), error
    n_rows += 1
print(n_rows)
"""


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_rows_of_blocks_of_any_width(tier: str, on_tier: Callable[..., str], tmp_path: Path):
    path = tmp_path / "rows.py"
    path.write_text(ROWS)
    text = f"import runpy\nrunpy.run_path({str(path)!r})"
    assert int(on_tier(tier, text, path).split()[-1]) == 4 * 4 * 9 * 3 + 1
