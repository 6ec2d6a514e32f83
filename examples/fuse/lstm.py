"""An LSTM over a sequence: a loop of Python in which each step is one product and what follows it, and its gradient.

    python examples/fuse/lstm.py [STEPS] [GRAPH.svg]

Checks the states and the gradients in float64, and prints the times against NumPy, JAX and PyTorch, as far as they are
installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops
from timing import compare, jax_or_none, torch_or_none

BATCH, INPUTS, WIDTH = 32, 64, 128


def initial(g: np.random.Generator) -> dict[str, np.ndarray]:
    def matrix(inputs: int) -> np.ndarray:
        return g.uniform(-1, 1, (4 * WIDTH, inputs)).astype(np.float32) / np.float32(WIDTH**0.5)

    return {"input": matrix(INPUTS), "state": matrix(WIDTH), "bias": np.zeros(4 * WIDTH, np.float32)}


@loom.fuse
def cell(x, h, c, weight, bias):
    """The next state, given the inputs times their weights."""
    gates = ops.add(x, ops.linear(h, weight, bias))
    keep, forget, update, show = (ops.slice(gates, (0, i * WIDTH), (BATCH, (i + 1) * WIDTH)) for i in range(4))
    c = ops.add(ops.multiply(ops.sigmoid(forget), c), ops.multiply(ops.sigmoid(keep), ops.tanh(update)))
    return ops.multiply(ops.sigmoid(show), ops.tanh(c)), c


def last_state(p, x, start):
    """The state after inputs of shape `[steps, BATCH, INPUTS]`."""
    given = ops.linear(x, p["input"])
    h = c = start
    for step in range(x.shape[0]):
        h, c = cell(given[step], h, c, p["state"], p["bias"])
    return h


def loss(p, x, start, wanted):
    """The mean squared distance from what is wanted."""
    return ops.mean(ops.square(ops.subtract(last_state(p, x, start), wanted)))


def last_state_of(xp: Any, p: Any, x: Any, start: Any) -> Any:
    """The same by a library with NumPy's functions."""

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + xp.exp(-x))

    given = x @ p["input"].T
    h = c = start
    for step in range(x.shape[0]):
        gates = given[step] + h @ p["state"].T + p["bias"]
        keep, forget, update, show = (gates[:, i * WIDTH : (i + 1) * WIDTH] for i in range(4))
        c = sigmoid(forget) * c + sigmoid(keep) * xp.tanh(update)
        h = sigmoid(show) * xp.tanh(c)
    return h


def check(p: dict[str, np.ndarray], x: np.ndarray, start: np.ndarray, wanted: np.ndarray) -> None:
    """Compares with NumPy in float64: the state, and the slope of the loss along a direction."""
    wide = {name: value.astype(np.float64) for name, value in p.items()}
    exact = last_state_of(np, wide, x.astype(np.float64), start.astype(np.float64))
    print(f"state within {np.abs(last_state(p, x, start) - exact).max():.1e} of float64")
    direction = {name: np.random.default_rng(1).normal(size=value.shape) for name, value in p.items()}
    losses = []
    for step in (1e-5, -1e-5):
        moved = {name: wide[name] + step * direction[name] for name in p}
        losses.append(np.mean((last_state_of(np, moved, x.astype(np.float64), start) - wanted) ** 2))
    gradients = loom.grad(loss)(p, x, start, wanted)
    slope = sum(float(np.sum(gradients[name] * direction[name])) for name in p)
    print(f"slope of the loss {slope:.6g}, by differences in float64 {(losses[0] - losses[1]) / 2e-5:.6g}")


def main(steps: int = 64, graph: str = "lstm.svg") -> None:
    g = np.random.default_rng(0)
    p = initial(g)
    x = g.normal(size=(steps, BATCH, INPUTS)).astype(np.float32)
    start, wanted = np.zeros((BATCH, WIDTH), np.float32), g.normal(size=(BATCH, WIDTH)).astype(np.float32)
    check(p, x[:16], start, wanted)
    step = loom.value_and_grad(loss)
    forward = {"NumPy": lambda: last_state_of(np, p, x, start)}
    training = {}
    if (jax := jax_or_none()) is not None:
        jnp = jax.numpy
        compiled = jax.jit(lambda p, x, start: last_state_of(jnp, p, x, start))
        forward["JAX"] = lambda: compiled(p, x, start).block_until_ready()
        of_jax = jax.jit(jax.value_and_grad(lambda p, x, start, w: ((last_state_of(jnp, p, x, start) - w) ** 2).mean()))
        training["JAX"] = lambda: jax.block_until_ready(of_jax(p, x, start, wanted))
    if (torch := torch_or_none()) is not None:
        layer, sequence = torch.nn.LSTM(INPUTS, WIDTH), torch.from_numpy(x)

        def of_torch() -> Any:
            with torch.no_grad():
                return layer(sequence)

        forward["PyTorch"] = of_torch
    compare(f"{steps} steps", lambda: last_state(p, x, start), forward)
    compare("loss and gradients", lambda: step(p, x, start, wanted), training)
    Path(graph).write_text(cell.graph())


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]), *sys.argv[2:3])
