# test diagnostics
import polyloom as loom


@loom.func
def settle(a: loom.array(dtype=float)):
    while a[0] > 1.0:
        a[0] = a[0] * 0.5


@loom.kernel(critical_path=True)
def hurried(a: loom.array(dtype=float), n: int):
    i = loom.tid()
    settle(a)
    for j in range(n):
        a[i] += a[j]
    for j in range(int(a[i])):
        a[i] += 1.0
    loom.atomic_add(a, 0, 1.0)
    assert a[i] > 0.0


@loom.kernel(target_latency_ns=500, opt_level="O2")
def in_time(a: loom.array(dtype=float)):
    k = int(a[0])
    while k > 0:
        k = k // 2
    print(k)


@loom.kernel(critical_path=True, opt_level="O3", check=True)
def contradicting(a: loom.array(dtype=float)):
    a[0] = 1.0


@loom.kernel(opt_level="fast", unchecked=True, check=True)
def no_level(a: loom.array(dtype=float)):
    a[0] = 1.0
