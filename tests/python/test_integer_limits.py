"""Where numbers reach the ends of their integer types: sizes of arrays, widths of `printf`, random integers, and ranges
in reverse mode."""

from __future__ import annotations

import numpy as np
import polyloom as loom
import pytest

BIG = 2**63


@loom.kernel
def sizes(a: loom.array2d(dtype=loom.uint8), o: loom.array(dtype=loom.int64)):
    o[0] = loom.int64(a.size)
    o[1] = loom.int64(a[::-1].size)


@loom.func
def size_of(a: loom.array2d(dtype=loom.uint8)):
    return a.size


@loom.kernel
def size_in_function(a: loom.array2d(dtype=loom.uint8), o: loom.array(dtype=loom.int64)):
    o[0] = loom.int64(size_of(a))


@loom.kernel
def product(a: loom.array2d(dtype=loom.uint8), o: loom.array(dtype=loom.int64)):
    o[0] = loom.int64(a.shape[0]) * loom.int64(a.shape[1])


@pytest.mark.parametrize("kernel", [sizes, size_in_function])
@pytest.mark.parametrize("shape", [(65536, 32768), (70000, 70000), (46341, 46341)])
def test_sizes_that_no_int32_counts_are_refused(kernel, shape):
    out = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match=rf"argument 'a' .*its `size`, an int32, and {shape[0] * shape[1]} elements"):
        loom.launch(kernel, 1, [np.broadcast_to(np.uint8(7), shape), out])
    loom.launch(product, 1, [np.broadcast_to(np.uint8(7), shape), out])
    assert out[0] == shape[0] * shape[1]


def test_sizes_that_an_int32_counts():
    out = np.zeros(2, np.int64)
    loom.launch(sizes, 1, [np.broadcast_to(np.uint8(7), (65536, 32767)), out])
    assert out.tolist() == [65536 * 32767] * 2


def test_widths_of_printf_have_a_limit():
    with pytest.raises(loom.CompileError, match=r"`%2000d` asks for more than 1024 characters"):

        @loom.kernel
        def wide(n: int):
            loom.printf("%2000d\n", n)

    with pytest.raises(loom.CompileError, match=r"`%\.9999999999f` asks for more than 1024 characters"):

        @loom.kernel
        def precise(x: float):
            loom.printf("%.9999999999f\n", x)


@loom.kernel
def draw(low: int, high: int, o: loom.array(dtype=int)):
    state = loom.rand_init(7, loom.tid())
    o[loom.tid()] = loom.randi(state, low, high)


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_an_empty_range_of_random_integers_gives_its_lower_end(device):
    for low, high in [(5, 5), (5, 4), (0, -(2**31)), (2**31 - 1, -(2**31))]:
        out = loom.zeros(64, dtype=int, device=device)
        loom.launch(draw, 64, [low, high, out], device=device)
        assert set(out.numpy()) == {low}
    out = loom.zeros(64, dtype=int, device=device)
    loom.launch(draw, 64, [-(2**31), 2**31 - 1, out], device=device)
    assert len(set(out.numpy())) > 60


@loom.kernel
def walk(
    start: loom.uint64, end: loom.uint64, step: loom.uint64, x: loom.array(dtype=float), o: loom.array(dtype=float)
):
    total = x[0] * 0.0
    for i in range(start, end, step):
        total = total * 0.5 + x[0] * float(i % loom.uint64(7))
    o[0] = total


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (0, BIG + 5, BIG),
        (0, 2 * BIG - 1, BIG),
        (1, 2 * BIG - 1, BIG + 1),
        (BIG - 1, BIG + 3, 1),
        (BIG, BIG + 9, 2),
        (BIG + 9, BIG, 2),
        (0, 5, 2 * BIG - 1),
        (2 * BIG - 4, 2 * BIG - 1, 1),
        (3, 3, BIG),
    ],
)
def test_reverse_mode_of_loops_over_uint64(start, end, step):
    x = loom.array([1.5], dtype=float, requires_grad=True)
    o = loom.zeros(1, dtype=float, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(walk, 1, [start, end, step, x, o])
    tape.backward(grads={o: loom.ones(1, dtype=float)})
    wanted = np.float32(0)
    for i in range(start, end, step):
        wanted = wanted * np.float32(0.5) + np.float32(i % 7)
    assert x.grad.numpy()[0] == wanted
