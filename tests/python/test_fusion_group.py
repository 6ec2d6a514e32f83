"""Groups of calls that run as one: values, plans that are found again, guards, and what is refused."""

import gc
import threading
import types
import weakref

import numpy as np
import polyloom as loom
import pytest
from polyloom import _native, ops
from tensor_arrays import assert_same_bits, numbers

CHAIN = [
    ("add", [("in", 0), ("in", 1)], {}),
    ("relu", [("call", 0)], {}),
    ("multiply", [("call", 1), ("in", 2)], {}),
]


def chain(outputs=(2,), guards=()):
    return _native.FusionGroup("chain", CHAIN, list(outputs), list(guards))


def plain(a, b, c):
    return ops.multiply(ops.relu(ops.add(a, b)), c)


def test_a_group_gives_the_bits_of_its_calls():
    group = chain()
    for shape in [(5,), (1000,), (3, 4), (0,), ()]:
        a, b, c = (numbers(shape, np.float32, seed) for seed in range(3))
        assert_same_bits(group(a, b, c), plain(a, b, c))
    assert_same_bits(group(a, b, 2.0), plain(a, b, 2.0))
    first, second = chain((0, 2))(a, b, c)
    assert_same_bits(first, ops.add(a, b))
    assert_same_bits(second, plain(a, b, c))


def test_plans_are_found_by_types_and_numbers_are_given_at_each_run():
    group = chain()
    a = numbers((7,), np.float32)
    for number in [1.0, 2.0, 3.5]:
        assert_same_bits(group(a, a, number), plain(a, a, number))
    assert group.cache_info() == (2, 1, 1)
    group(a, a, 2)
    group(a[::-1], a, 2)
    group(a.astype(np.float64), a, 2)
    assert group.cache_info() == (2, 4, 4)
    group.cache_clear()
    assert group.cache_info()[2] == 0
    assert_same_bits(group(a, a, 2.0), plain(a, a, 2.0))


def test_the_number_of_plans_is_bounded():
    group = chain()
    for n in range(1, 200):
        a = np.ones(n, np.float32)
        assert group(a, a, a).shape == (n,)
    assert group.cache_info()[2] == 64


def test_attributes_may_be_values():
    calls = [("sum", [("in", 0)], {"axis": ("in", 1), "keepdims": ("const", True)})]
    group = _native.FusionGroup("sums", calls, [0])
    x = numbers((3, 4, 5), np.float64)
    for axis in [0, 1, (0, 2), [1, 2], None, np.int64(2), -1]:
        key = tuple(axis) if isinstance(axis, list) else axis
        np.testing.assert_allclose(group(x, axis), x.sum(axis=key, keepdims=True))
    axes = [0, 1]
    group(x, axes)
    axes[1] = 2
    np.testing.assert_allclose(group(x, axes), x.sum(axis=(0, 2), keepdims=True))
    assert group(x, 9) is None
    assert group(x, "x") is None


def test_what_does_not_fit_is_refused_and_nothing_raises():
    group = chain()
    a = np.ones((2, 3), np.float32)
    for refused in [a[:, :2], "x", [1, 2], None, np.ones(3, "U1"), object()]:
        for _ in range(2):
            assert group(a, refused, a) is None
    small = np.ones(3, np.uint8)
    assert group(small, 2, 255) is not None
    assert group(small, 2, 300) is None
    with pytest.raises(TypeError, match="the group takes 3 values, not 2"):
        group(a, a)


def test_lists_of_operands():
    joined = ("concat", [("list", [("in", 0), ("in", 1), ("in", 0)])], {"axis": ("const", 0)})
    calls = [joined, ("exp", [("call", 0)], {})]
    a, b = numbers((2,), np.float32), numbers((3,), np.float32)
    assert_same_bits(_native.FusionGroup("joined", calls, [1])(a, b), ops.exp(np.concatenate([a, b, a])))


def test_guards():
    space = types.SimpleNamespace(relu=ops.relu)
    table = {"relu": ops.relu}
    cell = (lambda x: lambda: x)(ops.relu).__closure__[0]
    guards = [(space, "relu", ops.relu), (table, "relu", ops.relu), (cell, None, ops.relu)]
    group = chain(guards=guards)
    a = np.ones(3, np.float32)
    assert group(a, a, a) is not None
    table["relu"] = len
    assert group(a, a, a) is None
    assert not group.check(0, a, a)
    del table["relu"]
    assert group(a, a, a) is None
    table["relu"] = ops.relu
    assert group(a, a, a) is not None
    cell.cell_contents = len
    assert group(a, a, a) is None
    cell.cell_contents = ops.relu
    space.relu = None
    assert group(a, a, a) is None


def test_a_group_that_guards_what_holds_it_is_collected():
    module = types.ModuleType("program")
    module.group = chain(guards=[(module, "name", 1)])
    alive = weakref.ref(module)
    del module
    gc.collect()
    assert alive() is None


def test_check_tells_what_calls_up_to_one_would_take():
    group = chain()
    a = np.ones((2, 3), np.float32)
    assert group.check(0, a, a[0])
    assert not group.check(0, a, a[:, :2])
    assert not group.check(0, a, "x")
    assert group.check(1, a, a)
    assert group.check(2, a, a, 1.0)
    assert not group.check(2, a, a, [1.0])
    assert group.check(2, a, a, a)
    assert not group.check(2, a, a, a[:, :2])


def test_arrays_of_the_package():
    group = chain()
    a = loom.array([1.0, -2.0, 3.0])
    given = group(a, a, a)
    assert isinstance(given, loom.array)
    assert given.dtype is loom.float32
    np.testing.assert_array_equal(given.numpy(), [2.0, 0.0, 18.0])
    assert isinstance(group(a, np.ones(3, np.float32), 2.0), loom.array)
    view = ops.reshape(a, (3, 1))
    assert isinstance(view, loom.array)
    view[0, 0] = 7.0
    assert a[0] == 7.0
    loom.launch(_twice, 3, [given])
    assert given[0] == 4.0
    vectors = loom.zeros(3, dtype=loom.vec3)
    with pytest.raises(TypeError, match="`add`: `a` is an array of vectors or matrices"):
        ops.add(vectors, 1.0)


@loom.kernel
def _twice(x: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = 2.0 * x[i]


def test_arrays_of_other_kinds():
    a = numbers((4, 5), np.float32)
    wanted = ops.exp(a)
    foreign = a.astype(a.dtype.newbyteorder())
    assert_same_bits(ops.exp(foreign), wanted)
    packed = np.zeros((4, 5), np.dtype([("flag", "u1"), ("x", "f4")]))
    packed["x"] = a
    assert not packed["x"].flags.aligned
    assert_same_bits(ops.exp(packed["x"]), wanted)
    assert_same_bits(ops.exp(np.asmatrix(a)), wanted)
    assert type(ops.exp(np.asmatrix(a))) is np.ndarray
    with pytest.raises(TypeError, match="`exp`: `x` is a masked array"):
        ops.exp(np.ma.array(a))
    with pytest.raises(TypeError, match="`exp`: `x` has elements of type complex64"):
        ops.exp(a.astype(np.complex64))
    with pytest.raises(TypeError, match="`exp`: `x` is list, not a tensor or a number"):
        ops.exp([1.0])


def test_overlapping_arguments_are_fine():
    x = numbers((100,), np.float64)
    np.testing.assert_array_equal(ops.add(x[1:], x[:-1]), x[1:] + x[:-1])
    np.testing.assert_array_equal(ops.subtract(x, x[::-1]), x - x[::-1])


def test_threads_call_one_group_at_once():
    group = chain()
    errors = []

    def work(seed):
        for n in [10, 1000, 300_000]:
            a, b = numbers((n,), np.float32, seed), numbers((n,), np.float32, seed + 100)
            wanted = np.maximum(a + b, 0) * np.float32(seed)
            for _ in range(20):
                if not np.array_equal(group(a, b, float(seed)), wanted):
                    errors.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_what_a_group_cannot_be_made_of():
    with pytest.raises(TypeError, match="needs the argument 'b'"):
        _native.FusionGroup("g", [("add", [("in", 0)], {})], [0])
    with pytest.raises(ValueError, match="call 0 comes later"):
        _native.FusionGroup("g", [("relu", [("call", 0)], {})], [0])
    with pytest.raises(ValueError, match="the group has no call 1"):
        _native.FusionGroup("g", [("relu", [("in", 0)], {})], [1])
    with pytest.raises(RuntimeError, match="there is no op `relo`; `relu` is one"):
        _native.FusionGroup("g", [("relo", [("in", 0)], {})], [0])


def test_errors_name_op_argument_and_shapes():
    a = np.ones((2, 3), np.float32)
    cases = [
        (lambda: ops.add(a, a[:, :2]), ValueError, r"`add`: `a` has shape \[2, 3\] and `b` has shape \[2, 2\]"),
        (lambda: ops.sum(a, axis=2), ValueError, r"`sum`: `axes` is 2, which is no axis of a tensor of shape \[2, 3\]"),
        (lambda: ops.reshape(a, 5), ValueError, r"`reshape`: `x` has shape \[2, 3\], which has not as many elements"),
        (lambda: ops.matmul(a, a), ValueError, "`matmul`"),
        (lambda: ops.sum(a, axis="x"), TypeError, "`sum`: `axes` is a list of axes or none, not str"),
        (lambda: ops.add(a), TypeError, "needs the argument 'b'"),
        (lambda: ops.add(a, a, a), TypeError, "takes 2 arguments, but 3 were given"),
        (lambda: ops.add(a, b=a, c=a), TypeError, "has no parameter 'c'; it has a, b"),
        (lambda: ops.add(a, a=a), TypeError, "has been given 'a' twice"),
        (lambda: ops.bitwise_and(a, a), TypeError, "`bitwise_and`: `a` is float32, but the op takes integers"),
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message):
            call()
