# test run
# A number without a type takes that of what it meets: expected values from NumPy scalars of the same types.
import math
import polyloom as loom

N = 3
HALF = 0.5
BIG = loom.constant(1 << 40)
TWO_PI = 2.0 * math.pi


# run: @float32[2]([1.5, 2.5]) == [4.5, 7.5]
@loom.kernel
def float32(a: loom.array(dtype=float)):
    i = loom.tid()
    a[i] = a[i] * 2 + a[i] * N * HALF - a[i] / 2


# run: @float64[1]([0.1]) == [0.7283185307179586]
@loom.kernel
def float64(a: loom.array(dtype=loom.float64)):
    a[0] = a[0] + 0.1 / 1 * TWO_PI


# run: @wide[1]([1]) == [1099511627777]
@loom.kernel
def wide(a: loom.array(dtype=loom.int64)):
    a[0] += BIG


# run: @narrow[1]([250]) == [4]
@loom.kernel
def narrow(a: loom.array(dtype=loom.uint8)):
    a[0] = a[0] + 10


# run: @half[1]([1.0]) == [1.0996]
@loom.kernel
def half(a: loom.array(dtype=loom.float16)):
    a[0] = a[0] + 0.1


# run: @alone[1]([0, 0], [0.0]) == [7, -3], [2.5]
@loom.kernel
def alone(a: loom.array(dtype=int), b: loom.array(dtype=float)):
    x = 2 ** 3 - 1
    y = -7 // 2 - 7 % -4 + (-7) % 4
    a[0] = x
    a[1] = y + 7
    z = 5 / 2.0
    b[0] = z
