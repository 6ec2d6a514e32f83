"""Launches of hot kernels measure ways to run threads where an estimate cannot tell which one is faster."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import polyloom as loom
import pytest

KERNEL = """
import numpy as np
import polyloom as loom

FLOATS, INTS = loom.array(dtype=float), loom.array(dtype=int)

@loom.kernel(float_mode="MODE")
def gathered(a: FLOATS, at: INTS, out: FLOATS):
    i = loom.tid()
    out[i] = a[at[i]] + a[at[i] ^ 1] * 0.5
"""

LAUNCHES = """
import time

N = 200_000
at = np.random.default_rng(3).integers(0, N, N).astype(np.int32)
a = np.random.default_rng(4).standard_normal(N).astype(np.float32)
want = a[at] + a[at ^ 1] * np.float32(0.5)
# One array for all launches: others are aligned or not by chance, and each makes a variant with candidates of its own.
out = np.zeros(N, np.float32)
ends = time.monotonic() + float(SECONDS)
while time.monotonic() < ends and "(used)" not in gathered.explain():
    for _ in range(20):
        out[:] = 0.0
        loom.launch(gathered, N, [a, at, out])
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
        if "MODE" == "strict":
            np.testing.assert_array_equal(out, want)
print(gathered.explain())
"""


def run(folder: Path, source: str, mode: str, seconds: int, **env: str) -> str:
    script = folder / "gathered.py"
    script.write_text(textwrap.dedent(source).replace("MODE", mode).replace("SECONDS", str(seconds)))
    given = {**os.environ, "POLYLOOM_CACHE_DIR": str(folder / "cache"), "POLYLOOM_CACHE": "1", **env}
    done = subprocess.run([sys.executable, str(script)], env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def measured(text: str) -> list[str]:
    return [line.split(",")[0].strip() for line in text.splitlines() if "median of" in line]


@pytest.mark.parametrize("mode", ["strict", "fast"])
def test_launches_measure_and_later_processes_take_the_winner(tmp_path, mode):
    text = run(tmp_path, KERNEL + LAUNCHES, mode, 120)
    if "so close" not in text:
        pytest.skip("the estimate is sure of itself on this processor")
    assert text.count("(used)") == 1, text
    assert len(measured(text)) == 2
    later = run(tmp_path, KERNEL + "print(gathered.explain())", mode, 0)
    assert measured(later) == measured(text)
    # What is shown is what runs: the estimate's choice only where it was the faster one.
    shown = KERNEL + "print(gathered.asm(), gathered.llvm_ir())"
    estimated = run(tmp_path, shown, mode, 0, POLYLOOM_DETERMINISTIC="1")
    ways = [line.split(":")[0].strip() for line in text.splitlines() if "median of" in line and "(used)" in line]
    is_estimate = f"threads run {ways[0]}:" in text
    assert (run(tmp_path, shown, mode, 0) == estimated) == is_estimate
    command = [sys.executable, "-m", "polyloom", "explain", str(tmp_path / "gathered.py"), "--kernel", "gathered"]
    environment = {**os.environ, "POLYLOOM_CACHE_DIR": str(tmp_path / "cache"), "POLYLOOM_CACHE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert measured(done.stdout) == measured(text), done.stdout + done.stderr


def test_a_deterministic_process_measures_nothing(tmp_path):
    text = run(tmp_path, KERNEL + LAUNCHES, "fast", 3, POLYLOOM_DETERMINISTIC="1")
    assert not measured(text)


def test_the_setting():
    assert loom.config.deterministic is False
    try:
        loom.config.deterministic = True
        assert loom.config.deterministic is True
        # Warp's name for what is the default there.
        loom.config.deterministic = "not_guaranteed"
        assert loom.config.deterministic is False
    finally:
        loom.config.deterministic = False
