"""Code that is long but not deep, as programs write it that write programs: it compiles and gives what Python gives."""

import numpy as np
import polyloom as loom
import pytest
import sources

N = 2000


def run(body, **values):
    kernel = sources.define(f"@loom.kernel\ndef k(x: loom.array(dtype=loom.float64), n: int):\n{body}\n")["k"]
    x = np.array([3.0, 0.0])
    loom.launch(kernel, 1, [x, values.get("n", 0)])
    return x[1]


@pytest.mark.parametrize("n", [199, N])
def test_sums_of_products(n):
    terms = " + ".join(f"x[0] * loom.float64({j % 17}.5)" for j in range(n))
    assert run(f"    x[1] = {terms}") == sum(3.0 * (j % 17 + 0.5) for j in range(n))


def test_differences_keep_their_order():
    terms = "".join(f" {'-+*'[j % 3]} loom.float64({j % 7 + 1}.0)" for j in range(N // 2))
    assert run(f"    x[1] = x[0]{terms}") == eval("3.0" + terms.replace("loom.float64", "float"))


def test_terms_are_evaluated_from_the_left():
    text = (
        "@loom.func\ndef digit(o: loom.array(dtype=int), d: int):\n    o[0] = o[0] * 3 + d\n    return d\n\n"
        "@loom.kernel\ndef k(o: loom.array(dtype=int)):\n    o[1] = "
    ) + " - ".join(f"digit(o, {d % 3})" for d in range(300))
    o = np.zeros(2, np.int32)
    loom.launch(sources.define(text)["k"], 1, [o])
    wanted = 0
    for d in range(300):
        wanted = (wanted * 3 + d % 3 + 2**31) % 2**32 - 2**31
    assert o.tolist() == [wanted, 0 - sum(d % 3 for d in range(300))]


@pytest.mark.parametrize("n_terms", [65, 66, 127, 129, N])
@pytest.mark.parametrize("last", [-1, 0, 40, 64, -2])
def test_conditions_of_many_operands_end_where_they_are_decided(n_terms, last):
    decided = last % n_terms
    text = "@loom.func\ndef term(o: loom.array(dtype=int), b: bool):\n    o[0] += 1\n    return b\n\n"
    for word, ends in (("and", "False"), ("or", "True")):
        goes_on = "True" if word == "and" else "False"
        terms = f" {word} ".join(f"term(o, {ends if j == decided else goes_on})" for j in range(n_terms))
        kernel = f"@loom.kernel\ndef {word}_(o: loom.array(dtype=int)):\n    o[1] = int({terms})\n\n"
        o = np.zeros(2, np.int32)
        loom.launch(sources.define(text + kernel)[f"{word}_"], 1, [o])
        assert o.tolist() == [decided + 1, int(word == "or")]


def test_conditions_that_nothing_decides():
    for word, value, wanted in (("and", ">", 1.0), ("or", "<", 0.0)):
        terms = f" {word} ".join(f"x[0] {value} loom.float64(-{j}.0)" for j in range(N))
        assert run(f"    x[1] = loom.float64(1.0) if {terms} else loom.float64(0.0)") == wanted


@pytest.mark.parametrize("n", [0, 1, 120, 240, 500])
def test_a_chain_of_branches(n):
    branches = "".join(f"    elif n == {j + 1}:\n        x[1] = loom.float64({j}.5)\n" for j in range(240))
    body = f"    if n == 0:\n        x[1] = loom.float64(9.0)\n{branches}    else:\n        x[1] = loom.float64(-1.0)"
    assert run(body, n=n) == (9.0 if n == 0 else n - 0.5 if n <= 240 else -1.0)


def test_gradients_of_long_sums():
    terms = " + ".join(f"x[0] * {j % 5}.0" for j in range(N))
    kernel = sources.define(
        f"@loom.kernel\ndef k(x: loom.array(dtype=float), y: loom.array(dtype=float)):\n    y[0] = {terms}\n"
    )["k"]
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    with loom.Tape() as tape:
        loom.launch(kernel, 1, [x, y])
    tape.backward(grads=[(y, np.ones(1, np.float32))])
    assert y[0] == tape.gradients[x][0] == sum(j % 5 for j in range(N))
