# test gradients
# seed 777039: a step that a large number swallows moves nothing, and differences were taken for a derivative of zero
# rank 1 |  | f64:2:read f64:1:own
import polyloom as loom


@loom.kernel
def kernel(a0: loom.array(dtype=loom.float64, ndim=2), a1: loom.array(dtype=loom.float64, ndim=1)):
    i = loom.tid()
    a1[i] = 0.5 / loom.tan(1.7e26 + a1[i])
