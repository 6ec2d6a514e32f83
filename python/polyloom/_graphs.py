"""Graphs: launches and assignments of arrays that are recorded, and replayed any number of times.

While a graph is captured, nothing of it runs, as with CUDA's graphs. Each thread captures for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from polyloom import _native
from polyloom._devices import DeviceLike, get_device

__all__ = ["Graph", "ScopedCapture", "capture_begin", "capture_end", "capture_launch"]


class Graph:
    """What was captured between `capture_begin` and `capture_end`; `capture_launch` runs it."""

    def __init__(self) -> None:
        self._steps: list[_native.Launch | Callable[[], Any]] = []
        self._made: _native.Plan | None = None

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def _plan(self) -> _native.Plan:
        """What runs: neighbouring launches are one kernel where that changes nothing."""
        if self._made is None or len(self._made) != len(self._steps):
            self._made = _native.Plan(self._steps)
        return self._made

    def explain(self) -> list[str]:
        """Which operations run as one kernel and which do not, and why: a line for each kernel or function."""
        return self._plan.explain()

    def __repr__(self) -> str:
        return f"<graph of {len(self)} operations>"


class _Thread(threading.local):
    def __init__(self) -> None:
        self.graph: Graph | None = None


_thread = _Thread()


def is_capturing() -> bool:
    """True if this thread captures a graph."""
    return _thread.graph is not None


def captured(step: _native.Launch | Callable[[], Any]) -> None:
    """Adds a step to the graph that this thread captures: called in place of running it."""
    assert _thread.graph is not None
    _thread.graph._steps.append(step)


def _check(device: DeviceLike, stream: Any) -> None:
    get_device(device)
    if stream is not None:
        raise ValueError("streams are not there: a graph's launches run one after the other, without stream")


def capture_begin(
    device: DeviceLike = None,
    stream: Any = None,
    force_module_load: bool | None = None,
    external: bool = False,
    **options: Any,
) -> None:
    """Begins to capture the launches of this thread, and assignments to arrays. They do not run until
    `capture_launch`.

    Parameters
    ----------
    device : str, optional
        Checked, and without effect: launches go where they say.
    stream, force_module_load, external, **options
        Of CUDA's graphs; there are no streams, and the others are without effect.

    Raises
    ------
    RuntimeError
        If this thread captures already.
    """
    _check(device, stream)
    if is_capturing():
        raise RuntimeError("this thread captures a graph already")
    _thread.graph = Graph()
    _native.set_capturing(True)


def capture_end(device: DeviceLike = None, stream: Any = None) -> Graph:
    """Ends what `capture_begin` began, and gives the graph.

    Raises
    ------
    RuntimeError
        If this thread captures nothing.
    """
    _check(device, stream)
    graph = _thread.graph
    if graph is None:
        raise RuntimeError("this thread captures no graph: call capture_begin first")
    _thread.graph = None
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
    stream : None
        There are no streams.
    """
    _check(None, stream)
    if not isinstance(graph, Graph):
        raise TypeError(f"capture_launch() takes a graph, not {type(graph).__name__}")
    if is_capturing():
        captured(lambda: capture_launch(graph))
        return
    graph._plan.launch()


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
        self.graph = capture_end(self.device, self.stream)
