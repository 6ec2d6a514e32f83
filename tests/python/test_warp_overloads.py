"""Every overload of Warp's builtins that Polyloom has: a call with these types compiles."""

import importlib.util
from typing import Any

import polyloom
import pytest

pytest.importorskip("warp", reason="Warp says which overloads there are: pip install warp-lang==1.19.0")

OUT_OF_SCOPE = {"Tile Primitives", "Geometry", "Volumes", "Textures"}
# Their arguments are no values of a type.
SPECIAL = {"tid", "printf", "print", "static"}
PYTHON_TYPES = {"int": "int32", "float": "float32", "bool": "bool"}


def type_name(kind: Any) -> str:
    """The name of a type of values; of other types, one that Polyloom does not have."""
    name = getattr(kind, "__name__", "")
    return PYTHON_TYPES.get(name, name)


def calls() -> list[tuple[str, list[str]]]:
    """Names of builtins, each with the types of an overload's parameters."""
    from warp._src.context import builtin_functions

    found = []
    for name, function in builtin_functions.items():
        if function.group in OUT_OF_SCOPE or name in SPECIAL or not hasattr(polyloom, name):
            continue
        for overload in getattr(function, "overloads", None) or [function]:
            types = [type_name(kind) for kind in overload.input_types.values()]
            known = all(kind and isinstance(getattr(polyloom, kind, None), type) for kind in types)
            if known and not overload.variadic:
                found.append((name, types))
    return found


def source(number: int, name: str, types: list[str]) -> str:
    params = ", ".join(f"x{i}: wp.{kind}" for i, kind in enumerate(types))
    variables = [f"    y{i} = x{i}" for i in range(len(types))]
    call = f"    wp.{name}({', '.join(f'y{i}' for i in range(len(types)))})"
    return "\n".join(["import polyloom as wp", "", "@wp.kernel", f"def k{number}({params}):", *variables, call, ""])


def test_overloads_of_warp_compile(tmp_path):
    refused = []
    tried = calls()
    for number, (name, types) in enumerate(tried):
        path = tmp_path / f"overload{number}.py"
        path.write_text(source(number, name, types))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        try:
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        except polyloom.CompileError as error:
            refused.append(f"{name}({', '.join(types)}): {str(error).splitlines()[0]}")
    assert len(tried) > 1000
    assert not refused, "\n".join(refused)
