"""Prices European options by the formula of Black and Scholes: some twenty ops over arrays, run as one kernel.

    python examples/fuse/black_scholes.py [N] [GRAPH.svg]

Prints the time of a call against NumPy's, and writes the graph of the function.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops

RATE, VOLATILITY = 0.02, 0.30


@loom.fuse
def prices(spot, strike, years):
    """The prices of a call and of a put."""
    spread = ops.multiply(ops.sqrt(years), VOLATILITY)
    drift = ops.multiply(years, RATE + VOLATILITY * VOLATILITY / 2)
    d1 = ops.divide(ops.add(ops.log(ops.divide(spot, strike)), drift), spread)
    d2 = ops.subtract(d1, spread)
    n1 = ops.multiply(ops.erfc(ops.multiply(d1, -math.sqrt(0.5))), 0.5)
    n2 = ops.multiply(ops.erfc(ops.multiply(d2, -math.sqrt(0.5))), 0.5)
    discounted = ops.multiply(strike, ops.exp(ops.multiply(years, -RATE)))
    call = ops.subtract(ops.multiply(spot, n1), ops.multiply(discounted, n2))
    # What a call and a put of one strike differ by is known.
    put = ops.add(ops.subtract(call, spot), discounted)
    return call, put


def numpy_prices(spot: Any, strike: Any, years: Any) -> tuple[Any, Any]:
    """The same in NumPy, whose library has no error function: the logistic approximation by Bowling."""

    def normal(x: Any) -> Any:
        return 1 / (1 + np.exp(-(0.07056 * x**3 + 1.5976 * x)))

    spread = np.sqrt(years) * np.float32(VOLATILITY)
    d1 = (np.log(spot / strike) + years * np.float32(RATE + VOLATILITY * VOLATILITY / 2)) / spread
    discounted = strike * np.exp(years * np.float32(-RATE))
    call = spot * normal(d1) - discounted * normal(d1 - spread)
    return call, call - spot + discounted


def seconds(function: Callable[[], Any]) -> float:
    """The shortest of some runs, after those that compile."""
    started = time.perf_counter()
    while time.perf_counter() - started < 0.5:
        function()
    times = []
    for _ in range(7):
        before = time.perf_counter()
        function()
        times.append(time.perf_counter() - before)
    return min(times)


def main(n: int = 1_000_000, graph: str = "black_scholes.svg") -> None:
    g = np.random.default_rng(3)
    spot, strike = (g.uniform(50, 150, n).astype(np.float32) for _ in range(2))
    years = g.uniform(0.1, 2, n).astype(np.float32)
    arrays = spot, strike, years
    call, put = prices(*arrays)
    for mine, theirs in zip((call, put), numpy_prices(*arrays), strict=True):
        print(f"prices from {mine.min():.2f} to {mine.max():.2f}, NumPy's within {np.abs(mine - theirs).max():.3f}")
    own, theirs = seconds(lambda: prices(*arrays)), seconds(lambda: numpy_prices(*arrays))
    print(f"{n} options: {own * 1e3:.2f} ms, NumPy {theirs * 1e3:.2f} ms, {theirs / own:.1f} times as long")
    Path(graph).write_text(prices.graph())


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]), *sys.argv[2:3])
