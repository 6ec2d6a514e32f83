"""Counts what became of the corpus: tables for `docs/warp.md`, and a longer list of failures."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

STAGES = {
    "compile": "do not compile",
    "launch": "the launch is refused",
    "check": "a check fails",
    "differ": "results differ",
    "crash": "the process ended or took too long",
    "script": "the script failed",
}


def group(unit: dict[str, Any]) -> str:
    top = unit["file"].split("/")[0]
    return {"tests": "tests", "examples": "examples"}.get(top, "Warp's own kernels that those launch")


def merged(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every kernel each time it was made, but kernels of Warp's library once for each outcome."""
    units = []
    seen: set[Any] = set()
    for result in results:
        for unit in result["units"]:
            unit["module"] = result["module"]
            if group(unit) not in ("tests", "examples"):
                outcome = unit.get("outcome") or {}
                key = (unit["file"], unit["line"], unit["name"], outcome.get("stage"), outcome.get("reason"))
                if key in seen:
                    continue
                seen.add(key)
            units.append(unit)
    return units


def is_core(unit: dict[str, Any]) -> bool:
    return unit["scope"] == "core" and unit["warp"] is None


def compiles(unit: dict[str, Any]) -> bool:
    return unit["outcome"]["stage"] not in ("compile", "crash", "script")


# Builtins that have more than one right answer, or of which the last bits differ on purpose; `docs/warp.md` says how.
DECOMPOSITIONS = {"svd2", "svd3", "qr3", "eig3"}
INVERSES = {"inverse", "determinant"}
FUNCTIONS = {
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "log",
    "pow",
    "cbrt",
    "randn",
}


# Tests whose kernels are not the same program when they are repeated, by names of theirs, and why.
NOT_REPEATED = {
    "test_hash_redefine_kernel": "the test changes a constant after it makes the kernel, before it is repeated",
    "_make_cpu_llvm_options_kernel": "the test has Warp compile with less exact arithmetic",
    "test_static_transformer": "the test changes the kernel's syntax tree",
    "test_static_duplicate_expression": "`static` of a function that counts its calls, which both programs call",
}


def on_purpose(unit: dict[str, Any]) -> str | None:
    """Why the results of a kernel differ from Warp's on purpose, if they do."""
    if unit["outcome"]["stage"] != "differ":
        return None
    calls, difference = set(unit["calls"]), unit["outcome"]["difference"]
    for name, reason in NOT_REPEATED.items():
        if name in unit["name"]:
            return reason
    if any(name.startswith("def ") for name in calls):
        return "a function named `add` or `sub` changes no operator"
    if calls & DECOMPOSITIONS:
        return "signs and order of the parts of a decomposition"
    if calls & INVERSES and difference < 1e-2:
        return "rounding within inverses and determinants"
    if (calls & FUNCTIONS or any(name.startswith("quat_") for name in calls)) and difference < 1e-4:
        return "last bits of mathematical functions, which the kernel magnifies"
    return None


def general(reason: str) -> str:
    """A message without the names of one kernel."""
    reason = re.sub(r"kernel '[^']*'", "kernel …", reason)
    reason = re.sub(r"argument '[^']*'", "argument …", reason)
    reason = re.sub(r"\[[\d, ]+\]: \S+ for \S+", "…", reason)
    return re.sub(r"(?<![\w.])-?\d[\d.e+-]*", "N", reason)


def share(n: int, of: int) -> str:
    return f"{n} ({100 * n / of:.1f} %)" if of else "0"


def summary(units: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| kernels of | core | compile | launched and compared | agree | of these bit for bit | differ on purpose |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    groups = ["tests", "examples", "Warp's own kernels that those launch", "together"]
    for name in groups:
        core = [unit for unit in units if is_core(unit) and name in (group(unit), "together")]
        compiled = [unit for unit in core if compiles(unit)]
        compared = [unit for unit in compiled if unit["outcome"]["stage"] in ("agree", "differ", "check")]
        agree = [unit for unit in compared if unit["outcome"]["stage"] == "agree"]
        exact = [unit for unit in agree if unit["outcome"].get("exact")]
        cells = [str(len(core)), share(len(compiled), len(core)), str(len(compared))]
        cells += [share(len(agree), len(compared)), str(len(exact))]
        cells.append(str(sum(on_purpose(unit) is not None for unit in compared)))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def definitions(units: list[dict[str, Any]]) -> str:
    """The same by definitions: one counts as compiling if all kernels made of it do."""
    made: dict[Any, list[bool]] = defaultdict(list)
    for unit in units:
        if is_core(unit):
            made[unit["file"], unit["line"], unit["name"]].append(compiles(unit))
    n_all = sum(all(each) for each in made.values())
    made_of = f"These are {len(made)} definitions in Warp's text"
    return f"{made_of}, of which {share(n_all, len(made))} compile whatever they are made for."


def excluded(units: list[dict[str, Any]]) -> list[str]:
    reasons = Counter(unit["scope"] for unit in units if unit["scope"] != "core")
    rejected = sum(unit["scope"] == "core" and unit["warp"] is not None for unit in units)
    lines = ["| not counted | kernels |", "|---|---:|"]
    lines += [f"| {reason} | {n} |" for reason, n in reasons.most_common()]
    lines.append(f"| Warp rejects them too, as its tests want | {rejected} |")
    return lines


def failures(units: list[dict[str, Any]]) -> list[str]:
    counts: Counter[Any] = Counter()
    for unit in units:
        if is_core(unit) and unit["outcome"]["stage"] in STAGES:
            outcome = unit["outcome"]
            purpose = on_purpose(unit)
            if purpose is not None:
                counts["differ on purpose", "", purpose] += 1
                continue
            counts[STAGES[outcome["stage"]], outcome.get("code", ""), general(outcome.get("reason") or "")] += 1
    lines = ["| kernels | | code | reason |", "|---:|---|---|---|"]
    for (stage, code, reason), n in counts.most_common():
        lines.append(f"| {n} | {stage} | {code} | {reason.replace('|', chr(92) + '|')} |")
    return lines


# Reasons of fewer kernels than this are counted together on the page.
FEW = 3


def load(folder: Path) -> list[dict[str, Any]]:
    """What a run of the corpus left in its folder, `target/warp-corpus`, module by module."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def has_failures(result: dict[str, Any]) -> bool:
    """Whether a kernel of a module does not compile, or does not agree without a purpose."""
    core = [unit for unit in result["units"] if is_core(unit)]
    return any(unit["outcome"]["stage"] in STAGES and on_purpose(unit) is None for unit in core)


def compile_times(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kernels that were measured: where each is, and both times in seconds."""
    return [unit | {"ratio": unit["warp_seconds"] / unit["seconds"]} for r in results for unit in r.get("times", [])]


def times(results: list[dict[str, Any]]) -> str:
    """What the measured kernels have in common, as a sentence."""
    measured = compile_times(results)
    if not measured:
        return "Compile times were not measured."
    ratios = sorted(unit["ratio"] for unit in measured)
    ours = statistics.median(unit["seconds"] for unit in measured) * 1e3
    theirs = statistics.median(unit["warp_seconds"] for unit in measured) * 1e3
    low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
    return (
        f"{len(measured)} of these kernels, compiled alone and forward only, take Warp {theirs:.0f} ms and Polyloom "
        f"{ours:.2f} ms (medians); kernel by kernel Warp takes {statistics.median(ratios):.0f} times as long (median; "
        f"between the first and the last tenth, {low:.0f} to {high:.0f} times)."
    )


def section(units: list[dict[str, Any]], results: list[dict[str, Any]]) -> str:
    """The section of `docs/warp.md`."""
    rows = failures(units)
    head, rows = rows[:2], rows[2:]
    shown = [row for row in rows if int(row.split("|")[1]) >= FEW]
    n_rest = sum(int(row.split("|")[1]) for row in rows) - sum(int(row.split("|")[1]) for row in shown)
    lines = [
        "## Warp's own tests and examples",
        "",
        "`make warp-corpus` runs the tests and examples that are installed with Warp, keeps the kernels they make and",
        "the arguments and results of their launches, and repeats these with Polyloom, checks on. Nothing changes but",
        "the module that `wp` means. A result agrees if it is off by at most 2e-5 of 1 or of the largest number in its",
        "array, whichever is greater, in float32; Warp compiles for this without contraction.",
        "",
        *summary(units),
        "",
        definitions(units),
        times(results),
        "",
        *excluded(units),
        "",
        "What fails, by the first message:",
        "",
        *head,
        *shown,
        f"| {n_rest} | other reasons, of fewer than {FEW} kernels each | | |",
    ]
    lines += [
        "",
        "A kernel is no core kernel if it, or a function it calls, has parameters of or calls builtins of tiles,",
        "geometry, volumes, textures, Fabric or FEM, has native code (`dense_gemm` and its kin and builtins that tests",
        "add are such), or asks for gradients itself. Raw pointers, `array(ptr=…)`, count as core and are refused:",
        "nothing can check them. So are vectors of no components and arrays of structs that hold arrays.",
    ]
    return "\n".join(lines)


def detailed(units: list[dict[str, Any]], results: list[dict[str, Any]]) -> str:
    """All of it, with places: for whoever closes the gaps."""
    lines = ["# Warp corpus", "", *summary(units), "", definitions(units), "", *excluded(units), ""]
    lines += ["## Failures: by message of the first error", "", *failures(units), ""]
    lines += ["## With places", ""]
    places: dict[Any, list[str]] = defaultdict(list)
    for unit in units:
        if is_core(unit) and unit["outcome"]["stage"] in STAGES:
            outcome = unit["outcome"]
            at = f"{unit['file']}:{unit['line']} {unit['name']}"
            if outcome.get("line"):
                at += f" (line {outcome['line']})"
            if on_purpose(unit) is not None:
                continue
            key = (outcome["stage"], outcome.get("code", ""), general(outcome.get("reason") or ""))
            places[key].append(f"{at}: {(outcome.get('reason') or '')[:200]}")
    for key, found in sorted(places.items(), key=lambda item: -len(item[1])):
        lines.append(f"- **{len(found)}** {key[0]} {key[1]} {key[2][:200]}")
        lines += [f"    - {place}" for place in list(dict.fromkeys(found))[:6]]
    lines += ["", "## All errors of the kernels that do not compile: a kernel counts for each", ""]
    every: Counter[Any] = Counter()
    for unit in units:
        if is_core(unit):
            for code, message, _ in {tuple(e) for e in unit["outcome"].get("all", [])}:
                every[code, general(message)] += 1
    lines += [f"- {n} {code} {message}" for (code, message), n in every.most_common(150)]
    lines += ["", "## Launches that were not repeated", ""]
    reasons = Counter(
        unit["not_recorded"] or unit["outcome"].get("reason") or "Warp launches it nowhere"
        for unit in units
        if is_core(unit) and unit["outcome"]["stage"] == "compiled"
    )
    lines += [f"- {n} {reason}" for reason, n in reasons.most_common()]
    lines += ["", "## Modules that stopped", ""]
    lines += [f"- {result['module']}: {result['stopped'][:200]}" for result in results if result["stopped"]]
    return "\n".join(lines) + "\n"
