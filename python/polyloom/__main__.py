"""The `polyloom` command: `python -m polyloom` does the same."""

from __future__ import annotations

import os
import signal
import sys

from polyloom import _native


def main() -> int:
    """Runs the command with the process's arguments and gives its exit status."""
    # The command is native code: Python's own handler would wait for it to finish.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Some of its work it hands to Python.
    os.environ.setdefault("POLYLOOM_PYTHON", sys.executable)
    return _native.command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
