"""Gradients that a launch writes in place of adding to them: `launch(…, adjoint=True, accumulate=False)`."""

import numpy as np
import polyloom as loom
import pytest
from test_gradients import KERNELS, arguments

A = loom.array(dtype=float)
A2 = loom.array(dtype=float, ndim=2)
V = loom.array(dtype=loom.vec3)
DEVICES = ["cpu", "sim:0"]
GARBAGE = np.float32(7.5)


@loom.kernel
def axpy(a: float, x: A, y: A, out: A):
    i = loom.tid()
    out[i] = a * x[i] + y[i]


@loom.kernel
def neighbours(x: A2, out: A2):
    i, j = loom.tid()
    if i > 0 and j > 0 and i < x.shape[0] - 1 and j < x.shape[1] - 1:
        out[i, j] = x[i - 1, j] * x[i + 1, j] + x[i, j - 1]


@loom.kernel
def scaled(x: V, w: A, out: V):
    i = loom.tid()
    out[i] = x[i] * w[i]


@loom.kernel
def the_same_for_all(x: A, out: A):
    out[0] = 2.0 * x[0]


@loom.kernel
def written_twice(x: A, out: A):
    i = loom.tid()
    out[i] = x[i]
    if x[i] > 0.0:
        out[i] = 3.0 * x[i]


@loom.kernel
def written_in_a_loop(x: A, out: A):
    i = loom.tid()
    for k in range(3):
        out[i] = x[i] * float(k)


@loom.kernel
def at_some(x: A, out: A):
    i = loom.tid()
    if x[i] > 0.0:
        out[i] = x[i] * x[i]


@loom.kernel
def summed(x: A, out: A):
    i = loom.tid()
    loom.atomic_add(out, 0, x[i] * x[i])


@loom.kernel
def updated(x: A, out: A):
    i = loom.tid()
    out[i] = out[i] * x[i]


def back(kernel, dim, args, seeds, began, accumulate, device="cpu"):
    """The gradients of all arguments; those without a seed begin with what is said."""
    made = [
        np.full(np.shape(arg) or 1, began, np.float32) if seed is None else seed.copy()
        for arg, seed in zip(args, seeds, strict=True)
    ]
    given = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    loom.launch(kernel, dim, given, adjoint=True, adj_inputs=made, accumulate=accumulate, device=device)
    return made


def assert_written(kernel, dim, args, device="cpu"):
    """The last argument is the result."""
    rng = np.random.default_rng(2)
    seeds = [None] * (len(args) - 1) + [rng.normal(size=args[-1].shape).astype(np.float32)]
    added = back(kernel, dim, args, seeds, 0, True, device)
    written = back(kernel, dim, args, seeds, GARBAGE, False, device)
    for expected, found in zip(added[:-1], written[:-1], strict=True):
        np.testing.assert_array_equal(found, expected)
    return seeds[-1], added[-1], written[-1]


@pytest.mark.parametrize("device", DEVICES)
def test_they_are_what_is_added_to_zeros(device):
    rng = np.random.default_rng(1)
    x, y, out = (rng.normal(size=40).astype(np.float32) for _ in range(3))
    plane = rng.normal(size=(6, 9)).astype(np.float32)
    vectors = rng.normal(size=(40, 3)).astype(np.float32)
    cases = [
        (axpy, 40, [0.5, x, y, out]),
        # No thread comes to the rest, of which the gradient is zero.
        (axpy, 30, [0.5, x, y, out]),
        (axpy, 0, [0.5, x, y, out]),
        (neighbours, (6, 9), [plane, plane]),
        (neighbours, (5, 4), [plane, plane]),
        (neighbours, (1, 1), [plane, plane]),
        (scaled, 40, [vectors, x, vectors]),
        (the_same_for_all, 40, [x, out]),
        (written_twice, 40, [x, out]),
        (written_in_a_loop, 40, [x, out]),
        (at_some, 40, [x, out]),
    ]
    for kernel, dim, args in cases:
        seed, _, kept = assert_written(kernel, dim, args, device)
        np.testing.assert_array_equal(kept, seed, err_msg=kernel.key)
    # What is read and written is replaced.
    for kernel, args in [(summed, [x, out]), (updated, [x, out])]:
        _, taken, replaced = assert_written(kernel, 40, args, device)
        np.testing.assert_array_equal(replaced, taken, err_msg=kernel.key)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_those_of_all_kernels_are(kernel):
    rng = np.random.default_rng(3)
    args = arguments(kernel, rng)
    weights = [rng.normal(size=np.shape(arg) or (1,)) for arg in args]
    is_written = [facts[3] for facts in kernel._parameters]
    backward = kernel.backward([True] * len(args), [7])
    replaced = [backward.adjoints[number] for number in backward.replaced]
    zeros, garbage = (
        [w.copy() if written else began + 0.0 * w for w, written in zip(weights, is_written, strict=True)]
        for began in (0.0, 7.5)
    )
    loom.launch(kernel, 7, [np.copy(arg) for arg in args], adjoint=True, adj_inputs=zeros)
    loom.launch(kernel, 7, [np.copy(arg) for arg in args], adjoint=True, adj_inputs=garbage, accumulate=False)
    for index, (expected, found, weight) in enumerate(zip(zeros, garbage, weights, strict=True)):
        if index not in backward.adjoints:
            continue
        if is_written[index] and index not in replaced:
            np.testing.assert_array_equal(found, weight)
        else:
            # Sums of many threads may be in another order.
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_gradients_in_one_memory_have_what_is_of_each():
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    both = np.full(6, GARBAGE, np.float32)
    seed = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    adjoints = [None, both[:4], both[2:]]
    loom.launch(
        axpy,
        4,
        [3.0, x, y],
        [np.zeros_like(x)],
        adjoint=True,
        adj_inputs=adjoints,
        adj_outputs=[seed],
        accumulate=False,
    )
    np.testing.assert_array_equal(both, [3.0, 6.0, 9.0 + 1.0, 12.0 + 2.0, 3.0, 4.0])
    # All elements of this one are the same memory.
    one = np.full(1, GARBAGE, np.float32)
    spread = np.lib.stride_tricks.as_strided(one, (4,), (0,))
    adjoints = [None, spread, None]
    loom.launch(
        axpy,
        4,
        [3.0, x, y],
        [np.zeros_like(x)],
        adjoint=True,
        adj_inputs=adjoints,
        adj_outputs=[seed],
        accumulate=False,
    )
    assert one[0] == 30.0


def test_gradients_of_structs_and_numbers():
    @loom.struct
    class Line:
        slope: float
        points: A

    @loom.kernel
    def along(line: Line, shift: float, out: A):
        i = loom.tid()
        out[i] = line.slope * line.points[i] + shift

    line, gradient = Line(), Line()
    line.slope, line.points = 2.0, loom.array([1.0, 2.0], dtype=float)
    gradient.slope, gradient.points = 9.0, loom.array([9.0, 9.0], dtype=float)
    shift, seed = np.full(1, GARBAGE, np.float32), np.array([1.0, 10.0], np.float32)
    for _ in range(2):
        loom.launch(
            along,
            2,
            [line, 1.0],
            [np.zeros(2, np.float32)],
            adjoint=True,
            adj_inputs=[gradient, shift],
            adj_outputs=[seed],
            accumulate=False,
        )
        assert (gradient.slope, gradient.points.list(), shift[0]) == (21.0, [2.0, 20.0], 11.0)
    assert seed.tolist() == [1.0, 10.0]


def test_what_a_launch_with_tapes_writes():
    @loom.kernel
    def powers(x: A, n: int, out: A):
        i = loom.tid()
        v = x[i]
        for _ in range(n):
            v = v * v
        out[i] = v

    x = np.array([1.0, 2.0], np.float32)
    gradient, seed = np.full(2, GARBAGE, np.float32), np.ones(2, np.float32)
    args = {"adj_inputs": [gradient, None], "adj_outputs": [seed], "accumulate": False}
    memory = loom.launch(powers, 2, [x, 2], [np.zeros(2, np.float32)], adjoint=True, **args)
    assert memory.loops > 0
    assert (gradient.tolist(), seed.tolist()) == ([4.0, 32.0], [1.0, 1.0])


def test_it_is_about_gradients():
    with pytest.raises(ValueError, match="accumulate=False is about gradients, for adjoint=True"):
        loom.launch(axpy, 1, [1.0, *np.zeros((3, 1), np.float32)], accumulate=False)
