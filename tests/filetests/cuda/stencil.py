# test cuda
import polyloom as loom


@loom.kernel
def stencil(u: loom.array2d(dtype=float), v: loom.array2d(dtype=float), k: float):
    i, j = loom.tid()
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        v[i, j] = u[i, j] + k * (u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1] - 4.0 * u[i, j])
