"""Runs Warp's own unit tests with the import swapped, on the CPU, and says how each ends.

Each module runs in a process of its own. A statement of a module that fails ends the module, as an import does, and all
its tests are lost; `--tolerant` goes on without the statement. `target/warp-tests/failures.json` has what did not pass.

usage: python scripts/warp_tests.py [MODULE…] [--only TEXT] [--tolerant] [--traces] [--jobs N] [--write docs/warp.md]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from warptests.scope import MODULES, why_on_purpose  # noqa: E402

ROOT = HERE.parent
WORK = Path(os.environ.get("WARP_TESTS_WORK", ROOT / "target" / "warp-tests"))
# A process that dies is started again without the test it died of, but not for ever.
MOST_CRASHES = 20


def environment() -> dict[str, str]:
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH"), str(ROOT / "python")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "POLYLOOM_CACHE": "0", "POLYLOOM_ERRORS": "launch"}


def listed(modules: list[str]) -> dict[str, dict[str, str]]:
    """The tests of each module, each with why it is out of scope, which is empty if it is not."""
    file = WORK / "tests.json"
    newest = max(path.stat().st_mtime for path in (HERE / "warptests").glob("*.py"))
    known = json.loads(file.read_text()) if file.exists() and file.stat().st_mtime > newest else {}
    missing = [name for name in modules if name not in known]
    if missing:
        if not known:
            file.unlink(missing_ok=True)
        subprocess.run(
            [sys.executable, "-m", "warptests.listing", str(file), *missing],
            env=environment(),
            cwd=WORK,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        known = json.loads(file.read_text())
    return {name: known[name] for name in modules if name in known}


def run(module: str, options: argparse.Namespace) -> dict[str, Any]:
    """How the tests of a module end: `import`, the error that ended the module, `dropped` statements, and `tests`."""
    output, log = WORK / f"{module}.jsonl", WORK / f"{module}.log"
    output.unlink(missing_ok=True)
    found: dict[str, Any] = {"import": None, "dropped": [], "tests": {}}
    tests = found["tests"]
    for _ in range(MOST_CRASHES):
        command = [sys.executable, "-m", "warptests.worker", module, str(output), "--only", options.only]
        command += ["--seconds", str(options.seconds), *(["--tolerant"] if options.tolerant else [])]
        for key in tests:
            command += ["--skip", key]
        with open(log, "w") as file:
            try:
                status = subprocess.run(
                    command,
                    env=environment(),
                    cwd=WORK,
                    stdout=file,
                    stderr=file,
                    stdin=subprocess.DEVNULL,
                    timeout=40 * options.seconds,
                ).returncode
            except subprocess.TimeoutExpired:
                status = 1
        started = ""
        for line in output.read_text().splitlines() if output.exists() else []:
            told = json.loads(line)
            if "test" not in told:
                found.update({key: told[key] for key in ("dropped", "import", "place", "trace") if key in told})
                continue
            if told["verdict"] == "started":
                started = told["test"]
                tests.setdefault(started, {"verdict": "crashed", "error": "the process died"})
            elif tests.setdefault(told["test"], told)["verdict"] in ("crashed", "passed"):
                # The first of several subtests that fail counts.
                tests[told["test"]] = told
        if status == 0:
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--only", default="", help="only tests whose name has this in it")
    parser.add_argument("--tolerant", action="store_true", help="go on without statements that fail")
    parser.add_argument("--traces", action="store_true", help="print the tracebacks of what does not pass")
    parser.add_argument("--seconds", type=int, default=60, help="for each test")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", metavar="PAGE", help="put the section about the tests into this page")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    modules = options.modules or MODULES
    if options.write and (options.modules or options.only or options.tolerant):
        parser.error("--write is for all tests as they stand")
    scope = listed(modules)
    start = time.time()
    results: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for module, found in zip(modules, pool.map(lambda name: run(name, options), modules), strict=True):
            results[module] = found
            ends = ends_of(module, scope.get(module, {}), found, options.only)
            counts = Counter(end["verdict"] for end in ends.values())
            print(f"{time.time() - start:6.0f} s  {module}: {told_counts(counts)}", flush=True)
            if found["import"]:
                print(f"           does not import: {found.get('place')}: {found['import']}")
            for line, text, error in found["dropped"]:
                print(f"           without line {line} ({text}): {error}")
            if options.modules:
                for key, end in ends.items():
                    if end["verdict"] in BAD and not (end["verdict"] == "lost" and found["import"]):
                        print(f"    {end['verdict']:7} {key} [{end.get('place', '')}]: {end.get('error', '')}")
                        if options.traces and "trace" in end:
                            print("        " + end["trace"].replace("\n", "\n        "))
    ends = {module: ends_of(module, scope.get(module, {}), found, options.only) for module, found in results.items()}
    bad = {
        module: {key: end for key, end in of_module.items() if end["verdict"] in BAD}
        for module, of_module in ends.items()
    }
    (WORK / "failures.json").write_text(json.dumps({m: b for m, b in bad.items() if b}, indent=1))
    counts = Counter(end["verdict"] for of_module in ends.values() for end in of_module.values())
    print(told_counts(counts))
    if options.write:
        from warp_names import with_section  # imports both packages

        page = Path(options.write)
        page.write_text(with_section(page.read_text(), "tests", section(ends)))


BAD = ("failed", "error", "crashed", "timeout", "lost")


def section(ends: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The section of docs/warp.md about the tests."""
    counts = Counter(end["verdict"] for of_module in ends.values() for end in of_module.values())
    out_of_scope = Counter(
        end["error"] for of_module in ends.values() for end in of_module.values() if end["verdict"] == "out of scope"
    )
    n_all = sum(counts.values())
    n = n_all - counts["out of scope"] - counts["skipped"]
    on_purpose: dict[str, list[str]] = {}
    n_other = 0
    for module, of_module in ends.items():
        for key, end in of_module.items():
            if end["verdict"] in BAD:
                if reason := why_on_purpose(module, key):
                    on_purpose.setdefault(reason, []).append(key.partition(".")[2])
                else:
                    n_other += 1
    n_on_purpose = sum(map(len, on_purpose.values()))
    lines = [
        "## Warp's own unit tests",
        "",
        "`make warp-tests` runs the test modules that are installed with Warp and are about the core language, arrays,",
        "launches and gradients, on the CPU. Nothing changes but the module that `warp` means;",
        "`POLYLOOM_ERRORS=launch` has errors of kernels told where Warp tells them. A statement that fails ends its",
        "module.",
        "",
        "| | tests | |",
        "|---|---:|---:|",
        f"| in {len(ends)} modules | {n_all} | |",
        f"| skipped by themselves, such as for CUDA and PyTorch | {counts['skipped']} | |",
        f"| out of scope | {counts['out of scope']} | |",
        f"| in scope | {n} | |",
        f"| pass | {counts['passed']} | {100 * counts['passed'] / n:.1f} % |",
        f"| differ on purpose | {n_on_purpose} | {100 * n_on_purpose / n:.1f} % |",
        f"| fail | {n_other} | {100 * n_other / n:.1f} % |",
        "",
        "Out of scope, by the text of a test, are "
        + ", ".join(f"{reason} ({count})" for reason, count in out_of_scope.most_common())
        + ".",
        "",
        "| tests | differ on purpose |",
        "|---:|---|",
        *(f"| {len(keys)} | {reason}: {examples(keys)} |" for reason, keys in sorted(on_purpose.items(), key=by_count)),
    ]
    return "\n".join(lines)


def by_count(item: tuple[str, list[str]]) -> tuple[int, str]:
    return -len(item[1]), item[0]


def examples(keys: list[str]) -> str:
    """The first of these tests by name."""
    shown = ", ".join(f"`{key}`" for key in keys[:3])
    return shown if len(keys) <= 3 else f"{shown}, …"


def ends_of(module: str, tests: dict[str, str], found: dict[str, Any], only: str) -> dict[str, dict[str, Any]]:
    """How each test of a module ends, with `out of scope` and, where the module does not import, `lost` among it."""
    ends = {}
    for key, reason in tests.items():
        if only not in key:
            continue
        # Tests of a type have its name, and `vec3f` is `vec3` here.
        end = found["tests"].get(key) or found["tests"].get(key.replace("_vec3f_", "_vec3_"))
        if end is not None and end["verdict"] == "skipped":
            ends[key] = end
        elif reason:
            ends[key] = {"verdict": "out of scope", "error": reason}
        elif end is None:
            ends[key] = {"verdict": "lost", "error": found["import"] or "not registered", "place": found.get("place")}
        else:
            ends[key] = end
    return ends


def told_counts(counts: Counter[str]) -> str:
    n = sum(counts.values()) - counts["out of scope"] - counts["skipped"]
    parts = [f"{counts[verdict]} {verdict}" for verdict in (*BAD, "skipped", "out of scope") if counts[verdict]]
    share = f" ({100 * counts['passed'] / n:.1f} %)" if n else ""
    return f"{counts['passed']} of {n} in scope pass{share}" + (f"; {', '.join(parts)}" if parts else "")


if __name__ == "__main__":
    main()
