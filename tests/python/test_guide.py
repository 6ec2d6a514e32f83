"""The examples of the guide and of the README run, and give what their comments say."""

import ast
import contextlib
import io
import linecache
import pathlib
import re

import numpy as np
import polyloom as loom
import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
# A comment that is a value: `True`, `vec3([1.0])`, `((2,), 1)`, `[0.5]`, with or without an explanation.
VALUE = re.compile(r"(True|False|\w+\(\[.*\]\)|\(.*\)|\[.*\])(: .*)?")


@loom.kernel
def copied(a: loom.array(dtype=float), b: loom.array(dtype=float)):
    i = loom.tid()
    b[i] = a[i]


def names():
    """What the fragments of the guide take for granted."""
    launched = {"kernel": copied, "dim": 2, "inputs": [np.ones(2, np.float32)], "outputs": [np.zeros(2, np.float32)]}
    return {"__name__": "guide", "loom": loom, "np": np, **launched}


def run(text, file, namespace):
    """Runs a block, statement by statement; a comment behind a `print` or an expression is what it gives."""
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    for statement in ast.parse(text).body:
        wanted = text.splitlines()[statement.end_lineno - 1].partition("  # ")[2]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), file, "eval"), namespace)
            else:
                value = None
                exec(compile(ast.Module([statement], []), file, "exec"), namespace)
        if isinstance(statement, ast.Expr) and (found := VALUE.fullmatch(wanted)):
            given = repr(value) if value is not None else printed.getvalue().rstrip("\n")
            assert given == found[1], f"{file}, line {statement.lineno}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page):
    text = page.read_text(encoding="utf-8")
    namespace = names()
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        # With the page's line numbers; and a million of anything is for reading, not for testing.
        run("\n" * line + block[1].replace("1_000_000", "1_000"), str(page), namespace)


def test_there_are_examples():
    assert sum(len(BLOCK.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 20
