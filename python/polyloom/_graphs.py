"""Graphs: launches and assignments of arrays that are put together once, and run any number of times.

While a graph is captured, nothing of it runs. On a GPU it is the driver's graph of a stream that is captured;
elsewhere the steps are recorded here, and replayed. Each thread captures for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from polyloom import _native
from polyloom._devices import Device, DeviceLike, get_device
from polyloom._scalars import int32
from polyloom._streams import Event, Stream, get_stream, set_stream

__all__ = [
    "Graph",
    "GraphBuilder",
    "ScopedCapture",
    "capture_begin",
    "capture_end",
    "capture_if",
    "capture_launch",
    "capture_while",
    "is_conditional_graph_supported",
]


class Graph:
    """What was captured between `capture_begin` and `capture_end`; `capture_launch` runs it.

    A graph of a GPU keeps the kernels and the memory of arrays of the package that it was captured with; arrays of
    other packages are kept by who launches it.

    Attributes
    ----------
    device : str
        The device that it was captured on.
    """

    def __init__(self, device: DeviceLike = None) -> None:
        self.device: Device = get_device(device)
        self._steps: list[_native.Launch | Callable[[], Any]] = []
        self._made: _native.Plan | None = None
        self._native: _native.DeviceGraph | None = None

    def __len__(self) -> int:
        return len(self._steps) if self._native is None else self._native.n_nodes

    @property
    def _plan(self) -> _native.Plan:
        """What runs: neighbouring launches are one kernel where that changes nothing."""
        if self._made is None or len(self._made) != len(self._steps):
            self._made = _native.Plan(self._steps)
        return self._made

    def explain(self) -> list[str]:
        """Which operations run as one kernel and which do not, and why: a line for each kernel or function; of a
        graph of a GPU, how many operations the driver has."""
        if self._native is not None:
            return [f"{self._native.n_nodes} operations in a graph of the driver of {self.device}"]
        return self._plan.explain()

    def update(self, other: Graph) -> None:
        """Takes the arguments of another graph that was captured by the same operations in the same order: the graph
        is not made anew, which on a GPU takes longer than its launch.

        Raises
        ------
        ValueError
            If the other graph has other operations, or is of another device; this one is then what it was.
        """
        is_alike = isinstance(other, Graph) and other.device == self.device
        if is_alike and self._native is not None and other._native is not None:
            is_alike = self._native.update(other._native)
        elif is_alike and self._native is None and other._native is None and len(self) == len(other):
            self._steps, self._made = list(other._steps), None
        else:
            is_alike = False
        if not is_alike:
            raise ValueError(f"a graph is updated from one of the same operations on {self.device}: capture a new one")

    def __repr__(self) -> str:
        return f"<graph of {len(self)} operations>"


class _Thread(threading.local):
    def __init__(self) -> None:
        # The graph that takes launches, where the steps are recorded here.
        self.graph: Graph | None = None
        # A capture by a driver has the graph, the stream that is captured, and the one that was current before.
        self.captured: tuple[Graph, Stream, Stream] | None = None


_thread = _Thread()


def is_capturing() -> bool:
    """True if this thread records the steps of a graph."""
    return _thread.graph is not None


def captured(step: _native.Launch | Callable[[], Any]) -> None:
    """Adds a step to the graph that this thread captures: called in place of running it."""
    assert _thread.graph is not None
    _thread.graph._steps.append(step)


def _place(device: DeviceLike, stream: Any) -> Device:
    """The device of a capture or launch."""
    if stream is None:
        return get_device(device)
    if not isinstance(stream, Stream):
        raise TypeError(f"stream is a Stream, not {type(stream).__name__}: make one of it with Stream.of")
    if device is not None and get_device(device) != stream.device:
        raise ValueError(f"the stream is one of device '{stream.device}', not of '{get_device(device)}'")
    return stream.device


def capture_begin(
    device: DeviceLike = None,
    stream: Any = None,
    force_module_load: bool | None = None,
    external: bool = False,
    **options: Any,
) -> None:
    """Begins to capture the launches of this thread, copies, and assignments to arrays. They do not run until
    `capture_launch`.

    On a GPU whatever needs an answer of the device is an error where it is asked: a copy to the host, a launch with
    arrays of the host or of a kernel with checks, waiting.

    Parameters
    ----------
    device : str, optional
        The device to capture on, by default that of the stream, or the one that `set_device` names. On the CPU and the
        simulator launches on any device are captured.
    stream : Stream, optional
        The stream of a GPU that is captured, and that is the current one meanwhile. By default the current one;
        instead of the default stream, which cannot be captured, another one.
    force_module_load, external, **options
        Of Warp's function, and without effect.

    Raises
    ------
    RuntimeError
        If this thread captures already.
    """
    where = _place(device, stream)
    if is_capturing() or _thread.captured is not None:
        raise RuntimeError("this thread captures a graph already")
    graph = Graph(where)
    if not where.is_cuda:
        _thread.graph = graph
        _native.set_capturing(True)
        return
    before = get_stream(where)
    chosen = before if stream is None else stream
    if chosen == Stream.default(where):
        # The default stream of other threads may be used beside such a one.
        chosen = Stream(where, blocking=False)
    # What was asked before comes before, as far as the arrays do not say so.
    if chosen is not before:
        set_stream(chosen, sync=True)
    try:
        chosen._queue.begin_capture()
    except BaseException:
        set_stream(before)
        raise
    _thread.captured = (graph, chosen, before)


def capture_end(device: DeviceLike = None, stream: Any = None) -> Graph:
    """Ends what `capture_begin` began, and gives the graph.

    Raises
    ------
    RuntimeError
        If this thread captures nothing.
    DeviceError
        If something was asked of a GPU meanwhile that is no part of a graph, or a stream that took part by an event
        was not waited for.
    """
    _place(device, stream)
    if _thread.captured is not None:
        graph, chosen, before = _thread.captured
        _thread.captured = None
        try:
            graph._native = chosen._queue.end_capture()
        finally:
            set_stream(before)
        return graph
    if _thread.graph is None:
        raise RuntimeError("this thread captures no graph: call capture_begin first")
    graph, _thread.graph = _thread.graph, None
    _native.set_capturing(False)
    return graph


def capture_launch(graph: Graph, stream: Any = None) -> None:
    """Runs what a graph has captured, in order. Within a capture it becomes part of the other graph.

    A launch has the numbers and the values of structs that it was captured with, and the arrays, with what they hold
    now.

    Parameters
    ----------
    graph : Graph
        The graph.
    stream : Stream, optional
        The stream of the graph's device that it runs in; by default the current one.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"capture_launch() takes a graph, not {type(graph).__name__}")
    where = _place(None, stream) if stream is not None else graph.device
    if where != graph.device:
        raise ValueError(f"the stream is one of device '{where}', and the graph of '{graph.device}'")
    if is_capturing():
        captured(lambda: capture_launch(graph))
    elif graph._native is not None:
        _native.run_recorded_tasks()
        graph._native.launch((get_stream(where) if stream is None else stream)._queue)
    else:
        graph._plan.launch()


def _is_condition(condition: Any) -> bool:
    return getattr(condition, "dtype", None) is int32 and condition.size >= 1 and hasattr(condition, "ptr")


def _value(condition: Any) -> bool:
    """The condition as it is now, which is waited for."""
    return bool(condition.numpy().flat[0])


def _run(body: Callable[..., Any] | Graph | None, options: dict[str, Any]) -> None:
    """Runs the body of a branch, or has it become part of what is captured."""
    if isinstance(body, Graph):
        capture_launch(body)
    elif body is not None:
        body(**options)


def _recorded(body: Callable[..., Any] | Graph | None, options: dict[str, Any]) -> Graph | None:
    """The body of a branch as a graph of its own, of the graph that this thread records."""
    if body is None or isinstance(body, Graph):
        return body
    outer = _thread.graph
    assert outer is not None
    inner = _thread.graph = Graph(outer.device)
    try:
        body(**options)
    finally:
        _thread.graph = outer
    return inner


def _branch(kind: str, condition: Any, body: Callable[..., Any] | Graph, options: dict[str, Any]) -> None:
    """Adds a branch to the graph that the current stream is captured for."""
    before = get_stream(condition.device)
    branch = before._queue.begin_branch(kind, condition.ptr)
    try:
        set_stream(Stream._of_queue(before.device, branch.queue))
        _run(body, options)
    finally:
        set_stream(before)
        branch.end()


def _checked(function: str, condition: Any, stream: Any) -> bool:
    """Checks the arguments of a branch. True if a driver captures the graph that it is for."""
    if not _is_condition(condition):
        raise TypeError(f"{function}() takes an array of int32, whose first element is the condition")
    if stream is not None and stream != get_stream(condition.device):
        raise ValueError(f"{function}() is for the current stream: call it within ScopedStream(stream)")
    return _thread.captured is not None and _thread.captured[0].device == condition.device


def capture_if(
    condition: Any,
    on_true: Callable[..., Any] | Graph | None = None,
    on_false: Callable[..., Any] | Graph | None = None,
    stream: Stream | None = None,
    **options: Any,
) -> None:
    """Runs one of two functions or graphs, by what an array holds. In a capture it is the graph that looks, at each
    launch; a driver has to be one for CUDA 12.4 or later.

    Parameters
    ----------
    condition : array of int32
        An array whose first element is not 0 for `on_true`.
    on_true, on_false : callable or Graph, optional
        What runs. Functions are called once while a graph is captured, with `options`.
    stream : Stream, optional
        The current stream, in which the condition was written.

    Examples
    --------
    >>> import polyloom as loom
    >>> flag, x = loom.ones(1, dtype=int), loom.zeros(2)
    >>> with loom.ScopedCapture() as capture:
    ...     loom.capture_if(flag, lambda: x.fill_(1.0), lambda: x.fill_(2.0))
    >>> loom.capture_launch(capture.graph)
    >>> _ = flag.zero_()
    >>> x.numpy()
    array([1., 1.], dtype=float32)
    >>> loom.capture_launch(capture.graph)
    >>> x.numpy()
    array([2., 2.], dtype=float32)
    """
    if _checked("capture_if", condition, stream):
        # Both look at what the condition was before either runs.
        kept = condition.flatten()[:1].copy()
        for kind, body in (("if", on_true), ("unless", on_false)):
            if body is not None:
                _branch(kind, kept, body, options)
    elif is_capturing():
        bodies = [_recorded(on_false, options), _recorded(on_true, options)]
        captured(lambda: _run(bodies[_value(condition)], {}))
    else:
        _run(on_true if _value(condition) else on_false, options)


def capture_while(
    condition: Any,
    while_body: Callable[..., Any] | Graph,
    stream: Stream | None = None,
    **options: Any,
) -> None:
    """Runs a function or a graph as long as the first element of an array is not 0, which it changes. In a capture it
    is the graph that looks, as for `capture_if`.

    Examples
    --------
    >>> import polyloom as loom
    >>> @loom.kernel
    ... def count(left: loom.array(dtype=int), x: loom.array(dtype=int)):
    ...     left[0] -= 1
    ...     x[0] += 2
    >>> left, x = loom.full(1, 3, dtype=int), loom.zeros(1, dtype=int)
    >>> with loom.ScopedCapture() as capture:
    ...     loom.capture_while(left, lambda: loom.launch(count, 1, [left, x]))
    >>> loom.capture_launch(capture.graph)
    >>> x.numpy()
    array([6], dtype=int32)
    """
    if _checked("capture_while", condition, stream):
        _branch("while", condition, while_body, options)
    elif is_capturing():
        body = _recorded(while_body, options)

        def repeat() -> None:
            while _value(condition):
                _run(body, {})

        captured(repeat)
    else:
        while _value(condition):
            _run(while_body, options)


def is_conditional_graph_supported() -> bool:
    """Whether graphs have branches: those of the CPU and the simulator have, and those of GPUs if the driver is one
    for CUDA 12.4 or later."""
    return all(_native.has_branches(name) for name in _native.open_cuda_devices())


class ScopedCapture:
    """Captures the launches in the body of a `with` statement.

    Parameters
    ----------
    device, stream, force_module_load, external, **options
        As of `capture_begin`.

    Attributes
    ----------
    graph : Graph or None
        What was captured, once the body is done.
    active : bool
        True while it captures.

    Examples
    --------
    >>> import polyloom as loom
    >>> @loom.kernel
    ... def double(x: loom.array(dtype=float)):
    ...     x[loom.tid()] *= 2.0
    >>> x = loom.array([1.0, 2.0], dtype=float)
    >>> with loom.ScopedCapture() as capture:
    ...     loom.launch(double, 2, [x])
    >>> for _ in range(3):
    ...     loom.capture_launch(capture.graph)
    >>> x.numpy()
    array([ 8., 16.], dtype=float32)
    """

    def __init__(
        self,
        device: DeviceLike = None,
        stream: Any = None,
        force_module_load: bool | None = None,
        external: bool = False,
        **options: Any,
    ) -> None:
        self.device = device
        self.stream = stream
        self.active = False
        self.graph: Graph | None = None

    def __enter__(self) -> ScopedCapture:
        capture_begin(self.device, self.stream)
        self.active = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.active = False
        try:
            self.graph = capture_end(self.device, self.stream)
        except RuntimeError:
            # What went wrong in the body comes first, because the capture may have failed of it.
            if error is None:
                raise


class GraphNode:
    """An operation of a `GraphBuilder`, which others come after."""

    def __init__(self, run: Callable[[], Any], after: tuple[GraphNode, ...]) -> None:
        self._run, self._after = run, after


class GraphBuilder:
    """A graph made operation by operation, each of which says what it comes after: others may run at once.

    Parameters
    ----------
    device : str, optional
        The device; by default the one that `set_device` names.

    Examples
    --------
    >>> import polyloom as loom
    >>> @loom.kernel
    ... def add(x: loom.array(dtype=float), value: float):
    ...     x[loom.tid()] += value
    >>> x, y = loom.zeros(2), loom.zeros(2)
    >>> builder = loom.GraphBuilder()
    >>> first = builder.launch(add, 2, [x, 1.0])
    >>> _ = builder.copy(y, x, after=[first])
    >>> graph = builder.finish()
    >>> loom.capture_launch(graph)
    >>> y.numpy()
    array([1., 1.], dtype=float32)
    >>> builder.replace_launch(first, add, 2, [x, 5.0])
    >>> builder.update(graph)
    >>> loom.capture_launch(graph)
    >>> y.numpy()
    array([6., 6.], dtype=float32)
    """

    def __init__(self, device: DeviceLike = None) -> None:
        self.device = get_device(device)
        self._nodes: list[GraphNode] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def _add(self, run: Callable[[], Any], after: Sequence[GraphNode]) -> GraphNode:
        for each in after:
            if each not in self._nodes:
                raise ValueError("an operation comes after operations of the same builder, which were added before")
        node = GraphNode(run, tuple(after))
        self._nodes.append(node)
        return node

    def launch(
        self, kernel: Any, dim: Any, inputs: Any = (), *, after: Sequence[GraphNode] = (), **options: Any
    ) -> GraphNode:
        """Adds a launch, with arguments as of `polyloom.launch`."""
        return self._add(self._launching(kernel, dim, inputs, options), after)

    def _launching(self, kernel: Any, dim: Any, inputs: Any, options: dict[str, Any]) -> Callable[[], Any]:
        return lambda: _native.launch(kernel, dim, list(inputs), device=str(self.device), **options)

    def replace_launch(self, node: GraphNode, kernel: Any, dim: Any, inputs: Any = (), **options: Any) -> None:
        """Has a launch have other arguments in graphs that are made or updated from now on."""
        if node not in self._nodes:
            raise ValueError("the operation is none of this builder")
        node._run = self._launching(kernel, dim, inputs, options)

    def copy(self, dest: Any, src: Any, *, after: Sequence[GraphNode] = ()) -> GraphNode:
        """Adds a copy of all elements of `src` to `dest`, an array."""
        return self._add(lambda: dest.assign(src), after)

    def fill(self, dest: Any, value: Any, *, after: Sequence[GraphNode] = ()) -> GraphNode:
        """Adds the setting of all elements of an array to `value`."""
        return self._add(lambda: dest.fill_(value), after)

    def graph(self, graph: Graph, *, after: Sequence[GraphNode] = ()) -> GraphNode:
        """Adds all of another graph."""
        return self._add(lambda: capture_launch(graph), after)

    def finish(self) -> Graph:
        """Makes the graph of the operations so far."""
        # The driver's streams live until the capture ends.
        streams: list[Stream] = []
        capture_begin(self.device)
        try:
            if self.device.is_cuda:
                self._run_in_streams(streams)
            else:
                for node in self._nodes:
                    node._run()
        except BaseException:
            try:
                capture_end(self.device)
            except RuntimeError:
                pass
            raise
        return capture_end(self.device)

    def update(self, graph: Graph) -> None:
        """Has a graph that was made of the same operations take the arguments that they have now: `Graph.update`."""
        graph.update(self.finish())

    def _run_in_streams(self, streams: list[Stream]) -> None:
        """Asks for each operation in a stream of its own, which waits for what it comes after."""
        origin = get_stream(self.device)
        begin = origin.record_event()
        ends: dict[int, Event] = {}
        for node in self._nodes:
            stream = Stream(self.device, blocking=False)
            streams.append(stream)
            stream.wait_event(begin)
            for before in node._after:
                stream.wait_event(ends[id(before)])
            set_stream(stream)
            try:
                node._run()
            finally:
                set_stream(origin)
            ends[id(node)] = stream.record_event()
        for end in ends.values():
            origin.wait_event(end)
