"""Memory of the way back through long loops over elements that they read and overwrite: checkpoints bound it where the
elements are the thread's own and their indices stay the same. Gradients are compared with central differences."""

import numpy as np
import polyloom as loom
import pytest

D = loom.array(dtype=loom.float64)
D2 = loom.array2d(dtype=loom.float64)
V = loom.array(dtype=loom.vec3d)
f64 = loom.float64


@loom.kernel
def pendulums(x: D, v: D, n: int):
    i = loom.tid()
    for _ in range(n):
        v[i] = v[i] - f64(0.01) * loom.sin(x[i])
        x[i] = x[i] + f64(0.01) * v[i]


@loom.kernel
def branches(x: D, y: D, n: int):
    """Two elements for each thread, at indices that an inner loop counts, in a `while` that may end early."""
    i = loom.tid()
    k = 0
    while k < n:
        for c in range(2):
            if x[2 * i] > f64(0.7):
                x[2 * i + c] = x[2 * i + c] - f64(0.02) * loom.sin(x[2 * i]) * f64(c + 1)
            else:
                x[2 * i + 1 - c] = x[2 * i + c] * f64(0.99) + f64(0.05)
        y[i] += x[2 * i] * x[2 * i + 1]
        k += 1
        if y[i] > f64(1e9):
            break


@loom.kernel
def composites(p: V, m: loom.array(dtype=loom.mat22d), n: int):
    i = loom.tid()
    for _ in range(n):
        p[i] = p[i] + f64(0.01) * loom.cross(p[i], loom.vec3d(p[i][1], f64(1.0), f64(2.0)))
        m[i][0, 1] = m[i][0, 1] + f64(0.01) * loom.sin(m[i][1, 0])
        m[i][1, 0] = m[i][1, 0] * f64(0.999) - f64(0.01) * m[i][0, 1] * m[i][0, 1]


@loom.kernel
def neighbours(x: D, y: D, n: int):
    """The first thread has no element, and some have one that no iteration comes to."""
    i = loom.tid()
    for k in range(n):
        if i > 0 and k % 3 < i:
            y[i - 1] = y[i - 1] * f64(0.9) + loom.sin(x[i] * y[i - 1])


@loom.kernel
def rows(x: D2, tickets: loom.array(dtype=int), last: int, n: int):
    """A row of four, of which the last index counts from the end; and numbers that have no derivative."""
    i = loom.tid()
    for _ in range(n):
        for _again in range(2):
            tickets[i] = (tickets[i] * 5 + 3) % 16
            x[i, -1] = loom.sin(x[i, -1]) + f64(0.05) * f64(tickets[i])
    for _ in range(n):
        for c in range(1, 4):
            x[i, c] = x[i, c] + f64(0.01) * loom.sin(x[i, c - 1])
    for _ in range(n):
        x[i, last] = loom.cos(x[i, last])


def arguments(kernel, n):
    rng = np.random.default_rng(7)
    sizes = {pendulums: (5, 5), branches: (10, 5), neighbours: (6, 5)}
    if kernel is composites:
        return [rng.random((5, 3)), rng.random((5, 2, 2)), n], 5
    if kernel is rows:
        return [rng.random((5, 4)), np.arange(5, dtype=np.int32), 2, n], 5
    return [*(0.3 + rng.random(size) for size in sizes[kernel]), n], sizes[kernel][0] // (
        2 if kernel is branches else 1
    )


KERNELS = [pendulums, branches, composites, neighbours, rows]


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
def test_loops_over_own_elements_agree_with_differences(kernel, memory, tape_memory):
    tape_memory(memory)
    args, dim = arguments(kernel, 20)
    loom.gradcheck(kernel, args, dim=dim)


def printed():
    """The gradients with checkpoints, as bytes."""
    loom.config.tape_memory = 1
    for kernel in KERNELS:
        for gradient in gradients(kernel, 50)[1]:
            print(gradient.tobytes().hex())


def test_all_engines_give_the_same_bits(tape_memory, on_tier):
    script = "import test_gradient_memory as t; t.printed()"
    interpreter, cranelift, llvm = (on_tier(tier, script).split() for tier in ("interp", "0", "1"))
    tape_memory(1)
    simulated = [g.tobytes().hex() for kernel in KERNELS for g in gradients(kernel, 50, "sim:0")[1]]
    assert len(simulated) == 9
    assert interpreter == cranelift == llvm == simulated


@pytest.mark.parametrize("kernel", [pendulums, composites, rows], ids=lambda kernel: kernel.key)
def test_memory_is_bounded_by_checkpoints(kernel, tape_memory):
    """Of pendulums, the position of every step takes 0.8 MB a thread; checkpoints, 316 of positions and velocities, and
    positions of the 317 behind one of them."""
    n = 100_000
    found = []
    for memory in (1 << 30, 1 << 20, 1):
        tape_memory(memory)
        found.append(gradients(kernel, n))
    for taken, values in found[1:]:
        for value, expected in zip(values, found[0][1], strict=True):
            np.testing.assert_array_equal(value, expected)
        assert taken <= 1 << 20
    if kernel is pendulums:
        few = 316 * 16 + 317 * 8
        assert [taken for taken, _ in found] == [5 * 8 * n, 5 * few, few]


@loom.kernel
def histories(x: D2, n: int):
    i = loom.tid()
    for k in range(n):
        x[i, k + 1] = loom.sin(x[i, k])


def test_elements_that_loops_move_to_are_all_recorded(tape_memory):
    """What the guide says is not bounded: an index that changes."""
    tape_memory(1)
    n = 1000
    x = np.full((3, n + 1), 0.5)
    with loom.Tape() as tape:
        loom.launch(histories, 3, [x, n])
    tape.backward(grads=[(x, np.ones_like(x))])
    assert tape.memory.loops >= 8 * n
    slope, expected, at = 0.0, 0.0, 0.5
    for k in range(n + 1):
        slope = 1.0 if k == 0 else slope * np.cos(at)
        at = at if k == 0 else np.sin(at)
        expected += slope
    np.testing.assert_allclose(tape.gradients[x][:, 0], expected, rtol=1e-12)


@loom.kernel
def powers(x: D, n: int, out: D):
    i = loom.tid()
    v = x[i]
    for _ in range(n):
        v = v * v + f64(0.1)
    out[i] = v


def test_neighbouring_threads_have_neighbouring_places_on_tapes():
    n, steps = 128, 20
    x, gradient, seed = np.full(n, 0.5), np.zeros(n), np.ones(n)
    loom.sim.configure(counters=True)
    try:
        adjoints = {"adj_inputs": [gradient, None], "adj_outputs": [seed]}
        memory = loom.launch(powers, n, [x, steps], [np.zeros(n)], adjoint=True, **adjoints, device="sim:0")
        report = loom.sim.last_report()
    finally:
        loom.sim.configure(counters=False)
    assert memory.loops == 8 * n * steps
    # A warp stores once in each step, and moves no byte that it does not ask for.
    assert report["global_stores"] >= steps * n // 32 and report["coalescing"] == 1.0
