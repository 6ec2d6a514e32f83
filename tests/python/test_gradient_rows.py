"""Memory of the way back through long loops over rows of arrays that are the thread's own: checkpoints keep the rows.
Gradients are compared with central differences, and with those for which every read is recorded."""

import numpy as np
import polyloom as loom
import pytest

D = loom.array(dtype=loom.float64)
D2 = loom.array2d(dtype=loom.float64)
I2 = loom.array2d(dtype=int)
f64 = loom.float64


@loom.kernel
def diffusion(u: D2, v: D2, n: int):
    """A row, and what is to be there next, in inner loops of which nobody knows how long they are."""
    i = loom.tid()
    for _ in range(n):
        for j in range(1, u.shape[1] - 1):
            v[i, j] = u[i, j] + f64(0.1) * (loom.sin(u[i, j - 1]) - f64(2.0) * u[i, j] + u[i, j + 1])
        for j in range(1, u.shape[1] - 1):
            u[i, j] = v[i, j] * (f64(1.0) + f64(0.01) * v[i, j])


@loom.kernel
def rings(x: D2, y: D, tickets: I2, n: int):
    """Indices that are computed and that integers of the row choose, in a `while` that may end early; and, below the
    loop, what it has left."""
    i = loom.tid()
    k = 0
    while k < n:
        t = tickets[i, k % 4]
        tickets[i, k % 4] = (5 * t + 3) % 16
        if t % 3 != 0:
            x[i, t % 3] = loom.sin(x[i, (t + 1) % 3]) * x[i, -1] + f64(0.3)
        k += 1
        if x[i, 0] > f64(1e9):
            break
    y[i] = y[i] * x[i, 0] * x[i, 1]


@loom.kernel
def fields(p: loom.array3d(dtype=loom.vec2d), q: loom.array3d(dtype=loom.vec2d), last: int, n: int):
    """Threads that have no row, rows of composites and of their components, and loops within a branch."""
    i, j = loom.tid()
    if i > last:
        return
    for c in range(p.shape[2]):
        q[i, j, c] = p[i, j, c] * f64(0.5)
    if j > 0:
        for _ in range(n):
            for c in range(1, p.shape[2]):
                p[i, j, c] = p[i, j, c] * f64(0.9) + f64(0.1) * loom.cw_mul(p[i, j, c - 1], q[i, j, c])
                q[i, j, c][0] = q[i, j, c][1] * p[i, j, c][0]
    for k in range(n):
        for c in range(p.shape[2]):
            if k % 2 == c % 2:
                q[i, j, c] = f64(0.4) * (loom.cw_mul(q[i, j, c], q[i, j, c]) + p[i, j, 0])


@loom.kernel
def strides(x: D, y: D2, n: int):
    """Forty elements of a vector for each thread, and a row beside the thread's coordinate: the first one has none."""
    i = loom.tid()
    for _ in range(n):
        for c in range(1, 40):
            x[40 * i + c] = f64(0.9) * loom.sin(x[40 * i + c - 1]) + f64(0.1) * x[40 * i + c]
        if i > 0:
            for j in range(y.shape[1]):
                y[i - 1, j] = loom.cos(y[i - 1, j] * x[40 * i])


@loom.kernel
def shared(x: D2, z: D2, order: loom.array(dtype=int), n: int):
    """Beside the rows, elements that may be any thread's: all that is read of these is recorded."""
    i = loom.tid()
    for k in range(n):
        for j in range(x.shape[1]):
            z[order[i], j] = loom.sin(z[order[i], j]) + f64(0.1) * loom.cos(x[i, j] * x[i, 0])
            for _again in range(k % 3):
                x[i, j] = x[i, j] * f64(0.99) + f64(0.05) * z[order[i], (j + 1) % 3]


KERNELS = [diffusion, rings, fields, strides, shared]


def arguments(kernel, n):
    """What a kernel is launched with, and over how many threads."""
    rng = np.random.default_rng(11)

    def numbers(*shape):
        return 0.3 + 0.5 * rng.random(shape)

    return {
        diffusion: lambda: ([numbers(5, 6), np.zeros((5, 6)), n], 5),
        rings: lambda: ([numbers(5, 3), numbers(5), np.arange(20, dtype=np.int32).reshape(5, 4), n], 5),
        fields: lambda: ([numbers(2, 3, 4, 2), numbers(2, 3, 4, 2), 1, n], (4, 3)),
        strides: lambda: ([numbers(120), numbers(2, 3), n], 3),
        shared: lambda: ([numbers(5, 3), numbers(5, 3), np.array([3, 1, 4, 0, 2], np.int32), n], 5),
    }[kernel]()


@pytest.fixture
def tape_memory():
    """Sets the limit, for this test."""
    before = loom.config.tape_memory

    def limit(n_bytes):
        loom.config.tape_memory = n_bytes

    yield limit
    loom.config.tape_memory = before


def gradients(kernel, n, device="cpu"):
    """The bytes of tapes, and what arrays held at the beginning changes of the sum of what they hold at the end."""
    args, dim = arguments(kernel, n)
    args = [loom.array(arg, device=device) if isinstance(arg, np.ndarray) else arg for arg in args]
    with loom.Tape() as tape:
        loom.launch(kernel, dim, args, device=device)
    numbers = [arg for arg in args if isinstance(arg, loom.array) and arg.dtype is not loom.int32]
    tape.backward(grads=[(arg, 1.0) for arg in numbers])
    return tape.memory.loops, [tape.gradients[arg].numpy() for arg in numbers]


@pytest.mark.parametrize("memory", [64 << 20, 1], ids=["all", "checkpoints"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_loops_over_rows_agree_with_differences(kernel, memory, tape_memory):
    tape_memory(memory)
    args, dim = arguments(kernel, 10)
    if kernel is fields:
        args = [loom.array(arg, dtype=loom.vec2d) if isinstance(arg, np.ndarray) else arg for arg in args]
    loom.gradcheck(kernel, args, dim=dim)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
@pytest.mark.parametrize("n", [0, 1, 2, 17, 100])
def test_checkpoints_change_no_bit(kernel, n, tape_memory):
    tape_memory(1 << 30)
    _, expected = gradients(kernel, n)
    tape_memory(1)
    _, found = gradients(kernel, n)
    for value, other in zip(found, expected, strict=True):
        assert np.isfinite(value).all()
        np.testing.assert_array_equal(value, other)


# How often loops run, and bytes on which one thread has place, or up to five at a time.
LIMITS = [(50, 1), (400, 20_000)]


def printed(device="cpu"):
    """The gradients with checkpoints, as bytes."""
    for n, limit in LIMITS:
        loom.config.tape_memory = limit
        for kernel in KERNELS:
            for gradient in gradients(kernel, n, device)[1]:
                assert np.isfinite(gradient).all()
                print(gradient.tobytes().hex())


def test_all_engines_give_the_same_bits(tape_memory, on_tier, capsys):
    script = "import test_gradient_rows as t; t.printed()"
    interpreter, cranelift, llvm = (on_tier(tier, script).split() for tier in ("interp", "0", "1"))
    tape_memory(1)
    printed("sim:0")
    simulated = capsys.readouterr().out.split()
    assert len(simulated) == 2 * 10
    assert interpreter == cranelift == llvm == simulated


@pytest.mark.parametrize("n", [100, 10_000, 250_000])
def test_memory_grows_with_the_root_of_a_loop(n, tape_memory):
    """By hand: two rows of six at each checkpoint; of every iteration behind one, what four sines take and twice four
    numbers to be squared, and where these begin on tapes; of inner loops, two segments of two iterations."""
    tape_memory(1)
    taken, _ = gradients(diffusion, n)
    root = round(np.sqrt(n))
    assert taken == root * 2 * 6 * 8 + root * (3 * 4 * 8 + 3 * 4) + 3 * (2 + 2) * 4
    # Else it would be what all iterations read.
    assert taken < n * 3 * 4 * 8
