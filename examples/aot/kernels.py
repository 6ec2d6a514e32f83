"""What the library of this example has: kernels over arrays, and functions of values."""

import polyloom as loom


@loom.kernel
def scale_add(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    """Adds `a * x` to `y`."""
    i = loom.tid()
    y[i] = a * x[i] + y[i]


@loom.kernel
def smooth(image: loom.array2d(dtype=float), out: loom.array2d(dtype=float)):
    """Averages each pixel with its four neighbours, those at the edge with themselves."""
    i, j = loom.tid()
    up, down = loom.max(i - 1, 0), loom.min(i + 1, image.shape[0] - 1)
    left, right = loom.max(j - 1, 0), loom.min(j + 1, image.shape[1] - 1)
    total = image[up, j] + image[down, j] + image[i, left] + image[i, right]
    out[i, j] = 0.5 * image[i, j] + 0.125 * total


@loom.kernel
def rotate(turn: loom.quat, points: loom.array(dtype=loom.vec3)):
    """Turns points in place."""
    i = loom.tid()
    points[i] = loom.quat_rotate(turn, points[i])


@loom.func
def normal(x: loom.float64) -> loom.float64:
    """The distribution function of the normal distribution (Abramowitz and Stegun 26.2.17)."""
    t = loom.float64(1.0) / (loom.float64(1.0) + loom.float64(0.2316419) * loom.abs(x))
    poly = t * (
        loom.float64(0.319381530)
        + t
        * (
            loom.float64(-0.356563782)
            + t * (loom.float64(1.781477937) + t * (loom.float64(-1.821255978) + t * loom.float64(1.330274429)))
        )
    )
    tail = loom.float64(0.3989422804014327) * loom.exp(loom.float64(-0.5) * x * x) * poly
    return loom.where(x < loom.float64(0.0), tail, loom.float64(1.0) - tail)


@loom.func
def call_price(
    spot: loom.float64, strike: loom.float64, rate: loom.float64, sigma: loom.float64, years: loom.float64
) -> loom.float64:
    """What a European call costs, after Black and Scholes."""
    deviation = sigma * loom.sqrt(years)
    d1 = (loom.log(spot / strike) + (rate + loom.float64(0.5) * sigma * sigma) * years) / deviation
    return spot * normal(d1) - strike * loom.exp(-rate * years) * normal(d1 - deviation)


@loom.kernel(check=True)
def gather(x: loom.array(dtype=float), at: loom.array(dtype=int), out: loom.array(dtype=float)):
    """Takes elements of `x`; a check finds indices that it has not."""
    i = loom.tid()
    out[i] = x[at[i]]
