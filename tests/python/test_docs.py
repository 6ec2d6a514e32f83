"""Examples in docstrings run and print what they say."""

import doctest
import importlib
import pathlib

import polyloom as loom
import pytest
from polyloom import _builtins, _native


@pytest.mark.parametrize(
    "module",
    [
        "polyloom._arrays",
        "polyloom._creation",
        "polyloom._custom",
        "polyloom._devices",
        "polyloom._builtins",
        "polyloom._compatibility",
        "polyloom._composites",
        "polyloom._grad",
        "polyloom._interop",
        "polyloom._kernel",
        "polyloom._kernel_op",
        "polyloom._planner",
        "polyloom._tangents",
        "polyloom._tape",
        "polyloom.autograd",
        "polyloom.ops",
        "polyloom.types",
    ],
)
def test_module(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("package", ["torch", "jax"])
def test_module_of_another_package(package):
    pytest.importorskip(package, reason=f"{package} is not installed")
    result = doctest.testmod(importlib.import_module(f"polyloom.{package}"))
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
        with pytest.raises(TypeError, match="inside a kernel|Couldn't find a function|no overload"):
            getattr(loom, name)()


def test_what_the_op_table_has_not_is_in_the_guide():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "guide" / "basics.md").read_text(encoding="utf-8")
    known = {name for name, _ in _native.builtins()}
    constants = {name for name, value in vars(loom).items() if isinstance(value, float) and name.islower()}
    builtins = set(_builtins.__all__) - known
    assert {"pi", "nan"} < constants and {"tid", "printf", "cast"} < builtins
    missing = [name for name in sorted(constants | builtins) if f"`{name}`" not in page and f"loom.{name}" not in page]
    assert not missing
