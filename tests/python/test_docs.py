"""Examples in docstrings run and print what they say."""

import doctest
import importlib

import polyloom as loom
import pytest
from polyloom import _native


@pytest.mark.parametrize(
    "module",
    [
        "polyloom",
        "polyloom._arrays",
        "polyloom._builtins",
        "polyloom._compatibility",
        "polyloom._composites",
        "polyloom._kernel",
        "polyloom.types",
    ],
)
def test_module(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def test_launch():
    finder = doctest.DocTestParser()
    test = finder.get_doctest(_native.launch.__doc__, {"loom": loom}, "launch", None, None)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_every_builtin_is_there_and_documented():
    for name, doc in _native.builtins():
        assert doc
        assert callable(getattr(loom, name))
        with pytest.raises(TypeError, match="inside a kernel|no overload"):
            getattr(loom, name)()
