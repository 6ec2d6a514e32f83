"""A dozen classic GPU kernels, `examples/gpu`, on the CPU and on the simulator with all its checks, against NumPy."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "gpu").glob("*.py"))


def load(path: Path):
    spec = importlib.util.spec_from_file_location(f"examples_gpu_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


E = {path.stem: load(path) for path in EXAMPLES}


@pytest.fixture(params=["cpu", "sim:0"])
def device(request):
    loom.sim.configure(sanitize="all")
    yield request.param
    loom.sim.configure(sanitize="default")


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("n", [1, 31, 1000, 2049])
def test_reduction(device, n):
    x = normal(n)
    np.testing.assert_allclose(E["reduction"].array_sum(x, device), x.sum(dtype=np.float64), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [1, 33, 128, 1001])
def test_scan(device, n):
    x = normal(n)
    np.testing.assert_allclose(E["scan"].running_sums(x, device), x.cumsum(dtype=np.float64), atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (32, 32), (33, 70)])
def test_transpose(device, shape):
    a = normal(*shape)
    np.testing.assert_array_equal(E["transpose"].transposed(a, device), a.T)


@pytest.mark.parametrize("shape", [(1, 1, 1), (16, 32, 16), (19, 23, 37)])
def test_matmul(device, shape):
    m, n, k = shape
    a, b = normal(m, k), normal(k, n, seed=1)
    np.testing.assert_allclose(E["matmul"].product(a, b, device), a.astype(np.float64) @ b, atol=1e-5)


@pytest.mark.parametrize("n", [1, 128, 3001])
def test_histogram(device, n):
    values = np.random.default_rng(n).binomial(255, 0.4, n).astype(np.uint8)
    np.testing.assert_array_equal(E["histogram"].histogram(values, device), np.bincount(values, minlength=256))


@pytest.mark.parametrize("n", [1, 100, 128, 500])
def test_bitonic_sort(device, n):
    x = normal(n)
    x[n // 2 :] = np.round(x[n // 2 :])
    np.testing.assert_array_equal(E["bitonic_sort"].sorted_array(x, device), np.sort(x))


@pytest.mark.parametrize("shape", [(16, 8, 16), (32, 32, 48), (40, 65, 33)])
def test_tensor_core_matmul(device, shape):
    m, n, k = shape
    a, b = normal(m, k).astype(np.float16), normal(k, n, seed=1).astype(np.float16)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(E["tensor_matmul"].product(a, b, device), expected, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (3, 64), (2, 201)])
def test_softmax(device, shape):
    x = 10 * normal(*shape)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(E["softmax"].softmax(x, device), e / e.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("shape", [(1, 2), (5, 32), (9, 101)])
def test_layer_norm(device, shape):
    x, weight, bias = 3 + 2 * normal(*shape), normal(shape[1], seed=1), normal(shape[1], seed=2)
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    expected = (wide - wide.mean(axis=1, keepdims=True)) * scale * weight + bias
    np.testing.assert_allclose(E["layer_norm"].layer_norm(x, weight, bias, device=device), expected, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 32, 45])
def test_flash_attention(device, length, causal):
    module = E["flash_attention"]
    q, k, v = 2 * normal(3, 2, length, module.DIM)
    scores = np.einsum("hid,hjd->hij", q.astype(np.float64), k) / np.sqrt(module.DIM)
    if causal:
        scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    expected = np.einsum("hij,hjd->hid", weights / weights.sum(axis=2, keepdims=True), v)
    np.testing.assert_allclose(module.attention(q, k, v, causal, device), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (19, 35)])
def test_stencil(device, shape):
    t = normal(*shape)
    wide = t.astype(np.float64)
    for _ in range(2):
        p = np.pad(wide, 1, mode="edge")
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        wide = wide + 0.2 * (around - 4 * wide)
    np.testing.assert_allclose(E["stencil"].heat(t, 0.2, 2, device), wide, atol=1e-5)


@pytest.mark.parametrize(("n", "segments"), [(1, 1), (500, 7), (300, 300)])
def test_segmented_sum(device, n, segments):
    values = normal(n)
    numbers = np.sort(np.random.default_rng(n).integers(0, segments, n)).astype(np.int32)
    expected = np.bincount(numbers, values.astype(np.float64), segments)
    np.testing.assert_allclose(
        E["segmented_sum"].segmented_sums(values, numbers, segments, device), expected, atol=1e-4
    )


def test_every_example_has_a_test():
    tested = {name.removeprefix("test_") for name in globals()}
    assert {path.stem.replace("tensor_matmul", "tensor_core_matmul") for path in EXAMPLES} <= tested
    assert len(EXAMPLES) == 12
