"""Ops on PyTorch tensors: without a copy, in and out."""

import numpy as np
import pytest
from polyloom import _native, ops

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def test_tensors_in_tensors_out():
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    given = ops.add(x, ops.multiply(x, 2.0))
    assert isinstance(given, torch.Tensor)
    assert given.dtype == torch.float32
    assert torch.equal(given, 3 * x)
    assert torch.equal(ops.add(x.T, x.T), 2 * x.T)
    assert torch.equal(ops.sum(x, axis=0), x.sum(0))
    assert ops.sum(x).ndim == 0
    half = torch.ones(3, dtype=torch.bfloat16)
    assert ops.add(half, half).dtype == torch.bfloat16
    assert ops.cast(x, torch.int64).dtype == torch.int64


def test_views_share_memory():
    x = torch.zeros(2, 3)
    view = ops.reshape(x, 6)
    view[0] = 7.0
    assert x[0, 0] == 7.0
    assert ops.transpose(x).data_ptr() == x.data_ptr()
    part = ops.slice(x[1:], 0, 1)
    assert part.data_ptr() == x[1:].data_ptr()
    assert torch.equal(ops.flip(x), x.flip(0, 1))


def test_results_outlive_groups():
    calls = [("add", [("in", 0), ("in", 1)], {}), ("relu", [("call", 0)], {})]
    group = _native.FusionGroup("g", calls, [1])
    x = torch.randn(200_000)
    results = [group(x, x) for _ in range(3)]
    del group
    assert all(torch.equal(each, torch.relu(2 * x)) for each in results)


def test_what_is_refused():
    x = torch.ones(3)
    with pytest.raises(TypeError, match="both PyTorch tensors and other arrays"):
        ops.add(x, np.ones(3, np.float32))
    with pytest.raises(TypeError, match=r"`exp`: `x` is a tensor that PyTorch records.*: pass x.detach\(\)"):
        ops.exp(torch.ones(3, requires_grad=True))
    with pytest.raises(TypeError, match="`exp`: `x`"):
        ops.exp(torch.ones(3, dtype=torch.complex64))
    assert isinstance(ops.add(x, np.float32(2)), torch.Tensor)
