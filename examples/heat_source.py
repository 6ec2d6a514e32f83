"""Where in a rod is it heated, and how much? Found from thermometers at its two ends, for 256 rods at once.

A thread steps one rod through time in a loop of its own, whose number of steps is an argument, and compares it with
what the thermometers showed at every step. On the way back the loop runs in reverse: what it carried, the rod's
temperatures, is on a tape, or, where `loom.config.tape_memory` leaves too little place, at a few steps only, from
which the others are computed again. Draws heat_source.png.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import polyloom as loom

N_CELLS = 24
LEFT, RIGHT = 1, N_CELLS - 2
DIFFUSION, LOSS_TO_AIR, DT = 0.4, 0.002, 0.05
WIDTH = 1.5

Rod = loom.types.vector(length=N_CELLS, dtype=float)


@loom.func
def source(position: float, strength: float):
    """How much heat goes into each cell: a bell of the given area."""
    heat = Rod()
    for cell in range(N_CELLS):
        x = (float(cell) - position) / WIDTH
        heat[cell] = strength * loom.exp(-0.5 * x * x)
    return heat


@loom.func
def step(u: Rod, heat: Rod):
    """The temperatures a time step later; the ends are insulated."""
    after = Rod()
    for cell in range(N_CELLS):
        flow = u[max(cell - 1, 0)] - 2.0 * u[cell] + u[min(cell + 1, N_CELLS - 1)]
        after[cell] = u[cell] + DIFFUSION * flow - LOSS_TO_AIR * u[cell] + DT * heat[cell]
    return after


@loom.kernel
def heat_up(
    position: loom.array(dtype=float),
    strength: loom.array(dtype=float),
    n_steps: int,
    seen: loom.array(dtype=loom.vec2, ndim=2),
):
    """Writes what the thermometers show at every step."""
    rod = loom.tid()
    heat = source(position[rod], strength[rod])
    u = Rod()
    for k in range(n_steps):
        u = step(u, heat)
        seen[rod, k] = loom.vec2(u[LEFT], u[RIGHT])


@loom.kernel
def misfit(
    position: loom.array(dtype=float),
    strength: loom.array(dtype=float),
    n_steps: int,
    seen: loom.array(dtype=loom.vec2, ndim=2),
    loss: loom.array(dtype=float),
):
    """Sums the squares of how far the thermometers are from what was seen."""
    rod = loom.tid()
    heat = source(position[rod], strength[rod])
    u = Rod()
    total = 0.0
    for k in range(n_steps):
        u = step(u, heat)
        left = u[LEFT] - seen[rod, k][0]
        right = u[RIGHT] - seen[rod, k][1]
        total += left * left + right * right
    loom.atomic_add(loss, 0, total / float(n_steps))


class Rods:
    """Rods that are heated somewhere, what was seen of them, and a guess."""

    def __init__(self, n: int = 256, n_steps: int = 400, noise: float = 0.02) -> None:
        self.n_steps = n_steps
        along = np.linspace(0.0, 1.0, n)
        self.true_position = (0.5 * N_CELLS + 7.0 * np.sin(4.0 * np.pi * along)).astype(np.float32)
        self.true_strength = (1.0 + 0.5 * np.cos(6.0 * np.pi * along)).astype(np.float32)
        self.seen = np.zeros((n, n_steps, 2), np.float32)
        loom.launch(heat_up, n, [self.true_position, self.true_strength, n_steps], [self.seen])
        self.seen += np.random.default_rng(1).normal(0.0, noise, self.seen.shape).astype(np.float32)
        self.position, self.strength = np.full(n, 0.5 * N_CELLS, np.float32), np.full(n, 0.5, np.float32)

    def gradient(self) -> tuple[float, np.ndarray, np.ndarray, int]:
        """The loss of the guess, its gradient, and the bytes of the loop's tape."""
        loss = np.zeros(1, np.float32)
        with loom.Tape() as tape:
            loom.launch(misfit, len(self.position), [self.position, self.strength, self.n_steps, self.seen], [loss])
        tape.backward(loss)
        return float(loss[0]), tape.gradients[self.position], tape.gradients[self.strength], tape.memory.loops


def fit(rods: Rods, n_iterations: int) -> list[float]:
    """Descends with Adam (Kingma and Ba, 2015); gives the loss of each iteration."""
    losses = []
    guess = np.stack([rods.position, rods.strength])
    mean, square = np.zeros_like(guess), np.zeros_like(guess)
    for k in range(1, n_iterations + 1):
        loss, *gradients, _ = rods.gradient()
        losses.append(loss)
        gradient = np.stack(gradients)
        mean += 0.2 * (gradient - mean)
        square += 0.05 * (gradient * gradient - square)
        rate = np.float32([[0.6], [0.06]]) * min(1.0, 2.0 - 2.0 * k / n_iterations)
        guess = guess - rate * (mean / (1 - 0.8**k)) / (np.sqrt(square / (1 - 0.95**k)) + 1e-12)
        rods.position, rods.strength = guess.astype(np.float32)
    return [*losses, rods.gradient()[0]]


def bells(position: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """The heat that goes into each rod, a column, from its lower end up."""
    cell = np.linspace(N_CELLS - 1, 0, 256)[:, None]
    return strength / 1.6 * np.exp(-0.5 * ((cell - position) / WIDTH) ** 2)


def picture(rods: Rods, first: tuple[np.ndarray, np.ndarray], losses: list[float], path: Path) -> None:
    from drawing import Panels

    fire = np.array([[12, 12, 32], [90, 30, 110], [220, 80, 60], [255, 190, 70], [255, 250, 220]], np.float32)
    panels = Panels(4)
    for title, position, strength in (
        ("heat, a column for each rod: the truth", rods.true_position, rods.true_strength),
        ("the first guess", *first),
        ("found from the rods' two ends", rods.position, rods.strength),
    ):
        panels.begin(title)
        panels.field(bells(position, strength), fire)
    panels.losses(losses)
    panels.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("heat_source.png"))
    options = parser.parse_args()
    rods = Rods()
    first = rods.position, rods.strength
    tape = rods.gradient()[-1]
    started = time.perf_counter()
    losses = fit(rods, options.iterations)
    seconds = time.perf_counter() - started
    picture(rods, first, losses, options.out)
    off = np.abs(rods.position - rods.true_position).max()
    print(
        f"heat source: loss {losses[0]:.3g}, then {losses[-1]:.3g} after {options.iterations} iterations, "
        f"{seconds:.1f} s; positions are {off:.2f} cells off at most; the loop's tape takes {tape / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
