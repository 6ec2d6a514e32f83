"""Some random programs by CPython and as kernels. `make fuzz-python` runs many."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_python.py"


@pytest.mark.parametrize("tier", ["interp", "0"])
def test_random_programs_compute_what_cpython_does(tier: str) -> None:
    command = [sys.executable, str(SCRIPT), "--programs", "150", "--seed", "1000"]
    environment = {**os.environ, "POLYLOOM_TIER": tier}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("150 programs, 0 with a difference"), done.stdout
