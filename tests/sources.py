"""Source text as modules of their own."""

import itertools
import linecache
import textwrap
from typing import Any

import numpy as np
import polyloom as loom

_numbers = itertools.count(1)


def define(source: str, **names: Any) -> dict[str, Any]:
    """Runs source text as a module of its own and gives its names. `loom` and `np` are there."""
    number = next(_numbers)
    text = textwrap.dedent(source).lstrip("\n")
    file = f"<test {number}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace = {"loom": loom, "np": np, "__name__": f"test_{number}", **names}
    exec(compile(text, file, "exec"), namespace)
    return namespace
