# test gradients
# seed 17018206: what the wider step moved bends so much that it was not known for what a large number had swallowed
# rank 1 |  | f64:1:own
import polyloom as loom


@loom.kernel
def kernel(a0: loom.array(dtype=loom.float64, ndim=1)):
    i = loom.tid()
    a0[i] = loom.sin(a0[i] - 1e12)
