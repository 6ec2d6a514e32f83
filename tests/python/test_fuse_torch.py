"""Fused functions over PyTorch tensors: tensors in and out, without a copy."""

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded, n_runs

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def fused(text, **names):
    return loom.fuse(loaded(text, torch=torch, **names)["f"])


CHAIN = "def f(a, b):\n    return ops.multiply(ops.relu(ops.add(a, b)), 2.0)\n"


def test_tensors_in_tensors_out():
    f = fused(CHAIN)
    a, b = torch.randn(30, 40), torch.randn(40)
    given = f(a, b)
    assert type(given) is torch.Tensor and given.dtype == torch.float32
    assert torch.equal(given, torch.relu(a + b) * 2)
    assert torch.equal(f(a.T, b[:30]), torch.relu(a.T + b[:30]) * 2)
    assert torch.equal(f(a[::2], 1.5), torch.relu(a[::2] + 1.5) * 2)
    assert n_runs(f) == 3
    for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.int64):
        x = torch.ones(5, dtype=dtype)
        assert f(x, x).dtype == (torch.float64 if dtype == torch.int64 else dtype)


def test_results_are_views_where_ops_are():
    f = fused("def f(a):\n    b = ops.transpose(ops.reshape(a, (3, 4)))\n    return b, ops.exp(b)\n")
    a = torch.arange(12, dtype=torch.float64)
    view, powers = f(a)
    assert view.data_ptr() == a.data_ptr() and view.shape == (4, 3)
    view[0, 1] = -1.0
    assert a[4] == -1.0
    assert torch.allclose(powers, torch.exp(torch.arange(12, dtype=torch.float64).reshape(3, 4).T), rtol=1e-15)


def test_rows_and_several_results():
    f = fused(
        "def f(a, w):\n    n = ops.layer_norm(a, w, w)\n    return n, ops.softmax(n, axis=1), ops.argmax(n, axis=1)\n"
    )
    a, w = torch.randn(20, 300), torch.randn(300)
    normal, weights, best = f(a, w)
    wanted = torch.nn.functional.layer_norm(a, (300,), w, w)
    torch.testing.assert_close(normal, wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights, torch.softmax(normal, 1))
    assert torch.equal(best, normal.argmax(1)) and best.dtype == torch.int64


def test_tensors_that_pytorch_records_are_refused_at_the_line_of_the_op():
    f = fused(CHAIN)
    a = torch.randn(5, requires_grad=True)
    with pytest.raises(
        TypeError, match=r"`add`: `a` is a tensor that PyTorch records.* pass x.detach\(\), or"
    ) as raised:
        f(a, a)
    assert raised.traceback[-1].lineno + 1 == 2
    with torch.no_grad():
        assert torch.equal(f(a, 1.0), torch.relu(a + 1.0) * 2)
        assert not f(a, 1.0).requires_grad
    assert torch.equal(f(a.detach(), 1.0), torch.relu(a.detach() + 1.0) * 2)
    layer = torch.nn.Linear(3, 4)
    product = fused("def f(x, w, b):\n    return ops.add(ops.matmul(x, ops.transpose(w)), b)\n")
    x = torch.randn(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(product(x, layer.weight, layer.bias), layer(x))


def test_arrays_of_other_packages_are_not_mixed_in():
    f = fused(CHAIN)
    with pytest.raises(TypeError, match="both PyTorch tensors and other arrays"):
        f(torch.ones(3), np.ones(3, np.float32))


def test_code_between_calls_uses_tensors():
    f = fused("def f(a):\n    b = ops.exp(ops.negative(a))\n    b += 1.0\n    return ops.divide(1.0, b)\n")
    a = torch.randn(1000)
    torch.testing.assert_close(f(a), torch.sigmoid(a))


def test_tensors_with_the_negative_bit_have_their_numbers():
    f = fused(CHAIN)
    x = torch.arange(1, 4, dtype=torch.float64)
    negative = torch.view_as_complex(torch.stack([x, x], 1)).conj().imag
    assert negative.is_neg()
    assert torch.equal(f(negative, 3.0), torch.relu(negative + 3.0) * 2)
    assert torch.equal(f(negative, 3.0), f(negative.resolve_neg(), 3.0))
