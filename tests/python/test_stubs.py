"""Type checkers know the package's names and what they give."""

import re

import pytest

api = pytest.importorskip("mypy.api", reason="mypy is not installed")

REVEALED = {
    "v": "vec3",
    "v + v": "vec3",
    "v * 2": "vec3",
    "v.x": "float",
    "loom.vec3d(v)": "vec3d",
    "loom.dot(v, v)": "float",
    "loom.normalize(v)": "vec3",
    "loom.transpose(loom.mat22())": "Matrix",
    "loom.quat_identity()": "Quaternion",
    "loom.types.vector(length=5, dtype=float)": "type[Vector]",
    "loom.zeros(3, dtype=loom.vec3)": "array",
    "loom.sqrt(2.0)": "float",
    # One index, or as many as it is unpacked to.
    "loom.tid()": "Any",
}


def test_types_are_known(tmp_path):
    program = tmp_path / "program.py"
    lines = ["import polyloom as loom", "", "v: loom.vec3 = loom.vec3(1, 2, 3)"]
    lines += [f"reveal_type({expression})" for expression in REVEALED]
    program.write_text("\n".join([*lines, "loom.vec3f", "loom.no_such_name", ""]))
    report, errors, _ = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(program)])
    assert not errors
    revealed = [re.sub(r"[a-z_]+\.", "", name) for name in re.findall('Revealed type is "(.*)"', report)]
    assert revealed == list(REVEALED.values())
    (wrong,) = re.findall("error: (.*)", report)
    assert "no_such_name" in wrong
