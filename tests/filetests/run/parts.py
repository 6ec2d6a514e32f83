# test run
# Components of parts: of a transform's `p` and `q`, and of the elements of a thread's own arrays; and what is a copy.
import polyloom as wp

Nothing = None


# run: @elements[1](1, [[0, 0, 0], [0, 0, 0], [0, 0, 0]]) == [[7, 0, 0], [2, 5, 0], [0, 1, -3]]
@wp.kernel
def elements(i: int, out: wp.array(dtype=wp.vec3)):
    a = wp.zeros(shape=(3,), dtype=wp.vec3)
    a[i].x = 2.0
    a[i][i] += 5.0
    a[i - 1][-3] = 7.0
    a[i + 1].z -= 3.0
    a[-1][i] = float(i)
    for k in range(3):
        out[k] = a[k]


# run: @slices[1](1, [[0, 0, 0], [0, 0, 0]]) == [[4, 1, 2], [1, 4, 20]]
@wp.kernel
def slices(i: int, out: wp.array(dtype=wp.vec3)):
    a = wp.zeros(shape=(2, 2), dtype=wp.vec3)
    a[i, 0][1:] = wp.vec2(1.0, 2.0)
    a[i, 0][0:2] += wp.vec2(4.0, 0.0)
    a[1][i][:] = 1.0
    a[i][i][1:3] += wp.vec2(1.0, 9.0)
    a[i, i][1:3] *= 2.0
    v = a[i, 0][0:2]
    out[0] = wp.vec3(v[0], v[1], a[1, 0][i + 1])
    out[1] = a[1, 1]


# run: @matrices[1](1, [[[0, 0], [0, 0]], [[0, 0], [0, 0]]]) == [[[0, 0], [4, 0]], [[3, 2], [4, 14]]]
@wp.kernel
def matrices(i: int, out: wp.array(dtype=wp.mat22)):
    a = wp.zeros(shape=(2,), dtype=wp.mat22)
    a[i][0] = wp.vec2(1.0, 2.0)
    a[i][i, i] = 4.0
    a[i][1, 0] += 4.0
    a[i - 1][i, 0] = 4.0
    a[1][i] += wp.vec2(0.0, 10.0)
    a[i][i - 1][0] = a[1][0, i - 1] + 2.0
    for k in range(2):
        out[k] = a[k]


# run: @poses[1](1, [[0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]]) == [[9, 2, 5, 0, 0, 0, 0], [3, 2, 1, 1, 6, 3, 5]]
@wp.kernel
def poses(i: int, out: wp.array(dtype=wp.transform)):
    a = wp.zeros(shape=(3,), dtype=wp.transform)
    a[i].p = wp.vec3(1.0, 2.0, 3.0)
    a[i].p.x = 9.0
    a[i].p[i + 1] += 2.0
    out[0] = a[1]
    a[2].p = wp.vec3(3.0, 2.0, 1.0)
    a[i + 1].q = wp.quat(1.0, 2.0, 3.0, 4.0)
    a[i + 1].q[-1] = 5.0
    a[2].q.y *= 3.0
    out[1] = a[2]


# run: @variable[1](1, [[0, 0, 0, 0, 0, 0, 0]]) == [[3, 4, 8, 1, -1, -2, 5]]
@wp.kernel
def variable(i: int, out: wp.array(dtype=wp.transform)):
    t = wp.transform_identity()
    t.p[1] = 4.0
    t.p.x += 1.0
    t.p[0:1] += wp.vector(2.0, length=1)
    t.p[i + 1] = 8.0
    t.q[3] = 5.0
    t.q.z -= 2.0
    t.q[i] = -1.0
    t.q[-4] += 1.0
    out[0] = t


# run: @stored[1](1, [[0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]]) == [[1, 2, 0, 0, 0, 0, 0], [1, 10, 2, 0, 6, 0, 11]]
@wp.kernel
def stored(i: int, out: wp.array(dtype=wp.transform)):
    out[i].p[1] = 4.0
    out[i].p.x = 1.0
    out[i].p[i] += 6.0
    out[i].p[-i] = 2.0
    out[i].q[3] = 5.0
    out[i].q[-1] += 6.0
    out[i].q[i] = 6.0
    out[0].p[0:2] = wp.vec2(1.0, 2.0)


@wp.struct
class Body:
    pose: wp.transform
    mass: float


# run: @fields[1](1, [[0, 0, 0, 0, 0, 0, 0]]) == [[4, 3, 0, 0, 8, 0, 7]]
@wp.kernel
def fields(i: int, out: wp.array(dtype=wp.transform)):
    b = Body()
    b.pose.p.x = 4.0
    b.pose.p[i] += 3.0
    b.pose.q[3] = 7.0
    b.pose.q[i] = 8.0
    out[0] = b.pose


@wp.func
def change(a: wp.array(dtype=float)):
    a[1] = 50.0


# run: @copies[1](1, [0, 0, 0, 0, 0, 0]) == [0, 0, 50, 0, 5, 2]
@wp.kernel
def copies(i: int, out: wp.array(dtype=float)):
    b = wp.zeros(shape=(3,), dtype=float)
    c = b
    b[0] = 1.0
    out[0] = c[0]
    c[2] = 5.0
    out[1] = b[2]
    change(b)
    out[2] = b[1]
    out[3] = c[1]
    b = c
    b[i] = 2.0
    out[4] = b[2]
    out[5] = b[1] + c[1]


@wp.func
def set_first(out: wp.array(dtype=int)) -> Nothing:
    out[0] = 3


# run: @nothing[1]([0]) == [3]
@wp.kernel
def nothing(out: wp.array(dtype=int)):
    set_first(out)


# run: @states[1]([0, 0, 0]) == [1, 1, 1]
@wp.kernel
def states(out: wp.array(dtype=int)):
    state = wp.rand_init(1, 2)
    first = wp.randi(state)
    if wp.randi(wp.rand_init(1, 2)) == first:
        out[0] = 1
    for k in range(2):
        if wp.randi(wp.rand_init(1, 2), 0, 10) < 10:
            out[1 + k] = 1
