"""Arrays of a kernel's own and parts of arrays, on every engine, over many threads."""

import numpy as np
import polyloom as loom
import pytest

N = 5


@loom.func
def insert(a: loom.array(dtype=float), n: int, x: float):
    k = n
    while k > 0:
        if a[k - 1] <= x:
            break
        a[k] = a[k - 1]
        k -= 1
    a[k] = x


@loom.kernel
def sort_rows(x: loom.array2d(dtype=float), out: loom.array2d(dtype=float)):
    i = loom.tid()
    row = x[i]
    a = loom.zeros(N, dtype=float)
    for j in range(N):
        insert(a, j, row[j])
    for j in range(N):
        out[i, j] = a[j]


@loom.func
def rotate(p: loom.array(dtype=loom.vec2), angle: float):
    for j in range(len(p)):
        c = loom.cos(angle)
        s = loom.sin(angle)
        p[j] = loom.vec2(c * p[j].x - s * p[j].y, s * p[j].x + c * p[j].y)


@loom.kernel
def rotate_rows(p: loom.array2d(dtype=loom.vec2), angle: loom.array(dtype=float)):
    i = loom.tid()
    if i % 3 != 1:
        rotate(p[i], angle[i])


@loom.kernel
def histogram(x: loom.array2d(dtype=int), out: loom.array2d(dtype=int)):
    i = loom.tid()
    bins = loom.zeros(shape=(2, 4), dtype=int)
    for j in range(x.shape[1]):
        if x[i, j] < 0:
            continue
        bins[j % 2, x[i, j]] += 1
    for j in range(4):
        out[i, j] = bins[0, j] - bins[1][j]


def check():
    random = np.random.default_rng(3)
    n = 777
    x = random.normal(size=(n, N)).astype(np.float32)
    out = np.zeros_like(x)
    loom.launch(sort_rows, n, [x, out])
    np.testing.assert_array_equal(out, np.sort(x, axis=1))

    p = random.normal(size=(n, 3, 2)).astype(np.float32)
    angle = random.uniform(0, 6, n).astype(np.float32)
    want = p.copy()
    for i in range(n):
        if i % 3 != 1:
            c, s = np.cos(angle[i]), np.sin(angle[i])
            want[i] = p[i] @ np.array([[c, s], [-s, c]])
    loom.launch(rotate_rows, n, [p, angle])
    np.testing.assert_allclose(p, want, rtol=1e-5, atol=1e-6)

    x = random.integers(-1, 4, (n, 9)).astype(np.int32)
    counts = np.zeros((n, 4), np.int32)
    loom.launch(histogram, n, [x, counts])
    values = np.arange(4)
    even, odd = ((x[:, first::2, None] == values).sum(axis=1) for first in (0, 1))
    np.testing.assert_array_equal(counts, even - odd)


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_every_engine(tier, on_tier):
    on_tier(tier, "import test_own_arrays; test_own_arrays.check()")
