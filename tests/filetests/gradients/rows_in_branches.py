# test gradients
# seed 5: rows of two loops, one in a branch and one that may end early, with integers among them and two coordinates
# rank 2 |  | f64:3:own i32:3:own f64:2:own
import polyloom as loom


@loom.kernel
def kernel(
    a0: loom.array(dtype=loom.float64, ndim=3),
    a1: loom.array(dtype=loom.int32, ndim=3),
    a2: loom.array(dtype=loom.float64, ndim=2),
):
    i, j = loom.tid()
    if j % 2 == 0:
        for k in range(7):
            a0[i, j, k % a0.shape[2]] = 0.3 + loom.sin(a0[i, j, -1] * a0[i, j, 0])
    k = 0
    while k < 12:
        a1[i, j, k % a1.shape[2]] = (a1[i, j, 0] * 5 + k) % 16
        a2[i, j] = a2[i, j] * loom.cos(a0[i, j, a1[i, j, -1] % a0.shape[2]])
        if a1[i, j, k % a1.shape[2]] == 15:
            break
        a0[i, j, 0] += 0.1 * a2[i, j]
        k += 1
