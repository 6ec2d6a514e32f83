"""The examples that fit something, at a small size: their gradient is that of differences, and their loss falls."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module
    for name in ("rope", "heat_source", "signed_distance", "drawing"):
        sys.modules.pop(name, None)


def check_gradient(loss_at, at: list[np.ndarray], gradients: list[np.ndarray], step: float) -> None:
    """Along each of a few random directions, the slope is that of a central difference, but for float32's rounding."""
    random = np.random.default_rng(5)
    size = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients))
    for _ in range(4):
        directions = [random.normal(size=each.shape) for each in at]
        # Half along the gradient, so that the slope is not lost in rounding.
        along = [
            d / np.sqrt(sum(each.size for each in at)) + g / size for d, g in zip(directions, gradients, strict=True)
        ]
        forward, back = (
            loss_at([(x + sign * step * d).astype(np.float32) for x, d in zip(at, along, strict=True)])
            for sign in (1, -1)
        )
        slope = sum(float((g.astype(np.float64) * d).sum()) for g, d in zip(gradients, along, strict=True))
        assert (forward - back) / (2 * step) == pytest.approx(slope, rel=1e-2)


def check_picture(path: Path, n_panels: int) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed").open(path)
    pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert image.width > 600 * n_panels and len(np.unique(pixels, axis=0)) > 20


def test_rope(load, tmp_path):
    rope = load("rope")
    thrown = rope.Rope(n=12, n_steps=120)
    first = thrown.velocity
    loss, gradient = thrown.gradient()
    assert loss == pytest.approx(float(thrown.throw(first)[0][0]))
    check_gradient(lambda at: float(thrown.throw(at[0])[0][0]), [first], [gradient], 1e-3)
    losses = rope.fit(thrown, 40)
    assert losses[-1] < losses[0] / 20
    rope.picture(thrown, first, losses, tmp_path / "rope.png")
    check_picture(tmp_path / "rope.png", 3)


@pytest.mark.parametrize("tape_memory", [64 << 20, 1 << 10], ids=["whole tapes", "checkpoints"])
def test_heat_source(load, tmp_path, monkeypatch, tape_memory):
    import polyloom as loom

    heat_source = load("heat_source")
    rods = heat_source.Rods(n=6, n_steps=150)
    monkeypatch.setattr(loom.config, "tape_memory", tape_memory)
    whole = 6 * 150 * heat_source.N_CELLS * 4
    first = [rods.position, rods.strength]
    loss, *gradients, tape = rods.gradient()
    assert tape == whole if tape_memory > whole else 0 < tape < whole / 4

    def loss_at(guess):
        rods.position, rods.strength = guess
        return rods.gradient()[0]

    check_gradient(loss_at, first, gradients, 1e-2)
    rods.position, rods.strength = first
    losses = heat_source.fit(rods, 60)
    assert losses[0] == pytest.approx(loss)
    assert losses[-1] < losses[0] / 20
    heat_source.picture(rods, tuple(first), losses, tmp_path / "heat_source.png")
    check_picture(tmp_path / "heat_source.png", 4)


def test_signed_distance(load, tmp_path):
    signed_distance = load("signed_distance")
    # The middle is nearest to a corner that points inwards; the last point to an edge of a lower arm, by hand.
    at = np.array([[0.0, 0.0], [0.0, 0.85], [0.0, 1.0], [0.0, -1.0]])
    assert signed_distance.star(at) == pytest.approx([-0.35, 0.0, 0.15, 0.5386], abs=1e-4)
    field = signed_distance.Field(n_samples=256)
    before = field.weights
    loss, gradients = field.gradient()

    def loss_at(weights):
        field.weights = weights
        return field.gradient()[0]

    check_gradient(loss_at, before, gradients, 1e-2)
    field.weights = [each.copy() for each in before]
    pixels = np.random.default_rng(1).uniform(-1, 1, (signed_distance.RESOLUTION**2, 2)).astype(np.float32)
    truth, first = signed_distance.star(pixels), field.at(pixels)
    losses = signed_distance.train(field, 80)
    assert losses[-1] < losses[0] / 10
    assert np.square(field.at(pixels) - truth).mean() < np.square(first - truth).mean() / 10
    signed_distance.picture(truth, first, field.at(pixels), losses, tmp_path / "signed_distance.png")
    check_picture(tmp_path / "signed_distance.png", 4)
