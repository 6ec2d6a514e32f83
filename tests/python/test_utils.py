"""`polyloom.utils`, against NumPy and, where it is installed, Warp."""

import numpy as np
import polyloom as loom
import pytest

RNG = np.random.default_rng(1)


def test_sums_and_inner_products():
    x = RNG.normal(size=(4, 5))
    a = loom.array(x, dtype=loom.float64)
    assert loom.utils.array_sum(a) == pytest.approx(x.sum())
    assert loom.utils.array_sum(a, value_count=7) == pytest.approx(x.ravel()[:7].sum())
    assert np.allclose(loom.utils.array_sum(a, axis=1).numpy(), x.sum(axis=1, keepdims=True))
    out = loom.zeros(1, dtype=loom.float64)
    assert loom.utils.array_sum(a, out=out) is out and out[0] == pytest.approx(x.sum())
    assert loom.utils.array_inner(a, a) == pytest.approx((x * x).sum())
    assert np.allclose(loom.utils.array_inner(a, a, axis=0).numpy(), (x * x).sum(axis=0, keepdims=True))
    v = loom.array(x[:, :3], dtype=loom.vec3d)
    assert np.allclose(loom.utils.array_sum(v), x[:, :3].sum(axis=0))
    assert loom.utils.array_inner(v, v) == pytest.approx((x[:, :3] ** 2).sum())
    assert np.allclose(loom.utils.array_inner(v, v, axis=0).numpy(), (x[:, :3] ** 2).sum())
    with pytest.raises(RuntimeError, match="Unsupported data type: int32"):
        loom.utils.array_sum(loom.zeros(1, dtype=int))
    with pytest.raises(IndexError, match=r"array_sum\(\) axis 2 is out of bounds"):
        loom.utils.array_sum(a, axis=2)


def test_running_sums():
    x = loom.array([3, 1, 2], dtype=int)
    out = loom.zeros(3, dtype=int)
    loom.utils.array_scan(x, out)
    assert out.list() == [3, 4, 6]
    loom.utils.array_scan(x, out, inclusive=False)
    assert out.list() == [0, 3, 4]
    v = loom.ones(2, dtype=loom.vec2)
    loom.utils.array_scan(v, v)
    assert v[1] == loom.vec2(2)
    loom.utils.array_scan(loom.zeros(0), loom.zeros(0))


def test_casts():
    out = loom.zeros(4, dtype=int)
    loom.utils.array_cast(loom.array([1.9, -1.9, 3.0, 4.0]), out, count=2)
    assert out.list() == [1, -1, 0, 0]
    loom.utils.array_cast(loom.ones(2, dtype=loom.vec2), out)
    assert out.list() == [1] * 4
    loom.utils.array_cast(loom.zeros(2), out)
    assert out.list() == [0, 0, 1, 1]


@pytest.mark.parametrize("dtype", [loom.int32, loom.uint32, loom.int64, loom.uint64, loom.float32, loom.float64])
def test_pairs_are_sorted_by_their_keys(dtype):
    numbers = RNG.integers(-9 if dtype.name[0] != "u" else 0, 9, 50)
    keys, values = loom.zeros(100, dtype=dtype), loom.zeros(100, dtype=int)
    keys[:50], values[:50] = numbers, np.arange(50)
    loom.utils.radix_sort_pairs(keys, values, 50)
    order = np.argsort(numbers, kind="stable")
    assert values[:50].list() == order.tolist() and keys[:50].list() == numbers[order].tolist()
    assert not any(values[50:].list())


def test_some_bits_of_the_keys_may_decide():
    keys, values = loom.array([9, 1, 8, 0] + [0] * 4, dtype=int), loom.array(np.arange(8), dtype=int)
    loom.utils.radix_sort_pairs(keys, values, 4, begin_bit=0, end_bit=3)
    assert keys[:4].list() == [8, 0, 9, 1] and values[:4].list() == [2, 3, 0, 1]
    with pytest.raises(RuntimeError, match="large enough to contain 2"):
        loom.utils.radix_sort_pairs(keys, values, 5)


def test_runs():
    values = loom.array([1, 1, 1, 2, 2, 3], dtype=int)
    found, lengths, n = loom.zeros(6, dtype=int), loom.zeros(6, dtype=int), loom.zeros(1, dtype=int)
    assert loom.utils.runlength_encode(values, found, lengths) == 3
    assert (found[:3].list(), lengths[:3].list()) == ([1, 2, 3], [3, 2, 1])
    assert loom.utils.runlength_encode(values, found, lengths, run_count=n, value_count=4) is n
    assert (n[0], lengths[:2].list()) == (2, [3, 1])
    assert loom.utils.runlength_encode(values, found, lengths, value_count=0) == 0


def test_strided_arrays_are_not_sorted():
    keys = loom.zeros(16, dtype=int)[::2]
    with pytest.raises(RuntimeError, match="requires a contiguous keys array"):
        loom.utils.radix_sort_pairs(keys, keys, 2)


def test_warp_agrees():
    warp = pytest.importorskip("warp", reason="Warp is the oracle: pip install warp-lang==1.19.0")
    numbers = RNG.normal(size=30).astype(np.float32).round(1)
    results = []
    for package in (warp, loom):
        keys = package.array(np.concatenate([numbers, np.zeros(30, np.float32)]), dtype=float, device="cpu")
        values = package.array(np.arange(60), dtype=int, device="cpu")
        package.utils.radix_sort_pairs(keys, values, 30)
        sums = package.zeros(30, dtype=float, device="cpu")
        package.utils.array_scan(package.array(numbers, dtype=float, device="cpu"), sums, False)
        results.append([keys.numpy()[:30], values.numpy()[:30], sums.numpy()])
    for theirs, ours in zip(*results, strict=True):
        assert (theirs == ours).all()


def test_errors_are_of_warps_classes():
    a, b = loom.zeros(3), loom.zeros(3, dtype=loom.float64)
    with pytest.raises(RuntimeError, match="out array should have type float32"):
        loom.utils.array_sum(a, out=loom.zeros(1, dtype=loom.float64))
    with pytest.raises(RuntimeError, match=r"out array should have shape \(1,\)"):
        loom.utils.array_inner(a, a, out=loom.zeros(2))
    with pytest.raises(ValueError, match="must have the same shape"):
        loom.utils.array_inner(a, loom.zeros(4))
    with pytest.raises(RuntimeError, match=r"do not match \(float32 vs float64\)"):
        loom.utils.array_inner(a, b)
    with pytest.raises(RuntimeError, match=r"do not match \(3 vs 4\)"):
        loom.utils.array_scan(a, loom.zeros(4))
    with pytest.raises(RuntimeError, match=r"Cast count \(3\) exceeds"):
        loom.utils.array_cast(a, loom.zeros(2, dtype=int))
    values, lengths = loom.zeros(3, dtype=int), loom.zeros(3, dtype=int)
    with pytest.raises(RuntimeError, match="run_lengths array must be of type int32"):
        loom.utils.runlength_encode(values, values, a)
    with pytest.raises(RuntimeError, match="value_count must be non-negative"):
        loom.utils.runlength_encode(values, values, lengths, value_count=-1)


def test_segments_are_checked():
    keys, starts = loom.zeros(8, dtype=int), loom.zeros(1, dtype=int)
    for count, error in ((1.5, TypeError), (True, TypeError), (-1, ValueError), (1 << 31, ValueError)):
        with pytest.raises(error, match="count must"):
            loom.utils.segmented_sort_pairs(keys, keys, count, starts, starts)
    with pytest.raises(ValueError, match="Invalid segment range at index 0"):
        loom.utils.segmented_sort_pairs(keys, keys, 2, loom.array([1], dtype=int), starts)
    with pytest.raises(RuntimeError, match=r"same size \(2 vs 1\)"):
        loom.utils.segmented_sort_pairs(keys, keys, 2, loom.zeros(2, dtype=int), starts)


def test_functions_are_made_of_lambdas():
    triple, module = loom.utils.create_warp_function(lambda x: 3 * x)
    assert triple(2) == 6 and module.name.startswith("map_")
