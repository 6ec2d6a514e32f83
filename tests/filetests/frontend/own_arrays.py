# test run
# Arrays of a kernel's own: constant extents, run-time indices, by reference to functions.
from typing import Any

import polyloom as wp

N = 4


@wp.func
def fill(a: wp.array2d(dtype=int)):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i][j] = i * a.shape[1] + j


@wp.func
def total(a: wp.array(dtype=Any)):
    s = a[0]
    for i in range(1, len(a)):
        s += a[i]
    return s


@wp.func
def both(a: wp.array(dtype=float), n: int):
    if n < 0:
        a[0] = 100.0
        return 1.0
    for i in range(len(a)):
        if i == n:
            a[i] = -1.0
            return 2.0
        a[i] += 10.0
    return 3.0


@wp.func
def made():
    a = wp.zeros(shape=2, dtype=int)
    for i in range(2):
        a[i] = 5 + i
    return a


# run: @two[1]([0, 0, 0, 0, 0, 0, 0, 0]) == [0, 1, 2, 3, 4, 5, 12, 23]
@wp.kernel
def two(out: wp.array(dtype=int)):
    a = wp.zeros(shape=(2, 3), dtype=int)
    fill(a)
    for i in range(2):
        for j in range(3):
            out[3 * i + j] = a[i, j]
    r = a[1]
    out[6] = total(r)
    out[7] = r.shape[0] + 10 * a.ndim


# run: @sorted_[3]([3, 1, 2, 4, 9, 8, 7, 6, 0, 0, 5, 5]) == [1, 2, 3, 4, 6, 7, 8, 9, 0, 0, 5, 5]
@wp.kernel
def sorted_(x: wp.array(dtype=float)):
    t = wp.tid()
    a = wp.zeros(N, dtype=float)
    for i in range(N):
        a[i] = x[N * t + i]
    for i in range(1, N):
        v = a[i]
        j = i - 1
        while j >= 0 and a[wp.max(j, 0)] > v:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = v
    for i in range(N):
        x[N * t + i] = a[i]


# run: @references[1]([0.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == [3.0, 30.0, 2.0, 29.0, 1.0, 119.0]
@wp.kernel
def references(out: wp.array(dtype=float)):
    a = wp.zeros(shape=(3,), dtype=float)
    out[0] = both(a, 7)
    out[1] = total(a)
    out[2] = both(a, 1)
    out[3] = total(a)
    out[4] = both(a, -1)
    out[5] = total(a) + (10.0 if a[0] > 50.0 else 0.0)


# run: @vectors[1]([0.0, 0.0, 0.0, 0.0, 0.0]) == [3.0, 6.0, 5.0, 9.0, 2.0]
@wp.kernel
def vectors(out: wp.array(dtype=float)):
    a = wp.zeros(shape=(2, 2), dtype=wp.vec2)
    for i in range(2):
        for j in range(2):
            a[i, j] = wp.vec2(float(i), float(j))
    a[1, 1] += wp.vec2(2.0, 4.0)
    a[0, 1][1] = 9.0
    out[0] = a[1, 1].x
    out[1] = a[-1, -1][1] + a[1][1][0] - 2.0
    out[2] = total(a[1]).y
    out[3] = a[0][1].y
    out[4] = float(len(a))


# run: @results[1]([0, 0, 0]) == [5, 6, 11]
@wp.kernel
def results(out: wp.array(dtype=int)):
    a = made()
    out[0] = a[0]
    out[1] = a[1]
    out[2] = total(a)


# run: @each_thread[4]([0, 0, 0, 0]) == [0, 11, 22, 33]
@wp.kernel
def each_thread(out: wp.array(dtype=int)):
    i = wp.tid()
    a = wp.zeros(shape=(4,), dtype=int)
    for k in range(2):
        b = wp.zeros(shape=(2,), dtype=int)
        b[k] += i
        a[i] += b[0] + 10 * b[1]
    out[i] = a[i]
