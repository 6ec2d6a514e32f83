"""Runs Warp's installed tests and examples as a corpus of kernels; reports what compiles and what agrees.

Each module of Warp's runs in a process of its own, twice: its tests under Warp, with their launches recorded, and the
kernels and launches under Polyloom. `target/warp-corpus/report.md` has the failures with their places.

usage: python scripts/warp_corpus.py [--only TEXT] [--seconds N] [--jobs N] [--times N] [--write docs/warp.md]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from corpus import report
from warp_names import with_section

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "warp-corpus"
# Modules that start processes of their own, or take minutes over one array.
SKIPPED_MODULES = {"test_examples", "test_large", "test_swept_volume", "test_render_opengl", "test_import"}
# Folders whose kernels are no core kernels.
SKIPPED = {"fem", "tile", "cuda", "assets", "distributed", "aot", "deterministic"}


def modules() -> list[str]:
    spec = importlib.util.find_spec("warp")
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    found = []
    for folder, prefix in (("tests", ("test_", "aux_")), ("examples", ("example_", "benchmark_"))):
        for path in sorted((package / folder).rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            is_skipped = path.stem in SKIPPED_MODULES or SKIPPED.intersection(parts)
            if path.name.startswith(prefix) and not is_skipped:
                found.append(".".join(parts))
    return found


def run(module: str, seconds: int, n_times: int) -> dict[str, Any]:
    output = WORK / f"{module}.json"
    output.unlink(missing_ok=True)
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'scripts'}{os.pathsep}{ROOT / 'python'}",
        "WARP_CORPUS_CACHE": str(WORK / "cache"),
        "POLYLOOM_CACHE": "0",
        "MPLBACKEND": "agg",
    }
    log = WORK / f"{module}.log"
    with open(log, "w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "corpus.worker", module, str(output), str(seconds), str(n_times)],
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=WORK,
            start_new_session=True,
        )
        try:
            process.wait(timeout=4 * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
    if output.exists():
        return json.loads(output.read_text())
    result = {"module": module, "stopped": f"the process ended with {process.returncode}", "units": []}
    output.write_text(json.dumps(result))
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--times", type=int, default=0, help="measure compile times of so many kernels of each module")
    parser.add_argument("--again", action="store_true", help="run only the modules that had failures the last time")
    parser.add_argument("--write", metavar="PAGE", help="put the section about the corpus into this page")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in modules() if options.only in name]
    if options.again:
        failed = {result["module"] for result in report.load(WORK) if report.has_failures(result)}
        known = {result["module"] for result in report.load(WORK)}
        chosen = [name for name in chosen if name in failed or name not in known]
    start = time.time()
    with ThreadPoolExecutor(options.jobs) as pool:
        for finished in as_completed([pool.submit(run, name, options.seconds, options.times) for name in chosen]):
            done = finished.result()
            n = len(done["units"])
            print(f"{time.time() - start:6.0f} s  {done['module']}: {n} kernels {done['stopped'] or ''}", flush=True)
    results = [result for result in report.load(WORK) if options.again or options.only in result["module"]]
    units = report.merged(results)
    (WORK / "report.md").write_text(report.detailed(units, results))
    section = report.section(units, results)
    print(section)
    if options.write:
        page = Path(options.write)
        page.write_text(with_section(page.read_text(), "corpus", section))


if __name__ == "__main__":
    main()
