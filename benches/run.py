"""Measures Polyloom against NumPy, Numba and Warp on this machine and writes docs/scoreboard.md.

    python benches/run.py [--rounds 25] [--out docs/scoreboard.md]

Peers are processes that stay alive and take turns of a few runs each (`turns.py`). A cell is the median over turns of
the median over a turn's runs; a ratio is the median over rounds of the ratios of that round's turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_sets
import gpu
import gpu_code
import gradients
import latency
import turns
from turns import VERY_LONG_RUN, Server, pretty

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEERS = ["polyloom", "polyloom fast", "numpy", "numba", "numba fastmath", "warp"]
OWN, OTHERS = PEERS[:2], PEERS[2:]
# Plain C loops for the workloads that the memory bounds.
LIMIT = "c loop"
# Runs longer than this, in seconds, have a turn in every fifth round, and those longer than `VERY_LONG_RUN` in the
# first round only.
LONG_RUN = 0.04
KERNELS = HERE / "small_kernels.py"


def check(name: str, got: Any, want: Any) -> None:
    import numpy as np

    got = np.asarray(got, np.float64)
    if name == "mandelbrot":
        # A rounding error decides on the count of points at the edge.
        error, most = np.mean(got != want), 1e-2
    else:
        error, most = np.abs(got - want).max() / np.abs(want).max(), 2e-3
    assert error < most, f"{name}: an error of {error}"


def serve_workloads(peer: str) -> None:
    """Builds and checks a peer's workloads, prints their names, then takes a turn for every name read."""
    import numpy as np
    import workloads

    stream = turns.answers()
    runs = {}
    expected = np.load(os.environ["EXPECTED"])
    for name, (run, result) in workloads.build(peer).items():
        run()
        check(name, result(), expected[name])
        turns.settle(run)
        runs[name] = run
    turns.answer(stream, list(runs))
    for line in sys.stdin:
        turns.answer(stream, turns.turn(runs[line.strip()]))


LAUNCHES = {
    "launch": "warm launch, three arrays",
    "launch_keywords": "the same by keywords, its lists made for it",
    "recorded": "recorded launch, three arrays",
    "recorded_five": "five recorded launches, one after the other",
    "plan_five": "the same as a plan, each a kernel of its own",
    "plan_fused": "the same as a plan, one kernel",
}


def measure_launch(peer: str) -> dict[str, Any]:
    """Seconds of warm launches of a kernel with three array arguments and one thread."""
    import numpy as np

    a, b, c = arrays = [np.ones(4, np.float32) for _ in range(3)]
    calls: dict[str, Callable[[], object]] = {}
    if peer == "numba":
        import numba

        @numba.njit
        def add(a: Any, b: Any, c: Any) -> None:
            c[0] = a[0] + b[0]

        calls["launch"] = lambda: add(*arrays)
        calls["launch_keywords"] = lambda: add(a=a, b=b, c=c)
        return {name: seconds_of(call) for name, call in calls.items()}
    if peer == "warp":
        import warp as wp

        wp.config.quiet = True
        a, b, c = arrays = [wp.array(a, device="cpu", copy=False) for a in arrays]
    else:
        import polyloom as wp

    @wp.kernel
    def add(a: wp.array(dtype=float), b: wp.array(dtype=float), c: wp.array(dtype=float)):
        i = wp.tid()
        c[i] = a[i] + b[i]

    launch = wp.launch
    if peer == "warp":
        calls["launch"] = lambda: launch(add, 1, inputs=arrays, device="cpu")
        calls["launch_keywords"] = lambda: launch(add, dim=1, inputs=[a, b], outputs=[c], device="cpu")
    else:
        calls["launch"] = lambda: launch(add, 1, arrays)
        calls["launch_keywords"] = lambda: launch(add, dim=1, inputs=[a, b], outputs=[c])
    five = [launch(add, 1, arrays, device="cpu", record_cmd=True) for _ in range(5)]
    calls["recorded"] = five[0].launch

    def one_after_the_other() -> None:
        for step in five:
            step.launch()

    calls["recorded_five"] = one_after_the_other
    if peer == "polyloom":
        calls["plan_five"] = wp.Plan(five, fuses=False).launch
        calls["plan_fused"] = wp.Plan(five).launch
    return {name: seconds_of(call) for name, call in calls.items()}


def seconds_of(call: Callable[[], object]) -> float:
    """The median of what one of many calls takes."""
    for _ in range(2000):
        call()
    samples = []
    for _ in range(30):
        before = time.perf_counter()
        for _ in range(2000):
            call()
        samples.append((time.perf_counter() - before) / 2000)
    return statistics.median(samples)


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
    if task == "workloads":
        return serve_workloads(peer)
    print(json.dumps({"launch": measure_launch, "compile": measure_compile}[task](peer)))


def run_child(task: str, peer: str, cache: Path) -> dict[str, Any]:
    command = [*turns.pinned(1), sys.executable, str(HERE / "run.py"), "--child", task, peer]
    done = subprocess.run(command, env=turns.environment(1, cache), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{task} with {peer} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def corpus_compile_times(cache: Path) -> list[dict[str, Any]]:
    """Seconds that Warp and Polyloom take for each kernel of a sample of Warp's own tests."""
    print("compile times over Warp's own tests", file=sys.stderr, flush=True)
    command = [sys.executable, str(HERE / "corpus_compile.py")]
    done = subprocess.run(command, env=turns.environment(2, cache), stdout=subprocess.PIPE, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


def build_c_loops(folder: Path) -> Path:
    library = folder / "stream.so"
    flags = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(HERE / "stream.c"), "-o", str(library)], check=True)
    return library


def write_expected(path: Path) -> None:
    import numpy as np

    sys.path.insert(0, str(HERE))
    import workloads

    np.savez(path, **workloads.expected())


# By peer, number of threads and workload: the seconds of every turn, None where a round had none.
Samples = dict[tuple[str, int, str], list[float | None]]


def collect(rounds: int) -> Samples:
    samples: Samples = {}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        os.environ["EXPECTED"] = str(cache / "expected.npz")
        os.environ["C_LOOPS"] = str(build_c_loops(cache))
        write_expected(cache / "expected.npz")
        for threads in (1, 2):
            servers = []
            for peer in [*PEERS, LIMIT]:
                print(f"{threads} thread(s): {peer} compiles and settles", file=sys.stderr, flush=True)
                servers.append(Server(peer, threads, cache, HERE / "run.py", "--child", "workloads", peer))
            for name in servers[0].has:
                print(f"{threads} thread(s): {name}, {rounds} rounds", file=sys.stderr, flush=True)
                take_turns([s for s in servers if name in s.has], threads, name, rounds, samples)
            for server in servers:
                server.close()
        for index in range(3):
            for peer in ("polyloom", "numba", "warp"):
                for task in ("launch", "compile"):
                    for name, value in run_child(task, peer, cache / f"{task}{index}").items():
                        if name != "compile_all":
                            samples.setdefault((peer, 1, name), []).append(value)
    return samples


def take_turns(servers: list[Server], threads: int, name: str, rounds: int, samples: Samples) -> None:
    for index in range(rounds):
        for server in turns.in_turn(servers, index):
            taken = samples.setdefault((server.peer, threads, name), [])
            length = taken[0] or 0.0 if taken else 0.0
            skipped = index > 0 and (length > VERY_LONG_RUN or (length > LONG_RUN and index % 5 != 0))
            taken.append(None if skipped else server.turn(name))


def seconds(samples: Samples, *key: Any) -> float:
    return statistics.median(s for s in samples[key] if s is not None)


def ratio(samples: Samples, peer: str, own: str, threads: int, name: str) -> float:
    """How many times Polyloom's time a peer takes."""
    pairs = zip(samples[peer, threads, name], samples[own, threads, name], strict=True)
    return statistics.median(a / b for a, b in pairs if a is not None and b is not None)


def machine() -> str:
    import polyloom as loom

    processor = loom.environment()["processor"]
    name = processor["name"] or processor["architecture"]
    return f"{name}, {os.cpu_count()} cores, vectors of {8 * processor['vector_bytes']} bits, {platform.system()}"


def corpus_section(rows: list[dict[str, Any]]) -> list[str]:
    """The rows about compile times over Warp's own tests."""
    ratios = sorted(row["warp"] / row["polyloom"] for row in rows)
    first, median, third = statistics.quantiles(ratios, n=4)
    middle = {peer: statistics.quantiles([row[peer] for row in rows], n=4) for peer in ("polyloom", "warp")}
    lines = [
        "",
        "## Compile times over Warp's own tests",
        "",
        f"{len(rows)} kernels, drawn with a fixed seed from the modules that `make warp-corpus` goes through",
        "(`benches/corpus_compile.py`), each compiled alone and forward only. A ratio is that of one kernel's times.",
        "",
        "| | first quartile | median | third quartile |",
        "|---|---|---|---|",
    ]
    for peer, times in middle.items():
        lines.append(f"| {peer} | " + " | ".join(pretty(time) for time in times) + " |")
    return [*lines, f"| Warp takes | {first:.0f}× | {median:.0f}× | {third:.0f}× |"]


def report(samples: Samples, rounds: int, corpus: list[dict[str, Any]]) -> str:
    from importlib.metadata import version

    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    lines = [
        "# Scoreboard",
        "",
        "Written by `make bench`; the method is in `benches/run.py`, the workloads in `benches/workloads.py`.",
        "",
        f"- machine: {machine()} {platform.release()}",
        f"- commit: {commit}, {time.strftime('%Y-%m-%d')}, medians of {rounds} rounds of turns",
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
        for name in (n for p, t, n in samples if p == OWN[0] and t == threads and n not in ("compile", *LAUNCHES)):
            row = [pretty(seconds(samples, p, threads, name)) for p in OWN]
            for peer in OTHERS:
                if (peer, threads, name) not in samples:
                    row.append("")
                    continue
                own = OWN["fast" in peer]
                peers = ratio(samples, peer, own, threads, name)
                row.append(f"{pretty(seconds(samples, peer, threads, name))} ({peers:.2f}×)")
            lines.append(f"| {name} | " + " | ".join(row) + " |")
        lines.append("")
        for name in (n for p, t, n in samples if p == LIMIT and t == threads):
            own_ratio = 1 / ratio(samples, LIMIT, OWN[0], threads, name)
            limit = pretty(seconds(samples, LIMIT, threads, name))
            lines.append(f"- {name} takes {own_ratio:.2f}× the time of a plain C loop ({limit}).")
        lines.append("")
    lines += ["## Compile and launch", "", "| | polyloom | numba (ratio) | warp (ratio) |", "|---|---|---|---|"]
    for name, title in {"compile": "source text to callable, small kernel", **LAUNCHES}.items():
        own = seconds(samples, "polyloom", 1, name)
        of_peers = [seconds(samples, p, 1, name) if (p, 1, name) in samples else None for p in ("numba", "warp")]
        row = ["" if s is None else f"{pretty(s)} ({s / own:.1f}×)" for s in of_peers]
        lines.append(f"| {title} | {pretty(own)} | " + " | ".join(row) + " |")
    lines += corpus_section(corpus)
    lines += gradients.section()
    lines += latency.section()
    lines += gpu_code.section()
    lines += data_sets.section()
    lines += gpu.section()
    return "\n".join(lines) + "\n"


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] == "--child":
        return child(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "scoreboard.md")
    options = parser.parse_args()
    samples = collect(options.rounds)
    with tempfile.TemporaryDirectory() as cache:
        corpus = corpus_compile_times(Path(cache))
    text = report(samples, options.rounds, corpus)
    options.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
