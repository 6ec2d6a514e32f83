"""Rejected programs: the exception, its place, and its diagnostics."""

import subprocess
import sys
import traceback
from typing import Any

import polyloom as loom
import pytest


def test_all_errors_at_once_at_the_users_lines(define):
    with pytest.raises(loom.CompileError) as caught:
        define("""
            @loom.kernel
            def wrong(x: loom.array(dtype=float), n: int):
                i = loom.tid()
                x[i] = loom.sine(x[i])
                x[i] = x[i] + n
                y = undefined_name
        """)
    error = caught.value
    assert [(d.code, d.line) for d in error.diagnostics] == [("PL0202", 4), ("PL0101", 5), ("PL0201", 6)]
    first = error.diagnostics[0]
    assert "sin" in first.help
    assert (first.file, first.severity) == (error.filename, "error")
    assert error.lineno == 4
    assert "loom.sine" in error.text
    assert (first.column, first.end_column) == (12, 21)
    shown = "".join(traceback.format_exception_only(error))
    assert "x[i] = loom.sine(x[i])" in shown and "PL0101" in shown and "float(n)" in shown


def test_editors_see_a_syntax_error():
    assert issubclass(loom.CompileError, SyntaxError)


def test_functions_from_elsewhere_are_blamed_where_they_are(define):
    helpers = define(
        """
        @loom.func
        def helper(x: Any):
            return x + undefined_name
    """,
        Any=Any,
    )
    with pytest.raises(loom.CompileError) as caught:
        define(
            """
            @loom.kernel
            def user(x: loom.array(dtype=float)):
                i = loom.tid()
                x[i] = helper(x[i])
            """,
            helper=helpers["helper"],
        )
    assert caught.value.diagnostics[0].line == 3
    assert caught.value.filename != "<kernel>"


def test_kernels_need_source_text():
    namespace = {"loom": loom}
    code = "@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[0] = 1.0\n"
    with pytest.raises(OSError, match="source text of 'k'"):
        exec(compile(code, "<nowhere>", "exec"), namespace)


def test_uncaught_error_in_a_script(tmp_path):
    script = tmp_path / "bad.py"
    script.write_text("import polyloom as loom\n\n@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[0] = y\n")
    out = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert out.returncode == 1
    assert f'File "{script}", line 5' in out.stderr
    assert "    x[0] = y\n" in out.stderr
    assert "panicked" not in out.stderr
