# test run
import polyloom as loom

# Conditions on the thread's number that nothing but them stands behind: engines may run fewer threads.


@loom.kernel(block_dim=(8, 4))
def along_an_axis(n: loom.array(dtype=int), out: loom.array(dtype=int)):
    x = loom.thread_idx(0)
    m = n[0]
    inside = x < m
    loom.sync_threads()
    if inside:
        out[loom.tid()] = m


# run: @along_an_axis[16]([3], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]) == [3], [3, 3, 3, 0, 0, 0, 0, 0, 3, 3, 3, 0, 0, 0, 0, 0]


@loom.kernel(block_dim=4)
def with_a_limit_used_before(n: loom.array(dtype=int), out: loom.array(dtype=int)):
    x = loom.thread_idx()
    inside = x < n[0]
    loom.sync_threads()
    if inside:
        out[loom.tid()] = 1


# run: @with_a_limit_used_before[8]([3], [0, 0, 0, 0, 0, 0, 0, 0]) == [3], [1, 1, 1, 0, 1, 1, 1, 0]
