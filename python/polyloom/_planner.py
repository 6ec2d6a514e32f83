"""Policies by which paths of fused functions are chosen, kernels of others, and measuring in the background.

Design: `docs/design/executor.md`.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from polyloom import _backends, _native
from polyloom._backends import Backend

__all__ = ["Backend", "Policy", "policy", "register_kernel"]

PolicyMode: TypeAlias = Literal["default", "heuristic", "fastest", "explore"]
F = TypeVar("F", bound=Callable[..., Any])


class Policy:
    """How the paths of fused functions are chosen, and which may be.

    Parameters
    ----------
    mode : {"default", "heuristic", "fastest", "explore"}
        `"default"` runs every group as Polyloom plans it, and is the one unless another is set. `"heuristic"` takes the
        path with the least predicted time. `"fastest"` takes the fastest that the benchmark database knows, and where
        it knows nothing the one of `"heuristic"`. `"explore"` measures what the database does not know, in a thread in
        the background, while the default runs.
    tolerance : float, optional
        Allows paths whose results differ by rounding, by so much of the scale of a result at most. Without one they are
        allowed in the mode `"fast"` of floats alone.
    backends : iterable of Backend, optional
        The backends that may take part beside the default. Unless given, these are Polyloom and NumPy on the CPU, and
        PyTorch if the program has imported it.
    budget : float
        The seconds that measuring one computation may take in the background.

    Raises
    ------
    ValueError
        If the mode is none of these, the tolerance is negative, or the budget is no positive number.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.Policy("fastest", tolerance=1e-5)
    Policy('fastest', tolerance=1e-05)
    """

    def __init__(
        self,
        mode: PolicyMode = "default",
        *,
        tolerance: float | None = None,
        backends: Iterable[Backend] | None = None,
        budget: float = 10.0,
    ) -> None:
        if mode not in get_args(PolicyMode):
            raise ValueError(f"a policy is 'default', 'heuristic', 'fastest' or 'explore', not {mode!r}")
        if tolerance is not None and not tolerance >= 0:
            raise ValueError(f"tolerance is a number from 0 on, not {tolerance!r}")
        if not 0 < budget < float("inf"):
            raise ValueError(f"budget is a number of seconds, not {budget!r}")
        self.mode, self.tolerance, self.budget = mode, tolerance, float(budget)
        self.backends = None if backends is None else tuple(Backend(each) for each in backends)
        names = None if self.backends is None else [each.name for each in self.backends]
        self._number = 0 if mode == "default" else _native.path_policy(mode, tolerance, names, self.budget)

    def __repr__(self) -> str:
        text = f"Policy({self.mode!r}"
        if self.tolerance is not None:
            text += f", tolerance={self.tolerance!r}"
        if self.backends is not None:
            text += f", backends=[{', '.join(str(each) for each in self.backends)}]"
        return f"{text})" if self.budget == 10.0 else f"{text}, budget={self.budget!r})"


def as_policy(given: Any) -> Policy:
    """A policy for a name of one, or the policy itself."""
    return given if isinstance(given, Policy) else Policy(given)


_current = Policy()


class PolicySetting:
    """A policy that has been set. As a context it brings the one before back."""

    def __init__(self, made: Policy, before: Policy) -> None:
        self.policy, self._before = made, before

    def __enter__(self) -> Policy:
        return self.policy

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _set(self._before)

    def __repr__(self) -> str:
        return repr(self.policy)


def _set(made: Policy) -> Policy:
    global _current
    before, _current = _current, made
    _native.set_process_policy(made._number)
    return before


def policy(given: PolicyMode | Policy | None = None, **options: Any) -> PolicySetting:
    """Sets the policy of the process: how the paths of fused functions are chosen that have none of their own.

    Parameters
    ----------
    given : {"default", "heuristic", "fastest", "explore"} or Policy, optional
        The policy; without one nothing is set, and the result shows the current one.
    **options
        Those of `Policy`.

    Returns
    -------
    PolicySetting
        A context that brings the policy before back when it ends.

    Raises
    ------
    TypeError
        If options are given without a mode, or with a `Policy`.
    ValueError
        As `Policy`.

    Examples
    --------
    >>> import polyloom as loom
    >>> with loom.policy("heuristic"):
    ...     print(loom.policy())
    Policy('heuristic')
    >>> loom.policy()
    Policy('default')
    """
    if given is None:
        if options:
            raise TypeError("options need a mode: write policy('fastest', tolerance=1e-5)")
        return PolicySetting(_current, _current)
    if isinstance(given, Policy) and options:
        raise TypeError("give options to Policy(…), not to policy(Policy(…))")
    made = given if isinstance(given, Policy) else Policy(given, **options)
    return PolicySetting(made, _set(made))


def register_kernel(
    op: str,
    backend: Backend = Backend.CPU_NUMPY,
    *,
    name: str | None = None,
    dtypes: Iterable[Any] | None = None,
    keeps_bits: bool = False,
    dense: bool = False,
) -> Callable[[F], F]:
    """Decorates a function that computes an op of `polyloom.ops`, so that paths may call it.

    The function is given the operands, arrays of the backend's library, and then the attributes of the op in the order
    of its parameters. Like every path, one with this kernel runs under a policy alone.

    Parameters
    ----------
    op : str
        The name of the op.
    backend : Backend
        `CPU_NUMPY` for a function of NumPy's arrays, `CPU_TORCH` for one of PyTorch's tensors on the CPU.
    name : str, optional
        The name of the kernel in recipes; that of the function unless given. Recipes are found again by it, so that it
        is to stay the same.
    dtypes : iterable, optional
        The element types that operands and result may have; all unless given.
    keeps_bits : bool
        Says that results have the bits that the op defines, so that the kernel may run in the mode `"strict"`. What is
        measured is compared bit for bit.
    dense : bool
        Take operands in row-major order without gaps alone.

    Raises
    ------
    ValueError
        There is no such op, or the backend has a kernel of this name for it.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> @loom.register_kernel("square", keeps_bits=True)
    ... def square_by_product(x):
    ...     return x * x
    """

    def decorate(function: F) -> F:
        chosen = name or function.__qualname__
        wanted = None if dtypes is None else [np.dtype(getattr(each, "numpy", each)).name for each in dtypes]
        _native.add_kernel(op, backend.name, chosen, wanted, keeps_bits, dense)
        _backends.registered[backend.name, chosen, op] = function
        return function

    return decorate


def unregister_kernel(op: str, backend: Backend, name: str) -> bool:
    """Takes a registered kernel away; false if there is none."""
    _backends.registered.pop((backend.name, name, op), None)
    return _native.remove_kernel(op, backend.name, name)


# Measuring in the background.

_jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
_worker: threading.Thread | None = None
_lock = threading.Lock()
# Counts what waits or is being measured, for those who wait for the end of it.
_n_pending = 0
_idle = threading.Condition(_lock)


def _work() -> None:
    global _n_pending
    while True:
        job = _jobs.get()
        if job is None:
            return
        try:
            job.run()
        except Exception as error:
            # The function goes on as it is; who asks for its plan is told.
            import warnings

            warnings.warn(f"a path could not be measured: {error}", RuntimeWarning, stacklevel=1)
        finally:
            with _lock:
                _n_pending -= 1
                _idle.notify_all()


def explore_later(job: Any) -> None:
    """Measures the paths of a plan in the background, after those that were asked for before."""
    global _worker, _n_pending
    with _lock:
        if _worker is None:
            _worker = threading.Thread(target=_work, name="polyloom-explore", daemon=True)
            _worker.start()
        _n_pending += 1
    _jobs.put(job)


def wait_until_explored(timeout: float | None = None) -> bool:
    """Waits until nothing is measured in the background; false if that takes longer than `timeout` seconds."""
    with _lock:
        return _idle.wait_for(lambda: _n_pending == 0, timeout)


def _stop() -> None:
    worker = _worker
    if worker is not None and worker.is_alive():
        # A thread that still ran while the interpreter ends would be killed in the middle of native code.
        _native.stop_measuring()
        while not _jobs.empty():
            _jobs.get()
        _jobs.put(None)
        worker.join()


def _forget_worker() -> None:
    """Leaves a child that was forked without the thread and the lock of its parent."""
    global _jobs, _worker, _lock, _idle, _n_pending
    _jobs, _worker, _n_pending = queue.SimpleQueue(), None, 0
    _lock = threading.Lock()
    _idle = threading.Condition(_lock)


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_worker)
