"""Products, contractions, convolutions, pooling, and elements that indices tell."""

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded
from polyloom import ops
from tensor_arrays import assert_same_bits, evaluated, layouts, numbers


def chain(a, b):
    """The product of two float32 matrices as ascending chains; float64 nearly always rounds each step once."""
    sums = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        sums = (a[:, k : k + 1].astype(np.float64) * b[k : k + 1] + sums).astype(np.float32)
    return sums


@pytest.mark.parametrize("rows, length, columns", [(1, 300, 70), (13, 600, 33), (70, 290, 100), (260, 270, 300)])
def test_products_of_all_sizes_are_the_chain(rows, length, columns):
    # Numbers of few digits, so that products are exact in float64.
    a = np.round(numbers((rows, length), np.float32, 1), 3)
    b = np.round(numbers((length, columns), np.float32, 2), 3)
    np.testing.assert_allclose(ops.matmul(a, b), chain(a, b), rtol=1e-6, atol=1e-4)
    few = ops.matmul(a[:, :200], b[:200])
    assert_same_bits(ops.matmul(a[:, :200][: rows // 2 + 1], b[:200]), few[: rows // 2 + 1])


def test_products_of_every_layout():
    a, b = numbers((40, 300), np.float32, 1), numbers((300, 50), np.float32, 2)
    wanted = ops.matmul(a, b)
    for left in layouts(a):
        for right in layouts(b):
            assert_same_bits(ops.matmul(left, right), wanted)


def test_a_product_has_the_same_bits_by_any_number_of_threads():
    a, b = numbers((3, 200, 310), np.float32, 1), numbers((310, 170), np.float32, 2)
    n = loom.get_num_threads() if hasattr(loom, "get_num_threads") else None
    wanted = ops.matmul(a, b)
    for index in range(3):
        assert_same_bits(ops.matmul(a[index], b), wanted[index])
    assert n is None or n == loom.get_num_threads()


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(20, 30), (30, 40)]),
        ("bij,bjk->bki", [(3, 20, 30), (3, 30, 40)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 17, 8), (2, 3, 19, 8)]),
        ("ij,ij->", [(20, 30), (20, 30)]),
        ("i,j", [(20,), (30,)]),
        ("ijk->ki", [(3, 4, 5)]),
        ("ij,jk,kl->il", [(5, 6), (6, 7), (7, 8)]),
        ("ij,jk,k,i", [(5, 6), (6, 7), (7,), (5,)]),
        ("abc,cbd->da", [(4, 5, 6), (6, 5, 7)]),
    ],
)
def test_einsum_is_that_of_numpy(equation, shapes):
    arrays = [numbers(shape, np.float64, seed) for seed, shape in enumerate(shapes)]
    np.testing.assert_allclose(ops.einsum(equation, *arrays), np.einsum(equation, *arrays), rtol=1e-12, atol=1e-10)
    assert_same_bits(ops.einsum(equation, *arrays), ops.einsum(equation, *(array.copy("F") for array in arrays)))


def test_linear_is_a_product_with_the_transpose():
    x, weight, bias = numbers((2, 5, 7), np.float32, 1), numbers((9, 7), np.float32, 2), numbers((9,), np.float32, 3)
    assert_same_bits(ops.linear(x, weight), ops.matmul(x, weight.T))
    assert_same_bits(ops.linear(x, weight, bias), ops.add(ops.matmul(x, weight.T), bias))


def convolution(x, weight, bias, stride, padding, dilation, groups):
    """A convolution over the last axes in float64."""
    n = x.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *padding])
    reach = [dilation[i] * (weight.shape[2 + i] - 1) + 1 for i in range(n)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + n)))
    steps = tuple(slice(None, None, step) for step in stride)
    windows = windows[(slice(None), slice(None), *steps, *(slice(None, None, step) for step in dilation))]
    outputs, channels = weight.shape[0] // groups, weight.shape[1]
    letters = "yxij" if n == 2 else "yi"
    parts = [
        np.einsum(
            f"nc{letters},oc{letters[n:]}->no{letters[:n]}",
            windows[:, group * channels : (group + 1) * channels],
            weight[group * outputs : (group + 1) * outputs].astype(np.float64),
        )
        for group in range(groups)
    ]
    result = np.concatenate(parts, axis=1)
    return result if bias is None else result + bias.reshape(-1, *(1,) * n)


@pytest.mark.parametrize("groups, has_bias", [(1, True), (2, False), (6, True)])
@pytest.mark.parametrize("stride, padding, dilation", [(1, 0, 1), (2, 1, 1), ((1, 3), (2, 0), (2, 1))])
def test_convolutions_of_images(stride, padding, dilation, groups, has_bias):
    x = numbers((2, 6, 11, 40), np.float32, 1)
    weight = numbers((12, 6 // groups, 3, 4), np.float32, 2)
    bias = numbers((12,), np.float32, 3) if has_bias else None
    given = ops.conv2d(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    stride, padding, dilation = ((n, n) if isinstance(n, int) else n for n in (stride, padding, dilation))
    widths = [(width, width) for width in padding]
    wanted = convolution(x, weight, bias, stride, widths, dilation, groups)
    assert given.flags.c_contiguous
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-3)


def test_convolutions_of_signals_and_padding_on_one_side():
    x, weight = numbers((3, 4, 50), np.float64, 1), numbers((5, 4, 3), np.float64, 2)
    given = ops.conv1d(x, weight, padding=(2, 0), stride=2)
    np.testing.assert_allclose(given, convolution(x, weight, None, (2,), [(2, 0)], (1,), 1), rtol=1e-12, atol=1e-11)
    assert_same_bits(ops.conv1d(x, weight, padding=1), ops.conv1d(x, weight, padding=(1, 1)))


def test_pooling():
    x = numbers((2, 3, 9, 10), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (2, 3))
    assert_same_bits(ops.max_pool2d(x, (3, 2)), windows[:, :, ::3, ::2].max((-1, -2)))
    np.testing.assert_allclose(
        ops.avg_pool2d(x, (3, 2), stride=1), windows.astype(np.float64).mean((-1, -2)), rtol=1e-5, atol=1e-6
    )
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    assert_same_bits(ops.max_pool2d(x, 3, stride=2, padding=1), windows.max((-1, -2)))
    means = np.where(np.isinf(windows), np.nan, windows.astype(np.float64))
    given = ops.avg_pool2d(x, 3, stride=2, padding=1)
    np.testing.assert_allclose(given, np.nanmean(means, (-1, -2)), rtol=1e-5, atol=1e-6)
    given = ops.avg_pool2d(x, 3, stride=2, padding=1, count_padding=True)
    np.testing.assert_allclose(given, np.nansum(means, (-1, -2)) / 9, rtol=1e-5, atol=1e-6)


def test_nan_and_infinity_in_windows():
    x = np.full((1, 4, 4), -np.inf, np.float32)
    x[0, 0, 0] = np.nan
    np.testing.assert_array_equal(ops.max_pool2d(x, 2), [[[np.nan, -np.inf], [-np.inf, -np.inf]]])
    weight = np.ones((1, 1, 1, 1), np.float32)
    np.testing.assert_array_equal(ops.conv2d(x[None], weight)[0], x)


def weighted(q, k, v, causal, scale):
    """Attention in float64."""
    scores = q.astype(np.float64) @ np.swapaxes(k, -1, -2) * scale
    if causal:
        later = np.arange(k.shape[-2]) > np.arange(q.shape[-2])[:, None] + k.shape[-2] - q.shape[-2]
        scores = np.where(later, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "batch, n_queries, n_keys, width, columns",
    [((), 1, 1, 1, 1), ((2, 3), 70, 70, 16, 32), ((), 5, 200, 8, 64), ((2,), 130, 130, 64, 64), ((), 9, 64, 3, 200)],
)
def test_attention(batch, n_queries, n_keys, width, columns, causal):
    q = numbers((*batch, n_queries, width), np.float32, 1)
    k = numbers((*batch, n_keys, width), np.float32, 2)
    v = numbers((*batch, n_keys, columns), np.float32, 3)
    wanted = weighted(q, k, v, causal, 1 / np.sqrt(width))
    np.testing.assert_allclose(ops.attention(q, k, v, causal=causal), wanted, rtol=1e-3, atol=1e-4)
    wanted = weighted(q, k, v, causal, 0.25)
    np.testing.assert_allclose(ops.attention(q, k, v, causal, 0.25), wanted, rtol=1e-3, atol=1e-4)


def test_attention_has_the_bits_of_the_definition():
    q, k, v = numbers((2, 7, 5), np.float32, 1), numbers((2, 80, 5), np.float32, 2), numbers((2, 80, 33), np.float32, 3)
    for causal in (False, True):
        given = ops.attention(q, k, v, causal=causal)
        assert_same_bits(given, evaluated("attention", q, k, v, causal=causal))
        assert_same_bits(ops.attention(q[:, 3:], k, v, causal=causal), given[:, 3:])
        heads = [np.asfortranarray(x) for x in (q, k, v)]
        assert_same_bits(ops.attention(*heads, causal=causal), given)


def test_elements_that_indices_tell():
    x = numbers((40, 70), np.float32)
    random = np.random.default_rng(3)
    index = random.integers(-40, 40, (6, 5))
    assert_same_bits(ops.embedding(x, index), x[index])
    assert_same_bits(ops.take(x, index, axis=1), np.take(x, index, axis=1))
    along = random.integers(-70, 70, (40, 9))
    assert_same_bits(ops.gather(x, along, axis=1), np.take_along_axis(x, along, 1))
    assert_same_bits(ops.gather(x, along[:1], axis=1), np.take_along_axis(x, along[:1], 1))
    assert_same_bits(ops.gather(x, np.array([[99]]), axis=1), x[:, -1:])
    sums = x.copy()
    updates = numbers((30, 70), np.float32, 2)
    rows = random.integers(-40, 40, 30)
    np.add.at(sums, rows, updates)
    assert_same_bits(ops.scatter_add(x, rows[:, None], updates, axis=0), sums)
    assert_same_bits(ops.one_hot(index, 40), (index[..., None] == np.arange(40)).astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.uint8])
def test_element_types_have_the_bits_of_the_definition(dtype):
    a, b = numbers((13, 20), dtype, 1), numbers((20, 33), dtype, 2)
    labels = {"a_labels": (0, 1), "b_labels": (1, 2), "labels": (2, 0)}
    assert_same_bits(ops.einsum("ij,jk->ki", a, b), evaluated("contract", a, b, **labels))
    x, weight = numbers((1, 2, 6, 9), dtype, 1), numbers((3, 2, 2, 2), dtype, 2)
    assert_same_bits(ops.conv2d(x, weight, padding=1), evaluated("conv2d", x, weight, padding=1))
    assert_same_bits(ops.max_pool2d(x, 2, padding=1), evaluated("max_pool2d", x, size=2, padding=1))


def test_what_surrounds_a_convolution_is_in_its_kernels():
    function = loom.fuse(
        loaded(
            "def f(x, w, b):\n"
            "    y = ops.relu(ops.conv2d(x, w, b, padding=1))\n"
            "    return ops.add(y, ops.multiply(x, 2.0))\n"
        )["f"]
    )
    x, w, b = numbers((2, 8, 12, 40), np.float32, 1), numbers((8, 8, 3, 3), np.float32, 2), numbers((8,), np.float32, 3)
    y = ops.relu(ops.conv2d(x, w, b, padding=1))
    assert_same_bits(function(x, w, b), ops.add(y, ops.multiply(x, 2.0)))
    # The input between zeros, which two kernels write, and the product with all the rest.
    assert "3 kernels" in str(function.explain(x, w, b))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: ops.einsum("ij,jk->ik", x, x), "of which axes of one label have the extents 8 and 5"),
        (lambda x: ops.einsum("iij", x), "has `i` twice in one operand"),
        (lambda x: ops.einsum("ij->ik", x), "has `k` in the result, which no operand has"),
        (lambda x: ops.einsum("i1", x), "has `1`, which is no letter"),
        (lambda x: ops.conv2d(x, x), "`x` has shape \\[5, 8\\], but it must have 4 axes"),
        (lambda x: ops.conv1d(x[None], np.ones((2, 5, 3)), stride=0), "has 0, but its numbers are at least 1"),
        (lambda x: ops.max_pool2d(x, 9), "of which axis 0 is shorter than a window, which takes 9 elements"),
        (lambda x: ops.max_pool2d(x, 2, padding=2), "a window would have nothing but padding"),
        (lambda x: ops.linear(x, x[:, :3]), "whose last extents differ"),
        (lambda x: ops.gather(x, np.array([1]), axis=0), "which must have as many axes"),
        (lambda x: ops.scatter_add(x, 0, x[:, :3], axis=0), "which differ in more than axis 0"),
        (lambda x: ops.one_hot(np.array([1]), -1), "a number of classes is not negative"),
    ],
)
def test_errors_name_what_does_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call(numbers((5, 8), np.float32))


def test_indices_must_be_integers():
    x = numbers((5, 8), np.float32)
    with pytest.raises(TypeError, match="`index` is float32, but indices are integers"):
        ops.gather(x, x, axis=0)
    with pytest.raises(TypeError, match="`equation`"):
        ops.einsum(x, "ij")


def test_what_padding_adds_to_booleans_is_false():
    assert not ops.max_pool2d(np.zeros((4, 4), bool), 3, stride=1, padding=1).any()


def test_an_integer_that_is_no_float_is_refused():
    with pytest.raises(ValueError, match="is 1152921504606846977, which is no float"):
        ops.pad(np.zeros(2, np.int64), (1, 1), 2**60 + 1)


def test_integers_that_are_too_long_are_refused():
    with pytest.raises(TypeError, match="`index` is uint64, which int64 does not hold"):
        ops.take(np.zeros(3), np.zeros(2, np.uint64), 0)
    with pytest.raises(TypeError, match="`b` is an integer that 64 bits do not hold: pass a float"):
        ops.add(np.ones(2), 10**25)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(130, 130), (70, 200)])
def test_no_query_looks_at_the_values_of_later_keys(value, n_queries, n_keys):
    q, k = numbers((n_queries, 8), np.float32, 1), numbers((n_keys, 8), np.float32, 2)
    for place in (n_keys - 1, n_keys - 40, n_keys - 65):
        v = numbers((n_keys, 8), np.float32, 3)
        clean = ops.attention(q, k, v, causal=True)
        v[place] = value
        got = ops.attention(q, k, v, causal=True)
        n_before = place - (n_keys - n_queries)
        assert_same_bits(got[:n_before], clean[:n_before])
        assert not np.isfinite(got[n_before:]).any()
