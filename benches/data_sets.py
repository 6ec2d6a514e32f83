"""How fast data sets are made, beside Warp's code generator: `python benches/data_sets.py` prints the table.

Rows a second at each level of verification, forward and backward CUDA C++ in them, by two threads. Warp's rate is that
of its generator alone, of the same kernels' forward and backward CUDA C++, nothing verified, by two processes at once:
`polyloom._synth_warp`, which `emitter="warp"` uses. Every rate is the median of runs with different seeds, each run
and each process of Warp's new.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import turns

SEEDS = (101, 102, 103)
N_CORES = 2
TEXT_COLUMNS = ["id", "kernel_name", "category", "python_source", "cuda_forward", "cuda_backward", "metadata"]
# Rows of a run at each level, some seconds' worth.
ROWS = {"compile": 10_000, "run": 2_000, "grad": 1_500, "full": 500}
# Kernels that each process of Warp's takes.
WARP_KERNELS = 200


def produce(level: str, seed: int, columns: list[str] | None) -> dict[str, Any]:
    """The rate of one run, without NVRTC; the first row sets the compiler up, and its time counts."""
    from polyloom import synth

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rows"
        started = time.perf_counter()
        synth.produce(ROWS[level], output, seed=seed, verify=level, nvrtc=False, columns=columns, jobs=N_CORES)
        return {"rate": ROWS[level] / (time.perf_counter() - started)}


def warp(part: int, seed: int) -> dict[str, Any]:
    """The rate of Warp's generator over the kernels of a data set that it takes, and how many these are."""
    from polyloom import _synth_warp, synth

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rows"
        count = WARP_KERNELS * N_CORES
        synth.produce(count, output, seed=seed, verify="parse", columns=TEXT_COLUMNS[:4], jobs=1)
        lines = [line for file in sorted(output.glob("data/*.jsonl")) for line in file.read_text().splitlines()]
    kernels = [json.loads(line) for line in lines][part::N_CORES]
    _synth_warp.check()
    n_taken, seconds = 0, 0.0
    for kernel in kernels:
        started = time.perf_counter()
        try:
            _synth_warp.text(kernel["kernel_name"], kernel["python_source"], "cuda")
        except Exception:
            # What Warp does not take is not counted, nor is the time until it says so.
            continue
        seconds += time.perf_counter() - started
        n_taken += 1
    return {"rate": n_taken / seconds, "taken": n_taken / len(kernels)}


def child(arguments: list[str], cache: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).resolve()), "--child", *arguments]
    return subprocess.Popen(command, env=turns.environment(N_CORES, cache), stdout=subprocess.PIPE, text=True)


def answered(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"data sets: a run failed with {process.returncode}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def collect() -> dict[str, list[float]]:
    """By level, `full, all columns` and `warp`: rates."""
    rates: dict[str, list[float]] = {}
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder)
            for level in ROWS:
                print(f"data sets: {level}, seed {seed}", file=sys.stderr, flush=True)
                rates.setdefault(level, []).append(answered(child([level, str(seed), "text"], cache))["rate"])
            found = answered(child(["full", str(seed), "all"], cache))
            rates.setdefault("full, all columns", []).append(found["rate"])
            print(f"data sets: Warp, seed {seed}", file=sys.stderr, flush=True)
            processes = [child(["warp", str(part), str(seed)], cache) for part in range(N_CORES)]
            parts = [answered(process) for process in processes]
            rates.setdefault("warp", []).append(sum(part["rate"] for part in parts))
            rates.setdefault("taken", []).append(statistics.mean(part["taken"] for part in parts))
    return rates


def section() -> list[str]:
    """The rows for the scoreboard."""
    rates = {name: statistics.median(samples) for name, samples in collect().items()}
    taken, peer = rates.pop("taken"), rates.pop("warp")
    lines = [
        "",
        "## Data sets",
        "",
        "Rows a second with forward and backward CUDA C++ in them, each verified to a level, by two threads, and the",
        "kernels a second whose forward and backward CUDA C++ Warp's generator writes, by two processes, nothing",
        f"verified (`benches/data_sets.py`). Warp takes {taken:.0%} of the kernels; the rate is of these. NVRTC is",
        "left out.",
        "",
        "| | rows a second | over Warp's generator |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {rate:.0f} | {rate / peer:.1f}× |" for name, rate in rates.items()]
    return [*lines, f"| Warp's generator | {peer:.0f} | |"]


def main() -> None:
    if sys.argv[1:2] != ["--child"]:
        return print("\n".join(section()))
    what, *rest = sys.argv[2:]
    stream = turns.answers()
    if what == "warp":
        found = warp(int(rest[0]), int(rest[1]))
    else:
        found = produce(what, int(rest[0]), TEXT_COLUMNS if rest[1] == "text" else None)
    turns.answer(stream, found)
    return None


if __name__ == "__main__":
    main()
