"""What the planner runs against the best path there is, and against other libraries; `make bench` writes docs/paths.md.

A case is a function of `planned_graphs.py` at certain extents. For each, the path that `heuristic` takes with an
empty database is noted, then the one of `fastest` after profiling as `polyloom profile --offline` does it, and then
every path that the search finds is measured, in a database of its own. The default, both chosen paths and the fastest
of that exhaustive measurement then run in turns with the peers, through the function as a program calls it.

    python benches/planner.py [--rounds 7] [--threads 2] [--only TEXT …] [--peers NAME …] [--out docs/paths.md]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import planned_graphs
import turns
import warm_start

PEERS = ["numpy", "jax", "torch", "torch.compile"]
MODULES = {"torch.compile": "torch"}
# The seconds for profiling one computation, and for measuring all its paths.
PROFILE, EXHAUSTIVE = 6.0, 12.0
# The paths of the exhaustive measurement that are timed again beside the chosen ones.
N_FINALISTS = 4
WITHIN_FASTEST, WITHIN_HEURISTIC = 0.05, 0.30


def build(peer: str, case: str) -> Callable[[], Any]:
    """What runs a case by a peer, with its arrays as the peer has them."""
    function, shapes = planned_graphs.cases()[case]
    given = planned_graphs.inputs(function, shapes)
    if peer == "numpy":
        run = planned_graphs.numpy_functions()[function]
        return lambda: run(*given)
    if peer == "jax":
        import jax

        run, held = planned_graphs.jax_functions()[function], [jax.numpy.asarray(each) for each in given]
        return lambda: jax.block_until_ready(run(*held))
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    run = planned_graphs.torch_functions(peer == "torch.compile")[function]
    tensors = [torch.from_numpy(each) for each in given]
    return lambda: run(*tensors)


def check(name: str, case: str, got: Any) -> None:
    """Compares a result with NumPy's in float64."""
    function, shapes = planned_graphs.cases()[case]
    given = [each.astype(np.float64) for each in planned_graphs.inputs(function, shapes)]
    want = np.asarray(planned_graphs.numpy_functions(np.float64)[function](*given))
    got = np.asarray(got, np.float64)
    error = np.abs(got - want).max() / max(np.abs(want).max(), 1e-30)
    assert got.shape == want.shape and error < 2e-4, f"{name}: {case}: an error of {error}"


class PlannedCase:
    """A case as the planner runs it: its paths can be taken one by one."""

    def __init__(self, case: str, float_mode: str) -> None:
        import polyloom as loom

        function, shapes = planned_graphs.cases()[case]
        self.case, self.values = case, planned_graphs.inputs(function, shapes)
        self.function = planned_graphs.own()[function]
        self.float_mode = float_mode
        self.recipes: dict[str, str | None] = {}
        self.fused = loom.fuse(self.function, policy="fastest", float_mode=float_mode)
        self.taken = ""

    def candidates(self, policy: str, measure: float = 0.0, n_paths: int = 16) -> list[dict[str, Any]]:
        """The candidates of a new function of a policy. All cases have one group."""
        import polyloom as loom

        fused = loom.fuse(self.function, policy=policy, float_mode=self.float_mode)
        (group,) = fused.plan(*self.values, measure=measure, n_paths=n_paths).groups
        self.recipes |= {each["hash"]: None if each["is_default"] else each["recipe"] for each in group["candidates"]}
        self.why = group["why"]
        found: list[dict[str, Any]] = group["candidates"]
        return found

    def prepare(self, folder: Path) -> dict[str, Any]:
        """Chooses by both policies, measures all paths, and says which are to run."""
        import polyloom as loom

        loom.config.database = folder / "cold.db"
        heuristic = next(each for each in self.candidates("heuristic") if each["is_chosen"])
        loom.config.database = folder / "profiled.db"
        profiled = self.candidates("fastest", PROFILE)
        fastest, why = next(each for each in profiled if each["is_chosen"]), self.why
        loom.config.database = folder / "exhaustive.db"
        every = self.candidates("fastest", EXHAUSTIVE, 256)
        measured = sorted((each for each in every if each["measured_ns"]), key=lambda each: each["measured_ns"])
        default = next(each for each in every if each["is_default"])
        finalists = [each["hash"] for each in measured[:N_FINALISTS]]
        chosen = [default["hash"], heuristic["hash"], fastest["hash"]]
        self.fused(*self.values)
        for each in dict.fromkeys(chosen + finalists):
            self.take(each)
            check(each, self.case, self.fused(*self.values))
        return {
            "default": default["hash"],
            "heuristic": heuristic["hash"],
            "fastest": fastest["hash"],
            "why": why,
            "finalists": list(dict.fromkeys(chosen + finalists)),
            "n_paths": len(measured),
            "paths": {each["hash"]: each["path"] for each in [*every, *profiled, heuristic]},
            "predicted": {each["hash"]: each["predicted_ns"] for each in [*profiled, *every]},
        }

    def take(self, path: str) -> None:
        """Makes the function run a path."""
        if path != self.taken:
            (group,) = self.groups()
            group._pin_path(self.recipes[path])
            self.taken = path

    def groups(self) -> list[Any]:
        from polyloom._fusion_text import FUSION

        return [each.native for each in self.fused.__dict__[FUSION].analysed().groups if each.n_runs]

    def turn(self, path: str) -> float:
        self.take(path)
        turns.settle(lambda: self.fused(*self.values), 0.02)
        return turns.turn(lambda: self.fused(*self.values))


def serve_planner(float_mode: str) -> None:
    """Calibrates, and then answers: `prepare CASE`, and a turn for each `CASE` with a path."""
    stream = turns.answers()
    os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp()
    from polyloom import _native

    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    _, rates = _native.calibrate_machine(lambda backend: None)
    turns.answer(stream, json.loads(rates))
    current: PlannedCase | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["what"] == "prepare":
            current = PlannedCase(asked["case"], float_mode)
            turns.answer(stream, current.prepare(Path(tempfile.mkdtemp())))
        else:
            assert current is not None
            turns.answer(stream, current.turn(asked["path"]))


def serve(peer: str) -> None:
    """Builds and checks the case that is named, and takes a turn for every name after it."""
    stream = turns.answers()
    turns.answer(stream, list(planned_graphs.cases()))
    current, run = "", None
    for line in sys.stdin:
        case = line.strip()
        if case != current:
            run, current = build(peer, case), case
            check(peer, case, run())
            turns.settle(run, 0.3)
        turns.answer(stream, turns.turn(run))


class PlannerServer(turns.Server):
    """The process of the planner."""

    def ask(self, **what: Any) -> Any:
        time.sleep(0.02)
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.answer()


def measure(case: str, planner: PlannerServer, peers: list[turns.Server], rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = planner.ask(what="prepare", case=case)
    samples: dict[str, list[float]] = {}
    for index in range(rounds):
        for each in turns.in_turn([*found["finalists"], *peers], index):
            if isinstance(each, str):
                samples.setdefault(each, []).append(planner.ask(what="turn", path=each))
            else:
                samples.setdefault(each.peer, []).append(each.turn(case))
    found["seconds"] = {name: statistics.median(each) for name, each in samples.items()}
    # Ratios are of the turns of one round, which are near in time.
    found["best"] = min(found["finalists"], key=lambda path: found["seconds"][path])
    for name in ("default", "heuristic", "fastest"):
        pairs = zip(samples[found[name]], samples[found["best"]], strict=True)
        found[f"{name} ratio"] = statistics.median(own / best for own, best in pairs)
    for peer in peers:
        pairs = zip(samples[peer.peer], samples[found["fastest"]], strict=True)
        found[peer.peer] = statistics.median(theirs / ours for theirs, ours in pairs)
    return found


def summary(results: dict[str, Any], peers: list[str]) -> list[str]:
    n = len(results)
    within = {
        name: sum(each[f"{name} ratio"] <= 1 + limit for each in results.values())
        for name, limit in (("fastest", WITHIN_FASTEST), ("heuristic", WITHIN_HEURISTIC))
    }
    worst = {name: max(results, key=lambda case, name=name: results[case][f"{name} ratio"]) for name in within}
    lines = [
        "| policy | within | of its cases | geometric mean | worst |",
        "|---|---|---|---|---|",
    ]
    for name, limit in (("fastest", WITHIN_FASTEST), ("heuristic", WITHIN_HEURISTIC), ("default", WITHIN_HEURISTIC)):
        ratios = [each[f"{name} ratio"] for each in results.values()]
        n_within = sum(ratio <= 1 + limit for ratio in ratios)
        case = worst.get(name) or max(results, key=lambda case: results[case]["default ratio"])
        lines.append(
            f"| `{name}` | {limit:.0%} of the best path | {n_within} of {n} ({n_within / n:.0%}) | "
            f"{statistics.geometric_mean(ratios):.3f} | {max(ratios):.2f}, {case} |"
        )
    lines += [
        "",
        "| peer | geometric mean of its time over `fastest`'s | cases in which it is faster |",
        "|---|---|---|",
    ]
    for peer in peers:
        ratios = [each[peer] for each in results.values() if peer in each]
        if ratios:
            n_faster = sum(ratio < 0.98 for ratio in ratios)
            lines.append(f"| {peer} | {statistics.geometric_mean(ratios):.2f}× | {n_faster} of {len(ratios)} |")
    return lines


def table(results: dict[str, Any], peers: list[str]) -> list[str]:
    lines = [
        f"| case | best path | time | paths | `fastest` | `heuristic` | default | {' | '.join(peers)} |",
        "|---" * (7 + len(peers)) + "|",
    ]
    for case, each in results.items():
        best = each["best"]
        ratios = [f"{each[f'{name} ratio']:.2f}" for name in ("fastest", "heuristic", "default")]
        of_peers = [f"{each[peer]:.2f}×" if peer in each else "" for peer in peers]
        cells = [case, each["paths"].get(best, "?"), turns.pretty(each["seconds"][best]), str(each["n_paths"])]
        lines.append(f"| {' | '.join([*cells, *ratios, *of_peers])} |")
    return lines


def page(results: dict[str, Any], peers: list[str], rates: Any, start: str, options: argparse.Namespace) -> list[str]:
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "")
    named = sorted({MODULES.get(peer, peer) for peer in peers})
    calibrated = []
    for name, each in rates["backends"].items():
        if each["source"] == "calibrated":
            calibrated.append(
                f"  - {name}: a launch {each['launch_ns'] / 1e3:.2f} µs, memory {each['bytes_per_ns']:.0f} GB/s, cache "
                f"{each['cached_bytes_per_ns']:.0f} GB/s, products {each['product_flops_per_ns']:.0f} GFLOP/s"
            )
    return [
        "# Chosen paths",
        "",
        "Written by `make bench`; the functions are in `benches/planned_graphs.py`.",
        "",
        f"- machine: {model}, {options.threads} threads; medians of {options.rounds} rounds of turns; floats in the "
        f"mode `{options.float_mode}`",
        f"- peers: {', '.join(f'{name} {version(name)}' for name in named)}",
        "- rates that `polyloom profile --calibrate` has measured before:",
        *calibrated,
        "",
        "For each case all paths that the search finds were measured, and the fastest of them timed again beside the",
        "chosen ones. Ratios of policies are their path's time over that of the best path: 1 is the best there is.",
        "`fastest` chooses after profiling, `heuristic` by predictions alone. Ratios of peers are the peer's time over",
        "that of `fastest`: above 1, Polyloom is faster. Results are new arrays in each call.",
        "",
        *summary(results, peers),
        "",
        f"{start[0].upper()}{start[1:]}.",
        "",
        *table(results, peers),
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--peers", nargs="*")
    parser.add_argument("--float-mode", default="fast")
    parser.add_argument("--serve")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path, help="a file for everything that was measured")
    options = parser.parse_args()
    if options.serve == "planner":
        serve_planner(options.float_mode)
        return
    if options.serve:
        serve(options.serve)
        return
    is_there = [peer for peer in PEERS if importlib.util.find_spec(MODULES.get(peer, peer))]
    peers = [peer for peer in is_there if options.peers is None or peer in options.peers]
    folder, here = Path(tempfile.mkdtemp()), Path(__file__)
    mode = ("--float-mode", options.float_mode)
    planner = PlannerServer("planner", options.threads, folder, here, "--serve", "planner", *mode)
    rates = planner.has
    servers = [turns.Server(peer, options.threads, folder, here, "--serve", peer) for peer in peers]
    results: dict[str, Any] = {}
    for case in planned_graphs.cases():
        if options.only and not any(text in case for text in options.only):
            continue
        each = results[case] = measure(case, planner, servers, options.rounds)
        of_peers = ", ".join(f"{peer} {each[peer]:.2f}×" for peer in peers)
        ratios = ", ".join(f"{name} {each[f'{name} ratio']:.2f}" for name in ("fastest", "heuristic", "default"))
        print(f"{case}: {turns.pretty(each['seconds'][each['best']])} of {each['n_paths']} paths; {ratios}; {of_peers}")
        sys.stdout.flush()
    for server in [planner, *servers]:
        server.close()
    print("\n".join(summary(results, peers)))
    start = warm_start.line(warm_start.measure(10_000, 9))
    print(start)
    if options.json:
        options.json.write_text(json.dumps({"rates": rates, "results": results, "start": start}, indent=1))
    if options.out:
        options.out.write_text("\n".join(page(results, peers, rates, start, options)))


if __name__ == "__main__":
    main()
