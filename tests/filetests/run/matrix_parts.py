# test run
# Parts of matrices at run-time rows and columns, and components of rows: in variables, in arrays, and in fields of
# elements of arrays of structs.
import polyloom as wp


@wp.struct
class Body:
    mass: float
    inertia: wp.mat33


# run: @fields[1](1, 2, [5], [[[0, 0, 0], [0, 0, 0], [0, 0, 0]]]) == [5], [[[9, 0, 4], [1, 8, 5], [0, 0, 6]]]
# run: @fields[1](-1, -2, [5], [[[0, 0, 0], [0, 0, 0], [0, 0, 0]]]) == [5], [[[9, 4, 0], [0, 5, 0], [1, 8, 0]]]
@wp.kernel
def fields(i: int, j: int, bodies: wp.array(dtype=Body)):
    bodies[0].inertia[i, 0:2] = wp.vec2(1.0, 2.0)
    bodies[0].inertia[:, j] = wp.vec3(4.0, 5.0, 6.0)
    bodies[0].inertia[i].y = 8.0
    bodies[0].inertia[-3].x = 9.0


# run: @updated[1](1, 2, [5], [[[1, 1, 1], [1, 1, 1], [1, 1, 1]]]) == [5], [[[1, 1, -3], [6, 10, 3], [1, 1, 3]]]
@wp.kernel
def updated(i: int, j: int, bodies: wp.array(dtype=Body)):
    bodies[0].inertia[i, 0:2] += wp.vec2(1.0, 2.0)
    bodies[0].inertia[0:2, j] -= wp.vec2(4.0, 5.0)
    bodies[0].inertia[i, 0:2] *= 3.0
    bodies[0].inertia[j - 1].z += 7.0
    bodies[0].inertia[j][j] *= 3.0
    bodies[0].inertia[i].y += 1.0


# run: @elements[1](1, [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]) == [[[1, 2], [3, 4]], [[0, 9], [5, 17]]]
@wp.kernel
def elements(i: int, m: wp.array(dtype=wp.mat22)):
    m[i, i, 0:1] = wp.vector(5.0, length=1)
    m[i][i - 1, :] = wp.vec2(0.0, 9.0)
    m[i][i].y += 9.0


# A slice is given its values at once: what is assigned is read before.
# run: @swapped[1](1, [[[1, 2], [3, 4]]]) == [[[2, 1], [4, 2]]]
@wp.kernel
def swapped(i: int, m: wp.array(dtype=wp.mat22)):
    m[0][i, 0:2] = wp.vec2(m[0, i, 1], m[0, 0, 1])
    a, m[0][i - 1, 0:2] = 1, wp.vec2(m[0, 0, 1], m[0, 0, 0])


@wp.func
def next(count: wp.array(dtype=int)):
    return wp.atomic_add(count, 0, 1)


# Each index is computed once.
# run: @once[1]([0], [[[0, 0], [0, 0]], [[0, 0], [0, 0]]]) == [6], [[[6, 6], [3, 3]], [[5, 0], [0, 2]]]
@wp.kernel
def once(count: wp.array(dtype=int), m: wp.array(dtype=wp.mat22)):
    m[0][next(count), 0:2] = wp.vec2(6.0)
    m[0, next(count), 0:2] += wp.vec2(3.0)
    m[1][next(count) - 2].x += 1.0
    m[1, next(count) - 3, 0:1] *= 3.0
    m[1][1, 1] += 2.0
    v = m[1]
    v[next(count) - 4].x *= 1.0
    v[next(count) - 5].x += 2.0
    m[1][0, 0] = v[0].x


# run: @variables[1](1, [[[1, 2], [3, 4]]]) == [[[6, 7], [5, 14]]]
@wp.kernel
def variables(i: int, m: wp.array(dtype=wp.mat22)):
    a = m[0]
    a[i].y += 10.0
    a[i].x = 5.0
    a[0].x = 6.0
    a[i - 1].y = 7.0
    m[0] = a


# run: @own[1](1, [[[0, 0], [0, 0]]]) == [[[0, 0], [3, 8]]]
@wp.kernel
def own(i: int, m: wp.array(dtype=wp.mat22)):
    a = wp.zeros(shape=(2,), dtype=wp.mat22)
    a[i][i, 0:2] = wp.vec2(1.0, 4.0)
    a[i][i].x = 3.0
    a[i][i].y *= 2.0
    m[0] = a[1]
