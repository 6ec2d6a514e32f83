"""The basic block of a residual network: two convolutions with normalised batches, added to the input.

    python examples/fuse/resnet_block.py [IMAGES] [GRAPH.svg]

Checks the result and the gradients in float64, and prints the times of a forward pass and of a training step against
JAX and PyTorch, as far as they are installed. NumPy has no convolution.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops
from timing import compare, jax_or_none, torch_or_none

CHANNELS, SIDE = 64, 56


def initial(g: np.random.Generator) -> dict[str, np.ndarray]:
    deviation = (2 / (9 * CHANNELS)) ** 0.5
    return {
        "weight1": g.normal(0, deviation, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32),
        "scale1": np.ones(CHANNELS, np.float32),
        "shift1": np.zeros(CHANNELS, np.float32),
        "weight2": g.normal(0, deviation, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32),
        "scale2": np.ones(CHANNELS, np.float32),
        "shift2": np.zeros(CHANNELS, np.float32),
    }


def normalised(x, scale, shift):
    """Each channel with the mean and deviation of the batch taken away."""
    channels = (1, x.shape[1], 1, 1)
    mean = ops.mean(x, (0, 2, 3), keepdims=True)
    inverse = ops.rsqrt(ops.add(ops.var(x, (0, 2, 3), keepdims=True), 1e-5))
    factor = ops.multiply(inverse, ops.reshape(scale, channels))
    return ops.add(ops.multiply(ops.subtract(x, mean), factor), ops.reshape(shift, channels))


@loom.fuse
def block(x, p):
    """The block's result for `x`, of shape `[images, CHANNELS, rows, columns]`."""
    h = ops.conv2d(x, p["weight1"], padding=1)
    h = ops.relu(normalised(h, p["scale1"], p["shift1"]))
    h = ops.conv2d(h, p["weight2"], padding=1)
    return ops.relu(ops.add(normalised(h, p["scale2"], p["shift2"]), x))


def loss(p, x, wanted):
    """The mean squared distance from what is wanted."""
    return ops.mean(ops.square(ops.subtract(block(x, p), wanted)))


def exact_block(x: Any, p: Any) -> Any:
    """The same in NumPy: a convolution is nine products of matrices."""

    def convolved(x: Any, weight: Any) -> Any:
        rows, columns = x.shape[2:]
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        parts = (
            np.einsum("oc,ncij->noij", weight[:, :, i, j], padded[:, :, i : i + rows, j : j + columns])
            for i in range(3)
            for j in range(3)
        )
        return sum(parts)

    def normal(x: Any, scale: Any, shift: Any) -> Any:
        centred = x - x.mean((0, 2, 3), keepdims=True)
        deviation = np.sqrt((centred**2).mean((0, 2, 3), keepdims=True) + 1e-5)
        return centred / deviation * scale[:, None, None] + shift[:, None, None]

    h = np.maximum(normal(convolved(x, p["weight1"]), p["scale1"], p["shift1"]), 0)
    return np.maximum(normal(convolved(h, p["weight2"]), p["scale2"], p["shift2"]) + x, 0)


def check(p: dict[str, np.ndarray]) -> None:
    """Compares with NumPy in float64 on a small picture: the result, and the slope of the loss along a direction."""
    g = np.random.default_rng(1)
    x, wanted = (g.normal(size=(2, CHANNELS, 9, 7)) for _ in range(2))
    small = x.astype(np.float32), p, wanted.astype(np.float32)
    wide = {name: value.astype(np.float64) for name, value in p.items()}
    exact = exact_block(small[0].astype(np.float64), wide)
    print(f"result within {np.abs(block(*small[:2]) - exact).max() / np.abs(exact).max():.1e} of float64")
    # Slopes have kinks where relu has them, so that float64 differences need a small step.
    direction = {name: g.normal(size=value.shape) for name, value in p.items()}
    losses = []
    for step in (1e-7, -1e-7):
        moved = {name: wide[name] + step * direction[name] for name in p}
        losses.append(np.mean((exact_block(x, moved) - wanted) ** 2))
    gradients = loom.grad(loss)(wide, x, wanted)
    slope = sum(float(np.sum(gradients[name] * direction[name])) for name in p)
    print(f"slope of the loss {slope:.6g}, by differences {(losses[0] - losses[1]) / 2e-7:.6g}")


def jax_block(jax: Any, x: Any, p: Any) -> Any:
    """The same by JAX's own functions."""
    jnp = jax.numpy

    def convolved(x: Any, weight: Any) -> Any:
        return jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))

    def normal(x: Any, scale: Any, shift: Any) -> Any:
        mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * scale[:, None, None] + shift[:, None, None]

    h = jax.nn.relu(normal(convolved(x, p["weight1"]), p["scale1"], p["shift1"]))
    return jax.nn.relu(normal(convolved(h, p["weight2"]), p["scale2"], p["shift2"]) + x)


def torch_block(torch: Any, x: Any, p: Any) -> Any:
    """The same by PyTorch's own functions."""
    f = torch.nn.functional

    def normal(x: Any, scale: Any, shift: Any) -> Any:
        return f.batch_norm(x, None, None, scale, shift, training=True)

    h = f.relu(normal(f.conv2d(x, p["weight1"], padding=1), p["scale1"], p["shift1"]))
    return f.relu(normal(f.conv2d(h, p["weight2"], padding=1), p["scale2"], p["shift2"]) + x)


def main(images: int = 4, graph: str = "resnet_block.svg") -> None:
    g = np.random.default_rng(0)
    p = initial(g)
    check(p)
    x, wanted = (g.normal(size=(images, CHANNELS, SIDE, SIDE)).astype(np.float32) for _ in range(2))
    step = loom.value_and_grad(loss)
    forward, training = {}, {}
    if (jax := jax_or_none()) is not None:
        compiled = jax.jit(lambda x, p: jax_block(jax, x, p))
        forward["JAX"] = lambda: compiled(x, p).block_until_ready()
        of_jax = jax.jit(jax.value_and_grad(lambda p, x, wanted: ((jax_block(jax, x, p) - wanted) ** 2).mean()))
        training["JAX"] = lambda: jax.block_until_ready(of_jax(p, x, wanted))
    if (torch := torch_or_none()) is not None:
        tensors = {name: torch.from_numpy(value) for name, value in p.items()}
        own, compiled_block = torch.from_numpy(x), torch.compile(lambda x, p: torch_block(torch, x, p))
        forward["PyTorch"] = lambda: torch_block(torch, own, tensors)
        forward["torch.compile"] = lambda: compiled_block(own, tensors)
    compare(f"{images} images forward", lambda: block(x, p), forward)
    compare("loss and gradients", lambda: step(p, x, wanted), training)
    Path(graph).write_text(block.graph())


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]), *sys.argv[2:3])
