"""The path of an order: a signal, a risk check, the order itself, and the position it leaves.

    python examples/order_execution/orders.py

Prices are whole ticks and quantities whole shares. Each kernel is called as a plain function: nothing of it allocates,
calls the system, waits or may run for longer than its loops state. `polyloom latency` shows how long a call takes, and
`benches/latency.py` compares it with `orders.c`.
"""

from __future__ import annotations

import numpy as np
import polyloom as loom

# Entries of `limits`.
MOST_SHARES = 0
MOST_NOTIONAL = 1
MOST_POSITION = 2
REFERENCE = 3
COLLAR = 4

# Words of a message in the ring.
MESSAGE_WORDS = 8


@loom.func
def mixed(hash: loom.int64, word: loom.int64) -> loom.int64:
    """One step of a checksum of 64-bit words (FNV-1a)."""
    return (hash ^ word) * loom.int64(1099511628211)


@loom.kernel(critical_path=True, no_allocation=True, no_syscalls=True, target_latency_ns=100)
def check_risk(
    price: loom.int32,
    quantity: loom.int32,
    side: loom.int32,
    position: loom.int32,
    limits: loom.array(dtype=loom.int64),
    verdict: loom.array(dtype=loom.int32),
):
    """0 if an order may go out, else the number of the limit that it breaks plus one."""
    shares = loom.int64(quantity)
    notional = shares * loom.int64(price)
    after = loom.int64(position) + loom.int64(side) * shares
    away = loom.abs(loom.int64(price) - limits[REFERENCE])
    broken = 0
    if away > limits[COLLAR]:
        broken = COLLAR + 1
    if loom.abs(after) > limits[MOST_POSITION]:
        broken = MOST_POSITION + 1
    if notional > limits[MOST_NOTIONAL]:
        broken = MOST_NOTIONAL + 1
    if quantity <= 0 or shares > limits[MOST_SHARES]:
        broken = MOST_SHARES + 1
    verdict[0] = broken


@loom.kernel(critical_path=True, no_allocation=True, no_syscalls=True, target_latency_ns=1000)
def evaluate_signal(
    features: loom.array(dtype=loom.float32),
    weights: loom.array(dtype=loom.float32),
    means: loom.array(dtype=loom.float32),
    signal: loom.array(dtype=loom.float32),
):
    """Moves the running means of the features towards them, and weighs how far the features are from them."""
    score = 0.0
    for k in range(features.shape[0]):
        mean = means[k] + 0.05 * (features[k] - means[k])
        means[k] = mean
        score += weights[k] * (features[k] - mean)
    signal[0] = loom.tanh(score)
    signal[1] = 1.0 / (1.0 + loom.exp(-score))


@loom.kernel(critical_path=True, no_allocation=True, no_syscalls=True, target_latency_ns=500)
def submit_order(
    price: loom.int32,
    quantity: loom.int32,
    side: loom.int32,
    level_prices: loom.array(dtype=loom.int32),
    level_sizes: loom.array(dtype=loom.int32),
    ring: loom.array(dtype=loom.int64, ndim=2),
    state: loom.array(dtype=loom.int64),
):
    """Adds an order to the levels of its side of the book, and writes its message with a checksum into the ring."""
    n_levels = level_prices.shape[0]
    # The levels before this one are better: higher for buys, lower for sales.
    at = 0
    for k in range(n_levels):
        if level_sizes[k] > 0 and side * (level_prices[k] - price) > 0:
            at += 1
    if at < n_levels:
        if level_sizes[at] == 0 or level_prices[at] != price:
            for k in range(n_levels - 1, 0, -1):
                if k > at:
                    level_prices[k] = level_prices[k - 1]
                    level_sizes[k] = level_sizes[k - 1]
            level_prices[at] = price
            level_sizes[at] = 0
        level_sizes[at] = level_sizes[at] + quantity
    sequence = state[0]
    slot = loom.int32(sequence % loom.int64(ring.shape[0]))
    ring[slot, 0] = sequence
    ring[slot, 1] = loom.int64(price)
    ring[slot, 2] = loom.int64(quantity)
    ring[slot, 3] = loom.int64(side)
    ring[slot, 4] = loom.int64(at)
    ring[slot, 5] = state[1]
    ring[slot, 6] = sequence ^ state[2]
    hash = loom.int64(1469598103934665603)
    for word in range(MESSAGE_WORDS - 1):
        hash = mixed(hash, ring[slot, word])
    ring[slot, 7] = hash
    state[0] = sequence + loom.int64(1)
    state[1] = state[1] + loom.int64(quantity)
    state[2] = hash


@loom.kernel(critical_path=True, no_allocation=True, no_syscalls=True, target_latency_ns=200)
def update_position(
    instrument: loom.int32,
    price: loom.int32,
    quantity: loom.int32,
    positions: loom.array(dtype=loom.int32),
    costs: loom.array(dtype=loom.int64),
    realised: loom.array(dtype=loom.int64),
    exposure: loom.array(dtype=loom.int64),
):
    """Books a fill, bought if `quantity` is positive: what the position costs, what was gained, what all are worth."""
    held = positions[instrument]
    cost = costs[instrument]
    filled = loom.int64(quantity)
    if held == 0 or (held > 0) == (quantity > 0):
        costs[instrument] = cost + filled * loom.int64(price)
    else:
        closed = loom.min(loom.abs(held), loom.abs(quantity))
        share = cost * loom.int64(closed) / loom.int64(loom.abs(held))
        side = loom.int64(1)
        if held < 0:
            side = loom.int64(-1)
        realised[instrument] = realised[instrument] + side * loom.int64(closed) * loom.int64(price) - share
        rest = loom.int64(loom.abs(quantity) - closed)
        costs[instrument] = cost - share - side * rest * loom.int64(price)
    positions[instrument] = held + quantity
    total = loom.int64(0)
    for k in range(positions.shape[0]):
        total += loom.abs(costs[k])
    exposure[0] = total


def main() -> None:
    risk, signals = check_risk.function(), evaluate_signal.function()
    orders, fills = submit_order.function(), update_position.function()
    random = np.random.default_rng(7)
    limits = np.array([500, 4_000_000, 2_000, 10_000, 400], np.int64)
    verdict = np.zeros(1, np.int32)
    weights, means = random.normal(size=64).astype(np.float32) / 8, np.zeros(64, np.float32)
    signal = np.zeros(2, np.float32)
    books = {side: (np.zeros(16, np.int32), np.zeros(16, np.int32)) for side in (1, -1)}
    ring, state = np.zeros((64, MESSAGE_WORDS), np.int64), np.zeros(3, np.int64)
    positions, costs, realised = np.zeros(32, np.int32), np.zeros(32, np.int64), np.zeros(32, np.int64)
    exposure = np.zeros(1, np.int64)
    n_refused = 0
    for _ in range(1000):
        signals(random.normal(size=64).astype(np.float32), weights, means, signal)
        side = 1 if signal[0] > 0 else -1
        price, quantity = 10_000 + int(random.integers(-450, 450)), int(random.integers(1, 550))
        instrument = int(random.integers(0, len(positions)))
        risk(price, quantity, side, int(positions[instrument]), limits, verdict)
        if verdict[0]:
            n_refused += 1
            continue
        orders(price, quantity, side, *books[side], ring, state)
        fills(instrument, price, side * quantity, positions, costs, realised, exposure)
    print(f"{int(state[0])} orders, {n_refused} refused, {int(state[1])} shares")
    print(f"realised {int(realised.sum())} ticks, exposure {int(exposure[0])} ticks")


if __name__ == "__main__":
    main()
