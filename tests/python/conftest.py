"""Fixtures of the Python tests."""

import os
import tempfile

# Tests compile afresh and leave nothing behind; the cache has tests of its own.
os.environ.setdefault("POLYLOOM_CACHE_DIR", tempfile.mkdtemp(prefix="polyloom-test-cache-"))

import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

_count = 0


@pytest.fixture
def define() -> Callable[..., dict[str, Any]]:
    """Runs source text as a module of its own and gives its names. `loom` and `np` are there."""

    def run(source: str, **names: Any) -> dict[str, Any]:
        global _count
        _count += 1
        import numpy as np
        import polyloom as loom

        text = textwrap.dedent(source).lstrip("\n")
        file = f"<test {_count}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        namespace = {"loom": loom, "np": np, "__name__": f"test_{_count}", **names}
        exec(compile(text, file, "exec"), namespace)
        return namespace

    return run
