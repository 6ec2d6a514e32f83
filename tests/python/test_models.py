"""The models of `examples/fuse`, at small sizes: results and slopes are those of float64, and losses fall."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest

MODELS = Path(__file__).parents[2] / "examples" / "fuse"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(MODELS))
    yield importlib.import_module
    for path in MODELS.glob("*.py"):
        sys.modules.pop(path.stem, None)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def wide(tree):
    return {name: value.astype(np.float64) for name, value in tree.items()}


def assert_near(given, wanted, tolerance=2e-6):
    assert given.dtype == np.float32
    assert np.abs(given - wanted).max() <= tolerance * np.abs(wanted).max()


def assert_slope(gradients, loss_at, parameters, step):
    """The slope along a direction is that of differences in float64."""
    random = np.random.default_rng(7)
    direction = {name: random.normal(size=value.shape) for name, value in parameters.items()}
    at = wide(parameters)
    ahead, behind = (loss_at({name: at[name] + s * direction[name] for name in at}) for s in (step, -step))
    slope = sum(float(np.sum(gradients[name].astype(np.float64) * direction[name])) for name in at)
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-4)


def test_gpt2_block(load):
    model = load("gpt2_block")
    p, x, wanted = (
        model.initial(np.random.default_rng(0)),
        normal(1, 17, model.WIDTH),
        normal(1, 17, model.WIDTH, seed=1),
    )
    exact = x.astype(np.float64)
    assert_near(model.block(x, p), model.block_of(np, exact, wide(p)))
    gradients = loom.grad(model.loss)(p, x, wanted)
    assert_slope(gradients, lambda p: np.mean((model.block_of(np, exact, p) - wanted) ** 2), p, 1e-5)


def test_resnet_block(load):
    model = load("resnet_block")
    p, x = model.initial(np.random.default_rng(0)), normal(2, model.CHANNELS, 7, 5)
    wanted = normal(2, model.CHANNELS, 7, 5, seed=1)
    exact = x.astype(np.float64)
    assert_near(model.block(x, p), model.exact_block(exact, wide(p)))
    gradients = loom.grad(model.loss)(wide(p), exact, wanted.astype(np.float64))
    assert_slope(gradients, lambda p: np.mean((model.exact_block(exact, p) - wanted) ** 2), p, 1e-7)


def test_lstm(load):
    model = load("lstm")
    p, x = model.initial(np.random.default_rng(0)), normal(5, model.BATCH, model.INPUTS)
    start, wanted = np.zeros((model.BATCH, model.WIDTH), np.float32), normal(model.BATCH, model.WIDTH, seed=1)
    exact = x.astype(np.float64)
    assert_near(model.last_state(p, x, start), model.last_state_of(np, wide(p), exact, start))
    gradients = loom.grad(model.loss)(p, x, start, wanted)
    assert_slope(gradients, lambda p: np.mean((model.last_state_of(np, p, exact, start) - wanted) ** 2), p, 1e-5)


def test_diffusion_step(load):
    model = load("diffusion_step")
    p, x, time = model.initial(np.random.default_rng(0)), normal(2, 3, 8, 8), model.features(500)
    assert_near(
        model.predicted(x, time, p), model.exact_prediction(x.astype(np.float64), time.astype(np.float64), wide(p))
    )
    earlier = model.step_of(x, 500, p)
    np.testing.assert_array_equal(earlier, model.step_of(x, 500, p))
    assert np.isfinite(earlier).all()


def test_k_means(load):
    model = load("k_means")
    points = normal(700, model.WIDTH)
    centres = points[: model.CENTRES]
    means, distance = model.moved(points, centres)
    exact_means, exact_distance = model.moved_by(np, points.astype(np.float64), centres.astype(np.float64))
    assert_near(means, exact_means, 1e-5)
    assert float(distance) == pytest.approx(exact_distance, rel=1e-5)


def test_small_gpt(load):
    model = load("small_gpt")
    text = np.tile(np.arange(20, dtype=np.int32), 40)
    p, step = model.initial(20), loom.value_and_grad(model.loss)
    optimiser = loom.optim.AdamW(lr=3e-3)
    losses = []
    for first in range(8):
        chunk = first + np.arange(2)[:, None] + np.arange(16)
        value, gradients = step(p, text[chunk], text[chunk + 1])
        p = optimiser.update(p, gradients)
        losses.append(float(value))
    assert losses[0] == pytest.approx(np.log(20), abs=0.3)
    assert losses[-1] < 0.7 * losses[0]
    # Each character but the first two follows two others for certain.
    assert model.bits_of_trigrams(text, text, 20) < 0.3
