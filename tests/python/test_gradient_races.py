"""Launches in which threads that a condition lets through write different numbers to one element, and ones in which
they do not: worked out by hand from the kernels' text, and in a list of all writes."""

import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import polyloom as loom
import pytest

D = loom.array(dtype=loom.float64)
f64 = loom.float64
REFUSED = "several threads write different numbers to one element of `y`"


@loom.kernel
def below(x: D, y: D, n: int):
    i = loom.tid()
    if i < n:
        y[i // 2] = x[i]


@loom.kernel
def returned(x: D, y: D, n: int):
    i = loom.tid()
    if i >= n or i < 1:
        return
    y[0] = x[i]


@loom.kernel
def within(x: D, y: D, n: int):
    i = loom.tid()
    if 2 * i + 1 < x.shape[0] and n > 3:
        if not (n - i <= 2):
            y[i >> 1] = x[i]


@loom.kernel
def descending(x: D, y: D, n: int):
    i = loom.tid()
    if n - i > 0:
        y[i % 3] = x[i]


@loom.kernel
def two_places(x: D, y: D, n: int):
    i = loom.tid()
    if i < n:
        y[i] = x[i]
    else:
        y[i - 4] = f64(2.0) * x[i]


@loom.kernel
def one_by_one(x: D, y: D, n: int):
    i = loom.tid()
    if i == n:
        y[0] = x[i]
    if i != 0 and i < 2:
        y[1] = x[i]
    if i <= 0:
        y[2] = x[i]


@loom.kernel
def except_one(x: D, y: D, n: int):
    i = loom.tid()
    if i != n:
        y[0] = x[i]


@loom.kernel
def of_others(x: D, y: D, n: int):
    i = loom.tid()
    if i % 2 == 0:
        y[i // 2] = x[i]
    if x[i] < f64(n):
        y[8] = x[i]


@loom.kernel
def looped(x: D, y: D, n: int):
    i = loom.tid()
    for _ in range(2, n):
        y[0] = x[i]


def writers(of: Callable[[int, int], list[int]], dim: int, n: int) -> bool:
    """Whether two of the threads write one element."""
    elements = [element for thread in range(dim) for element in set(of(thread, n))]
    return len(elements) != len(set(elements))


# What a thread writes. An array has nine elements.
WRITES: dict[str, Callable[[int, int], list[int]]] = {
    "below": lambda i, n: [i // 2] if i < n else [],
    "returned": lambda i, n: [0] if 1 <= i < n else [],
    "within": lambda i, n: [i >> 1] if 2 * i + 1 < 9 and n > 3 and n - i > 2 else [],
    "descending": lambda i, n: [i % 3] if n - i > 0 else [],
    "two_places": lambda i, n: [i] if i < n else [i - 4],
    "one_by_one": lambda i, n: [0] * (i == n) + [1] * (i == 1) + [2] * (i == 0),
    "looped": lambda i, n: [0] if n > 2 else [],
}
KERNELS = [below, returned, within, descending, two_places, one_by_one, looped]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_launches_are_refused_where_two_threads_write_one_element(kernel):
    n_refused = 0
    for dim in range(1, 9):
        for n in range(10):
            args = [np.arange(9.0), np.zeros(9), n]
            found = []
            for launch in (taped, pushed):
                try:
                    launch(kernel, dim, args)
                    found.append(False)
                except loom.CompileError as error:
                    assert [d.code for d in error.diagnostics] == ["PL0701"] and REFUSED in str(error)
                    found.append(True)
            assert found == [writers(WRITES[kernel.key], dim, n)] * 2, (dim, n)
            n_refused += found[0]
    assert n_refused or kernel is one_by_one


def taped(kernel, dim, args):
    with loom.Tape():
        loom.launch(kernel, dim, args)


def pushed(kernel, dim, args):
    loom.jvp(kernel, dim, args, tangents=[np.ones(9), np.zeros(9), None])


@pytest.mark.parametrize("kernel", [of_others, except_one])
def test_conditions_that_are_not_looked_at_are_left_alone(kernel):
    taped(kernel, 8, [np.arange(9.0), np.zeros(9), 4])
    pushed(kernel, 8, [np.arange(9.0), np.zeros(9), 4])
    # The ends of a launch can be left out, and what is not there.
    if kernel is except_one:
        for dim, n, races in ((2, 0, False), (2, 1, False), (3, 0, True), (3, 2, True), (2, -1, True), (1, -1, False)):
            if races:
                with pytest.raises(loom.CompileError, match=REFUSED):
                    taped(kernel, dim, [np.arange(9.0), np.zeros(9), n])
            else:
                taped(kernel, dim, [np.arange(9.0), np.zeros(9), n])


@loom.kernel
def corner(x: loom.array2d(dtype=loom.float64), y: loom.array2d(dtype=loom.float64), n: int):
    i, j = loom.tid()
    if i < n and j < y.shape[1]:
        y[i, j // 2] = x[i, j]


def test_conditions_on_other_axes_count():
    x, y = np.ones((4, 4)), np.zeros((4, 1))
    for n, width, refused in ((4, 1, False), (4, 2, True), (0, 2, False)):
        y = np.zeros((4, width))
        with loom.Tape():
            if refused:
                with pytest.raises(loom.CompileError, match=REFUSED):
                    loom.launch(corner, (4, 4), [x, y, n])
            else:
                loom.launch(corner, (4, 4), [x, y, n])


@loom.kernel
def wrapping(x: D, y: D, n: int):
    i = loom.tid()
    if i + n > 0:
        y[0] = x[i]


def test_sums_that_overflow_are_left_alone():
    """2^31 - 1 and 1 are negative: only the first thread stores."""
    taped(wrapping, 3, [np.arange(9.0), np.zeros(9), 2**31 - 1])
    with pytest.raises(loom.CompileError, match=REFUSED):
        taped(wrapping, 3, [np.arange(9.0), np.zeros(9), 2**31 - 3])


@loom.kernel
def product(x: D, y: D):
    y[0] *= x[loom.tid()]


@loom.kernel
def remainders(x: D, y: D):
    i = loom.tid()
    y[i % 2] = x[i]


def test_code_that_is_written_out_for_any_launch_comes_with_a_warning(tmp_path):
    for text in (product.hir, product.cuda, product.cpp, product.ptx):
        with pytest.warns(UserWarning, match="several threads write different numbers to one element of `y`") as found:
            text(backward=True)
        assert "PL0701" in str(found[0].message) and "atomic_add" in str(found[0].message)
        assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        product.cuda()
        # Launches of two threads are right.
        remainders.cuda(backward=True)
        below.cuda(backward=True)
    file = tmp_path / "product.py"
    file.write_text(
        "import polyloom as loom\n\n\n@loom.kernel\ndef k(x: loom.array(dtype=float), y: loom.array(dtype=float)):\n"
        "    i = loom.tid()\n    y[i // 4] = x[i]\n"
    )
    command = [sys.executable, "-m", "polyloom", "compile", str(file), "--emit", "cuda", "--direction"]
    done = subprocess.run([*command, "both"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr.startswith("warning[PL0701]: several threads write different numbers to one element of `y`")
    assert subprocess.run([*command, "forward"], capture_output=True, text=True, check=True).stderr == ""


@loom.kernel
def next_one(x: D, y: D, z: D, n: int):
    i = loom.tid()
    y[i] = x[i]
    z[i] = y[i + 1]


@loom.kernel
def of_the_first(x: D, y: D, z: D, n: int):
    i = loom.tid()
    if i < n:
        y[i] = x[i]
    if i >= n:
        z[i] = y[i - n]


@loom.kernel
def turned(x: D, y: D, z: D, n: int):
    i = loom.tid()
    y[i] = x[i]
    z[i] = y[n + 8 - i]


@loom.kernel
def spread(x: D, y: D, z: D, n: int):
    i = loom.tid()
    if i == 0:
        y[0] = x[0]
    z[i] = y[0]


@loom.kernel
def strided(x: D, y: D, z: D, n: int):
    i = loom.tid()
    z[i] = y[2 * i + n]
    y[2 * i] = x[i]


@loom.kernel
def interleaved(x: D, y: D, z: D, n: int):
    i = loom.tid()
    y[2 * i] = x[i]
    z[i] = y[2 * i + 1] * y[2 * i]


@loom.kernel
def multiples(x: D, y: D, z: D, n: int):
    i = loom.tid()
    y[3 * i] = x[i]
    z[i] = y[2 * i + n]


@loom.kernel
def read_by_one(x: D, y: D, z: D, n: int):
    i = loom.tid()
    y[i] = x[i]
    if i == n:
        z[i] = y[2]


# What a thread writes, and what it reads.
READS: dict[str, tuple[Callable[[int, int], list[int]], Callable[[int, int], list[int]]]] = {
    "next_one": (lambda i, n: [i], lambda i, n: [i + 1]),
    "of_the_first": (lambda i, n: [i] * (i < n), lambda i, n: [i - n] * (i >= n)),
    "turned": (lambda i, n: [i], lambda i, n: [n + 8 - i]),
    "spread": (lambda i, n: [0] * (i == 0), lambda i, n: [0]),
    "strided": (lambda i, n: [2 * i], lambda i, n: [2 * i + n]),
    "interleaved": (lambda i, n: [2 * i], lambda i, n: [2 * i, 2 * i + 1]),
    "multiples": (lambda i, n: [3 * i], lambda i, n: [2 * i + n]),
    "read_by_one": (lambda i, n: [i], lambda i, n: [2] * (i == n)),
}
READING = [next_one, of_the_first, turned, spread, strided, interleaved, multiples, read_by_one]


@pytest.mark.parametrize("kernel", READING, ids=lambda kernel: kernel.key)
def test_launches_are_refused_where_one_thread_reads_what_another_writes(kernel):
    writes, reads = READS[kernel.key]
    n_refused = 0
    for dim in range(1, 9):
        for n in range(10):
            args = [np.arange(9.0), np.zeros(32), np.zeros(9), n]
            tangents = [np.ones(9), np.zeros(32), np.zeros(9), None]
            found = []
            for launch in (taped, lambda *args, tangents=tangents: loom.jvp(*args, tangents=tangents)):
                try:
                    launch(kernel, dim, args)
                    found.append(False)
                except loom.CompileError as error:
                    assert "a thread reads an element of `y` that another one writes" in str(error)
                    found.append(True)
            pairs = [(i, j) for i in range(dim) for j in range(dim) if i != j]
            races = any(set(writes(i, n)) & set(reads(j, n)) for i, j in pairs)
            assert found == [races] * 2, (dim, n)
            n_refused += races
    assert n_refused or kernel is interleaved


@loom.kernel
def transposed(y: loom.array2d(dtype=loom.float64)):
    i, j = loom.tid()
    if i < j:
        y[i, j] = y[j, i] * y[i, j]


@loom.kernel
def diagonal(y: loom.array2d(dtype=loom.float64)):
    i, j = loom.tid()
    if i > 0:
        y[i, j] = y[i - 1, j] * y[i, j]


@loom.kernel
def columns(y: loom.array2d(dtype=loom.float64)):
    """A thread has a row to itself."""
    i = loom.tid()
    for j in range(1, y.shape[1]):
        y[i, j] = y[i, j - 1] * y[i, j]


@loom.kernel
def stencil(x: D, y: D):
    i = loom.tid()
    if i > 0 and i + 1 < x.shape[0]:
        y[i] = x[i - 1] * x[i + 1] * y[i]


@loom.kernel
def unguarded(x: D):
    i = loom.tid()
    x[i] = x[i - 1] * x[i]


@loom.kernel
def in_components(x: loom.array(dtype=loom.vec2d)):
    i = loom.tid()
    x[i][0] = x[i + 1][0]


@loom.kernel
def in_other_components(x: loom.array(dtype=loom.vec2d)):
    i = loom.tid()
    x[i][0] = x[i + 1][1]


def test_reads_along_other_axes_and_of_other_arrays():
    y = np.ones((4, 4))
    for kernel, dim, args, refused in (
        # Conditions between two coordinates are not looked at.
        (transposed, (4, 4), [y], False),
        (diagonal, (4, 4), [y], True),
        (diagonal, (2, 4), [y], False),
        (columns, 4, [y], False),
        (stencil, 9, [np.ones(9), np.ones(9)], False),
        (unguarded, 2, [np.ones(9)], True),
        (unguarded, 1, [np.ones(9)], False),
        (in_components, 2, [np.ones((9, 2))], True),
        (in_other_components, 2, [np.ones((9, 2))], False),
    ):
        if refused:
            with pytest.raises(loom.CompileError, match="that another one writes"):
                taped(kernel, dim, args)
        else:
            taped(kernel, dim, args)


def test_code_that_reads_what_others_write_comes_with_a_warning():
    with pytest.warns(UserWarning, match="that another one writes"):
        next_one.hir(backward=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        of_the_first.hir(backward=True)
        interleaved.hir(backward=True)


WHOLE = loom.array(dtype=int)
D2 = loom.array(dtype=loom.float64, ndim=2)
WRITES_ONE = "several threads write different numbers to one element"
UPDATES = "a thread writes an element of `y` that another one updates atomically"
READ_TOO = "a thread reads an element of `{}` that another one writes"


@loom.kernel
def zeroed_by_one(x: D, y: D):
    i = loom.tid()
    if i == 0:
        y[0] = f64(0.0)
    loom.atomic_add(y, 0, x[i] * x[i])


@loom.kernel
def added_then_stored(x: D, y: D):
    i = loom.tid()
    loom.atomic_add(y, 0, x[i] * x[i])
    if i == 3:
        y[0] = x[0]


@loom.kernel
def stored_and_added_beside(x: D, y: D):
    i = loom.tid()
    y[i] = x[i]
    y[i + 1] += x[i] * x[i]


@loom.kernel
def constant_beside(x: D, y: D):
    i = loom.tid()
    y[i] = x[i]
    if i < 3:
        y[i + 1] = f64(1.0)


@loom.kernel
def boundary(x: D, y: D):
    i = loom.tid()
    y[i] = x[i]
    y[0] = f64(1.0)


@loom.kernel
def counted(x: D, y: D, n: WHOLE):
    i = loom.tid()
    y[i] = x[i] * f64(n[0])
    n[0] = n[0] + 1


@loom.kernel
def summed_by_the_last(x: D, y: D):
    i = loom.tid()
    y[i] = x[i] * x[i]
    if i == 3:
        s = f64(0.0)
        for k in range(4):
            s += y[k]
        y[3] = s


@loom.kernel
def summed_in_place(x: D, y: D):
    i = loom.tid()
    s = f64(0.0)
    for k in range(y.shape[0] - 4):
        s += y[k + i]
    y[i] = s + x[i]


@loom.kernel
def window(x: D, y: D):
    i = loom.tid()
    for k in range(2):
        y[i + k] = x[i]


@loom.kernel
def window_of_one_number(x: D, y: D):
    i = loom.tid()
    for k in range(2):
        y[i + k] = x[k]


@loom.kernel
def in_a_while_loop(x: D, y: D):
    i = loom.tid()
    k = loom.int32(0)
    while k < 2:
        y[0] = x[i]
        k += 1


@loom.kernel
def two_strides(x: D, y: D):
    i = loom.tid()
    y[2 * i] = x[i]
    y[i + 1] = x[i] * x[i]


@loom.kernel
def antidiagonals(x: D2, y: D):
    i, j = loom.tid()
    y[i + j] = x[i, j]


@loom.kernel
def wrong_stride(x: D2, y: D):
    i, j = loom.tid()
    y[i * 2 + j] = x[i, j]


RACING = [
    (zeroed_by_one, 4, UPDATES),
    (added_then_stored, 4, UPDATES),
    (stored_and_added_beside, 4, UPDATES),
    (constant_beside, 4, WRITES_ONE),
    (boundary, 4, WRITES_ONE),
    (counted, 4, READ_TOO.format("n")),
    (summed_by_the_last, 4, READ_TOO.format("y")),
    (summed_in_place, 4, READ_TOO.format("y")),
    (window, 4, WRITES_ONE),
    (window_of_one_number, 4, WRITES_ONE),
    (in_a_while_loop, 4, WRITES_ONE),
    (two_strides, 4, WRITES_ONE),
    (antidiagonals, (2, 2), WRITES_ONE),
    (wrong_stride, (2, 3), WRITES_ONE),
]


def given(kernel, dim):
    # It reads two elements however many threads there are.
    arrays = [np.ones(2 if kernel is window_of_one_number and dim == (1,) else dim), np.zeros(9)]
    return [*arrays, np.zeros(1, np.int32)] if kernel is counted else arrays


@pytest.mark.parametrize(("kernel", "dim", "message"), RACING, ids=lambda value: getattr(value, "key", None))
def test_races_of_loops_updates_and_constants(kernel, dim, message):
    args = given(kernel, dim)
    with pytest.raises(loom.CompileError, match=message):
        taped(kernel, dim, args)
    tangents = [np.ones_like(arg) if arg.dtype.kind == "f" else None for arg in args]
    with pytest.raises(loom.CompileError, match=message):
        loom.jvp(kernel, dim, args, tangents=tangents)
    # One thread has nobody to race with.
    alone = (1,) * np.ndim(args[0])
    taped(kernel, alone, given(kernel, alone))


@loom.kernel
def blocks_of_four(x: D, y: D):
    i = loom.tid()
    for k in range(4):
        y[4 * i + k] = x[i]
        y[4 * i + k] += x[i] * y[4 * i + 3 - k]


@loom.kernel
def one_number(x: D, y: D, n: int, a: f64):
    i = loom.tid()
    for k in range(n):
        y[i + k] = a
        y[k] = a


@loom.kernel
def row_major(x: D2, y: D):
    i, j = loom.tid()
    y[i * 3 + j] = x[i, j]


@loom.kernel
def apart(x: D, y: D, n: int):
    i = loom.tid()
    y[i] = x[i]
    loom.atomic_add(y, n, x[i])
    y[i + n + 1] = f64(0.0)


def test_what_does_not_race_is_not_refused():
    taped(blocks_of_four, 4, [np.ones(4), np.zeros(16)])
    taped(one_number, 4, [np.ones(4), np.zeros(9), 3, 2.0])
    taped(row_major, (2, 3), [np.ones((2, 3)), np.zeros(6)])
    taped(apart, 4, [np.ones(4), np.zeros(9), 4])
    with pytest.raises(loom.CompileError, match=UPDATES):
        taped(apart, 4, [np.ones(4), np.zeros(9), 3])
