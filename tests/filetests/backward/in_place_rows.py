# test backward
# option rows
# Rows that are a thread's own and that a loop overwrites are copied at checkpoints, and put back.
import polyloom as loom


@loom.kernel
def in_place_rows(n: int, x: loom.array2d(dtype=float)):
    i = loom.tid()
    for _ in range(n):
        for j in range(1, x.shape[1]):
            x[i, j] = x[i, j] * x[i, j - 1]
