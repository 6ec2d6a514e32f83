"""What analysis takes for granted is held at run time: callees, classes of values, overlap. Where it does not hold, the
function runs as it is written."""

import numpy as np
import polyloom as loom
from fused_functions import OPS, loaded, n_runs

A, B = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.5, -4.0])


def test_an_op_that_is_replaced_is_called(monkeypatch):
    f = loom.fuse(loaded("def f(a, b):\n    return ops.relu(ops.add(a, b))\n")["f"])
    f(A, B)
    monkeypatch.setattr(OPS, "relu", lambda x: "replaced")
    assert f(A, B) == "replaced"
    assert f(A, B) == "replaced"
    monkeypatch.undo()
    for _ in range(3):
        assert np.array_equal(f(A, B), np.maximum(A + B, 0))
    assert f.cache_info().misses <= 4


def test_an_op_that_unknown_code_replaces_on_the_way_is_called():
    text = (
        "def f(a, b):\n    x = ops.add(a, b)\n    change()\n    y = ops.relu(x)\n    return y\n"
        "def plus(a, b):\n    return ops.add(a, b)\n"
    )
    namespace = loaded(text)

    class Other:
        @staticmethod
        def relu(x):
            return "other"

    namespace["change"] = lambda: None
    f = loom.fuse(namespace["f"])
    assert np.array_equal(f(A, B), np.maximum(A + B, 0))
    namespace["change"] = lambda: namespace.update(ops=Other)
    assert f(A, B) == "other"


def test_a_helper_that_is_replaced_is_called():
    namespace = loaded("def g(x):\n    return ops.tanh(x)\ndef f(a):\n    return ops.relu(g(a))\n")
    f = loom.fuse(namespace["f"])
    assert np.array_equal(f(A), np.maximum(np.tanh(A), 0))
    namespace["g"] = lambda x: x
    assert np.array_equal(f(A), np.maximum(A, 0))
    namespace["g"].__code__ = (lambda x: -x).__code__
    assert np.array_equal(f(A), np.maximum(-A, 0))


def test_the_code_of_a_helper_is_watched():
    namespace = loaded("def g(x):\n    return ops.tanh(x)\ndef f(a):\n    return ops.relu(g(a))\n")
    f = loom.fuse(namespace["f"])
    f(A)
    namespace["g"].__code__ = (lambda x: -x).__code__
    assert np.array_equal(f(A), np.maximum(-A, 0))


def test_a_builtin_that_a_global_hides_is_called():
    namespace = loaded("def f(a):\n    x = ops.tanh(a)\n    n = len(a)\n    return ops.relu(x), n\n")
    f = loom.fuse(namespace["f"])
    assert f(A)[1] == 3
    namespace["len"] = lambda value: value.__imul__(0) is None
    b = A.copy()
    result = f(b)
    assert result[1] is False and not b.any() and np.array_equal(result[0], np.maximum(np.tanh(A), 0))


class Meddler:
    """A class whose operators write what they can get at."""

    def __init__(self, target):
        self.target = target

    def __mul__(self, other):
        self.target += 100.0
        return 1.0

    __rmul__ = __add__ = __mul__

    def __getitem__(self, index):
        self.target += 100.0
        return 1.0

    @property
    def w(self):
        self.target += 100.0
        return 1.0


def _both(text, arguments):
    namespace = loaded(text)
    results = []
    for function in (namespace["f"], loom.fuse(namespace["f"])):
        given = arguments()
        results.append([function(*given), [each for each in given if isinstance(each, np.ndarray)]])
    assert repr(results[0]) == repr(results[1])


def test_operators_of_other_classes_may_write_operands():
    def arguments():
        b = np.ones(3)
        return [A.copy(), b, Meddler(b)]

    for operation in ("m * 2", "m[0]", "m.w", "2 * m", "-1 if m + 1 else 0"):
        text = f"def f(a, b, m):\n    x = ops.tanh(a)\n    k = {operation}\n    return ops.add(x, b), k\n"
        _both(text, arguments)


def test_operators_of_a_subclass_of_arrays_may_write_operands():
    class Array(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **named):
            self.target += 1.0
            return getattr(ufunc, method)(*[np.asarray(each) for each in inputs], **named)

    def arguments():
        b = np.ones(3)
        m = np.zeros(3).view(Array)
        m.target = b
        return [A.copy(), b, m]

    _both("def f(a, b, m):\n    x = ops.tanh(a)\n    k = m * 2\n    return ops.add(x, b), k\n", arguments)


def test_what_a_loop_binds_is_not_what_the_name_was_before():
    text = (
        "def f(a, b, c):\n    t = a\n    for t in [a, b]:\n        pass\n"
        "    return ops.minimum(ops.multiply(c, t), a)\n"
    )
    f = loaded(text)["f"]
    a = np.arange(4)
    assert np.array_equal(f(a, a + 1, a + 2), a)
    assert np.array_equal(loom.fuse(f)(a, a + 1, a + 2), a)


def test_a_group_that_is_refused_reads_names_before_they_are_bound_again():
    text = (
        "def f(t, z, y, c):\n    x = ops.add(t, z)\n"
        "    return ops.negative(ops.clip(ops.maximum(y, x), (x := t), c)), x\n"
    )
    f = loaded(text)["f"]
    fused = loom.fuse(f)
    t, y, c = np.arange(1, 5), np.arange(4, 0, -1), np.arange(2, 6)
    for upper in (c, np.ma.masked_array(c), c[:, None, None, None, None], c.astype(object)):
        expected = found = None
        try:
            expected = f(t, t, y, upper)
        except (TypeError, ValueError) as error:
            expected = str(error)
        try:
            found = fused(t, t, y, upper)
        except (TypeError, ValueError) as error:
            found = str(error)
        assert repr(found) == repr(expected)
    ops_clip = loom.ops.clip
    try:
        loom.ops.clip = lambda x, lower, upper: np.clip(x, lower, upper)
        assert repr(fused(t, t, y, c)) == repr(f(t, t, y, c))
    finally:
        loom.ops.clip = ops_clip
    assert repr(fused(t, t, y, c)) == repr(f(t, t, y, c))


def test_methods_of_plain_classes_keep_their_groups():
    class Model:
        def __init__(self):
            self.w = np.full(3, 2.0)

    f = loom.fuse(loaded("def f(m, x):\n    y = ops.multiply(x, m.w)\n    return ops.relu(ops.add(y, m.w))\n")["f"])
    assert np.array_equal(f(Model(), A), np.maximum(A * 2 + 2, 0))
    assert n_runs(f) == 1
    Model.w = property(lambda self: self.__dict__["w"] + 1, lambda self, value: self.__dict__.update(w=value))
    model = Model()
    assert np.array_equal(f(model, A), np.maximum(A * 3 + 3, 0))


def test_arguments_may_overlap():
    text = "def f(a, b):\n    x = ops.add(a, b)\n    a *= 2\n    y = ops.relu(ops.multiply(x, b))\n    return y\n"

    def arguments():
        base = np.arange(6.0)
        return [base[:4], base[2:]]

    _both(text, arguments)
    _both(text, lambda: [base := np.arange(4.0), base])


def test_a_name_that_changes_often_ends_analysis():
    namespace = loaded("def g(x):\n    return ops.tanh(x)\ndef f(a):\n    return ops.relu(g(a))\n")
    f = loom.fuse(namespace["f"])
    for n in range(30):
        namespace["g"] = lambda x, n=n: OPS.add(x, n)
        assert np.array_equal(f(A), np.maximum(A + n, 0))
    assert f.cache_info().misses <= 12
