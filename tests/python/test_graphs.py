"""Launches that are recorded: graphs, and commands. Results are Warp 1.19's on the CPU."""

from __future__ import annotations

import threading

import numpy as np
import polyloom as loom
import pytest


@loom.kernel
def add(x: loom.array(dtype=float), s: float):
    i = loom.tid()
    x[i] = x[i] + s


@loom.struct
class Step:
    by: float


@loom.kernel
def add_step(x: loom.array(dtype=float), step: Step):
    i = loom.tid()
    x[i] = x[i] + step.by


@loom.kernel
def square(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = x[i] * x[i]


def test_nothing_runs_until_a_graph_is_launched():
    x, y = loom.zeros(2), loom.zeros(2)
    with loom.ScopedCapture() as capture:
        loom.launch(add, 2, [x, 1.0])
        loom.copy(y, x)
        x.zero_()
        loom.launch(add, 2, [x, 5.0])
    np.testing.assert_array_equal(x.numpy(), [0, 0])
    loom.capture_launch(capture.graph)
    np.testing.assert_array_equal([x.numpy(), y.numpy()], [[5, 5], [1, 1]])
    loom.capture_launch(capture.graph)
    np.testing.assert_array_equal([x.numpy(), y.numpy()], [[5, 5], [6, 6]])
    assert len(capture.graph) == 4 and not capture.active


def test_assignments_and_numbers_are_those_of_the_capture():
    x, s, step = loom.zeros(3), 1.0, Step(2.0)
    with loom.ScopedCapture() as capture:
        x[1:] = 3.0
        loom.launch(add, 3, [x, s])
        loom.launch(add_step, 3, [x, step])
    step.by = 100.0
    loom.capture_launch(capture.graph)
    np.testing.assert_array_equal(x.numpy(), [3, 6, 6])


def test_graphs_within_graphs():
    x = loom.zeros(1)
    with loom.ScopedCapture() as inner:
        loom.launch(add, 1, [x, 1.0])
    with loom.ScopedCapture() as outer:
        loom.capture_launch(inner.graph)
        loom.capture_launch(inner.graph)
    assert x.numpy()[0] == 0
    loom.capture_launch(outer.graph)
    assert x.numpy()[0] == 2


def test_captures_are_of_a_thread_and_end_with_an_error():
    x = loom.zeros(1)
    with pytest.raises(KeyError), loom.ScopedCapture():
        thread = threading.Thread(target=lambda: loom.launch(add, 1, [x, 1.0]))
        thread.start()
        thread.join()
        raise KeyError
    loom.launch(add, 1, [x, 1.0])
    assert x.numpy()[0] == 2
    with pytest.raises(RuntimeError, match="captures no graph"):
        loom.capture_end()
    loom.capture_begin()
    with pytest.raises(RuntimeError, match="already"):
        loom.capture_begin()
    with pytest.raises(TypeError):  # wrong arguments are told where they stand
        loom.launch(add, 1, [x, "1"])
    assert len(loom.capture_end()) == 0
    with pytest.raises(TypeError, match="stream is a Stream, not int"):
        loom.capture_begin(stream=1)
    with pytest.raises(TypeError, match="takes a graph"):
        loom.capture_launch(None)


def test_a_tape_records_a_graph_where_it_is_launched():
    x, y = loom.array([1.0, 2.0], dtype=float, requires_grad=True), loom.zeros(2, requires_grad=True)
    with loom.ScopedCapture() as capture:
        loom.launch(square, 2, [x, y])
    with loom.Tape() as tape:
        loom.capture_launch(capture.graph)
    tape.backward(grads={y: loom.ones(2)})
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4])


def test_recorded_launches_see_what_becomes_of_a_struct():
    x, step = loom.zeros(1), Step(1.0)
    command = loom.launch(add_step, 1, [x, step], record_cmd=True)
    command.launch()
    step.by = 10.0
    command.launch()
    assert x.numpy()[0] == 11
    command.set_param_by_name("step", Step(100.0))
    command.launch()
    assert x.numpy()[0] == 111


def test_launches_made_without_arguments():
    command = loom.Launch(add)
    assert isinstance(command, loom.Launch)
    command.launch()  # over no threads
    x = loom.zeros(2)
    command.set_dim(2)
    command.set_param_by_name("x", x)
    command.launch()
    np.testing.assert_array_equal(x.numpy(), [0, 0])
    command.set_param_by_name("s", 2.0)
    command.launch()
    np.testing.assert_array_equal(x.numpy(), [2, 2])
    with pytest.raises(TypeError, match="makes no structs"):
        loom.Launch(add_step)


def test_recorded_gradients():
    x, y = loom.array([1.0, 2.0], dtype=float, requires_grad=True), loom.zeros(2, requires_grad=True)
    y.grad.fill_(1.0)
    command = loom.launch(square, 2, [x], [y], adjoint=True, record_cmd=True)
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0])
    command.launch()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4])
    made = loom.Launch(square, "cpu", adjoint=True)
    u, v = loom.array([4.0, 5.0, 6.0], dtype=float), loom.zeros(3)
    of_u, of_v = loom.zeros(3), loom.ones(3)
    for name, value, adjoint in [("x", u, of_u), ("y", v, of_v)]:
        made.set_param_by_name(name, value)
        made.set_param_by_name(name, adjoint, adjoint=True)
    made.set_dim(3)
    made.launch()
    np.testing.assert_array_equal(of_u.numpy(), [8, 10, 12])
    with pytest.raises(ValueError, match="no parameter 'z'"):
        made.set_param_by_name("z", u)
    with pytest.raises(IndexError):
        made.set_param_at_index(2, u)


def test_recorded_launches_and_plans_within_a_capture_are_parts_of_the_graph():
    x, step, seen = loom.zeros(2), Step(2.0), []
    command = loom.launch(add, 2, [x, 1.0], record_cmd=True)
    of_struct = loom.launch(add_step, 2, [x, step], record_cmd=True)
    plan = loom.Plan([command, lambda: seen.append(x.list()), of_struct])
    with loom.ScopedCapture() as capture:
        command.launch()
        plan.launch()
    assert x.list() == [0, 0] and not seen and len(capture.graph) == 4
    # The graph has the numbers of the capture.
    command.set_param_by_name("s", 100.0)
    step.by = 100.0
    loom.capture_launch(capture.graph)
    assert x.list() == [4, 4] and seen == [[2, 2]]
    plan.launch()
    assert x.list() == [204, 204]


def test_gradients_within_a_capture_are_parts_of_the_graph():
    x, y = loom.array([1.0, 2.0], dtype=float, requires_grad=True), loom.zeros(2, requires_grad=True)
    y.grad.fill_(1.0)
    command = loom.launch(square, 2, [x], [y], adjoint=True, record_cmd=True)
    with loom.ScopedCapture() as capture:
        y.grad.fill_(2.0)
        memory = loom.launch(square, 2, [x], [y], adjoint=True)
        y.grad.fill_(1.0)
        command.launch()
    assert memory == (0, 0, 0) and x.grad.list() == [0, 0] and len(capture.graph) == 4
    loom.capture_launch(capture.graph)
    assert x.grad.list() == [2 * (2 + 1), 4 * (2 + 1)]


def test_recorded_gradients_take_numbers_by_value():
    @loom.kernel
    def scale(s: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = s * x[i]

    x, y = loom.ones(2, requires_grad=True), loom.zeros(2, requires_grad=True)
    y.grad.fill_(1.0)
    s = np.array(3.0)
    command = loom.launch(scale, 2, [s, x], [y], adjoint=True, record_cmd=True)
    s[()] = 100.0
    command.launch()
    assert x.grad.list() == [3, 3]
    s[()] = 4.0
    command.set_param_by_name("s", s)
    s[()] = 100.0
    y.grad.fill_(1.0)
    command.launch()
    assert x.grad.list() == [7, 7]
