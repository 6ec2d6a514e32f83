# test run
# Vectors and matrices from outside kernels, and composite types of any shape.
import polyloom as wp
from polyloom.types import vector

GRAVITY = wp.vec3(0.0, -9.5, 0.0)
ONES = wp.mat22(1.0)
Q = wp.quat(wp.vec3(1.0, 2.0, 3.0), 4.0)
HALVES = wp.vec2d(0.5, wp.float64(1.5))
N = 5

vec5 = wp.types.vector(length=N, dtype=float)
vec6i = vector(6, int)
mat23 = wp.types.matrix((2, 3), wp.float64)


class World:
    up = wp.vec3i(0, 1, 0)


# run: @constants[1]([0, 0, 0, 0, 0, 0, 0]) == [-9.5, 4, 3, 1, 1.5, 7, 1]
@wp.kernel
def constants(out: wp.array(dtype=float)):
    out[0] = GRAVITY.y
    m = ONES * wp.vec2(3.0, 1.0)
    out[1] = m[1]
    out[2] = Q.z
    out[3] = ONES[1, 0]
    out[4] = float(HALVES.y)
    v = GRAVITY + wp.vec3(7.0, 0.0, 0.0)
    out[5] = v.x
    out[6] = float(World.up.y)


@wp.func
def last(v: vec5, n: vec6i = vec6i(7)) -> float:
    return v[4] + float(n[5])


# run: @types[1]([[1, 2, 3, 4, 5]], [0, 0, 0]) == _, [12, 4, 6]
@wp.kernel
def types(v: wp.array(dtype=vec5), out: wp.array(dtype=float)):
    out[0] = last(v[0])
    u = vec6i(4)
    out[1] = float(u[0])
    m = mat23(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    out[2] = float(m[1, 2])


# run: @written_out[1]([[1, 2, 3, 4, 5]], [0]) == _, [5]
@wp.kernel
def written_out(v: wp.array(dtype=wp.types.vector(length=5, dtype=float)), out: wp.array(dtype=float)):
    out[0] = v[0][4]
