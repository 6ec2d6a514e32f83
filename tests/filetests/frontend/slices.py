# test run
import polyloom as wp

vec5 = wp.types.vector(length=5, dtype=float)
mat23 = wp.types.matrix(shape=(2, 3), dtype=float)


# run: @vectors[1]([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == [2.0, 3.0, 5.0, 3.0, 1.0, 4.0, 9.0, 2.0]
@wp.kernel
def vectors(a: wp.array(dtype=float)):
    v = vec5(1.0, 2.0, 3.0, 4.0, 5.0)
    p = v[1:3]
    a[0] = p.x
    a[1] = p.y
    q = v[::-2]
    a[2] = q[0]
    a[3] = q[1]
    a[4] = q[2]
    a[5] = v[-3:][1]
    a[6] = wp.dot(v[:2], v[3:]) - 5.0
    a[7] = float(len(v[0:2]))


# run: @assigned[1]([0.0, 0.0, 0.0, 0.0, 0.0]) == [7.0, 14.0, 8.0, 4.0, 4.0]
@wp.kernel
def assigned(a: wp.array(dtype=float)):
    v = vec5(1.0, 2.0, 3.0, 4.0, 5.0)
    v[0:2] = wp.vec2(7.0, 9.0)
    v[1:3] += wp.vec2(5.0)
    v[3:] = 4.0
    for i in range(5):
        a[i] = v[i]


# run: @matrices[1]([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1, 2]) == [2.0, 3.0, 5.0, 6.0, 6.0, 3.0, 5.0, 2.0], _
@wp.kernel
def matrices(a: wp.array(dtype=float), n: wp.array(dtype=int)):
    m = mat23(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    s = m[0:2, 1:3]
    a[0] = s[0, 0]
    a[1] = s[0, 1]
    a[2] = s[1, 0]
    a[3] = s[1, 1]
    r = m[n[0], ::-1]
    a[4] = r[0]
    c = m[:, n[1]]
    a[5] = c[0]
    last = m[1:]
    a[6] = last[0, 1]
    a[7] = m[0][1:][0]


# run: @matrix_parts[1]([0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1, 2]) == [1.0, 8.0, 12.0, 4.0, 18.0, 15.0], _
@wp.kernel
def matrix_parts(a: wp.array(dtype=float), n: wp.array(dtype=int)):
    m = mat23(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    m[n[0], 1:] = wp.vec2(8.0, 9.0)
    m[:, n[1]] += wp.vec2(1.0, 6.0)
    m[0, 1:] *= 3.0
    m[-1:, 1] = wp.types.vector(length=1, dtype=float)(18.0)
    m[0, 1] += 2.0
    for i in range(2):
        for j in range(3):
            a[3 * i + j] = m[i, j]


# run: @elements[1]([[1, 2, 3], [4, 5, 6]], [0.0, 0.0, 0.0]) == _, [3.0, 4.0, 11.0]
@wp.kernel
def elements(x: wp.array(dtype=wp.vec3), a: wp.array(dtype=float)):
    a[0] = x[0][1:][1]
    a[1] = wp.min(x[1][0:2])
    p = x[1][1:3]
    a[2] = p.x + p.y


# run: @spread[1]([0.0, 0.0, 0.0, 0.0, 0.0]) == [6.0, 10.0, 3.0, 9.0, 4.0]
@wp.kernel
def spread(a: wp.array(dtype=float)):
    v = wp.vec2(1.0, 2.0)
    w = wp.vec3(*v, 3.0)
    a[0] = w.x + w.y + w.z
    x = wp.vec4(*v, *(v + wp.vec2(2.0)))
    a[1] = x.x + x.y + x.z + x.w
    a[2] = wp.max(*w)
    m = wp.matrix_from_rows(*wp.matrix_from_rows(v, v, v + v)[1:])
    a[3] = m[0, 0] + m[0, 1] + m[1, 0] + m[1, 1]
    q = wp.quat(wp.vec3(*x[:3]), x[-1])
    a[4] = q.w


# run: @backward[1]([0, 0, 0, 0, 0, 0, 0], 5, 1) == [4, 3210, 420, 8520, 1, 135, 0]
@wp.kernel
def backward(a: wp.array(dtype=int), n: int, one: int):
    for i in reversed(range(n)):
        a[0] = wp.max(a[0], i)
    for i in reversed(range(4)):
        a[1] = 10 * a[1] + i
    for i in reversed(range(0, n, 2)):
        a[2] = 10 * a[2] + i
    for i in reversed(range(2, 9, 3 * one)):
        a[3] = 10 * a[3] + i
    a[3] = 10 * a[3]
    for i in reversed(range(n, 0)):
        a[4] = 7
    a[4] += one
    for i in reversed(range(n, 0, -2 * one)):
        a[5] = 10 * a[5] + i
    for i in reversed(range(0, n, -one)):
        a[6] = 7
