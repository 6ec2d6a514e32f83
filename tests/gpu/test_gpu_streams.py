"""Streams and events: order, timing, current streams, and arrays that remember the streams that use them."""

import threading
import warnings

import numpy as np
import polyloom as loom
import pytest
from queue_kernels import double, spin


@loom.kernel
def add(x: loom.array(dtype=float), value: float):
    i = loom.tid()
    x[i] = x[i] + value


N = 1 << 14


@pytest.fixture
def long(small):
    """How often kernels go round that take some time."""
    return 20 if small else 200_000


def test_a_launch_copy_and_fill_take_a_stream(device):
    stream = loom.Stream(device)
    x, y = loom.zeros(N), loom.zeros(N)
    x.fill_(3.0, stream=stream)
    loom.launch(double, N, [x, y], stream=stream)
    loom.copy(x, y, stream=stream)
    loom.launch(add, N, [x, 1.0], stream=stream)
    stream.synchronize()
    assert stream.is_complete and stream.query() and stream.device == device
    np.testing.assert_array_equal(x.numpy(), np.full(N, 7, np.float32))
    y.assign(x, stream=stream).zero_(stream=stream)
    assert not y.numpy().any()


def test_a_stream_of_another_device_is_refused(device):
    stream, x = loom.Stream("cpu"), loom.zeros(4)
    with pytest.raises(ValueError, match=f"is one of device 'cpu', and the launch is on '{device}'"):
        loom.launch(add, 4, [x, 1.0], device=device, stream=stream)
    with pytest.raises(ValueError, match="is one of device 'cpu'"):
        x.fill_(1.0, stream=stream)
    with pytest.raises(TypeError, match="Stream, not int"):
        loom.launch(add, 4, [x, 1.0], stream=1)


def test_the_current_stream_is_where_everything_goes(device):
    default, stream = loom.get_stream(device), loom.Stream(device)
    assert default.cuda_stream == 0 and default == loom.Stream.default(device)
    with loom.ScopedStream(stream) as entered:
        assert entered is stream and loom.get_stream() is stream and loom.get_device() == device
        assert loom.get_device(device).stream is stream
        x = loom.full(N, 2.0)
        loom.launch(add, N, [x, 1.0])
        event = loom.record_event()
    assert loom.get_stream(device) is default
    loom.synchronize_event(event)
    assert event.is_complete and x.numpy()[-1] == 3.0
    loom.set_stream(stream, device, sync=True)
    loom.wait_event(event)
    loom.launch(add, N, [x, 1.0])
    loom.synchronize_stream(device)
    loom.set_stream(default)
    assert x.numpy()[0] == 4.0


def test_threads_have_current_streams_of_their_own(device):
    found = {}

    def other():
        found["other"] = loom.get_stream(device)

    with loom.ScopedStream(loom.Stream(device)) as stream:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert found["other"] != stream or not stream.device.is_cuda
    assert found["other"] == loom.Stream.default(device)


def test_events_order_and_time(device, long):
    first, second = loom.Stream(device), loom.Stream(device)
    x, y = loom.full(N, 3.0), loom.zeros(N)
    begin = first.record_event(loom.Event(device, enable_timing=True))
    loom.launch(spin, N, [x, long], stream=first)
    end = loom.Event(device, enable_timing=True)
    second.wait_stream(first, end)
    loom.launch(double, N, [x, y], stream=second)
    second.synchronize()
    assert end.query() and begin.elapsed_time(end) > 0
    assert loom.get_event_elapsed_time(begin, end) == begin.elapsed_time(end)
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())
    with pytest.raises(RuntimeError, match="measures no time"):
        begin.elapsed_time(first.record_event())
    with pytest.raises(RuntimeError, match="has not been recorded"):
        begin.elapsed_time(loom.Event(device, enable_timing=True))
    with pytest.raises(
        RuntimeError, match="cannot be recorded on stream from device 'cpu'|cannot be recorded on stream"
    ):
        loom.Stream("cpu").record_event(begin)
    assert loom.Event(device).is_complete


def test_priorities(device):
    urgent, usual = loom.Stream(device, priority=-1), loom.Stream(device)
    assert usual.priority == 0 and urgent.priority == (-1 if loom.get_device(device).is_cuda else 0)
    assert loom.Stream(device, priority=-1000).priority <= urgent.priority and usual.is_blocking
    with pytest.raises(TypeError, match="is an integer"):
        loom.Stream(device, priority=1.5)


def test_callbacks_come_in_order(device, long):
    stream, seen = loom.Stream(device), []
    x = loom.zeros(N)
    for number in range(3):
        loom.launch(spin, N, [x, long], stream=stream)
        stream.call(lambda number=number: seen.append(number))
    stream.synchronize()
    assert seen == [0, 1, 2]
    with pytest.raises(TypeError, match="calls a function"):
        stream.call(3)


def test_default_streams(device):
    legacy, own = loom.Stream.default(device), loom.Stream.of_thread(device)
    x = loom.zeros(N)
    for _ in range(3):
        loom.launch(add, N, [x, 1.0], stream=legacy)
        loom.launch(add, N, [x, 1.0], stream=own)
    own.synchronize()
    assert x.numpy()[7] == 6.0 and legacy.is_blocking and own.is_blocking
    if loom.get_device(device).is_cuda:
        assert (legacy.cuda_stream, own.cuda_stream) == (0, 2) and legacy != own


def test_an_array_orders_the_streams_that_use_it(device, long):
    """No event anywhere: a wait that is missing is a race, which the simulated driver reports, and a wrong result."""
    streams = [loom.Stream(device) for _ in range(3)]
    x, y = loom.full(N, 3.0), loom.zeros(N)
    for _ in range(4):
        loom.launch(spin, N, [x, long], stream=streams[0])
        loom.launch(double, N, [x, y], stream=streams[1])
        loom.launch(add, N, [x, 1.0], stream=streams[2])
        y[: N // 2].fill_(0.5, stream=streams[0])
    expect, half = np.full(1, 3.0, np.float32), None
    for _ in range(4):
        for _ in range(long):
            expect = expect * np.float32(0.999) + np.float32(0.001)
        half, expect = 2 * expect, expect + np.float32(1)
    np.testing.assert_array_equal(x.numpy(), np.full(N, expect[0]))
    np.testing.assert_array_equal(y.numpy()[N // 2 :], np.full(N // 2, half[0]))
    np.testing.assert_array_equal(y.numpy()[: N // 2], np.full(N // 2, 0.5, np.float32))


def test_memory_comes_back_after_the_streams_that_used_it(device, long):
    first, second = loom.Stream(device), loom.Stream(device)
    for _ in range(8):
        x, y = loom.full(N, 3.0), loom.zeros(N)
        loom.launch(spin, N, [x, long], stream=first)
        loom.launch(double, N, [x, y], stream=second)
        del x
        # Takes the memory of `x`, perhaps, which the second stream may still read.
        with loom.ScopedStream(first, sync_enter=False):
            z = loom.zeros(N)
        assert not z.numpy().any()
        del y, z


def test_fused_functions_and_operators_run_in_the_current_stream(device):
    ops = loom.ops

    @loom.fuse
    def blend(a, b):
        return ops.add(ops.multiply(a, 2.0), b)

    a, b = loom.full(N, 1.5), loom.full(N, 0.25)
    expect = blend(a, b).numpy()
    with loom.ScopedStream(loom.Stream(device)):
        loom.launch(add, N, [a, 1.0])
        found, summed = blend(a, b), a + b
    np.testing.assert_array_equal(found.numpy(), expect + 2)
    np.testing.assert_array_equal(summed.numpy(), np.full(N, 2.75, np.float32))


def test_recorded_launches_take_a_stream(device):
    x = loom.zeros(N)
    command = loom.launch(add, N, [x, 1.0], record_cmd=True)
    stream = loom.Stream(device)
    for _ in range(3):
        command.launch(stream=stream)
    with loom.ScopedStream(stream):
        command.launch()
    assert x.numpy()[0] == 4.0
    with pytest.raises(ValueError, match="is one of device 'cpu'"):
        command.launch(stream=loom.Stream("cpu"))


def test_streams_that_do_not_block_are_in_order_by_their_arrays(device, long):
    x, y = loom.full(N, 1.0), loom.zeros(N)
    loom.launch(spin, N, [x, long])
    apart = loom.Stream(device, blocking=False)
    assert apart.is_blocking != loom.get_device(device).is_cuda
    loom.launch(double, N, [x, y], stream=apart)
    loom.launch(add, N, [y, 1.0])
    loom.launch(double, N, [y, x], stream=apart)
    np.testing.assert_array_equal(x.numpy(), np.full(N, 6.0, np.float32))


def test_waits_for_arrays_are_told_in_debug_mode(cuda):
    first, second = loom.Stream(cuda), loom.Stream(cuda)
    x, y = loom.zeros(N), loom.zeros(N)
    loom.config.check = True
    try:
        loom.launch(add, N, [x, 1.0], stream=first)
        with pytest.warns(
            loom.StreamWarning, match=r"stream \d+ of 'cuda:0' waits for stream \d+ of 'cuda:0'.*double reads"
        ) as told:
            loom.launch(double, N, [x, y], stream=second)
        assert told[0].filename == __file__
        second.wait_stream(first)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loom.launch(double, N, [x, y], stream=second)
    finally:
        loom.config.check = False


def test_streams_of_other_packages(cuda):
    class Other:
        def __init__(self, handle):
            self.handle = handle

        def __cuda_stream__(self):
            return (0, self.handle)

    own = loom.Stream(cuda)
    seen = loom.Stream.of(Other(own.cuda_stream))
    assert seen.cuda_stream == own.cuda_stream and seen == own and loom.Stream.of(own) is own
    x = loom.zeros(N)
    loom.launch(add, N, [x, 1.0], stream=seen)
    seen.synchronize()
    assert x.numpy()[0] == 1.0
    with pytest.raises(TypeError, match="is no stream"):
        loom.Stream.of(object())
    with pytest.raises(loom.DeviceError, match="cannot use a stream of another library"):
        loom.Stream(cuda, cuda_stream=0xABCDE)


def test_the_array_interface_names_the_stream(cuda):
    stream, x = loom.Stream(cuda), loom.zeros(N)
    assert x.__cuda_array_interface__["stream"] == 1
    with loom.ScopedStream(stream):
        loom.launch(add, N, [x, 1.0])
        assert x.__cuda_array_interface__["stream"] == stream.cuda_stream

    class Foreign:
        """An array of another package, which fills it in a stream."""

        def __init__(self, of, in_stream):
            self.__cuda_array_interface__ = of.__cuda_array_interface__ | {"stream": in_stream}
            self.owner = of

    y = loom.array(Foreign(x, stream.cuda_stream), copy=False)
    loom.launch(add, N, [y, 1.0])
    assert x.numpy()[0] == 2.0 and y.ptr == x.ptr
