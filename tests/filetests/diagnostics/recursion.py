# test diagnostics
from typing import Any, Callable

import polyloom as loom


@loom.func
def direct(n: int) -> int:
    return direct(n - 1)


@loom.func
def even(n: int) -> int:
    return 1 if n == 0 else odd(n - 1)


@loom.func
def odd(n: int) -> int:
    return 0 if n == 0 else even(n - 1)


@loom.kernel
def k(a: loom.array(dtype=int)):
    a[0] = direct(3)
    a[1] = even(3)


@loom.func
def applied(f: Callable, n: int) -> int:
    return f(n)


@loom.func
def through_argument(n: int) -> int:
    return applied(through_argument, n - 1)


@loom.func
def by_type(n: Any):
    return by_type(float(n) - 1.0)


@loom.func
def longer(v: Any):
    return longer(loom.vector(*v, 1, length=v.length + 1))


@loom.kernel
def generic(a: loom.array(dtype=int)):
    a[0] = through_argument(3)
    a[1] = int(by_type(3))


@loom.kernel
def endless(a: loom.array(dtype=int)):
    a[0] = longer(loom.vec2i(1, 2))
