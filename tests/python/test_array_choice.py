"""Arrays that a condition chooses, and structs with arrays that functions return."""

import numpy as np
import polyloom as loom
import pytest
from sources import define


def arrays():
    return np.array([1.0, 2.0, 3.0], np.float32), np.array([10.0, 20.0, 30.0], np.float32)


@loom.kernel
def both(c: bool, a: loom.array(dtype=float), b: loom.array(dtype=float), o: loom.array(dtype=float)):
    x = a if c else b
    y = b if c else a
    z = y
    s = 0.0
    for i in range(3):
        s += x[i] * 2.0 + y[i]
    if s > 100.0:
        x[0] = 9.0
    o[0] = s + z[0]
    if c:
        o[1] = 1.0
    else:
        o[1] = float(x.shape[0])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
@pytest.mark.parametrize("c", [True, False])
def test_an_array_chosen_by_a_condition_is_read_and_written(device, c):
    a, b = arrays()
    x, y = (a, b) if c else (b, a)
    expected = np.float32(np.sum(x * 2 + y) + y[0])
    chosen = x.copy()
    if expected - y[0] > 100:
        chosen[0] = 9.0
    o = np.zeros(2, np.float32)
    loom.launch(both, 1, [c, a, b, o], device=device)
    assert o.tolist() == [expected, 1.0 if c else 3.0]
    assert (a if c else b).tolist() == chosen.tolist()


@loom.kernel
def nested(
    n: int,
    a: loom.array(dtype=float),
    b: loom.array(dtype=float),
    d: loom.array(dtype=float),
    o: loom.array(dtype=float),
):
    i = loom.tid()
    x = a if n == i else (b if n < i else d)
    o[i] = x[i]


@loom.func
def sum_of(x: loom.array(dtype=float), n: int):
    s = 0.0
    for i in range(n):
        s += x[i]
    return s


@loom.kernel
def in_a_loop(a: loom.array2d(dtype=float), b: loom.array(dtype=float), o: loom.array(dtype=float)):
    for i in range(4):
        x = a[0] if i % 2 == 0 else b
        row = a[1]
        y = row if i % 2 == 0 else b
        if i == 3:
            break
        o[i] = sum_of(b, 2) + x[0] + y[1]


def test_choices_within_choices_and_within_loops():
    a, b = arrays()
    o = np.zeros(3, np.float32)
    loom.launch(nested, 3, [1, a, b, np.array([7.0, 8.0, 9.0], np.float32), o])
    assert o.tolist() == [7.0, 2.0, 30.0]


def test_parts_of_arrays_are_chosen_by_their_names():
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([10.0, 20.0], np.float32)

    @loom.kernel
    def parts(a: loom.array2d(dtype=float), b: loom.array(dtype=float), o: loom.array(dtype=float)):
        row = a[1]
        for i in range(4):
            y = row if i % 2 == 0 else b
            if i == 3:
                break
            o[i] = sum_of(y, 2)

    o = np.zeros(3, np.float32)
    loom.launch(parts, 1, [a, b, o])
    assert o.tolist() == [7.0, 30.0, 7.0]


def test_many_choices_by_one_parameter_stay_small():
    lines = "\n".join(f"    x{n} = a if c else b\n    s += x{n}[{n % 3}]" for n in range(40))
    text = (
        "A = loom.array(dtype=float)\n\n@loom.kernel\ndef k(c: bool, a: A, b: A, o: A):\n"
        f"    s = float(0.0)\n{lines}\n    o[0] = s\n"
    )
    kernel = define(text)["k"]
    assert len(kernel.hir().splitlines()) < 600
    a, b = arrays()
    o = np.zeros(1, np.float32)
    loom.launch(kernel, 1, [False, a, b, o])
    assert o[0] == sum(b[n % 3] for n in range(40))


def test_an_error_after_a_choice_is_told_once():
    text = """
        @loom.kernel
        def k(c: bool, a: loom.array(dtype=float), b: loom.array(dtype=float)):
            x = a if c else b
            x[0] = missing
    """
    with pytest.raises(loom.CompileError) as error:
        define(text)
    assert len(error.value.diagnostics) == 1


def test_a_gradient_flows_to_the_chosen_array():
    @loom.kernel
    def scaled(c: bool, a: loom.array(dtype=float), b: loom.array(dtype=float), o: loom.array(dtype=float)):
        i = loom.tid()
        x = a if c else b
        o[i] = 3.0 * x[i]

    a, b = (loom.array(each, requires_grad=True) for each in arrays())
    o = loom.zeros(3, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(scaled, 3, [False, a, b, o])
    tape.backward(grads={o: loom.ones(3)})
    assert a.grad.numpy().tolist() == [0.0] * 3
    assert b.grad.numpy().tolist() == [3.0] * 3


@loom.struct
class Geometry:
    position: loom.vec3
    values: loom.array(dtype=float)


@loom.func
def geometry(values: loom.array(dtype=float), x: float):
    made = Geometry()
    made.values = values
    made.position = loom.vec3(x, x, x)
    return made


@loom.func
def moved(of: Geometry, by: float):
    of.position = of.position + loom.vec3(by, by, by)
    return of


@loom.func
def without_values(x: float):
    made = Geometry()
    made.position = loom.vec3(x, x, x)
    return made


@loom.kernel
def through_functions(values: loom.array(dtype=float), other: Geometry, o: loom.array(dtype=float)):
    made = geometry(values, 1.0)
    further = moved(made, 2.0)
    o[0] = further.values[1] + further.position[0]
    o[1] = geometry(other.values, 5.0).values[0]
    bare = without_values(8.0)
    o[2] = bare.position[2]
    again = moved(other, 1.0)
    again.values[2] = 4.0


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_functions_return_structs_with_arrays_that_they_were_given(device):
    a, b = arrays()
    other = Geometry()
    other.values, other.position = loom.array(b, device=device), loom.vec3(0.0, 0.0, 0.0)
    o = np.zeros(3, np.float32)
    loom.launch(through_functions, 1, [a, other, o], device=device)
    assert o.tolist() == [5.0, 10.0, 8.0]
    assert other.values.numpy().tolist() == [10.0, 20.0, 4.0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    g.values = a[0]\n    return g", "part of an array"),
        (
            "    if x > 0.0:\n        return geometry(c, x)\n    return geometry(b, x)",
            "other arrays than another return",
        ),
        ("    y = c[1:]\n    return y", "cannot return array"),
    ],
)
def test_other_arrays_are_not_returned(body, message):
    text = (
        "A = loom.array(dtype=float)\n\n@loom.func\ndef f(a: loom.array2d(dtype=float), b: A, c: A, x: float):\n"
        f"    g = Geometry()\n{body}\n"
    )
    with pytest.raises(loom.CompileError, match=message):
        define(text, Geometry=Geometry, geometry=geometry)


@loom.func
def two_geometries(kind: int, a: loom.array(dtype=float), b: loom.array(dtype=float)) -> tuple[Geometry, Geometry]:
    first = Geometry()
    second = Geometry()
    first.position = loom.vec3(1.0, 2.0, 3.0)
    second.position = loom.vec3(4.0, 5.0, 6.0)
    if kind > 0:
        first.values = a
    second.values = b
    return first, second


@loom.func
def passed_on(kind: int, a: loom.array(dtype=float), b: loom.array(dtype=float)) -> tuple[Geometry, Geometry]:
    return two_geometries(kind, b, a)


@loom.func
def with_more(g: Geometry, by: float):
    if by > 100.0:
        return False, Geometry(), by
    changed = g
    changed.position[0] = g.position[0] + by
    return True, changed, by * 2.0


@loom.func
def itself(a: loom.array(dtype=float)):
    return a


@loom.kernel
def through_several(kind: int, a: loom.array(dtype=float), b: loom.array(dtype=float), o: loom.array(dtype=float)):
    first, second = two_geometries(kind, a, b)
    o[0] = first.values[0] + second.values[1] + second.position[2]
    third, fourth = passed_on(kind, a, b)
    o[1] = third.values[2] + fourth.values[2]
    is_there, fifth, twice = with_more(first, 10.0)
    if is_there:
        o[2] = fifth.position[0] + fifth.values[1] + twice + first.position[0]
    fifth.values[2] = 77.0
    whole = itself(a)
    o[3] = whole[2] + itself(b)[0]
    both = two_geometries(kind, b, a)
    o[4] = both[0].values[1] + both[1].values[0]
    for i in range(2):
        first, second = two_geometries(i, a, b)
        o[5] += second.values[i] + second.position[i]


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_functions_return_several_structs_with_arrays_and_arrays(device):
    a, b = arrays()
    o = np.zeros(6, np.float32)
    loom.launch(through_several, 1, [1, a, b, o], device=device)
    assert o.tolist() == [1 + 20 + 6, 30 + 3, 11 + 2 + 20 + 1, 77 + 10, 20 + 1, 10 + 4 + 20 + 5]
    assert a.tolist() == [1.0, 2.0, 77.0]


def test_gradients_flow_through_returned_arrays():
    @loom.kernel
    def scaled(a: loom.array(dtype=float), b: loom.array(dtype=float), o: loom.array(dtype=float)):
        i = loom.tid()
        first, second = two_geometries(1, a, b)
        o[i] = first.values[i] * second.values[i]

    a, b = (loom.array(each, requires_grad=True) for each in arrays())
    o = loom.zeros(3, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(scaled, 3, [a, b, o])
    tape.backward(grads={o: loom.ones(3)})
    assert a.grad.numpy().tolist() == [10.0, 20.0, 30.0]
    assert b.grad.numpy().tolist() == [1.0, 2.0, 3.0]


@loom.kernel
def by_statement(
    a: loom.array(dtype=float),
    b: loom.array(dtype=float),
    c: loom.array(dtype=float),
    which: int,
    out: loom.array(dtype=float),
):
    i = loom.tid()
    if which == 0:
        x = a
        factor = 1.0
    elif which == 1:
        x = b
        factor = 2.0
    else:
        x = c
        factor = 3.0
    out[i] = x[i] * factor
    x[i] = -1.0


@loom.kernel
def of_rows(a: loom.array2d(dtype=float), which: int, out: loom.array(dtype=float)):
    if which > 0:
        row = a[1]
    else:
        row = a[0, 1:]
    if which > 5:
        return
    for i in range(row.shape[0]):
        out[i] = row[i]


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_statements_choose_arrays(device):
    for which in range(3):
        arrays = [loom.full(3, value, dtype=float, device=device) for value in (10.0, 20.0, 30.0)]
        out = loom.zeros(3, dtype=float, device=device)
        loom.launch(by_statement, 3, [*arrays, which, out], device=device)
        assert out.list() == [(10.0 * (which + 1)) * (which + 1)] * 3
        assert [array.list()[0] for array in arrays] == [-1.0 if n == which else 10.0 * (n + 1) for n in range(3)]
    a = loom.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=float, device=device)
    for which, expected in ((0, [2.0, 3.0, 0.0]), (1, [4.0, 5.0, 6.0]), (6, [0.0, 0.0, 0.0])):
        out = loom.zeros(3, dtype=float, device=device)
        loom.launch(of_rows, 1, [a, which, out], device=device)
        assert out.list() == expected


def test_a_name_of_an_array_is_not_set_again():
    with pytest.warns(SyntaxWarning, match="cannot be assigned again"):

        @loom.kernel
        def again(a: loom.array(dtype=float), b: loom.array(dtype=float), which: int):
            x = a
            if which > 0:
                x = b
            x[0] = 1.0

    one = loom.zeros(1, dtype=float)
    with pytest.raises(loom.CompileError, match="`x` names an array and cannot be assigned again"):
        loom.launch(again, 1, [one, one, 1])
