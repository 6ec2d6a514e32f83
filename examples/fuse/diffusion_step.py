"""A denoising step of a diffusion model: a small network predicts the noise in pictures, and some of it is taken away.

    python examples/fuse/diffusion_step.py [SIDE] [GRAPH.svg]

The network has two scales, of which the coarse one has attention over all places. Checks the prediction in float64, and
prints the time of a step against JAX and PyTorch, as far as they are installed.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops
from timing import compare, jax_or_none, torch_or_none

CHANNELS, GROUPS, LEVELS, STEPS = 64, 8, 128, 1000
NOISE = np.linspace(1e-4, 0.02, STEPS)
KEPT = np.cumprod(1 - NOISE)


def initial(g: np.random.Generator) -> dict[str, np.ndarray]:
    def convolution(outputs: int, inputs: int, size: int = 3) -> np.ndarray:
        return g.normal(0, (inputs * size * size) ** -0.5, (outputs, inputs, size, size)).astype(np.float32)

    def matrix(outputs: int, inputs: int) -> np.ndarray:
        return g.normal(0, inputs**-0.5, (outputs, inputs)).astype(np.float32)

    return {
        "first": convolution(CHANNELS, 3),
        "time": matrix(CHANNELS, LEVELS),
        "fine1": convolution(CHANNELS, CHANNELS),
        "fine2": convolution(CHANNELS, CHANNELS),
        "down": convolution(CHANNELS, CHANNELS),
        "q": matrix(CHANNELS, CHANNELS),
        "k": matrix(CHANNELS, CHANNELS),
        "v": matrix(CHANNELS, CHANNELS),
        "coarse": convolution(CHANNELS, CHANNELS),
        "last": convolution(3, CHANNELS),
    }


def features(step: int) -> np.ndarray:
    """Sines and cosines that tell the step."""
    angles = step * np.exp(np.arange(LEVELS // 2) * (-math.log(10_000) / (LEVELS // 2)))
    return np.concatenate([np.sin(angles), np.cos(angles)]).astype(np.float32)


def activated(x):
    """Normalised groups of channels, through a smooth gate."""
    return ops.silu(ops.group_norm(x, groups=GROUPS))


@loom.fuse
def predicted(x, time, p):
    """The noise in pictures of shape `[pictures, 3, side, side]`."""
    pictures, _, side, _ = x.shape
    half = side // 2
    h = ops.conv2d(x, p["first"], padding=1)
    of_time = ops.reshape(ops.linear(time, p["time"]), (1, CHANNELS, 1, 1))
    fine = ops.add(ops.conv2d(activated(h), p["fine1"], padding=1), of_time)
    h = ops.add(h, ops.conv2d(activated(fine), p["fine2"], padding=1))
    low = ops.conv2d(activated(h), p["down"], stride=2, padding=1)
    places = ops.transpose(ops.reshape(low, (pictures, CHANNELS, half * half)))
    q, k, v = (ops.linear(places, p[name]) for name in "qkv")
    mixed = ops.reshape(ops.transpose(ops.attention(q, k, v)), (pictures, CHANNELS, half, half))
    low = ops.conv2d(activated(ops.add(low, mixed)), p["coarse"], padding=1)
    # Each place of the coarse scale is four of the fine one.
    wide = ops.broadcast_to(
        ops.reshape(low, (pictures, CHANNELS, half, 1, half, 1)), (pictures, CHANNELS, half, 2, half, 2)
    )
    h = ops.add(h, ops.reshape(wide, (pictures, CHANNELS, side, side)))
    return ops.conv2d(activated(h), p["last"], padding=1)


@loom.fuse
def denoised(x, noise, factor, share, deviation, seed):
    """The pictures a step earlier."""
    fresh = ops.randn(seed, x.shape)
    mean = ops.multiply(ops.subtract(x, ops.multiply(noise, share)), factor)
    return ops.add(mean, ops.multiply(fresh, deviation))


def step_of(x: Any, step: int, p: Any) -> Any:
    """One step of the reverse process."""
    noise = predicted(x, features(step), p)
    factor = float(1 / math.sqrt(1 - NOISE[step]))
    share = float(NOISE[step] / math.sqrt(1 - KEPT[step]))
    return denoised(x, noise, factor, share, float(math.sqrt(NOISE[step])) if step > 0 else 0.0, step)


def network(xp: Any, convolved: Any, activated: Any, x: Any, time: Any, p: Any) -> Any:
    """The network by a library with NumPy's functions, given its convolution and activation."""
    h = convolved(x, p["first"])
    fine = convolved(activated(h), p["fine1"]) + (p["time"] @ time)[:, None, None]
    h = h + convolved(activated(fine), p["fine2"])
    low = convolved(activated(h), p["down"], 2)
    places = low.reshape(x.shape[0], CHANNELS, -1).swapaxes(1, 2)
    q, k, v = (places @ p[name].T for name in "qkv")
    scores = q @ k.swapaxes(1, 2) / math.sqrt(CHANNELS)
    weights = xp.exp(scores - scores.max(-1, keepdims=True))
    mixed = (weights / weights.sum(-1, keepdims=True)) @ v
    low = convolved(activated(low + mixed.swapaxes(1, 2).reshape(low.shape)), p["coarse"])
    return convolved(activated(h + low.repeat(2, 2).repeat(2, 3)), p["last"])


def activation(xp: Any, x: Any) -> Any:
    """Normalised groups of channels through a smooth gate, likewise."""
    grouped = x.reshape(x.shape[0], GROUPS, -1)
    x = ((grouped - grouped.mean(2, keepdims=True)) / xp.sqrt(grouped.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
    return x / (1 + xp.exp(-x))


def exact_prediction(x: Any, time: Any, p: Any) -> Any:
    """The network in NumPy."""

    def convolved(x: Any, weight: Any, stride: int = 1) -> Any:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::stride, ::stride]
        return np.einsum("ncijab,ocab->noij", windows, weight, optimize=True)

    return network(np, convolved, lambda x: activation(np, x), x, time, p)


def of_jax(jax: Any, x: Any, time: Any, p: Any) -> Any:
    """The network in JAX, with its own convolution."""

    def convolved(x: Any, weight: Any, stride: int = 1) -> Any:
        padding, layout = ((1, 1), (1, 1)), ("NCHW", "OIHW", "NCHW")
        return jax.lax.conv_general_dilated(x, weight, (stride, stride), padding, dimension_numbers=layout)

    return network(jax.numpy, convolved, lambda x: activation(jax.numpy, x), x, time, p)


def of_torch(torch: Any, x: Any, time: Any, p: Any) -> Any:
    """The network by PyTorch's own functions."""
    f = torch.nn.functional

    def activated(x: Any) -> Any:
        return f.silu(f.group_norm(x, GROUPS))

    with torch.no_grad():
        h = f.conv2d(x, p["first"], padding=1)
        fine = f.conv2d(activated(h), p["fine1"], padding=1) + (p["time"] @ time)[:, None, None]
        h = h + f.conv2d(activated(fine), p["fine2"], padding=1)
        low = f.conv2d(activated(h), p["down"], stride=2, padding=1)
        places = low.flatten(2).transpose(1, 2)
        q, k, v = (places @ p[name].T for name in "qkv")
        mixed = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(low.shape)
        low = f.conv2d(activated(low + mixed), p["coarse"], padding=1)
        return f.conv2d(activated(h + f.interpolate(low, scale_factor=2)), p["last"], padding=1)


def main(side: int = 32, graph: str = "diffusion_step.svg") -> None:
    g = np.random.default_rng(0)
    p = initial(g)
    x = g.normal(size=(4, 3, side, side)).astype(np.float32)
    time = features(500)
    wide = {name: value.astype(np.float64) for name, value in p.items()}
    exact = exact_prediction(x.astype(np.float64), time.astype(np.float64), wide)
    print(f"prediction within {np.abs(predicted(x, time, p) - exact).max() / np.abs(exact).max():.1e} of float64")
    small = x
    for step in range(STEPS - 1, STEPS - 21, -1):
        small = step_of(small, step, p)
    print(f"after 20 steps the deviation is {small.std():.4f}, and all is finite: {bool(np.isfinite(small).all())}")
    peers = {}
    if (jax := jax_or_none()) is not None:
        compiled = jax.jit(lambda x, time, p: of_jax(jax, x, time, p))
        peers["JAX"] = lambda: compiled(x, time, p).block_until_ready()
    if (torch := torch_or_none()) is not None:
        tensors = {name: torch.from_numpy(value) for name, value in p.items()}
        own, of_time = torch.from_numpy(x), torch.from_numpy(time)
        compiled_network = torch.compile(lambda x, time, p: of_torch(torch, x, time, p))
        peers["PyTorch"] = lambda: of_torch(torch, own, of_time, tensors)
        peers["torch.compile"] = lambda: compiled_network(own, of_time, tensors)
    compare(f"prediction for 4 pictures of {side} by {side}", lambda: predicted(x, time, p), peers)
    Path(graph).write_text(predicted.graph())


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]), *sys.argv[2:3])
