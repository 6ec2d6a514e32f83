# test diagnostics
# Barriers that some threads do not come to because they have left: each help says what to write instead.
import polyloom as loom


@loom.kernel
def returns(a: loom.array(dtype=float), n: int):
    i = loom.tid()
    if i >= n:
        return
    loom.sync_threads()
    a[i] = 1.0


@loom.kernel
def breaks(a: loom.array(dtype=float)):
    i = loom.tid()
    for j in range(10):
        if a[i] > float(j):
            break
        loom.sync_threads()


@loom.kernel
def breaks_behind(a: loom.array(dtype=float)):
    i = loom.tid()
    while True:
        loom.sync_threads()
        if a[i] > 0.0:
            break


@loom.kernel
def continues(a: loom.array(dtype=float)):
    i = loom.tid()
    for j in range(10):
        for k in range(i):
            if k > 3:
                break
        if a[i] > float(j):
            continue
        a[i] = loom.warp_reduce_add(a[i])


@loom.func
def early(x: float):
    if x > 0.0:
        return x
    loom.sync_threads()
    return x + 1.0


@loom.kernel
def calls(a: loom.array(dtype=float)):
    i = loom.tid()
    a[i] = early(a[i])
