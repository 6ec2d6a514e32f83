"""Some random programs, as they are written and fused. `scripts/fuzz_fuse.py` runs many."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_fuse.py"


def test_random_programs_do_fused_what_they_do_as_they_are_written():
    command = [sys.executable, str(SCRIPT), "--programs", "300", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("300 programs, 0 with a difference"), done.stdout
