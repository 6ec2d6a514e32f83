"""Sorts: the order of NumPy, with -0.0 before 0.0, the same for every layout, length and element type."""

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded, n_runs
from polyloom import ops
from tensor_arrays import FLOATS, INTEGERS, SPECIAL, assert_same_bits, evaluated, layouts, numbers

LENGTHS = [1, 2, 3, 31, 32, 33, 1000, 2047, 2048, 2049, 4097, 5000, 70_000]
DTYPES = [*FLOATS, np.float16, *INTEGERS, bool]


def keys(x):
    """Integers in the order of floats: -0.0 is below 0.0, and NaNs are equal and last."""
    if x.dtype.kind != "f":
        return x
    signed = np.dtype(f"i{x.dtype.itemsize}")
    bits = np.where(np.isnan(x), x.dtype.type(np.nan), x).view(signed)
    bits = np.where(np.isnan(x), np.abs(x.dtype.type(np.nan)).view(signed), bits)
    return np.where(bits < 0, bits ^ np.iinfo(signed).max, bits)


def order(x, axis=-1, descending=False):
    given = keys(x)
    if not descending:
        return np.argsort(given, axis=axis, kind="stable")
    # Reversed twice, because NumPy has no descending sort.
    length = x.shape[axis]
    return np.flip(length - 1 - np.argsort(np.flip(given, axis), axis=axis, kind="stable"), axis)


def mixed(shape, dtype, seed=0):
    """Numbers with repetitions and, of floats, all that is special."""
    x = numbers(shape, dtype, seed)
    if x.dtype.kind == "f" and x.size:
        x = np.where(np.random.default_rng(seed).integers(0, 3, shape) == 0, np.round(x), x)
        flat = x.reshape(-1)
        places = np.random.default_rng(seed + 1).integers(0, x.size, min(24, x.size))
        with np.errstate(over="ignore"):
            flat[places] = np.resize(np.array(SPECIAL), len(places)).astype(dtype)
    return x


def check(x, axis=-1):
    for descending in (False, True):
        index = order(x, axis, descending)
        assert_same_bits(ops.argsort(x, axis, descending), index.astype(np.int64))
        assert_same_bits(ops.sort(x, axis, descending), np.take_along_axis(x, index, axis))
        k = min(3, x.shape[axis])
        values, indices = ops.topk(x, k, axis, largest=descending)
        first = np.take(index, np.arange(k), axis)
        assert_same_bits(indices, first.astype(np.int64))
        assert_same_bits(values, np.take_along_axis(x, first, axis))


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_of_all_lengths(n):
    check(mixed(n, np.float32, n))
    check(mixed(n, np.int64, n))


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types(dtype):
    check(mixed((7, 150), dtype), 1)
    check(mixed((150, 7), dtype), 0)
    check(mixed((5, 2500), dtype), 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint64, bool])
def test_the_bits_are_those_of_the_evaluator(dtype):
    x = mixed((4, 70), dtype)
    for descending in (False, True):
        wanted = evaluated("sort", x, axis=1, descending=descending)
        assert_same_bits(ops.sort(x, 1, descending), wanted)
        assert_same_bits(ops.argsort(x, 1, descending), evaluated("argsort", x, axis=1, descending=descending))


def test_numbers_of_full_width():
    random = np.random.default_rng(0)
    for dtype in (np.int64, np.uint64):
        limits = np.iinfo(dtype)
        x = random.integers(limits.min, limits.max, 9000, dtype=dtype, endpoint=True)
        x[:2] = limits.min, limits.max
        check(x)
    check(random.integers(0, 2**64, 9000, dtype=np.uint64).view(np.float64))
    check(random.integers(0, 2**32, 9000, dtype=np.uint32).view(np.float32))


@pytest.mark.parametrize("shape, axis", [((3, 4, 5), 1), ((40, 1, 33), 0), ((40, 1, 33), 2), ((2, 0), 0), ((0,), 0)])
def test_every_layout_and_axis(shape, axis):
    x = mixed(shape, np.float32)
    for array in layouts(x):
        check(array, axis)


def test_many_short_rows():
    check(mixed((1000, 9), np.float32))
    check(mixed((9, 1000), np.float32), 0)


@pytest.mark.parametrize("n", [33, 64, 100, 129, 256, 257])
def test_rows_that_a_thread_sorts_by_itself(n):
    for n_rows in (7, 8, 33, 100):
        check(mixed((n_rows, n), np.float32, n))
        check(mixed((n, n_rows), np.float64, n), 0)


@pytest.mark.parametrize("k", [1, 2, 8, 16, 17])
def test_few_of_short_rows(k):
    for x, axis in (
        (mixed((16, 500), np.float32, k), 1),
        (mixed((60, 5, 3), np.int32, k), 0),
        (mixed(90, np.float32), 0),
    ):
        for largest in (False, True):
            index = np.take(order(x, axis, largest), np.arange(k), axis)
            values, indices = ops.topk(x, k, axis, largest)
            assert_same_bits(indices, index.astype(np.int64))
            assert_same_bits(values, np.take_along_axis(x, index, axis))


def test_sorts_of_sorted_equal_and_reversed_rows():
    x = np.arange(6000, dtype=np.float32)
    for array in (x, x[::-1], np.zeros_like(x), np.full_like(x, np.nan), np.full_like(x, np.inf)):
        check(array)


def test_what_comes_before_and_after_is_fused():
    f = loom.fuse(
        loaded(
            "def f(a, b):\n"
            "    x = ops.multiply(ops.add(a, b), 2.0)\n"
            "    index = ops.topk_indices(x, 4, axis=1)\n"
            "    values = ops.gather(x, index, axis=1)\n"
            "    return ops.exp(ops.sort(x, axis=1, descending=True)), ops.negative(values), ops.add(index, 1)\n"
        )["f"]
    )
    a, b = mixed((6, 130), np.float32, 1), mixed((130,), np.float32, 2)
    x = ops.multiply(ops.add(a, b), 2.0)
    sorted_, values, index = f(a, b)
    assert_same_bits(sorted_, ops.exp(ops.sort(x, 1, True)))
    assert_same_bits(values, ops.negative(ops.topk(x, 4, 1)[0]))
    assert_same_bits(index, ops.add(ops.topk(x, 4, 1)[1], 1))
    assert n_runs(f) == 1


def test_topk_in_a_fused_function():
    f = loom.fuse(
        loaded(
            "def f(a):\n"
            "    values, index = ops.topk(ops.multiply(ops.negative(a), 2.0), 4, axis=1)\n"
            "    return ops.exp(ops.negative(values)), index\n"
        )["f"]
    )
    a = mixed((6, 130), np.float32)
    wanted, indices = ops.topk(-2 * a, 4, 1)
    values, index = f(a)
    assert_same_bits(values, ops.exp(-wanted))
    assert_same_bits(index, indices)
    assert [group.calls for group in f.groups] == [[0, 1, 2, 3, 4, 5]] and n_runs(f) == 1


def test_sorted_integers_along_the_first_axis_are_memory_of_their_own():
    x = mixed((50, 6), np.uint32)
    given = ops.sort(x, 0)
    assert given.flags.c_contiguous
    assert_same_bits(given, np.sort(x, 0))
    assert_same_bits(ops.sort(x, 0)[0], x.min(0))


def test_gradients_go_back_to_where_elements_came_from():
    x = numbers((3, 40), np.float32)
    weight = numbers((3, 40), np.float32, 1)
    gradient = loom.grad(lambda x: ops.sum(ops.multiply(ops.sort(x, 1), weight)))(x)
    wanted = np.zeros_like(x)
    np.put_along_axis(wanted, np.argsort(x, 1), weight, 1)
    assert_same_bits(gradient, wanted)

    def f(x):
        values, _ = ops.topk(x, 5, axis=1)
        return ops.sum(ops.square(values))

    wanted = np.zeros_like(x)
    index = ops.topk(x, 5, 1)[1]
    np.put_along_axis(wanted, index, 2 * np.take_along_axis(x, index, 1), 1)
    assert_same_bits(loom.grad(f)(x), wanted)


def test_bitcasts():
    x = np.array([1.0, -2.0, 0.0, -0.0, np.inf, np.nan, -np.nan], np.float32)
    wanted = np.where(np.isnan(x), np.uint32(0x7FC00000), x.view(np.uint32))
    assert_same_bits(ops.bitcast(x, np.uint32), wanted)
    assert_same_bits(ops.bitcast(ops.bitcast(x, np.int32), np.float32), x)
    halves = np.array([1.0, -2.0, 65504.0], np.float16)
    assert_same_bits(ops.bitcast(halves, np.uint16), halves.view(np.uint16))


def test_errors():
    x = numbers((2, 3), np.float32)
    with pytest.raises(ValueError, match="`sort`: `axis` is 2, which is no axis of a tensor of shape"):
        ops.sort(x, 2)
    with pytest.raises(ValueError, match="`k` is 4, but axis 1 has 3 elements to choose from"):
        ops.topk(x, 4)
    with pytest.raises(TypeError, match="`sort_keys`: `x` is float32, but keys are uint32 or uint64"):
        ops.sort_keys(x)
    with pytest.raises(ValueError, match="`dtype` is int64, but must be a type of numbers with the 32 bits of float32"):
        ops.bitcast(x, np.int64)
