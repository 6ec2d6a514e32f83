# test run
# Parameters by reference, tuples, and slices of arrays.
from typing import Any

import polyloom as wp


@wp.struct
class Pair:
    a: float
    n: int


@wp.func
def double(x: wp.ref[float]):
    x *= 2.0


@wp.func
def twice(x: wp.ref[float]):
    double(x)
    double(x)


@wp.func
def swap(x: wp.ref[float], y: wp.ref[float]):
    x, y = y, x


@wp.func
def count(p: wp.ref[Pair], by: int) -> int:
    before = p.n
    if by > 1:
        p.n += by
    p.a = float(by)
    return before


@wp.func
def unchanged(x: float):
    x += 1.0


# run: @references[2]([1, 2, 3], [[1, 2, 3]], [0, 0, 0, 0, 0, 0, 0]) == [2, 4, 3], [[4, 4, 3]], [8, 1.5, 8, 5, 7, 12, 0]
@wp.kernel
def references(a: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    double(a[i])
    if i == 0:
        x = 2.0
        twice(x)
        out[0] = x
        y = 1.5
        swap(x, y)
        out[1] = x
        unchanged(y)
        out[2] = y
        p = Pair()
        p.n = 5
        before = count(p, 2)
        out[3] = float(before)
        out[4] = float(p.n)
        twice(p.a)
        m = wp.mat22(1.0, 2.0, 3.0, 4.0)
        double(m[0, 1])
        out[5] = p.a + m[0, 1]
        twice(v[i].x)
        double(v[0][1])


# A view keeps the index it was made with.
# run: @kept[1]([[1, 2], [3, 4], [5, 6]], [0, 0, 0]) == _, [3, 2, 4]
@wp.kernel
def kept(a: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = 1
    row = a[i]
    i = i + 1
    out[0] = row[0]
    j = 0
    while j < 2:
        other = a[j]
        j = j + 1
        out[j] = other[1]


@wp.func
def dot(t: tuple[wp.vec3, float]) -> float:
    return wp.length(t[0]) * t[1]


@wp.func
def sums(values: Any):
    s = int(0)
    for i in range(len(values)):
        s += values[i]
    for i in range(len(values)):
        s += values[i] * 10
    return s


@wp.func
def both(x: float) -> tuple[float, int]:
    t = (x * 2.0, 7)
    return t


# run: @tuples[1]([0, 0, 0, 0, 0, 0, 0, 0]) == [1, 2.5, 3, 9, 10, 66, 110, 13]
@wp.kernel
def tuples(out: wp.array(dtype=float)):
    x = 2.5
    t = (1, x, wp.vec3(1.0, 2.0, 3.0), Pair(4.0, 5), out)
    x = 0.0
    out[0] = float(t[0])
    out[1] = t[1]
    out[2] = t[2].z + t[2][0] - 1.0
    out[3] = t[3].a + float(t[-2].n)
    a, b, c, d, e = t
    e[4] = dot((wp.vec3(0.0, 3.0, 4.0), 2.0))
    out[5] = float(sums((1, 2, 3)))
    out[6] = float(sums((4, 6)))
    r = both(3.0)
    p, q = r
    out[7] = p + float(q) + r[0] - float(len(r)) * 2.0 - 2.0


@wp.func
def total(a: wp.array(dtype=float)):
    s = float(0.0)
    for i in range(a.shape[0]):
        s += a[i]
    return s


@wp.func
def clear(a: wp.array2d(dtype=float)):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = 0.0
    wp.atomic_add(a, -1, -1, 5.0)


# run: @slices[1]([1, 2, 3, 4, 5, 6, 7, 8], 2, [0, 0, 0, 0, 0, 0, 0, 0, 0]) == [1, 2, 3, 4, 5, 6, 7, 8], [3, 5, 5, 3, 12, 8, 3, 0, 18]
# run: @slices[1]([1, 2, 3, 4, 5, 6, 7, 8], 9, [0, 0, 0, 0, 0, 0, 0, 0, 0]) == [1, 2, 3, 4, 5, 6, 7, 8], [3, 5, 5, 0, 0, 8, 3, 0, 18]
@wp.kernel
def slices(a: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
    s = a[2:5]
    out[0] = float(len(s))
    out[1] = s[2]
    out[2] = s[-1]
    u = a[n : n + 3]
    out[3] = float(u.shape[0])
    out[4] = total(u)
    r = a[::-1]
    out[5] = r[0]
    t = r[1::3]
    out[6] = float(len(t))
    out[7] = float(len(a[5:2]))
    out[8] = total(a[3:6]) - a[1:3][0] + total(t[2:]) + 4.0


# run: @steps[1]([0, 1, 2, 3, 4, 5], 1, 6, 2, [0, 0, 0]) == _, [3, 1, 5]
# run: @steps[1]([0, 1, 2, 3, 4, 5], 5, 0, -2, [0, 0, 0]) == _, [3, 5, 1]
@wp.kernel
def steps(a: wp.array(dtype=float), start: int, stop: int, step: int, out: wp.array(dtype=float)):
    v = a[start:stop:step]
    out[0] = float(v.shape[0])
    out[1] = v[0]
    out[2] = v[v.shape[0] - 1]


# run: @planes[1]([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [0, 0, 0, 0]) == [[1, 0, 0], [4, 0, 5], [7, 8, 9]], [[[1, 2], [3, 4]], [[9, 9], [7, 8]]], [15, 2, 3, 2]
@wp.kernel
def planes(a: wp.array2d(dtype=float), v: wp.array2d(dtype=wp.vec2), out: wp.array(dtype=float)):
    column = a[:, 1]
    out[0] = total(column)
    part = a[0:2, 1:]
    out[1] = float(part.ndim)
    clear(part)
    w = v[:, 0]
    w[1] = wp.vec2(9.0)
    out[2] = v[0][1].x
    out[3] = w[0][1]


@wp.func
def last(a: wp.indexedarray(dtype=float)):
    return a[-1] + float(len(a))


# run: @indexed[2]([1, 2, 3, 4], [3, 0], [[1, 2], [3, 4]], [1], [0, 1], [0, 0, 0, 0]) == [2, 2, 3, 8], _, [[1, 2], [13, 14]], _, _, [4, 10, 8, 2]
@wp.kernel
def indexed(a: wp.indexedarray(dtype=float), m: wp.indexedarray2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    a[i] = a[i] * 2.0
    m[0, i] += 5.0
    wp.atomic_add(m, 0, i, 5.0)
    if i == 1:
        out[0] = last(a)
        out[1] = out[0] + a[0] - 2.0 + 0.0 * m[0, 0]
        out[2] = a[0]
        out[3] = float(m.shape[1])


# Results into variables, and comparisons of floats with integers.
# run: @lesser[1](3, [0, 0, 0]) == [1, 157, 1]
@wp.kernel
def lesser(n: int, out: wp.array(dtype=float)):
    axis = wp.vec3()
    angle = float(0.0)
    wp.quat_to_axis_angle(wp.quat(0.0, 0.0, 0.70710678, 0.70710678), axis, angle)
    out[0] = axis.z
    out[1] = wp.round(angle * 100.0)
    if 2.5 * angle > n and n < out[1]:
        out[2] = 1.0
