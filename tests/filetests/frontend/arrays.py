# test run
import polyloom as loom
import warp as wp

Grid = loom.array(dtype=float, ndim=2)


# run: @negative[1]([1.0, 2.0, 3.0]) == [3.0, 2.0, 6.0]
@loom.kernel
def negative(a: loom.array(dtype=float)):
    j = -1
    a[0] = a[j]
    a[-1] = a[-1] * a[-2]


# run: @transpose[2, 3]([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]) == _, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
@loom.kernel
def transpose(a: Grid, b: "loom.array2d(dtype=float)"):
    i, j = loom.tid()
    b[j][i] = a[i, j]


# run: @extents[1]([[1, 2, 3], [4, 5, 6]], [0, 0, 0, 0, 0, 0]) == _, [2, 3, 2, 6, 3, 2]
@loom.kernel
def extents(a: loom.array(dtype=int, ndim=2), b: loom.array(dtype=int)):
    b[0] = a.shape[0]
    b[1] = a.shape[-1]
    b[2] = len(a)
    b[3] = a.size
    n, m = a.shape
    b[4] = m
    b[5] = a.ndim


# run: @indices[1]([10, 20, 30, 40], [0, 0, 0]) == _, [20, 30, 40]
@loom.kernel
def indices(a: loom.array(dtype=int), b: loom.array(dtype=int)):
    i = loom.int64(1)
    j = loom.uint8(2)
    b[0] = a[i]
    b[1] = a[j]
    b[2] = a[int(3.9)]


# run: @alias[1]([1.0, 2.0]) == [1.0, 4.0]
@wp.kernel
def alias(a: wp.array(dtype=wp.float32)):
    same = a
    same[1] = same[1] * 2.0


# run: @unpacked_alias[1]([1, 2, 3], [0, 0]) == [1, 5, 7], [0, 1]
@loom.kernel
def unpacked_alias(a: loom.array(dtype=int), b: loom.array(dtype=int)):
    i = loom.tid()
    p, j, p[2], q, s = a, i + 1, 7, b, 5
    a[j] = s
    q[j] = p[i]


# run: @subscripted[2]([1.0, 2.0], [[1], [2]]) == [2.0, 4.0], _
@wp.kernel
def subscripted(a: wp.array[float], b: wp.array2d[int]):
    i = wp.tid()
    a[i] += float(b[i, 0])


# run: @deep[1, 1, 2, 2]([[[[1, 2], [3, 4]]]]) == [[[[2, 3], [4, 5]]]]
@wp.kernel
def deep(a: wp.array4d(dtype=int)):
    i, j, k, l = wp.tid()
    a[i, j, k, l] += 1


# run: @flags[3]([1, 0, 5], [false, false, false]) == _, [true, false, true]
@loom.kernel
def flags(a: loom.array(dtype=int), b: loom.array(dtype=loom.bool)):
    i = loom.tid()
    b[i] = a[i] > 0
    if b[i] == False:
        b[i] = False


# run: @atomics[4]([0, 0], [[0, 7]]) == [6, 3], [[4, 3]]
@loom.kernel
def atomics(a: loom.array(dtype=int), b: loom.array(dtype=int, ndim=2)):
    i = loom.tid()
    loom.atomic_add(a, 0, i)
    loom.atomic_max(a, 1, i)
    loom.atomic_add(b, 0, 0, 1)
    old = loom.atomic_sub(b, 0, 1, value=1)
