# test gradients
# seed 22003284: the way to a quaternion of zeros has the real part -0.0, which was taken for a half turn
# rank 1 |  | quaternion/f64:1:own
import polyloom as loom


@loom.kernel
def kernel(a0: loom.array(dtype=loom.quatd, ndim=1)):
    i = loom.tid()
    a0[i] = loom.quat_slerp(a0[i], loom.quatd(), loom.float64(0.25))
