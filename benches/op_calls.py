"""The time of a call above its kernels: ops and groups on small arrays, beside NumPy and, where it is there, Numba.

Each peer adds, or adds, clips at zero and multiplies, arrays of a few elements. Peers take turns, and the medians of
their rounds are shown, in nanoseconds a call.

    python benches/op_calls.py [ELEMENTS]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import _native, ops

ROUNDS = 41
CALLS = 2000

Calls = dict[str, Callable[[], Any]]


def peers_of(n: int) -> Calls:
    """What is timed, by name."""
    a, b, c = (np.random.default_rng(seed).uniform(-1, 1, n).astype(np.float32) for seed in range(3))
    own = [loom.array(each) for each in (a, b, c)]
    add = ("add", [("in", 0), ("in", 1)], {})
    chain = [add, ("relu", [("call", 0)], {}), ("multiply", [("call", 1), ("in", 2)], {})]
    group = _native.FusionGroup("chain", chain, [2])
    empty = np.empty(0, np.float32)
    found: Calls = {
        "np.add": lambda: np.add(a, b),
        "ops.add": lambda: ops.add(a, b),
        "ops.add, a number": lambda: ops.add(a, 2.0),
        "ops.add, polyloom.array": lambda: ops.add(own[0], own[1]),
        "NumPy, three calls": lambda: np.multiply(np.maximum(np.add(a, b), 0), c),
        "ops, three calls": lambda: ops.multiply(ops.relu(ops.add(a, b)), c),
        "a group of three calls": lambda: group(a, b, c),
        "a group, polyloom.array": lambda: group(own[0], own[1], own[2]),
        "a group, no elements": lambda: group(empty, empty, empty),
        "an empty function": lambda: None,
    }
    try:
        import numba
    except ImportError:
        return found

    @numba.njit(cache=False)
    def compiled(a: Any, b: Any, c: Any) -> Any:
        return np.maximum(a + b, np.float32(0)) * c

    compiled(a, b, c)
    found["numba, one function"] = lambda: compiled(a, b, c)
    return found


def main() -> None:
    """Prints the table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    peers = peers_of(n)
    times: dict[str, list[float]] = {name: [] for name in peers}
    for call in peers.values():
        # Until better code has come from the background.
        end = time.perf_counter() + 0.5
        while time.perf_counter() < end:
            call()
    for _ in range(ROUNDS):
        for name, call in peers.items():
            begin = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter_ns() - begin) / CALLS)
    print(f"{n} elements of float32, nanoseconds a call")
    for name, rounds in times.items():
        print(f"{name:28} {statistics.median(rounds):8.0f}")


if __name__ == "__main__":
    main()
