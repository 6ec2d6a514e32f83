"""The order-execution set: Python's kernels, the `.loom` ones and plain Python agree."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "order_execution"
LEVELS, SLOTS, INSTRUMENTS = 6, 4, 5


@pytest.fixture(scope="module")
def orders():
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("orders")
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("orders", None)


@pytest.fixture(scope="module")
def module():
    return loom.import_module(str(FOLDER / "orders.loom"))


def wrapped(value: int) -> int:
    """A 64-bit integer of the same bits."""
    return (value + 2**63) % 2**64 - 2**63


class PlainPath:
    """The same in Python's own numbers, of any size."""

    def risk(self, price, quantity, side, position, limits):
        shares = quantity
        if quantity <= 0 or shares > limits[0]:
            return 1
        if shares * price > limits[1]:
            return 2
        if abs(position + side * shares) > limits[2]:
            return 3
        if abs(price - limits[3]) > limits[4]:
            return 5
        return 0

    def signal(self, features, weights, means):
        score = 0.0
        moved = []
        for feature, weight, mean in zip(features, weights, means, strict=True):
            mean += 0.05 * (feature - mean)
            moved.append(mean)
            score += weight * (feature - mean)
        return moved, math.tanh(score), 1.0 / (1.0 + math.exp(-score))

    def order(self, price, quantity, side, levels, ring, state):
        """`levels` are pairs of prices and sizes, the best first, as many as have a size."""
        at = sum(side * (known - price) > 0 for known, _ in levels)
        if at < LEVELS:
            if at == len(levels) or levels[at][0] != price:
                levels.insert(at, [price, 0])
                del levels[LEVELS:]
            levels[at][1] += quantity
        sequence, shares, last = state
        words = [sequence, price, quantity, side, at, shares, sequence ^ last]
        hash = 1469598103934665603
        for word in words:
            hash = wrapped((hash ^ word) * 1099511628211)
        ring[sequence % SLOTS] = [*words, hash]
        state[:] = [sequence + 1, shares + quantity, hash]

    def fill(self, instrument, price, quantity, positions, costs, realised):
        held, cost = positions[instrument], costs[instrument]
        if held == 0 or (held > 0) == (quantity > 0):
            costs[instrument] = cost + quantity * price
        else:
            closed = min(abs(held), abs(quantity))
            share = int(math.copysign(abs(cost) * closed // abs(held), cost))
            side = -1 if held < 0 else 1
            realised[instrument] += side * closed * price - share
            costs[instrument] = cost - share - side * (abs(quantity) - closed) * price
        positions[instrument] = held + quantity
        return sum(map(abs, costs))


@pytest.fixture(params=["python", "function", "loom"])
def call(request, orders, module):
    """Calls a kernel of the set by its name, in one of the ways."""

    def by_launch(name, *arguments):
        loom.launch(getattr(orders, name), 1, list(arguments))

    def by_function(name, *arguments):
        getattr(orders, name).function()(*arguments)

    def by_module(name, *arguments):
        getattr(module, name)(*arguments)

    return {"python": by_launch, "function": by_function, "loom": by_module}[request.param]


def test_risk(call):
    random = np.random.default_rng(2)
    limits = np.array([500, 4_000_000, 2_000, 10_000, 400], np.int64)
    seen = set()
    for _ in range(200):
        price, quantity = 10_000 + int(random.integers(-450, 450)), int(random.integers(-5, 550))
        side, position = int(random.choice([1, -1])), int(random.integers(-2_000, 2_000))
        verdict = np.zeros(1, np.int32)
        call("check_risk", price, quantity, side, position, limits, verdict)
        want = PlainPath().risk(price, quantity, side, position, limits.tolist())
        assert verdict[0] == want
        seen.add(want)
    assert seen == {0, 1, 2, 3, 5}


def test_signal(call):
    random = np.random.default_rng(3)
    features, weights, means = (random.normal(size=64).astype(np.float32) for _ in range(3))
    weights /= 8
    moved, *want = PlainPath().signal(features.tolist(), weights.tolist(), means.tolist())
    signal = np.zeros(2, np.float32)
    call("evaluate_signal", features, weights, means, signal)
    np.testing.assert_allclose(means, moved, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(signal, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("side", [1, -1])
def test_orders(call, side):
    random = np.random.default_rng(4)
    prices, sizes = np.zeros(LEVELS, np.int32), np.zeros(LEVELS, np.int32)
    ring, state = np.zeros((SLOTS, 8), np.int64), np.zeros(3, np.int64)
    levels, messages, counts = [], {}, [0, 0, 0]
    for _ in range(60):
        price, quantity = 1_000 + int(random.integers(0, 12)), int(random.integers(1, 50))
        call("submit_order", price, quantity, side, prices, sizes, ring, state)
        PlainPath().order(price, quantity, side, levels, messages, counts)
    assert [[int(p), int(s)] for p, s in zip(prices, sizes, strict=True) if s > 0] == levels
    assert state.tolist() == counts
    assert ring.tolist() == [messages[slot] for slot in range(SLOTS)]


def test_positions(call):
    random = np.random.default_rng(5)
    positions, costs = np.zeros(INSTRUMENTS, np.int32), np.zeros(INSTRUMENTS, np.int64)
    realised, exposure = np.zeros(INSTRUMENTS, np.int64), np.zeros(1, np.int64)
    held, paid, gained = [0] * INSTRUMENTS, [0] * INSTRUMENTS, [0] * INSTRUMENTS
    for _ in range(120):
        instrument, price = int(random.integers(0, INSTRUMENTS)), int(random.integers(90, 110))
        quantity = int(random.integers(1, 30)) * int(random.choice([1, -1]))
        call("update_position", instrument, price, quantity, positions, costs, realised, exposure)
        total = PlainPath().fill(instrument, price, quantity, held, paid, gained)
        assert (positions.tolist(), costs.tolist(), realised.tolist()) == (held, paid, gained)
        assert exposure[0] == total


def test_the_example_runs(orders, capsys):
    orders.main()
    text = capsys.readouterr().out
    assert "orders, " in text and "exposure" in text
