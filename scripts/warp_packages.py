"""Compiles the kernels of installed packages that were written for Warp, with `warp` meaning Polyloom.

Each module is imported in a process of its own. Kernels whose parameters have all their types are compiled for the CPU;
generic ones are counted. What uses parts of Warp that Polyloom does not have, tiles for one, is refused and no core
kernel. `target/warp-packages/report.md` has the table, each module that cannot be imported, and each error.

usage: python scripts/warp_packages.py PACKAGE… [--seconds N] [--jobs N] [--write docs/warp.md]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
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

`scripts/warp_packages.py` imports each module of an installed package with `warp` meaning Polyloom, and compiles the
kernels whose parameters have all their types. Modules that are not imported need other packages, or CUDA."""


def examine(name: str) -> dict[str, Any]:
    """Imports a module and compiles its kernels: `import`, what is wrong with that, and `kernels` by their names."""
    import polyloom
    from polyloom._absent_names import ABSENT
    from polyloom._deferral import _path
    from warptests.worker import Finder

    sys.meta_path.insert(0, Finder(is_tolerant=False))
    warnings.simplefilter("ignore")

    found: dict[str, Any] = {"import": "", "kernels": {}}
    try:
        module = importlib.import_module(name)
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
            is_absent = any(name in ABSENT for each in error.diagnostics for name in _path(each)[-1:])
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


def run(module: str, seconds: int) -> dict[str, Any]:
    output = WORK / f"{module}.json"
    output.unlink(missing_ok=True)
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "POLYLOOM_ERRORS": "launch",
        "POLYLOOM_CACHE": "0",
        "MPLBACKEND": "agg",
    }
    with open(WORK / f"{module}.log", "w") as log:
        try:
            command = [sys.executable, __file__, "--module", module, str(output)]
            subprocess.run(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"import": f"takes longer than {seconds} s", "kernels": {}}
    if not output.exists():
        return {"import": "the process dies", "kernels": {}}
    found: dict[str, Any] = json.loads(output.read_text())
    return found


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
    if sys.argv[1:2] == ["--module"]:
        _, _, name, output = sys.argv
        Path(output).write_text(json.dumps(examine(name)))
        sys.stdout.flush()
        os._exit(0)  # threads that a module has started are not waited for
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packages", nargs="+", metavar="PACKAGE")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", type=Path, help="a page for the table")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for package in options.packages:
            modules = modules_of(package)
            ends = pool.map(lambda module: run(module, options.seconds), modules)
            found[package] = dict(zip(modules, ends, strict=True))
    text = report(found)
    (WORK / "report.md").write_text(text)
    if options.write:
        from warp_names import with_section  # imports both packages

        table = text.partition("\n\n")[0]
        options.write.write_text(with_section(options.write.read_text(), "packages", f"{INTRODUCTION}\n\n{table}"))
    print(text, end="")


if __name__ == "__main__":
    main()
