"""Compiles the kernels of installed packages that were written for Warp, with `warp` meaning Polyloom.

The modules of a package are imported one after the other. Kernels whose parameters have all their types are compiled
for the CPU; generic ones are counted. What uses parts of Warp that Polyloom does not have, tiles for one, is refused
and no core kernel. `target/warp-packages/report.md` has the table, each module that cannot be imported, and each error.

usage: python scripts/warp_packages.py PACKAGE… [--seconds N] [--jobs N] [--write docs/warp.md]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "warp-packages"
INTRODUCTION = """## Packages written for Warp

`scripts/warp_packages.py` imports the modules of an installed package with `warp` meaning Polyloom, and compiles the
kernels whose parameters have all their types. Modules that are not imported need other packages, or CUDA."""


def examine(name: str) -> dict[str, Any]:
    """Imports a module and compiles its kernels: `import`, what is wrong with that, and `kernels` by their names."""
    import polyloom
    from warptests.worker import Finder

    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder(is_tolerant=False))
    warnings.simplefilter("ignore")

    found: dict[str, Any] = {"import": "", "kernels": {}}
    try:
        module = importlib.import_module(name)
    except TimeOut:
        raise
    except BaseException as error:  # a module may do anything
        found["import"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return found
    for value in vars(module).values():
        if not isinstance(value, polyloom.Kernel) or value.__module__ != name or value.key in found["kernels"]:
            continue
        started = time.process_time()
        try:
            value.compile()
            end = "compiles"
        except polyloom.CompileError as error:
            # As the sentences about what Polyloom does not have of Warp end.
            is_absent = any(" is not there: Polyloom is without" in each.message for each in error.diagnostics)
            end = "absent" if is_absent else error.msg.splitlines()[0]
        except Exception as error:
            is_generic = "generic" in str(error)
            end = "generic" if is_generic else f"{type(error).__name__}: {str(error).splitlines()[0]}"
        found["kernels"][value.key] = {"end": end, "seconds": time.process_time() - started}
    return found


def modules_of(package: str) -> list[str]:
    """The modules of an installed package, none of which is imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"there is no package {package!r}: install it first")
    file = Path(spec.origin)
    if file.name != "__init__.py":
        return [package]
    paths = sorted(file.parent.rglob("*.py"))
    names = [path.relative_to(file.parent.parent).with_suffix("").parts for path in paths]
    return [".".join(parts[:-1] if parts[-1] == "__init__" else parts) for parts in names]


def run(package: str, modules: list[str], seconds: int) -> dict[str, dict[str, Any]]:
    """Examines modules in one process, and in another from the next on where a module ends the process."""
    output = WORK / f"{package}.json"
    output.unlink(missing_ok=True)
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "POLYLOOM_ERRORS": "launch",
        "POLYLOOM_CACHE": "0",
        "MPLBACKEND": "agg",
    }
    found: dict[str, dict[str, Any]] = {}
    with open(WORK / f"{package}.log", "w") as log:
        while len(found) < len(modules):
            command = [sys.executable, __file__, "--modules", str(output), str(seconds), *modules[len(found) :]]
            subprocess.run(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            lines = output.read_text().splitlines() if output.exists() else []
            found = dict(zip(modules, map(json.loads, lines), strict=False))
            if len(found) < len(modules):
                with open(output, "a") as lines_of_modules:
                    lines_of_modules.write(json.dumps({"import": "ends the process", "kernels": {}}) + "\n")
                found[modules[len(found)]] = {"import": "ends the process", "kernels": {}}
    return found


class TimeOut(BaseException):
    """A module takes too long."""


def examine_each(output: str, seconds: int, modules: list[str]) -> None:
    """Examines modules one after the other, and adds a line of JSON to a file for each."""

    def on_alarm(number: int, frame: Any) -> None:
        raise TimeOut(f"takes longer than {seconds} s")

    signal.signal(signal.SIGALRM, on_alarm)
    with open(output, "a") as lines:
        for module in modules:
            signal.alarm(seconds)
            try:
                found = examine(module)
            except TimeOut as error:
                found = {"import": str(error), "kernels": {}}
            finally:
                signal.alarm(0)
            lines.write(json.dumps(found) + "\n")
            lines.flush()


def report(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    lines = [
        "| package | modules | imported | core kernels | compile | longest, s | generic | use what there is not |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    details = []
    for package, modules in found.items():
        kernels = [kernel for module in modules.values() for kernel in module["kernels"].values()]
        ends = Counter(kernel["end"] for kernel in kernels)
        n_core = len(kernels) - ends["generic"] - ends["absent"]
        share = f" ({100 * ends['compiles'] / n_core:.1f} %)" if n_core else ""
        longest = max((kernel["seconds"] for kernel in kernels), default=0.0)
        n_imported = sum(not module["import"] for module in modules.values())
        lines.append(
            f"| {package} | {len(modules)} | {n_imported} | {n_core} | {ends['compiles']}{share} | {longest:.2f} "
            f"| {ends['generic']} | {ends['absent']} |"
        )
        for name, module in modules.items():
            if module["import"]:
                details.append(f"- {name}: not imported: {module['import']}")
            for key, kernel in module["kernels"].items():
                if kernel["end"] not in ("compiles", "generic", "absent"):
                    details.append(f"- {name}.{key}: {kernel['end']}")
    return "\n".join([*lines, "", *details, ""])


def main() -> None:
    if sys.argv[1:2] == ["--modules"]:
        examine_each(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
        sys.stdout.flush()
        os._exit(0)  # threads that a module has started are not waited for
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packages", nargs="+", metavar="PACKAGE")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", type=Path, help="a page for the table")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        ends = pool.map(lambda package: run(package, modules_of(package), options.seconds), options.packages)
        found = dict(zip(options.packages, ends, strict=True))
    text = report(found)
    (WORK / "report.md").write_text(text)
    if options.write:
        from warp_names import with_section  # imports both packages

        table = text.partition("\n\n")[0]
        options.write.write_text(with_section(options.write.read_text(), "packages", f"{INTRODUCTION}\n\n{table}"))
    print(text, end="")


if __name__ == "__main__":
    main()
