"""Questions about types and values, answered as Warp 1.19 answers them."""

from __future__ import annotations

import numpy as np
import polyloom as loom
import pytest
from polyloom import types

KINDS = {
    "int": [int, loom.int32, loom.uint64],
    "float": [float, loom.float16, loom.float32],
    "vector": [loom.vec3, loom.vec2i, types.vector(8, loom.uint8)],
    "matrix": [loom.mat22, types.matrix((5, 5), loom.float64)],
    "quaternion": [loom.quat, loom.quath],
    "transformation": [loom.transform, loom.transformd],
}
COMPOSITES = ("vector", "matrix", "quaternion", "transformation")


@loom.struct
class Particle:
    position: loom.vec3
    mass: float


@pytest.mark.parametrize(("kind", "dtype"), [(kind, each) for kind, dtypes in KINDS.items() for each in dtypes])
def test_kinds(kind, dtype):
    for other in KINDS:
        assert getattr(types, f"type_is_{other}")(dtype) == (other == kind)
        assert getattr(types, f"is_{other}")(dtype(1)) == (other == kind)
        assert not getattr(types, f"is_{other}")(dtype)
        assert not getattr(types, f"type_is_{other}")(dtype(1))
    is_composite = kind in COMPOSITES
    assert types.type_is_scalar(dtype) == types.is_scalar(dtype(1)) == (not is_composite)
    assert types.type_is_composite(dtype) == types.is_composite(dtype(1)) == is_composite
    assert types.type_is_value(dtype) and types.is_value(dtype(1))
    assert not types.type_is_struct(dtype) and not types.type_is_array(dtype) and not types.type_is_tile(dtype)


def test_structs_and_arrays():
    assert types.type_is_struct(Particle) and types.is_struct(Particle()) and not types.is_struct(Particle)
    assert types.type_is_array(loom.array) and types.type_is_array(loom.indexedarray)
    assert types.is_array(loom.zeros(1)) and types.is_array(loom.array(dtype=int)) and not types.is_array(np.zeros(1))
    indexed = loom.indexedarray(loom.zeros(3), [loom.array([0, 2], dtype=int)])
    assert types.is_array(indexed) and not types.is_struct(indexed)


def test_sizes():
    assert (types.type_size(loom.vec3), types.type_size(loom.mat33), types.type_size(float)) == (3, 9, 1)
    assert (types.type_size_in_bytes(loom.vec3), types.type_size_in_bytes(loom.quatd)) == (12, 32)
    assert (types.type_size_in_bytes(Particle), types.type_size(Particle)) == (16, 1)


def test_names_and_equality():
    assert types.type_repr(loom.array(dtype=float)) == "array(ndim=1, dtype=float32)"
    assert types.type_repr(loom.float32) == "float32" and types.type_repr(float) == "float"
    assert types.type_repr(Particle).endswith(".Particle")
    assert types.types_equal(float, loom.float32) and not types.types_equal(int, loom.int64)
    assert types.types_equal(loom.array(dtype=float), loom.array(dtype=loom.float32))
    assert not types.types_equal(loom.array(dtype=float), loom.array(dtype=float, ndim=2))
    assert types.types_equal(loom.vec3, types.vector(3, float))


def test_annotations_are_values():
    a, b = loom.array(dtype=loom.vec3, ndim=2), loom.array(dtype=loom.vec3, ndim=2)
    assert a == b and hash(a) == hash(b) and a != loom.array(dtype=loom.vec3) and a != 1
    assert (a | None).__args__ == (a, type(None)) and (float | a).__args__ == (float, a)
