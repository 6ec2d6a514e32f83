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


# A conditional of two numbers, and an operation on numbers alone, wait for their type too: exact values of float64.
# run: @choice64[2]([0.0, 0.0]) == [0.1, 0.2]
@loom.kernel
def choice64(a: loom.array(dtype=loom.float64)):
    i = loom.tid()
    a[i] = 0.1 if i == 0 else 0.2


# run: @choices64[2]([0.0, 0.0]) == [-0.1, 0.7]
@loom.kernel
def choices64(a: loom.array(dtype=loom.float64)):
    i = loom.tid()
    a[i] += -(0.1 if i == 0 else 0.2 if i > 5 else -0.7)


# run: @wide_choice[2]([0, 0]) == [1099511627777, 2]
@loom.kernel
def wide_choice(a: loom.array(dtype=loom.int64)):
    i = loom.tid()
    a[i] = (1 if i == 0 else 2)
    a[i] += (1099511627776 if i == 0 else 0)


# run: @operations64[1]([0.0, 0.0, 0.0, 0.0, 0.0]) == [0.1, 0.30000000000000004, 0.7, 1.4142135623730951, 0.2]
@loom.kernel
def operations64(a: loom.array(dtype=loom.float64)):
    a[0] = loom.min(0.1, 0.2)
    a[1] = loom.float64(0.1) + max(0.05, 0.2, 0.1)
    a[2] = loom.float64(2.7 % 1.0 if a[1] > 0.0 else 0.1) - 2.7 % 1.0 + 0.7 // 1.0 + 0.7
    a[3] = loom.sqrt(2)
    a[4] = loom.where(a[0] > 1.0, 0.1, 0.2)


@loom.func
def chosen(a: loom.float64):
    return a


@loom.func
def returned(c: bool):
    if c:
        return 0.1 if c else 2
    return loom.float64(0.5)


# run: @passed64[1]([0.0, 0.0, 0.0]) == [0.2, 0.1, 1.0]
@loom.kernel
def passed64(a: loom.array(dtype=loom.float64)):
    c = loom.tid() > 0
    a[0] = chosen(0.1 if c else 0.2)
    a[1] = returned(True)
    if (0 if c else 1) and 0.0 < (0.5 if c else 2) < 3 and not (1 if c else 0):
        a[2] = 1


# run: @alone_choice[1]([0, 0], [0.0]) == [2, 4], [0.5]
@loom.kernel
def alone_choice(a: loom.array(dtype=int), b: loom.array(dtype=float)):
    c = loom.tid() > 0
    x = 1 if c else 2
    a[0] = x
    for i in range(1 if c else 4):
        a[1] += 1 if i >= 0 else 2
    y = 1 if c else 0.5
    b[0] = y
    1 if c else 2
