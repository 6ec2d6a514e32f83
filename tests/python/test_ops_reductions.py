"""Reductions, scans, and what is made of them, against NumPy and SciPy, and against the evaluator that defines them."""

import numpy as np
import pytest
import scipy.special
from polyloom import ops
from tensor_arrays import FLOATS, INTEGERS, assert_same_bits, evaluated, layouts, numbers


def _norm(x, axis=None, keepdims=False):
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


REDUCTIONS = {
    "all": np.all,
    "any": np.any,
    "logsumexp": scipy.special.logsumexp,
    "max": np.max,
    "mean": np.mean,
    "min": np.min,
    "norm": _norm,
    "prod": np.prod,
    "std": np.std,
    "sum": np.sum,
    "var": np.var,
}
SHAPES = [(1,), (7,), (5000,), (3, 5), (4, 1, 9), (2, 33, 3)]


def _axes(rank):
    return [None, 0, -1, tuple(range(rank)), *([(0, 2), 1] if rank == 3 else [])]


def assert_near(given, wanted):
    if given.dtype.kind != "f":
        np.testing.assert_array_equal(given, wanted)
        return
    tolerance = 2e-5 if given.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_reductions_of_floats(name, dtype):
    for shape in SHAPES:
        x = numbers(shape, dtype, low=0.5, high=1.1)
        for axis in _axes(len(shape)):
            for keepdims in [False, True]:
                wanted = REDUCTIONS[name](x.astype(np.float64), axis=axis, keepdims=keepdims)
                for view in layouts(x):
                    given = getattr(ops, name)(view, axis=axis, keepdims=keepdims)
                    assert isinstance(given, np.ndarray)
                    assert given.shape == wanted.shape
                    assert given.dtype == (bool if name in ("all", "any") else dtype)
                    assert_near(given, wanted)
                    assert_same_bits(given, evaluated(name, view, axes=axis, keepdims=keepdims))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "all", "any"])
@pytest.mark.parametrize("dtype", [*INTEGERS, bool])
def test_reductions_of_integers(name, dtype):
    x = numbers((4, 6), dtype, 7, 1, 3)
    given, wanted = getattr(ops, name)(x, axis=1), REDUCTIONS[name](x, axis=1)
    assert given.dtype == wanted.dtype
    np.testing.assert_allclose(given, wanted)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_indices_of_extrema(name):
    for dtype in [*FLOATS, np.int32, np.uint8]:
        x = numbers((4, 9), dtype, 8, 0, 3)
        for axis in [None, 0, 1, -1]:
            given = getattr(ops, name)(x, axis)
            assert given.dtype == np.int64
            np.testing.assert_array_equal(given, getattr(np, name)(x, axis))
    with_nan = np.array([1.0, np.nan, 3.0, np.nan])
    assert getattr(ops, name)(with_nan) == 1


def test_reductions_of_nothing():
    empty = np.zeros((3, 0), np.float32)
    np.testing.assert_array_equal(ops.sum(empty, 1), np.zeros(3, np.float32))
    np.testing.assert_array_equal(ops.prod(empty, 1), np.ones(3, np.float32))
    assert np.isnan(ops.mean(empty, 1)).all()
    assert ops.all(empty) and not ops.any(empty)
    assert ops.sum(empty, 0).shape == (0,)
    for name in ["max", "min", "argmax", "argmin", "logsumexp"]:
        with pytest.raises(ValueError, match=rf"`{name}`: `x` has shape \[3, 0\]"):
            getattr(ops, name)(empty, 1)


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "norm"])
def test_reductions_of_special_numbers(name):
    for special in [[1.0, np.nan, 2.0], [1.0, np.inf, 2.0], [-np.inf, 1.0], [np.inf, -np.inf]]:
        x = np.array(special, np.float32)
        with np.errstate(all="ignore"):
            wanted = REDUCTIONS[name](x)
        np.testing.assert_array_equal(getattr(ops, name)(x), wanted)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extrema_of_rows_of_any_length_with_zeros_of_both_signs_and_nans_of_both(name, dtype):
    rng = np.random.default_rng(5)
    nan = np.array(np.nan, dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, nan, -nan, np.finfo(dtype).tiny, -np.finfo(dtype).tiny], dtype)
    lengths = [*range(1, 36), 63, 64, 65, 96, 127, 257, 4095, 4096, 4097, 9001]
    for n in lengths:
        for some in [special[:2], special[:4], special[[0, 1, 6, 7]], special[[1, 3]], special, -special[4:6]]:
            x = rng.standard_normal((6, n)).astype(dtype)
            # A row of what is special alone, one that is negative, and others with some of it in places.
            x[0] = rng.choice(some, n)
            x[1] = -np.abs(x[1])
            places = rng.random(x.shape) < 0.1
            x[3:][places[3:]] = rng.choice(some, int(places[3:].sum()))
            given = getattr(ops, name)(x, 1)
            assert_same_bits(given, evaluated(name, x, axis=1))
            np.testing.assert_array_equal(given, getattr(np, name)(x, 1))


@pytest.mark.parametrize("name", ["sum", "mean", "softmax", "layer_norm", "logsumexp"])
def test_rows_of_any_length_give_the_bits_of_the_evaluator(name):
    for n in [*range(1, 36), 63, 64, 65, 96, 127, 257, 4096, 4097]:
        x = numbers((3, n), np.float32, n)
        options = {} if name == "layer_norm" else {"axis": 1}
        assert_same_bits(getattr(ops, name)(x, **options), evaluated(name, x, **options))


def test_a_long_sum_is_exact_to_a_few_units():
    x = numbers((10_000_000,), np.float32, 9, 0.0, 1.0)
    exact = x.sum(dtype=np.float64)
    assert abs(float(ops.sum(x)) - exact) <= 3e-7 * exact


def test_variance_with_a_correction():
    x = numbers((6, 11), np.float64)
    np.testing.assert_allclose(ops.var(x, 0, correction=1), np.var(x, 0, ddof=1))
    np.testing.assert_allclose(ops.std(x, ddof=1), np.std(x, ddof=1))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.uint8])
def test_scans(name, dtype):
    for shape in [(0,), (1,), (9,), (4, 7), (2, 3, 5)]:
        x = numbers(shape, dtype, 10, 1, 2)
        for axis in range(-1, len(shape)):
            wanted = getattr(np, name)(x, axis)
            for view in layouts(x):
                given = getattr(ops, name)(view, axis)
                assert given.dtype == wanted.dtype
                assert_near(given, wanted)
                assert_same_bits(given, evaluated(name, view, axis=axis))


@pytest.mark.parametrize("n_rows", [1, 2, 3, 15, 16, 17, 31, 32, 33])
def test_scans_of_few_rows(n_rows):
    x = numbers((n_rows, 5000), np.float32, n_rows)
    for name in ["cumsum", "cummax"]:
        given = getattr(ops, name)(x, 1)
        assert_same_bits(given, evaluated(name, x, axis=1))
    np.testing.assert_array_equal(ops.cumsum(x[:, :4000], 1), np.cumsum(x[:, :4000], 1))


@pytest.mark.parametrize(("name", "function"), [("cummax", np.maximum), ("cummin", np.minimum)])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.uint8, np.bool_])
def test_running_extrema(name, function, dtype):
    for shape in [(0,), (1,), (9,), (4, 7), (2, 3, 5)]:
        x = numbers(shape, dtype, 10, -2, 2) if dtype != np.bool_ else numbers(shape, np.int32, 10) > 0
        for axis in range(-1, len(shape)):
            wanted = function.accumulate(x, axis)
            for view in layouts(x):
                given = getattr(ops, name)(view, axis)
                assert given.dtype == wanted.dtype
                np.testing.assert_array_equal(given, wanted)
                assert_same_bits(given, evaluated(name, view, axis=axis))
    word = "maximum" if name == "cummax" else "minimum"
    assert_same_bits(ops.scan(x, 1, word), getattr(ops, name)(x, 1))


def test_scans_by_their_words():
    x = numbers((4, 7), np.float32, 10, 1, 2)
    assert_same_bits(ops.scan(x, 0), ops.cumsum(x, 0))
    assert_same_bits(ops.scan(x, 1, combine="multiply"), ops.cumprod(x, 1))
    with pytest.raises(ValueError, match='`combine` is "xor", not "add", "multiply", "maximum" or "minimum"'):
        ops.scan(x, 0, "xor")


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32])
def test_linear_recurrence(dtype):
    for shape in [(0,), (1,), (9,), (4, 7), (2, 3, 5)]:
        a, b = numbers(shape, dtype, 10, -1, 2), numbers(shape, dtype, 11, -2, 2)
        for axis in range(-1, len(shape)):
            wide_a, wide_b = (np.moveaxis(x.astype(np.float64), axis, 0) for x in (a, b))
            states = np.zeros_like(wide_b)
            for k in range(len(states)):
                states[k] = wide_b[k] + (wide_a[k] * states[k - 1] if k > 0 else 0)
            given = ops.linear_recurrence(a, b, axis)
            assert given.dtype == dtype
            assert_near(given, np.moveaxis(states, 0, axis))
            assert_same_bits(given, evaluated("linear_recurrence", a, b, axis=axis))
    decay = ops.linear_recurrence(numbers((3, 1), np.float32), numbers((2, 1, 5), np.float32, 3), -1)
    assert decay.shape == (2, 3, 5)
    with pytest.raises(ValueError, match=r"`axis` is 3, which is no axis"):
        ops.linear_recurrence(numbers((3,), np.float32), numbers((3,), np.float32), 3)


@pytest.mark.parametrize("dtype", FLOATS)
def test_normalisation(dtype):
    for shape, axis in [((7,), 0), ((3, 5), -1), ((3, 5), 0), ((2, 4, 6), 1)]:
        x = numbers(shape, dtype, 11)
        assert_near(ops.softmax(x, axis), scipy.special.softmax(x.astype(np.float64), axis))
        assert_near(ops.log_softmax(x, axis), scipy.special.log_softmax(x.astype(np.float64), axis))
        assert_same_bits(ops.softmax(x, axis), evaluated("softmax", x, axis=axis))
    x, weight, bias = numbers((4, 6), dtype, 12), numbers((6,), dtype, 13), numbers((6,), dtype, 14)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    assert_near(ops.layer_norm(x), normal)
    assert_near(ops.layer_norm(x, weight, bias), normal * weight + bias)
    root = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    assert_near(ops.rms_norm(x, weight), root * weight)
    grouped = ops.group_norm(x, groups=2)
    parts = wide.reshape(4, 2, 3)
    parts = parts - parts.mean(-1, keepdims=True)
    parts = parts / np.sqrt((parts**2).mean(-1, keepdims=True) + 1e-5)
    assert_near(grouped, parts.reshape(4, 6))
    with pytest.raises(TypeError, match="`layer_norm`: `weight` is None, and a tensor after it is given"):
        ops.layer_norm(x, None, bias)


def test_cross_entropy():
    logits, target = numbers((5, 3), np.float64, 15), np.array([0, 2, 1, 1, 0])
    losses = -scipy.special.log_softmax(logits, 1)[np.arange(5), target]
    np.testing.assert_allclose(ops.cross_entropy(logits, target, "none"), losses)
    np.testing.assert_allclose(ops.cross_entropy(logits, target), losses.mean())
    np.testing.assert_allclose(ops.cross_entropy(logits, target, reduction="sum"), losses.sum())


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32])
def test_products_of_matrices(dtype):
    for first, second in [
        ((3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4, 5)),
        ((3, 0), (0, 2)),
    ]:
        a, b = numbers(first, dtype, 16), numbers(second, dtype, 17)
        given = ops.matmul(a, b)
        assert_near(given, (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype))
        assert_same_bits(given, evaluated("matmul", a, b))
