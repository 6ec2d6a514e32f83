"""Payoffs of Asian options along random paths."""

import numpy as np
import polyloom as loom


@loom.kernel
def simulate(
    spot: float,
    strike: float,
    rate: float,
    volatility: float,
    years: float,
    steps: int,
    seed: int,
    payoff: loom.array(dtype=float),
):
    path = loom.tid()
    dt = years / loom.float32(steps)
    state = loom.rand_init(seed, path)
    price = spot
    total = 0.0
    for _ in range(steps):
        drift = (rate - 0.5 * volatility * volatility) * dt
        price *= loom.exp(drift + volatility * loom.sqrt(dt) * loom.randn(state))
        total += price
    payoff[path] = loom.exp(-rate * years) * loom.max(total / loom.float32(steps) - strike, 0.0)


def arguments(random):
    return 100.0, 95.0, 0.03, 0.2, 1.0, 12, 50, 7


def twin(spot, strike, rate, volatility, years, steps, paths, seed):
    payoff = np.zeros(paths, np.float32)
    loom.launch(simulate, paths, [spot, strike, rate, volatility, years, steps, seed, payoff])
    return payoff
