"""A block of GPT-2: attention and a network of two layers, each after a normalisation and added to its input.

    python examples/fuse/gpt2_block.py [TOKENS] [GRAPH.svg]

Checks the forward pass and the gradients against NumPy in float64, and prints the times of a forward pass and of a
training step against NumPy, JAX and PyTorch, as far as they are installed.
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

WIDTH, HEADS, HEAD_WIDTH = 768, 12, 64


def initial(g: np.random.Generator) -> dict[str, np.ndarray]:
    """The parameters of a block, as GPT-2 draws them."""

    def matrix(outputs: int, inputs: int) -> np.ndarray:
        return g.normal(0, 0.02, (outputs, inputs)).astype(np.float32)

    def vector(value: float, n: int = WIDTH) -> np.ndarray:
        return (value + g.normal(0, 0.02, n)).astype(np.float32)

    return {
        "norm1": vector(1),
        "shift1": vector(0),
        "q": matrix(WIDTH, WIDTH),
        "k": matrix(WIDTH, WIDTH),
        "v": matrix(WIDTH, WIDTH),
        "q_bias": vector(0),
        "k_bias": vector(0),
        "v_bias": vector(0),
        "out": matrix(WIDTH, WIDTH),
        "out_bias": vector(0),
        "norm2": vector(1),
        "shift2": vector(0),
        "up": matrix(4 * WIDTH, WIDTH),
        "up_bias": vector(0, 4 * WIDTH),
        "down": matrix(WIDTH, 4 * WIDTH),
        "down_bias": vector(0),
    }


@loom.fuse
def block(x, p):
    """The block's result for `x`, of shape `[1, tokens, WIDTH]`."""
    h = ops.layer_norm(x, p["norm1"], p["shift1"])
    q = ops.permute(ops.reshape(ops.linear(h, p["q"], p["q_bias"]), (1, -1, HEADS, HEAD_WIDTH)), (0, 2, 1, 3))
    k = ops.permute(ops.reshape(ops.linear(h, p["k"], p["k_bias"]), (1, -1, HEADS, HEAD_WIDTH)), (0, 2, 1, 3))
    v = ops.permute(ops.reshape(ops.linear(h, p["v"], p["v_bias"]), (1, -1, HEADS, HEAD_WIDTH)), (0, 2, 1, 3))
    mixed = ops.permute(ops.attention(q, k, v, causal=True), (0, 2, 1, 3))
    x = ops.add(x, ops.linear(ops.reshape(mixed, (1, -1, WIDTH)), p["out"], p["out_bias"]))
    h = ops.layer_norm(x, p["norm2"], p["shift2"])
    h = ops.gelu(ops.linear(h, p["up"], p["up_bias"]), "tanh")
    return ops.add(x, ops.linear(h, p["down"], p["down_bias"]))


def loss(p, x, wanted):
    """The mean squared distance from what is wanted."""
    return ops.mean(ops.square(ops.subtract(block(x, p), wanted)))


def block_of(xp: Any, x: Any, p: Any) -> Any:
    """The same by a library with NumPy's functions."""

    def normalised(x: Any, weight: Any, shift: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / xp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + shift

    def of_heads(x: Any) -> Any:
        return x.reshape(batch, tokens, HEADS, width // HEADS).swapaxes(1, 2)

    batch, tokens, width = x.shape
    h = normalised(x, p["norm1"], p["shift1"])
    q, k, v = (of_heads(h @ p[name].T + p[f"{name}_bias"]) for name in "qkv")
    scores = q @ k.swapaxes(2, 3) / math.sqrt(width // HEADS)
    scores = xp.where(xp.tri(tokens, dtype=bool), scores, -xp.inf)
    weights = xp.exp(scores - scores.max(-1, keepdims=True))
    mixed = (weights / weights.sum(-1, keepdims=True)) @ v
    x = x + mixed.swapaxes(1, 2).reshape(batch, tokens, width) @ p["out"].T + p["out_bias"]
    h = normalised(x, p["norm2"], p["shift2"]) @ p["up"].T + p["up_bias"]
    h = h * (1 + xp.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3))) / 2
    return x + h @ p["down"].T + p["down_bias"]


def check(p: dict[str, np.ndarray], x: np.ndarray, wanted: np.ndarray) -> None:
    """Compares with NumPy in float64: the result, and the slope of the loss along a random direction."""
    wide = {name: value.astype(np.float64) for name, value in p.items()}
    exact = block_of(np, x.astype(np.float64), wide)
    print(f"result within {np.abs(block(x, p) - exact).max() / np.abs(exact).max():.1e} of float64")
    gradients = loom.grad(loss)(p, x, wanted)
    g = np.random.default_rng(1)
    direction = {name: g.normal(size=value.shape) for name, value in p.items()}
    losses = []
    for step in (1e-5, -1e-5):
        moved = {name: wide[name] + step * direction[name] for name in p}
        losses.append(np.mean((block_of(np, x.astype(np.float64), moved) - wanted) ** 2))
    slope = sum(float(np.sum(gradients[name] * direction[name])) for name in p)
    exact_slope = (losses[0] - losses[1]) / 2e-5
    print(f"slope of the loss {slope:.6g}, by differences in float64 {exact_slope:.6g}")


def main(tokens: int = 256, graph: str = "gpt2_block.svg") -> None:
    g = np.random.default_rng(0)
    p = initial(g)
    x, wanted = (g.normal(size=(1, tokens, WIDTH)).astype(np.float32) for _ in range(2))
    check(p, x, wanted)
    optimiser = loom.optim.AdamW(lr=1e-4)
    step = loom.value_and_grad(loss)

    def train() -> None:
        _, gradients = step(p, x, wanted)
        optimiser.update(p, gradients)

    forward_peers = {"NumPy": lambda: block_of(np, x, p)}
    training_peers = {}
    if (jax := jax_or_none()) is not None:
        compiled = jax.jit(lambda x, p: block_of(jax.numpy, x, p))
        forward_peers["JAX"] = lambda: compiled(x, p).block_until_ready()
        of_jax = jax.jit(jax.value_and_grad(lambda p, x, wanted: ((block_of(jax.numpy, x, p) - wanted) ** 2).mean()))
        training_peers["JAX without its optimiser"] = lambda: jax.block_until_ready(of_jax(p, x, wanted))
    if (torch := torch_or_none()) is not None:
        tensors = {name: torch.from_numpy(value) for name, value in p.items()}
        own, compiled_block = torch.from_numpy(x), torch.compile(lambda x, p: torch_block(torch, x, p))
        forward_peers["PyTorch"] = lambda: torch_block(torch, own, tensors)
        forward_peers["torch.compile"] = lambda: compiled_block(own, tensors)
    compare(f"{tokens} tokens forward", lambda: block(x, p), forward_peers)
    compare("training step with AdamW", train, training_peers)
    Path(graph).write_text(block.graph())


def torch_block(torch: Any, x: Any, p: Any) -> Any:
    """The same by PyTorch's own functions."""
    f = torch.nn.functional
    batch, tokens, width = x.shape

    def of_heads(x: Any) -> Any:
        return x.reshape(batch, tokens, HEADS, width // HEADS).transpose(1, 2)

    with torch.no_grad():
        h = f.layer_norm(x, (width,), p["norm1"], p["shift1"])
        q, k, v = (of_heads(f.linear(h, p[name], p[f"{name}_bias"])) for name in "qkv")
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + f.linear(mixed.reshape(batch, tokens, width), p["out"], p["out_bias"])
        h = f.layer_norm(x, (width,), p["norm2"], p["shift2"])
        return x + f.linear(f.gelu(f.linear(h, p["up"], p["up_bias"]), approximate="tanh"), p["down"], p["down_bias"])


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]), *sys.argv[2:3])
