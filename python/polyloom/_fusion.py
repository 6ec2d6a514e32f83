"""Analyses fused functions, and makes the code that they run."""

from __future__ import annotations

import ast
import itertools
import json
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from polyloom import _native
from polyloom._errors import CompileError, Diagnostic
from polyloom._fusion_group import Group, RefusedGroup, declared_values
from polyloom._fusion_names import NameResolver, op_of
from polyloom._fusion_numpy import (
    VIEWS,
    array_names,
    assumed_numbers,
    callee_of,
    has_name,
    index_of,
    parameters_of,
)
from polyloom._fusion_rewrite import FunctionRewriter, compiled
from polyloom._fusion_text import TextIndex, definition
from polyloom._kernel_op import KernelOp
from polyloom._source_units import unit_of
from polyloom._tensor import ArgumentCheck, argument_check

FloatMode: TypeAlias = Literal["strict", "contract", "fast"]

# How often a function is analysed again because a name refers to another object. After that it runs as it is written.
MAX_VERSIONS = 8


class GroupList(Sequence[Group]):
    """The groups of a function, which is analysed when they are first looked at."""

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion

    def __len__(self) -> int:
        return len(self._fusion.analysed().groups)

    def __getitem__(self, index: Any) -> Any:
        return self._fusion.analysed().groups[index]

    def __iter__(self) -> Iterator[Group]:
        return iter(self._fusion.analysed().groups)

    def __repr__(self) -> str:
        return repr(self._fusion.analysed().groups)


class Version:
    """One analysis of a function, with the code that it led to."""

    def __init__(self, captured: Any, resolver: NameResolver, plan: dict[str, Any]) -> None:
        self.captured, self.resolver, self.plan = captured, resolver, plan
        self.groups: list[Group] = []
        self.callees: list[list[Callable[..., Any]]] = []
        # The parameters that the guard of the entry looks at.
        self.parameters: list[str] = []
        # For each group, the guard that tells if the names of its ops are still what they were.
        self.names: list[Any] = []

    def release(self) -> None:
        """Lets the groups go, and what the analysis has found."""
        self.groups, self.callees, self.names = [], [], []
        self.captured, self.plan = None, {"groups": [], "plain": []}

    def is_current(self) -> bool:
        """True if every name still refers to the object that it did."""
        for where, name, value in self.resolver.guards:
            if name is None:
                try:
                    found = where.cell_contents
                except ValueError:
                    return False
            else:
                found = where.get(name)
            if found is not value:
                return False
        if any(name in names for names, name in self.resolver.absent):
            return False
        return all(
            function.__code__ is code and function.__defaults__ is defaults and function.__kwdefaults__ is by_name
            for function, code, defaults, by_name in self.resolver.functions
        )


class Fusion:
    """The state of a fused function: its original, its analyses, and counters."""

    def __init__(
        self,
        original: FunctionType,
        lines: list[str],
        is_strict: bool,
        is_on: bool,
        float_mode: FloatMode,
        has_numpy: bool = False,
        policy: int | None = None,
    ) -> None:
        # The number of the policy by which the paths of groups are chosen; that of the process if there is none.
        self.policy = policy
        self.original, self.lines = original, lines
        self.is_strict, self.is_on = is_strict, is_on
        self.float_mode = float_mode
        # Parameters and globals that are not taken to be arrays; nothing if NumPy is not captured.
        self.others: set[str] | None = assumed_numbers(original) if has_numpy else None
        # Compares the arguments of each call with their annotations.
        self.check_arguments = argument_check(original)
        self.names = original.__globals__
        self.function: FunctionType = original
        # The code that analyses the function when it is called.
        self.start: CodeType = original.__code__
        # Versions that `forget` has dropped.
        self.n_forgotten = 0
        self.is_forgotten = False
        # First calls without an array, which were not analysed.
        self.n_postponed = 0
        text = "".join(lines)
        self.prefix = next(name for n in itertools.count() if (name := "_loom" + "_" * n) not in text)
        # The code of each version reads its tuple when it is entered.
        self.versions: list[tuple[Any, ...]] = []
        self.analyses: list[Version] = []
        self.lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        """Sets the counters to zero."""
        self.n_calls = itertools.count()
        self.count = self.n_calls.__next__
        self.n_refusals = 0
        self.n_kept_out = 0

    def first_call(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Analyses the function, and calls it."""
        with self.lock:
            if not self.analyses or self.is_forgotten:
                if self.others is not None:
                    arrays = array_names(self.original, arguments, named)
                    given = (*arguments, *named.values())
                    if not arrays and any(map(_may_be_array_later, given)) and self.n_postponed < MAX_VERSIONS:
                        # A call with numbers in place of arrays tells nothing of those that come later.
                        self.n_postponed += 1
                        self.n_kept_out += 1
                        return self.original(*arguments, **named)
                    self.others = set(parameters_of(self.original)) - arrays
                self.is_forgotten = False
                self.renew(len(self.versions) - 1)
        return self.function(*arguments, **named)

    def call_original(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Calls the function as it is written."""
        self.count()
        self.n_kept_out += 1
        if self.check_arguments is not None:
            self.check_arguments.of_call(arguments, named)
        return self.original(*arguments, **named)

    # The rewritten code calls these three, where a group does not run.

    def keep_out(self, version: int, *parameters: Any) -> None:
        """Notes a call that runs as it is written: a value from outside is of a class that may run code, or a name has
        changed."""
        self.n_kept_out += 1
        if self._has_other_kinds(version, parameters):
            self.renew(version)
        else:
            self._renew_if_changed(version)

    def refused(self, version: int, number: int) -> None:
        """Notes that a group did not run. Where names have changed, later calls run code for what they are now."""
        self.n_refusals += 1
        self._renew_if_changed(version)

    def _has_other_kinds(self, version: int, parameters: tuple[Any, ...]) -> bool:
        """Notes parameters and globals that were taken to be arrays and are numbers; true if there are any."""
        if self.others is None or version + 1 != len(self.versions):
            return False
        analysis = self.analyses[version]
        found = dict(zip(analysis.parameters, parameters, strict=True))
        names = set()
        for each in analysis.plan["plain"]:
            if each["is_array"]:
                ((kind, name),) = each["root"].items()
                value = found[name] if kind == "parameter" else self._free(analysis, name)
                if isinstance(value, (bool, int, float, complex, np.generic, type(None))):
                    names.add(name)
        self.others |= names
        return bool(names)

    def _free(self, analysis: Version, name: str) -> Any:
        if name not in analysis.resolver.cells:
            return self.names.get(name)
        try:
            return analysis.resolver.cells[name].cell_contents
        except ValueError:
            return None

    def _renew_if_changed(self, version: int) -> None:
        if version + 1 == len(self.versions) and not self.analyses[version].is_current():
            self.renew(version)

    def run_calls(self, version: int, number: int, n: int, *values: Any) -> list[Any]:
        """Runs the first calls of a group one by one, over its external values."""
        group = self.analyses[version].plan["groups"][number]
        results: list[Any] = []

        def operand(described: Any) -> Any:
            ((kind, value),) = described.items()
            if kind == "in":
                return values[value]
            if kind == "call":
                return results[value]
            if kind == "index":
                return index_of(value)
            return _literal(value) if kind == "const" else [operand(each) for each in value]

        def argument(member: dict[str, Any], described: Any) -> Any:
            value = operand(described)
            # NumPy takes tuples of axes, ops take either.
            return tuple(value) if member["op"] is not None and "list" in described else value

        for member, op in zip(group["members"][:n], self.analyses[version].callees[number], strict=False):
            named = {name: argument(member, each) for name, each in member["keywords"]}
            results.append(op(*[argument(member, each) for each in member["arguments"]], **named))
        return results

    # Analysis.

    def forget(self) -> None:
        """Lets the next call analyse the function anew."""
        with self.lock:
            self.function.__code__ = self.start
            # Calls that are running read what their version has.
            self.is_forgotten = True
            self.n_forgotten = len(self.versions)
            # Code of an older version reads what it has once, when it is entered: nothing enters one so old.
            for old in range(len(self.versions) - MAX_VERSIONS):
                self.versions[old] = ()
                self.analyses[old].release()
            for analysis in self.analyses:
                for group in analysis.groups:
                    group.native.cache_clear()
            self.clear()

    def analysed(self) -> Version:
        """The latest analysis."""
        with self.lock:
            if not self.analyses or self.is_forgotten:
                self.is_forgotten = False
                self.renew(len(self.versions) - 1)
            return self.analyses[-1]

    def renew(self, version: int) -> None:
        """Analyses the function, unless that has been done since `version`, and lets later calls run the new code."""
        with self.lock:
            if version + 1 != len(self.versions):
                return
            analysis = self._analyse()
            try:
                code, parts = self._code(analysis, version + 1)
            except (AttributeError, LookupError):
                # The tree has a form that the plan does not fit, so that nothing is fused.
                analysis.plan = {**analysis.plan, "groups": []}
                analysis.groups, analysis.callees, analysis.names = [], [], []
                code, parts = self._code(analysis, version + 1)
            if self.is_strict:
                self._check_strict(analysis)
            self.analyses.append(analysis)
            self.versions.append(parts)
            self.function.__code__ = code

    def _analyse(self) -> Version:
        code = self.original.__code__
        resolver = NameResolver(self.original, others=self.others)
        unit = unit_of(code.co_filename, self.lines)
        captured = _native.CapturedFunction(
            unit, code.co_firstlineno, self.original, resolver, None if self.others is None else sorted(self.others)
        )
        plan = json.loads(captured.rewriting())
        if not self.is_on or len(self.versions) - self.n_forgotten >= MAX_VERSIONS:
            plan = {**plan, "groups": []}
        return Version(captured, resolver, plan)

    def _code(self, analysis: Version, version: int) -> tuple[CodeType, tuple[Any, ...]]:
        code, plan = self.original.__code__, analysis.plan
        node = definition(self.lines, code)
        free = (*code.co_freevars, self.prefix)
        if plan["shows_names"]:
            return _forwarding(self, "call_original"), ()
        if not plan["groups"]:
            node.body = [*_with_reading(node.body, self.prefix, self.check_arguments)]
            return compiled(node, code, free, _private_class(self.original), self.original.__qualname__), ()
        parameters = [root["parameter"] for each in plan["plain"] if "parameter" in (root := each["root"])]
        parameters = list(dict.fromkeys(parameters))
        analysis.parameters = parameters
        rewriter = FunctionRewriter(plan, TextIndex(self.lines), self.prefix, version)
        checked = [] if self.check_arguments is None else self.check_arguments.names
        node = rewriter.rewritten(node, parameters, code.co_freevars, checked)
        made = compiled(node, code, free, _private_class(self.original), self.original.__qualname__)
        entry = self._entry_guard(analysis, parameters)
        for number, group in enumerate(plan["groups"]):
            self._make_group(analysis, number, group)
        constants = [analysis.resolver.objects.get(path) or op_of(path) for path in rewriter.constants]
        runners = [group.native for group in analysis.groups]
        return made, (entry, *runners, *analysis.names, *constants)

    def _entry_guard(self, analysis: Version, parameters: list[str]) -> Any:
        resolver = analysis.resolver
        class_ = _private_class(self.original)
        rows: list[Any] = []
        for each in analysis.plan["plain"]:
            ((kind, name),) = each["root"].items()
            if kind == "parameter":
                root: Any = parameters.index(name)
            elif name in resolver.cells:
                root = resolver.cells[name]
            else:
                root = (self.names, name)
            path, attributes, stored = (
                [_mangled(name, class_) for name in each[key]] for key in ("path", "loaded", "stored")
            )
            flags = (each["has_operators"], each["is_single"], each["is_array"])
            rows.append((root, path, *flags, attributes, stored))
        return _native.EntryGuard(rows, resolver.guards, resolver.absent, resolver.functions)

    def _make_group(self, analysis: Version, number: int, group: dict[str, Any]) -> None:
        paths = [member["path"] for member in group["members"]]
        callees = [callee_of(path, analysis.resolver.objects) for path in paths]
        analysis.callees.append(callees)
        # Names of modules on the way to an op, and the names of the ops themselves.
        on_the_way = {path.rpartition(".")[0] for path in paths} | {"polyloom", "numpy"}
        guards = [
            guard
            for guard in analysis.resolver.guards
            if any(guard[2] is callee for callee in callees) or getattr(guard[2], "__name__", None) in on_the_way
        ]
        # An import in the function itself binds what the module has.
        for path, callee in zip(paths, callees, strict=True):
            if not has_name(path):
                continue
            module, _, name = path.rpartition(".")
            guards.append((vars(sys.modules[module]), name, callee))
        calls = [_call(member, callee) for member, callee in zip(group["members"], callees, strict=True)]
        name = f"{self.original.__name__}_{number}"
        analysis.names.append(_native.EntryGuard([], guards, [], []))
        try:
            native: Any = _native.FusionGroup(name, calls, group["outputs"], guards, self.float_mode)
        except (TypeError, ValueError):
            # An op does not take what a call gives it. The call says so when it runs.
            native = RefusedGroup()
        if self.policy is not None:
            native._set_policy(self.policy)
        declared, code = None, self.original.__code__
        if self.check_arguments is not None:
            annotations = self.check_arguments.annotations
            declared = declared_values(group["slots"], annotations, definition(self.lines, code), code)
        analysis.groups.append(Group(name, group["calls"], group["moment"], native, declared))

    def _check_strict(self, analysis: Version) -> None:
        report = json.loads(analysis.captured.report())
        n_calls = len(report["calls"])
        is_one = n_calls == 1 or (len(analysis.groups) == 1 and len(analysis.groups[0].calls) == n_calls)
        if is_one and not report["left_calls"]:
            return
        code = self.original.__code__
        diagnostics = [
            _ended_fusion(each["reason"], each["help"], each["file"], each["line"], each["column"])
            for each in report["breaks"]
        ]
        without_strict = "call the function without `strict=True`"
        diagnostics += [
            _ended_fusion(
                f"`{each['label']}` stays Python, {each['reason']}",
                without_strict,
                each["file"],
                each["line"],
                each["column"],
            )
            for each in report["left_calls"]
        ]
        if not diagnostics:
            n_kernels = n_calls - sum(len(group.calls) - 1 for group in analysis.groups)
            reason = f"{n_calls} calls run as {n_kernels} kernels"
            if n_calls == 0:
                reason = "it calls no `ops.*`, so no kernel is made of it"
                if self.others is None:
                    reason += ": NumPy's own functions and operators are captured by `fuse(numpy=True)`"
            left = analysis.plan["left"]
            if left:
                reason += f": `{report['labels'][left[0][0]]}` is left alone, since {left[0][1]}"
            diagnostics = [_ended_fusion(reason, without_strict, code.co_filename, code.co_firstlineno, 1)]
        raise CompileError(diagnostics, analysis.captured.explanation(), None)


def _ended_fusion(reason: str, advice: str, file: str, line: int, column: int) -> Diagnostic:
    """The finding that fusion ends at a place."""
    return Diagnostic("PL0304", "error", reason, advice, file, line, column, line, column)


def _may_be_array_later(value: Any) -> bool:
    """True of numbers and sequences of them: other calls of the function may have an array in their place."""
    return isinstance(value, (bool, int, float, complex, np.generic, list, tuple))


def _literal(text: str) -> Any:
    return ast.literal_eval(text)


def _call(member: dict[str, Any], callee: Callable[..., Any]) -> tuple[Any, ...]:
    """A call as the native group takes it."""
    arguments = [_operand(each) for each in member["arguments"]]
    named = {name: _operand(each) for name, each in member["keywords"]}
    if member["op"] is None:
        called = callee if isinstance(callee, KernelOp) else member["path"].rpartition(".")[2]
        return called, arguments, named
    given: dict[str, Any] = {}
    is_many = len(set(member["parameters"])) < len(member["parameters"])
    for name, value in zip(member["parameters"], [*arguments, *named.values()], strict=True):
        if name == "index":
            continue
        if name in given:
            given[name] = ("list", [*given[name][1], value])
        else:
            # One argument may be a tuple itself.
            given[name] = ("list", [value]) if is_many and name in ("shape", "axes") else value
    of_numpy = (callee, arguments, named, member["op"] in VIEWS)
    if member["op"] == "slice":
        return "slice", [given["x"]], {}, of_numpy
    return member["op"], [], given, of_numpy


def _operand(described: dict[str, Any]) -> tuple[str, Any]:
    ((kind, value),) = described.items()
    if kind == "const":
        return kind, _literal(value)
    if kind == "index":
        return "const", index_of(value)
    return (kind, [_operand(each) for each in value]) if kind == "list" else (kind, value)


def _with_reading(body: list[Any], name: str, check: ArgumentCheck | None) -> list[Any]:
    """The body of a function that reads a name of its closure, and checks its arguments if annotations declare them."""
    has_doc = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    at = int(has_doc and len(body) > 1)
    text = name if check is None else f"{name}.check_arguments({', '.join(check.names)})"
    (reading,) = ast.parse(text).body
    for node in ast.walk(reading):
        ast.copy_location(node, body[at])
    return [*body[:at], reading, *body[at:]] if at or not has_doc else [*body, reading]


def _mangled(name: str, class_: str | None) -> str:
    is_private = name.startswith("__") and not name.endswith("__") and class_ is not None
    return f"_{str(class_).lstrip('_')}{name}" if is_private else name


def _private_class(function: FunctionType) -> str | None:
    """The class whose name mangles the private names of a function."""
    parts = function.__qualname__.split(".")
    classes = [
        part for part, after in zip(parts, parts[1:], strict=False) if part != "<locals>" and after != "<locals>"
    ]
    return classes[-1] if classes else None


def trampoline(fusion: Fusion) -> FunctionType:
    """A function in place of the original, which analyses that when it is first called."""
    original = fusion.original
    code = original.__code__
    start = _forwarding(fusion, "first_call")
    cells = dict(zip(code.co_freevars, original.__closure__ or (), strict=True))
    cells[fusion.prefix] = types.CellType(fusion)
    # Every version has the same names in its closure, in the order of their text.
    function = FunctionType(
        start,
        original.__globals__,
        original.__name__,
        original.__defaults__,
        tuple(cells[name] for name in start.co_freevars),
    )
    function.__kwdefaults__ = original.__kwdefaults__
    fusion.start = start
    return function


def _forwarding(fusion: Fusion, method: str) -> CodeType:
    """The code that hands a call on to a method."""
    code = fusion.original.__code__
    free = (*code.co_freevars, fusion.prefix)
    # Names of the closure that are not read would not be in the code.
    text = (
        f"def {code.co_name}(*arguments, **named):\n"
        f"    if False: ({', '.join(free)},)\n"
        f"    return {fusion.prefix}.{method}(arguments, named)\n"
    )
    node = cast(ast.FunctionDef, ast.parse(text).body[0])
    place = code.replace(co_filename="<polyloom.fuse>", co_firstlineno=1)
    return compiled(node, place, free, None, fusion.original.__qualname__)
