# test gradients
# seed 52515: the axis keeps its direction, by terms that are 1e9 and cancel, and rounding was taken for a difference
# rank 3 | f64 f64 | f64:1:read i32:3:own f64:3:shared f64:2:read f64:3:own
import polyloom as loom


@loom.struct
class S0:
    f0: loom.float64


@loom.struct
class S1:
    f0: loom.float64


@loom.kernel
def kernel(
    p0: loom.float64,
    a0: loom.array(dtype=loom.float64, ndim=1),
    a1: loom.array(dtype=loom.int32, ndim=3),
    a2: loom.array(dtype=loom.float64, ndim=3),
    s: S0,
    e0: loom.array(dtype=S0, ndim=2),
    e1: loom.array(dtype=S1, ndim=3),
):
    i, j, k = loom.tid()
    for _ in range(1, 6):
        p0 *= p0
    axis, angle = loom.quat_to_axis_angle(loom.quat_from_axis_angle(loom.vec3d(p0, p0, p0), p0 * p0))
    e1[i, j, k].f0 += axis[0]
