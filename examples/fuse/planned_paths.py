"""A block of a transformer and a step of a simulation, run in the ways that were measured to be the fastest.

    python examples/fuse/planned_paths.py [CHART.svg] [DATABASE]

Profiles both functions, which keeps what it measures in the database, prints each plan and the times before and after,
and draws them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops
from timing import seconds

TOKENS, WIDTH = 128, 256
SIDE = 512


def block(x, up, down, weight, bias):
    """A network of two layers after a normalisation, added to its input."""
    h = ops.layer_norm(x, weight, bias)
    h = ops.gelu(ops.linear(h, up), "tanh")
    return ops.add(x, ops.linear(h, down))


def step(u, v, rate, dt):
    """Heights and velocities of a wave on a torus, a moment later."""
    # Neighbours beyond an edge are those of the other side.
    north, south = ops.concat([u[-1:], u[:-1]]), ops.concat([u[1:], u[:1]])
    west, east = ops.concat([u[:, -1:], u[:, :-1]], axis=1), ops.concat([u[:, 1:], u[:, :1]], axis=1)
    spread = ops.subtract(ops.add(ops.add(north, south), ops.add(west, east)), ops.multiply(u, 4.0))
    v = ops.add(v, ops.multiply(spread, ops.multiply(rate, dt)))
    return ops.add(u, ops.multiply(v, dt)), v


def arguments() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    g = np.random.default_rng(2)

    def normal(*shape: int) -> np.ndarray:
        return g.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)

    parameters = (normal(4 * WIDTH, WIDTH), normal(WIDTH, 4 * WIDTH), normal(WIDTH) + 1, normal(WIDTH))
    rate = np.full((SIDE, SIDE), 0.25, np.float32)
    return {
        "transformer block": (block, (normal(TOKENS, WIDTH), *parameters)),
        "wave step": (step, (normal(SIDE, SIDE), normal(SIDE, SIDE), rate, 0.125)),
    }


def chart(times: dict[str, tuple[float, float]]) -> str:
    """Bars of the times before and after, as the text of an SVG."""
    width, parts, y = 640, [], 20
    longest = max(max(pair) for pair in times.values())
    for name, pair in times.items():
        parts.append(f'<text x="16" y="{y + 12}" font-weight="bold">{escape(name)}</text>')
        for label, time, colour in zip(("before", "after"), pair, ("#c9d8ea", "#3d8b40"), strict=True):
            y += 24
            length = max(360 * time / longest, 1)
            parts.append(f'<text x="32" y="{y + 12}">{label}</text>')
            parts.append(f'<rect x="100" y="{y}" width="{length:.1f}" height="16" rx="3" fill="{colour}"/>')
            parts.append(f'<text x="{108 + length:.1f}" y="{y + 12}">{time * 1e3:.3f} ms</text>')
        y += 40
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" font-family="sans-serif" font-size="13">'
    )
    return "\n".join([head, f'<rect width="{width}" height="{y}" fill="#ffffff"/>', *parts, "</svg>"])


def main() -> None:
    place = sys.argv[2] if len(sys.argv) > 2 else f"{tempfile.mkdtemp()}/benchmarks.db"
    loom.config.database = place
    policy = loom.Policy("fastest", tolerance=1e-4)
    times = {}
    for name, (function, values) in arguments().items():
        before, after = loom.fuse(function, policy="default"), loom.fuse(function, policy=policy)
        print(after.plan(*values, measure=60))
        np.testing.assert_allclose(np.asarray(after(*values)), np.asarray(before(*values)), rtol=1e-3, atol=1e-4)
        times[name] = (seconds(lambda f=before, v=values: f(*v)), seconds(lambda f=after, v=values: f(*v)))
        print(f"{name}: {times[name][0] * 1e3:.3f} ms before, {times[name][1] * 1e3:.3f} ms after\n")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(chart(times), encoding="utf-8")


if __name__ == "__main__":
    main()
