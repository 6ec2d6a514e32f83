# test diagnostics
from __future__ import annotations

from typing import Any

import numpy as np
import polyloom as loom


@loom.kernel
def k(
    a,
    b: str,
    c: loom.flot64,
    d: loom.array,
    e: loom.array(dtype=float, ndim=5),
    f: loom.array(dtype=loom.array(dtype=int)),
    g: loom.array(dtype=float, shape=3),
    h: Any,
    i: 3,
    j: "float 32",
    l: np.float32,
    m: loom.array2d(dtype="int"),
    n: missing,
    o: loom.sin,
    *rest,
    p: float = 1.0,
):
    a[0] = b + c


@loom.func
def f(x, y: int = 3) -> loom.array:
    return x
