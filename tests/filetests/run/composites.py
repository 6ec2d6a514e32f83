# test run
# Vectors and matrices in Python: how they are made, their components, and what they do in control flow.
import polyloom as wp


# run: @components[1]([0, 0, 0, 0, 0, 0, 0]) == [3, 5, 7, 2, 2, 2, 11]
@wp.kernel
def components(out: wp.array(dtype=float)):
    v = wp.vec3(1.0, 5.0, 3.0)
    out[0] = v.z
    out[1] = v[1]
    v.x = 7.0
    out[2] = v[0]
    w = wp.vec3(2.0)
    for k in range(3):
        out[3 + k] = w[k]
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    m[1, 0] += 8.0
    out[6] = m[1, 0]


@wp.func
def reflect(v: wp.vec3, n: wp.vec3) -> wp.vec3:
    return v - 2.0 * wp.dot(v, n) * n


# run: @bounce[2]([[1, 1, 1], [1, -1, 1]], [[1, -2, 3], [4, 5, 6]]) == [[1, 1, 1], [1, -2, 1]], [[1, 2, 3], [4, 5, 6]]
@wp.kernel
def bounce(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    p = x[i]
    if p.y > 0.0:
        v[i] = reflect(v[i], wp.vec3(0.0, 1.0, 0.0))
    else:
        p.y *= 2.0
    x[i] = p


# run: @powers[1]([[1, 1], [1, 0]], [[0, 0], [0, 0]]) == _, [[8, 5], [5, 3]]
@wp.kernel
def powers(m: wp.array(dtype=float, ndim=2), out: wp.array(dtype=float, ndim=2)):
    a = wp.mat22(m[0, 0], m[0, 1], m[1, 0], m[1, 1])
    product = wp.mat22(1.0, 0.0, 0.0, 1.0)
    for _ in range(5):
        product = product * a
    for i in range(2):
        for j in range(2):
            out[i, j] = product[i, j]


# run: @sums[2]([[1, 2, 3], [4, 5, 6]], [[10, 20, 30], [40, 50, 60]]) == _, [[11, 22, 33], [44, 55, 66]]
@wp.kernel
def sums(a: wp.array(dtype=wp.vec3i), b: wp.array(dtype=wp.vec3i)):
    i = wp.tid()
    b[i] += a[i]


# run: @turned[1]([[0, 0, 1]], [1, 2, 3]) == _, [3, -1, -2]
@wp.kernel
def turned(axis: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    u = axis[0]
    q = wp.quat(u, 0.0)
    v = wp.quat_rotate(q, wp.vec3(out[0], out[1], out[2]))
    out[0], out[1], out[2] = v.z, v.x, v.y


@wp.func
def twice(x: float):
    return 2.0 * x


# run: @parts[1]([[1, 2, 3]], [0, 0, 0, 0, 0, 0, 0, 0]) == _, [2, 2, 2, 4, 6, 8, 7, 8]
@wp.kernel
def parts(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    # A value that fills, and one that is a part, need not be variables.
    filled = wp.vec3(twice(v[0].x))
    q = wp.quat(v[0] * 2.0 + wp.vec3(2.0), 7.0)
    s = wp.vec2(wp.vec2i(7, 8))
    for i in range(3):
        out[i] = filled[i]
        out[i + 3] = q[i]
    out[6] = q.w
    out[7] = s.y


# run: @in_place[2]([[1, 2, 3], [4, 5, 6]], [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], 1) == [[11, 2, 30], [14, 5, 60]], [[[1, 20], [3, 5]], [[5, 20], [7, 9]]]
@wp.kernel
def in_place(v: wp.array(dtype=wp.vec3), m: wp.array(dtype=wp.mat22), k: int):
    i = wp.tid()
    v[i].x += 10.0
    v[i][k + 1] *= 10.0
    m[i][0, k] = 20.0
    m[i][k][-1] += 1.0


# run: @rows[1]([[[1, 2], [3, 4]]], 1, [0, 0, 0, 0, 0, 0]) == _, [3, 4, 30, 40, 7, 8]
@wp.kernel
def rows(m: wp.array(dtype=wp.mat22), k: int, out: wp.array(dtype=float)):
    a = m[0]
    r = a[k]
    a[k] *= 10.0
    a[k - 1] = wp.vec2(7.0, 8.0)
    out[0], out[1] = r.x, r.y
    out[2], out[3] = a[-k, 0], a[-1, -k]
    out[4], out[5] = a[0, 0], m[0][0][0] * 8.0


# run: @compared[1]([[1, 2]], [[1, 3]], [0, 0, 0, 0, 0]) == _, _, [0, 1, 1, 2, 2]
@wp.kernel
def compared(a: wp.array(dtype=wp.vec2), b: wp.array(dtype=wp.vec2), out: wp.array(dtype=int)):
    v, w = a[0], b[0]
    out[0] = int(v == w)
    out[1] = int(v != w)
    out[2] = int(v == v)
    chosen = v if v == w else w
    out[3] = int(chosen.x) + 1
    z = wp.where(v != w, v, w)
    out[4] = int(z.y)


# run: @multiplied[1]([[[1, 2], [3, 4]]], [[0, 0], [0, 0]]) == _, [[7, 10], [5, 11]]
@wp.kernel
def multiplied(m: wp.array(dtype=wp.mat22), out: wp.array(dtype=float, ndim=2)):
    square = m[0] @ m[0]
    image = m[0] @ wp.vec2(1.0, 2.0)
    for i in range(2):
        out[0, i] = square[0][i]
        out[1, i] = image[i]


# run: @moved[1]([1, 2, 3, 0, 0, 1, 0], [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]) == _, [[0, 1, 4], [-1, -1, 1], [1, 2, 10], [3, 1, 0]]
@wp.kernel
def moved(x: wp.array(dtype=float), out: wp.array(dtype=wp.vec3)):
    # Half a turn around z, then a translation.
    t = wp.transform(wp.vec3(x[0], x[1], x[2]), wp.quat(x[3], x[4], x[5], x[6]))
    out[0] = wp.transform_point(t, wp.vec3(1.0, 1.0, 1.0))
    out[1] = wp.transform_vector(t, wp.vec3(1.0, 1.0, 1.0))
    s = t * wp.transform_inverse(t)
    s.p += wp.vec3(1.0, 2.0, 10.0)
    out[2] = s.p
    out[3] = wp.vec3(s.q.w * 3.0, wp.length(t.q), 0.0)


# run: @made[1]([0, 0, 0, 0, 0, 0, 0]) == [21, 3, 6, 1, 20, 1, 4]
@wp.kernel
def made(out: wp.array(dtype=float)):
    a = wp.vec3(1.0, 2.0, 3.0)
    rows = wp.matrix_from_rows(a, 10.0 * a)
    cols = wp.matrix_from_cols(a, 10.0 * a)
    out[0] = rows[1, 1] + rows[0, 0]
    out[1] = cols[2, 0]
    e = wp.identity(n=3, dtype=wp.float64)
    out[2] = float(wp.trace(e + e))
    out[3] = wp.quat_identity().w
    m = wp.matrix(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, shape=(2, 3))
    out[4] = (m * m[0])[0] + m[1][2]
    out[5] = float(wp.vector(7, 8, 9)[1] - 7)
    out[6] = wp.inverse(wp.matrix(0.25, shape=(4, 4)) * 0.0 + wp.diag(wp.vec4(1.0, 0.5, 0.25, 1.0)))[2, 2]


# run: @reduced[1]([[3, -1, 2]], [0, 0, 0, 0, 0]) == _, [-1, 3, 1, 0, 1]
@wp.kernel
def reduced(a: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    out[0] = wp.min(a[0])
    out[1] = wp.max(a[0])
    out[2] = float(wp.argmin(a[0]))
    out[3] = float(wp.argmax(a[0]))
    out[4] = float(wp.isfinite(a[0])) + wp.sign(a[0]).x + wp.sign(a[0])[1]


# run: @of_doubles[1]([0, 0]) == [1, 1]
@wp.kernel
def of_doubles(out: wp.array(dtype=wp.float64)):
    # Of scalars only: their type is that of the quaternion.
    q = wp.quat_rpy(wp.float64(0.0), wp.float64(0.0), wp.float64(0.0))
    out[0] = q.w
    out[1] = wp.length(q)


# run: @in_order[1]([0], [0, 0, 0, 0]) == [5], [0, 1, 2, 12]
@wp.kernel
def in_order(c: wp.array(dtype=int), out: wp.array(dtype=float)):
    # What stands before a part is evaluated before it, and an index that is read and written by once.
    v = wp.vec3(float(wp.atomic_add(c, 0, 1)), wp.vec2(float(wp.atomic_add(c, 0, 1)), float(wp.atomic_add(c, 0, 1))))
    out[0], out[1], out[2] = v.x, v.y, v.z
    v[wp.atomic_add(c, 0, 1) - 1] += 10.0
    m = wp.mat22()
    m[wp.atomic_add(c, 0, 1) - 4] += wp.vec2(v.z - 12.0, v.z)
    out[3] = m[0, 1] + m[1, 0] + m[0, 0]


# run: @lengths[1]([[1, 2, 4]], [0, 0, 0, 0, 0, 0]) == _, [1, 3, 2, 8, 2, 0]
@wp.kernel
def lengths(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    out[0] = float(len(v))
    out[1] = float(len(v[0]))
    out[2] = float(len(wp.mat22()))
    quotient = 8.0 / v[0]
    out[3] = quotient.x
    out[4] = quotient.z
    t = wp.transform(p=wp.vec3(1.0), q=wp.quat_identity())
    out[5] = wp.transform().q.w + t.p.x - t.q.w


# Rows and parts of array elements, with indices evaluated once.
# run: @rows_in_place[2]([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]) == [[[1, 2], [10, 20]], [[5, 6], [10, 20]]]
@wp.kernel
def rows_in_place(m: wp.array(dtype=wp.mat22)):
    i = wp.tid()
    m[i][1] = wp.vec2(1.0, 2.0)
    k = i * 0 - 1
    m[i][k] *= 10.0


# run: @parts_in_place[1]([[1, 2, 3, 0, 0, 0, 1]], [[4, 5, 6]]) == [[6, 7, 8, 1, 2, 3, 4]], [[4, 5, 6]]
@wp.kernel
def parts_in_place(t: wp.array(dtype=wp.transform), x: wp.array(dtype=wp.vec3)):
    t[0].p = x[0]
    t[0].p += wp.vec3(2.0)
    t[0].q = wp.quat(1.0, 2.0, 3.0, 4.0)


# run: @slices_in_place[1]([[1, 2, 3]], [[[1, 2], [3, 4]]]) == [[1, 7, 9]], [[[1, 0], [3, 0]]]
@wp.kernel
def slices_in_place(v: wp.array(dtype=wp.vec3), m: wp.array(dtype=wp.mat22)):
    v[0][1:] = wp.vec2(5.0, 6.0)
    v[0][1:] += wp.vec2(2.0, 3.0)
    m[0][:, 1] = 0.0
