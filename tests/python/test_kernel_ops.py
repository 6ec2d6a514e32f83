"""The program's own kernels as ops, alone and in groups."""

import numpy as np
import polyloom as loom
import pytest
from polyloom import _native, ops
from tensor_arrays import assert_same_bits, numbers


@loom.op(shape=lambda x: (x.shape[0] - 1,))
@loom.kernel
def differences(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = x[i + 1] - x[i]


@loom.kernel
def scale(s: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = s * x[i]


def test_a_kernel_makes_its_result():
    x = numbers((50,), np.float32)
    np.testing.assert_array_equal(differences(x), np.diff(x))
    scaled = loom.op(scale, shape="x")
    np.testing.assert_array_equal(scaled(2.0, x), 2 * x)
    given = scaled(2.0, loom.array(x))
    assert isinstance(given, loom.array)
    assert "scale" in scaled.__doc__


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="its argument 'x' is an array of float32, not of float64"):
        differences(np.ones(3))
    with pytest.raises(ValueError, match="an array of 1 dimension"):
        differences(np.ones((3, 2), np.float32))


def test_a_kernel_joins_a_group():
    calls = [
        ("multiply", [("in", 0), ("in", 1)], {}),
        (differences, [("call", 0)], {}),
        ("absolute", [("call", 1)], {}),
        ("sum", [("call", 2)], {"keepdims": ("const", True)}),
        ("add", [("call", 3), ("call", 2)], {}),
    ]
    group = _native.FusionGroup("path", calls, [0, 4])
    for n in [10, 1000]:
        x = numbers((n,), np.float32, n)
        first, second = group(x, 3.0)
        product = ops.multiply(x, 3.0)
        steps = ops.absolute(differences(product))
        assert_same_bits(first, product)
        assert_same_bits(second, ops.add(ops.sum(steps, keepdims=True), steps))
    assert group(x.astype(np.float64), 3.0) is None
    assert group.check(0, x, 3.0)
    assert not group.check(0, x, "x")
    assert group.check(1, x, 3.0)
    assert group.check(4, x, 3.0)
