"""Kernels and arrays that tests of tapes share."""

import numpy as np
import polyloom as loom

f64 = loom.float64
D = loom.array(dtype=f64)


@loom.kernel
def square(x: D, y: D):
    i = loom.tid()
    y[i] = x[i] * x[i]


@loom.kernel
def product(x: D, z: D, y: D):
    i = loom.tid()
    y[i] = x[i] * z[i]


@loom.kernel
def product_of_all(x: D, y: D):
    p = f64(1.0)
    for k in range(x.shape[0]):
        p *= x[k]
    y[loom.tid()] = p


@loom.kernel
def double(x: D, y: D):
    i = loom.tid()
    y[i] = f64(2.0) * x[i]


@loom.kernel
def square_in_place(x: D):
    i = loom.tid()
    x[i] = x[i] * x[i]


@loom.kernel
def total(x: D, loss: D):
    i = loom.tid()
    loom.atomic_add(loss, 0, x[i] * f64(i + 1))


@loom.kernel
def sum_of_squares(x: D, loss: D):
    i = loom.tid()
    loom.atomic_add(loss, 0, x[i] * x[i])


@loom.kernel
def set_to(x: D, value: f64):
    x[loom.tid()] = value


def arrays(*values, device=None):
    return [loom.array(np.array(value, np.float64), dtype=f64, device=device) for value in values]


def weights(n):
    return np.arange(1.0, n + 1)
