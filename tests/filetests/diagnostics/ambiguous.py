# test diagnostics
# Calls that fit several overloads equally well. No word about overloads of which the first that fits is the narrowest.
from typing import Any

import polyloom as loom


@loom.func
def crossed(x: Any, y: float):
    return 1


@loom.func
def crossed(x: float, y: Any):
    return 2


@loom.func
def wide_first(x: Any):
    return 1


@loom.func
def wide_first(x: loom.Int):
    return 2


@loom.func
def narrow_first(x: loom.types.vector(length=3, dtype=loom.Float)):
    return 1


@loom.func
def narrow_first(x: loom.types.vector(length=Any, dtype=loom.Float)):
    return 2


@loom.func
def narrow_first(x: loom.types.vector(length=Any, dtype=Any)):
    return 3


@loom.func
def narrow_first(x: loom.Int):
    return 4


@loom.func
def narrow_first(x: Any):
    return 5


@loom.func
def narrow_first(x: loom.float64):
    return 6


@loom.func
def sized(x: loom.int64):
    return 1


@loom.func
def sized(x: loom.float64):
    return 2


@loom.func
def paired(x: float, y: loom.float64):
    return 1


@loom.func
def paired(x: loom.float64, y: float):
    return 2


@loom.func
def with_default(x: int):
    return 1


@loom.func
def with_default(x: int, y: int = 3):
    return 2


@loom.kernel
def k(n: int, x: float, d: loom.float64, v: loom.vec3, w: loom.vec2i, a: loom.array(dtype=int)):
    a[0] = crossed(x, 2.0)
    a[0] = crossed(x, y=n)
    a[0] = crossed(n, x)
    a[0] = wide_first(n)
    a[0] = wide_first(x)
    a[0] = narrow_first(v) + narrow_first(w) + narrow_first(n) + narrow_first(1.0) + narrow_first(d)
    a[0] = sized(3)
    a[0] = sized(3.0)
    a[0] = sized(loom.int64(3))
    a[0] = paired(1.0, 2.0)
    a[0] = paired(1.0, d)
    a[0] = with_default(n)
    a[0] = with_default(n, 2)
