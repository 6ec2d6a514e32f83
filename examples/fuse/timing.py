"""What the programs of this folder share: the time of a call, and a table of it against others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


def seconds(function: Callable[[], Any], warm_up: float = 0.5) -> float:
    """The median of some runs, after those that compile."""
    started = time.perf_counter()
    while time.perf_counter() - started < warm_up:
        function()
    times = []
    while len(times) < 7 or sum(times) < 1.0:
        before = time.perf_counter()
        function()
        times.append(time.perf_counter() - before)
    return sorted(times)[len(times) // 2]


def compare(what: str, own: Callable[[], Any], others: Mapping[str, Callable[[], Any]]) -> None:
    """Prints the time of a call, and by how much others take longer."""
    own_time = seconds(own)
    line = f"{what}: {own_time * 1e3:.2f} ms"
    for name, function in others.items():
        line += f", {name} {seconds(function) / own_time:.2f} times as long"
    print(line)


def jax_or_none() -> Any:
    """JAX, where it is installed."""
    try:
        import jax
    except ImportError:
        return None
    return jax


def torch_or_none() -> Any:
    """PyTorch, where it is installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch
