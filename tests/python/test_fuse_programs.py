"""Some random programs, as they are written and fused. `scripts/fuzz_fuse.py` runs many."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_fuse.py"


@pytest.mark.parametrize("n_programs, options", [(300, []), (60, ["--models"])])
def test_random_programs_do_fused_what_they_do_as_they_are_written(n_programs, options):
    command = [sys.executable, str(SCRIPT), "--programs", str(n_programs), "--seed", "7", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{n_programs} programs, 0 with a difference"), done.stdout
