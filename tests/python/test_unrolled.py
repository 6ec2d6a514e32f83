"""Loops that are unrolled: their counters are those of Python, in the loop and after it."""

import textwrap

import numpy as np
import polyloom as loom
import pytest
import sources

W = [1.0, 2.0, 3.0]

# Bodies that write what they count into `o`; `W` and `loom.static` are there for Python too.
BODIES = {
    "an earlier loop": """
        for i in range(5):
            o[1] += 1.0
        for i in range(2):
            o[2] += loom.static(W[i])
        o[0] = float(i)
        """,
    "the index of a tuple": """
        t = (1.0, 2.0, 3.0)
        i = 50
        for i in range(3):
            o[1] += t[i]
        o[0] = float(i)
        """,
    "not set before": """
        for i in range(3):
            o[1] += loom.static(W[i])
        o[0] = float(i)
        """,
    "left": """
        i = 50
        for i in range(3):
            if loom.static(W[i] > 1.5):
                break
            o[1] += 1.0
        else:
            o[2] = 9.0
        o[0] = float(i)
        """,
    "continued": """
        for i in range(3):
            if loom.static(W[i] > 1.5):
                continue
            o[1] += 1.0
        o[0] = float(i)
        """,
    "else": """
        i = 7
        for i in range(2):
            o[1] += loom.static(W[i])
        else:
            o[2] = float(i) + 0.5
        o[0] = float(i)
        """,
    "backwards": """
        for i in range(2, -1, -1):
            o[1] = o[1] * 2.0 + loom.static(W[i])
        o[0] = float(i) - 0.25
        """,
    "no iteration": """
        i = 7
        for i in range(3, 3):
            o[1] += loom.static(W[i])
        o[0] = float(i)
        """,
    "one name in two loops": """
        for i in range(2):
            o[1] += loom.static(W[i])
            for i in range(3):
                o[2] += loom.static(W[i]) * 0.5
            o[3] = o[3] * 4.0 + float(i)
        o[0] = float(i)
        """,
    "one name in two loops, the inner one unrolled": """
        i = 0
        for i in range(int(o[5])):
            for i in range(2):
                o[2] += loom.static(W[i])
            o[3] = o[3] * 4.0 + float(i)
        o[0] = float(i)
        """,
    "one name in two loops, the outer one unrolled": """
        for i in range(2):
            o[1] += loom.static(W[i])
            for i in range(int(o[5])):
                o[2] += float(i)
            o[3] = o[3] * 4.0 + float(i)
        o[0] = float(i)
        """,
    "assigned": """
        for i in range(3):
            o[1] += loom.static(W[i])
            i = i + 10
            o[2] += float(i)
        o[0] = float(i)
        """,
    "assigned in a branch": """
        for i in range(3):
            o[1] += loom.static(W[i])
            if o[1] > 2.0:
                i = 40
            o[2] = o[2] * 4.0 + float(i)
        o[0] = float(i)
        """,
    "assigned in a loop": """
        for i in range(2):
            o[1] += loom.static(W[i])
            while i < 5:
                o[2] = o[2] * 4.0 + float(i)
                i += 2
        o[0] = float(i)
        """,
    "in a branch": """
        i = 50
        if o[5] > 1.0:
            for i in range(2):
                o[1] += loom.static(W[i])
        o[0] = float(i)
        """,
    "in a branch not taken": """
        i = 50
        if o[5] > 100.0:
            for i in range(2):
                o[1] += loom.static(W[i])
        o[0] = float(i)
        """,
    "returned from": """
        for i in range(3):
            o[0] = float(i)
            if loom.static(i == 1):
                return
            o[1] += loom.static(W[i])
        """,
    "as an index": """
        i = 2
        for i in range(2):
            o[3] += loom.static(W[i])
        o[i] = 5.0
        """,
    "in a loop that reads it first": """
        i = 4
        for j in range(3):
            o[0] = o[0] * 8.0 + float(i)
            for i in range(2):
                o[1] += loom.static(W[i]) * float(j)
        """,
}


def as_python(body: str) -> list[float]:
    names = {"W": W, "loom": type("loom", (), {"static": staticmethod(lambda value: value)})}
    exec("def f(o):\n" + textwrap.indent(textwrap.dedent(body), "    "), names)
    o = [0.0] * 5 + [2.0]
    names["f"](o)
    return o


@pytest.mark.parametrize("name", BODIES)
def test_counters_are_those_of_python(name):
    body = textwrap.indent(textwrap.dedent(BODIES[name]), "    ")
    kernel = sources.define(f"@loom.kernel\ndef k(o: loom.array(dtype=float)):\n{body}\n", W=W)["k"]
    o = np.zeros(6, np.float32)
    o[5] = 2
    loom.launch(kernel, 1, [o])
    assert o.tolist() == as_python(BODIES[name])


@pytest.mark.parametrize("value", ["loom.static(q)", "q", "t[loom.static(q - 3000000000)]"])
def test_counters_beyond_32_bits(value):
    kernel = sources.define(f"""
        @loom.kernel
        def k(o: loom.array(dtype=loom.int64)):
            t = (loom.int64(3000000000), loom.int64(3000000001), loom.int64(3000000002))
            for q in range(3000000000, 3000000003):
                o[0] += {value}
            o[1] = loom.int64(q)
    """)["k"]
    o = np.zeros(2, np.int64)
    loom.launch(kernel, 1, [o])
    assert o.tolist() == [9000000003, 3000000002]


def test_counters_of_typed_ranges():
    @loom.kernel
    def k(o: loom.array(dtype=loom.int64), u: loom.array(dtype=loom.uint32)):
        for q in range(loom.int64(-5000000000), loom.int64(-4999999998)):
            o[0] += loom.static(q)
        o[1] = q
        for p in range(loom.uint32(4294967294), loom.uint32(4294967295)):
            u[0] += loom.uint32(loom.static(p))
        u[1] = p

    o, u = np.zeros(2, np.int64), np.zeros(2, np.uint32)
    loom.launch(k, 1, [o, u])
    assert o.tolist() == [-9999999999, -4999999999]
    assert u.tolist() == [4294967294, 4294967294]


def test_what_has_been_assigned_is_no_constant():
    with pytest.raises(loom.CompileError, match="static expression: name .i. is not defined"):
        sources.define("""
            @loom.kernel
            def k(o: loom.array(dtype=float)):
                for i in range(3):
                    o[0] += loom.static(float(i))
                    i = i + 5
                    o[0] += loom.static(float(i))
        """)


def test_a_counter_that_is_assigned_a_constant_is_that_constant():
    @loom.kernel
    def k(o: loom.array(dtype=float)):
        for i in range(3):
            o[0] += loom.static(float(i))
            i = 5
            o[0] += loom.static(float(i))

    o = np.zeros(1, np.float32)
    loom.launch(k, 1, [o])
    assert o.tolist() == [18.0]


@pytest.mark.parametrize(
    "statement",
    [
        "if (n := 3) > 2:\n    o[0] = float(n)",
        "if o[0] > 2.0:\n    pass\nelif (n := 3) > 2:\n    o[0] = float(n)",
        "if False:\n    o[0] = float((n := 3))\no[0] = float(n)",
        "o[0] = float(n) if (n := 3) > 2 else 0.0",
        "if loom.static((n := 3) > 2):\n    o[0] = float(n)",
        "o[0] = loom.static((n := 3))",
        "o[0] = loom.static([n := j for j in range(3)][0])",
        "if True and (n := 3) > 2:\n    o[0] = float(n)",
        "if False or (n := 3) > 2:\n    o[0] = float(n)",
        "if not (n := 0):\n    o[0] = float(n)",
        "while (n := 3) > 4:\n    pass",
        "o[0] = float((n := 3) < 4 < 5)",
        "o[(n := 0)] = 1.0",
        "for i in range((n := 3)):\n    o[0] = float(n)",
        "assert (n := 3) > 2",
        "print((n := 3))",
        "o[0] = loom.max((n := 3.0), 1.0)",
        "return (n := 3)",
    ],
)
def test_assignment_expressions_are_refused_by_name(statement):
    body = textwrap.indent(statement, "    ")
    with pytest.raises(loom.CompileError, match="`:=` is not supported") as refused:
        sources.define(f"@loom.kernel\ndef k(o: loom.array(dtype=float)):\n{body}\n", n=100)
    assert "PL0002" in str(refused.value)


def test_a_part_of_an_array_may_be_named_again_in_a_branch_of_a_later_copy():
    @loom.kernel
    def k(a: loom.array(dtype=float), n: int, o: loom.array(dtype=float)):
        for i in range(1, 4):
            o[0] += loom.static(float(i))
            # The first comparison is decided in some copies, and then the branch is no branch.
            if abs(i) > 2 > n:
                o[1] += 1.0
            else:
                part = a[i:]
                o[2] += part[0]

    for n in (0, 9):
        o = np.zeros(3, np.float32)
        loom.launch(k, 1, [np.arange(8, dtype=np.float32), n, o])
        assert o.tolist() == ([6.0, 1.0, 3.0] if n == 0 else [6.0, 0.0, 6.0])


def test_a_part_that_a_branch_has_changed_is_the_branchs_afterwards():
    @loom.kernel
    def k(a: loom.array(dtype=float), n: int):
        part = a[1:]
        if n > 0:
            part = a[2:]
        part[0] = 1.0

    for n, expected in ((0, [0.0, 1.0, 0.0]), (1, [0.0, 0.0, 1.0])):
        a = loom.zeros(3, dtype=float)
        loom.launch(k, 1, [a, n])
        assert a.list() == expected

    with pytest.raises(loom.CompileError, match="`part` has a value already and cannot stand for a part of an array"):

        @loom.kernel
        def later(a: loom.array(dtype=float), n: int):
            part = a[1:]
            for i in range(n):
                part[0] = 1.0
                if n > i:
                    part = a[2:]

    with pytest.raises(loom.CompileError, match="`part` has a value already and cannot stand for a part of an array"):

        @loom.kernel
        def kept(a: loom.array(dtype=float), n: int):
            part = a[1:]
            for i in range(n):
                if i == 0:
                    part = a[2:]
                part[0] = 1.0

    @loom.kernel
    def left(a: loom.array(dtype=float), n: int):
        part = a[1:]
        if n > 0:
            part = a[2:]
            part[0] = 3.0
            return
        part[0] = 1.0

    a = np.zeros(3, np.float32)
    loom.launch(left, 1, [a, 0])
    loom.launch(left, 1, [a, 1])
    assert a.tolist() == [0.0, 1.0, 3.0]
