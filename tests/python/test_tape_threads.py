"""Tapes in several Python threads: each records what its own thread does."""

import threading

import numpy as np
import polyloom as loom
import pytest
from tape_kernels import D, f64, square

X = np.array([1.0, 2.0, 3.0])


@loom.kernel
def add(a: D, b: D, c: D):
    i = loom.tid()
    c[i] = a[i] + b[i]


@loom.kernel
def fill(x: D):
    x[loom.thread_idx()] = f64(7.0)


def in_thread(function):
    """Runs a function in a thread of its own, and raises what it has raised."""
    raised = []

    def run():
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if raised:
        raise raised[0]


def test_one_goes_back_while_another_records():
    going, recorded = threading.Event(), threading.Event()
    q, z = loom.zeros(3, dtype=f64, requires_grad=True), loom.zeros(3, dtype=f64)

    def other():
        with loom.Tape() as tape:
            tape.record_func(lambda: (going.set(), recorded.wait(60)), [q])
            loom.launch(square, 3, [q], [z])
        tape.backward(grads={z: np.ones(3)})

    x, a, b, c = X.copy(), np.zeros(3), np.zeros(3), np.zeros(3)
    thread = threading.Thread(target=other)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x], [a])
        thread.start()
        assert going.wait(60)
        loom.launch(square, 3, [x], [b])
        recorded.set()
        thread.join(60)
        loom.launch(add, 3, [a, b], [c])
    assert not thread.is_alive()
    assert [each.name for each in tape.launches] == ["square", "square", "add"]
    tape.backward(grads=[(c, np.ones(3))])
    np.testing.assert_allclose(tape.gradients[x], 4 * X)


def test_launches_and_assignments_of_another_thread_are_not_recorded():
    y = loom.zeros(3, dtype=f64)

    def other():
        loom.launch(square, 3, [X.copy()], [y])
        y.fill_(1.0)
        # What a recording thread is refused.
        loom.launch(fill, inputs=[loom.zeros(3, dtype=f64)], grid=1, block=3)

    with loom.Tape() as tape:
        in_thread(other)
    assert not tape.launches


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_what_another_thread_overwrites_is_noticed(device):
    for is_recording in (False, True):
        x, y = loom.array(X, dtype=f64, device=device), loom.zeros(3, dtype=f64, device=device)

        def other(x=x, is_recording=is_recording):
            if is_recording:
                with loom.Tape():
                    x.fill_(2.0)
            else:
                x.fill_(2.0)

        with loom.Tape() as tape:
            loom.launch(square, 3, [x], [y], device=device)
            in_thread(other)
        with pytest.raises(RuntimeError, match="has overwritten an array that a recorded operation needs"):
            tape.backward(grads={y: np.ones(3)})


def test_a_tape_records_in_one_thread():
    def other():
        with tape:
            pass

    with loom.Tape() as tape, pytest.raises(RuntimeError, match="recording already"):
        in_thread(other)


def test_many_threads_at_once():
    def work():
        for step in range(1, 20):
            x, y = loom.array(step * X, dtype=f64, requires_grad=True), loom.zeros(3, dtype=f64)
            with loom.Tape() as tape:
                y.assign(x)
                loom.launch(square, 3, [x], [y])
                y *= 2.0
            tape.backward(grads={y: np.ones(3)})
            assert len(tape.launches) == 4
            np.testing.assert_allclose(x.grad.numpy(), 4 * step * X)

    errors = []

    def checked():
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=checked) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors and not any(thread.is_alive() for thread in threads)
