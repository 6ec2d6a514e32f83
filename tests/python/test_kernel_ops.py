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


def test_a_kernel_joins_the_group_of_a_fused_function():
    @loom.fuse
    def steps(x, s):
        y = differences(ops.multiply(x, s))
        return ops.sum(ops.absolute(y), keepdims=True)

    x = numbers((50,), np.float32)
    wanted = ops.sum(ops.absolute(differences(ops.multiply(x, 3.0))), keepdims=True)
    for _ in range(2):
        assert_same_bits(steps(x, 3.0), wanted)
    assert [group.calls for group in steps.groups] == [[0, 1, 2, 3]]
    assert "doubled" not in steps.explain() and "differences" in steps.explain()
    strict = loom.fuse(steps.__wrapped__, strict=True)
    assert_same_bits(strict(x, 3.0), wanted)
    # What the kernel does not take raises where it is called.
    with pytest.raises(ValueError, match="an array of 1 dimension"):
        steps(np.ones((3, 2), np.float32), 3.0)


def test_a_kernel_as_an_op_has_no_gradient():
    with pytest.raises(TypeError, match="`differences` is a kernel of the program, which has no gradient as an op"):
        loom.grad(lambda x: ops.sum(differences(x)))(np.ones(5, np.float32))


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
