# test run
# Parts of arrays: `a[i]` of an array of two dimensions, as a value and as an argument.
import polyloom as wp


@wp.func
def total(a: wp.array(dtype=float)):
    s = float(0.0)
    for i in range(len(a)):
        s += a[i]
    return s


@wp.func
def add(a: wp.array(dtype=float), i: int, x: float):
    a[i] += x
    wp.atomic_add(a, i, x)


@wp.func
def corner(a: wp.array(dtype=wp.vec2)):
    return a[-1] + a[0]


# run: @rows[2]([[1, 2, 3], [4, 5, 6]], [0.0, 0.0, 0.0, 0.0]) == [[1, 2, 9], [4, 5, 12]], [6.0, 6.0, 15.0, 9.0]
@wp.kernel
def rows(a: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    row = a[i]
    out[2 * i] = total(row)
    add(a[i], 2, 3.0)
    out[2 * i + 1] = float(row.shape[0] + len(row) * (1 + i * 0) + i * 3)


# run: @planes[1]([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [0.0, 0.0, 0.0, 0.0], [1]) == [[[1, 2], [3, 4]], [[5, 9], [7, 8]]], [16.0, 9.0, 7.0, 2.0], _
@wp.kernel
def planes(a: wp.array3d(dtype=float), out: wp.array(dtype=float), n: wp.array(dtype=int)):
    p = a[n[0]]
    q = p[0]
    q[1] = 9.0
    for i in range(2):
        r = p[i]
        out[0] += total(r) - q[1]
    out[0] += 5.0
    out[1] = a[1][0][1]
    out[2] = p[-1, 0]
    out[3] = float(p.ndim)


# run: @vectors[1]([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [0.0, 0.0, 0.0]) == _, [12.0, 14.0, 8.0]
@wp.kernel
def vectors(a: wp.array2d(dtype=wp.vec2), out: wp.array(dtype=float)):
    row = a[1]
    v = corner(row)
    out[0] = v.x
    out[1] = v.y
    out[2] = row[1][1]
