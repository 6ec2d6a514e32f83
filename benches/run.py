"""Measures Polyloom against NumPy, Numba and Warp on this machine and writes docs/scoreboard.md.

    python benches/run.py [--rounds 3] [--out docs/scoreboard.md]

Every figure comes from a process of its own per peer, thread count and round; rounds rotate the peers, so that drift
hits all alike. A cell is the median over rounds of the median over runs. Ratios compare cells of one run. One thread
means pinned to one core with every pool set to 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEERS = ["polyloom", "polyloom fast", "numpy", "numba", "numba fastmath", "warp"]
OWN, OTHERS = PEERS[:2], PEERS[2:]
WORKLOADS = ["saxpy", "nbody", "stencil", "mandelbrot", "monte_carlo"]
# Workloads that the memory bounds, and how many elements of it they go through.
MEMORY_BOUND = {"saxpy": 10_000_000, "stencil": 2048 * 2048}
KERNELS = HERE / "small_kernels.py"


def environment(threads: int, cache: Path) -> dict[str, str]:
    env = dict(os.environ)
    for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "POLYLOOM"):
        env[f"{name}_NUM_THREADS"] = str(threads)
    env["POLYLOOM_CACHE"] = "0"
    env["WARP_CACHE_PATH"] = str(cache / "warp")
    env["NUMBA_CACHE_DIR"] = str(cache / "numba")
    return env


def pinned(threads: int) -> list[str]:
    return ["taskset", "-c", "0"] if threads == 1 and shutil.which("taskset") else []


def median_seconds(run: Callable[[], Any], budget: float = 1.5) -> float:
    """Median seconds of a run, after warming up until tiers and caches have settled."""
    started = time.perf_counter()
    runs = 0
    while runs < 3 or time.perf_counter() - started < budget / 2:
        run()
        runs += 1
    samples = []
    started = time.perf_counter()
    while len(samples) < 5 or time.perf_counter() - started < budget:
        before = time.perf_counter()
        run()
        samples.append(time.perf_counter() - before)
    return statistics.median(samples)


def measure_workloads(peer: str) -> dict[str, Any]:
    import numpy as np
    import workloads

    results = {}
    expected = np.load(os.environ["EXPECTED"])
    for name, (run, result) in workloads.build(peer).items():
        run()
        got, want = np.asarray(result(), np.float64), expected[name]
        if name == "mandelbrot":
            # A rounding error decides on the count of points at the edge.
            error, most = np.mean(got != want), 1e-2
        else:
            error, most = np.abs(got - want).max() / np.abs(want).max(), 2e-3
        assert error < most, f"{name}: an error of {error}"
        results[name] = median_seconds(run)
    return results


def measure_launch(peer: str) -> dict[str, Any]:
    """Seconds of a warm launch of a kernel with three array arguments and one thread."""
    import numpy as np

    arrays = [np.ones(4, np.float32) for _ in range(3)]
    if peer == "numba":
        import numba

        @numba.njit
        def add(a: Any, b: Any, c: Any) -> None:
            c[0] = a[0] + b[0]

        def call() -> None:
            add(*arrays)
    else:
        if peer == "warp":
            import warp as wp

            wp.config.quiet = True
            arrays = [wp.array(a, device="cpu", copy=False) for a in arrays]
        else:
            import polyloom as wp

        @wp.kernel
        def add(a: wp.array(dtype=float), b: wp.array(dtype=float), c: wp.array(dtype=float)):
            i = wp.tid()
            c[i] = a[i] + b[i]

        launch = wp.launch
        if peer == "warp":

            def call() -> None:
                launch(add, 1, inputs=arrays, device="cpu")
        else:

            def call() -> None:
                launch(add, 1, arrays)

    for _ in range(2000):
        call()
    samples = []
    for _ in range(30):
        before = time.perf_counter()
        for _ in range(2000):
            call()
        samples.append((time.perf_counter() - before) / 2000)
    return {"launch": statistics.median(samples)}


def measure_compile(peer: str) -> dict[str, Any]:
    """Seconds from source text to something that runs, kernel by kernel, with nothing cached."""
    import linecache

    text = KERNELS.read_text()
    chunks = ["@wp.kernel" + part for part in text.split("@wp.kernel")[1:]]
    samples = []
    if peer == "polyloom":
        import polyloom as wp
    elif peer == "warp":
        import warp as wp

        wp.config.quiet = True
        wp.init()
    else:
        import numba
    sources = NUMBA_KERNELS if peer == "numba" else chunks
    for index, chunk in enumerate([sources[0], *sources]):
        # The first chunk is compiled twice, under two names: the first time is warm-up.
        file = f"<small kernel {index}>"
        if peer == "numba":
            namespace: dict[str, Any] = {"numba": numba, "math": __import__("math")}
        else:
            if peer == "warp":
                # Warp compiles per module and looks source up by file.
                path = Path(tempfile.mkdtemp()) / f"small_{index}.py"
                path.write_text("import warp as wp\n" + chunk)
                file = str(path)
            namespace = {"wp": wp, "__name__": f"small_{index}"}
        source = Path(file).read_text() if peer == "warp" else chunk
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        code = compile(source, file, "exec")
        before = time.perf_counter()
        if peer == "warp":
            import importlib.util

            spec = importlib.util.spec_from_file_location(f"small_{index}", file)
            module = importlib.util.module_from_spec(spec)
            sys.modules[f"small_{index}"] = module
            spec.loader.exec_module(module)
            wp.load_module(module, device="cpu")
        else:
            exec(code, namespace)
            if peer == "polyloom":
                next(v for v in namespace.values() if isinstance(v, wp.Kernel)).compile()
        if index:
            samples.append(time.perf_counter() - before)
    return {"compile": statistics.median(samples), "compile_all": samples}


NUMBA_KERNELS = [
    """
@numba.njit("void(float32, float32[::1], float32[::1])")
def saxpy(a, x, y):
    for i in range(x.size):
        y[i] = a * x[i] + y[i]
""",
    """
@numba.njit("void(float32[:, ::1], float32[:, ::1])")
def stencil(a, b):
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
""",
    """
@numba.njit("void(float32[::1], float32[::1], float32)")
def logistic(x, y, k):
    for i in range(x.size):
        y[i] = 1.0 / (1.0 + math.exp(-k * x[i]))
""",
    """
@numba.njit("void(float32[::1], float32[::1])")
def polynomial(x, y):
    for i in range(x.size):
        s = x[i]
        for n in range(8):
            s = s * x[i] + 0.5
        y[i] = s
""",
    """
@numba.njit("void(float32[::1], float32[::1], float32, float32)")
def integrate(p, v, dt, g):
    for i in range(p.size):
        w = v[i] - g * dt
        q = p[i] + w * dt
        if q < 0.0:
            q = -q
            w = -0.5 * w
        p[i] = q
        v[i] = w
""",
    """
@numba.njit("void(float32[::1], int32[::1], float32, float32)")
def histogram(x, bins, low, width):
    for i in range(x.size):
        b = int(math.floor((x[i] - low) / width))
        if b >= 0 and b < bins.shape[0]:
            bins[b] += 1
""",
    """
@numba.njit("void(int32[::1], int32[::1])")
def collatz(x, steps):
    for i in range(x.size):
        n = x[i]
        count = 0
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            count += 1
        steps[i] = count
""",
    """
@numba.njit("void(float32[:, ::1], float32[::1])")
def row_sum(a, out):
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j]
        out[i] = total
""",
]


def child(task: str, peer: str) -> None:
    sys.path.insert(0, str(HERE))
    measure = {"workloads": measure_workloads, "launch": measure_launch, "compile": measure_compile}[task]
    print(json.dumps(measure(peer)))


def run_child(task: str, peer: str, threads: int, cache: Path) -> dict[str, Any]:
    command = [*pinned(threads), sys.executable, str(HERE / "run.py"), "--child", task, peer]
    done = subprocess.run(command, env=environment(threads, cache), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{task} with {peer} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def stream_limit(name: str, elements: int, threads: int, build: Path) -> float:
    """Seconds of a workload as a plain C loop, which the memory bounds."""
    program = build / "stream"
    if not program.exists():
        flags = ["-O3", "-march=native", "-fopenmp"]
        subprocess.run(["gcc", *flags, str(HERE / "stream.c"), "-o", str(program)], check=True)
    command = [*pinned(threads), str(program), str(elements), str(threads), name]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def write_expected(path: Path) -> None:
    import numpy as np

    sys.path.insert(0, str(HERE))
    import workloads

    np.savez(path, **workloads.expected())


def collect(rounds: int) -> dict[tuple[str, int, str], float]:
    samples: dict[tuple[str, int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        os.environ["EXPECTED"] = str(cache / "expected.npz")
        write_expected(cache / "expected.npz")
        for index in range(rounds):
            order = PEERS[index % len(PEERS) :] + PEERS[: index % len(PEERS)]
            for threads in (1, 2):
                for name, elements in MEMORY_BOUND.items():
                    limit = stream_limit(name, elements, threads, cache)
                    samples.setdefault(("limit", threads, name), []).append(limit)
                for peer in order:
                    print(f"round {index + 1}/{rounds}: {peer}, {threads} thread(s)", file=sys.stderr, flush=True)
                    for name, seconds in run_child("workloads", peer, threads, cache).items():
                        samples.setdefault((peer, threads, name), []).append(seconds)
            for peer in ("polyloom", "numba", "warp"):
                for task in ("launch", "compile"):
                    fresh = cache / f"{task}{index}"
                    for name, value in run_child(task, peer, 1, fresh).items():
                        if name != "compile_all":
                            samples.setdefault((peer, 1, name), []).append(value)
    return {key: statistics.median(values) for key, values in samples.items()}


def pretty(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def report(cells: dict[tuple[str, int, str], float], rounds: int) -> str:
    from importlib.metadata import version

    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    lines = [
        "# Scoreboard",
        "",
        "Written by `make bench`; the method is in `benches/run.py`, the workloads in `benches/workloads.py`.",
        "",
        f"- machine: {processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        f"- commit: {commit}, {time.strftime('%Y-%m-%d')}, medians of {rounds} rounds",
        "- peers: "
        + ", ".join(f"{p} {version(p if p != 'warp' else 'warp-lang')}" for p in ("numpy", "numba", "warp")),
        "",
        "Ratios are the peer's time over Polyloom's: above 1, Polyloom is faster. Polyloom is in its float mode",
        "`strict`; peers that may reorder arithmetic (`fastmath`) are compared with its mode `fast`. Warp runs CPU",
        "kernels on one thread. Compile times are medians over the same eight kernels.",
        "",
    ]
    for threads in (1, 2):
        lines += [
            f"## Run time, {threads} thread{'s' if threads > 1 else ''}",
            "",
            "| workload | " + " | ".join(OWN) + " | " + " | ".join(f"{p} (ratio)" for p in OTHERS) + " |",
            "|---|" + "---|" * len(PEERS),
        ]
        for name in WORKLOADS:
            row = [pretty(cells[p, threads, name]) for p in OWN]
            for peer in OTHERS:
                own = cells["polyloom fast" if "fast" in peer else "polyloom", threads, name]
                row.append(f"{pretty(cells[peer, threads, name])} ({cells[peer, threads, name] / own:.2f}×)")
            lines.append(f"| {name} | " + " | ".join(row) + " |")
        lines.append("")
        for name in MEMORY_BOUND:
            own, limit = cells["polyloom", threads, name], cells["limit", threads, name]
            lines.append(f"- {name} takes {own / limit:.2f}× the time of a plain C loop ({pretty(limit)}).")
        lines.append("")
    lines += ["## Compile and launch", "", "| | polyloom | numba (ratio) | warp (ratio) |", "|---|---|---|---|"]
    for name, title in (("compile", "source text to callable, small kernel"), ("launch", "warm launch, three arrays")):
        own = cells["polyloom", 1, name]
        row = [f"{pretty(cells[p, 1, name])} ({cells[p, 1, name] / own:.1f}×)" for p in ("numba", "warp")]
        lines.append(f"| {title} | {pretty(own)} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] == "--child":
        return child(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "scoreboard.md")
    options = parser.parse_args()
    text = report(collect(options.rounds), options.rounds)
    options.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
