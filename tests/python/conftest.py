"""Fixtures of the Python tests."""

import os
import tempfile

# Tests compile afresh and leave nothing behind; the cache has tests of its own.
os.environ.setdefault("POLYLOOM_CACHE_DIR", tempfile.mkdtemp(prefix="polyloom-test-cache-"))

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def define() -> Callable[..., dict[str, Any]]:
    """Runs source text as a module of its own and gives its names. `loom` and `np` are there."""
    import sources

    return sources.define


def _run_on_tier(tier: str, *arguments: str) -> str:
    environment = {**os.environ, "POLYLOOM_TIER": tier, "POLYLOOM_CACHE": "0"}
    folder = Path(__file__).parent
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def on_tier() -> Callable[..., str]:
    """Runs a script, which may import test modules, in a process with one engine, and gives what it prints."""

    def run(tier: str, script: str, *arguments: object) -> str:
        return _run_on_tier(tier, "-c", textwrap.dedent(script), *map(str, arguments))

    return run


@pytest.fixture
def passed_on_tier() -> Callable[[str, str, str], int]:
    """Runs the tests of a file that `-k` chooses in a process with one engine, and says how many there are."""

    def run(tier: str, file: str, chosen: str) -> int:
        printed = _run_on_tier(tier, "-m", "pytest", "-p", "no:cacheprovider", "-k", chosen, file)
        passed = re.search(r"^(\d+) passed", printed, re.MULTILINE)
        assert passed, printed
        return int(passed[1])

    return run
