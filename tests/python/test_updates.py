"""`a[i] op= x`: atomic, whatever part of an element it is, and plain code where threads have elements of their own."""

import numpy as np
import polyloom as loom
import pytest

N_THREADS = 400_000
LAUNCHES = 4


@loom.struct
class Cell:
    count: int
    sum: loom.vec3


@loom.struct
class Book:
    totals: loom.array(dtype=int)


@loom.kernel
def elements(h: loom.array(dtype=int), m: loom.array(dtype=loom.uint32), x: loom.array(dtype=float)):
    i = loom.tid()
    h[i % 4] += 1
    h[4 + i % 4] -= 2
    m[0] |= loom.uint32(1) << loom.uint32(i % 32)
    m[1] ^= loom.uint32(i)
    m[2] &= loom.uint32(0xFFFFFFF0) | loom.uint32(i % 16)
    x[0] += 1.0


@loom.kernel
def parts(v: loom.array(dtype=loom.vec3), m: loom.array(dtype=loom.mat22), t: loom.array(dtype=loom.transform)):
    i = loom.tid()
    v[0] += loom.vec3(1.0, 2.0, 3.0)
    v[1].y -= 1.0
    v[2][i % 3] += 1.0
    v[3][0:2] += loom.vec2(1.0, 2.0)
    m[0] += loom.mat22(1.0, 0.0, 0.0, 1.0)
    m[1][i % 2] += loom.vec2(1.0, 2.0)
    m[2][1, 0] += 1.0
    t[0].p += loom.vec3(1.0, 0.0, 2.0)


@loom.kernel
def fields(cells: loom.array(dtype=Cell), book: Book, rows: loom.array(dtype=int, ndim=2)):
    i = loom.tid()
    cells[0].count += 1
    cells[0].sum += loom.vec3(1.0, 2.0, 3.0)
    cells[1].sum.z += 1.0
    book.totals[i % 2] += 1
    row = rows[1]
    row[2] += 1


def launch(kernel, *arrays):
    # The optimised code takes over on the way.
    for _ in range(LAUNCHES):
        loom.launch(kernel, N_THREADS, list(arrays))
    return N_THREADS * LAUNCHES


def test_elements_that_threads_share():
    h, m, x = np.zeros(8, np.int32), np.zeros(3, np.uint32), np.zeros(1, np.float32)
    m[2] = 0xFFFFFFFF
    n = launch(elements, h, m, x)
    assert h.tolist() == [n // 4] * 4 + [-n // 2] * 4
    assert m.tolist() == [0xFFFFFFFF, 0, 0xFFFFFFF0]
    assert x[0] == n


def test_parts_of_elements_that_threads_share():
    v = np.zeros((4, 3), np.float32)
    m, t = np.zeros((3, 2, 2), np.float32), np.zeros((1, 7), np.float32)
    n = launch(parts, v, m, t)
    third = [np.ceil((N_THREADS - k) / 3) * LAUNCHES for k in range(3)]
    assert v.tolist() == [[n, 2 * n, 3 * n], [0, -n, 0], third, [n, 2 * n, 0]]
    assert m.tolist() == [[[n, 0], [0, n]], [[n / 2, n], [n / 2, n]], [[0, 0], [n, 0]]]
    assert t[0, :3].tolist() == [n, 0, 2 * n]


def test_fields_and_rows_that_threads_share():
    cells = np.zeros(2, Cell.numpy_dtype())
    book = Book()
    book.totals = loom.zeros(2, dtype=int)
    rows = np.zeros((2, 3), np.int32)
    n = launch(fields, cells, book, rows)
    assert cells["count"].tolist() == [n, 0]
    assert cells["sum"].tolist() == [[n, 2 * n, 3 * n], [0, 0, n]]
    assert book.totals.numpy().tolist() == [n // 2] * 2
    assert rows.tolist() == [[0, 0, 0], [0, 0, n]]


@loom.kernel
def own(x: loom.array(dtype=float), h: loom.array(dtype=int, ndim=2), y: loom.array(dtype=loom.float16)):
    i = loom.tid()
    for k in range(3):
        x[i] += float(k) * 0.1
        h[i, k] -= i
    old = loom.atomic_max(h, i, 0, 1)
    h[i, 1] += old
    y[i] += loom.float16(0.1)


@loom.kernel
def own_of_two(a: loom.array(dtype=int, ndim=2)):
    i, j = loom.tid()
    a[i, j] += i * 10 + j


@loom.kernel
def shared_column(a: loom.array(dtype=int, ndim=2)):
    i, j = loom.tid()
    a[i, 0] += 1


def test_elements_of_a_threads_own():
    n = 1003
    x, h, y = np.zeros(n, np.float32), np.zeros((n, 3), np.int32), np.zeros(n, np.float16)
    expected_x, expected_y = np.zeros(n, np.float32), np.zeros(n, np.float16)
    i = np.arange(n, dtype=np.int32)
    expected_h = np.zeros((n, 3), np.int32)
    for _ in range(5):
        loom.launch(own, n, [x, h, y])
        for k in range(3):
            expected_x += np.float32(k) * np.float32(0.1)
            expected_h[:, k] -= i
        old = expected_h[:, 0].copy()
        expected_h[:, 0] = np.maximum(old, 1)
        expected_h[:, 1] += old
        expected_y += np.float16(0.1)
    assert (x == expected_x).all() and (h == expected_h).all() and (y == expected_y).all()


def test_elements_of_a_threads_own_in_two_dimensions():
    a = np.zeros((70, 33), np.int32)
    for _ in range(4):
        loom.launch(own_of_two, (70, 33), [a])
        loom.launch(shared_column, (70, 33), [a])
    expected = 4 * (np.arange(70)[:, None] * 10 + np.arange(33)[None, :])
    expected[:, 0] += 4 * 33
    assert (a == expected).all()


@pytest.mark.parametrize("shape", [(1,), (2,)])
def test_a_view_whose_elements_are_one(shape):
    one = np.zeros(shape, np.float32)
    view = np.lib.stride_tricks.as_strided(one, (100_000,), (0,))

    @loom.kernel
    def count(x: loom.array(dtype=float)):
        i = loom.tid()
        x[i] += 1.0

    for _ in range(LAUNCHES):
        loom.launch(count, 100_000, [view])
    assert one[0] == 100_000 * LAUNCHES


@loom.kernel
def beside(x: loom.array(dtype=float), y: loom.array(dtype=float), z: loom.array(dtype=float), w: loom.array2d(float)):
    i = loom.tid()
    y[2 * i + 1] += x[i]
    z[i + 3] += x[i]
    # 4 i is not told apart from the 4 i of a thread 2^30 on.
    w[4 * i, 1] -= x[i]
    w[i * 3, 0] += 2.0 * x[i]


def test_elements_at_multiples_of_the_threads_number():
    n = 10_001
    x = np.random.default_rng(1).integers(-8, 8, n).astype(np.float32)
    y, z, w = np.zeros(2 * n, np.float32), np.zeros(n + 3, np.float32), np.zeros((4 * n, 2), np.float32)
    for _ in range(LAUNCHES):
        loom.launch(beside, n, [x, y, z, w])
    np.testing.assert_array_equal(y[1::2], LAUNCHES * x)
    np.testing.assert_array_equal(z[3:], LAUNCHES * x)
    np.testing.assert_array_equal(w[::4, 1], -LAUNCHES * x)
    np.testing.assert_array_equal(w[: 3 * n : 3, 0], 2 * LAUNCHES * x)
    assert not y[::2].any() and not z[:3].any()
