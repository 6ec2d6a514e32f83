"""A process that exits while a kernel is being compiled in the background."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).resolve().parents[2] / "scripts" / "exit_soak.py"


def test_exits_during_a_compilation_keep_their_status_and_their_files():
    done = subprocess.run([sys.executable, str(SOAK), "6", "--busy", "1"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("6 exits: 6 with status 7")
