"""Graphs on a device: what is captured, what cannot be, updates, and graphs made operation by operation."""

import gc
import threading

import numpy as np
import polyloom as loom
import pytest


@loom.kernel
def add(x: loom.array(dtype=float), value: float):
    i = loom.tid()
    x[i] = x[i] + value


@loom.kernel
def double(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = 2.0 * x[i]


@loom.kernel(check=True)
def checked(x: loom.array(dtype=float), at: int):
    x[at] = 1.0


@loom.kernel
def printing(x: loom.array(dtype=float)):
    print(x[0])


N = 1000


def test_launches_copies_and_fills(device):
    x, y, z = loom.zeros(N), loom.zeros(N), loom.zeros((N, 3))
    with loom.ScopedCapture(device) as capture:
        loom.launch(add, N, [x, 1.0])
        loom.launch(double, N, [x, y])
        loom.copy(x, y)
        y.zero_()
        y[:10] = 5.0
        z[:, 1] = y
        x[3:5] = np.array([7.0, 8.0], np.float32)
    assert not x.numpy().any() and not y.numpy().any()
    for _ in range(2):
        loom.capture_launch(capture.graph)
    expect = np.full(N, 6.0, np.float32)
    expect[3:5] = [7, 8]
    np.testing.assert_array_equal(x.numpy(), expect)
    np.testing.assert_array_equal(y.numpy(), [5.0] * 10 + [0.0] * (N - 10))
    np.testing.assert_array_equal(z.numpy()[:, 1], y.numpy())
    assert len(capture.graph) >= 7 and capture.graph.explain() and capture.graph.device == device


def test_a_graph_runs_in_a_stream_in_order_with_its_arrays(device):
    x, y = loom.zeros(N), loom.zeros(N)
    with loom.ScopedCapture(device) as capture:
        loom.launch(add, N, [x, 1.0])
    streams = [loom.Stream(device) for _ in range(3)]
    for _ in range(4):
        for stream in streams:
            loom.capture_launch(capture.graph, stream=stream)
        loom.launch(double, N, [x, y], stream=streams[0])
    assert x.numpy()[0] == 12.0 and y.numpy()[0] == 24.0
    if loom.get_device(device).is_cuda:
        with pytest.raises(ValueError, match="is one of device 'cpu'"):
            loom.capture_launch(capture.graph, stream=loom.Stream("cpu"))


def test_fused_functions_plans_and_recorded_launches(device):
    ops = loom.ops

    @loom.fuse
    def blend(a, b):
        return ops.add(ops.multiply(a, 2.0), b)

    x, y, out = loom.full(N, 1.0), loom.full(N, 0.5), loom.zeros(N)
    plan = loom.Plan([loom.launch(add, N, [x, 1.0], record_cmd=True), loom.launch(add, N, [y, 1.0], record_cmd=True)])
    command = loom.launch(double, N, [out, y], record_cmd=True)
    blend(x, y)
    with loom.ScopedCapture("cuda:0" if loom.get_device(device).is_cuda else device) as capture:
        plan.launch()
        if loom.get_device(device).is_cuda:
            # Elsewhere a call of a fused function is done at once, with what the arrays hold.
            out.assign(blend(x, y))
        command.launch()
    for _ in range(2):
        loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 3.0
    if loom.get_device(device).is_cuda:
        # 2 * 2 + 1.5, doubled; then 2 * 3 + 12, doubled.
        assert (out.numpy()[0], y.numpy()[0]) == (6.0 + 12.0, 36.0)


def test_memory_that_a_graph_uses_lives_as_long(cuda):
    x = loom.zeros(N)
    with loom.ScopedCapture(cuda) as capture:
        temporary = loom.empty(N)
        loom.launch(double, N, [x, temporary])
        loom.launch(add, N, [temporary, 1.0])
        loom.copy(x, temporary)
        del temporary
    used = loom.memory_report()["devices"]["cuda:0"]["used"]
    others = [loom.full(N, 100.0) for _ in range(10)]
    for _ in range(3):
        loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 7.0 and all((each.numpy() == 100.0).all() for each in others)
    del others, capture
    gc.collect()
    assert loom.memory_report()["devices"]["cuda:0"]["used"] < used


def test_kernels_of_a_graph_live_as_long(cuda):
    def graph():
        @loom.kernel
        def halve(x: loom.array(dtype=float)):
            x[loom.tid()] *= 0.5

        loom.launch(halve, N, [x])
        with loom.ScopedCapture(cuda) as capture:
            loom.launch(halve, N, [x])
        return capture.graph

    x = loom.full(N, 8.0)
    made = graph()
    gc.collect()
    loom.capture_launch(made)
    assert x.numpy()[0] == 2.0


def test_what_cannot_be_captured_is_an_error_at_its_line(cuda):
    x, host = loom.zeros(N), np.zeros(N, np.float32)
    stream, event = loom.Stream(cuda), loom.Event(cuda, enable_timing=True)
    refused = [
        (lambda: x.numpy(), "a copy to the host"),
        (lambda: x[0], "a copy to the host"),
        (lambda: loom.launch(add, N, [host, 1.0]), "a launch of `add`, which is given arrays of the host"),
        (lambda: loom.launch(checked, 1, [x, 0]), "a launch of `checked`, which has checks or prints"),
        (lambda: loom.launch(printing, 1, [x]), "a launch of `printing`, which has checks or prints"),
        (lambda: loom.synchronize_stream(), "waiting for a stream"),
        (lambda: loom.synchronize(), "waiting for the device"),
        (lambda: loom.get_stream().query(), "asking whether a stream"),
        (lambda: loom.get_stream().call(print), "a call of a function of the host"),
    ]
    with loom.ScopedCapture(cuda) as capture:
        loom.launch(add, N, [x, 1.0])
        for ask, message in refused:
            with pytest.raises((loom.DeviceError, loom.LaunchError), match=f"cannot capture {message}"):
                ask()
        loom.launch(add, N, [x, 1.0])
    # None of it has ended the capture, nor become part of it.
    loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 2.0 and len(capture.graph) == 2
    with pytest.raises(loom.DeviceError), loom.ScopedCapture(cuda):
        # A stream that takes part by an event, and is not waited for.
        stream.wait_event(loom.record_event())
        loom.launch(add, N, [x, 1.0], stream=stream)
    loom.launch(add, N, [x, 1.0])
    assert x.numpy()[0] == 3.0 and event.is_complete


def test_a_capture_that_fails_leaves_everything_usable(device):
    x = loom.zeros(N)
    with pytest.raises(KeyError), loom.ScopedCapture(device):
        loom.launch(add, N, [x, 1.0])
        raise KeyError
    loom.launch(add, N, [x, 1.0])
    assert x.numpy()[0] == 1.0 and loom.get_stream(device) == loom.Stream.default(device)
    with pytest.raises(RuntimeError, match="captures no graph"):
        loom.capture_end(device)
    loom.capture_begin(device)
    with pytest.raises(RuntimeError, match="already"):
        loom.capture_begin(device)
    assert len(loom.capture_end(device)) == 0


def test_streams_that_fork_and_join(device):
    x, y = loom.zeros(N), loom.zeros(N)
    side = loom.Stream(device)
    with loom.ScopedCapture(device) as capture:
        origin = loom.get_stream(device)
        loom.launch(add, N, [x, 1.0])
        side.wait_event(origin.record_event())
        loom.launch(double, N, [x, y], stream=side)
        if loom.get_device(device).is_cuda:
            assert side.is_capturing and origin.is_capturing
        origin.wait_stream(side)
        loom.launch(add, N, [x, 1.0])
    loom.capture_launch(capture.graph)
    assert (x.numpy()[0], y.numpy()[0]) == (2.0, 2.0) and not side.is_capturing


def test_a_given_stream_is_captured(device):
    stream, x = loom.Stream(device), loom.zeros(N)
    with loom.ScopedCapture(stream=stream) as capture:
        if loom.get_device(device).is_cuda:
            assert stream.is_capturing and loom.get_stream(device) is stream
        loom.launch(add, N, [x, 1.0])
    loom.capture_launch(capture.graph, stream=stream)
    stream.synchronize()
    assert x.numpy()[0] == 1.0


def test_graphs_within_graphs(device):
    x = loom.zeros(N)
    with loom.ScopedCapture(device) as inner:
        loom.launch(add, N, [x, 1.0])
    with loom.ScopedCapture(device) as outer:
        loom.capture_launch(inner.graph)
        loom.launch(add, N, [x, 10.0])
        loom.capture_launch(inner.graph)
    assert x.numpy()[0] == 0.0
    loom.capture_launch(outer.graph)
    assert x.numpy()[0] == 12.0


def test_arguments_are_replaced_without_a_new_graph(device):
    x, y = loom.zeros(N), loom.zeros(N)

    def capture(array, value, twice=False):
        with loom.ScopedCapture(device) as captured:
            loom.launch(add, N, [array, value])
            array[:5] = 0.0
            if twice:
                loom.launch(add, N, [array, value])
        return captured.graph

    graph = capture(x, 1.0)
    loom.capture_launch(graph)
    graph.update(capture(y, 3.0))
    gc.collect()
    loom.capture_launch(graph)
    assert (x.numpy()[7], y.numpy()[7], y.numpy()[0]) == (1.0, 3.0, 0.0)
    with pytest.raises(ValueError, match="same operations"):
        graph.update(capture(x, 1.0, twice=True))
    loom.capture_launch(graph)
    assert y.numpy()[7] == 6.0


def test_a_graph_made_operation_by_operation(device):
    x, y, z = loom.zeros(N), loom.zeros(N), loom.zeros(N)
    builder = loom.GraphBuilder(device)
    first = builder.fill(x, 3.0)
    left = builder.launch(double, N, [x, y], after=[first])
    right = builder.copy(z, x, after=[first])
    last = builder.launch(add, N, [z, 1.0], after=[left, right])
    graph = builder.finish()
    loom.capture_launch(graph)
    assert (x.numpy()[0], y.numpy()[0], z.numpy()[0]) == (3.0, 6.0, 4.0) and len(builder) == 4
    builder.replace_launch(last, add, N, [z, 10.0])
    builder.update(graph)
    loom.capture_launch(graph)
    assert z.numpy()[0] == 13.0
    with pytest.raises(ValueError, match="of the same builder"):
        loom.GraphBuilder(device).fill(x, 1.0, after=[first])


def test_recording_tapes_and_graphs(device):
    x = loom.full(4, 3.0, requires_grad=True)
    y = loom.zeros(4, requires_grad=True)
    with loom.ScopedCapture("cpu" if loom.get_device(device).is_cuda else device) as capture:
        loom.launch(double, 4, [x, y], device=device)
    with loom.Tape() as tape:
        loom.capture_launch(capture.graph)
    tape.backward(grads={y: loom.ones(4)})
    assert x.grad.numpy().tolist() == [2.0] * 4


@loom.kernel
def count_down(left: loom.array(dtype=int), x: loom.array(dtype=float)):
    left[0] = left[0] - 1
    x[0] = x[0] + 10.0


def test_branches(device):
    flag, x = loom.ones(1, dtype=int), loom.zeros(N)

    def undo(value):
        # The other branch must not run because of it.
        flag.zero_()
        loom.launch(add, N, [x, value])

    with loom.ScopedCapture(device) as inner:
        loom.launch(add, N, [x, 100.0])
    with loom.ScopedCapture(device) as capture:
        loom.capture_if(flag, undo, inner.graph, value=1.0)
        loom.launch(add, N, [x, 0.5])
    assert not x.numpy().any()
    loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 1.5 and flag.numpy()[0] == 0
    loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 102.0 and loom.is_conditional_graph_supported()
    with pytest.raises(TypeError, match="takes an array of int32"):
        loom.capture_if(x, undo)


def test_loops(device):
    left, x = loom.full(1, 4, dtype=int), loom.zeros(1)
    with loom.ScopedCapture(device) as capture:
        loom.capture_while(left, lambda: loom.launch(count_down, 1, [left, x]))
        loom.launch(add, 1, [x, 1.0])
    loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 41.0
    loom.capture_launch(capture.graph)
    left.fill_(2)
    loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 63.0
    left.fill_(3)
    loom.capture_while(left, lambda: loom.launch(count_down, 1, [left, x]))
    assert x.numpy()[0] == 93.0


def test_loops_within_branches(device):
    flag, left, x = loom.ones(1, dtype=int), loom.full(1, 3, dtype=int), loom.zeros(1)

    def body():
        loom.capture_while(left, lambda: loom.launch(count_down, 1, [left, x]))
        temporary = x + 1.0 if loom.get_device(device).is_cuda else None
        if temporary is not None:
            loom.copy(x, temporary)
        else:
            loom.launch(add, 1, [x, 1.0])

    with loom.ScopedCapture(device) as capture:
        loom.capture_if(flag, body)
    loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 31.0
    flag.zero_()
    loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 31.0
    with pytest.raises(KeyError), loom.ScopedCapture(device):

        def failing():
            raise KeyError

        loom.capture_if(flag, failing)
    flag.fill_(1)
    loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 32.0


def test_other_threads_go_on_while_one_captures(device):
    x, y = loom.zeros(N), loom.zeros(N)

    def other():
        for _ in range(3):
            loom.launch(add, N, [y, 1.0], device=device)
        found.append(float(y.numpy()[0]))

    found = []
    with loom.ScopedCapture(device) as capture:
        loom.launch(add, N, [x, 1.0])
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        loom.launch(add, N, [x, 1.0])
    loom.capture_launch(capture.graph)
    assert found == [3.0] and x.numpy()[0] == 2.0
