"""How long single calls of the order-execution set take, from Python and from `.loom`, against the same in C.

`section()` gives the lines for docs/scoreboard.md. By itself the program puts them there in place of those it has:

    python benches/latency.py [--calls 10000000] [--core N] [--svg FOLDER] [--out docs/scoreboard.md]

All functions of a row are called in turns on one core by `polyloom latency`. The C has `-O3 -march=native`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXAMPLES = ROOT / "examples" / "order_execution"
TITLE = "## Latency of single calls"

# What each function is called with; `.npy` files are made by `arrays`.
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "submit_order": (
        "order submission",
        {
            "price": "10003",
            "quantity": "7",
            "side": "1",
            "level_prices": "@level_prices.npy",
            "level_sizes": "@level_sizes.npy",
            "ring": "zeros:64x8",
            "state": "zeros:3",
        },
    ),
    "evaluate_signal": (
        "signal evaluation",
        {
            "features": "@features.npy",
            "weights": "@weights.npy",
            "means": "zeros:64",
            "signal": "zeros:2",
        },
    ),
    "check_risk": (
        "risk check",
        {
            "price": "10003",
            "quantity": "7",
            "side": "1",
            "position": "100",
            "limits": "@limits.npy",
            "verdict": "zeros:1",
        },
    ),
    "update_position": (
        "position update",
        {
            "instrument": "5",
            "price": "10003",
            "quantity": "7",
            "positions": "@positions.npy",
            "costs": "@costs.npy",
            "realised": "zeros:32",
            "exposure": "zeros:1",
        },
    ),
}


def arrays(folder: Path) -> None:
    import numpy as np

    random = np.random.default_rng(3)
    np.save(folder / "level_prices.npy", np.arange(10_008, 9_992, -1, dtype=np.int32))
    np.save(folder / "level_sizes.npy", random.integers(1, 500, 16).astype(np.int32))
    np.save(folder / "features.npy", random.normal(size=64).astype(np.float32))
    np.save(folder / "weights.npy", (random.normal(size=64) / 8).astype(np.float32))
    np.save(folder / "limits.npy", np.array([500, 4_000_000, 2_000, 10_000, 400], np.int64))
    np.save(folder / "positions.npy", np.full(32, 1_000, np.int32))
    np.save(folder / "costs.npy", random.integers(-1_000_000, 1_000_000, 32))


def compiler() -> str:
    return next((found for name in ("gcc", "cc", "clang") if (found := shutil.which(name))), "cc")


def library(folder: Path) -> Path:
    made = folder / "orders.so"
    options = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([compiler(), *options, "-o", str(made), str(EXAMPLES / "orders.c"), "-lm"], check=True)
    return made


def measure(command: list[str], source: str, name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    _, given = CASES[name]
    args = [
        f"--arg={key}={f'@{folder / value[1:]}' if value.startswith('@') else value}" for key, value in given.items()
    ]
    extra = [] if options.core is None else ["--core", str(options.core)]
    if options.svg is not None:
        extra += ["--svg", str(Path(options.svg) / f"{name}-{source.removeprefix('orders.')}.svg")]
    run = subprocess.run(
        [*command, "latency", str(EXAMPLES / source), "--kernel", name, "--calls", str(options.calls), "--json"]
        + ["--against", str(folder / "orders.so"), *extra, *args],
        capture_output=True,
        text=True,
    )
    # The command fails after printing where a promised time is exceeded, which the table shows.
    if not run.stdout:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)


def of_python() -> tuple[float, float]:
    """Nanoseconds of a call from Python: of a function of two numbers, and of a kernel over two arrays."""
    import numpy as np
    import polyloom as loom

    @loom.func
    def notional(price: loom.int32, quantity: loom.int32) -> loom.int64:
        return loom.int64(price) * loom.int64(quantity)

    @loom.kernel(critical_path=True)
    def moved(x: loom.array(dtype=loom.float32), y: loom.array(dtype=loom.float32)):
        y[0] = 2.0 * x[0]

    numbers, over_arrays = notional.function(), moved.function()
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    times = []
    for function, values in ((numbers, (10_000, 7)), (over_arrays, (x, y))):
        function.prepare()
        timer = timeit.Timer("call(a, b)", globals={"call": function, "a": values[0], "b": values[1]})
        timer.timeit(10_000)
        times.append(1e9 * statistics.median(timer.repeat(15, 100_000)) / 100_000)
    return times[0], times[1]


def ns(value: float) -> str:
    return f"{value:.1f} ns"


def section(options: argparse.Namespace | None = None) -> list[str]:
    options = options or argparse.Namespace(calls=10_000_000, core=None, svg=None)
    command = [sys.executable, "-m", "polyloom"]
    rows = []
    jitter: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        arrays(folder)
        library(folder)
        for name, (title, _) in CASES.items():
            cells = []
            target = None
            for source in ("orders.py", "orders.loom"):
                report = measure(command, source, name, folder, options)
                own, empty, other = (function["quantiles_ns"] for function in report["functions"])
                target = report["target_latency_ns"]
                for part in ("p50", "p99.9"):
                    jitter[part] = max(jitter.get(part, 0.0), empty[part])
                # The clock's own time is in all of them alike.
                means = [function["mean_ns"] for function in report["functions"]]
                body = [max(mean - means[1], 0.1) for mean in (means[0], means[2])]
                cells += [ns(own["p50"]), ns(own["p99.9"])]
                if source == "orders.py":
                    cells.append(f"{ns(other['p50'])}, {ns(other['p99.9'])}")
                cells.append(f"{body[1] / body[0]:.2f}×")
            rows.append(f"| {title} | {target} ns | {' | '.join(cells)} |")
    numbers, over_arrays = of_python()
    version = subprocess.run([compiler(), "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    return [
        TITLE,
        "",
        f"`examples/order_execution`, {options.calls:,} calls of each function on one core, in turns with the same in",
        f"C (`{version}`, `-O3 -march=native -ffp-contract=off`) and with an empty function",
        "(`benches/latency.py`). Times are of whole calls, the clock's own included, at the median and at the 99.9th",
        f"percentile: the clock and an empty function take {ns(jitter['p50'])} at the median and up to",
        f"{ns(jitter['p99.9'])} at the 99.9th. A ratio is of the C function's mean over ours, of the shortest",
        "99 % of the calls and without the clock's: above 1, Polyloom is faster.",
        "",
        "| function | promised | Python: median | 99.9 % | C: median, 99.9 % | ratio | `.loom`: median | 99.9 % "
        "| ratio |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"From Python, a call of a function of two numbers takes {ns(numbers)}, and of a kernel over two arrays",
        f"{ns(over_arrays)}: medians of 15 runs of 100,000 calls, Python's loop included.",
        "",
    ]


def replaced(page: str, lines: list[str]) -> str:
    """The page with the section in place of the one it has, or at its end."""
    before, title, after = page.partition(TITLE + "\n")
    if not title:
        return page.rstrip("\n") + "\n\n" + "\n".join(lines).rstrip("\n") + "\n"
    _, next_title, rest = after.partition("\n## ")
    return before + "\n".join(lines).rstrip("\n") + "\n" + (f"{next_title}{rest}" if next_title else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--core", type=int)
    parser.add_argument("--svg", help="a folder for the histograms")
    parser.add_argument("--out", help="the page whose section is replaced; the terminal unless given")
    options = parser.parse_args()
    lines = section(options)
    if options.out is None:
        print("\n".join(lines))
        return
    path = Path(options.out)
    path.write_text(replaced(path.read_text(encoding="utf-8"), lines), encoding="utf-8")


if __name__ == "__main__":
    main()
