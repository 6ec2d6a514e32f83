"""Paths over a GPU: fused functions whose parts Polyloom or PyTorch computes there, measured like any other."""

import numpy as np
import polyloom as loom
import pytest
from polyloom import ops

G = np.random.default_rng(4)
X, W = (G.standard_normal(shape).astype(np.float32) for shape in ((96, 64), (64, 48)))


@pytest.fixture(autouse=True)
def database(tmp_path):
    loom.config.database = tmp_path / "benchmarks.db"
    yield
    loom.config.database = None


def layer(x, w):
    return ops.relu(ops.matmul(x, w))


def measured(policy, *values):
    f = loom.fuse(layer, policy=policy)
    (group,) = f.plan(*values, measure=20).groups
    return f, [each for each in group["candidates"] if each["measured_ns"] is not None]


def test_polyloom_on_a_gpu_is_measured_and_right(cuda):
    with loom.ScopedDevice("cpu"):
        policy = loom.Policy("fastest", tolerance=1e-5, backends=[loom.Backend.GPU_CUDA])
        f, found = measured(policy, X, W)
        assert any("GPU_CUDA" in each["backends"] and each["status"] == "ok" for each in found), found
        np.testing.assert_allclose(f(X, W), np.maximum(X @ W, 0), rtol=1e-4, atol=1e-5)


def test_pytorch_on_a_gpu_is_measured_and_right(cuda):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    with loom.ScopedDevice("cpu"):
        policy = loom.Policy("fastest", tolerance=1e-3, backends=[loom.Backend.GPU_TORCH])
        f, found = measured(policy, X, W)
        assert any("GPU_TORCH" in each["backends"] and each["status"] == "ok" for each in found), found
        np.testing.assert_allclose(f(X, W), np.maximum(X @ W, 0), rtol=1e-2, atol=1e-3)
