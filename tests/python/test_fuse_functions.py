"""What a fused function is to Python: a function with the same name, signature, closure, lines and errors."""

import ast
import inspect
import pickle
import sys
import threading
import traceback

import numpy as np
import polyloom as loom
import pytest
from fused_functions import OPS as ops
from fused_functions import loaded, n_runs

A, B, C = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.5, -4.0]), np.array([2.0, 2.0, 2.0])
SCALE = 3.0


@loom.fuse
def chain(a, b, c=2.0, *, negate: bool = False):
    """Adds, and more."""
    x = ops.add(a, b)
    y = ops.relu(x)
    return ops.multiply(y, c)


def test_a_chain_runs_as_one_group():
    before = n_runs(chain)
    assert np.array_equal(chain(A, B), np.maximum(A + B, 0) * 2.0)
    assert np.array_equal(chain(A, b=B, c=C), np.maximum(A + B, 0) * C)
    assert [group.calls for group in chain.groups] == [[0, 1, 2]]
    assert n_runs(chain) == before + 2


def test_a_fused_function_has_name_signature_and_documentation_of_the_original():
    assert chain.__name__ == "chain" and chain.__doc__ == "Adds, and more."
    assert chain.__qualname__ == "chain" and chain.__module__ == __name__
    assert str(inspect.signature(chain)) == "(a, b, c=2.0, *, negate: bool = False)"
    assert chain.__defaults__ == (2.0,) and chain.__kwdefaults__ == {"negate": False}
    chain(A, B)
    assert chain.__code__.co_name == "chain" and chain.__code__.co_filename == __file__
    assert chain.__code__.co_firstlineno == chain.__wrapped__.__code__.co_firstlineno
    if sys.version_info >= (3, 11):
        assert chain.__code__.co_qualname == "chain"
    assert pickle.loads(pickle.dumps(chain)) is chain


def test_wrong_arguments_raise_what_the_original_raises():
    chain(A, B)
    with pytest.raises(TypeError, match=r"chain\(\) missing 1 required positional argument: 'b'"):
        chain(A)


class Layer:
    __power = 2.0

    def __init__(self, w, b):
        self.w, self.b, self.calls = w, b, 0

    @loom.fuse
    def forward(self, x):
        h = ops.multiply(x, self.w)
        return ops.relu(ops.add(h, self.b))

    @loom.fuse
    def private(self, x):
        return ops.relu(ops.multiply(x, self.__power))

    @loom.fuse
    def counted(self, x):
        h = ops.multiply(x, self.w)
        self.calls += 1
        return ops.relu(h)

    @loom.fuse
    @staticmethod
    def static(x, y=1.0):
        return ops.relu(ops.add(x, y))

    @classmethod
    @loom.fuse
    def of_class(cls, x):
        return ops.relu(ops.add(x, cls.__power))


class Wider(Layer):
    @loom.fuse
    def forward(self, x):
        return ops.relu(ops.add(super().forward(x), x))


def test_methods_of_all_kinds_are_fused():
    layer = Layer(A, B)
    expected = np.maximum(C * A + B, 0)
    assert np.array_equal(layer.forward(C), expected)
    assert np.array_equal(Layer.forward(layer, C), expected)
    assert np.array_equal(layer.private(C), np.maximum(C * 2.0, 0))
    assert np.array_equal(layer.counted(C), np.maximum(C * A, 0)) and layer.calls == 1
    assert np.array_equal(Layer.static(C), C + 1.0)
    assert np.array_equal(Layer.of_class(C), C + 2.0)
    assert np.array_equal(Wider(A, B).forward(C), np.maximum(expected + C, 0))
    assert [group.calls for group in Layer.forward.groups] == [[0, 1, 2]]
    assert n_runs(Layer.forward) >= 2


def test_closures_are_read_anew():
    factor = 2.0

    @loom.fuse
    def scaled(x):
        return ops.relu(ops.multiply(x, factor))

    def change(value):
        nonlocal factor
        factor = value

    assert np.array_equal(scaled(C), C * 2.0)
    change(5.0)
    assert np.array_equal(scaled(C), C * 5.0)
    assert scaled.__closure__ is not None and n_runs(scaled) == 2


def test_globals_are_read_anew(monkeypatch):
    @loom.fuse
    def scaled(x):
        y = ops.add(x, 1.0)
        return ops.relu(ops.multiply(y, SCALE))

    assert np.array_equal(scaled(C), (C + 1) * 3.0)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert np.array_equal(scaled(C), (C + 1) * 5.0)
    assert n_runs(scaled) == 2


def test_a_global_may_be_defined_after_the_function():
    namespace = loaded(
        "@loom.fuse\ndef f(x):\n    return ops.relu(later(x))\n\ndef later(x):\n    return ops.add(x, 1.0)\n"
    )
    assert np.array_equal(namespace["f"](C), C + 1)
    assert [group.calls for group in namespace["f"].groups] == [[0, 1]]


def test_any_arguments_reach_the_function():
    @loom.fuse
    def gathered(*xs, **named):
        y = ops.add(xs[0], named["other"])
        return ops.relu(y), len(xs), sorted(named)

    result = gathered(A, B, other=C)
    assert np.array_equal(result[0], np.maximum(A + C, 0)) and result[1:] == (2, ["other"])


def test_errors_are_raised_at_the_lines_of_the_original():
    text = (
        "def f(a, b, log):\n    x = ops.add(a, 1.0)\n    log.append(1)\n"
        "    y = ops.add(\n        x, b)\n    return ops.relu(y)\n"
    )
    namespace = loaded(text)
    fused = loom.fuse(namespace["f"])
    for _ in range(2):
        lines = []
        for function in (namespace["f"], fused):
            log = []
            with pytest.raises(ValueError, match="broadcast") as caught:
                function(A, np.ones(2), log)
            assert log == [1]
            frames = traceback.extract_tb(caught.value.__traceback__)
            lines.append([frame.lineno for frame in frames if frame.filename == namespace["f"].__code__.co_filename])
        assert lines[0] == lines[1] == [4]


def test_one_call_is_a_group_with_code():
    namespace = loaded("def f(a, b):\n    return ops.add(a, b)\n")
    f = loom.fuse(namespace["f"])
    assert np.array_equal(f(A, B), A + B) and n_runs(f) == 1
    assert f.groups[0].calls == [0] and "@add" in f.groups[0].hir()
    with pytest.raises(ValueError, match="`a` has shape"):
        f(A, np.ones(2))


def test_a_helper_that_calls_ops_alone_joins_the_group():
    namespace = loaded(
        "def norm(x, by=2.0):\n    y = ops.multiply(x, by)\n    return ops.tanh(y)\n"
        "@loom.fuse\ndef f(a, b):\n    x = ops.add(a, b)\n    y = norm(x)\n    return ops.relu(y)\n"
    )
    f = namespace["f"]
    assert np.array_equal(f(A, B), np.maximum(np.tanh((A + B) * 2.0), 0))
    assert [group.calls for group in f.groups] == [[0, 1, 2, 3]] and n_runs(f) == 1


LAYERS = (
    "def dense(x, w, b=0.5):\n    y = ops.multiply(x, w)\n    return ops.add(y, b)\n"
    "def capped(x, most):\n    x = ops.minimum(x, most)\n    return ops.relu(x)\n"
)


@pytest.mark.parametrize(
    ("body", "groups"),
    [
        ("h = capped(dense(x, p['w'], p['b']), most=2.0)\n    return dense(h, p['v'])", [[0, 1, 2, 3, 4, 5]]),
        ("limit = 1.5\n    return ops.exp(capped(dense(x, p['w']), limit))", [[0, 1, 2, 3, 4]]),
        ("h = dense(x, p['w'])\n    return dense(h, w=p['v'], b=h)", [[0, 1, 2, 3]]),
        (
            "h = dense(x, p['w'])\n    h = dense(ops.exp(h), p['v'])\n    return ops.add(h, p['b'])",
            [[0, 1, 2, 3, 4, 5]],
        ),
        ("h = dense(x, p['w'])\n    k = dense(h, p['v'])\n    return h, k", [[0, 1, 2, 3]]),
        # The helper binds its parameter anew, and what it was given is kept already.
        ("h = ops.add(x, p['b'])\n    k = capped(x, 2.0)\n    return ops.multiply(h, k)", [[0, 1, 2, 3]]),
    ],
)
def test_helpers_join_a_group_that_runs_at_its_last_call(body, groups):
    namespace = loaded(f"{LAYERS}def f(x, p):\n    {body}\n")
    plain, fused = namespace["f"], loom.fuse(namespace["f"])
    p = {"w": B, "b": C, "v": A}
    for _ in range(2):
        got, wanted = fused(A, p), plain(A, p)
        assert type(got) is type(wanted)
        np.testing.assert_array_equal(got, wanted)
    assert [group.calls for group in fused.groups] == groups and n_runs(fused) == 2


def test_errors_of_helpers_in_a_late_group_are_those_of_their_lines():
    namespace = loaded(f"{LAYERS}def f(x, p):\n    h = dense(x, p['w'])\n    return dense(capped(h, 2.0), p['v'])\n")
    fused = loom.fuse(namespace["f"])
    fused(A, {"w": B, "v": A})
    lines = []
    for function in (namespace["f"], fused):
        with pytest.raises(ValueError, match="broadcast") as caught:
            function(A, {"w": B, "v": np.ones(2)})
        frames = traceback.extract_tb(caught.value.__traceback__)
        lines.append([each.lineno for each in frames if each.filename == namespace["f"].__code__.co_filename])
    assert lines[0] == lines[1] == [9, 2]


def test_a_helper_that_code_in_between_replaces_is_called():
    class Parameters(dict):
        def __getitem__(self, name):
            namespace["dense"] = lambda x, w: ops.negative(x)
            return super().__getitem__(name)

    text = f"{LAYERS}def f(x, p):\n    h = ops.relu(x)\n    h = dense(h, p['w'])\n    return dense(h, p['v'])\n"
    results = []
    for fuse in (lambda function: function, loom.fuse):
        namespace = loaded(text)
        function = fuse(namespace["f"])
        function(A, {"w": B, "v": A})
        results.append(function(A, Parameters(w=B, v=A)))
    np.testing.assert_array_equal(*results)


def test_a_helper_that_does_more_stays_a_call():
    namespace = loaded(
        "def shout(x):\n    print('hey')\n    return ops.tanh(x)\n"
        "@loom.fuse\ndef f(a, b):\n    x = ops.relu(ops.add(a, b))\n    y = shout(x)\n"
        "    return ops.relu(ops.negative(y))\n"
    )
    f = namespace["f"]
    assert np.array_equal(f(A, B), np.maximum(-np.tanh(np.maximum(A + B, 0)), 0))
    assert sorted(call for group in f.groups for call in group.calls) in ([0, 1, 3, 4],)


def test_strict_raises_where_not_all_is_one_group():
    namespace = loaded(
        "def f(a, b):\n    x = ops.add(a, b)\n    x = x * 2\n    return ops.relu(x)\n"
        "def g(a, b):\n    return ops.relu(ops.add(a, b))\n"
    )
    strict = loom.fuse(namespace["f"], strict=True)
    for _ in range(2):
        with pytest.raises(loom.CompileError, match="new value in Python") as caught:
            strict(A, B)
        assert caught.value.diagnostics[0].line == 3 and "multiply" in str(caught.value)
    assert np.array_equal(loom.fuse(namespace["g"], strict=True)(A, B), np.maximum(A + B, 0))


def test_fuse_false_runs_ops_one_by_one():
    apart = loom.fuse(chain.__wrapped__, fuse=False)
    assert np.array_equal(apart(A, B), chain(A, B))
    assert len(apart.groups) == 0


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def f(a):\n    yield ops.relu(a)\n", "a generator"),
        ("async def f(a):\n    return ops.relu(a)\n", "a coroutine"),
        ("async def f(a):\n    yield ops.relu(a)\n", "an asynchronous generator"),
    ],
)
def test_what_is_suspended_is_refused_at_its_definition(text, kind):
    function = loaded("\n" + text)["f"]
    with pytest.raises(loom.CompileError, match=f"`f` is {kind}") as caught:
        loom.fuse(function)
    (found,) = caught.value.diagnostics
    assert (found.line, found.help) == (2, "fuse a plain function with the `ops.*` calls, and call that")
    assert "^" in caught.value.rendered


def test_functions_without_text_are_refused():
    namespace = {"ops": ops}
    exec("def f(a):\n    return ops.relu(a)\n", namespace)
    with pytest.raises(OSError, match="source text of 'f' is not available"):
        loom.fuse(namespace["f"])
    with pytest.raises(OSError, match="write it as a function with `def`"):
        loom.fuse(lambda a: ops.relu(a))
    with pytest.raises(TypeError, match="written in Python"):
        loom.fuse(len)


def test_a_file_that_has_changed_since_is_refused(tmp_path):
    path = tmp_path / "changing.py"
    path.write_text("def f(a):\n    return ops.relu(a)\n")
    namespace = {"ops": ops}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("def f(a):\n    return ops.tanh(a) \n")
    with pytest.raises(RuntimeError, match="has changed since it was loaded"):
        loom.fuse(namespace["f"])


def test_explain_names_groups_and_reasons():
    namespace = loaded("def f(a, b):\n    x = ops.add(a, b)\n    x = x * 2\n    return ops.relu(x)\n")
    f = loom.fuse(namespace["f"])
    text = f.explain()
    assert "f: 2 calls, 2 groups" in text and "^^^^^" in text and "ops.multiply(x, 2)" in text
    report = f.explain(json=True)
    assert report["groups"] == [[0], [1]] and report["breaks"][0]["line"] == 3
    namespace = loaded(
        "def g(x, layer):\n    return ops.relu(ops.multiply(x, layer['w']))\n"
        "def f(x, layer):\n    return ops.tanh(g(x, layer))\n"
    )
    strict = loom.fuse(namespace["f"], strict=True)
    with pytest.raises(
        loom.CompileError, match="the helper function `g`, which does something else, too: `layer\\['w'\\]`"
    ):
        strict(A, {"w": B})
    svg = f.graph()
    assert svg.startswith("<svg") and "ops.relu" in svg and "stroke-dasharray" in svg


PAIR = "def pair(t, k):\n    u = ops.relu(t)\n    return ops.multiply(u, k), u\n"


def test_helpers_that_return_tuples_run_in_the_group_of_their_caller():
    wanted = np.tanh(np.maximum(A + B, 0) * 3), np.maximum(A + B, 0)
    for body in (
        "    y, z = pair(ops.add(a, b), 3)\n    return ops.tanh(y), z\n",
        "    x = ops.add(a, b)\n    (y, z) = pair(x, k=3)\n    y = ops.tanh(y)\n    return y, z\n",
        "    t = pair(ops.add(a, b), 3)\n    return ops.tanh(t[0]), t[1]\n",
        "    [y, z] = t = pair(ops.add(a, b), 3)\n    return ops.tanh(y), t[1]\n",
    ):
        f = loom.fuse(loaded(PAIR + f"def f(a, b):\n{body}")["f"])
        for given, expected in zip(f(A, B), wanted, strict=True):
            assert np.allclose(given, expected)
        assert [group.calls for group in f.groups] == [[0, 1, 2, 3]] and n_runs(f) == 1, body
    # A result that nothing reads is not computed for its name alone.
    f = loom.fuse(loaded(PAIR + "def f(a, b):\n    y, _ = pair(a, b)\n    return ops.tanh(y)\n")["f"])
    assert np.allclose(f(A, B), np.tanh(np.maximum(A, 0) * B)) and n_runs(f) == 1
    # The group runs at its last call, because an operand is made after the first one.
    f = loom.fuse(
        loaded(PAIR + "def f(a, b):\n    y, z = pair(a, 2)\n    c = b * 2.0\n    return ops.add(ops.add(y, z), c)\n")[
            "f"
        ]
    )
    for _ in range(2):
        assert np.allclose(f(A, B), 3 * np.maximum(A, 0) + 2 * B)
    assert [(group.calls, group.moment) for group in f.groups] == [([0, 1, 2, 3], "last")] and n_runs(f) == 2
    # What the helper returns beside them is not its calls' own.
    strict = loom.fuse(
        loaded("def g(t):\n    return ops.relu(t), t\ndef f(a):\n    return ops.tanh(g(a)[0])\n")["f"], strict=True
    )
    with pytest.raises(loom.CompileError, match="`g`, which returns something else than results of its calls"):
        strict(A)


def test_the_cache_counts_and_forgets():
    f = loom.fuse(loaded("def f(a):\n    return ops.relu(ops.tanh(a))\n")["f"])
    assert f.cache_info() == (0, 0, 0)
    f(A)
    f(A)
    assert f.cache_info() == (2, 1, 1)
    f.cache_clear()
    assert np.array_equal(f(A), np.maximum(np.tanh(A), 0))
    assert f.cache_info().misses == 2
    before = loom.stats()
    f(A)
    after = loom.stats()
    assert {name: after[name] - before[name] for name in after} == {
        "calls": 1, "group_runs": 1, "guard_failures": 0, "originals": 0, "analyses": 0
    }  # fmt: skip


def test_a_function_that_forgets_again_and_again_still_fuses():
    f = loom.fuse(loaded("def f(a):\n    return ops.relu(ops.tanh(a))\n")["f"])
    for _ in range(20):
        f(A)
        f.cache_clear()
    f(A)
    assert f.cache_info().size == 1 and len(f.groups) == 1


def test_text_that_has_been_replaced_is_refused():
    import linecache

    def cell(text):
        linecache.cache["<cell>"] = (len(text), None, text.splitlines(True), "<cell>")
        names = {"ops": ops}
        exec(compile(text, "<cell>", "exec"), names)
        return names["f"]

    text = "def f(a):\n    return ops.relu(ops.add(a, 1.0))\n"
    first, second = cell(text), cell(text.replace("1.0", "2.0"))
    assert np.array_equal(loom.fuse(second)(A), np.maximum(A + 2, 0))
    with pytest.raises(OSError, match="the text of `f` is no longer known"):
        loom.fuse(first)


def test_a_float_mode_is_one_that_there_is():
    with pytest.raises(ValueError, match="float_mode is 'quick', not"):
        loom.fuse(chain, float_mode="quick")


def test_a_function_may_name_itself_and_its_class():
    text = (
        "def f(a, n=3):\n    y = ops.relu(ops.add(a, 1.0))\n    return ops.tanh(ops.exp(f(y, n - 1))) if n else y\n"
        "def counted(a):\n    counted.n += 1\n    return ops.relu(ops.add(a, counted.n))\n"
        "class A:\n    k = 2.0\n    __hidden = 3.0\n"
        "    def m(self, a):\n        return ops.add(ops.multiply(a, A.k), self.__hidden)\n"
        "class B(A):\n    def m(self, a):\n        return ops.add(ops.relu(super().m(a)), B.k)\n"
    )
    plain, names = loaded(text), loaded(text)
    for each in (plain, names):
        each["counted"].n = 0
    names["f"], names["counted"] = loom.fuse(names["f"]), loom.fuse(names["counted"])
    names["A"].m, names["B"].m = loom.fuse(names["A"].m), loom.fuse(names["B"].m)
    for _ in range(2):
        assert np.array_equal(names["f"](A), plain["f"](A))
        assert np.array_equal(names["counted"](A), plain["counted"](A))
        assert np.array_equal(names["B"]().m(A), plain["B"]().m(A))
    assert names["f"].__code__.co_name == "f" and names["f"].groups


def test_a_helper_may_read_globals_of_its_module():
    text = (
        "N = 2\ndef halves(x):\n    return ops.tanh(ops.reshape(x, (N, -1)))\n"
        "def f(a):\n    return ops.add(halves(ops.exp(a)), 1.0)\n"
        "def hidden(a):\n    N = 4\n    return ops.add(halves(ops.exp(a)), N)\n"
    )
    names = loaded(text)
    f, hidden = loom.fuse(names["f"]), loom.fuse(names["hidden"])
    a = np.arange(8.0)
    assert f(a).shape == (2, 4) and [group.calls for group in f.groups] == [[0, 1, 2, 3]]
    np.testing.assert_array_equal(hidden(a), np.tanh(np.exp(a).reshape(2, 4)) + 4)
    names["N"] = 4
    assert f(a).shape == hidden(a).shape == (4, 2)


def test_a_list_that_is_its_own_item_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises((TypeError, ValueError), match="levels|inhomogeneous"):
        ops.add(A, endless)
    with pytest.raises(TypeError, match="lists of more than 8 levels are no argument of an op"):
        ops.reshape(A, endless)


def test_threads_call_one_fused_function_at_once():
    f = loom.fuse(
        loaded(
            "def f(a, b):\n    x = ops.add(a, b)\n    for _ in range(3):\n"
            "        x = ops.relu(ops.multiply(x, 0.5))\n    return x\n"
        )["f"]
    )
    wrong = []

    def run(n):
        a = np.full(5, float(n))
        for _ in range(200):
            if not np.array_equal(f(a, 1.0), (a + 1.0) / 8):
                wrong.append(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and f.cache_info().misses == 1


def test_hidden_names_do_not_collide_with_the_users():
    f = loom.fuse(
        loaded("def f(a, _loom_v0=7, _loom=8):\n    x = ops.relu(ops.add(a, 1.0))\n    return x, _loom_v0, _loom\n")[
            "f"
        ]
    )
    result = f(A)
    assert np.array_equal(result[0], np.maximum(A + 1, 0)) and result[1:3] == (7, 8)


def test_the_tree_of_the_rewritten_function_has_no_position_outside_of_the_original():
    chain(A, B)
    lines, first = inspect.getsourcelines(chain.__wrapped__)
    last = first + len(lines) - 1
    assert all(first <= line <= last for _, _, line in chain.__code__.co_lines() if line is not None)
    assert ast.parse("".join(lines))


@pytest.mark.parametrize("look", ["locals()", "vars()", "dir()", "eval('locals()')"])
def test_a_function_that_looks_at_its_names_sees_no_others(look):
    namespace = loaded(f"def f(a, b):\n    x = ops.relu(ops.add(a, b))\n    return x, sorted({look})\n")
    plain, fused = namespace["f"](A, B), loom.fuse(namespace["f"])(A, B)
    assert np.array_equal(plain[0], fused[0]) and plain[1] == fused[1]


def test_a_group_that_an_op_refuses_can_be_looked_at():
    f = loom.fuse(loaded("def f(a):\n    t = ops.relu(a)\n    return ops.add(t, t, foo=1)\n")["f"])
    with pytest.raises(TypeError, match="foo"):
        f(A)
    assert f.cache_info().hits >= 0 and "group" in f.explain()
    f.cache_clear()
    with pytest.raises(TypeError, match="foo"):
        f(A)
    with pytest.raises(TypeError, match="the group has no code"):
        f.groups[0].hir()


def test_what_is_forgotten_is_let_go():
    namespace = loaded("def f(a):\n    return ops.relu(op(a, a))\n", op=ops.add)
    f = loom.fuse(namespace["f"])
    for _ in range(20):
        f(A)
        f.cache_clear()
    fusion = f.__dict__["__polyloom_fusion__"]
    assert sum(bool(parts) for parts in fusion.versions) <= 8
    namespace["op"] = ops.multiply
    f.cache_clear()
    assert "ops.multiply" in f.explain() and np.array_equal(f(A), np.maximum(A * A, 0))


def test_counting_while_others_are_fused():
    stop, wrong = threading.Event(), []

    def define():
        while not stop.is_set():
            loom.fuse(chain.__wrapped__)

    thread = threading.Thread(target=define)
    thread.start()
    try:
        for _ in range(300):
            loom.stats()
    except RuntimeError as error:
        wrong.append(error)
    stop.set()
    thread.join()
    assert not wrong


def test_views_of_views_of_any_length():
    @loom.fuse
    def f(x):
        return ops.sum(x)

    def turned(x):
        y = x
        for _ in range(20_000):
            y = ops.flip(y)
        return f(x * x), y

    found = []
    size = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.append(loom.grad(turned, has_aux=True)(np.ones(4))))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
    assert np.array_equal(found[0][0], np.full(4, 2.0)) and np.array_equal(found[0][1], np.ones(4))
