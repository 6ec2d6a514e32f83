"""Elementwise ops against NumPy and SciPy, and against the evaluator that defines them."""

import math

import numpy as np
import pytest
import scipy.special
from polyloom import ops
from tensor_arrays import FLOATS, INTEGERS, SHAPES, SPECIAL, assert_same_bits, evaluated, layouts, numbers

UNARY = {
    "absolute": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "gelu": lambda x: x * (1 + scipy.special.erf(x / math.sqrt(2))) / 2,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logical_not": np.logical_not,
    "negative": np.negative,
    "reciprocal": lambda x: 1.0 / x,
    "relu": lambda x: np.maximum(x, 0),
    "round": np.round,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": scipy.special.expit,
    "sign": np.sign,
    "silu": lambda x: x * scipy.special.expit(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "softplus": lambda x: np.logaddexp(x, 0),
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
BINARY = {
    "add": np.add,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "divide": np.divide,
    "equal": np.equal,
    "floor_divide": np.floor_divide,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "hypot": np.hypot,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "not_equal": np.not_equal,
    "power": np.power,
    "remainder": np.remainder,
    "subtract": np.subtract,
}
BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
# Beyond the largest finite number of float32 in NumPy's own formula.
NOT_SPECIAL = {"gelu", "silu"}


def assert_near(given, wanted, dtype):
    given, wanted = np.asarray(given), np.asarray(wanted)
    assert given.shape == wanted.shape
    if given.dtype.kind != "f":
        np.testing.assert_array_equal(given, wanted)
        return
    tolerance = {"float16": 2e-3, "float32": 4e-6, "float64": 2e-14}[np.dtype(dtype).name]
    np.testing.assert_allclose(given, wanted.astype(np.float64), rtol=tolerance, atol=tolerance / 4)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", FLOATS)
@np.errstate(all="ignore")
def test_functions_of_a_number(name, dtype):
    for shape in SHAPES:
        x = numbers(shape, dtype)
        wanted = UNARY[name](x.astype(np.float64))
        for view in layouts(x):
            given = getattr(ops, name)(view)
            assert given.dtype == (bool if wanted.dtype == bool else dtype)
            assert_near(given, wanted, dtype)
            assert_same_bits(given, evaluated(name, view))


@pytest.mark.parametrize("name", sorted(set(UNARY) - NOT_SPECIAL))
@pytest.mark.parametrize("dtype", FLOATS)
@np.errstate(all="ignore")
def test_functions_of_special_numbers(name, dtype):
    x = np.array(SPECIAL, dtype)
    wanted = UNARY[name](x.astype(np.float64)).astype(bool if name.startswith(("is", "logical")) else dtype)
    np.testing.assert_allclose(getattr(ops, name)(x), wanted, rtol=1e-5)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", FLOATS)
@np.errstate(all="ignore")
def test_functions_of_two_numbers(name, dtype):
    for first, second in [
        ((7,), (7,)),
        ((4, 5), (5,)),
        ((4, 1), (1, 6)),
        ((), (3,)),
        ((0, 3), (3,)),
        ((2, 1, 3), (5, 1)),
    ]:
        a, b = numbers(first, dtype, 1, 0.1), numbers(second, dtype, 2, 0.1)
        for left in layouts(a):
            for right in layouts(b):
                given = getattr(ops, name)(left, right)
                wanted = BINARY[name](left.astype(np.float64), right.astype(np.float64))
                if name in ("remainder", "floor_divide"):
                    wanted = BINARY[name](left, right)
                assert_near(given, wanted, dtype)
                assert_same_bits(given, evaluated(name, left, right))


@pytest.mark.parametrize("name", sorted(set(BINARY) - {"power"}))
@pytest.mark.parametrize("dtype", FLOATS)
@np.errstate(all="ignore")
def test_functions_of_two_special_numbers(name, dtype):
    a, b = np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype))
    wanted = BINARY[name](a, b)
    given = getattr(ops, name)(a, b)
    assert given.dtype == wanted.dtype
    np.testing.assert_allclose(given, wanted, rtol=1e-5)


@pytest.mark.parametrize("dtype", [*INTEGERS, bool])
@pytest.mark.parametrize("name", sorted(BINARY))
@np.errstate(all="ignore")
def test_functions_of_integers(name, dtype):
    if dtype is bool and name == "subtract":
        with pytest.raises(TypeError, match="`subtract`: `a` is bool"):
            ops.subtract(np.ones(2, bool), np.ones(2, bool))
        return
    a, b = numbers((4, 9), dtype, 3, -50, 50), numbers((9,), dtype, 4, -5, 5)
    if name == "power":
        b = np.abs(b)
    wanted = BINARY[name](a, b)
    given = getattr(ops, name)(a, b)
    assert given.dtype == wanted.dtype
    np.testing.assert_allclose(given.astype(np.float64), wanted.astype(np.float64), rtol=1e-3)
    assert_same_bits(given, evaluated(name, a, b))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", BITS)
def test_functions_of_bits(name, dtype):
    a, b = numbers((33,), dtype, 5, -50, 50), numbers((33,), dtype, 6, 0, 6)
    b = np.abs(b)
    np.testing.assert_array_equal(getattr(ops, name)(a, b), BITS[name](a, b))
    np.testing.assert_array_equal(ops.invert(a), ~a)


def test_results_have_the_types_of_numpy():
    dtypes = [bool, *INTEGERS, np.float16, *FLOATS]
    for first in dtypes:
        for second in dtypes:
            a, b = np.ones(3, first), np.ones(3, second)
            assert ops.add(a, b).dtype == np.result_type(a, b)
            assert ops.less(a, b).dtype == bool
        for number in [True, 2, 2.0]:
            assert ops.add(np.ones(3, first), number).dtype == np.add(np.ones(3, first), number).dtype
        assert ops.exp(np.ones(3, first)).dtype == np.exp(np.ones(3, first)).dtype


def test_python_numbers_take_the_type_of_tensors():
    x = np.arange(4, dtype=np.float32)
    for number in [2, 2.5, -1, True]:
        given = ops.multiply(x, number)
        assert given.dtype == np.float32
        np.testing.assert_array_equal(given, x * np.float32(number))
    with pytest.raises(OverflowError, match="`add`: 300 is out of range for uint8"):
        ops.add(np.ones(2, np.uint8), 300)
    assert ops.add(np.ones(2, np.uint8), 200)[0] == 201
    assert ops.add(np.float32(2), np.ones(2, np.float64)).dtype == np.float64


def test_where_clip_and_cast():
    x = numbers((5, 7), np.float32)
    np.testing.assert_array_equal(ops.where(ops.greater(x, 0.0), x, -1.0), np.where(x > 0, x, np.float32(-1)))
    np.testing.assert_array_equal(ops.clip(x, -1.0, 2.0), np.clip(x, -1, 2))
    np.testing.assert_array_equal(ops.clip(x, None, 2.0), np.clip(x, None, 2))
    np.testing.assert_array_equal(ops.clip(x, min=-1.0, max=None), np.clip(x, -1, None))
    with pytest.raises(ValueError, match="`lower` and `upper` are both None"):
        ops.clip(x, None, None)
    for dtype in [np.int32, "float64", np.dtype(np.uint8), float, bool]:
        given = ops.cast(np.abs(x), dtype)
        assert given.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(given, np.abs(x).astype(dtype))
    assert ops.cast(x, np.float32) is not x
    assert not np.shares_memory(ops.cast(x, np.float32), x)
    with pytest.raises(TypeError, match="`cast`: `dtype` is an element type such as np.float32, not 'quaternion'"):
        ops.cast(x, "quaternion")
