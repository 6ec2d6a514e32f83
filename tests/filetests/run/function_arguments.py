# test run
# Functions as arguments: a function that is given one may be called again with another by what it calls.
from typing import Any, Callable

import polyloom as wp


@wp.func
def applied(f: Callable, x: float):
    return f(x)


@wp.func
def increment(x: float):
    return x + 1.0


@wp.func
def doubled(x: float):
    return applied(increment, x) * 2.0


@wp.func
def applied_with(f: Callable, g: Callable, x: float):
    return f(g, x)


# run: @nested[1](3, [0, 0]) == [8, 4]
@wp.kernel
def nested(x: float, out: wp.array(dtype=float)):
    out[0] = applied(doubled, x)
    out[1] = applied_with(applied, increment, x)


@wp.func
def n_components(x: wp.vec2):
    return 2


@wp.func
def n_components(x: wp.vec3):
    return 1 + n_components(wp.vec2(x[0], x[1]))


@wp.func
def levels(x: Any):
    if type(x) == wp.float32:
        return 1
    return 1 + levels(wp.float32(x))


# The same function for another type is another function.
# run: @by_type[1](3, [0, 0, 0]) == [3, 2, 1]
@wp.kernel
def by_type(x: int, out: wp.array(dtype=int)):
    out[0] = n_components(wp.vec3(1.0, 2.0, 3.0))
    out[1] = levels(x)
    out[2] = levels(1.5)


@wp.func
def kind(x: wp.types.vector(length=3, dtype=wp.Float)):
    return 1


@wp.func
def kind(x: wp.types.vector(length=Any, dtype=Any)):
    return 2


@wp.func
def kind(x: Any):
    return 3


@wp.func
def kind(x: wp.Int):
    return 4


@wp.func
def kind(x: wp.float64):
    return 5


# One of exact types is called first, then the first generic one.
# run: @overloads[1](7, [0, 0, 0, 0, 0]) == [1, 2, 3, 3, 5]
@wp.kernel
def overloads(n: int, out: wp.array(dtype=int)):
    out[0] = kind(wp.vec3(1.0))
    out[1] = kind(wp.vec3i(1))
    out[2] = kind(1.0)
    out[3] = kind(n)
    out[4] = kind(wp.float64(1.0))
