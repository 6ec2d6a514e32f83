# test hir
import polyloom as loom

N = 3
@loom.func
def f(x: float, k: int = 2) -> float:
    if x > 1.0:
        return x * 2
    elif x < -N:
        return -1
    for i in range(k):
        x += float(i)
    return x

@loom.kernel
def k(n: int, x: loom.array(dtype=float, ndim=2), y: loom.array(dtype=float)):
    i, j = loom.tid()
    if i >= n or j >= x.shape[1]:
        return
    s = 0.0
    state = loom.rand_init(42, i)
    for q in range(0, 10, 2):
        if x[i, q] < 0 and y[i] != 0:
            continue
        if q > 5:
            break
        s += x[i, q] ** 2
    else:
        s = 1
    while loom.randf(state) < 0.5:
        s += f(x=s)
    y[i] -= s + float(q) if s > 0 else f(s, 3)
    y[-1] = loom.min(s, 1, 3)
    assert s > 0.0
    print('s', s, i)
