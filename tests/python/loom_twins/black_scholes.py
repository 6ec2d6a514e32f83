"""Prices of European options."""

import math

import numpy as np
import polyloom as loom


@loom.func
def normal(x: float):
    return 0.5 * (1.0 + loom.erf(x / loom.sqrt(2.0)))


@loom.kernel
def black_scholes(
    spot: loom.array(dtype=float),
    strike: loom.array(dtype=float),
    years: loom.array(dtype=float),
    rate: float,
    volatility: float,
    call: loom.array(dtype=float),
    put: loom.array(dtype=float),
):
    i = loom.tid()
    root = volatility * loom.sqrt(years[i])
    d1 = (loom.log(spot[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / root
    d2 = d1 - root
    discounted = strike[i] * loom.exp(-rate * years[i])
    call[i] = spot[i] * normal(d1) - discounted * normal(d2)
    put[i] = discounted * normal(-d2) - spot[i] * normal(-d1)


def arguments(random):
    spot, strike, years = 50 + 50 * random.random((3, 40), dtype=np.float32)
    return spot, strike, years / 50, 0.05, 0.2


def twin(*args):
    results = np.zeros((2, 40), np.float32)
    loom.launch(black_scholes, 40, [*args, *results])
    return results[0], results[1]


def expected(spot, strike, years, rate, volatility):
    spot, strike, years = (values.astype(np.float64) for values in (spot, strike, years))
    distribution = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / (volatility * np.sqrt(years))
    d2 = d1 - volatility * np.sqrt(years)
    discounted = strike * np.exp(-rate * years)
    call = spot * distribution(d1) - discounted * distribution(d2)
    return call, call - spot + discounted
