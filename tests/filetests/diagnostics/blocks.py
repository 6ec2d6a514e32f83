# test diagnostics
import polyloom as loom


@loom.kernel
def arguments(a: loom.array(dtype=float), n: int):
    i = loom.thread_idx(3)
    j = loom.block_idx(n)
    x = loom.shuffle(1.0, 0, width=7)
    loom.thread_fence("blok")
    loom.atomic_add(a, 0, 1.0, scope="thread")
    loom.atomic_add(a, 0, 1.0, order="sequential")
    loom.sync_threads_or(n)


@loom.kernel
def arrays(a: loom.array(dtype=float), n: int):
    one = loom.shared_array(shape=n, dtype=float)
    two = loom.shared_array(shape=(2, 2), dtype=a)
    three = loom.shared_array(4, float, 3)
    four = loom.dynamic_shared(shape=2.5)
    five = loom.shared_array(shape=(1, 2, 3, 4), dtype=loom.vec2)
    six = loom.shared_array(size=4)
    seven = loom.shared_array(shape=1 << 27, dtype=float)
    n = loom.shared_array(shape=2)
    a[0] = loom.shared_array(shape=2)[0]
