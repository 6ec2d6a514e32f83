# test run
import polyloom as loom
from typing import Any, Tuple


@loom.func
def divmod_(a: int, b: int):
    return a // b, a % b


@loom.func
def clamp01(x: float) -> float:
    if x < 0.0:
        return 0
    if x > 1.0:
        return 1
    return x


@loom.func
def affine(x: float, scale: float = 2.0, offset: float = 1):
    return x * scale + offset


# run: @calls[1]([0.0, 0.0, 0.0, 0.0], [17, 5]) == [7.0, 6.5, 4.0, 1.0], [3, 2]
@loom.kernel
def calls(a: loom.array(dtype=float), b: loom.array(dtype=int)):
    q, r = divmod_(b[0], b[1])
    b[0] = q
    b[1] = r
    a[0] = affine(3.0)
    a[1] = affine(3, offset=0.5)
    a[2] = affine(offset=1.0, scale=1.5, x=2.0)
    a[3] = clamp01(affine(a[0])) - clamp01(-3.0)


@loom.func
def size(x: int):
    return 1


@loom.func
def size(x: float):
    return 2


@loom.func
def size(x: loom.float64):
    return 3


@loom.func
def size(x: loom.array(dtype=float)):
    return 4


# run: @overloads[1]([0.0], [0, 0, 0, 0, 0, 0]) == _, [1, 2, 3, 4, 1, 2]
@loom.kernel
def overloads(a: loom.array(dtype=float), b: loom.array(dtype=int)):
    b[0] = size(b[0])
    b[1] = size(a[0])
    b[2] = size(loom.float64(1.0))
    b[3] = size(a)
    b[4] = size(7)
    b[5] = size(7.0)


@loom.func
def twice(x: Any):
    return x + x


@loom.func
def total(a: loom.array(dtype=Any)):
    sum = a[0]
    for i in range(1, len(a)):
        sum += a[i]
    return sum


# run: @generic[1]([1.5, 2.0], [3, 4, 5]) == [3.0, 5.0], [6, 15, 5]
@loom.kernel
def generic(a: loom.array(dtype=float), b: loom.array(dtype=int)):
    a[0] = twice(a[0])
    b[0] = twice(b[0])
    a[1] = total(a)
    b[1] = total(b)


@loom.func
def fill(a: loom.array(dtype=float), value: float):
    for i in range(a.shape[0]):
        a[i] = value


@loom.func
def pair(x: float) -> Tuple[float, int]:
    return x, int(x)


@loom.func
def both(x: float):
    return pair(x * 2.0)


# run: @effects[1]([0.0, 0.0, 1.0]) == [9.0, 9.0, 11.0]
@loom.kernel
def effects(a: loom.array(dtype=float)):
    fill(a, 9)
    x, n = both(1.25)
    pair(x)
    a[-1] = x + float(n) + 6.5


# run: @early[4]([-1.0, 0.5, 4.0, 9.0]) == [0.0, 0.5, 2.0, 3.0]
@loom.kernel
def early(a: loom.array(dtype=float)):
    i = loom.tid()
    if a[i] <= 0.0:
        a[i] = 0.0
        return
    if a[i] < 1.0:
        return
    a[i] = loom.sqrt(a[i])


def make(offset: float):
    pass


SHIFT = 10


def factory():
    SCALE = 3

    @loom.func
    def scaled(x: int):
        return x * SCALE + SHIFT

    @loom.kernel
    def inner(a: loom.array(dtype=int)):
        a[0] = scaled(a[0])

    return inner


# run: @inner[1]([2]) == [16]
