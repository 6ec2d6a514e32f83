"""Functions that are defined anew in one namespace, as in a notebook: what ran before is gone, overloads stay."""

import itertools
import linecache
import textwrap

import numpy as np
import polyloom as loom
import pytest

_numbers = itertools.count(1)


class Notebook:
    """A namespace in which cells run, each text of its own under a file name of its own."""

    def __init__(self):
        self.names = {"loom": loom, "np": np, "__name__": "__main__"}
        self.files = {}

    def run(self, cell):
        text = textwrap.dedent(cell).lstrip("\n")
        file = self.files.setdefault(text, f"<cell {next(_numbers)}>")
        linecache.cache.setdefault(file, (len(text), None, text.splitlines(True), file))
        exec(compile(text, file, "exec"), self.names)

    def result(self, call, dtype="float"):
        self.run(f"""
            @loom.kernel
            def k(o: loom.array(dtype={dtype})):
                o[0] = {call}
        """)
        o = loom.zeros(1, dtype=eval(dtype, {"loom": loom}))
        loom.launch(self.names["k"], 1, [o])
        return o.numpy()[0]


INT = """
    @loom.func
    def f(x: int):
        return 1.0
"""
FLOAT = """
    @loom.func
    def f(x: float):
        return 2.0
"""
BOTH = INT + FLOAT.replace("2.0", "3.0")


def test_an_edited_cell_leaves_no_overload():
    notebook = Notebook()
    notebook.run(INT)
    assert notebook.result("f(4)") == 1
    notebook.run(FLOAT)
    assert notebook.result("f(4.0)") == 2
    assert notebook.result("f(4)") == 2
    with pytest.raises(loom.CompileError):
        notebook.result("f(int(o[0]))")


def test_overloads_of_one_cell_stay():
    notebook = Notebook()
    for _ in range(3):
        notebook.run(BOTH)
        assert (notebook.result("f(4)"), notebook.result("f(4.0)")) == (1, 3)
    notebook.run(FLOAT)
    with pytest.raises(loom.CompileError):
        notebook.result("f(int(o[0]))")
    notebook.run(BOTH)
    assert (notebook.result("f(int(o[0]))"), notebook.result("f(o[0])")) == (1, 3)


def test_overloads_that_a_loop_makes_stay():
    notebook = Notebook()
    cell = """
        for T in TYPES:
            @loom.func
            def f(x: T):
                return x + T(1)
    """
    notebook.names["TYPES"] = [int, float]
    notebook.run(cell)
    assert notebook.result("float(f(int(o[0])))") == 1
    assert notebook.result("f(o[0])") == 1
    # The same text, run when its names mean something else.
    notebook.names["TYPES"] = [loom.float64, float]
    notebook.run(cell)
    assert notebook.result("f(o[0])", "loom.float64") == 1
    assert notebook.result("f(o[0])") == 1
    with pytest.raises(loom.CompileError):
        notebook.result("float(f(int(o[0])))")


def test_a_cell_run_again_with_another_meaning_of_its_types():
    notebook = Notebook()
    cell = """
        @loom.func
        def f(x: T):
            return 5.0
    """
    notebook.names["T"] = int
    notebook.run(cell)
    notebook.names["T"] = float
    notebook.run(cell)
    assert notebook.result("f(o[0])") == 5
    with pytest.raises(loom.CompileError):
        notebook.result("f(int(o[0]))")


def test_functions_of_other_namespaces_gain_overloads():
    library, notebook = Notebook(), Notebook()
    library.run(INT)
    notebook.names["f"] = library.names["f"]
    notebook.run(FLOAT)
    assert (notebook.result("f(int(o[0]))"), notebook.result("f(o[0])")) == (1, 2)


def test_a_kernel_keeps_what_it_was_compiled_with():
    notebook = Notebook()
    notebook.run(INT)
    notebook.run("""
        @loom.kernel
        def before(o: loom.array(dtype=float)):
            o[0] = f(3)
    """)
    notebook.run(FLOAT)
    o = np.zeros(1, np.float32)
    loom.launch(notebook.names["before"], 1, [o])
    assert o[0] == 1
