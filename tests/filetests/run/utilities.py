# test run
# Loops backwards, searches, bits and the like, worked out by hand.
import polyloom as wp


# run: @backwards[1](8, [0, 0, 0, 0, 0]) == [43210, 7531, 258, 7, 26]
@wp.kernel
def backwards(n: int, out: wp.array(dtype=int)):
    for i in reversed(range(5)):
        out[0] = out[0] * 10 + i
    for i in reversed(range(1, n, 2)):
        out[1] = out[1] * 10 + i
    for i in reversed(range(n, 0, -3)):
        out[2] = out[2] * 10 + i
    out[3] = 7
    for i in reversed(range(n, n)):
        out[3] = 0
    for i in reversed(range(6, 0, -4)):
        out[4] = out[4] * 10 + i


# run: @search[1]([1, 3, 3, 5, 9], [0, 1, 2, 3, 4, 9, 10], [0, 0, 0, 0, 0, 0, 0]) == _, _, [0, 0, 1, 1, 3, 4, 4]
@wp.kernel
def search(a: wp.array(dtype=wp.int64), x: wp.array(dtype=wp.int64), out: wp.array(dtype=int)):
    for i in range(len(x)):
        out[i] = wp.lower_bound(a, x[i])


# run: @between[1]([1, 3, 3, 5, 9], [0, 4, 9], [0, 0, 0]) == _, _, [1, 3, 3]
@wp.kernel
def between(a: wp.array(dtype=float), x: wp.array(dtype=float), out: wp.array(dtype=int)):
    for i in range(len(x)):
        out[i] = wp.lower_bound(a, 1, 4, x[i])


# run: @outside[1]([1, 3, 5], [9, 9, 9, 9]) == _, [2, 2, 0, 0]
@wp.kernel
def outside(a: wp.array(dtype=float), out: wp.array(dtype=int)):
    out[0] = wp.lower_bound(a, 0, 2000000000, 7.0)
    out[1] = wp.lower_bound(a, -2000000000, 2000000000, 5.0)
    out[2] = wp.lower_bound(a, -2000000000, -1000000000, 5.0)
    out[3] = wp.lower_bound(a, -5, 3, 0.5)


# run: @bits[1]([0, 0, 0, 0, 0, 0]) == [8, 16, 1, 64, 3, 1]
@wp.kernel
def bits(out: wp.array(dtype=int)):
    out[0] = wp.bit_count(wp.int8(-1))
    out[1] = wp.bit_count(wp.uint16(65535))
    out[2] = wp.bit_count(-2147483647 - 1)
    out[3] = wp.bit_count(wp.int64(-1))
    out[4] = wp.bit_count(wp.uint64(7))
    out[5] = int(wp.unot(0)) + int(wp.unot(5)) + wp.nonzero(0)


# run: @chosen[1](3, [0, 0, 0, 0]) == [1, 2, 2, 1]
@wp.kernel
def chosen(n: int, out: wp.array(dtype=int)):
    out[0] = wp.where(n, 1, 2)
    out[1] = wp.where(n - 3, 1, 2)
    out[2] = wp.select(n, 1, 2)
    out[3] = wp.select(cond=n, value_if_true=1, value_if_false=2)


# run: @by_component[1]([[12, 10, 7]], [[10, 4, 3]], [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]) == _, _, [[8, 0, 3], [2, 2, 1], [-13, -11, -8], [12, 10, 7]]
@wp.kernel
def by_component(a: wp.array(dtype=wp.vec3i), b: wp.array(dtype=wp.vec3i), out: wp.array(dtype=wp.vec3i)):
    out[0] = a[0] & b[0]
    out[1] = wp.mod(a[0], b[0])
    out[2] = ~a[0]
    out[3] = +a[0]


# run: @norms[1]([[3, -4, 0]], [0, 0, 0, 0]) == _, [7, 5, 4.5, 12.5]
@wp.kernel
def norms(a: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    out[0] = wp.norm_l1(a[0])
    out[1] = wp.norm_l2(a[0])
    out[2] = wp.norm_huber(a[0])
    out[3] = wp.norm_huber(a[0], delta=5.0)


# A thread asks for as many of its coordinates as it wants.
# run: @first_coordinate[2, 3]([0, 0, 0]) == [3, 3, 0]
@wp.kernel
def first_coordinate(count: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(count, i, 1)
