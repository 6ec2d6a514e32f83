# test diagnostics
import polyloom as loom


@loom.func
def f(x: float, y: int = 3) -> float:
    return x


@loom.func
def g(x: float):
    return 1


@loom.func
def g(x: int):
    return 2


@loom.kernel
def k(n: int, x: float, d: loom.float64, a: loom.array(dtype=float)):
    i = loom.tid()
    a[i] = f()
    a[i] = f(x, n, n)
    a[i] = f(x, z=3)
    a[i] = f(x, x=x)
    a[i] = f(n)
    n = g(d)
    n = g(x, x)
    a[i] = f(*x)
    a[i] = f(**x)
    a[i] = loom.sin()
    a[i] = loom.sin(n)
    a[i] = loom.sin(x, x)
    a[i] = loom.sin(y=x)
    a[i] = loom.max(x, n)
    a[i] = min(x, 1, d)
    a[i] = float(x, x)
    loom.atomic_add(a, x)
    loom.atomic_add(a, 0, n)
    loom.tid(1)
    range(3)
    y = print(x)
    print(x, file=3)
    print(a)
    loom.printf(x)
    loom.printf("%d %q\n", n)
    loom.printf("%d\n")
    for j in range():
        pass
    b = loom.tid


@loom.func
def h(x: loom.array(dtype=float), y: int = SIZE):
    return x[0]


@loom.func
def small(x: int, y: loom.int8 = 300):
    return x


@loom.kernel
def arrays(n: int, a: loom.array(dtype=float, ndim=2), b: loom.array(dtype=int), c: loom.array(dtype=float)):
    c[0] = h(a)
    c[0] = h(b)
    c[0] = h(c[0])
    c[0] = h(c)
    b[0] = small(n)
