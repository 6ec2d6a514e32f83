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
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
# What no two runs have in common, or a page and a reader's file.
VARYING = re.compile(r"\d+ (thousand|million|billion) a second|^line \d+:|(?<=\.py):\d+")
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
    """Runs a block, statement by statement, and returns what it prints.

    A comment after a `print` or an expression is what that gives.
    """
    whole = ""
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
        whole += printed.getvalue()
    return whole


def pattern_of(result):
    """What matches a block of results: `…` stands for anything, on a line of its own for any lines."""
    lines = [VARYING.sub("…", line) for line in result.splitlines()]
    patterns = ["(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + " *\n" for line in lines]
    return re.compile("".join(patterns))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page):
    text = page.read_text(encoding="utf-8")
    namespace = names()
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        # With the page's line numbers; and a million of anything is for reading, not for testing.
        printed = run("\n" * line + block[1].replace("1_000_000", "1_000"), str(page), namespace)
        if block[2] is not None:
            printed = printed.replace(str(page), f"{page.stem}.py")
            assert pattern_of(block[2]).fullmatch(printed.rstrip("\n") + "\n"), f"{page.name}, line {line}:\n{printed}"


def test_the_texts_of_a_kernel_are_what_it_compiles_to():
    page = ROOT / "docs" / "guide" / "cpu-and-cuda.md"
    text = page.read_text(encoding="utf-8")
    namespace = names()
    for block in BLOCK.finditer(text):
        run("\n" * text.count("\n", 0, block.start(1)) + block[1], str(page), namespace)
    for language, compiled in (("cpp", namespace["blur"].cpp()), ("cuda", namespace["blur"].cuda())):
        (shown,) = re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        assert shown in compiled, language


def test_there_are_examples():
    blocks = [block for page in PAGES for block in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    assert len(blocks) > 20
    assert sum(block[2] is not None for block in blocks) >= 8
