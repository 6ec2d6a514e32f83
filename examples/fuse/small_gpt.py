"""Trains a small GPT on the characters of a text, until it knows more of them than a 3-gram model does.

    python examples/fuse/small_gpt.py [FILE or FOLDER of *.md] [SECONDS]

Prints the bits per character on the last tenth of the text, which is not trained on, the loss as it falls, and a
sample. The text is this project's documentation unless another is given.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops

WIDTH, HEADS, LAYERS, TOKENS, BATCH = 128, 4, 4, 128, 16
RATE, WARM_UP = 2e-3, 100


def characters(path: Path) -> tuple[np.ndarray, str]:
    """The text as indices, and the alphabet: characters that are rare become one."""
    files = sorted(path.rglob("*.md")) if path.is_dir() else [path]
    text = "\n".join(file.read_text(errors="replace") for file in files)
    counts = Counter(text)
    alphabet = "".join(sorted(c for c, n in counts.items() if n >= 20 and c != "\ufffd")) + "\ufffd"
    index = {c: i for i, c in enumerate(alphabet)}
    return np.array([index.get(c, len(alphabet) - 1) for c in text], np.int32), alphabet


def bits_of_trigrams(training: np.ndarray, held_out: np.ndarray, n: int) -> float:
    """Bits per character of a 3-gram model, mixed with shorter ones by the weights that suit it best."""

    def keys(text: np.ndarray, order: int) -> np.ndarray:
        wide = text.astype(np.int64)
        return sum((wide[2 - k : len(wide) - k] * n**k for k in range(order)), np.zeros(len(wide) - 2, np.int64))

    def shares(order: int) -> np.ndarray:
        """The share of each character of the rest among those that follow the same ones in what is trained on."""
        counts = np.bincount(keys(training, order), minlength=n**order)
        own = keys(held_out, order)
        return counts[own] / np.maximum(counts.reshape(-1, n).sum(1)[own // n], 1)

    one, two, three = (shares(order) for order in (1, 2, 3))
    best = math.inf
    for a in np.arange(0.05, 1.0, 0.05):
        for b in np.arange(0.0, 1.0 - a, 0.05):
            mixed = a * three + b * two + (1 - a - b) * (0.999 * one + 0.001 / n)
            best = min(best, float(-np.log2(mixed).mean()))
    return best


def initial(n: int) -> dict[str, Any]:
    """The parameters, drawn as GPT-2's are."""
    g = np.random.default_rng(0)

    def matrix(outputs: int, inputs: int, deviation: float = 0.05) -> np.ndarray:
        return g.normal(0, deviation, (outputs, inputs)).astype(np.float32)

    def layer() -> dict[str, np.ndarray]:
        last = 0.05 / math.sqrt(2 * LAYERS)
        return {
            "norm1": np.ones(WIDTH, np.float32),
            "q": matrix(WIDTH, WIDTH),
            "k": matrix(WIDTH, WIDTH),
            "v": matrix(WIDTH, WIDTH),
            "out": matrix(WIDTH, WIDTH, last),
            "norm2": np.ones(WIDTH, np.float32),
            "up": matrix(4 * WIDTH, WIDTH),
            "down": matrix(WIDTH, 4 * WIDTH, last),
        }

    return {
        "characters": matrix(n, WIDTH),
        "places": matrix(TOKENS, WIDTH),
        "layers": [layer() for _ in range(LAYERS)],
        "norm": np.ones(WIDTH, np.float32),
    }


def logits(p: dict[str, Any], text: Any) -> Any:
    """Logits of the next character after each of `text`, of shape `[batch, tokens]`."""
    batch, tokens = text.shape
    x = ops.embedding(p["characters"], text) + p["places"][:tokens]

    def heads(x: Any) -> Any:
        return ops.permute(ops.reshape(x, (batch, tokens, HEADS, WIDTH // HEADS)), (0, 2, 1, 3))

    for layer in p["layers"]:
        h = ops.layer_norm(x, layer["norm1"])
        q, k, v = (heads(ops.linear(h, layer[name])) for name in "qkv")
        mixed = ops.permute(ops.attention(q, k, v, causal=True), (0, 2, 1, 3))
        x = x + ops.linear(ops.reshape(mixed, (batch, tokens, WIDTH)), layer["out"])
        h = ops.layer_norm(x, layer["norm2"])
        x = x + ops.linear(ops.gelu(ops.linear(h, layer["up"]), "tanh"), layer["down"])
    return ops.linear(ops.layer_norm(x, p["norm"]), p["characters"])


def loss(p: dict[str, Any], text: Any, following: Any) -> Any:
    """The mean negative logarithm of the probability of the characters that follow."""
    found = logits(p, text)
    return ops.cross_entropy(ops.reshape(found, (-1, found.shape[-1])), ops.reshape(following, (-1,)))


def bits_of_model(p: dict[str, Any], held_out: np.ndarray) -> float:
    """Bits per character, each with at least half of the tokens before it."""
    half = TOKENS // 2
    starts = np.arange(0, len(held_out) - TOKENS - 1, half)
    total, count = 0.0, 0
    for first in range(0, len(starts), BATCH):
        chunk = starts[first : first + BATCH, None] + np.arange(TOKENS)
        found = logits(p, held_out[chunk])[:, half:].reshape(-1, p["characters"].shape[0])
        total += float(ops.cross_entropy(found, held_out[chunk + 1][:, half:].reshape(-1), "sum"))
        count += chunk.shape[0] * half
    return total / count / math.log(2)


def sample(p: dict[str, Any], alphabet: str, length: int, g: np.random.Generator) -> str:
    """Text that the model writes, drawn at a temperature of 0.8."""
    text = [alphabet.index("\n")]
    for _ in range(length):
        recent = np.array([text[-TOKENS:]], np.int32)
        weights = np.exp((last := np.asarray(logits(p, recent))[0, -1] / 0.8) - last.max(), dtype=np.float64)
        text.append(int(g.choice(len(alphabet), p=weights / weights.sum())))
    return "".join(alphabet[c] for c in text)


def main(path: Path, budget: float = 540.0) -> None:
    text, alphabet = characters(path)
    cut = len(text) * 9 // 10
    training, held_out = text[:cut], text[cut:]
    baseline = bits_of_trigrams(training, held_out, len(alphabet))
    print(f"{len(text)} characters, {len(alphabet)} different ones; a 3-gram model takes {baseline:.3f} bits each")
    p = initial(len(alphabet))
    optimiser = loom.optim.AdamW(lr=RATE, weight_decay=0.01)
    step = loom.value_and_grad(loss)
    g = np.random.default_rng(1)
    started, mean, n = time.perf_counter(), 0.0, 0
    while (passed := time.perf_counter() - started) < budget:
        # The rate rises in the first steps, and then falls to nothing by the end.
        optimiser.lr = RATE * min((n + 1) / WARM_UP, 1.0) * max(0.02, math.cos(passed / budget * math.pi / 2))
        chunk = g.integers(0, len(training) - TOKENS - 1, (BATCH, 1)) + np.arange(TOKENS)
        value, gradients = step(p, training[chunk], training[chunk + 1])
        p = optimiser.update(p, gradients)
        n += 1
        mean = float(value) if n == 1 else 0.98 * mean + 0.02 * float(value)
        if n in (1, 10, 30) or n % 100 == 0:
            print(f"step {n}, {time.perf_counter() - started:.0f} s: {mean / math.log(2):.3f} bits", flush=True)
    own = bits_of_model(p, held_out)
    print(f"{n} steps in {time.perf_counter() - started:.0f} s; on the rest of the text {own:.3f} bits per character")
    print(f"{'fewer' if own < baseline else 'no fewer'} than the {baseline:.3f} of the 3-gram model")
    print(sample(p, alphabet, 400, g))


if __name__ == "__main__":
    main(
        Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "docs",
        *(float(text) for text in sys.argv[2:3]),
    )
