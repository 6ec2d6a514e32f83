"""The ops that NumPy lacks, against the definitions of ONNX's operators (opset 23), written out here as loops.

What ops have no attribute for is written by those that they have: `auto_pad` and `ceil_mode` are paddings on the sides
that they come to, and ONNX's order of pads, all begins before all ends, becomes a pair for each axis.
"""

import itertools
import math

import numpy as np
import pytest
from polyloom import ops
from tensor_arrays import numbers


def padded_pairs(pads):
    """ONNX's pads, begins and then ends, as pairs, one axis after the other."""
    n = len(pads) // 2
    return tuple(pads[axis + side * n] for axis in range(n) for side in range(2))


def auto_pads(auto_pad, extents, kernel, strides, dilations):
    """The pads of `SAME_UPPER` and `SAME_LOWER`: as many windows as strides in an axis, the odd element at the end or
    the beginning."""
    begins, ends = [], []
    for extent, size, stride, dilation in zip(extents, kernel, strides, dilations, strict=True):
        n_windows = math.ceil(extent / stride)
        total = max((n_windows - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
        less, more = total // 2, total - total // 2
        begins.append(less if auto_pad == "SAME_UPPER" else more)
        ends.append(more if auto_pad == "SAME_UPPER" else less)
    return [*begins, *ends]


def windows(extents, kernel, strides, pads, dilations, ceil_mode=False):
    """For each window its place, and for each element of it its offset and its index in the input, or None within the
    padding. With `ceil_mode`, a window is left out that begins after the input and what is padded before it."""
    n = len(extents)
    counts = []
    for axis in range(n):
        reach = extents[axis] + pads[axis] + pads[axis + n] - dilations[axis] * (kernel[axis] - 1) - 1
        count = (math.ceil if ceil_mode else math.floor)(reach / strides[axis]) + 1
        if ceil_mode and (count - 1) * strides[axis] >= extents[axis] + pads[axis]:
            count -= 1
        counts.append(count)
    for place in itertools.product(*map(range, counts)):
        elements = []
        for offset in itertools.product(*map(range, kernel)):
            index = tuple(
                place[axis] * strides[axis] + offset[axis] * dilations[axis] - pads[axis] for axis in range(n)
            )
            is_within = all(0 <= i < extent for i, extent in zip(index, extents, strict=True))
            is_padding = all(-pads[axis] <= index[axis] < extents[axis] + pads[axis + n] for axis in range(n))
            elements.append((offset, index if is_within else None, is_padding))
        yield tuple(counts), place, elements


def conv(x, w, b, strides, pads, dilations, group):
    batch, _, *extents = x.shape
    outputs, channels, *kernel = w.shape
    result = None
    for counts, place, elements in windows(extents, kernel, strides, pads, dilations):
        if result is None:
            result = np.zeros((batch, outputs, *counts))
        for output in range(outputs):
            first = output // (outputs // group) * channels
            for offset, index, _ in elements:
                if index is not None:
                    taken = x[(slice(None), slice(first, first + channels), *index)]
                    result[(slice(None), output, *place)] += taken @ w[(output, slice(None), *offset)]
    return result if b is None else result + b.reshape(-1, *(1,) * len(extents))


def pool(x, kernel, strides, pads, dilations, of_window, ceil_mode=False):
    batch, channels, *extents = x.shape
    result = None
    for counts, place, elements in windows(extents, kernel, strides, pads, dilations, ceil_mode):
        if result is None:
            result = np.zeros((batch, channels, *counts), x.dtype)
        within = [x[(slice(None), slice(None), *index)] for _, index, _ in elements if index is not None]
        result[(slice(None), slice(None), *place)] = of_window(within, sum(is_padding for *_, is_padding in elements))
    return result


GEOMETRIES = [
    # extents, kernel, strides, pads, dilations
    ((5, 5), (3, 3), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((5, 5), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((7, 5), (3, 3), (2, 2), (1, 0, 1, 0), (1, 1)),
    ((7, 5), (3, 2), (2, 1), (0, 1, 2, 0), (1, 1)),
    ((9, 8), (2, 3), (1, 2), (1, 2, 0, 3), (3, 2)),
    ((1, 6), (1, 4), (1, 3), (0, 3, 0, 1), (1, 1)),
    ((3, 3), (3, 3), (1, 1), (0, 0, 0, 0), (1, 1)),
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("group, has_bias", [(1, False), (1, True), (2, True), (4, False)])
def test_conv(geometry, group, has_bias):
    extents, kernel, strides, pads, dilations = geometry
    x, w = numbers((2, 4, *extents), np.float64, 1), numbers((8, 4 // group, *kernel), np.float64, 2)
    b = numbers((8,), np.float64, 3) if has_bias else None
    given = ops.conv2d(x, w, b, stride=strides, padding=padded_pairs(pads), dilation=dilations, groups=group)
    np.testing.assert_allclose(given, conv(x, w, b, strides, pads, dilations, group), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("pads, stride, dilation, group", [((0, 0), 1, 1, 1), ((2, 1), 2, 1, 3), ((0, 4), 3, 2, 1)])
def test_conv_of_one_axis(pads, stride, dilation, group):
    x, w = numbers((2, 3, 17), np.float64, 1), numbers((6, 3 // group, 4), np.float64, 2)
    given = ops.conv1d(x, w, stride=stride, padding=pads, dilation=dilation, groups=group)
    np.testing.assert_allclose(given, conv(x, w, None, (stride,), pads, (dilation,), group), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("strides, dilations", [((1, 1), (1, 1)), ((2, 2), (1, 1)), ((2, 3), (2, 1))])
def test_auto_pad(auto_pad, strides, dilations):
    x, w = numbers((1, 2, 7, 6), np.float64, 1), numbers((3, 2, 4, 3), np.float64, 2)
    pads = auto_pads(auto_pad, x.shape[2:], w.shape[2:], strides, dilations)
    given = ops.conv2d(x, w, stride=strides, padding=padded_pairs(pads), dilation=dilations)
    assert given.shape[2:] == tuple(math.ceil(n / s) for n, s in zip(x.shape[2:], strides, strict=True))
    np.testing.assert_allclose(given, conv(x, w, None, strides, pads, dilations, 1), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_max_pool(geometry):
    extents, kernel, strides, pads, dilations = geometry
    x = numbers((2, 3, *extents), np.float32)
    given = ops.max_pool2d(x, kernel, stride=strides, padding=padded_pairs(pads), dilation=dilations)

    def largest(within, _):
        return np.max(within, axis=0) if within else np.float32(-np.inf)

    np.testing.assert_array_equal(given, pool(x, kernel, strides, pads, dilations, largest))


@pytest.mark.parametrize("geometry", [each for each in GEOMETRIES if each[4] == (1, 1)])
@pytest.mark.parametrize("count_include_pad", [False, True])
def test_average_pool(geometry, count_include_pad):
    extents, kernel, strides, pads, dilations = geometry
    x = numbers((2, 3, *extents), np.float64)
    given = ops.avg_pool2d(x, kernel, stride=strides, padding=padded_pairs(pads), count_padding=count_include_pad)

    def mean(within, n_padded):
        return np.sum(within, axis=0) / (n_padded if count_include_pad else len(within))

    np.testing.assert_allclose(given, pool(x, kernel, strides, pads, dilations, mean), rtol=1e-12, atol=1e-12)


def test_ceil_mode_is_padding_at_the_end():
    x, kernel, strides = numbers((1, 2, 6, 7), np.float32), (3, 3), (2, 2)
    pads = (0, 0, 1, 0)
    given = ops.max_pool2d(x, kernel, stride=strides, padding=padded_pairs(pads))
    wanted = pool(x, kernel, strides, (0, 0, 0, 0), (1, 1), lambda within, _: np.max(within, axis=0), ceil_mode=True)
    np.testing.assert_array_equal(given, wanted)
    given = ops.avg_pool2d(x, kernel, stride=strides, padding=padded_pairs(pads))
    wanted = pool(x, kernel, strides, (0, 0, 0, 0), (1, 1), lambda within, _: np.mean(within, axis=0), ceil_mode=True)
    np.testing.assert_allclose(given, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -2, -3, -4])
def test_layer_normalization(axis):
    x = numbers((2, 3, 4, 5), np.float64)
    axes = tuple(range(axis % 4, 4))
    scale, bias = numbers(x.shape[axes[0] :], np.float64, 1), numbers(x.shape[axes[0] :], np.float64, 2)
    deviation = x - x.mean(axes, keepdims=True)
    wanted = deviation / np.sqrt((deviation**2).mean(axes, keepdims=True) + 1e-5) * scale + bias
    np.testing.assert_allclose(ops.layer_norm(x, scale, bias, axis=axis), wanted, rtol=1e-12, atol=1e-12)
    wanted = x / np.sqrt((x**2).mean(axes, keepdims=True) + 1e-3) * scale
    np.testing.assert_allclose(ops.rms_norm(x, scale, axis=axis, epsilon=1e-3), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("groups, epsilon", [(1, 1e-5), (2, 1e-2), (3, 1e-5), (6, 1e-5)])
def test_group_normalization(groups, epsilon):
    x, scale, bias = numbers((2, 6, 3, 4), np.float64), numbers((6,), np.float64, 1), numbers((6,), np.float64, 2)
    wanted = np.empty_like(x)
    for batch, group in itertools.product(range(2), range(groups)):
        channels = slice(group * 6 // groups, (group + 1) * 6 // groups)
        taken = x[batch, channels]
        wanted[batch, channels] = (taken - taken.mean()) / np.sqrt(taken.var() + epsilon)
    wanted = wanted * scale[:, None, None] + bias[:, None, None]
    given = ops.group_norm(x, scale, bias, groups=groups, epsilon=epsilon)
    np.testing.assert_allclose(given, wanted, rtol=1e-12, atol=1e-12)
    if groups == 6:
        # InstanceNormalization.
        mean, var = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
        instance = (x - mean) / np.sqrt(var + epsilon) * scale[:, None, None] + bias[:, None, None]
        np.testing.assert_allclose(given, instance, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.25])
@pytest.mark.parametrize("heads, of_keys", [(1, 1), (4, 4), (4, 1)])
def test_attention(is_causal, scale, heads, of_keys):
    """`Q`, `K` and `V` of four axes. Fewer heads of keys, where there is one, broadcast."""
    q, k, v = (numbers((2, n, *shape), np.float64, i) for i, (n, shape) in enumerate(
        [(heads, (5, 8)), (of_keys, (5, 8)), (of_keys, (5, 3))]))  # fmt: skip
    wanted = np.zeros((2, heads, 5, 3))
    for batch, head, query in itertools.product(range(2), range(heads), range(5)):
        other = head * of_keys // heads
        n_seen = query + 1 if is_causal else 5
        scores = k[batch, other, :n_seen] @ q[batch, head, query] * (scale or 1 / math.sqrt(8))
        weights = np.exp(scores - scores.max())
        wanted[batch, head, query] = weights / weights.sum() @ v[batch, other, :n_seen]
    given = ops.attention(q, k, v, causal=is_causal, scale=scale)
    np.testing.assert_allclose(given, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis):
    """`Gather` is `take`: the axes of the indices are in the place of the axis."""
    x, index = numbers((4, 5, 6), np.float32), np.array([[0, -1, 2], [3, -4, 1]])
    wanted = np.empty((*x.shape[: axis % 3], 2, 3, *x.shape[axis % 3 + 1 :]), np.float32)
    for i, j in itertools.product(range(2), range(3)):
        at = index[i, j] % x.shape[axis]
        wanted[(slice(None),) * (axis % 3) + (i, j)] = x[(slice(None),) * (axis % 3) + (at,)]
    np.testing.assert_array_equal(ops.take(x, index, axis=axis), wanted)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis):
    x = numbers((3, 4, 5), np.float32)
    index = np.random.default_rng(0).integers(-3, 3, (3, 4, 5))
    wanted = np.empty(index.shape, np.float32)
    for place in np.ndindex(index.shape):
        source = list(place)
        source[axis] = index[place] % x.shape[axis]
        wanted[place] = x[tuple(source)]
    np.testing.assert_array_equal(ops.gather(x, index, axis=axis), wanted)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements_with_addition(axis):
    x, updates = numbers((3, 4, 5), np.float64), numbers((3, 4, 5), np.float64, 1)
    index = np.random.default_rng(0).integers(-3, 3, (3, 4, 5))
    wanted = x.copy()
    for place in np.ndindex(index.shape):
        target = list(place)
        target[axis] = index[place] % x.shape[axis]
        wanted[tuple(target)] += updates[place]
    np.testing.assert_allclose(ops.scatter_add(x, index, updates, axis=axis), wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("shape, axis, k", [((3, 7), 1, 3), ((3, 7), 0, 2), ((2, 3, 5), -1, 5), ((4,), 0, 1)])
@pytest.mark.parametrize("largest", [True, False])
def test_top_k(shape, axis, k, largest):
    """Of equal elements, the one of the lower index comes first."""
    x = np.random.default_rng(1).integers(0, 4, shape).astype(np.float32)
    values, indices = ops.topk(x, k, axis=axis, largest=largest)
    assert indices.dtype == np.int64
    rows = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    given = [np.moveaxis(each, axis, -1).reshape(-1, k) for each in (values, indices)]
    for row, of_values, of_indices in zip(rows, *given, strict=True):
        wanted = sorted(range(len(row)), key=lambda place: (-row[place] if largest else row[place], place))[:k]  # noqa: B023
        assert of_indices.tolist() == wanted
        assert of_values.tolist() == row[wanted].tolist()


def test_one_hot():
    index = np.array([[0, 3], [2, 5]])
    given = ops.one_hot(index, 4)
    wanted = [[[1, 0, 0, 0], [0, 0, 0, 1]], [[0, 0, 1, 0], [0, 0, 0, 0]]]
    assert given.dtype == np.float32 and given.tolist() == wanted


@pytest.mark.parametrize("exclusive, reverse", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("axis", [0, 1])
def test_cum_sum(exclusive, reverse, axis):
    """`exclusive` and `reverse` by paddings and flips."""
    x = np.random.default_rng(0).integers(-9, 9, (4, 5))
    wanted = np.zeros_like(x)
    n = x.shape[axis]
    for i in range(n):
        terms = [j for j in range(n) if (j > i if reverse else j < i) or (j == i and not exclusive)]
        np.moveaxis(wanted, axis, 0)[i] = np.moveaxis(x, axis, 0)[terms].sum(0)
    given = ops.flip(x, axis) if reverse else x
    sums = ops.cumsum(given, axis)
    sums = ops.subtract(sums, given) if exclusive else sums
    np.testing.assert_array_equal(ops.flip(sums, axis) if reverse else sums, wanted)
