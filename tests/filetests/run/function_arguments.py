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
