"""A tiny neural network learns how far a point is from a star, negative inside: its gradient is a kernel's.

Each thread evaluates the network, two layers of sines, at a point of its own and adds to the loss; the weights are in
arrays, and so are their gradients, to which the backward kernel of every thread adds. Draws signed_distance.png.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import polyloom as loom

WIDTH, RESOLUTION = 24, 360
Hidden = loom.types.vector(length=WIDTH, dtype=float)
Points = loom.array(dtype=loom.vec2)
Numbers = loom.array(dtype=float)
Rows = loom.array(dtype=Hidden)


@loom.func
def network(p: loom.vec2, w1: Points, b1: Numbers, w2: Rows, b2: Numbers, w3: Numbers):
    """What the network says of a point."""
    h = Hidden()
    for k in range(WIDTH):
        h[k] = loom.sin(loom.dot(w1[k], p) + b1[k])
    y = w3[WIDTH]
    for k in range(w2.shape[0]):
        y += w3[k] * loom.sin(loom.dot(w2[k], h) + b2[k])
    return y


@loom.kernel
def evaluate(points: Points, w1: Points, b1: Numbers, w2: Rows, b2: Numbers, w3: Numbers, out: Numbers):
    i = loom.tid()
    out[i] = network(points[i], w1, b1, w2, b2, w3)


@loom.kernel
def misfit(
    points: Points, distances: Numbers, w1: Points, b1: Numbers, w2: Rows, b2: Numbers, w3: Numbers, loss: Numbers
):
    i = loom.tid()
    error = network(points[i], w1, b1, w2, b2, w3) - distances[i]
    loom.atomic_add(loss, 0, error * error / float(points.shape[0]))


@loom.kernel
def adam(w: Numbers, gradient: Numbers, mean: Numbers, square: Numbers, rate: float, fade: loom.vec2):
    """A step of Adam (Kingma and Ba, 2015); `fade` has the powers of its decay rates."""
    i = loom.tid()
    mean[i] += 0.1 * (gradient[i] - mean[i])
    square[i] += 0.01 * (gradient[i] * gradient[i] - square[i])
    w[i] -= rate * mean[i] / (1.0 - fade[0]) / (loom.sqrt(square[i] / (1.0 - fade[1])) + 1e-8)


def star(points: np.ndarray) -> np.ndarray:
    """The signed distance from a star with five points."""
    angle = np.pi / 2 + np.pi / 5 * np.arange(10)
    corners = np.where(np.arange(10) % 2, 0.35, 0.85)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    nearest, inside = np.full(len(points), np.inf), np.zeros(len(points), bool)
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        along = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0)
        nearest = np.minimum(nearest, np.hypot(*(points - a - along[:, None] * (b - a)).T))
        crossed = (a[1] > points[:, 1]) != (b[1] > points[:, 1])
        inside ^= crossed & (points[:, 0] < a[0] + (points[:, 1] - a[1]) * (b[0] - a[0]) / (b[1] - a[1]))
    return np.where(inside, -nearest, nearest).astype(np.float32)


class Field:
    """The weights, and what they are trained with."""

    def __init__(self, n_samples: int = 4096) -> None:
        self.random = np.random.default_rng(3)
        shapes = [(WIDTH, 2), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH + 1,)]
        scales = [5.0, 1.0, 1.5 / WIDTH**0.5, 1.0, 0.3 / WIDTH**0.5]
        self.weights = [
            self.random.normal(0.0, scale, shape).astype(np.float32)
            for scale, shape in zip(scales, shapes, strict=True)
        ]
        self.n_samples = n_samples
        self.draw()

    def draw(self) -> None:
        """Other points to train with, over a square somewhat larger than that of the picture."""
        self.points = self.random.uniform(-1.1, 1.1, (self.n_samples, 2)).astype(np.float32)
        self.distances = star(self.points)

    def at(self, points: np.ndarray) -> np.ndarray:
        out = np.zeros(len(points), np.float32)
        loom.launch(evaluate, len(points), [points, *self.weights], [out])
        return out

    def gradient(self) -> tuple[float, list[np.ndarray]]:
        """The loss at the points, and its gradient with respect to the weights."""
        loss = np.zeros(1, np.float32)
        with loom.Tape() as tape:
            loom.launch(misfit, self.n_samples, [self.points, self.distances, *self.weights], [loss])
        tape.backward(loss)
        return float(loss[0]), [tape.gradients[each] for each in self.weights]


def train(field: Field, n_iterations: int, rate: float = 0.01) -> list[float]:
    losses = []
    state = [(np.zeros(each.size, np.float32), np.zeros(each.size, np.float32)) for each in field.weights]
    for k in range(1, n_iterations + 1):
        field.draw()
        loss, gradients = field.gradient()
        losses.append(loss)
        fade, now = loom.vec2(0.9**k, 0.99**k), rate * (1.0 - k / (n_iterations + 1))
        for w, g, (mean, square) in zip(field.weights, gradients, state, strict=True):
            loom.launch(adam, w.size, [w.reshape(-1), g.reshape(-1), mean, square, now, fade])
    return [*losses, field.gradient()[0]]


def colours(distances: np.ndarray) -> np.ndarray:
    """Blue inside and orange outside, with lines of the same distance, that of the shape black."""
    side = np.where(distances[..., None] < 0.0, [70.0, 130.0, 200.0], [235.0, 160.0, 90.0])
    pale = 1.0 - np.exp(-4.0 * np.abs(distances[..., None]))
    shade = 0.9 + 0.1 * np.cos(2.0 * np.pi * distances[..., None] / 0.1)
    return (255.0 + (side - 255.0) * pale) * shade * np.clip(np.abs(distances[..., None]) / 0.008 - 0.5, 0.0, 1.0)


def picture(truth: np.ndarray, first: np.ndarray, found: np.ndarray, losses: list[float], path: Path) -> None:
    from drawing import Panels

    panels = Panels(4)
    for title, distances in (
        ("the distance from a star", truth),
        ("the network before training", first),
        (f"after {len(losses) - 1} iterations", found),
    ):
        panels.begin(title)
        panels.picture(colours(distances.reshape(RESOLUTION, RESOLUTION)))
    panels.losses(losses)
    panels.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=800)
    parser.add_argument("--out", type=Path, default=Path("signed_distance.png"))
    options = parser.parse_args()
    field = Field()
    axis = np.linspace(-1.0, 1.0, RESOLUTION, dtype=np.float32)
    pixels = np.stack(np.meshgrid(axis, -axis), axis=-1).reshape(-1, 2)
    first, started = field.at(pixels), time.perf_counter()
    losses = train(field, options.iterations)
    seconds = time.perf_counter() - started
    picture(star(pixels), first, field.at(pixels), losses, options.out)
    n_weights = sum(each.size for each in field.weights)
    print(
        f"signed distance, {n_weights} weights: loss {losses[0]:.3g}, then {losses[-1]:.3g} after {options.iterations} "
        f"iterations, {seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
