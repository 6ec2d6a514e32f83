# test diagnostics
import numpy as np
import polyloom as loom


@loom.func
def nothing(a: loom.array(dtype=float)):
    a[0] = 1.0


@loom.kernel
def no_thread(a: loom.array(dtype=float)):
    a[i] = 1.0


@loom.kernel
def one_letter(a: loom.array(dtype=float), x: float):
    i = loom.tid()
    a[i] = q * x


@loom.kernel
def libraries(a: loom.array(dtype=float)):
    i = loom.tid()
    a[i] = np.sin(a[i])
    a[i] = np.arctan2(a[i], 1.0)
    a[i] = math.sin(a[i])
    a[i] = np.linalg.norm(a)
    b = loom.zeros(3)
    c = np.zeros(3)
    a[i] = loom.float(i)
    a[i] = sum(a)
    a[i] = loom.sum(a)
    a[i] = nothing(a)


@loom.kernel
def vectors(p: loom.array(dtype=loom.vec3), q: loom.vec3, n: int, m: loom.types.vector(length=5, dtype=float)):
    i = loom.tid()
    s = p[i].dot(q)
    t = q.norm()
    u = q + 1.0
    v = q * n
    w = q - n
    if q > 0.0:
        pass
    x = loom.inv(q)
    y = q * q
    z = m + 1.0


@loom.kernel
def numbers(a: loom.array(dtype=float), n: int):
    i = loom.tid()
    a[i] = loom.sqrt(i)
    a[i] = a[i] ^ 2
    loom.atomic_add(a, a[i], 1.0)
    loom.atomic_add(a, i, n)
    a[i] = loom.atan2(i, n)
    loom.printf(1)
    a[i] = f"{i}"


@loom.kernel
def loops(a: loom.array(dtype=float)):
    for i, x in enumerate(a):
        a[i] = x + 1.0


class Model:
    @loom.kernel
    def step(self, a: loom.array(dtype=float)):
        a[loom.tid()] = 1.0
