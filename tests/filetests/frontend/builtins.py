# test run
# Expected values: Python's `math`, rounded to float32.
import math
import polyloom as loom
from polyloom import sin as sine, float64 as f64


# run: @mixed[1](0.5, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == [0.47942555, 0.47942555, 0.0, 2.0, 1.0, 3.0, 0.5, 1.4142135]
@loom.kernel
def mixed(x: float, a: loom.array(dtype=float)):
    a[0] = sine(x)
    a[1] = math.sin(x)
    a[2] = min(x, 1, 0)
    a[3] = max(1, 2.0)
    a[4] = loom.clamp(3, 0.0, 1)
    a[5] = abs(-3.0)
    a[6] = loom.where(x > 1.0, 1.0, x)
    a[7] = loom.sqrt(2)


# run: @casts[1](2.75, -1, [0, 0, 0, 0, 0], [0.0, 0.0]) == [2, 1, 255, 1076887552, 2], [-1.0, 1.0]
@loom.kernel
def casts(x: float, n: int, a: loom.array(dtype=int), b: loom.array(dtype=float)):
    a[0] = int(x)
    a[1] = int(bool(x))
    a[2] = int(loom.uint8(n))
    a[3] = loom.cast(x, loom.int32)
    a[4] = int(f64(x))
    b[0] = float(n)
    b[1] = float(True)


# run: @keywords[1]([0.0, 0.0]) == [1.5, 0.25]
@loom.kernel
def keywords(a: loom.array(dtype=float)):
    a[0] = loom.lerp(1.0, 2.0, t=0.5)
    a[1] = loom.clamp(high=0.25, low=0.0, x=1.0)


# The states are those of Warp 1.19 (`wp.rand_init(42)`, then two `wp.randi`).
# run: @random[1]([0, 0, 0]) == [1223963391, 2785308739, 4004461565]
@loom.kernel
def random(a: loom.array(dtype=loom.uint32)):
    state = loom.rand_init(42)
    a[0] = state
    x = loom.randu(state)
    a[1] = state
    y = loom.randu(state) if a[0] > 0 else x
    a[2] = state


# A random state that a condition updates goes on from where the condition left it.
# run: @consistent[1]([0, 0]) == [1, 1]
@loom.kernel
def consistent(a: loom.array(dtype=int)):
    s = loom.rand_init(7, 3)
    t = s
    count = 0
    while loom.randf(s) < 0.75 and count < 100:
        count += 1
    again = 0
    while True:
        r = loom.randf(t)
        if not (r < 0.75) or again >= 100:
            break
        again += 1
    a[0] = 1 if count == again else 0
    a[1] = 1 if s == t else 0


# run: @printing[1](3, 0.5) prints "n = 3 x = 0.5 True\n100% 3|a,b;\n\n3 0x3 0.50\n"
@loom.kernel
def printing(n: int, x: float):
    print("n =", n, "x =", x, n == 3)
    print("100%", n, end="|")
    print("a", "b", sep=",", end=";\n")
    print()
    loom.printf("%d 0x%x %.2f\n", n, n, x)


# run: @asserts[1](3)
# run: @asserts[1](-3) fails assert "n > 0 and n < 10" in thread 0
# run: @asserts[1](5) fails assert "too large" in thread 0
@loom.kernel
def asserts(n: int):
    assert n > 0 and n < 10
    assert n < 5, "too large"
