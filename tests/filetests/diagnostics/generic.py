# test diagnostics
from typing import Any, Callable

import polyloom as loom


@loom.func
def doubled(x):
    return x * 2.0


@loom.func
def floats(x: loom.Float):
    return doubled(x)


@loom.func
def sized(x: loom.types.vector(length=Any, dtype=float), y: loom.array(dtype=Any)):
    return x[5] + y[0]


@loom.func
def apply(f: Callable, x: float):
    return f(x)


@loom.kernel
def calls(n: int, x: float, v: loom.vec3, a: loom.array(dtype=float)):
    x = doubled(n)
    x = floats(n)
    x = sized(v, a)
    x = sized(x, a)
    x = sized(v, v)
    x = apply(1.0, x)
    x = apply(doubled, doubled)
    x = apply(loom.vec3, x)


@loom.kernel
def names(n: int, x: float, a: loom.array(dtype=float)):
    T = type(x)
    T = 3
    n = loom.vec3
    if n > 0:
        f = doubled
    x = f(x)
    loom.static(n)
    loom.static(1, 2)
    loom.static(open("x"))
    for i in range(3):
        x = loom.static(2.0 * i)
        if x > 0.0:
            continue
    for T in range(3):
        pass


@loom.func
def annotations(x, y: loom.types.vector(length="3", dtype=Any), z: loom.types.vector(length=Any, dtype=loom.vec3)):
    return x
