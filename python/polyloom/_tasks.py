"""Tasks: launches that run on the CPU and GPUs at once, where and when it pays.

`crates/polyloom/src/tasks` decides and runs; here a thread says from where to where its launches are tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from polyloom import _graphs, _native
from polyloom._arrays import array
from polyloom._devices import Device, DeviceLike, get_device, get_devices

__all__ = ["TaskRecord", "tasks"]


class TaskRecord(NamedTuple):
    """A kernel that a task ran, or a copy that it needed.

    Attributes
    ----------
    kernel : str or None
        The kernel that ran, or that needed the copy; None for a copy that brings results back to where they belong.
    device : str
        The device that ran it, or whose memory was written.
    source : str or None
        The device whose memory was copied; None if this is no copy.
    n_bytes : int
        The bytes of a copy.
    begin, end : float
        Seconds from the beginning of the tasks.
    """

    kernel: str | None
    device: str
    source: str | None
    n_bytes: int
    begin: float
    end: float

    @property
    def is_copy(self) -> bool:
        """True for a copy."""
        return self.source is not None


class tasks:  # noqa: N801 - it reads as a statement
    """Launches of this thread, in the body of a `with` statement, as tasks.

    What each launch reads and writes says which others it has to wait for; arrays that overlap in memory count,
    whatever names them. The others run at once, each on the device where it is done first by what was measured of its
    kernel and of copies. Nothing has to be on the device: what a task needs is copied there, and what it writes is back
    in the array's own memory when the body ends. Results have the bits that launches one after the other give.

    Tasks run when the body ends, or earlier if it reads or assigns elements of an array of the package, calls a fused
    function, or does something else that is no launch. NumPy arrays do not tell: do not read or write those that
    launches use within the body, or call `wait` before.

    Parameters
    ----------
    devices : sequence of str, optional
        Where tasks may run; by default the CPU and all GPUs. A launch that names a device, or whose kernel does, runs
        there.
    costs : callable, optional
        Called with the name of a kernel, the number of its threads and a device, gives the seconds that it takes there,
        or None for what measurements say.

    Raises
    ------
    LaunchError, DeviceError, …
        What a task fails with, at the line of its launch, when the body ends or `wait` is called. Tasks that had begun
        are done then, and what they wrote is in place.

    Examples
    --------
    >>> import numpy as np
    >>> import polyloom as loom
    >>> @loom.kernel
    ... def scale(x: loom.array(dtype=float), f: float):
    ...     i = loom.tid()
    ...     x[i] = x[i] * f
    >>> @loom.kernel
    ... def add(x: loom.array(dtype=float), y: loom.array(dtype=float), z: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     z[i] = x[i] + y[i]
    >>> x, y, z = np.ones(4, np.float32), np.ones(4, np.float32), np.zeros(4, np.float32)
    >>> with loom.tasks(devices=["cpu", "sim:0"]) as t:
    ...     loom.launch(scale, 4, [x, 2.0])
    ...     loom.launch(scale, 4, [y, 3.0])
    ...     loom.launch(add, 4, [x, y, z])
    >>> z
    array([5., 5., 5., 5.], dtype=float32)
    >>> sorted(record.kernel for record in t.timeline() if not record.is_copy)
    ['add', 'scale', 'scale']
    """

    def __init__(
        self,
        devices: Sequence[DeviceLike] | None = None,
        *,
        costs: Callable[[str, int, str], float | None] | None = None,
    ) -> None:
        if isinstance(devices, str):
            raise TypeError(f"devices is a list, such as ['cpu', 'cuda:0']: write devices=['{devices}']")
        found = get_devices() if devices is None else [get_device(device) for device in devices]
        self.devices: list[Device] = list(dict.fromkeys(found))
        if not self.devices:
            raise ValueError("tasks run on one device at least")
        self._costs = costs
        self._graph = _native.TaskGraph([str(device) for device in self.devices])
        self._ran: _native.TaskTimeline | None = None

    def __enter__(self) -> tasks:
        if _native.recording_tasks() is not None:
            raise RuntimeError("launches of this thread are tasks already: end one `with loom.tasks()` before the next")
        if _graphs.is_capturing():
            raise RuntimeError(
                "this thread captures a graph, which takes its launches: end the capture before tasks begin"
            )
        _native.set_recording_tasks(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _native.set_recording_tasks(None)
        # What was launched before an exception has run, as without tasks.
        self.wait()

    def wait(self) -> None:
        """Runs the tasks so far and returns when they are done and their results are in place."""
        if not len(self._graph):
            return
        costs = None
        if self._costs is not None:
            known = self._graph.tasks()
            costs = [self._costs(name, n_threads, device) for name, n_threads in known for device in self.devices]
        ran, failed = self._graph.run(costs)
        if self._ran is None:
            self._ran = ran
        else:
            self._ran.append(ran)
        if failed is not None:
            raise _at_its_launch(*failed)

    def timeline(self) -> list[TaskRecord]:
        """What ran where and when: kernels and copies, in the order in which they began."""
        return [] if self._ran is None else [TaskRecord(*row) for row in self._ran.rows()]

    @property
    def seconds(self) -> float:
        """The time that all tasks took together, copies of results included."""
        return 0.0 if self._ran is None else self._ran.times()[0]

    @property
    def predicted_seconds(self) -> float:
        """The time that was predicted, by which devices were chosen."""
        return 0.0 if self._ran is None else self._ran.times()[1]

    def gantt(self, path: str | PathLike[str] | None = None) -> str:
        """The timeline as a Gantt chart: SVG with a row for each device, kernels in colours and copies in grey.

        Parameters
        ----------
        path : str, optional
            A file that it is written to.

        Returns
        -------
        str
            The SVG.
        """
        svg = "" if self._ran is None else self._ran.svg()
        if path is not None:
            Path(path).write_text(svg, encoding="utf-8")
        return svg

    def _repr_svg_(self) -> str:
        return self.gantt()

    def __str__(self) -> str:
        return f"{len(self._graph)} tasks have not run" if self._ran is None else str(self._ran)

    def __repr__(self) -> str:
        on, n_ran, n_left = ", ".join(self.devices), len(self.timeline()), len(self._graph)
        return f"<tasks on {on}: {n_ran} kernels and copies, {n_left} to run>"


def _at_its_launch(error: BaseException, place: Any) -> BaseException:
    """The error of a task, whose traceback ends at the line of the launch."""
    if place is None:
        return error
    frame, instruction, line = place
    return error.with_traceback(TracebackType(None, frame, instruction, line))


def run_now(graph: _native.TaskGraph) -> None:
    """Runs a graph of one launch on `auto`."""
    _, failed = graph.run(None)
    if failed is not None:
        raise failed[0]


def devices_for(args: Sequence[Any]) -> list[str]:
    """Where a launch on `auto` may run: on the devices of the machine, and on those that its arrays are on."""
    on = [str(arg.device) for arg in args if isinstance(arg, array)]
    return list(dict.fromkeys([*map(str, get_devices()), *on]))
