# test run
# Integer division truncates, `//` floors, `%` has the dividend's sign: C's rules and Python's `//`.
import polyloom as loom


# run: @integers[1](7, -2, [0, 0, 0, 0, 0, 0]) == [-3, -4, 1, 5, 9, -14]
# run: @integers[1](-7, 2, [0, 0, 0, 0, 0, 0]) == [-3, -4, -1, -5, -9, -14]
@loom.kernel
def integers(x: int, y: int, a: loom.array(dtype=int)):
    a[0] = x / y
    a[1] = x // y
    a[2] = x % y
    a[3] = x + y
    a[4] = x - y
    a[5] = x * y


# run: @bits[1](12, 10, [0, 0, 0, 0, 0, 0]) == [8, 14, 6, 48, 3, -13]
@loom.kernel
def bits(x: int, y: int, a: loom.array(dtype=int)):
    a[0] = x & y
    a[1] = x | y
    a[2] = x ^ y
    a[3] = x << 2
    a[4] = x >> 2
    a[5] = ~x


# run: @floats[1](7.5, -2.0, [0.0, 0.0, 0.0, 0.0]) == [-3.75, -4.0, 1.5, -7.5]
@loom.kernel
def floats(x: float, y: float, a: loom.array(dtype=float)):
    a[0] = x / y
    a[1] = x // y
    a[2] = x % y
    a[3] = -x


# run: @powers[1](3.0, 3, [0.0, 0.0, 0.0, 0.0, 0.0], [0, 0, 0, 0]) == [1.0, 3.0, 9.0, 27.0, 81.0], [1, 9, 243, 1024]
@loom.kernel
def powers(x: float, n: int, a: loom.array(dtype=float), b: loom.array(dtype=int)):
    a[0] = x**0
    a[1] = x**1
    a[2] = x**2
    a[3] = x**3
    a[4] = pow(x, 4)
    b[0] = n**0
    b[1] = n**2
    b[2] = n**5
    b[3] = 2**10


# run: @compare[1](1.0, 2.0, [false, false, false, false, false, false]) == [true, true, false, false, false, true]
# run: @compare[1](nan, 2.0, [false, false, false, false, false, false]) == [false, false, false, false, false, true]
@loom.kernel
def compare(x: float, y: float, a: loom.array(dtype=bool)):
    a[0] = x < y
    a[1] = x <= y
    a[2] = x > y
    a[3] = x >= y
    a[4] = x == y
    a[5] = x != y


# run: @chain[1](1, 2, 3, [false, false, false]) == [true, false, true]
# run: @chain[1](3, 2, 3, [true, true, true]) == [false, false, false]
@loom.kernel
def chain(x: int, y: int, z: int, a: loom.array(dtype=bool)):
    a[0] = x < y < z
    a[1] = x < y > z
    a[2] = 0 < x <= 1 < z


# run: @truth[1](2, 0.0, [false, false, false, false]) == [false, true, true, false]
# run: @truth[1](0, nan, [false, false, false, false]) == [false, true, false, true]
@loom.kernel
def truth(n: int, x: float, a: loom.array(dtype=bool)):
    a[0] = n and x
    a[1] = n or x
    a[2] = bool(n)
    a[3] = not n


# run: @updates[1]([10, 10, 10, 10, 10, 10, 10]) == [13, 7, 30, 3, 100, 40, 2]
@loom.kernel
def updates(a: loom.array(dtype=int)):
    a[0] += 3
    a[1] -= 3
    a[2] *= 3
    a[3] //= 3
    a[4] **= 2
    a[5] <<= 2
    a[6] &= 6
