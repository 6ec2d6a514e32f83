# test gradients
# seed 1: checkpoints keep the rows of both arrays, and what a segment reads of them is recorded when it runs again
# rank 1 | i32 | f64:2:own f64:2:own
import polyloom as loom


@loom.kernel
def kernel(
    n: loom.int32, a0: loom.array(dtype=loom.float64, ndim=2), a1: loom.array(dtype=loom.float64, ndim=2)
):
    i = loom.tid()
    m = loom.min(a0.shape[1], a1.shape[1])
    for k in range(17):
        for j in range(m):
            a1[i, j] = loom.sin(a0[i, j - 1]) * a0[i, k % m] + 0.5 * a0[i, j]
        if k % 3 != 0:
            for j in range(k % m, m):
                a0[i, j] = loom.cos(a1[i, j]) * a1[i, 0] + 0.1
