"""Workloads over Quadrants' public API, against NumPy. It compiles its kernels to PTX with an LLVM of its own."""

import numpy as np
import quadrants as qd

rng = np.random.default_rng(5)


def given(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def close(found, expected, atol=1e-4):
    np.testing.assert_allclose(found, expected, atol=atol, rtol=1e-4)


def saxpy():
    @qd.kernel
    def run(a: qd.f32, x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in x:
            y[i] = a * x[i] + y[i]

    x, y = given(1000), given(1000)
    expected = 2 * x + y
    run(2.0, x, y)
    close(y, expected)


def fields():
    f = qd.field(qd.f32, shape=(32, 16))

    @qd.kernel
    def run():
        for i, j in f:
            f[i, j] = i * 100.0 + j

    run()
    close(f.to_numpy(), np.arange(32)[:, None] * 100.0 + np.arange(16))


def reduction():
    x, total = qd.field(qd.f32, shape=4096), qd.field(qd.f32, shape=())

    @qd.kernel
    def run():
        for i in x:
            total[None] += x[i]

    values = given(4096)
    x.from_numpy(values)
    run()
    close(total[None], values.sum(), 1e-2)


def atomics():
    counts = qd.field(qd.i32, shape=8)

    @qd.kernel
    def run(n: qd.i32):
        for i in range(n):
            qd.atomic_add(counts[i % 8], 1)

    run(1000)
    close(counts.to_numpy(), np.full(8, 125))


def matmul():
    n = 32
    a, b, c = (qd.field(qd.f32, shape=(n, n)) for _ in range(3))

    @qd.kernel
    def run():
        for i, j in c:
            s = 0.0
            for k in range(n):
                s += a[i, k] * b[k, j]
            c[i, j] = s

    x, y = given(n, n), given(n, n)
    a.from_numpy(x)
    b.from_numpy(y)
    run()
    close(c.to_numpy(), x @ y)


def mathematics():
    x, y = qd.field(qd.f32, shape=257), qd.field(qd.f32, shape=257)

    @qd.kernel
    def run():
        for i in x:
            y[i] = qd.sin(x[i]) * qd.exp(-x[i] * x[i]) + qd.sqrt(qd.abs(x[i])) + qd.log(1.0 + x[i] * x[i])

    v = given(257)
    x.from_numpy(v)
    run()
    close(y.to_numpy(), np.sin(v) * np.exp(-v * v) + np.sqrt(np.abs(v)) + np.log(1 + v * v))


def doubles():
    x = qd.field(qd.f64, shape=100)

    @qd.kernel
    def run():
        for i in x:
            x[i] = qd.cos(qd.cast(i, qd.f64)) ** 2

    run()
    close(x.to_numpy(), np.cos(np.arange(100.0)) ** 2, 1e-12)


def vectors():
    p = qd.Vector.field(3, qd.f32, shape=64)

    @qd.kernel
    def run():
        for i in p:
            v = qd.Vector([qd.cast(i, qd.f32), 1.0, 2.0])
            p[i] = v.normalized()

    run()
    expected = np.stack([np.arange(64), np.ones(64), np.full(64, 2)], 1)
    close(p.to_numpy(), expected / np.linalg.norm(expected, axis=1, keepdims=True))


def structs():
    particle = qd.types.struct(mass=qd.f32, velocity=qd.types.vector(2, qd.f32))
    f = particle.field(shape=16)

    @qd.kernel
    def run():
        for i in f:
            f[i].mass = i * 0.5
            f[i].velocity = qd.Vector([i * 1.0, i * 2.0])

    run()
    close(f.mass.to_numpy(), np.arange(16) * 0.5)
    close(f.velocity.to_numpy()[:, 1], np.arange(16) * 2.0)


def loops():
    out = qd.field(qd.i32, shape=200)

    @qd.kernel
    def run():
        for i in out:
            n, steps = i + 1, 0
            while n != 1:
                if n % 2 == 0:
                    n //= 2
                else:
                    n = 3 * n + 1
                steps += 1
            out[i] = steps

    def collatz(n):
        steps = 0
        while n != 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return steps

    run()
    close(out.to_numpy(), [collatz(i + 1) for i in range(200)])


def sparse():
    x, count = qd.field(qd.f32), qd.field(qd.i32, shape=())
    qd.root.pointer(qd.i, 16).dense(qd.i, 8).place(x)

    @qd.kernel
    def activate():
        for i in range(4):
            x[i * 32] = 1.0

    @qd.kernel
    def visit():
        for _ in x:
            count[None] += 1

    activate()
    visit()
    close(count[None], 4 * 8)


def gradients():
    x, loss = qd.field(qd.f32, shape=8, needs_grad=True), qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def run():
        for i in x:
            loss[None] += x[i] ** 2

    v = given(8)
    x.from_numpy(v)
    loss.grad[None] = 1.0
    run()
    run.grad()
    close(x.grad.to_numpy(), 2 * v)


PROGRAMS = [
    saxpy,
    fields,
    reduction,
    atomics,
    matmul,
    mathematics,
    doubles,
    vectors,
    structs,
    loops,
    sparse,
    gradients,
]

if __name__ == "__main__":
    qd.init(arch=qd.cuda, offline_cache=False)
    # Without a GPU it falls back to the CPU, which is not what is tested.
    assert "cuda" in str(qd.cfg.arch), qd.cfg.arch
    for program in PROGRAMS:
        try:
            program()
            print(f"ok {program.__name__}", flush=True)
        except Exception as error:
            text = str(error).strip().splitlines()[0] if str(error) else ""
            print(f"failed {program.__name__}: {type(error).__name__}: {text}", flush=True)
