"""Loops in which each thread goes along a row give what they give element after element, whatever a tile holds."""

import os

import numpy as np
import polyloom as loom
import pytest
import sources

FLOATS, LINE = loom.array(dtype=float, ndim=2), loom.array(dtype=float)
WIDE, INTS = loom.array(dtype=loom.float64, ndim=2), loom.array(dtype=int, ndim=2)
RANDOM = np.random.default_rng(8)


@loom.kernel(hints={"vector_width": 16})
def filtered(x: FLOATS, y: FLOATS, a: float, b: float):
    i = loom.tid()
    state = 0.0
    for j in range(x.shape[1]):
        state = a * state + b * x[i, j]
        y[i, j] = state


@loom.kernel(hints={"vector_width": 32})
def filtered_in_place(x: FLOATS, y: FLOATS, a: float, b: float):
    i = loom.tid()
    for j in range(y.shape[1]):
        y[i, j] = x[i, j]
    for j in range(2, y.shape[1]):
        y[i, j] = a * y[i, j - 1] + b * y[i, j - 2] - y[i, j]


@loom.kernel(hints={"vector_width": 8})
def from_the_end(x: FLOATS, y: FLOATS, a: float, b: float):
    i = loom.tid()
    n = x.shape[1]
    for k in range(n):
        y[i, n - 1 - k] = x[i, n - 1 - k] * b
    for j in range(n - 2, -1, -1):
        y[i, j] = y[i, j] - a * y[i, j + 1]


@loom.kernel(hints={"vector_width": 16})
def wrapped(x: FLOATS, y: FLOATS, a: float, b: float):
    i = loom.tid()
    n = x.shape[1]
    for k in range(n):
        y[i, k - n] = a * x[i, k - 2] + b * x[i, k]


@loom.kernel(hints={"vector_width": 16})
def with_branches(x: FLOATS, y: FLOATS, a: float, b: float):
    i = loom.tid()
    if i % 3 == 1:
        return
    worst = -1.0
    for j in range(x.shape[1]):
        v = x[i, j]
        if v > worst:
            worst = v * a
        if j + 1 < x.shape[1] and v < 0.0:
            worst = worst - b * x[i, j + 1]
        y[i, j] = worst


@loom.kernel(hints={"vector_width": 16})
def reads_ahead(x: FLOATS, y: FLOATS, a: float, b: float):
    i = loom.tid()
    for j in range(x.shape[1]):
        y[i, j] = x[i, j]
    for j in range(y.shape[1] - 3):
        before = y[i, j]
        y[i, j] = a * y[i, j + 3] + before
        y[i, j] = y[i, j] * b


@loom.kernel(hints={"vector_width": 16})
def stored_then_loaded(x: FLOATS, y: FLOATS, a: float, b: float):
    i = loom.tid()
    for j in range(1, x.shape[1]):
        y[i, j] = x[i, j] * a
        y[i, 0] = y[i, 0] + b
        y[i, 0] = y[i, 0] + y[i, j]


KERNELS = [filtered, filtered_in_place, from_the_end, wrapped, with_branches, reads_ahead, stored_then_loaded]


def rows_of(kernel, x, y, a, b):
    """What a kernel gives, computed by Python in float32, which rounds each operation as the kernel does."""
    n = x.shape[1]
    a, b, zero = np.float32(a), np.float32(b), np.float32(0)
    for i in range(x.shape[0]):
        state = zero
        match kernel.__name__:
            case "filtered":
                for j in range(n):
                    y[i, j] = state = a * state + b * x[i, j]
            case "filtered_in_place":
                y[i] = x[i]
                for j in range(2, n):
                    y[i, j] = a * y[i, j - 1] + b * y[i, j - 2] - y[i, j]
            case "from_the_end":
                y[i] = x[i] * b
                for j in range(n - 2, -1, -1):
                    y[i, j] = y[i, j] - a * y[i, j + 1]
            case "wrapped":
                for k in range(n):
                    y[i, k - n] = a * x[i, k - 2] + b * x[i, k]
            case "with_branches" if i % 3 != 1:
                worst = np.float32(-1)
                for j in range(n):
                    v = x[i, j]
                    if v > worst:
                        worst = v * a
                    if j + 1 < n and v < 0:
                        worst = worst - b * x[i, j + 1]
                    y[i, j] = worst
            case "reads_ahead":
                y[i] = x[i]
                for j in range(n - 3):
                    y[i, j] = (a * y[i, j + 3] + y[i, j]) * b
            case "stored_then_loaded":
                for j in range(1, n):
                    y[i, j] = x[i, j] * a
                    y[i, 0] = (y[i, 0] + b) + y[i, j]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("shape", [(1, 3), (5, 40), (16, 16), (40, 33), (33, 2), (70, 65)])
def test_rows(kernel, shape):
    x = RANDOM.standard_normal(shape).astype(np.float32)
    expected = np.zeros(shape, np.float32)
    rows_of(kernel, x, expected, 0.5, 1.25)
    y = np.zeros(shape, np.float32)
    loom.launch(kernel, shape[0], [x, y, 0.5, 1.25])
    assert np.array_equal(y, expected)


def random_kernel(random: np.random.Generator) -> str:
    """The text of a kernel whose threads go along rows of `x`, `y` and `z`, some elements of which they store."""

    def pick(*choices):
        return choices[random.integers(len(choices))]

    step = pick("1", "1", "-1")
    low, high = pick("0", "1", "2", "first"), pick("n - 2", "n - 2", "n - n // 3")
    counts = f"{low}, {high}" if step == "1" else f"{high} - 1, {low} - 1, -1"
    at = pick("j", "j", "j", "n - 3 - j", "j + first - first")
    targets = list(random.permutation(["y", "z"]))[: random.integers(0, 3)]
    lines = ["s = float(1.0)", "t = float(i)", f"for j in range({counts}):"]

    def place():
        return pick(at, at, f"{at} - 1", f"{at} + 1", f"{at} - 2", f"({at}) + first", "first")

    for _ in range(random.integers(1, 5)):
        array, variable = pick("x", "y", "z"), pick("s", "t")
        value = f"{array}[i, {place()}]" if pick(0, 0, 1) else f"{array}[i, {at}]"
        change = pick("{v} * 0.5 + {x}", "{v} - {x}", "{x}", "loom.max({v}, {x})", "loom.where({x} > 0.0, {v}, {x})")
        lines.append(f"    {variable} = " + change.format(v=variable, x=value))
        if pick(0, 0, 0, 1):
            lines += [f"    if {variable} > 0.25:", f"        {pick('s', 't')} = {value} * 0.25"]
        for target in targets:
            if pick(0, 1):
                lines.append(f"    {target}[i, {pick(at, at, at, place())}] = s + t")
    if pick(0, 1):
        lines.append("y[i, 0] = s - t")
    if pick(0, 0, 1):
        lines.insert(0, "if i % 5 == 2:\n        return")
    body = "\n    ".join(lines)
    return (
        '@loom.kernel(hints={"vector_width": width})\n'
        "def walked(x: FLOATS, y: FLOATS, z: FLOATS, first: int):\n"
        f"    i = loom.tid()\n    n = x.shape[1]\n    {body}\n"
    )


@pytest.mark.parametrize("seed", range(int(os.environ.get("POLYLOOM_ROW_TILES", "12"))))
def test_random_loops_give_what_single_threads_give(seed):
    random = np.random.default_rng(seed)
    width = 2 ** int(random.integers(1, 7))
    text = random_kernel(random)
    kernels = [sources.define(text, FLOATS=FLOATS, width=width)["walked"] for width in (width, 1)]
    for shape in [(1, 6), (37, 41), (16, 16), (7, 5)]:
        given = [RANDOM.standard_normal(shape).astype(np.float32) for _ in range(3)]
        first = int(random.integers(0, 2))
        results = []
        for kernel in kernels:
            arrays = [a.copy() for a in given]
            loom.launch(kernel, shape[0], [*arrays, first])
            results.append(arrays)
        for a, b in zip(*results, strict=True):
            assert np.array_equal(a, b), (shape, first, width, text)
