"""A rope thrown into the shape of a heart: the velocities to throw it with, found by going back through 300 time steps.

The rope hangs from a nail. Masses joined by damped springs move under gravity, two launches a step, which a tape
records; the loss is how far the masses are from the target at the end, and its gradient is one with respect to the
velocities at the beginning. Draws rope.png.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import polyloom as loom

LENGTH, DURATION = 3.0, 0.6
STIFFNESS, DAMPING = 4000.0, 6.0
GRAVITY = loom.vec2(0.0, -9.81)

Points = loom.array(dtype=loom.vec2)


@loom.func
def pull(x: Points, v: Points, i: int, j: int, rest: float):
    """The acceleration of a mass by the spring to another one: a rope pulls and does not push."""
    apart = x[j] - x[i]
    length = loom.length(apart)
    along = apart / length
    if length < rest:
        return loom.vec2(0.0, 0.0)
    return (STIFFNESS * (length - rest) + DAMPING * loom.dot(v[j] - v[i], along)) * along


@loom.kernel
def accelerate(x: Points, v: Points, out: Points, rest: float, dt: float):
    i = loom.tid()
    if i > 0:  # the first mass is nailed down
        force = GRAVITY - 0.2 * v[i] + pull(x, v, i, i - 1, rest)
        if i < x.shape[0] - 1:
            force += pull(x, v, i, i + 1, rest)
        out[i] = v[i] + dt * force


@loom.kernel
def move(x: Points, v: Points, dt: float):
    i = loom.tid()
    x[i] = x[i] + dt * v[i]


@loom.kernel
def distance(x: Points, target: Points, loss: loom.array(dtype=float)):
    i = loom.tid()
    apart = x[i] - target[i]
    loom.atomic_add(loss, 0, loom.dot(apart, apart) / float(x.shape[0]))


def heart(n: int) -> np.ndarray:
    """A heart whose lower tip is the origin, in steps of the same length."""
    t = np.linspace(-np.pi, np.pi, 4001)
    curve = np.column_stack(
        [16 * np.sin(t) ** 3, 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)]
    )
    curve -= curve[0]
    walked = np.concatenate([[0.0], np.hypot(*np.diff(curve, axis=0).T).cumsum()])
    at = np.linspace(0.0, 0.97 * walked[-1], n)
    points = np.column_stack([np.interp(at, walked, curve[:, axis]) for axis in (0, 1)])
    return (points * LENGTH / at[-1]).astype(np.float32)


class Rope:
    """A throw, `velocity`, and where it goes."""

    def __init__(self, n: int = 48, n_steps: int = 300) -> None:
        self.n_steps, self.dt, self.rest = n_steps, DURATION / n_steps, LENGTH / (n - 1)
        self.hanging = np.column_stack([np.zeros(n), -self.rest * np.arange(n)]).astype(np.float32)
        self.target = heart(n)
        # The throw to begin with: every mass straight to where it is to be, as if there were no gravity and no rope.
        self.velocity = (self.target - self.hanging) / np.float32(DURATION)

    def throw(self, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """The loss, where the rope is at the end, and where it was on the way."""
        n = len(velocity)
        x, v, out, loss = self.hanging.copy(), velocity, np.zeros_like(velocity), np.zeros(1, np.float32)
        way = []
        for step in range(self.n_steps):
            if step % (self.n_steps // 6) == 0:
                way.append(x.copy())
            loom.launch(accelerate, n, [x, v, out, self.rest, self.dt])
            v, out = out, np.zeros_like(out)
            loom.launch(move, n, [x, v, self.dt])
        loom.launch(distance, n, [x, self.target], [loss])
        return loss, x, way

    def gradient(self) -> tuple[float, np.ndarray]:
        """The loss of the throw and its gradient."""
        with loom.Tape() as tape:
            loss, _, _ = self.throw(self.velocity)
        tape.backward(loss)
        return float(loss[0]), tape.gradients[self.velocity]


def fit(rope: Rope, n_iterations: int, rate: float = 0.4) -> list[float]:
    """Descends with Adam (Kingma and Ba, 2015); gives the loss of each iteration."""
    losses = []
    mean, square = np.zeros_like(rope.velocity), np.zeros_like(rope.velocity)
    for k in range(1, n_iterations + 1):
        loss, gradient = rope.gradient()
        losses.append(loss)
        gradient[0] = 0.0  # the nail stays
        mean += 0.1 * (gradient - mean)
        square += 0.01 * (gradient * gradient - square)
        step = rate * min(1.0, 2.0 - 2.0 * k / n_iterations)
        rope.velocity = rope.velocity - step * (mean / (1 - 0.9**k)) / (np.sqrt(square / (1 - 0.99**k)) + 1e-8)
    return [*losses, float(rope.throw(rope.velocity)[0][0])]


def picture(rope: Rope, first: np.ndarray, losses: list[float], path: Path) -> None:
    from drawing import BLUE, GREY, ORANGE, Panels

    panels = Panels(3)
    for title, velocity in (("the first throw", first), (f"after {len(losses) - 1} iterations", rope.velocity)):
        panels.begin(title, (-2.0, -3.05, 2.0, 0.95))
        _, end, way = rope.throw(velocity)
        for points in way:
            panels.line(points, GREY)
        panels.line(rope.target, ORANGE, 6)
        panels.line(end, BLUE, 2)
        panels.dots(end, BLUE)
        panels.dots(end[:1], (30, 30, 30), 5)
        for y, text, colour in ((0.81, "target", ORANGE), (0.87, "rope at the end", BLUE), (0.93, "on its way", GREY)):
            panels.words(0.03, y, text, colour)
    panels.losses(losses)
    panels.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=120)
    parser.add_argument("--out", type=Path, default=Path("rope.png"))
    options = parser.parse_args()
    rope = Rope()
    first, started = rope.velocity, time.perf_counter()
    losses = fit(rope, options.iterations)
    seconds = time.perf_counter() - started
    picture(rope, first, losses, options.out)
    print(f"rope: loss {losses[0]:.3g}, then {losses[-1]:.3g} after {options.iterations} iterations, {seconds:.1f} s")


if __name__ == "__main__":
    main()
