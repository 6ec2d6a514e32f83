"""Rejected programs: the exception, its place, and its diagnostics."""

import subprocess
import sys
import traceback
from typing import Any

import numpy as np
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


def test_the_text_is_the_findings_and_no_more(define):
    with pytest.raises(loom.CompileError) as caught:
        define("""
            @loom.kernel
            def wrong(x: loom.array(dtype=float)):
                x[0] = undefined_name
        """)
    error = caught.value
    assert str(error) == f"{error.rendered.rstrip()}\n\n`undefined_name` is not defined"


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


def test_recursion_is_rejected_where_it_is_decorated(define):
    recursive = """
        @loom.func
        def f(x: int):
            return f(x - 1) if x > 0 else 0
    """
    plain = """
        @loom.func
        def f(x: int):
            return x
    """
    earlier = define(plain)["f"]
    for known in ({}, {"f": earlier}, {"f": 3}):
        with pytest.raises(loom.CompileError) as caught:
            define(recursive, **known)
        assert [(d.code, d.line) for d in caught.value.diagnostics] == [("PL0207", 3)]
        assert caught.value.diagnostics[0].message == "`f` calls itself"


def test_an_overload_may_call_another(define):
    define("""
        @loom.func
        def f(x: int):
            return x + 1

        @loom.func
        def f(x: float):
            return float(f(int(x)))
    """)


def test_a_function_that_is_only_defined_later(define):
    with pytest.raises(loom.CompileError, match="`even` calls itself") as caught:
        define("""
            @loom.func
            def even(n: int):
                return True if n == 0 else odd(n - 1)

            @loom.func
            def odd(n: int):
                return False if n == 0 else even(n - 1)

            @loom.kernel
            def k(o: loom.array(dtype=bool)):
                o[0] = even(3)
        """)
    assert [found.code for found in caught.value.diagnostics] == ["PL0207"]


def test_what_is_no_function_to_compile(define):
    names = define("""
        import functools

        @loom.kernel
        def k(x: loom.array(dtype=float)):
            x[0] = 1.0

        def deco(f):
            @functools.wraps(f)
            def wrapper(*args):
                return f(*args)
            return wrapper

        @deco
        def wrapped(x: loom.array(dtype=float)):
            x[0] = 1.0
    """)
    with pytest.raises(TypeError, match="takes a Python function, and <kernel k.*compiled already"):
        loom.kernel(names["k"])
    with pytest.raises(TypeError, match="@func takes a Python function, not 3"):
        loom.func(3)
    with pytest.raises(TypeError, match="no lambda"):
        loom.kernel(lambda x: x)
    with pytest.raises(TypeError, match="'wrapped', so it cannot follow another decorator"):
        loom.kernel(names["wrapped"])


def test_a_traceback_says_everything_once(define):
    with pytest.raises(loom.CompileError) as caught:
        define("""
            @loom.kernel
            def wrong(x: loom.array(dtype=float)):
                i = loom.tid()
                x[i] = undefined_name
                x[i] = loom.sine(x[i])
        """)
    shown = "".join(traceback.format_exception_only(caught.value))
    for text in (
        "x[i] = undefined_name",
        "`undefined_name` is not defined",
        "help: assign `undefined_name`",
        "loom.sine(x[i])",
    ):
        assert shown.count(text) == 1, shown
    assert "Error: `undefined_name` is not defined [PL0201]\n  = help: assign" in shown


def test_what_points_to_several_places_is_shown_with_all_of_them(define):
    with pytest.raises(loom.CompileError) as caught:
        define("""
            @loom.kernel
            def wrong(x: loom.array(dtype=float), n: int):
                x[0] = x[1] + n
        """)
    assert caught.value.rendered.rstrip() in "".join(traceback.format_exception_only(caught.value))


def test_warnings_are_pythons(define):
    with pytest.warns(SyntaxWarning, match=r"this code is never reached \[PL0301\]: remove it") as caught:
        k = define("""
            @loom.kernel
            def k(x: loom.array(dtype=float)):
                return
                x[0] = 1.0
        """)["k"]
    assert [w.code for w in k.warnings] == ["PL0301"]
    assert (caught[0].filename, caught[0].lineno) == (k.warnings[0].file, 4)


def test_kernels_have_the_docstring_and_module_of_their_function(define):
    names = define('''
        @loom.kernel
        def k(x: loom.array(dtype=float)):
            """Does nothing."""


        @loom.func
        def f(x: float):
            """Itself."""
            return x


        @loom.kernel
        def bare(x: loom.array(dtype=float)):
            pass
    ''')
    assert (names["k"].__doc__, names["f"].__doc__, names["bare"].__doc__) == ("Does nothing.", "Itself.", None)
    assert names["k"].__module__ == names["f"].__module__ == names["__name__"]
    assert names["k"].__qualname__ == "k"


def test_a_native_half_of_another_version_is_named():
    code = """
import sys
import polyloom._native as native
del native.builtins
for name in [name for name in sys.modules if name.startswith("polyloom") and name != "polyloom._native"]:
    del sys.modules[name]
import polyloom
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "rebuild it, with `make develop`" in result.stderr


@pytest.mark.parametrize(
    ("wrong", "told", "right"),
    [
        ("a[i] = i / n", "float(i) / float(n)", "a[i] = float(i) / float(n)"),
        ("a[i] = 2 * (i / n) + 1", "2.0 * (float(i) / float(n)) + 1.0", "a[i] = 2.0 * (float(i) / float(n)) + 1.0"),
        ("d[i] = i / n", "loom.float64(i) / loom.float64(n)", "d[i] = loom.float64(i) / loom.float64(n)"),
        ("s = 0.0; s += d[i]", "s = loom.float64(0.0)", "s = loom.float64(0.0); s += d[i]"),
        ("s = 0; s += a[i]", "s = 0.0", "s = 0.0; s += a[i]"),
        ("h = 1 / n; a[i] = h * 2.0", "h = 1.0 / float(n)", "h = 1.0 / float(n); a[i] = h * 2.0"),
        ("a[i] = np.sin(a[i])", "write `loom.sin`", "a[i] = loom.sin(a[i])"),
        ("a[i] = np.arctan2(a[i], 1.0)", "write `loom.atan2`", "a[i] = loom.atan2(a[i], 1.0)"),
        ("a[i] = np.where(True, a[i], 1.0)", "write `loom.where`", "a[i] = loom.where(True, a[i], 1.0)"),
        ("v = loom.ones(3)", "make arrays outside the kernel", "pass"),
        ("a[i] = p[i].dot(p[0])", "loom.dot(p[i], p[0])", "a[i] = loom.dot(p[i], p[0])"),
        ("a[i] = loom.norm(p[i])", "write `loom.length`", "a[i] = loom.length(p[i])"),
        ("p[i] = p[i] + 1.0", "loom.vec3(1.0)", "p[i] = p[i] + loom.vec3(1.0)"),
        ("p[i] = p[i] * n", "float(n)", "p[i] = p[i] * float(n)"),
        ("v = w + 1.0", "loom.vector(1.0, length=5, dtype=float)", "v = w + loom.vector(1.0, length=5, dtype=float)"),
        ("a[i] = loom.sqrt(i)", "float(i)", "a[i] = loom.sqrt(float(i))"),
        ("a[i] = loom.atan2(i, n)", "`float(i)` and `float(n)`", "a[i] = loom.atan2(float(i), float(n))"),
        ("loom.atomic_add(a, a[i], 1.0)", "int(a[i])", "loom.atomic_add(a, int(a[i]), 1.0)"),
        ("a[i] = f'{i}'", 'loom.printf("x = %f\\n", x)', 'x = a[i]; loom.printf("x = %f\\n", x)'),
    ],
)
def test_what_the_help_says_compiles(define, wrong, told, right):
    text = """
        @loom.kernel
        def k(n: int, a: loom.array(dtype=float), d: loom.array(dtype=loom.float64), p: loom.array(dtype=loom.vec3),
              w: loom.types.vector(length=5, dtype=float)):
            i = loom.tid()
            LINE
    """
    with pytest.raises(loom.CompileError) as caught:
        define(text.replace("LINE", wrong))
    assert [told in (d.help or "") for d in caught.value.diagnostics] == [True], caught.value.rendered
    define(text.replace("LINE", right.replace("\n", "\\n")))


def test_a_kernel_that_grows_beyond_the_limits_says_so_when_it_is_launched(define):
    # Each function calls the one before it twice, which makes 2**20 additions of the last.
    functions = [f"@loom.func\ndef f{n}(x: float):\n    return f{n - 1}(x) + f{n - 1}(x + 1.0)" for n in range(1, 20)]
    text = "\n".join(["@loom.func\ndef f0(x: float):\n    return x + 1.0", *functions])
    kernel = define(
        text
        + """
@loom.kernel
def k(a: loom.array(dtype=float)):
    a[0] = f19(a[0])
"""
    )["k"]
    with pytest.raises(loom.CompileError, match="grows beyond 50000 instructions by inlining") as caught:
        loom.launch(kernel, 1, [np.zeros(1, np.float32)])
    assert caught.value.diagnostics[0].help == "call it from fewer places, or from a loop"
    with pytest.raises(RuntimeError, match="grows beyond 50000 instructions by inlining"):
        kernel.asm()
    assert "f19(" in kernel.cuda()
