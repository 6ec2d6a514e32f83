"""Scalar types as classes, and their instances as numbers. Results are Warp 1.19's, NumPy's or C's."""

from __future__ import annotations

import copy
import ctypes
import math
import operator
import pickle

import numpy as np
import polyloom as loom
import pytest

INTEGERS = [loom.int8, loom.int16, loom.int32, loom.int64, loom.uint8, loom.uint16, loom.uint32, loom.uint64]
FLOATS = [loom.float16, loom.bfloat16, loom.float32, loom.float64]
ALL = [loom.bool, *INTEGERS, *FLOATS]


@pytest.mark.parametrize("dtype", ALL, ids=lambda dtype: dtype.__name__)
def test_types_are_classes_with_names(dtype):
    assert isinstance(dtype, type) and isinstance(dtype(1), dtype)
    assert dtype.__name__ == dtype.name and repr(dtype) == f"polyloom.{dtype.name}"
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    assert len({dtype, dtype}) == 1 and dtype._length_ == 1
    value = dtype(1)
    assert pickle.loads(pickle.dumps(value)) == value and type(copy.copy(value)) is dtype
    assert not dtype() and not dtype(0) and value
    assert not hasattr(value, "numpy")


def test_numpy_takes_the_types():
    for dtype in [loom.bool, *INTEGERS, loom.float16, loom.float32, loom.float64]:
        assert np.dtype(dtype) == np.dtype(dtype.name)
        assert np.zeros(2, dtype).dtype == np.dtype(dtype.name)
    assert np.float32(2) * loom.float32(1.5) == np.float32(3)
    np.testing.assert_array_equal(np.array([1.0, 2.0]) * loom.float32(2), [2.0, 4.0])
    np.testing.assert_array_equal(loom.int32(2) * np.array([1, 2]), [2, 4])


def test_ctypes_attributes():
    assert loom.int32._type_ is ctypes.c_int32 and loom.uint8._type_(300).value == 44
    assert loom.float32._type_ is ctypes.c_float and loom.vec3._type_ is ctypes.c_float
    assert ctypes.c_int(loom.int8(5)).value == 5 and ctypes.c_float(loom.float16(0.5)).value == 0.5
    assert loom.types.type_ctype(loom.vec3) is ctypes.c_float * 3


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("value", [300, -1, 2**31, 2**63, -(2**63) - 1, 2**70 + 5])
def test_integers_wrap_as_in_c(dtype, value):
    assert dtype(value).value == dtype._type_(value).value


def test_floats_become_integers_as_kernels_cast():
    assert loom.int32(1.9).value == 1 and loom.int32(-1.9).value == -1
    assert loom.uint8(1e9).value == 255 and loom.uint8(-3.0).value == 0
    assert loom.int64(1e30).value == 2**63 - 1 and loom.int32(math.nan).value == 0


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("float32(1) + float32(2)", 3.0),
        ("float16(1) / float16(3)", ("float16", 0.333251953125)),
        ("int8(100) + int8(100)", ("int8", -56)),
        ("uint8(1) - uint8(2)", ("uint8", 255)),
        ("uint64(2**64 - 1) + uint64(1)", ("uint64", 0)),
        ("int32(7) / int32(2)", 3),
        ("int32(-7) / int32(2)", -3),
        ("int32(-7) % int32(3)", -1),
        ("float32(-7.5) % float32(3)", -1.5),
        ("float32(2) ** float32(3)", 8.0),
        ("int32(-7) // int32(2)", -4),
        ("int32(6) & int32(3)", 2),
        ("uint8(1) << uint8(7)", ("uint8", 128)),
        ("~uint8(1)", ("uint8", 254)),
        ("-int8(-128)", ("int8", -128)),
        ("-uint8(3)", ("uint8", 253)),
        ("+int16(4)", ("int16", 4)),
        ("abs(int8(-5))", ("int8", 5)),
        ("round(float32(2.567), 1)", ("float32", 2.6)),
        ("uint8(200) + 100", ("uint8", 44)),
        ("100 - uint8(200)", ("uint8", 156)),
        ("2 ** float64(3)", ("float64", 8.0)),
        ("float32(1) / float32(0)", math.inf),
        ("int64(2**40) + int64(1)", ("int64", 2**40 + 1)),
    ],
)
def test_arithmetic(expression, result):
    found = eval(expression, vars(loom) | {"abs": abs, "round": round})
    if isinstance(result, tuple):
        assert type(found).__name__ == result[0] and found.value == result[1]
    else:
        assert type(found) is type(result) and found == result


def test_operands_of_other_types_are_refused():
    for a, b in [(loom.int8(1), loom.int16(1)), (loom.float32(1), loom.int32(1)), (loom.int32(1), 1.5)]:
        with pytest.raises(TypeError):
            a + b
    with pytest.raises(TypeError):
        loom.bool(True) + loom.bool(True)
    for op in (operator.truediv, operator.floordiv, operator.mod):
        with pytest.raises(ZeroDivisionError):
            op(loom.int32(1), loom.int32(0))
    with pytest.raises(OverflowError):
        loom.uint8(5) + 300
    for wrong in ("3", None, [1]):
        with pytest.raises(TypeError):
            loom.float32(wrong)


def test_comparison_truth_and_hash_are_of_numbers():
    assert loom.int32(1) == 1 == loom.int32(1) and loom.int32(1) in [1, 2] and loom.int32(1) != 1.5
    assert loom.int8(1) == loom.float32(1.0) and loom.float32(0.1) == 0.1
    assert loom.int32(1) < 1.5 < loom.int32(2) and loom.int32(3) > loom.float32(2.5) and loom.int32(1) <= 1
    assert loom.bool(True) == True and loom.bool(False) != loom.bool(True)  # noqa: E712 - what is compared
    assert not loom.int32(0) and not loom.bool(False) and loom.float16(0.5)
    assert len({loom.int8(1), 1, loom.float64(1), loom.bool(True)}) == 1
    assert loom.int32(1) != "1" and loom.int32(1) != None  # noqa: E711 - what is compared
    assert loom.int32(1) < math.inf and np.float16(1.5) > loom.int8(1)
    with pytest.raises(TypeError):
        assert loom.int32(1) < "2"


def test_conversions():
    assert (int(loom.float32(2.5)), float(loom.int8(3)), str(loom.uint8(300))) == (2, 3.0, "44")
    assert f"{loom.float32(0.1):.3f} {loom.int32(5):03d} {loom.int8(3)}" == "0.100 005 3"
    assert range(3)[loom.int32(1)] == 1 and repr(loom.int8(3)) == "polyloom.int8(3)"
    with pytest.raises(TypeError):
        range(3)[loom.float32(1)]


def test_a_captured_number_keeps_its_type_after_arithmetic():
    scale = loom.float64(0.1) * 3

    @loom.kernel
    def scaled(x: loom.array(dtype=loom.float64)):
        x[loom.tid()] = scale

    x = np.zeros(1)
    loom.launch(scaled, 1, [x])
    assert x[0] == 0.1 * 3


def test_vectors_wrap_and_take_remainders():
    assert loom.vec3ub(-2) == (254, 254, 254) and loom.vec3ub(300, 1, 2) == (44, 1, 2)
    assert loom.vec3ub(1, 2, 3) - loom.vec3ub(2, 2, 2) == (255, 0, 1)
    v = loom.vec3ub()
    v[0], v[1:] = -1, (256, 257)
    assert v == (255, 0, 1)
    assert loom.vec3i(5, 7, -9) % loom.vec3i(2, 3, 4) == (1, 1, -1) and loom.vec3i(5, 7, 9) % 2 == (1, 1, 1)
    assert loom.vec3(5.5, 7, -9) % 2.0 == (1.5, 1, -1)
    with pytest.raises(ZeroDivisionError):
        loom.vec3i(1, 2, 3) % 0
    assert loom.types.vector(3, bool)(0, 1, 2) == (False, True, True)
    assert loom.transform(1.0) == (1,) * 7 and loom.quat(2.0) == (2,) * 4
    with pytest.raises(OverflowError):  # of a launch's arguments none wraps
        take_bytes(loom.vec3ub, (1, 2, 300))


def take_bytes(dtype, value):
    @loom.kernel
    def take(v: dtype, x: loom.array(dtype=int)):
        x[0] = int(v[0])

    loom.launch(take, 1, [value, np.zeros(1, np.int32)])


def test_vectors_take_attributes_and_print_with_few_digits():
    v = loom.vec3(0.1, 1e-4, 1 / 3)
    v.foo = 123
    assert v.foo == 123
    for name in ("w", "xy", "zyx"):
        with pytest.raises(AttributeError, match=f"'vec3' object has no attribute '{name}'"):
            setattr(v, name, 1)
    assert repr(v) == "vec3([0.1, 0.0001, 0.33333334])" and str(v) == "[0.1, 0.0001, 0.33333334]"
    assert f"{v:.3f}" == "[0.100, 0.000, 0.333]" and f"{loom.mat22(0.1):.1f}" == "[[0.1, 0.1],\n [0.1, 0.1]]"
    assert repr(loom.vec2d(0.1, 1 / 3)) == "vec2d([0.1, 0.3333333333333333])"
    assert str(loom.mat22(0.1, 0.2, 0.3, 0.4)) == "[[0.1, 0.2],\n [0.3, 0.4]]"
    assert str(loom.vec2h(0.1)) == "[0.1, 0.1]" and v[0] == np.float32(0.1)
