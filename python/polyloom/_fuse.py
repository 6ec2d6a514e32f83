"""`fuse`: tensor functions whose `ops.*` calls run as few kernels."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from json import loads
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, overload

from polyloom._config import config
from polyloom._errors import CompileError, Diagnostic
from polyloom._fusion import FloatMode, Fusion, GroupList, trampoline
from polyloom._fusion_drawing import drawn
from polyloom._fusion_names import source_of
from polyloom._fusion_rewrite import is_text_of
from polyloom._fusion_text import FUSION
from polyloom._plan_report import PlanReport
from polyloom._planner import Policy, PolicyMode, as_policy

__all__ = ["fuse", "stats"]

F = TypeVar("F", bound=Callable[..., Any])

_fusions: weakref.WeakSet[Fusion] = weakref.WeakSet()
# A set that another thread adds to cannot be gone through.
_fusions_lock = threading.Lock()


class CacheInfo(NamedTuple):
    """Counts what a fused function has compiled, and how often that was used.

    Attributes
    ----------
    hits : int
        Calls that ran code that was there.
    misses : int
        Analyses of the function: one for its first call, and one each time that a name had come to refer to another
        object.
    size : int
        Groups of the code that runs now.
    """

    hits: int
    misses: int
    size: int


@overload
def fuse(
    function: F,
    /,
    *,
    strict: bool = False,
    fuse: bool = True,
    float_mode: FloatMode | None = None,
    numpy: bool = False,
    policy: PolicyMode | Policy | None = None,
) -> F: ...
@overload
def fuse(
    *,
    strict: bool = False,
    fuse: bool = True,
    float_mode: FloatMode | None = None,
    numpy: bool = False,
    policy: PolicyMode | Policy | None = None,
) -> Callable[[F], F]: ...
def fuse(
    function: Any = None,
    /,
    *,
    strict: bool = False,
    fuse: bool = True,
    float_mode: FloatMode | None = None,
    numpy: bool = False,
    policy: PolicyMode | Policy | None = None,
) -> Any:
    """Makes the `ops.*` calls of a function run as few kernels, wherever nobody can tell the difference.

    The function is analysed when it is first called. What is not a call of `ops` runs as the Python that it is, in its
    order; where analysis is not sure, calls stay apart. The result is a function with the same name, signature and
    closure, whose tracebacks show the lines of the original. It has the attributes `explain(*args, json=False)`,
    `graph()`, `plan(*args)`, `groups`, `cache_info()` and `cache_clear()`, and `__wrapped__` is the function as it was.

    Parameters
    ----------
    function : callable
        A function, static method or class method that is defined in a file or a notebook cell.
    strict : bool
        Raise `CompileError` at the first call if not all captured calls are one group.
    fuse : bool
        With `False`, run each op by itself, to compare.
    float_mode : {"strict", "contract", "fast"}, optional
        That of the kernels; `config.float_mode` unless given. In `strict` a group has the bits of its ops.
    numpy : bool
        Capture NumPy's functions, operators and methods on arrays, too, where an op means the same. Values agree up to
        rounding, types and shapes are NumPy's, and kernels give no warnings of floating-point errors. Where
        `np.errstate` is set to raise, print, log or call, the function runs as it is written.
    policy : {"default", "heuristic", "fastest", "explore"} or Policy, optional
        How the paths of this function's groups are chosen; as `polyloom.policy` says unless given.

    Raises
    ------
    CompileError
        The function is a generator or a coroutine.
    OSError
        Its text is not available.
    RuntimeError
        Its file has changed since it was loaded.

    Examples
    --------
    >>> import polyloom as loom
    >>> from polyloom import ops
    >>> @loom.fuse
    ... def scaled(a, b):
    ...     return ops.relu(ops.add(a, b))
    >>> print(scaled.explain())
    scaled: 2 calls, 1 group
      group 0: ops.add (line 3), ops.relu (line 3); runs at its first or its last call
    <BLANKLINE>
    """
    number = None if policy is None else as_policy(policy)._number
    made = functools.partial(
        fuse_function, is_strict=strict, is_on=fuse, float_mode=float_mode, has_numpy=numpy, policy=number
    )
    return made if function is None else made(function)


def fuse_function(
    function: Any,
    *,
    is_strict: bool,
    is_on: bool,
    float_mode: FloatMode | None,
    has_numpy: bool,
    policy: int | None = None,
) -> Any:
    """The fused form of a function or method."""
    if isinstance(function, (staticmethod, classmethod)):
        inner = fuse_function(
            function.__func__,
            is_strict=is_strict,
            is_on=is_on,
            float_mode=float_mode,
            has_numpy=has_numpy,
            policy=policy,
        )
        return type(function)(inner)
    if type(function) is not FunctionType:
        raise TypeError(f"fuse takes a function that is written in Python, not {type(function).__name__!r}")
    known = function.__dict__.get(FUSION)
    if known is not None:
        function = known.original
    if function.__name__ == "<lambda>":
        raise OSError(
            "a lambda has no text of its own that could be fused: write it as a function with `def`, in a file or a "
            "notebook cell"
        )
    if float_mode not in (None, "strict", "contract", "fast"):
        raise ValueError(f"float_mode is {float_mode!r}, not 'strict', 'contract' or 'fast'")
    lines = source_of(function)
    _check_kind(function, lines)
    code = function.__code__
    if code.co_filename.startswith("<") and not is_text_of(lines, code):
        raise OSError(
            f"the text of `{function.__name__}` is no longer known: another one has taken its place in "
            f"{code.co_filename}"
        )
    fusion = Fusion(function, lines, is_strict, is_on, float_mode or config.float_mode, has_numpy, policy)
    made = trampoline(fusion)
    functools.update_wrapper(made, function)
    made.__doc__ = function.__doc__
    fusion.function = made
    with _fusions_lock:
        _fusions.add(fusion)
    surface = {
        FUSION: fusion,
        "explain": functools.partial(_explain, fusion),
        "graph": functools.partial(_graph, fusion),
        "plan": functools.partial(_plan, fusion),
        "groups": GroupList(fusion),
        "cache_info": functools.partial(_cache_info, fusion),
        "cache_clear": functools.partial(_cache_clear, fusion),
    }
    made.__dict__.update(surface)
    return made


def _check_kind(function: FunctionType, lines: list[str]) -> None:
    kinds: list[tuple[Callable[[Any], bool], str]] = [
        (inspect.isasyncgenfunction, "an asynchronous generator"),
        (inspect.iscoroutinefunction, "a coroutine"),
        (inspect.isgeneratorfunction, "a generator"),
    ]
    kind = next((name for is_kind, name in kinds if is_kind(function)), None)
    if kind is None:
        return
    code = function.__code__
    at = next((n for n in range(code.co_firstlineno, len(lines) + 1) if "def " in lines[n - 1]), code.co_firstlineno)
    text = lines[at - 1].rstrip("\n")
    column = max(text.find(function.__name__), 0) + 1
    end = column + len(function.__name__)
    message = f"`{function.__name__}` is {kind}, and others run while it is suspended, so that it cannot be fused"
    help_ = "fuse a plain function with the `ops.*` calls, and call that"
    margin = " " * len(str(at))
    rendered = (
        f"error[PL0304]: {message}\n{margin}--> {code.co_filename}:{at}:{column}\n{margin} |\n{at} | {text}\n"
        f"{margin} | {' ' * (column - 1)}{'^' * len(function.__name__)}\n{margin} |\n{margin} = help: {help_}\n"
    )
    found = Diagnostic("PL0304", "error", message, help_, code.co_filename, at, column, at, end, function.__name__)
    raise CompileError([found], rendered, text)


def _explain(fusion: Fusion, *arguments: Any, json: bool = False, **named: Any) -> Any:
    """Says which calls run as one group, and which statements end chains: as text with carets, or as plain data.

    With arguments the function runs once with them, and for each group follow its kernels with their sizes, and what
    the planner has weighed: the two costs of each choice, and what it chose.
    """
    plans = _plans(fusion, arguments, named) if arguments or named else None
    analysis = fusion.analysed()
    report = _report(fusion)
    if plans is not None:
        report["plans"] = plans
    if json:
        return report
    text = str(analysis.captured.explanation())
    for call, reason in report["left"]:
        text += f"  {report['labels'][call]} (line {report['lines'][call]}) runs by itself: {reason}\n"
    for number, plan in enumerate(plans or ()):
        text += _described(number, plan)
    return text


def _plans(fusion: Fusion, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """Runs a function, and gives for each group what there is to know of its plan; None for one that has not run."""
    before = {id(group): group.n_runs for group in fusion.analysed().groups}
    fusion.function(*arguments, **named)
    groups = fusion.analysed().groups
    has_run = [group.n_runs > before.get(id(group), 0) for group in groups]
    return [loads(group._explanation()) if ran else None for group, ran in zip(groups, has_run, strict=True)]


def _described(number: int, plan: Any) -> str:
    if plan is None:
        return f"  group {number} has not run with these arguments\n"
    text = ""
    for stage in plan:
        text += f"  group {number}: {stage['text']}\n"
        text += "".join(f"    kernel {index}: {each['text']}\n" for index, each in enumerate(stage["kernels"]))
        text += "".join(f"    {decision}\n" for decision in stage["decisions"])
    return text


def _report(fusion: Fusion) -> dict[str, Any]:
    analysis = fusion.analysed()
    report: dict[str, Any] = loads(analysis.captured.report())
    report["left"] = analysis.plan["left"]
    report["kernels"] = [{"calls": group.calls, "exec_at": group.moment} for group in analysis.groups]
    return report


def _graph(fusion: Fusion) -> str:
    """Draws the calls, groups as boxes and breaks as dashed lines with their reasons, as the text of an SVG."""
    return drawn(_report(fusion), loads(fusion.analysed().captured.rewriting()))


def _plan(
    fusion: Fusion, *arguments: Any, measure: bool | float = False, n_paths: int = 16, **named: Any
) -> PlanReport:
    """Runs the function once, and reports the paths of its groups: candidates with their times, and what is chosen.

    With `measure`, the candidates are measured first, for some seconds for each group, and what is found is kept in the
    benchmark database. `n_paths` bounds the paths of the search that are measured and listed.
    """
    before = {id(group): group.n_runs for group in fusion.analysed().groups}
    fusion.function(*arguments, **named)
    groups = [group for group in fusion.analysed().groups if group.n_runs > before.get(id(group), 0)]
    if measure:
        for group in groups:
            group.native._measure_paths(30.0 if measure is True else float(measure), n_paths)
        fusion.function(*arguments, **named)
    found = [each for group in groups for each in loads(group.native._paths(n_paths))]
    return PlanReport(fusion.original.__name__, found)


def _cache_info(fusion: Fusion) -> CacheInfo:
    n_calls = int(repr(fusion.n_calls)[len("count(") : -1])
    analyses = fusion.analyses
    return CacheInfo(n_calls, len(analyses), len(analyses[-1].groups) if analyses else 0)


def _cache_clear(fusion: Fusion) -> None:
    """Forgets analyses and compiled groups. The next call makes them anew."""
    fusion.forget()


def stats() -> dict[str, int]:
    """Counts what fused functions have done so far.

    Returns
    -------
    dict
        `calls` of fused functions that are alive; `group_runs`; `guard_failures`: groups that did not run because
        names, types or shapes did not fit; `originals`: calls that ran as they are written.

    Examples
    --------
    >>> import polyloom as loom
    >>> sorted(loom.stats())
    ['analyses', 'calls', 'group_runs', 'guard_failures', 'originals']
    """
    totals = dict.fromkeys(("calls", "group_runs", "guard_failures", "originals", "analyses"), 0)
    with _fusions_lock:
        alive = list(_fusions)
    for fusion in alive:
        info = _cache_info(fusion)
        totals["calls"] += info.hits
        totals["analyses"] += info.misses
        totals["guard_failures"] += fusion.n_refusals
        totals["originals"] += fusion.n_kept_out
        for analysis in fusion.analyses:
            totals["group_runs"] += sum(getattr(group.native, "n_runs", 0) for group in analysis.groups)
    return totals
