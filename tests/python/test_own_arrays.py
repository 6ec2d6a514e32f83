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


@loom.func
def second_differences(a: loom.array(dtype=float)):
    total = 0.0
    for i in range(len(a) - 2):
        total += (a[i] - 2.0 * a[i + 1] + a[i + 2]) * float(i + 1)
    a[0] = 100.0
    return total


@loom.func
def squares() -> loom.fixedarray(dtype=float, shape=(2, 3)):
    a = loom.zeros(shape=(2, 3), dtype=float)
    for i in range(2):
        for j in range(3):
            a[i, j] = float((3 * i + j) * (3 * i + j))
    return a


@loom.kernel
def parts_of_own(x: loom.array2d(dtype=float), out: loom.array2d(dtype=float)):
    t = loom.tid()
    a = loom.zeros(shape=(3, 4), dtype=float)
    for i in range(3):
        for j in range(4):
            a[i, j] = x[t, 4 * i + j]
    s = a[:2, 1:]
    s[1, 0] = -1.0
    out[t, 0] = float(s.shape[0]) + 10.0 * float(s.shape[1])
    out[t, 1] = s[0, 2]
    out[t, 2] = a[1, 1]
    back = a[2, ::-1]
    out[t, 3] = back[0]
    out[t, 4] = second_differences(a[::2, 1])
    out[t, 5] = a[0, 1]
    n = int(x[t, 0])
    out[t, 6] = a[n:, 3][0]
    grid = squares()
    out[t, 7] = grid[1, 2]
    out[t, 8] = second_differences(back[1:])
    out[t, 9] = a[2, 2]


def check_parts():
    n = 300
    x = np.random.default_rng(5).normal(size=(n, 12)).astype(np.float32)
    x[:, 0] = np.arange(n) % 3
    out = np.zeros((n, 10), np.float32)
    loom.launch(parts_of_own, n, [x, out])
    f = np.float32
    for t in range(n):
        a = x[t].reshape(3, 4).copy()
        a[:2, 1:][1, 0] = -1
        back = a[2, ::-1]
        want = [32, a[0, 3], -1, back[0], 0, 100, a[int(x[t, 0]) :, 3][0], 25]
        want.append(f(f(back[1] - f(2) * back[2]) + back[3]))
        want.append(100)
        np.testing.assert_array_equal(out[t], np.array(want, np.float32))


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_slices_are_views_on_every_engine(tier, on_tier):
    on_tier(tier, "import test_own_arrays; test_own_arrays.check_parts()")


@pytest.mark.parametrize(
    ("returns", "value", "message"),
    [
        ("loom.array2d(dtype=int)", "a", "whereas it has its return type annotated as `Array[int32]`."),
        ("loom.array2d(dtype=int)", "loom.zeros(shape=(2, 3), dtype=int)", "returns a fixed-size array whereas"),
        ("loom.fixedarray(dtype=int, shape=(3, 2))", "a", "the code returns a value of type"),
        ("loom.fixedarray(dtype=int, shape=(2, 3))", "a[0, 0]", "the code returns a value of type `int32` here"),
    ],
)
def test_annotations_of_returned_arrays(define, returns, value, message):
    with pytest.raises(loom.CompileError) as raised:
        define(
            f"""
            @loom.func
            def f() -> {returns}:
                a = loom.zeros(shape=(2, 3), dtype=int)
                return {value}

            @loom.kernel
            def k():
                b = f()
            """
        )
    assert message in str(raised.value)


def test_an_array_of_the_kernels_own_has_constant_extents(define):
    message = "the `shape` argument must be specified as a constant when zero-initializing an array"
    for line in ("a = loom.zeros(shape=(i,), dtype=int)", "loom.zeros(shape=(i,), dtype=int)"):
        with pytest.raises(loom.CompileError, match=message) as raised:
            define(f"@loom.kernel\ndef k():\n    i = loom.tid()\n    {line}\n")
        assert len(raised.value.diagnostics) == 1
