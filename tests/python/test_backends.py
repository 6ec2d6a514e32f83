"""What other libraries compute for tensor ops agrees with the ops."""

import numpy as np
import polyloom as loom
import pytest
from polyloom import _native, _numpy_kernels, ops
from polyloom._backends import Backend, numpy_runner, torch_runner

G = np.random.default_rng(3)


def normal(*shape, dtype=np.float64):
    return G.standard_normal(shape).astype(dtype)


def whole(*shape, dtype=np.int32, lowest=-9, highest=9):
    return G.integers(lowest, highest, shape).astype(dtype)


X, Y, Z = normal(3, 4, 5), normal(4, 5), normal(3, 1, 5)
POSITIVE = np.abs(X) + 0.25
UNARY = (
    "negative absolute sign square reciprocal floor ceil trunc round rsqrt cbrt exp exp2 expm1 sin cos tan atan sinh "
    "cosh tanh asinh isnan isinf isfinite relu silu sigmoid softplus contiguous"
)
WHOLE = "add floor_divide remainder bitwise_and bitwise_or bitwise_xor"
ALONG = "softmax log_softmax cumsum cumprod cummax cummin sort argsort"
BINARY = (
    "add subtract multiply divide floor_divide remainder maximum minimum copysign atan2 hypot equal not_equal less "
    "less_equal greater greater_equal"
)
REDUCTIONS = "sum prod max min mean var std logsumexp norm all any"
AXES = [(None, False), ((0, 2), True), (1, False)]

CONVOLUTION = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
CASES = [
    *[(name, (X,), {}) for name in UNARY.split()],
    *[(name, (POSITIVE,), {}) for name in "sqrt log log2 log10 log1p".split()],
    *[(name, (np.tanh(X),), {}) for name in "asin acos atanh".split()],
    ("acosh", (1 + POSITIVE,), {}),
    *[(name, (X, Y), {}) for name in BINARY.split()],
    *[(name, (whole(3, 4), whole(4)), {}) for name in WHOLE.split()],
    *[(name, (X > 0, Y > 0), {}) for name in "logical_and logical_or logical_xor equal maximum".split()],
    ("power", (POSITIVE, Y), {}),
    ("power", (whole(5), np.arange(5, dtype=np.int32) - 1), {}),
    ("logical_not", (X > 0,), {}),
    ("invert", (whole(7),), {}),
    ("clip", (X, -0.5, 0.5), {}),
    ("where", (X > 0, Y, 2.0), {}),
    ("cast", (X * 1e10, "int16"), {}),
    ("cast", (np.array([np.nan, np.inf, -np.inf, 1.9, -1.9]), "int64"), {}),
    ("cast", (X, "float32"), {}),
    ("bitcast", (X.astype(np.float32), "uint32"), {}),
    ("leaky_relu", (X, 0.1), {}),
    ("gelu", (X, "tanh"), {}),
    *[(name, (X,), {"axes": axes, "keepdims": keep}) for name in REDUCTIONS.split() for axes, keep in AXES],
    ("sum", (normal(50, 3, dtype=np.float16),), {"axes": 0}),
    ("sum", (whole(9, dtype=np.int8, lowest=100, highest=127),), {}),
    ("var", (X,), {"axes": 1, "correction": 1}),
    *[(name, (X,), {"axis": axis}) for name in ("argmax", "argmin") for axis in (None, 1)],
    *[(name, (X,), {"axis": 1}) for name in ALONG.split()],
    ("layer_norm", (X, normal(5), normal(5)), {}),
    ("layer_norm", (X, Y, None), {"axis": 1}),
    ("rms_norm", (X, normal(5)), {}),
    ("group_norm", (normal(2, 6, 3, 2), normal(6), normal(6)), {"groups": 3}),
    ("linear_recurrence", (X, Z), {"axis": 1}),
    ("reshape", (X, (5, -1)), {}),
    ("permute", (X, (2, 0, 1)), {}),
    ("transpose", (X,), {}),
    ("slice", (X, (0, 3, 4), (None, None, None), (2, -1, -2)), {}),
    ("flip", (X,), {"axes": 1}),
    ("broadcast_to", (Z, (3, 4, 5)), {}),
    ("windows", (normal(9, 7), (0, 1), (3, 2), (2, 1), (2, 1)), {}),
    ("gather", (X, whole(3, 2, 5, lowest=-4, highest=6)), {"axis": 1}),
    ("take", (X, whole(2, 2, lowest=-4, highest=4)), {"axis": 1}),
    ("embedding", (Y, whole(6, lowest=0, highest=4)), {}),
    ("scatter_add", (X, whole(3, 6, 5, lowest=-4, highest=6), normal(3, 6, 5)), {"axis": 1}),
    ("one_hot", (whole(4, lowest=0, highest=3), 3), {}),
    ("concat", ([X, Z],), {"axis": 1}),
    ("stack", ([Y, Y + 1],), {"axis": 1}),
    ("pad", (X, ((1, 0), (2, 3), (0, 0)), 7.0), {}),
    ("tile", (Y, (2, 3)), {}),
    ("matmul", (X, normal(5, 6)), {}),
    ("einsum", ("ijk,jk->ik", X, Y), {}),
    ("linear", (X, normal(6, 5), normal(6)), {}),
    ("attention", (normal(2, 5, 4), normal(2, 7, 4), normal(2, 7, 3)), {"causal": True}),
    ("attention", (normal(2, 5, 4), normal(2, 7, 4), normal(2, 7, 3)), {"scale": 0.3}),
    ("conv1d", (normal(2, 4, 9), normal(6, 2, 3), normal(6)), {"stride": 2, "padding": 1, "groups": 2}),
    ("conv2d", (normal(2, 4, 9, 8), normal(6, 2, 3, 2)), CONVOLUTION),
    ("max_pool2d", (normal(2, 3, 9, 8), 3), {"stride": 2, "padding": 1}),
    ("avg_pool2d", (normal(2, 3, 9, 8), (3, 2)), {"padding": (1, 1)}),
    ("avg_pool2d", (normal(2, 3, 9, 8), (3, 2)), {"padding": (1, 1), "count_padding": True}),
]  # fmt: skip


def graph_of(name, args, named):
    """The graph of one call and the arrays that it is given."""
    arrays = []

    def operand(value):
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return ("in", len(arrays) - 1)
        if isinstance(value, list):
            return ("list", [operand(each) for each in value])
        return ("const", value)

    positional = [operand(each) for each in args]
    keywords = {key: ("const", value) for key, value in named.items()}
    group = _native.FusionGroup("one", [(name, positional, keywords)], [0])
    return group.tensor_graph(*arrays), arrays


@pytest.mark.parametrize(("name", "args", "named"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_numpys_kernels_compute_the_ops(name, args, named):
    graph, arrays = graph_of(name, args, named)
    [got] = numpy_runner(graph)(*arrays)
    wanted = getattr(ops, name)(*args, **named)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    tolerance = {"f2": 2e-3, "f4": 1e-5}.get(got.dtype.str[1:], 1e-12)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


# PyTorch gives these otherwise, or not at all: signed zeros, saturating casts, and types in which it does not compute.
NOT_OF_TORCH = {"cbrt", "sort_keys", "linear_recurrence", "scatter_add", "one_hot", "iota"}


@pytest.mark.parametrize(("name", "args", "named"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_pytorchs_kernels_compute_the_ops(name, args, named):
    torch = pytest.importorskip("torch")
    graph, arrays = graph_of(name, args, named)
    try:
        [got] = torch_runner(graph)(*map(torch.from_numpy, arrays))
    except NotImplementedError:
        assert name in NOT_OF_TORCH or name == "cast" or (name == "bitcast")
        return
    got, wanted = got.numpy(), getattr(ops, name)(*args, **named)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    tolerance = {"f2": 2e-3, "f4": 1e-5}.get(got.dtype.str[1:], 1e-12)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def test_every_kernel_of_numpy_is_tried():
    assert set(_numpy_kernels.KERNELS) - {name for name, _, _ in CASES} == {"iota", "contract"}


def test_what_numpy_lacks_is_refused():
    graph, _ = graph_of("erf", (X,), {})
    with pytest.raises(NotImplementedError, match="NumPy has no kernel for `erf`"):
        numpy_runner(graph)


def test_backends_that_are_there():
    found = Backend.available()
    assert found[:2] == [Backend.CPU_NATIVE, Backend.CPU_NUMPY] and found[-1] is Backend.SIM
    assert (Backend.GPU_CUDA in found) == loom.gpu_available()
