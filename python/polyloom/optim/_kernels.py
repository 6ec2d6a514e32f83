"""The kernels of the optimisers: a step for each element, in the type of the moments."""

# mypy: ignore-errors
# Annotations are those of kernels.

from typing import Any

import polyloom as loom

Numbers = loom.array(dtype=Any)

# `rates` holds these, for both kernels.
SGD_RATES = ("lr", "momentum", "fresh", "decay", "nesterov")
ADAM_RATES = ("lr", "beta1", "fresh1", "beta2", "fresh2", "eps", "decay", "shrink", "scale1", "scale2")


@loom.kernel
def sgd_step(p: Numbers, g: Numbers, b: Numbers, rates: Numbers, out: Numbers):
    """Gradient descent with momentum, as PyTorch has it (Sutskever et al., 2013, for Nesterov's)."""
    i = loom.tid()
    x = b.dtype(p[i])
    slope = b.dtype(g[i]) + rates[3] * x
    mean = rates[1] * b[i] + rates[2] * slope
    b[i] = mean
    step = rates[4] * (slope + rates[1] * mean) + (b.dtype(1.0) - rates[4]) * mean
    out[i] = out.dtype(x - rates[0] * step)


@loom.kernel
def descent_step(p: Numbers, g: Numbers, rates: Numbers, out: Numbers):
    """Gradient descent without momentum."""
    i = loom.tid()
    x = rates.dtype(p[i])
    out[i] = out.dtype(x - rates[0] * (rates.dtype(g[i]) + rates[3] * x))


@loom.kernel
def adam_step(p: Numbers, g: Numbers, m: Numbers, v: Numbers, rates: Numbers, out: Numbers):
    """Adam (Kingma and Ba, 2015), with decay of the gradient, or of the parameter (Loshchilov and Hutter, 2019)."""
    i = loom.tid()
    x = m.dtype(p[i])
    slope = m.dtype(g[i]) + rates[6] * x
    mean = rates[1] * m[i] + rates[2] * slope
    square = rates[3] * v[i] + rates[4] * slope * slope
    m[i] = mean
    v[i] = square
    step = mean * rates[8] / (loom.sqrt(square * rates[9]) + rates[5])
    out[i] = out.dtype(x * rates[7] - rates[0] * step)
