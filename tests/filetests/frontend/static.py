# test run
# Without Python, static expressions are the constant ones.
from typing import Any, Callable, TypeVar

import polyloom as wp

N = 3
FLAG = False
T = TypeVar("T", wp.float32, wp.int32)
Real = TypeVar("Real")


@wp.func
def half(x: float):
    return 0.5 * x


@wp.func
def negative(x):
    return -x


# run: @values[1]([0.0, 0.0, 0.0]) == [7.0, 3.0, 2.0]
@wp.kernel
def values(a: wp.array(dtype=float)):
    a[0] = wp.static(2.0 * N + 1.0)
    for i in range(wp.static(N)):
        a[1] += 1.0
    f = wp.static(half)
    a[2] = f(wp.static(4.0))


# run: @unrolled[1]([0.0, 0.0, 0.0, 9.0]) == [2.0, 4.0, 8.0, 9.0]
@wp.kernel
def unrolled(a: wp.array(dtype=float)):
    for i in range(N):
        a[i] = wp.static(2.0 ** (i + 1))


# run: @chosen[1]([2.0]) == [-1.0]
@wp.kernel
def chosen(a: wp.array(dtype=float)):
    if FLAG or wp.static(N) > 5:
        a[0] = missing(a[0])
    elif not FLAG and N == 3:
        b = half(a[0])
    else:
        a[0] = "nothing"
    a[0] = negative(b)


@wp.func
def apply(f: Callable, x: T):
    return f(x)


@wp.func
def apply(f: Callable, x: Any):
    return f(x) * type(x)(2.0)


@wp.func
def keep(x: Real) -> Real:
    return x


# run: @functions[1]([4.0, 9.0, 0.0]) == [2.0, -9.0, -6.0]
@wp.kernel
def functions(a: wp.array(dtype=float)):
    a[0] = apply(half, a[0])
    a[1] = apply(negative, keep(a[1]))
    a[2] = float(apply(negative, wp.float64(3.0)))


@wp.func
def norm(x):
    if type(x) == wp.float32:
        return wp.abs(x)
    return wp.length(x)


# run: @types[1]([-4.0, 0.0]) == [4.0, 5.0]
@wp.kernel
def types(a: wp.array(dtype=float)):
    T = a.dtype
    a[0] = norm(T(a[0]))
    z = wp.types.vector(length=2, dtype=a.dtype)
    a[1] = norm(wp.types.vector(length=2, dtype=a.dtype)(3.0, T(4)) + z)


@wp.func
def defaulted(x: float, f: Callable = half, g: Any = wp.sqrt):
    return f(g(x))


# run: @defaults[1]([16.0, 0.0, 0.0, 0.0]) == [2.0, 4.0, 3.5, 1.0]
@wp.kernel
def defaults(a: wp.array(dtype=float)):
    a[1] = defaulted(a[0], negative, negative) - 12.0
    a[0] = defaulted(a[0])
    m = wp.types.matrix(wp.types.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2), dtype=wp.float64), dtype=float)
    n = wp.types.vector(wp.vec2(1.5, 2.0), dtype=int)
    m[0, 0] = float(n[1])
    q = wp.quaternion(0.0, 0.0, 0.0, 1.0)
    t = wp.transformation(p=wp.vec3(0.5, 0.0, 0.0), q=q)
    a[2] = m[1, 0] + t.p.x
    a[3] = wp.float(wp.int(q.w))
