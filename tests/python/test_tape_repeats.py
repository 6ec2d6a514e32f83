"""Launches like those that a tape has recorded before: on the same arrays, or on others of the same layout.

What they note is known from the launches before them, unless something is not as it was then.
"""

import itertools
import threading

import numpy as np
import polyloom as loom
import pytest
from polyloom import float64 as f64

D = loom.array(dtype=f64)


@loom.kernel
def square(x: D, y: D):
    i = loom.tid()
    y[i] = x[i] * x[i]


@loom.kernel
def square_in_place(x: D):
    i = loom.tid()
    x[i] = x[i] * x[i]


@loom.kernel
def add_square(x: D, y: D):
    i = loom.tid()
    y[i] = y[i] + x[i] * x[i]


@loom.kernel
def scale(x: D, by: f64):
    i = loom.tid()
    x[i] = x[i] * by


@loom.kernel
def power(x: D, y: D, exponent: int):
    i = loom.tid()
    product = f64(1.0)
    for _ in range(exponent):
        product = product * x[i]
    y[i] = y[i] + product


def arrays(kind, *values):
    made = [np.array(each) for each in values]
    return made if kind == "numpy" else [loom.array(each) for each in made]


def numbers(of):
    return of if isinstance(of, np.ndarray) else of.numpy()


KINDS = pytest.mark.parametrize("kind", ["numpy", "package"])


@KINDS
def test_each_launch_counts(kind):
    x, y = arrays(kind, [3.0, 5.0], [0.0, 0.0])
    with loom.Tape() as tape:
        for _ in range(7):
            loom.launch(add_square, 2, [x], [y])
    assert len(tape.launches) == 7
    assert tape.memory.saved == 0
    tape.backward(grads=[(y, np.ones(2))])
    np.testing.assert_array_equal(numbers(tape.gradients[x]), [42.0, 70.0])


@KINDS
def test_what_is_overwritten_is_kept_each_time(kind):
    (x,) = arrays(kind, [1.01, 0.99, 1.02])
    start = np.array(numbers(x))
    with loom.Tape() as tape:
        for _ in range(5):
            loom.launch(square_in_place, 3, [x])
    assert [each.saved for each in tape.launches] == [24] * 5
    tape.backward(grads=[(x, np.ones(3))])
    np.testing.assert_allclose(numbers(tape.gradients[x]), 32.0 * start**31)


@KINDS
def test_launches_on_arrays_in_turn(kind):
    x, y = arrays(kind, [1.01, 0.99], [0.0, 0.0])
    start = np.array(numbers(x))
    with loom.Tape() as tape:
        for _ in range(6):
            loom.launch(square_in_place, 2, [x])
            loom.launch(add_square, 2, [x], [y])
    # The sum of the 4th, 8th, … 128th power.
    tape.backward(grads=[(y, np.ones(2))])
    wanted = sum(n * start ** (n - 1) for n in (4, 8, 16, 32, 64, 128))
    np.testing.assert_allclose(numbers(tape.gradients[x]), wanted)


def test_numbers_are_those_of_each_launch():
    x, y = np.array([2.0]), np.zeros(1)
    with loom.Tape() as tape:
        for factor in (1.5, 1.5, 1.5, 3.0, -2.0, 0.25, 1.5):
            loom.launch(scale, 1, [x, factor])
        for exponent in (2, 2, 2, 3, 2, 3, 3):
            loom.launch(power, 1, [x, y, exponent])
    value, factor = 2.0 * 1.5**4 * 3.0 * -2.0 * 0.25, 1.5**4 * 3.0 * -2.0 * 0.25
    assert x[0] == value
    tape.backward(grads=[(y, np.ones(1))])
    np.testing.assert_allclose(tape.gradients[x], [factor * (4 * 2 * value + 3 * 3 * value**2)])


@pytest.mark.parametrize("way", ["numpy", "package", "handed out", "launch"])
def test_changes_between_the_launches_are_found(way):
    x, y = arrays("numpy" if way == "numpy" else "package", [3.0], [0.0])
    with loom.Tape():
        for _ in range(4):
            loom.launch(add_square, 1, [x], [y])
        if way == "launch":
            loom.launch(scale, 1, [x, 2.0], record_tape=False)
        elif way != "package":
            numbers(x)[0] = 4.0
        if way == "package":
            x[0] = 4.0
            loom.launch(add_square, 1, [x], [y])
        else:
            with pytest.raises(RuntimeError, match="between operations of a tape"):
                loom.launch(add_square, 1, [x], [y])


def test_views_among_the_launches():
    x, y = np.array([1.5, 2.0, 3.0]), np.zeros(3)
    start = x.copy()
    with loom.Tape() as tape:
        for _ in range(3):
            loom.launch(add_square, 3, [x], [y])
        loom.launch(square_in_place, 2, [x[1:]])
        for _ in range(3):
            loom.launch(add_square, 3, [x], [y])
    tape.backward(grads=[(y, np.ones(3))])
    wanted = 6.0 * start + np.array([6.0, 12.0, 12.0]) * np.array([1.5, 8.0, 27.0])
    np.testing.assert_allclose(tape.gradients[x], wanted)


def test_scopes_name_each_launch():
    x, y = np.array([3.0]), np.zeros(1)
    with loom.Tape() as tape:
        for scope in ("first", "second"):
            tape.record_scope_begin(scope)
            for _ in range(3):
                loom.launch(add_square, 1, [x], [y])
            tape.record_scope_end()
        loom.launch(add_square, 1, [x], [y])
    names = [each.name for each in tape.launches]
    assert names == ["first/add_square"] * 3 + ["second/add_square"] * 3 + ["add_square"]


def test_what_fails_carries_nothing_back():
    @loom.kernel(check=True)
    def gather(index: loom.array(dtype=int), x: D):
        i = loom.tid()
        x[i] = x[i] * x[index[i]]

    x = loom.array(np.array([1.5]))
    index = loom.zeros(1, dtype=int)
    with loom.Tape() as tape:
        for _ in range(3):
            loom.launch(gather, 1, [index, x])
        index[0] = 7
        with pytest.raises(loom.LaunchError):
            loom.launch(gather, 1, [index, x])
        with pytest.raises(RuntimeError, match="'gather', which has failed, has changed"):
            loom.launch(gather, 1, [index, x])
    assert [each.name for each in tape.launches] == ["gather"] * 3 + ["fill", "gather"]


def test_a_reset_begins_anew():
    x, y = np.array([3.0]), np.zeros(1)
    tape = loom.Tape()
    for n in (3, 5):
        with tape:
            for _ in range(n):
                loom.launch(add_square, 1, [x], [y])
        assert len(tape.launches) == n
        tape.backward(grads=[(y, np.ones(1))])
        np.testing.assert_array_equal(tape.gradients[x], [n * 6.0])
        tape.reset()


def test_a_second_tape_is_told():
    x, y = np.array([3.0]), np.zeros(1)
    with loom.Tape() as first:
        for _ in range(3):
            loom.launch(add_square, 1, [x], [y])
    with loom.Tape() as second:
        for _ in range(3):
            loom.launch(square_in_place, 1, [x])
    with pytest.raises(RuntimeError, match="recorded elsewhere"):
        first.backward(grads=[(y, np.ones(1))])
    second.backward(grads=[(x, np.ones(1))])
    np.testing.assert_allclose(second.gradients[x], [8 * 3.0**7])


def test_a_tape_of_another_thread_that_begins_meanwhile_is_told():
    x, z = np.array([3.0]), np.zeros(1)
    has_begun, may_end, refused = threading.Event(), threading.Event(), []

    def other():
        with loom.Tape() as tape:
            loom.launch(add_square, 1, [x], [z])
            has_begun.set()
            may_end.wait(60)
        try:
            tape.backward(grads=[(z, np.ones(1))])
        except RuntimeError as error:
            refused.append(str(error))

    with loom.Tape() as tape:
        for _ in range(3):
            loom.launch(square_in_place, 1, [x])
        thread = threading.Thread(target=other)
        thread.start()
        assert has_begun.wait(60)
        loom.launch(square_in_place, 1, [x])
        may_end.set()
        thread.join()
    assert "recorded elsewhere" in refused[0]
    assert len(tape.launches) == 4


def test_gradients_that_are_asked_for_later():
    x, y = loom.array(np.array([3.0])), loom.zeros(1, dtype=f64)
    with loom.Tape() as tape:
        for _ in range(3):
            loom.launch(add_square, 1, [x], [y])
        x.requires_grad = True
        loom.launch(add_square, 1, [x], [y])
    tape.backward(grads=[(y, np.ones(1))])
    np.testing.assert_array_equal(x.grad.numpy(), [24.0])


@KINDS
def test_other_arrays_of_the_same_layout(kind):
    states = arrays(kind, *[np.array([1.01, 0.99, 1.02]) if not n else np.zeros(3) for n in range(6)])
    start = np.array(numbers(states[0]))
    with loom.Tape() as tape:
        for x, y in itertools.pairwise(states):
            loom.launch(square, 3, [x], [y])
    assert tape.memory.saved == 0
    assert len(tape.gradients) == 6
    tape.backward(grads=[(states[-1], np.ones(3))])
    np.testing.assert_allclose(numbers(tape.gradients[states[0]]), 32.0 * start**31)


def test_other_layouts():
    made = []
    with loom.Tape() as tape:
        for n in (2, 3, 2, 3, 4, 2, 3):
            x, y, z = np.full(n, 1.5), np.zeros(n), np.zeros(2 * n)[::2]
            loom.launch(square, n, [x], [y])
            loom.launch(square, n, [y], [z])
            made.append((x, z))
    tape.backward(grads=[(z, np.ones(len(z))) for _, z in made])
    for x, _ in made:
        np.testing.assert_array_equal(tape.gradients[x], np.full(len(x), 4.0 * 1.5**3))


def test_other_arrays_that_share_memory_are_refused():
    with loom.Tape():
        for _ in range(3):
            loom.launch(square, 2, [np.ones(2)], [np.zeros(2)])
        x = np.ones(4)
        with pytest.raises(ValueError, match="elements in common"):
            loom.launch(square, 2, [x[:2]], [x[1:3]])
        loom.launch(square, 2, [x[:2]], [x[2:]])


def test_windows_of_an_array_among_others():
    states = np.zeros((5, 2))
    states[0] = [1.01, 0.99]
    start = states[0].copy()
    with loom.Tape() as tape:
        for _ in range(3):
            loom.launch(square, 2, [np.ones(2)], [np.zeros(2)])
        for step in range(4):
            loom.launch(square, 2, [states[step]], [states[step + 1]])
        loom.launch(square, 2, [states[3]], [states[4]])
    tape.backward(grads=[(states[4], np.ones(2))])
    np.testing.assert_allclose(tape.gradients[states][0], 16.0 * start**15)


def test_numbers_with_other_arrays():
    made = [np.array([2.0]) for _ in range(5)]
    with loom.Tape() as tape:
        for number, x in enumerate(made):
            loom.launch(scale, 1, [x, 0.5 * number])
            loom.launch(scale, 1, [x, 3.0])
    tape.backward(grads=[(x, np.ones(1)) for x in made])
    for number, x in enumerate(made):
        np.testing.assert_allclose(tape.gradients[x], [1.5 * number])


def test_arrays_that_nobody_else_holds():
    """A tape holds what it was given, so that no other array comes to its address."""
    total = np.zeros(1)
    with loom.Tape() as tape:
        for number in range(50):
            loom.launch(add_square, 1, [np.array([float(number)])], [total])
    tape.backward(grads=[(total, np.ones(1))])
    found = sorted(float(tape.gradients[x][0]) for x in tape.gradients if x is not total)
    assert found == [2.0 * number for number in range(50)]


def test_changes_of_other_arrays_are_found():
    made = [np.ones(1) for _ in range(4)]
    with loom.Tape():
        for x, y in itertools.pairwise(made):
            loom.launch(square, 1, [x], [y])
        made[1][0] = 2.0
        with pytest.raises(RuntimeError, match="between operations of a tape"):
            loom.launch(square, 1, [made[1]], [made[0]])


def test_gradients_of_other_arrays_that_ask_for_them():
    made = [loom.array(np.array([1.5]), requires_grad=True) for _ in range(4)]
    with loom.Tape() as tape:
        for x, y in itertools.pairwise(made):
            loom.launch(square, 1, [x], [y])
    tape.backward(made[-1])
    np.testing.assert_allclose(made[0].grad.numpy(), [8.0 * 1.5**7])


def test_nothing_of_a_tape_outlives_it():
    import gc
    import weakref

    x, y = loom.array(np.array([3.0])), loom.zeros(1, dtype=f64)
    with loom.Tape() as tape:
        for _ in range(3):
            loom.launch(add_square, 1, [x], [y])
        # A method of the tape refers to it.
        tape.record_func(tape.zero, [loom.zeros(1, requires_grad=True)])
        for _ in range(3):
            loom.launch(add_square, 1, [x], [y])
    held = weakref.ref(x)
    del tape, x
    gc.collect()
    assert held() is None
