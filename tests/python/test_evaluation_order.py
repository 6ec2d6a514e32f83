"""Operands and arguments are evaluated in the order in which they are written, as Python does it."""

import textwrap

import numpy as np
import polyloom as loom
import pytest
import sources

# `note(o, d)` appends a digit to `o[0]` and gives the digit: the statements below leave the digits in their order.
DEFINITIONS = """
@loom.func
def note(o: loom.array(dtype=int), d: int):
    o[0] = o[0] * 10 + d
    return d


@loom.func
def three(a: int, b: int, c: int):
    return a * 100 + b * 10 + c


@loom.func
def with_default(a: int, b: int = 7, c: int = 8):
    return a * 100 + b * 10 + c


@loom.func
def vectors(a: loom.vec2, b: float):
    return a[0] * 10.0 + a[1] + b * 100.0


@loom.func
def change(x: loom.ref[int], by: int):
    x += by
    return x


@loom.func
def add_to(a: int, x: loom.ref[int]):
    x += a
    return x


@loom.struct
class Pair:
    first: int
    second: int


@loom.func
def of_pair(p: Pair, d: int):
    return p.first * 100 + p.second * 10 + d
"""

# Statements, the digits, and what they leave in `o[1]`, by hand.
STATEMENTS = [
    ("o[1] = three(note(o, 1), note(o, 2), note(o, 3))", 123, 123),
    ("o[1] = three(c=note(o, 3), a=note(o, 1), b=note(o, 2))", 312, 123),
    ("o[1] = three(note(o, 1), c=note(o, 3), b=note(o, 2))", 132, 123),
    ("o[1] = with_default(c=note(o, 3), a=note(o, 1))", 31, 173),
    ("o[1] = three(c=note(o, 3), a=with_default(b=note(o, 5), a=note(o, 4)), b=note(o, 2))", 3542, 45823),
    ("p = Pair(second=note(o, 2), first=note(o, 1))\no[1] = p.first * 10 + p.second", 21, 12),
    ("o[1] = of_pair(d=note(o, 3), p=Pair(second=note(o, 2), first=note(o, 1)))", 321, 123),
    ("o[1] = loom.clamp(high=note(o, 5), x=note(o, 9), low=note(o, 1))", 591, 5),
    ("o[1] = loom.where(value_if_false=note(o, 3), cond=note(o, 1) == 1, value_if_true=note(o, 2))", 312, 2),
    ("o[1] = loom.select(note(o, 1) == 1, note(o, 3), note(o, 2))", 132, 2),
    ("o[1] = int(vectors(b=float(note(o, 3)), a=loom.vec2(float(note(o, 1)), float(note(o, 2)))))", 312, 312),
    ("x = 5\no[1] = three(b=x, c=1, a=change(x, 2))", 0, 751),
    ("x = 5\no[1] = three(c=note(o, 3), a=x, b=note(o, 2))", 32, 523),
    ("x = 5\no[1] = add_to(x=x, a=note(o, 3)) * 10 + x", 3, 88),
    ("o[1] = three(c=loom.atomic_add(o, 2, 1), a=loom.atomic_add(o, 2, 1), b=loom.atomic_add(o, 2, 1))", 0, 120),
    ("o[1] = three(b=o[2], c=1, a=loom.atomic_add(o, 2, 4) + o[2])", 0, 401),
    ("o[1] = note(o, 1) - note(o, 2) * note(o, 3)", 123, -5),
    ("o[1] = o[0] + note(o, 4) + o[0]", 4, 8),
    ("o[note(o, 1)] = note(o, 2)", 21, 2),
    ("o[note(o, 1)] += note(o, 2)", 12, 2),
    ("o[1] = int(note(o, 1) < note(o, 2) < note(o, 3))", 123, 1),
    ("o[1] = int(note(o, 2) < note(o, 1) < note(o, 3))", 21, 0),
    ("o[1] = int(note(o, 2) > 1 and note(o, 3) > 4 and note(o, 5) > 0)", 23, 0),
    ("o[1] = int(note(o, 2) > 3 or note(o, 3) > 1 or note(o, 5) > 0)", 23, 1),
    ("o[1] = note(o, 2) if note(o, 1) > 0 else note(o, 3)", 12, 2),
    ("o[1] = loom.max(note(o, 1), note(o, 2), note(o, 3))", 123, 3),
    ("for i in range(note(o, 1), note(o, 8), note(o, 3)):\n    o[1] += i", 183, 12),
]


@pytest.mark.parametrize("statement, digits, value", STATEMENTS)
def test_the_order_is_that_of_the_text(statement, digits, value):
    body = textwrap.indent(statement, "    ")
    text = f"{DEFINITIONS}\n\n@loom.kernel\ndef k(o: loom.array(dtype=int)):\n{body}\n"
    o = np.zeros(3, np.int32)
    loom.launch(sources.define(text)["k"], 1, [o])
    assert o[:2].tolist() == [digits, value]


def test_random_states_in_arguments_by_keyword():
    @loom.func
    def pair(a: float, b: float):
        return loom.vec2(a, b)

    @loom.kernel
    def k(o: loom.array(dtype=loom.vec2)):
        state = loom.rand_init(7)
        o[0] = pair(b=loom.randf(state), a=loom.randf(state))
        again = loom.rand_init(7)
        first = loom.randf(again)
        o[1] = pair(loom.randf(again), first)

    o = loom.zeros(2, dtype=loom.vec2)
    loom.launch(k, 1, [o])
    assert o.numpy()[0].tolist() == o.numpy()[1].tolist()
    assert o.numpy()[0][0] != o.numpy()[0][1]


def test_keywords_of_an_initial_random_state():
    @loom.func
    def two(o: loom.array(dtype=int), d: int):
        o[0] = o[0] * 10 + d
        return d

    @loom.kernel
    def k(o: loom.array(dtype=int), r: loom.array(dtype=float)):
        r[0] = loom.randf(loom.rand_init(offset=two(o, 2), seed=two(o, 1)))
        r[1] = loom.randf(loom.rand_init(1, 2))

    o, r = np.zeros(1, np.int32), np.zeros(2, np.float32)
    loom.launch(k, 1, [o, r])
    assert o[0] == 21
    assert r[0] == r[1]
