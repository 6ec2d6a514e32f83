"""The volatility that gives the price of the market."""

import math

import numpy as np
import polyloom as loom


@loom.func
def normal(x: loom.float64):
    return loom.float64(0.5) * (loom.float64(1.0) + loom.erf(x / loom.sqrt(loom.float64(2.0))))


@loom.func
def call(spot: loom.float64, strike: loom.float64, years: loom.float64, rate: loom.float64, volatility: loom.float64):
    root = volatility * loom.sqrt(years)
    d1 = (loom.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / root
    price = spot * normal(d1) - strike * loom.exp(-rate * years) * normal(d1 - root)
    return price, spot * loom.sqrt(years) * loom.exp(-0.5 * d1 * d1) / loom.sqrt(2.0 * loom.float64(loom.pi))


@loom.kernel
def implied(
    prices: loom.array(dtype=loom.float64),
    strikes: loom.array(dtype=loom.float64),
    spot: loom.float64,
    years: loom.float64,
    rate: loom.float64,
    volatility: loom.array(dtype=loom.float64),
    steps: loom.array(dtype=int),
):
    i = loom.tid()
    low = loom.float64(0.001)
    high = loom.float64(5.0)
    guess = loom.float64(0.5)
    count = 0
    while count < 100:
        count += 1
        price, slope = call(spot, strikes[i], years, rate, guess)
        error = price - prices[i]
        if loom.abs(error) < 1.0e-10:
            break
        if error > 0.0:
            high = guess
        else:
            low = guess
        following = guess - error / slope
        guess = following if low < following < high else 0.5 * (low + high)
    steps[i] = count
    volatility[i] = loom.float64(loom.nan) if high - low < 1.0e-14 else guess


def plain_call(spot, strike, years, rate, volatility):
    d1 = (math.log(spot / strike) + (rate + volatility**2 / 2) * years) / (volatility * math.sqrt(years))
    d2 = d1 - volatility * math.sqrt(years)
    return (
        spot * math.erfc(-d1 / math.sqrt(2)) / 2 - strike * math.exp(-rate * years) * math.erfc(-d2 / math.sqrt(2)) / 2
    )


VOLATILITIES = np.linspace(0.05, 1.2, 12)


def arguments(random):
    strikes = np.linspace(80, 120, 12)
    prices = [plain_call(100.0, k, 0.75, 0.03, v) for k, v in zip(strikes, VOLATILITIES, strict=True)]
    return np.array(prices), strikes, 100.0, 0.75, 0.03


def twin(*args):
    volatility, steps = np.zeros(12), np.zeros(12, np.int32)
    loom.launch(implied, 12, [*args, volatility, steps])
    return volatility, steps


def expected(*args):
    return VOLATILITIES, None
