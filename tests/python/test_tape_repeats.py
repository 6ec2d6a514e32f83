"""Launches that a tape records again: of a kernel on arrays that it has been launched on before.

What they note is known from the launches before them, unless something is not as it was then.
"""

import threading

import numpy as np
import polyloom as loom
import pytest
from polyloom import float64 as f64

D = loom.array(dtype=f64)


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


def test_nothing_of_a_tape_outlives_it():
    import gc
    import weakref

    x, y = loom.array(np.array([3.0])), loom.zeros(1, dtype=f64)
    with loom.Tape() as tape:
        for _ in range(3):
            loom.launch(add_square, 1, [x], [y])
    held = weakref.ref(x)
    del tape, x
    gc.collect()
    assert held() is None
