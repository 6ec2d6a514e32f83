"""Streams and events: work of a device in order, and places in it.

A stream of a GPU is the driver's; the CPU and the simulator do everything at once, so that theirs are always done.
Each thread has a current stream of each device, which everything goes to that names none. Arrays remember the streams
that use them: what is asked of one waits for what another one has written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from polyloom import _native
from polyloom._devices import Device, DeviceLike, ScopedDevice, get_device

__all__ = [
    "Event",
    "ScopedStream",
    "Stream",
    "get_event_elapsed_time",
    "get_stream",
    "record_event",
    "set_stream",
    "synchronize_event",
    "synchronize_stream",
    "wait_event",
    "wait_stream",
]


class Event:
    """A place in the work of a stream, once it is recorded. It may be recorded again, which moves it.

    Parameters
    ----------
    device : str, optional
        The device of the streams that it is recorded in; by default the one that `set_device` names.
    cuda_event : None
        Events of other libraries are not taken.
    enable_timing : bool
        Whether the time between it and another such event can be asked.
    interprocess : bool
        Whether other processes may use it: they may not.

    Examples
    --------
    >>> import polyloom as loom
    >>> stream = loom.Stream()
    >>> begin = stream.record_event(loom.Event(enable_timing=True))
    >>> x = loom.zeros(4)
    >>> end = stream.record_event(loom.Event(enable_timing=True))
    >>> begin.elapsed_time(end) >= 0.0, end.is_complete
    (True, True)
    """

    def __init__(
        self,
        device: DeviceLike = None,
        cuda_event: Any = None,
        enable_timing: bool = False,
        interprocess: bool = False,
    ) -> None:
        if cuda_event is not None or interprocess:
            raise NotImplementedError("events of other libraries and of other processes are not there")
        self.device = get_device(device)
        self.enable_timing = enable_timing
        self._place: _native.QueueEvent | None = None

    def _recorded(self) -> _native.QueueEvent:
        if self._place is None:
            raise RuntimeError("the event has not been recorded: call record_event of a stream first")
        return self._place

    @property
    def cuda_event(self) -> int:
        """The driver's handle, a `CUevent`; 0 where there is none, and before the event is recorded."""
        return 0 if self._place is None else self._place.handle

    @property
    def is_complete(self) -> bool:
        """Whether everything before it is done. One that was never recorded is."""
        return self._place is None or self._place.is_done

    def query(self) -> bool:
        """`is_complete`."""
        return self.is_complete

    def synchronize(self) -> None:
        """Waits until everything before it is done."""
        if self._place is not None:
            self._place.synchronize()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to a later one, which is waited for.

        Raises
        ------
        RuntimeError
            If one was not recorded or does not measure time.
        """
        for event in (self, end):
            if not event.enable_timing:
                raise RuntimeError("the event measures no time: make it with Event(enable_timing=True)")
        return 1e3 * end._recorded().seconds_since(self._recorded())

    def __repr__(self) -> str:
        state = "not recorded" if self._place is None else "recorded"
        return f"<event of {self.device}, {state}>"


class Stream:
    """Work of a device, in order. Work of two streams is in no order but by events, by the default stream, which
    other streams wait for and which waits for them, and by arrays that both use.

    Parameters
    ----------
    device : str, optional
        The device; by default the one that `set_device` names.
    priority : int
        Work of streams with lower numbers comes first. The device has some numbers, 0 and below; others become the
        nearest.
    cuda_stream : int, optional
        Handle of a stream of another library, which keeps it as long as this is used; 1 is the default stream, and 2
        that of the calling thread (CUDA's legacy and per-thread default streams).
    blocking : bool
        False for a stream that is in no order with the default stream.

    Examples
    --------
    >>> import polyloom as loom
    >>> @loom.kernel
    ... def double(x: loom.array(dtype=float)):
    ...     x[loom.tid()] *= 2.0
    >>> x = loom.ones(3)
    >>> stream = loom.Stream()
    >>> loom.launch(double, 3, [x], stream=stream)
    >>> stream.synchronize()
    >>> x.numpy()
    array([2., 2., 2.], dtype=float32)
    """

    def __init__(
        self,
        device: DeviceLike = None,
        priority: int = 0,
        *,
        cuda_stream: int | None = None,
        blocking: bool = True,
    ) -> None:
        self.device = get_device(device)
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(f"the priority of a stream is an integer, not {type(priority).__name__}")
        if cuda_stream is None:
            self._queue = _native.Queue(self.device, priority, blocking)
        elif self.device.is_cuda:
            self._queue = _native.Queue.of_handle(self.device, int(cuda_stream))
        else:
            raise ValueError(f"device '{self.device}' has no streams of other libraries")
        # A stream of another package, kept.
        self._source: Any = None

    @classmethod
    def _of_queue(cls, device: Device, queue: _native.Queue) -> Stream:
        made = cls.__new__(cls)
        made.device, made._queue, made._source = device, queue, None
        return made

    @classmethod
    def default(cls, device: DeviceLike = None) -> Stream:
        """The default stream of a device, which all other streams but non-blocking ones are in order with."""
        where = get_device(device)
        known = _defaults.get(where)
        if known is None:
            known = _defaults[where] = cls._of_queue(where, _native.Queue.standing(where))
        return known

    @classmethod
    def of_thread(cls, device: DeviceLike = None) -> Stream:
        """The calling thread's own default stream of a device, to be used in this thread."""
        where = get_device(device)
        return cls._of_queue(where, _native.Queue.standing(where, of_thread=True))

    @classmethod
    def of(cls, stream: Any, device: DeviceLike = None) -> Stream:
        """A stream of another package: of PyTorch, CuPy, or whatever has `__cuda_stream__`; a `Stream` as it is.

        Parameters
        ----------
        stream : object
            The stream.
        device : str, optional
            Its device, if it does not say.
        """
        if isinstance(stream, cls):
            return stream
        number = getattr(getattr(stream, "device", None), "index", None)
        number = getattr(stream, "device_id", number)
        if device is None and isinstance(number, int) and number >= 0:
            device = f"cuda:{number}"
        protocol = getattr(stream, "__cuda_stream__", None)
        if protocol is not None:
            # The protocol has a function, and PyTorch and early CuPy a value.
            _, handle = protocol() if callable(protocol) else protocol
        else:
            # PyTorch says `cuda_stream`, CuPy `ptr`.
            handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
        if not isinstance(handle, int):
            raise TypeError(f"{type(stream).__name__} is no stream of a GPU: it has no __cuda_stream__")
        where = get_device(device)
        if not where.is_cuda:
            where = get_device("cuda:0")
        made = cls(where, cuda_stream=handle)
        made._source = stream
        return made

    @property
    def cuda_stream(self) -> int:
        """The driver's handle, a `CUstream`; 0 of a default stream, and where there is none."""
        return self._queue.handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._queue.handle)

    @property
    def priority(self) -> int:
        """The priority that it has."""
        return self._queue.priority

    @property
    def is_blocking(self) -> bool:
        """Whether it is in order with the default stream. Streams of other packages may not be."""
        return self._queue.is_blocking

    @property
    def is_complete(self) -> bool:
        """Whether everything in it is done."""
        return self._queue.is_done

    def query(self) -> bool:
        """`is_complete`."""
        return self.is_complete

    @property
    def is_capturing(self) -> bool:
        """Whether what is asked of it becomes part of a graph."""
        return self._queue.is_capturing

    def synchronize(self) -> None:
        """Waits until everything in it is done.

        Raises
        ------
        DeviceError
            What went wrong in kernels that ran meanwhile.
        """
        self._queue.synchronize()

    def record_event(self, event: Event | None = None, external: bool = False) -> Event:
        """Records an event after what is in the stream now, a new one if none is given, and gives it.

        Raises
        ------
        RuntimeError
            If it is one of another device.
        """
        if event is None:
            event = Event(self.device)
        if event.device != self.device:
            raise RuntimeError(
                f"Event from device {event.device} cannot be recorded on stream from device {self.device}"
            )
        event._place = self._queue.record(event.enable_timing)
        return event

    def wait_event(self, event: Event, external: bool = False) -> None:
        """Has what is asked of the stream from now on wait for an event, of whatever device. One that was never
        recorded is over."""
        if event._place is not None:
            self._queue.wait(event._place)

    def wait_stream(self, other_stream: Stream, event: Event | None = None, external: bool = False) -> None:
        """Has what is asked of the stream from now on wait for what is in another one now, whose place `event`
        becomes."""
        self.wait_event(other_stream.record_event(event))

    def call(self, function: Callable[[], Any]) -> None:
        """Calls a function of the host after what is in the stream now, and before what is asked of it later.

        It is called in a thread of the driver's, and must not use the device. An exception in it goes to
        `sys.unraisablehook`.
        """
        self._queue.call(function)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        is_same_queue = self._queue is other._queue
        return is_same_queue or (self.device == other.device and self.device.is_cuda and self._is_handle_of(other))

    def _is_handle_of(self, other: Stream) -> bool:
        return self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash((self.device, self.cuda_stream if self.device.is_cuda else id(self._queue)))

    def __repr__(self) -> str:
        return f"<stream 0x{self.cuda_stream:x} of {self.device}>"


# The default streams of devices.
_defaults: dict[str, Stream] = {}


class StreamScope:
    """What is asked within it goes to a stream, without another device by default; with None nothing changes."""

    def __init__(self, stream: Stream | None, *devices: Device) -> None:
        if stream is not None:
            if not isinstance(stream, Stream):
                raise TypeError(f"stream is a Stream, not {type(stream).__name__}: make one of it with Stream.of")
            if stream.device not in devices:
                raise ValueError(f"the stream is one of device '{stream.device}', and no array is there")
        self._stream = stream
        self._before: _native.Queue | None = None

    def __enter__(self) -> None:
        if self._stream is not None:
            self._before = self._stream._queue.make_current()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            self._before.make_current()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.current: dict[str, Stream] = {}


_thread = _Thread()


def get_stream(device: DeviceLike = None) -> Stream:
    """The current stream of a device in this thread: the default one unless `set_stream` or `ScopedStream` says
    otherwise.

    Examples
    --------
    >>> import polyloom as loom
    >>> stream = loom.Stream("cpu")
    >>> with loom.ScopedStream(stream):
    ...     loom.get_stream("cpu") is stream
    True
    """
    where = get_device(device)
    known = _thread.current.get(where)
    if known is None:
        known = _thread.current[where] = Stream.default(where)
    return known


def set_stream(stream: Stream, device: DeviceLike = None, sync: bool = False) -> None:
    """Makes a stream the current one of its device in this thread.

    Parameters
    ----------
    stream : Stream
        The stream.
    device : str, optional
        Its device, which it must be of; by default it is not compared.
    sync : bool
        Whether the stream waits for the one that was current.
    """
    if not isinstance(stream, Stream):
        raise TypeError(f"set_stream() takes a Stream, not {type(stream).__name__}: make one of it with Stream.of")
    if device is not None and get_device(device) != stream.device:
        raise RuntimeError(
            f"Stream from device {stream.device} cannot be set as the one of device {get_device(device)}"
        )
    if sync:
        before = get_stream(stream.device)
        if before is not stream:
            stream.wait_stream(before)
    _thread.current[stream.device] = stream
    stream._queue.make_current()


class ScopedStream:
    """Makes a stream the current one of its device, and the device the default one, in the body of a `with` statement.

    Parameters
    ----------
    stream : Stream or None
        The stream; with None nothing changes.
    sync_enter, sync_exit : bool
        Whether the stream waits for the one that was current, and that one for it afterwards.

    Examples
    --------
    >>> import polyloom as loom
    >>> with loom.ScopedStream(loom.Stream("sim:0")):
    ...     x = loom.zeros(3)
    >>> x.device
    'sim:0'
    """

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        self.stream = stream
        self.sync_enter, self.sync_exit = sync_enter, sync_exit
        self.saved_stream: Stream | None = None
        if stream is not None:
            self.device = stream.device
            self._device_scope = ScopedDevice(stream.device)

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            self._device_scope.__enter__()
            self.saved_stream = get_stream(self.device)
            set_stream(self.stream, sync=self.sync_enter)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None and self.saved_stream is not None:
            set_stream(self.saved_stream, sync=self.sync_exit)
            self._device_scope.__exit__(kind, error, trace)


def record_event(event: Event | None = None, external: bool = False) -> Event:
    """Records an event in the current stream of the device, a new one if none is given, and gives it."""
    return get_stream(None if event is None else event.device).record_event(event, external)


def wait_event(event: Event, external: bool = False) -> None:
    """Has the current stream wait for an event."""
    get_stream().wait_event(event, external)


def wait_stream(other_stream: Stream, event: Event | None = None, external: bool = False) -> None:
    """Has the current stream wait for what is in another one now."""
    get_stream().wait_stream(other_stream, event, external)


def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """Milliseconds between two events that were recorded with `enable_timing`; both are waited for."""
    return start_event.elapsed_time(end_event)


def synchronize_stream(stream_or_device: Stream | DeviceLike = None) -> None:
    """Waits until a stream, or the current one of a device, has done everything."""
    stream = stream_or_device if isinstance(stream_or_device, Stream) else get_stream(stream_or_device)
    stream.synchronize()


def synchronize_event(event: Event) -> None:
    """Waits until everything before an event is done."""
    event.synchronize()
