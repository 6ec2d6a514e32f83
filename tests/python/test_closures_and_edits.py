"""Closure variables that are not set yet, and files that are edited after they were loaded."""

import importlib
import sys

import numpy as np
import polyloom as loom
import pytest

C = 1.0
FloatArray = loom.array(dtype=float)


@loom.func
def helper(x: float):
    return x


def _first(kernel):
    out = np.zeros(1, np.float32)
    loom.launch(kernel, 1, [out])
    return out[0]


def test_an_unset_closure_variable_is_not_the_global():
    @loom.kernel
    def k(o: FloatArray):
        o[0] = C

    with pytest.raises(loom.CompileError, match="`C` is a variable that the function around it has not set yet"):
        _first(k)
    C = 5.0
    assert _first(k) == 5.0


def test_an_unset_closure_function_is_not_the_global():
    @loom.kernel
    def k(o: FloatArray):
        o[0] = helper(1.0)

    with pytest.raises(loom.CompileError, match="not set yet"):
        _first(k)

    @loom.func
    def helper(x: float):
        return 5.0

    assert _first(k) == 5.0


def test_a_closure_variable_set_before_the_first_use_has_its_value():
    @loom.func
    def f(x):
        return x + C

    @loom.func
    def by_static(x):
        return x + loom.static(C)

    C = 5.0

    @loom.kernel
    def k(o: FloatArray):
        o[0] = f(0.0)

    @loom.kernel
    def k_static(o: FloatArray):
        o[0] = by_static(0.0)

    assert (_first(k), _first(k_static)) == (5.0, 5.0)


TEXT = """import polyloom as loom
def make():
    @loom.kernel
    def k(x: loom.array(dtype=float)):
        x[0] = 3.0
    return k
def make2():
    @loom.kernel
    def k(x: loom.array(dtype=float)):
        x[0] = 50.0
    return k
"""
HEAD = TEXT[: TEXT.index("def make()")]
MAKE = TEXT[len(HEAD) : TEXT.index("def make2")]
MAKE2 = TEXT[len(HEAD) + len(MAKE) :]


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "polyloom_edited_module.py"
    path.write_text(TEXT)
    importlib.invalidate_caches()
    yield importlib.import_module(path.stem), path
    del sys.modules[path.stem]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT.replace("3.0", "4.0"), id="body"),
        pytest.param(TEXT.replace("= 3.0", "= 3.0 + 1.0"), id="longer body"),
        pytest.param(TEXT.replace("dtype=float", "dtype=int"), id="annotation"),
        pytest.param(TEXT.replace("@loom.kernel", "@loom.kernel(check=True)"), id="decorator"),
        pytest.param(HEAD + MAKE.replace("make", "make0").replace("3.0", "7.0") + MAKE + MAKE2, id="another above"),
        pytest.param(HEAD + MAKE2 + MAKE, id="swapped"),
        pytest.param(HEAD + MAKE2, id="removed"),
        pytest.param(HEAD + "\n" + MAKE + MAKE2, id="moved"),
        pytest.param(HEAD, id="emptied"),
    ],
)
def test_an_edited_file_is_refused(loaded, text):
    module, path = loaded
    path.write_text(text)
    with pytest.raises(RuntimeError, match="has changed since it was loaded"):
        module.make()


@pytest.mark.parametrize("text", [TEXT, TEXT + "\n\nX = 1\n", TEXT.replace("50.0", "60.0")])
def test_edits_elsewhere_in_a_file_do_no_harm(loaded, text):
    module, path = loaded
    assert _first(module.make()) == 3.0
    path.write_text(text)
    assert _first(module.make()) == 3.0


LAMBDAS = """import polyloom as loom

first = lambda a: a + 2.0
second = lambda a: a + 50.0
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LAMBDAS.replace("2.0", "7.0"), id="number"),
        pytest.param(LAMBDAS.replace("a + 2.0", "a * 10.0"), id="body"),
        pytest.param(LAMBDAS.replace("first = lambda a: a + 2.0\n", ""), id="removed"),
        pytest.param("\n" + LAMBDAS, id="moved"),
    ],
)
def test_a_lambda_of_an_edited_file_is_refused(tmp_path, monkeypatch, text):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "polyloom_edited_lambdas.py"
    path.write_text(LAMBDAS)
    importlib.invalidate_caches()
    module = importlib.import_module(path.stem)
    try:
        path.write_text(text)
        with pytest.raises(RuntimeError, match="has changed since it was loaded"):
            loom.map(module.first, np.ones(1, np.float32))
    finally:
        del sys.modules[path.stem]
