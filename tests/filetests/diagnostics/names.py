# test diagnostics
import math

import numpy as np
import polyloom as loom

scale = 2.0
table = [1, 2, 3]
label = "text"


def plain(x):
    return x


@loom.kernel
def other(a: loom.array(dtype=float)):
    pass


@loom.kernel
def k(n: int, a: loom.array(dtype=float)):
    i = loom.tid()
    a[i] = scael * 2.0 + scael
    a[i] = sin(a[i])
    a[i] = loom.sinn(a[i])
    a[i] = loom.nothing
    a[i] = math.foo(1.0)
    a[i] = np.zeros(3)
    a[i] = table[0]
    a[i] = label
    a[i] = loom
    a[i] = loom.sin
    a[i] = loom.float32
    a[i] = plain(a[i])
    a[i] = undefined(a[i])
    a[i] = n(3)
    a[i] = n.real
    a[i] = a.T
    a[i] = a.sum()
    a[i] = (lambda x: x)(1.0)
    a[i] = scale.imag
    other(a)
    table(3)
    α = 1.0
    a[i] = ä + α


@loom.kernel
def normalised(x: loom.array(dtype=float)):
    x[0] = 𝐳
    x[1] = 𝐳.y
