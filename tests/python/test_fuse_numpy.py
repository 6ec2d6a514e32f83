"""Functions in NumPy's spelling, with `fuse(numpy=True)`: the results of NumPy, from kernels."""

import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest
from fused_functions import n_runs, texts

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_fuse.py"
RNG = np.random.default_rng(5)
X, Y = RNG.uniform(0.5, 2.0, (5, 6)), RNG.uniform(0.5, 2.0, (5, 6))
ROW = RNG.uniform(0.5, 2.0, 6)


def black_scholes(spot, strike, time, rate, volatility):
    root = volatility * np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * time) / root
    d2 = d1 - root
    return spot * (1 + np.tanh(0.8 * d1)) / 2 - strike * np.exp(-rate * time) * (1 + np.tanh(0.8 * d2)) / 2


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x, weight, bias, epsilon=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    variance = np.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * weight + bias


def standardised(x):
    return (x - np.mean(x, axis=0)) / np.std(x, axis=0)


def distances(x, y):
    return np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2))


def laplace(x):
    return x[1:-1, 1:-1] * -4 + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]


def developed(image, gain):
    lifted = np.clip(image * gain, 0.0, 1.0) ** 0.5
    grey = lifted.mean(axis=-1, keepdims=True)
    return np.where(grey > 0.5, lifted, grey)


def masked(x, limit):
    return np.where((x > limit) & (x < 2 * limit) | np.isnan(x), 0.0, x)


def whole_numbers(i, j):
    return (i // 3 + j % 5) * 2 - np.abs(i - j)


def logic(p, q):
    return (p & ~q) | (q ^ p)


def total(x, y):
    return ((x - y) ** 2).sum()


def covariance(x):
    centred = x - x.mean(axis=0)
    return centred.T @ centred / (x.shape[0] - 1)


FIRST, SECOND = RNG.integers(0, 50, (4, 3)), RNG.integers(0, 50, 3)
CASES = [
    (black_scholes, (X, Y, ROW, 0.02, 0.3)),
    (softmax, (X,)),
    (layer_norm, (X, ROW, ROW)),
    (standardised, (X,)),
    (distances, (X, Y)),
    (laplace, (X,)),
    (developed, (X, 0.7)),
    (masked, (X, 0.8)),
    (whole_numbers, (FIRST, SECOND)),
    (logic, (X > 1, Y > 1)),
    (total, (X, Y)),
    (covariance, (X,)),
]


def is_same(a, b, limit=1e-12):
    """True if two results are of one class and type, with values that differ by rounding."""
    if isinstance(a, tuple):
        return type(b) is tuple and len(a) == len(b) and all(is_same(x, y, limit) for x, y in zip(a, b, strict=True))
    if type(a) is not type(b):
        return False
    if not isinstance(a, (np.ndarray, np.generic)):
        return a == b or a != a and b != b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    is_float = a.dtype.kind == "f"
    return np.allclose(a, b, rtol=limit, atol=limit, equal_nan=True) if is_float else np.array_equal(a, b)


def fused(text, **names):
    return loom.fuse(texts.loaded(text, {"np": np, **names})["f"], numpy=True)


def body(expression, parameters="a, b"):
    return f"def f({parameters}):\n    return {expression}\n"


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=lambda each: getattr(each, "__name__", None))
def test_functions_of_numpy_give_what_they_gave_in_one_kernel(function, arguments):
    f = loom.fuse(function, numpy=True)
    for _ in range(2):
        assert is_same(function(*arguments), f(*arguments))
    assert len(f.groups) == 1, f.explain()
    assert n_runs(f) == 2, f.explain()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("expression", [
    "np.sqrt(a * b) + a", "(a + b).sum()", "(a + b).mean(axis=0)", "(a * b).max(axis=1)", "a / b + 1", "(a + 2) * 1.5",
    "(a + b) * np.float64(2)", "np.where(a > b, a, 2) + b", "(a * b).astype(np.float32) + 1", "(a + b).prod()",
    "abs(a) + b", "np.square(a) + a ** 2", "(a < b) | (a == b)", "np.exp(a) + np.int8(1)", "(a + b).argmax(axis=0) * 2",
    "np.floor(a + b) + a", "np.cumsum(a + b, axis=0) + 1", "(a + b).std() * 2", "np.clip(a + b, 1, 3) + 1",
    "(a + b)[1:, ::-1] * 2", "np.any(a > b, axis=1) | (a > b).all()", "np.hypot(a, b) + a", "np.maximum(a, 1) + b",
    "np.mean(a) + np.sum(b)", "a[0] + b[-1] * 2", "a[None, 0, 1:] * b[:, None, 1:] + 1", "a.T + b.T", "-(a + b)",
])  # fmt: skip
def test_types_and_classes_of_results_are_those_of_numpy(expression, dtype):
    a, b = (np.array([[1, 2, 3], [3, 1, 1]]).astype(dtype), np.array([[2, 2, 1], [1, 3, 2]]).astype(dtype))
    text = body(expression)
    plain = texts.loaded(text, {"np": np})["f"]
    f = fused(text)
    try:
        wanted = plain(a, b)
    except TypeError as error:
        with pytest.raises(TypeError, match=str(error)[:20]):
            f(a, b)
        return
    limit = {2: 2e-2, 4: 2e-6}.get(wanted.dtype.itemsize, 1e-12)
    for _ in range(2):
        assert is_same(wanted, f(a, b), limit), (wanted, f(a, b))


@pytest.mark.parametrize(("expression", "arguments"), [
    ("a + 300 - b", (np.array([1], np.uint8), np.array([1], np.uint8))),
    ("a ** b + 1", (np.array([2, 3]), np.array([-1, 2]))),
    ("(a + b) @ a", (np.ones((2, 3)), np.ones((2, 3)))),
    ("(a + b).max(axis=1)", (np.ones((2, 0)), np.ones((2, 0)))),
    ("np.exp(a) - ~b", (np.array([True]), np.array([1.5]))),
    ("a - b + 1", (np.array([True]), np.array([False]))),
    ("(a + b)[5] * 2", (np.ones(3), np.ones(3))),
    ("(a + b).reshape(7, 7) * 2", (np.ones(3), np.ones(3))),
])  # fmt: skip
def test_errors_are_those_of_numpy_at_their_line(expression, arguments):
    text = f"def f(a, b):\n    x = 1\n    return {expression}\n"
    seen = []
    for function in (texts.loaded(text, {"np": np})["f"], fused(text)):
        with pytest.raises(Exception) as raised:  # noqa: PT011
            function(*arguments)
        lines = [line for _, line in traceback.walk_tb(raised.value.__traceback__)]
        seen.append((type(raised.value), str(raised.value), lines[-1]))
    assert seen[0] == seen[1]


def test_drawings_name_calls_as_they_are_written():
    f = fused("def f(a):\n    return np.exp(a.T + 1.0)\n")
    f(np.ones((2, 3), np.float32))
    svg = f.graph()
    assert all(f">{name}</text>" in svg for name in (".T", "+", "np.exp")) and "ops." not in svg


def test_a_number_is_an_input_of_the_group():
    f = fused("def f(a, n):\n    k = n * 2\n    return np.exp(a) * k\n")
    for n in (3, 2.5, np.float32(2), 7):
        assert is_same(np.exp(X) * (n * 2), f(X, n))
    assert n_runs(f) == 4
    assert f.cache_info().misses == 1


def test_a_parameter_that_comes_to_be_a_number_is_analysed_again_once():
    f = fused(body("np.exp(a * 2) + b * 3"))
    for _ in range(3):
        assert is_same(np.exp(X * 2) + Y * 3, f(X, Y))
        assert is_same(np.exp(X * 2) + 6, f(X, 2))
    assert f.cache_info().misses == 2
    assert n_runs(f) >= 4


def test_numbers_alone_give_numbers():
    f = fused(body("np.exp(a) + b"))
    assert is_same(np.exp(1.5) + 2, f(1.5, 2))
    assert is_same(np.exp(X) + 2, f(X, 2))


def test_arrays_without_axes_give_numbers():
    f = fused(body("np.exp(a) + b * 2"))
    a, b = np.array(1.5), np.array(2, np.float32)
    assert type(f(a, b)) is np.float64
    assert is_same(np.exp(a) + b * 2, f(a, b))


def test_empty_arrays_and_nan():
    f = fused(body("np.maximum(a * 2, b).sum(axis=0)"))
    nan = np.array([[np.nan, 1.0, -0.0], [2.0, np.inf, 0.0]])
    for a in (np.ones((0, 3)), nan):
        assert is_same(np.maximum(a * 2, 1.0).sum(axis=0), f(a, 1.0))
    assert n_runs(f) == 2


def test_stores_and_operators_in_place_are_seen():
    text = """
def f(a, b):
    x = a + b
    a[0] = 100.0
    y = a * 2 + x
    y += b
    z = np.exp(y * 0.01) + y
    y[:] = 0
    return x, y, z, a
"""
    plain, f = texts.loaded(text, {"np": np})["f"], fused(text)
    assert is_same(plain(X.copy(), Y), f(X.copy(), Y))
    assert n_runs(f) == 2


def test_views_that_are_used_stay_views():
    text = """
def f(a, b):
    v = a[1:]
    w = v * 2 + b[1:]
    t = a.T
    r = a.reshape(-1)
    return v, t, r, w
"""
    f = fused(text)
    a = X.copy()
    v, t, r, w = f(a, Y)
    assert v.base is a
    assert t.base is a
    assert np.shares_memory(r, a)
    assert is_same(a[1:] * 2 + Y[1:], w)
    assert n_runs(f) == 1


def test_a_view_that_is_written_writes_its_array():
    text = "def f(a, b):\n    v = a[1:]\n    v[...] = 0\n    return np.exp(a) + b\n"
    a, b = X.copy(), X.copy()
    assert is_same(texts.loaded(text, {"np": np})["f"](a, Y), fused(text)(b, Y))
    assert np.array_equal(a, b)


def test_subclasses_and_arrays_of_objects_run_as_written():
    f = fused(body("np.exp(a * 1.0) + b"))
    for a in (np.matrix(X), np.ma.masked_greater(X, 1.0), np.array([1, 2], object)):
        plain = texts.loaded(body("np.exp(a * 1.0) + b"), {"np": np})["f"]
        try:
            wanted = plain(a, 1.0)
        except (TypeError, AttributeError) as error:
            with pytest.raises(type(error)):
                f(a, 1.0)
            continue
        found = f(a, 1.0)
        assert type(found) is type(wanted)
        assert np.array_equal(found, wanted)
    assert n_runs(f) == 0


def test_a_class_with_operators_of_its_own_runs_as_written():
    class Odd:
        __array_ufunc__ = None

        def __radd__(self, other):
            return "odd"

    f = fused(body("np.exp(a) + b"))
    f(X, Y)
    assert f(X, Odd()) == "odd"


def test_errors_that_numpy_is_told_to_raise_are_raised():
    f = fused(body("np.exp(a) / b"))
    zero = np.zeros((5, 6))
    assert np.isinf(f(X, zero)).all()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        f(X, zero)
    seen = []
    with np.errstate(divide="call", call=lambda *each: seen.append(each)):
        f(X, zero)
    assert len(seen) == 1
    before = n_runs(f)
    assert np.isinf(f(X, zero)).all()
    assert n_runs(f) == before + 1


def test_code_that_changes_how_errors_are_treated_keeps_calls_apart():
    text = "def f(a, b):\n    x = np.exp(a)\n    change()\n    return x / b\n"
    f = fused(text, change=lambda: np.seterr(divide="raise"))
    for _ in range(2):
        with np.errstate(), pytest.raises(FloatingPointError):
            f(X, np.zeros((5, 6)))


def test_a_function_of_numpy_that_is_replaced_is_called(monkeypatch):
    f = fused(body("np.exp(a) + b"))
    f(X, Y)
    monkeypatch.setattr(np, "exp", lambda x: x * 0)
    assert np.array_equal(f(X, Y), Y)
    monkeypatch.undo()
    assert is_same(np.exp(X) + Y, f(X, Y))


def test_aliases_of_functions_are_followed():
    f = fused(body("e(a) + lib.tanh(b) * np.pi"), e=np.exp, lib=np)
    assert is_same(np.exp(X) + np.tanh(Y) * np.pi, f(X, Y))
    assert n_runs(f) == 1


def test_globals_are_read_at_each_call():
    namespace = texts.loaded(body("np.exp(a) * G + b"), {"np": np, "G": ROW})
    f = loom.fuse(namespace["f"], numpy=True)
    for value in (ROW, ROW * 2, 3.0, ROW):
        namespace["G"] = value
        assert is_same(np.exp(X) * value + Y, f(X, Y))
    assert f.cache_info().misses == 2
    assert n_runs(f) >= 1


def test_helpers_fuse():
    text = "def g(x, k):\n    y = x * k\n    return np.exp(y) + 1\ndef f(a, b):\n    return g(a, 0.5) - b\n"
    f = fused(text)
    assert is_same(np.exp(X * 0.5) + 1 - Y, f(X, Y))
    assert n_runs(f) == 1


def test_loops_and_branches():
    text = """
def f(a, b, n):
    total = np.zeros_like(a)
    for i in range(n):
        total = total + np.exp(a * i) * b
    if n > 2:
        return np.sqrt(total) + a
    return total
"""
    plain, f = texts.loaded(text, {"np": np})["f"], fused(text)
    for n in (1, 4):
        assert is_same(plain(X, Y, n), f(X, Y, n))
    assert n_runs(f) >= 5


def test_arguments_without_an_op_stay_python():
    text = """
def f(a, b):
    out = np.empty_like(a)
    np.exp(a, out=out)
    x = np.add(a, b, where=a > 1, out=np.zeros_like(a))
    y = np.sum(a, axis=0, dtype=np.float32)
    return out, x, y, np.add(a, b, casting="same_kind")
"""
    plain, f = texts.loaded(text, {"np": np})["f"], fused(text)
    assert is_same(plain(X, Y), f(X, Y))


def test_the_order_of_evaluation_is_kept():
    text = "def f(a, b):\n    return np.exp(g(a)) + g(b) * (np.sin(g(a)) - g(b))\n"
    seen = []

    def g(x):
        seen.append(x is X)
        return x

    plain = texts.loaded(text, {"np": np, "g": g})["f"](X, Y)
    order, seen[:] = list(seen), []
    assert is_same(plain, fused(text, g=g)(X, Y))
    assert seen == order


def test_without_numpy_nothing_of_it_fuses():
    f = loom.fuse(texts.loaded(body("np.exp(a) + b"), {"np": np})["f"])
    assert is_same(np.exp(X) + Y, f(X, Y))
    assert len(f.groups) == 0


def test_explain_has_the_spelling_of_the_program():
    text = "def f(a, b):\n    x = np.exp(a) + b\n    x[0] = 1\n    return (x * 2).sum(axis=0)\n"
    f = fused(text)
    f(X, Y)
    explained = f.explain()
    assert "np.exp (line 2), + (line 2)" in explained
    assert "* (line 4), .sum (line 4)" in explained
    assert "`x[0]` writes the result of `+` before `*` reads it" in explained
    assert "^^^^" in explained


def test_a_strict_function_is_one_kernel():
    f = loom.fuse(texts.loaded(body("np.exp(a) + b"), {"np": np})["f"], numpy=True, strict=True)
    assert is_same(np.exp(X) + Y, f(X, Y))
    g = loom.fuse(
        texts.loaded("def f(a, b):\n    x = a + b\n    x += 1\n    return x * b\n", {"np": np})["f"],
        numpy=True,
        strict=True,
    )
    with pytest.raises(loom.CompileError):
        g(X, Y)


def test_random_programs_of_numpy():
    command = [sys.executable, str(SCRIPT), "--numpy", "--programs", "150", "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("150 programs, 0 with a difference"), done.stdout


def test_a_group_that_is_given_up_on_the_way_has_the_results_so_far():
    text = "def f(a, s):\n    t = np.std(a, axis=(0, 1))\n    u = t**0.5 + t.min(axis=-1)\n    return (a * u) - s()\n"
    plain, f = texts.loaded(text, {"np": np})["f"], fused(text)
    assert is_same(plain(X, lambda: 2.0), f(X, lambda: 2.0))


def test_a_list_of_axes_is_the_error_of_numpy():
    f = fused("def f(a, b):\n    return (a + b).sum(axis=[0, 1])\n")
    with pytest.raises(TypeError):
        f(X, Y)


def test_a_first_call_without_arrays_tells_nothing():
    @loom.fuse(numpy=True)
    def f(x):
        y = np.exp(x)
        return (y + 1) * 2

    assert f(2.0) == (np.exp(2.0) + 1) * 2 and f([0.0]).tolist() == [4.0]
    x = np.linspace(0, 1, 5)
    np.testing.assert_allclose(f(x), (np.exp(x) + 1) * 2, rtol=1e-15)
    assert sum(group.native.n_runs for group in f.groups) == 1


def test_explain_names_what_stays_python():
    @loom.fuse(numpy=True)
    def f(x, n):
        y = np.cumsum(np.exp(x))
        z = np.dot(x, x)
        return y, z, np.dot(n, 2), x.reshape(-1)

    f(np.ones((2, 2)), 3)
    lines = [line for line in f.explain().splitlines() if "stays Python" in line]
    assert lines == [
        f"  np.cumsum (line {f.__code__.co_firstlineno + 2}) stays Python, because of its arguments",
        f"  np.dot (line {f.__code__.co_firstlineno + 3}) stays Python, because it is none of what is captured",
    ]


def test_asarray_says_that_a_value_is_an_array():
    @loom.fuse(numpy=True)
    def of_entry(entries):
        x = np.asarray(entries["x"])
        return np.exp(x) * 2.0 + 1.0

    @loom.fuse(numpy=True)
    def of_list(rows):
        x = np.array([*rows], dtype=np.float64)
        return np.sqrt(x * x + 1.0)

    @loom.fuse(numpy=True)
    def written(entries):
        x = np.asarray(entries["x"])
        y = np.exp(x)
        entries["x"][0] = 0.0
        return y * x

    for f, argument in ((of_entry, {"x": X}), (of_entry, {"x": [1.0, 2.0]}), (of_list, {"a": 1.0, "b": 2.0}.values())):
        np.testing.assert_allclose(f(argument), f.__wrapped__(argument), rtol=1e-15)
    for made, number in ((of_entry, 2), (of_list, 1)):
        assert [len(group.calls) for group in made.groups] == [3] and n_runs(made) == number
    ours, theirs = written({"x": X.copy()}), written.__wrapped__({"x": X.copy()})
    assert np.array_equal(ours, theirs) and len(written.groups) != 1


def test_explain_says_that_nothing_makes_an_argument_an_array():
    @loom.fuse(numpy=True)
    def f(entries):
        return np.exp(entries["x"]) * 2.0

    f({"x": X})
    line = f.__wrapped__.__code__.co_firstlineno + 2
    assert f"  np.exp (line {line}) stays Python, because nothing says that its argument is an array" in f.explain()
    assert [each["line"] for each in f.explain(json=True)["left_calls"]] == [line]

    strict = loom.fuse(f.__wrapped__, numpy=True, strict=True)
    with pytest.raises(loom.CompileError, match="`np.exp` stays Python, because nothing says"):
        strict({"x": X})

    def g(x):
        return np.exp(x) * 2.0

    assert "`@loom.fuse(numpy=True)`" in loom.fuse(g).explain()
    with pytest.raises(loom.CompileError, match="calls no `ops.*no kernel.*`fuse\\(numpy=True\\)`"):
        loom.fuse(g, strict=True)(X)
