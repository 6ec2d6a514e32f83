# test differential
# seed 223: what a thread prints comes before what the next one prints, in groups of threads too
# rank 1 | | f32:1:read f32:1:own
import polyloom as loom


@loom.kernel
def kernel(a0: loom.array(dtype=loom.float32, ndim=1), a1: loom.array(dtype=loom.float32, ndim=1)):
    i = loom.tid()
    x = a0[loom.min(i, a0.shape[0] - 1)]
    if x > 0.5:
        loom.printf("%d: positive\n", i)
    for n in range(loom.clamp(i, 0, 3)):
        print("n", n)
    a1[i] = x
